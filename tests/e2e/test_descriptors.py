# SPDX-License-Identifier: MIT
"""File descriptors: what `daruma check` says that a server needs is what it needs at most, and callers of
the gateway cannot take those that are kept for the api.
"""
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
import unittest

import runner
from gateway import Gateway
from polling import until
from program import BIN

CONNECTIONS = 400
GUESTS = CONNECTIONS - CONNECTIONS // 8  # an eighth is the api's
ATTEMPTS = 16
FILES = 200  # of the server that has few
WAIT_SECONDS = 30
REQUEST = b"POST /x%d HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
HANGING = """
import asyncio
async def serve(reader, writer):
    await reader.read(-1)
    writer.close()
async def main():
    listener = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()
asyncio.run(main())
"""


def hanging(test):
    """The URL of a target that answers nothing, in a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True)
    test.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close()))
    return f"http://127.0.0.1:{int(process.stdout.readline())}"


def open_files(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def settled(server):
    """How many files are open, once that does not change any more."""
    seen, deadline = [], time.monotonic() + WAIT_SECONDS
    while len(seen) < 5 or len(set(seen[-5:])) > 1:
        if time.monotonic() > deadline:
            raise AssertionError(f"open files keep changing: {seen[-20:]}")
        time.sleep(0.1)
        seen.append(open_files(server))
    return seen[-1]


class Few(Gateway):
    """One that may have only so many files open."""

    def launch(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
        self.process = subprocess.Popen([BIN, "serve", "-c", self.path], cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, preexec_fn=limit)
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()


class Descriptors(unittest.TestCase):
    def _crowd(self, port, count):
        """So many callers with a request each; some of them may have to wait outside."""
        for number in range(count):
            caller = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
            self.addCleanup(caller.close)
            caller.sendall(REQUEST % number)

    def _check_all_at_once(self, threads):
        url = hanging(self)
        server = Gateway(self, threads=threads, limits={"connections": CONNECTIONS, "attempts": ATTEMPTS},
                         queues=[{"name": "q", "host_concurrency": 64}], **{"pass": url}).start()
        at_rest = open_files(server)
        self.assertEqual(server.post("/v1/queues/q/tasks:batch", [{"target": url}] * 50).status, 200)
        self._crowd(server.gateway_port, CONNECTIONS)
        until(lambda: open_files(server) - at_rest >= 2 * GUESTS)  # each has one to the upstream
        found = settled(server)
        wanted = json.loads(subprocess.run([BIN, "check", "--json", "-c", server.path], check=True,
                                           stdout=subprocess.PIPE).stdout)["files_wanted"]
        self.assertEqual(server.get("/healthz").status, 200)
        self.assertLessEqual(found, wanted)
        self.assertLessEqual(found - at_rest, CONNECTIONS + GUESTS + 2 * ATTEMPTS)
        server.kill()

    def all_that_can_be_open_at_once_is_what_check_says(self):
        for threads in (1, 3):
            self._check_all_at_once(threads)

    def callers_of_the_gateway_leave_descriptors_to_the_api(self):
        for threads in (1, 3):
            server = Few(self, threads=threads, **{"pass": hanging(self)}).start()
            self._crowd(server.gateway_port, FILES + 50)
            self.assertLess(settled(server), FILES)
            for _ in range(10):
                with socket.create_connection(("127.0.0.1", server.port), 5) as caller:
                    caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.assertTrue(caller.recv(100).startswith(b"HTTP/1.1 200 "))
            server.kill()


if __name__ == "__main__":
    runner.main()
