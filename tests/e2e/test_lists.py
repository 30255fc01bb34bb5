# SPDX-License-Identifier: MIT
"""Lists that look through a large store and find nothing, many of them at once: what needs one task is
read in between, and past a bound lists are refused. And lists among tasks with long headers, more than
fit into the memory of one: what one producer sends makes no list unreadable."""
import re
import select
import socket
import time
import unittest

import ports
import runner
from gateway import Gateway, route
from polling import until
from server import Server, on_each_store
from target import Target

TASKS = 10000
LISTS = 40
REPLAYS = 10
PATH = "/v1/queues/w/tasks?label.none=has-it&limit=1000"
ROUNDS = 10  # a machine that stands still for a moment lets all lists end first
LONG_TASKS = 4500  # with the headers below 68 MiB; a read has 64
LONG_HEADERS = {f"x-{i}": "y" * 3950 for i in range(4)}
LONG_SECONDS = 120
SECONDS = 2  # for one replay; most of it is for a slow machine


def begin_lists(server, count):
    """Connections on which a list that matches nothing has been asked for."""
    lists = []
    for _ in range(count):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        client.sendall(f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        lists.append(client)
    return lists


def unanswered(lists):
    return len(lists) - len(select.select(lists, [], [], 0)[0])


def read_all(client):
    with client:
        said = b""
        while piece := client.recv(65536):
            said += piece
    return said


@on_each_store("sqlite", "postgres")
class Lists(unittest.TestCase):
    def _start(self, store, **limits):
        target = Target()
        self.addCleanup(target.close)
        server = Gateway(self, [route(target)], store, queues=[{"name": "w"}],
                         limits=limits).start()
        for _ in range(TASKS // 1000):
            got = server.post("/v1/queues/w/tasks:batch", [{"json": 1}] * 1000)
            self.assertEqual(got.status, 200)
        return server

    def _replay(self, server, i, task):
        """How many seconds a replay and a look at a task take together."""
        began = time.monotonic()
        again = server.send(key=f"k-{i}")
        self.assertEqual((again.status, again.headers["idempotency-replayed"]), (200, "true"))
        self.assertEqual(server.get(f"/v1/tasks/{task}").status, 200)
        return time.monotonic() - began

    def replays_and_single_tasks_do_not_wait_for_lists(self, store):
        server = self._start(store)
        for i in range(REPLAYS):
            self.assertEqual(server.send(key=f"k-{i}").status, 200)
        task = server.add("w", json=1)
        for _ in range(ROUNDS):
            server.restart()  # no answer is held in memory
            lists = begin_lists(server, LISTS)
            while unanswered(lists) == LISTS:  # all have come in, and some are under way
                time.sleep(0.001)
            slowest = max(self._replay(server, i, task) for i in range(REPLAYS))
            left = unanswered(lists)
            print(f"slowest: {slowest * 1000:.0f} ms, lists to come: {left}")
            self.assertLess(slowest, SECONDS)
            for client in lists:
                self.assertIn(b" 200 OK", read_all(client).partition(b"\r\n")[0])
            if left > 0:
                return
        self.fail("the lists are always done first")

    def lists_above_the_limit_are_refused_at_once(self, store):
        server = self._start(store, lists=4)
        lists = [read_all(client) for client in begin_lists(server, LISTS)]
        refused = [one for one in lists if b" 503 " in one.partition(b"\r\n")[0]]
        self.assertGreater(len(refused), 0)
        self.assertLess(len(refused), LISTS)
        for one in refused:
            self.assertIn(b"\r\nretry-after: ", one.lower())
            self.assertIn(b'"code":"overloaded"', one)
            self.assertIn(b"limits.lists", one)
        self.assertEqual(server.get(PATH).status, 200)

    def long_headers_of_one_producer_leave_all_lists_readable(self, store):
        server = Server(self, store, queues=[{"name": name, "policy": {"max_attempts": 1}}
                                             for name in ("theirs", "mine")],
                        api={"listen": "127.0.0.1:0", "tokens": [
                            {"name": "admin", "role": "admin", "token": "env:ADMIN"},
                            {"name": "mine", "role": "operator", "queues": ["mine"],
                             "token": "env:MINE"}]})
        server.environment = {"ADMIN": "a" * 40, "MINE": "m" * 40}
        server.start()
        admin, mine = ({"Authorization": "Bearer " + token}
                       for token in server.environment.values())
        away = f"http://127.0.0.1:{ports.lasting()}/"
        for _ in range(LONG_TASKS // 50):
            got = server.post("/v1/queues/theirs/tasks:batch",
                              [{"target": away, "headers": LONG_HEADERS}] * 50, headers=admin)
            self.assertEqual(got.status, 200)
        got = server.create("mine", call_headers=admin, target=away)
        self.assertEqual(got.status, 201)
        until(lambda: self._letters(server, admin) == LONG_TASKS + 1, "all are dead letters",
              LONG_SECONDS)
        for path in ("/v1/dead-letters", "/v1/dead-letters?limit=1", "/v1/dead-letters?queue=mine"):
            seen = server.get(path, headers=mine)
            self.assertEqual((seen.status, [one["id"] for one in seen.json["dead_letters"]]),
                             (200, [got.json["id"]]), path)
        self.assertEqual(server.get("/v1/unsettled", headers=mine).status, 200)
        for path, member in (("/v1/dead-letters", "dead_letters"),
                             ("/v1/queues/theirs/tasks", "tasks")):
            count, after = 0, "0"
            while after is not None:
                page = server.get(f"{path}?limit=1000&after={after}", headers=admin)
                self.assertEqual(page.status, 200, path)
                count += len(page.json[member])
                after = page.json["next"]
            self.assertEqual(count, LONG_TASKS + (member == "dead_letters"), path)
        self.assertEqual(server.post("/v1/queues/theirs:purge", headers=admin).status, 200)
        self.assertEqual(server.get("/v1/queues/theirs/tasks", headers=admin).json["tasks"], [])

    @staticmethod
    def _letters(server, admin):
        said = server.get("/metrics", headers=admin).body.decode()
        return sum(int(one) for one in
                   re.findall(r"^daruma_queue_dead_letters\{.*\} (\d+)$", said, re.MULTILINE))


if __name__ == "__main__":
    runner.main()
