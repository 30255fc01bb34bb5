# SPDX-License-Identifier: MIT
"""One queue, many hosts: one that does not answer is nothing to the others. Every address of 127.0.0.0/8
is this machine, so one listener is as many hosts as a test wants.
"""
import asyncio
import socket
import threading
import time
import unittest

import runner
from server import Server, on_each_store

HOSTS = 200
AHEAD = 300  # tasks for the silent host, before all others
WAIT_SECONDS = 40
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Crowd:
    """Answers whatever comes to an address of 127.0.1.0/24, and nothing that comes to another one until
    `wake`. Counts requests by address."""

    def __init__(self):
        self.counts, self.open = {}, 0
        self._loop = asyncio.new_event_loop()
        self._awake = None
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        started.wait()

    def _run(self, started):
        asyncio.set_event_loop(self._loop)

        async def begin():
            self._awake = asyncio.Event()
            door = socket.socket()
            door.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")  # not from elsewhere
            door.bind(("0.0.0.0", 0))
            listener = await asyncio.start_server(self._serve, sock=door, backlog=1024)
            self.port = listener.sockets[0].getsockname()[1]
        self._loop.run_until_complete(begin())
        started.set()
        self._loop.run_forever()

    async def _serve(self, reader, writer):
        address = writer.get_extra_info("sockname")[0]
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if b"content-length" in line]
                await reader.readexactly(int(length[0].split(b":")[1]) if length else 0)
                self.counts[address] = self.counts.get(address, 0) + 1
                if not address.startswith("127.0.1."):
                    await self._awake.wait()
                writer.write(REPLY)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def wake(self):
        self._loop.call_soon_threadsafe(self._awake.set)

    def url(self, address):
        return f"http://{address}:{self.port}/"

    def answered(self):
        return sum(count for address, count in list(self.counts.items())
                   if address.startswith("127.0.1."))

    def wait_for(self, count):
        """How long until so many were answered."""
        begun = time.monotonic()
        while self.answered() < count:
            if time.monotonic() - begun > WAIT_SECONDS:
                raise AssertionError(f"{self.answered()} of {count} after {WAIT_SECONDS} s")
            time.sleep(0.01)
        return time.monotonic() - begun


def add_many(server, targets, **more):
    tasks = [{"target": target, "timeout_ms": 60000, **more} for target in targets]
    for first in range(0, len(tasks), 500):
        answer = server.post("/v1/queues/q/tasks:batch", tasks[first:first + 500])
        assert answer.status == 200, answer


@on_each_store("sqlite", "json", "postgres")
class Hosts(unittest.TestCase):
    def _begin(self, store):
        self.crowd = Crowd()
        return Server(self, store=store, queues=[{"name": "q"}]).start()

    def _good(self):
        return [self.crowd.url(f"127.0.1.{1 + number}") for number in range(HOSTS)]

    def _settled(self, server, count):
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            view = server.get("/v1/queues/q").json
            if view["counts"]["succeeded"] == count:
                return
            time.sleep(0.05)
        raise AssertionError(view)

    def a_silent_host_does_not_stop_the_others(self, store):
        server = self._begin(store)
        add_many(server, [self.crowd.url("127.0.9.1")] * AHEAD)
        add_many(server, self._good() * 3)
        self.crowd.wait_for(3 * HOSTS)
        self.assertLessEqual(self.crowd.counts.get("127.0.9.1", 0), 32)
        self.crowd.wake()  # and nothing is lost: it gets what waited for it, each once
        self._settled(server, AHEAD + 3 * HOSTS)
        self.assertEqual(self.crowd.counts["127.0.9.1"], AHEAD)

    def several_silent_hosts_do_not_stop_the_others(self, store):
        server = self._begin(store)
        add_many(server, [self.crowd.url(f"127.0.9.{1 + n % 10}") for n in range(AHEAD)])
        add_many(server, self._good() * 3)
        self.crowd.wait_for(3 * HOSTS)
        self.crowd.wake()
        self._settled(server, AHEAD + 3 * HOSTS)

    def a_silent_host_does_not_stop_the_others_after_a_restart(self, store):
        server = self._begin(store)
        server.post("/v1/queues/q:pause")
        add_many(server, [self.crowd.url("127.0.9.1")] * AHEAD)
        add_many(server, self._good())
        server.stop()
        server.start()
        server.post("/v1/queues/q:resume")
        self.crowd.wait_for(HOSTS)


def written(server):
    """Operations of the store so far."""
    lines = server.get("/metrics").body.decode().split("\n")
    return next(int(line.split()[1]) for line in lines
                if line.startswith("daruma_commit_operations_total"))


@on_each_store("sqlite", "postgres")
class OneTarget(unittest.TestCase):
    def a_backlog_for_a_full_host_is_left_alone(self, store):
        crowd = Crowd()
        server = Server(self, store=store, queues=[
            {"name": "q", "targets": [{"name": "t", "url": crowd.url("127.0.9.1")}]}]).start()
        for _ in range(6):
            answer = server.post("/v1/queues/q/tasks:batch", [{"timeout_ms": 60000}] * 500)
            self.assertEqual(answer.status, 200, answer)
        time.sleep(2)
        before = written(server)
        time.sleep(3)
        self.assertLess(written(server) - before, 150)  # leasing in vain would be a thousand
        own = server.post("/v1/queues/q/tasks", {"target": crowd.url("127.0.1.1")})
        self.assertEqual(own.status, 201, own)
        self.assertLess(crowd.wait_for(1), 20)  # though three thousand are due before it


class Threads(unittest.TestCase):
    def a_silent_host_does_not_stop_the_others_with_threads(self):
        crowd = Crowd()
        server = Server(self, threads=3, queues=[{"name": "q"}]).start()
        add_many(server, [crowd.url("127.0.9.1")] * AHEAD)
        add_many(server, [crowd.url(f"127.0.1.{1 + n}") for n in range(HOSTS)])
        crowd.wait_for(HOSTS)


if __name__ == "__main__":
    runner.main()
