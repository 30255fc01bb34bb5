# SPDX-License-Identifier: MIT
"""What this machine has too little of is nothing of the target's: tasks keep their attempts, the api
answers, and all is sent in the end.
"""
import os
import resource
import subprocess
import sys
import threading
import time
import unittest

import runner
from program import BIN
from server import Server
from test_hosts import REPLY

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES = 150
TASKS = 500
WAIT_SECONDS = 45
LIMITS = {"connections": 50, "waiters": 10}
TARGET = """
import asyncio, sys
REPLY = {reply!r}
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            await asyncio.sleep({seconds})
            writer.write(REPLY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    listener = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()
asyncio.run(main())
"""


class Few(Server):
    """One that may have only so many files open."""

    def launch(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
        self.process = subprocess.Popen([BIN, "serve", "-c", self.path], cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, preexec_fn=limit)
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()


class Shortage(unittest.TestCase):
    def _target(self, seconds):
        """In a process of its own, which may have as many files as it wants; its URL."""
        process = subprocess.Popen([sys.executable, "-c", TARGET.format(reply=REPLY,
                                                                        seconds=seconds)],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close()))
        return f"http://127.0.0.1:{int(process.stdout.readline())}/"

    def _begin(self, limits):
        policy = {"name": "few", "max_attempts": 3, "transient": {"backoff": "fixed", "base": "100ms"}}
        return Few(self, limits=limits, queues=[{"name": "q", "concurrency": 256,
                                                 "host_concurrency": 256, "policy": "few"}],
                   policies=[policy]).start()

    def _send_all(self, server, url):
        """All succeed, each by its first attempt, and the health check answers all the time."""
        tasks = [{"target": url}] * TASKS
        self.assertEqual(server.post("/v1/queues/q/tasks:batch", tasks).status, 200)
        end, worst = time.monotonic() + WAIT_SECONDS, 0
        while True:
            begun = time.monotonic()
            self.assertEqual(server.get("/healthz").status, 200)
            worst = max(worst, time.monotonic() - begun)
            counts = server.get("/v1/queues/q").json["counts"]
            if counts["succeeded"] == TASKS:
                break
            self.assertEqual((counts["failed"], counts["unsettled"]), (0, 0))
            self.assertLess(time.monotonic(), end, counts)
            time.sleep(0.1)
        self.assertLess(worst, 3)
        listed = server.get("/v1/queues/q/tasks?state=succeeded&limit=500").json["tasks"]
        self.assertEqual({one["attempts"] for one in listed}, {1})

    def few_descriptors_are_few_attempts(self):
        server = self._begin(LIMITS)
        self._send_all(server, self._target(0.3))
        self.assertLess(int(server.wait_line("files_few").fields["attempts"]), FILES / 2)

    def what_waits_for_a_place_goes_on_when_there_are_descriptors_again(self):
        server = Server(self, limits={"attempts": 8}, queues=[
            {"name": "q", "concurrency": 64, "targets": [{"name": "t", "url": self._target(0)}]}]).start()
        pid = server.process.pid
        server.post("/v1/queues/q:pause")
        for _ in range(20):
            server.add("q", body="x")
        time.sleep(0.5)
        connection = server.connect()
        server.get("/v1/queues/q", connection=connection)
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        top = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (top + 1, hard))
        self.assertEqual(server.post("/v1/queues/q:resume", connection=connection).status, 200)
        server.wait_line("sending_short")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        begun = time.monotonic()
        while server.get("/v1/queues/q", connection=connection).json["counts"]["succeeded"] < 20:
            self.assertLess(time.monotonic() - begun, 4)
            time.sleep(0.02)
        connection.close()

    def the_file_that_people_copy_has_the_same_limits_as_none(self):
        found = []
        with open(os.path.join(ROOT, "config", "daruma.yaml"), encoding="utf-8") as file:
            copied = file.read().replace("127.0.0.1:8700", "127.0.0.1:0")
        for text in (copied.replace("sqlite:var/daruma.db", "memory"), None):
            server = Few(self, "memory")
            if text is not None:
                with open(server.path, "w", encoding="utf-8") as file:
                    file.write(text)
            server.start()
            found.append([line for line in server.get("/metrics").body.decode().splitlines()
                          if line.startswith("daruma_attempts_max ")])
            server.finish()
        self.assertEqual(found[0], found[1])
        self.assertEqual(len(found[0]), 1)

    def what_the_machine_lacks_is_not_the_targets_failure(self):
        server = self._begin({**LIMITS, "attempts": 256})
        self._send_all(server, self._target(0.3))
        server.wait_line("sending_short")
        said = [line for line in server.lines if line.event == "sending_short"]
        self.assertEqual(len(said), 1)
        metrics = server.get("/metrics").body.decode()
        self.assertNotIn("daruma_attempts_short_total 0\n", metrics)
        self.assertIn("daruma_tasks_retried_total 0\n", metrics)


if __name__ == "__main__":
    runner.main()
