# SPDX-License-Identifier: MIT
"""A stand-in for a language model that misbehaves on command. The path of a bookmark's URL says what
happens at its first attempt, its second and so on; the last word goes on for ever:

    https://example.org/503/503/200     busy twice, then a summary
    https://example.org/slow            a summary, after SLOW_SECONDS
    https://example.org/hang/200        nothing at all the first time
"""
import http.server
import json
import threading
import urllib.parse

SLOW_SECONDS = 3.5


class Handler(http.server.BaseHTTPRequestHandler):
    """Reads the document's fields (A6.1) and answers."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))))
        path = urllib.parse.urlsplit(asked["original_request"]["url"]).path
        words = path.strip("/").split("/")
        word = words[min(asked["attempt"], len(words)) - 1]
        self.server.saw(asked)
        if word == "hang":
            self.connection.recv(1)  # until the other side is gone
            return
        if word == "slow":
            self.server.over.wait(SLOW_SECONDS)
        self._answer(200 if self.server.is_mended or word == "slow" else int(word), path)

    def _answer(self, status, path):
        said = {"summary": f"What {path} is about."} if status == 200 else \
            {"detail": "the model is busy" if status >= 500 else "the model cannot read this"}
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


class Model(http.server.ThreadingHTTPServer):
    """Listens on a free port of this machine; `seen` is what it was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen, self.is_mended = [], False
        self.over, self._changed = threading.Event(), threading.Condition()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/summarize"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def saw(self, asked):
        with self._changed:
            self.seen.append(asked)
            self._changed.notify_all()

    def wait_for(self, bookmark_id):
        """Until it was asked about that bookmark."""
        with self._changed:
            self._changed.wait_for(lambda: any(asked["bookmark_id"] == bookmark_id
                                               for asked in self.seen))

    def handle_error(self, _request, _client_address):
        pass  # the other side has left, as it should when we hang
