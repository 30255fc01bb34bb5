# SPDX-License-Identifier: MIT
"""The log: what reads it may hang, and the server goes on; a storm of failures is a few lines."""
import fcntl
import os
import re
import subprocess
import time
import unittest

import runner
from program import BIN
from server import Server
from target import Target, answer

F_SETPIPE_SZ = 1031


class UnreadServer(Server):
    """Its log goes into a small pipe that is read only by `read_log`."""

    def launch(self):
        ours, theirs = os.pipe()
        fcntl.fcntl(ours, F_SETPIPE_SZ, 4096)
        self.process = subprocess.Popen([BIN, "serve", "-c", self.path], cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=theirs)
        os.close(theirs)
        self.log = os.fdopen(ours, "rb", buffering=0)

    def start(self):
        self.launch()
        text = b""
        while b"event=ready" not in text or not text.endswith(b"\n"):
            chunk = self.log.read(4096)
            if not chunk:
                raise AssertionError(f"it has ended: {text}")
            text += chunk
        self.port = int(re.search(rb"event=ready .*?api=\S+:(\d+)", text).group(1))
        return self

    def finish(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        self.log.close()

    def lost(self):
        text = self.get("/metrics").body.decode()
        return int(re.search(r"^daruma_log_lost_total (\d+)$", text, re.M).group(1))


class Unread(unittest.TestCase):
    def _start(self, **more):
        self.target = Target()
        self.addCleanup(self.target.close)
        self.server = UnreadServer(self, "memory", [
            {"name": f"q{i}", "targets": [{"name": "t", "url": self.target.url("/in")}]} for i in range(8)],
            log={"level": "debug", "buffer": "16KiB"}, **more).start()
        return self.server

    def _fill(self):
        """More lines than pipe and buffer hold: each task is a few."""
        deadline = time.monotonic() + 30
        while self.server.lost() == 0:
            self.assertLess(time.monotonic(), deadline)
            for i in range(8):
                self.server.settled(self.server.add(f"q{i}"))
            for i in range(8):
                self.server.call("PUT", f"/v1/queues/extra{i}", {})
                self.server.post(f"/v1/queues/q{i}:run")

    def a_log_that_is_not_read_stops_neither_callers_nor_tasks_nor_a_stop(self):
        server = self._start()
        self._fill()
        self.assertEqual(server.get("/healthz").status, 200)
        self.assertEqual(server.get("/readyz").status, 200)
        self.assertEqual(server.settled(server.add("q0"))["state"], "succeeded")
        server.signal()
        self.assertEqual(server.process.wait(10), 0)
        server.process = None

    def what_is_missing_is_said_where_it_is_missing(self):
        server = self._start()
        self._fill()
        lost, text = server.lost(), b""
        server.signal()
        while chunk := server.log.read(65536):
            text += chunk
        self.assertEqual(server.process.wait(10), 0)
        server.process = None
        told = [int(count) for count in re.findall(rb"level=warn event=log_lost count=(\d+)", text)]
        self.assertGreaterEqual(sum(told), lost)
        self.assertTrue(text.splitlines()[-1].endswith(b"event=stopped"), text[-300:])


class Storm(unittest.TestCase):
    def a_storm_of_failures_says_who_fails_and_how_in_a_few_lines(self):
        target = Target()
        self.addCleanup(target.close)
        target.script("/in?token=hunter2", answer(503))
        server = Server(self, "memory", [
            {"name": "storm", "concurrency": 64, "host_concurrency": 64}]).start()
        url = target.url("/in?token=hunter2")
        host = url.split("/")[2]
        first, began = len(server.lines), time.monotonic()
        for _ in range(20):
            server.post("/v1/queues/storm/tasks:batch", [{"target": url}] * 100)
        target.wait_for(2000)
        seconds = time.monotonic() - began
        server.wait_line("task_retry", first, host=host, status=503)
        server.stop()
        lines = server.lines[first:]
        retries = [line.fields for line in lines if line.event == "task_retry"]
        self.assertLess(len(retries), 40 * (seconds + 2))
        self.assertGreaterEqual(sum(int(fields.get("count", 1)) for fields in retries), 2000)
        for line in lines:
            self.assertNotIn("hunter2", line.text)
        for fields in retries:
            self.assertEqual((fields["queue"], fields["host"], fields["status"], fields["class"]),
                             ("storm", host, "503", "transient"))
        self.assertIn('reason="HTTP 503"', [line.text for line in lines
                                            if line.event == "task_retry"][-1])

    def runs_that_follow_each_other_quickly_are_summed_up(self):
        target = Target()
        self.addCleanup(target.close)
        target.script("/in", answer(503))
        policy = {"max_attempts": 200, "transient": {"backoff": "fixed", "base": "5ms", "jitter": "none"}}
        server = Server(self, "memory", [{"name": "storm", "policy": policy}]).start()
        began, first = time.monotonic(), len(server.lines)
        ids = [server.add("storm", target=target.url("/in"), delay_ms=i) for i in range(8)]
        for identity in ids:
            self.assertEqual(server.settled(identity)["state"], "failed")
        seconds = time.monotonic() - began
        server.stop()
        lines = server.lines[first:]
        done = [line.fields for line in lines if line.event == "run_done"]
        lengths = [line.fields for line in lines if line.event == "queue_length"]
        self.assertLess(len(done) + len(lengths), 40 * (seconds + 2))
        self.assertEqual(sum(int(run["taken"]) for run in done), 8 * 199)  # nothing is left out
        self.assertEqual(sum(int(run["failed"]) for run in done), 8 * 199)
        runs = sum(int(run.get("count", 1)) for run in done)
        self.assertGreater(runs, len(done))
        self.assertEqual(sum(int(run.get("count", 1)) for run in lengths), runs)
        self.assertEqual({(run["queue"], run["kind"]) for run in done}, {("storm", "scheduled")})
        self.assertTrue(all(1 <= int(run["waiting"]) <= 8 for run in lengths), lengths)


if __name__ == "__main__":
    runner.main()
