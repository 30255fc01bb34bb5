# SPDX-License-Identifier: MIT
"""examples/worker, run as its reader would, and its worker against a server that is not always there:
document A's queue consumer. A6.1, A6.2, A7."""
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import unittest

import runner
from program import BIN
from server import Server, chosen

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "worker")
WORKER = os.path.join(os.path.dirname(BIN), "examples", "worker")
SECONDS_MAX = 50
STORE = chosen("sqlite")

sys.path.insert(0, EXAMPLE)
from model import Model  # noqa: E402 (it is the example's own)


def work(bookmark_id, path):
    return {"bookmark_id": bookmark_id, "attempt": 1, "max_attempts": 5,
            "original_request": {"url": f"https://example.org/{path}",
                                 "idempotency_key": f"save-{bookmark_id}"}}


class Worker:
    """The example's worker; its log is read when it has ended."""

    def __init__(self, test, url, model_url, **more):
        flags = [word for name, value in more.items() for word in (f"--{name}", str(value))]
        self.process = subprocess.Popen([WORKER, "--server", url, "--queue", "q", "--model",
                                         model_url, *flags],
                                        stderr=subprocess.PIPE, text=True)
        test.addCleanup(self._kill)

    def _kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def stop(self):
        """Its exit status and what it said."""
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=SECONDS_MAX)[1]
        return self.process.returncode, said


class Flaky(http.server.ThreadingHTTPServer):
    """Stands for daruma on a bad day: what it does about each call is a list of words."""

    daemon_threads = True

    def __init__(self, words):
        super().__init__(("127.0.0.1", 0), FlakyHandler)
        self.words, self.settled = list(words), []
        self.is_settled = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_arguments):
        pass


class FlakyHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        word = server.words.pop(0) if server.words else "idle"
        if word == "cut":
            self.close_connection = True
            return
        if word == "busy":
            self._answer(503, {"detail": "no room"})
        elif word == "lease":
            task = {"attempts": 1, "max_attempts": 5, "request": {"body": json.dumps(
                work("b1", "200"))}}
            self._answer(200, {"leases": [{"lease": "L1", "task": task}]})
        elif word == "settle":
            server.settled.append(asked)
            self._answer(200, {"results": [{"lease": "L1", "result": "settled"}]})
            server.is_settled.set()
        else:
            server.is_settled.wait(SECONDS_MAX)
            self._answer(200, {"leases": []})

    def _answer(self, status, said):
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


class WorkerExample(unittest.TestCase):
    def each_bookmark_ends_as_the_document_says(self):  # A6.2, A7
        done = subprocess.run([os.path.join(EXAMPLE, "run.sh")], check=False, text=True,
                              env={**os.environ, "DARUMA_BIN": BIN, "WORKER_BIN": WORKER,
                                   "TMPDIR": os.getcwd()},
                              timeout=SECONDS_MAX, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = re.findall(r"^(ok|NO) +(.+?)  +(\S.*?)  +(\w+) +(\d+) (?:tries|try) *(.*)$",
                          done.stdout, re.M)
        self.assertEqual([(row[1], row[3], int(row[4]), row[5].split()) for row in rows], [
            ("its worker is killed", "succeeded", 2, ["120"]),
            ("nothing wrong", "succeeded", 1, []),
            ("busy twice", "succeeded", 3, ["120", "240"]),
            ("longer than a lease", "succeeded", 1, []),
            ("cannot be read (400)", "failed", 1, []),
            ("always busy", "failed", 5, ["120", "240", "480", "960"])])
        self.assertIn("job_type=llm_processing retryable=true tries=5", done.stdout)
        self.assertIn("resolved", done.stdout)
        self.assertIn("Waits are 1/1000 of the real ones", done.stdout)
        self.assertEqual(os.listdir("."), [])  # nothing is left behind

    def a_word_too_many_is_refused(self):
        done = subprocess.run([os.path.join(EXAMPLE, "run.sh"), "--fast"], check=False, text=True,
                              env={**os.environ, "DARUMA_BIN": BIN, "WORKER_BIN": WORKER},
                              timeout=SECONDS_MAX, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("usage: run.sh [--real]", done.stderr)

    def flags_that_are_not_understood_are_refused(self):
        for flags in ([], ["--model"], ["--model", "http://x", "--batch", "0"],
                      ["--model", "http://x", "--batch", "101"], ["--what", "1"]):
            done = subprocess.run([WORKER, *flags], check=False, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 2, flags)
            self.assertNotEqual(done.stderr, b"")

    def the_model_is_given_the_documents_fields(self):  # A6.1
        model, server = Model(), Server(self, STORE, [{"name": "q", "policy": "llm_jobs"}]).start()
        worker = Worker(self, f"http://127.0.0.1:{server.port}", model.url, **{"unit-ms": 1})
        identity = server.add(json=work("b7", "503/200"), labels={"job_type": "llm_processing"})
        task = server.settled(identity)
        self.assertEqual(model.seen, [{**work("b7", "503/200"), "attempt": n} for n in (1, 2)])
        self.assertEqual(task["trail"][0]["wait_ms"], 2)  # 2^1 x the unit
        self.assertEqual(json.loads(task["response"]["body"]),
                         {"summary": "What /503/200 is about."})
        self.assertEqual(worker.stop()[0], 0)

    def what_it_holds_is_finished_at_sigterm(self):
        model, server = Model(), Server(self, STORE, [{"name": "q"}]).start()
        ids = [server.add(json=work(f"b{n}", path)) for n, path in enumerate(("slow", "200"))]
        worker = Worker(self, f"http://127.0.0.1:{server.port}", model.url)
        model.wait_for("b0")
        worker.process.send_signal(signal.SIGTERM)
        model.over.set()
        status, said = worker.stop()
        self.assertEqual(status, 0, said)
        self.assertIn("event=stopped acked=2 retried=0 dead_letters=0 lost=0", said)
        self.assertEqual([server.task(identity)["state"] for identity in ids], ["succeeded"] * 2)

    def a_server_that_is_away_is_asked_again(self):
        model = Model()
        daruma = Flaky(["cut", "busy", "lease", "cut", "busy", "settle"])
        worker = Worker(self, daruma.url, model.url)
        self.assertTrue(daruma.is_settled.wait(SECONDS_MAX))
        status, said = worker.stop()
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count("event=call_retry"), 4, said)
        self.assertEqual([list(words) for words in daruma.settled], [["acks"]])
        self.assertEqual(len(model.seen), 1)  # done once, however often it had to be said

    def a_queue_that_is_not_there_ends_it(self):
        server = Server(self, STORE, [{"name": "other"}]).start()
        worker = Worker(self, f"http://127.0.0.1:{server.port}", "http://127.0.0.1:9/")
        said = worker.process.communicate(timeout=SECONDS_MAX)[1]
        self.assertEqual(worker.process.returncode, 1)
        self.assertIn("event=no_leases", said)

    def work_that_is_none_becomes_a_dead_letter_at_once(self):
        server = Server(self, STORE, [{"name": "q", "policy": "llm_jobs"}]).start()
        worker = Worker(self, f"http://127.0.0.1:{server.port}", "http://127.0.0.1:9/")
        identity = server.add(body="not JSON")
        server.settled(identity)
        letter = server.get(f"/v1/dead-letters/{identity}").json
        self.assertEqual((letter["status"], letter["retryable"], letter["error"]["class"]),
                         ("failed", False, "invalid"))
        self.assertEqual(worker.stop()[0], 0)


if __name__ == "__main__":
    runner.main()
