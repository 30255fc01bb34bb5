# SPDX-License-Identifier: MIT
"""Names that are never answered, as many as a producer likes, a new one for each task: they take neither the
descriptors nor the threads of the others, and tasks for other names keep their attempts.

tests/powercut/nonames.so is the resolver. DARUMA_POWERCUT names its folder.
"""
import os
import pathlib
import resource
import socket
import subprocess
import sys
import threading
import time
import unittest

import runner
from program import BIN
from server import Server
from target import Target

BESIDE = pathlib.Path(BIN).resolve().parent
TOOLS = pathlib.Path(os.environ.get("DARUMA_POWERCUT") or BESIDE / "tests" / "powercut").resolve()
if not (TOOLS / "nonames.so").exists():
    sys.exit(f"DARUMA_POWERCUT must say where nonames.so is: not in {TOOLS}")
FILES = 1024
TASKS = 1000
LOOKUPS = FILES // 32
CALLERS = 40
WAIT_SECONDS = 60


class Unnamed(Server):
    """One whose names are not answered, and that may have only so many files open."""

    def launch(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
        self.process = subprocess.Popen([BIN, "serve", "-c", self.path], cwd=self.folder,
                                        env={**os.environ, "LD_PRELOAD": str(TOOLS / "nonames.so")},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, preexec_fn=limit)
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def metric(self, name):
        said = self.get("/metrics").body.decode()
        return int(next(line for line in said.splitlines() if line.startswith(f"{name} ")).split()[1])


class Names(unittest.TestCase):
    def _flood(self, server, name):
        """A new name for each, and no time to wait for it."""
        tasks = [{"target": f"http://{name % number}/x", "timeout_ms": 50, "retry": {"max_attempts": 1}}
                 for number in range(TASKS)]
        for first in range(0, TASKS, 250):
            self.assertEqual(server.post("/v1/queues/bad/tasks:batch", tasks[first:first + 250]).status, 200)

    def _until(self, what):
        end = time.monotonic() + WAIT_SECONDS
        while not what():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def _begin(self):
        """The server, and the URL of what answers, by a name."""
        target = Target()
        self.addCleanup(target.close)
        server = Unnamed(self, limits={"connections": 100, "waiters": 10},
                         queues=[{"name": "bad"}, {"name": "good"}]).start()
        return server, f"http://www.good.test:{target.port}/"

    def _expect_first_time(self, server, url):
        """Sent, and by its first attempt."""
        task = server.post("/v1/queues/good/tasks", {"target": url}).json["id"]
        self._until(lambda: server.get(f"/v1/tasks/{task}").json["state"] not in ("waiting", "running"))
        found = server.get(f"/v1/tasks/{task}").json
        self.assertEqual((found["state"], found["attempts"]), ("succeeded", 1), found)

    def names_that_are_not_answered_take_little_and_cost_others_nothing(self):
        server, url = self._begin()
        at_rest = server.files(), server.threads()
        self._flood(server, "a%d.evil.hang")
        self._until(lambda: server.metric("daruma_attempts_unnamed_total") >= TASKS / 2)
        self.assertIn(server.metric("daruma_names_looking_up"), range(1, LOOKUPS + 1))
        self.assertLessEqual(server.threads() - at_rest[1], LOOKUPS)
        self.assertLessEqual(server.files() - at_rest[0], 4 * LOOKUPS + 10)
        callers = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(CALLERS)]
        for caller in callers:
            self.addCleanup(caller.close)
            caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for caller in callers:
            self.assertTrue(caller.recv(100).startswith(b"HTTP/1.1 200 "))
        self._expect_first_time(server, url)
        server.wait_line("sending_short")
        counts = server.get("/v1/queues/bad").json["counts"]
        self.assertLessEqual(counts["failed"], LOOKUPS)  # only what was really looked up is counted
        self.assertEqual(counts["failed"] + counts["waiting"] + counts["running"], TASKS)
        server.stop()

    def names_of_many_domains_leave_places_to_another_queue(self):
        server, url = self._begin()
        self._expect_first_time(server, url)
        self._flood(server, "a.b%d.hang")
        self._flood(server, "a.c%d.hang")
        self._until(lambda: server.metric("daruma_attempts_unnamed_total") >= TASKS / 2)
        for number in range(4):
            self._expect_first_time(server, url)
            self._expect_first_time(server, url.replace("www.good", f"www.new{number}"))
            time.sleep(1)  # libcurl knows the name for two seconds
        server.stop()


if __name__ == "__main__":
    runner.main()
