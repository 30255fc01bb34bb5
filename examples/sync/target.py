# SPDX-License-Identifier: MIT
"""A stand-in for internal_syncToBigQuery that misbehaves on command. The header x-behave of a task
says what to do at its first attempt, its second and so on; the last word goes on for ever:

    x-behave: 503 503 200     answer 503 twice, then 200
    x-behave: cut             read the request, then cut the connection
    x-behave: hang            read the request and say nothing
"""
import http.server
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    """Every connection is closed after one answer, so that a request seen is a try."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", "0")))
        words = self.headers.get("x-behave", "200").split()
        attempt = int(self.headers.get("x-daruma-attempt", "1"))
        word = words[min(attempt, len(words)) - 1]
        self.server.seen.append((self.headers.get("x-daruma-task"), attempt, time.monotonic()))
        if word == "hang":
            self.connection.recv(1)  # until the other side has had enough
        elif word != "cut":
            self._answer(int(word))

    def _answer(self, status):
        body = b'{"rows":1}' if status == 200 else b'{"error":"on command"}'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


class Target(http.server.ThreadingHTTPServer):
    """Listens on a free port of this machine; `seen` is (task, attempt, time) of each request."""

    daemon_threads = True
    request_queue_size = 128  # all tasks come at once

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/internal_syncToBigQuery"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, _request, _client_address):
        pass  # the other side has left, as it should when we hang


if __name__ == "__main__":
    print(Target().url, flush=True)
    threading.Event().wait()
