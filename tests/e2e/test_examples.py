# SPDX-License-Identifier: MIT
"""The examples, run as a reader of them would, against servers that misbehave by script."""
import http.server
import os
import re
import socket
import subprocess
import threading
import unittest

import runner

EXAMPLES = os.environ["DARUMA_EXAMPLES"]


def run(name, *arguments):
    done = subprocess.run([os.path.join(EXAMPLES, name), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Scripted(http.server.ThreadingHTTPServer):
    """Answers with (status, headers, body), one after the other, and counts."""

    def __init__(self, *answers):
        self.answers, self.seen = list(answers), 0
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, headers, body = self.server.answers[self.server.seen]
        self.server.seen += 1
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


class Demonstration(unittest.TestCase):
    def the_demonstration_succeeds_at_the_third_try_in_both_styles(self):  # B8
        status, out, _err = run("retry-demo")
        self.assertEqual(status, 0)
        self.assertEqual(re.findall(r"試行 (\d)", out), ["1", "2", "3", "1", "2", "3"])
        self.assertEqual(re.findall(r"リトライ (\d): (\S+ \d)", out),
                         [("1", "一時的なエラー 1"), ("2", "一時的なエラー 2")] * 2)
        self.assertEqual(out.count("結果: 成功: 3回目"), 2)


class HttpClient(unittest.TestCase):
    def retry_after_is_a_floor_under_the_wait(self):
        target = Scripted((429, {"Retry-After": "1"}, b""), (503, {"retry-after-ms": "700"}, b""),
                          (200, {}, b"hello"))
        status, out, err = run("retry-http", target.url)
        self.assertEqual((status, out, target.seen), (0, "hello", 3))
        waits = [int(wait) for wait in re.findall(r"next in (\d+) ms", err)]
        self.assertEqual(waits[0], 1000)
        self.assertEqual(waits[1], 700)

    def an_answer_that_cannot_get_better_is_not_retried(self):
        target = Scripted((404, {}, b"no"))
        status, out, err = run("retry-http", target.url)
        self.assertEqual((status, out, target.seen), (1, "", 1))
        self.assertIn("HTTP 404 (invalid)", err)


class AsyncClient(unittest.TestCase):
    def it_waits_for_a_server_that_comes_up_late(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
            waiting = subprocess.Popen([os.path.join(EXAMPLES, "retry-async"), "127.0.0.1",
                                        str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True)
            self.assertIn("attempt 1:", waiting.stderr.readline())  # refused: nobody listens yet
            held.listen()
            out, _err = waiting.communicate()
        self.assertEqual(waiting.returncode, 0)
        self.assertRegex(out, r"up after \d+ attempts")


if __name__ == "__main__":
    runner.main()
