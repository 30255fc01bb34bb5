# SPDX-License-Identifier: MIT
"""A JSON store that is too small for all the answers to what is in it: everything ends, what does not
fit is left out and said to be, and nothing is sent again (I9)."""
import json
import os
import threading
import time
import unittest

import runner
from gateway import Gateway, route
from target import Target, answer, hold

TASKS = 56  # with answers of 1 MB, in base64: more than 64 MiB
LONG = os.urandom(1000000)
IDLE_SECONDS = 1
IDLE_SHARE_MAX = 0.3


def processor_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class AFullJsonStore(unittest.TestCase):
    def ends_what_is_in_it_and_repeats_nothing(self):
        target, full, go = Target(), threading.Event(), threading.Event()
        target.script("/long", hold(go, answer(200, body=LONG)))
        target.script("/last", hold(full, answer(200, body=LONG)))
        target.script("/v1/orders", hold(full, answer(201, {"Location": "/7"}, LONG)))
        server = Gateway(self, [route(target, in_progress="wait")], "json",
                         queues=[{"name": "q", "policy": "quick", "host_concurrency": 64}]).start()
        tasks = [server.add(target=target.url("/long"), repeatable=bool(number % 2))
                 for number in range(TASKS)]
        last = server.add(target=target.url("/last"), callback={"url": target.url("/told")})
        first = server.begin(key="k")
        target.wait_for(TASKS + 2)
        second = server.begin(key="k")
        go.set()
        ends = [server.settled(task) for task in tasks]
        self.assertEqual({(end["state"], end["response"]["status"]) for end in ends},
                         {("succeeded", 200)})
        omitted = sum(end["response"].get("omitted", False) for end in ends)
        self.assertTrue(0 < omitted < TASKS, omitted)
        self.assertEqual(server.create(target=target.url("/new")).code, "overloaded")

        full.set()  # what comes now finds no room at all
        told = [request for request in target.wait_for(TASKS + 3) if request.path == "/told"][0]
        self.assertEqual(json.loads(told.body)["response"],
                         {"status": 200, "headers": {}, "body": "", "omitted": True})
        self.assertTrue(server.settled(last)["response"]["omitted"])
        self._expect(first.end(), 201, None, LONG)  # who was waiting for it gets it
        self._expect(second.end(), 201, "omitted", b"")
        self._expect(server.send(key="k"), 201, "omitted", b"")

        before = processor_seconds(server.process)
        time.sleep(IDLE_SECONDS)
        burnt = processor_seconds(server.process) - before
        self.assertLess(burnt, IDLE_SHARE_MAX * IDLE_SECONDS)
        ends = [server.task(task) for task in tasks]
        server.restart()
        self.assertEqual([server.task(task) for task in tasks], ends)
        self._expect(server.send(key="k"), 201, "omitted", b"")
        self.assertEqual(len(target.seen()), TASKS + 3)

    def _expect(self, got, status, replayed, body):
        self.assertEqual((got.status, got.headers.get("idempotency-replayed")), (status, replayed))
        self.assertEqual(got.headers.get("location"), "/7")
        self.assertTrue(got.body == body, len(got.body))


if __name__ == "__main__":
    runner.main()
