# SPDX-License-Identifier: MIT
"""Nodes on one PostgreSQL, and an operator who pauses, makes, changes and deletes queues at one of them:
once the operator was told that it is done, it is so at every node.
"""
import os
import signal
import threading
import time
import unittest

import postgres
import runner
from polling import until
from server import Server
from target import Target, answer, hold

LEASE_SECONDS = 3
ROUNDS = 20
PLACES = 8
POLICY = {"name": "short", "max_attempts": 5, "transient": {"backoff": "fixed", "base": "20ms"}}


def slowly(seen):
    """A target that takes a moment, and notes when each request was there."""
    def act(connection, request):
        seen.append(time.monotonic())
        time.sleep(0.02)
        answer(200)(connection, request)
    return act


class Queues(unittest.TestCase):
    def _begin(self, count=2):
        self.target = Target()
        self.addCleanup(self.target.close)
        self.database = postgres.shared().new()
        self.nodes = []
        for number in range(count):
            os.mkdir(f"node-{number}")
            self.nodes.append(Server(
                self, postgres.shared().url(self.database), [{"name": "file", "policy": "short"}],
                folder=f"node-{number}", policies=[POLICY],
                limits={"node_lease": f"{LEASE_SECONDS}s"}).start())
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE beat > 8")
              == [[str(count)]])
        return self.nodes

    def _sql(self, text):
        return postgres.shared().sql(text, self.database)

    @staticmethod
    def _put(node, name="q", **settings):
        return node.call("PUT", f"/v1/queues/{name}",
                         {"policy": "short", "concurrency": PLACES, **settings})

    def _fill(self, node, url, count=200, name="q"):
        for first in range(0, count, 100):
            batch = [{"target": url, "json": {}} for _ in range(min(100, count - first))]
            got = node.post(f"/v1/queues/{name}/tasks:batch", batch)
            self.assertEqual((got.status, len(got.json["results"])), (200, len(batch)))

    @staticmethod
    def _growth(seen):
        """How many more requests come within a while that is long for a begun attempt."""
        before = len(seen)
        time.sleep(0.3)
        return len(seen) - before

    # --- pausing and deleting ---

    def after_the_reply_to_a_pause_no_node_begins_to_send(self):
        nodes, seen = self._begin(), []
        url = self.target.script("/slow", slowly(seen))
        self.assertEqual(self._put(nodes[0]).status, 201)
        growths = []
        for number in range(ROUNDS):
            before = len(seen)
            self._fill(nodes[0], url)
            until(lambda: len(seen) >= before + 20)
            self.assertEqual(nodes[number % 2].post("/v1/queues/q:pause").status, 200)
            growths.append(self._growth(seen))
            self.assertEqual(nodes[0].post("/v1/queues/q:purge").status, 200)
            self.assertEqual(nodes[1].post("/v1/queues/q:resume").status, 200)
        # Not more than had begun: there are so many places, of all nodes together.
        self.assertLessEqual(max(growths), PLACES, growths)

    def after_the_reply_to_a_forced_deletion_no_node_begins_to_send(self):
        nodes, seen = self._begin(), []
        url = self.target.script("/slow", slowly(seen))
        growths = []
        for number in range(ROUNDS // 2):
            before = len(seen)
            self.assertEqual(self._put(nodes[number % 2]).status, 201)
            self._fill(nodes[0], url)
            until(lambda: len(seen) >= before + 20)
            deleted = nodes[number % 2].call("DELETE", "/v1/queues/q?force=true")
            self.assertEqual(deleted.status, 204)
            growths.append(self._growth(seen))
        self.assertLessEqual(max(growths), PLACES, growths)

    def what_was_leased_and_not_sent_when_the_queue_was_paused_waits_again(self):
        nodes, held = self._begin(), threading.Event()
        self.addCleanup(held.set)
        url = self.target.script("/held", hold(held, answer(200)))
        self.assertEqual(self._put(nodes[0]).status, 201)
        self._fill(nodes[0], url, 40)
        self.target.wait_for(PLACES)
        self.assertEqual(nodes[1].post("/v1/queues/q:pause").status, 200)
        held.set()
        until(lambda: nodes[0].get("/v1/queues/q").json["counts"]["running"] == 0)
        counts = nodes[0].get("/v1/queues/q").json["counts"]
        self.assertEqual((counts["succeeded"], counts["waiting"]), (PLACES, 40 - PLACES))
        self.assertEqual(len(self.target.ledger), PLACES)

    # --- making and changing ---

    def a_queue_is_known_to_every_node_when_the_reply_to_its_put_is_there(self):
        nodes = self._begin(3)
        for number in range(ROUNDS):
            name, maker = f"q{number}", nodes[number % 3]
            self.assertEqual(self._put(maker, name).status, 201)
            for node in nodes:
                self.assertEqual(node.create(name, target=self.target.url("/"), delay_ms=60000)
                                 .status, 201)
            self.assertEqual(self._put(maker, name, concurrency=3).status, 200)
            for node in nodes:
                self.assertEqual(node.get(f"/v1/queues/{name}").json["settings"]["concurrency"], 3)

    def a_pause_and_a_resume_are_seen_at_every_node(self):
        nodes = self._begin(3)
        for number in range(ROUNDS):
            for act, state in (("pause", True), ("resume", False)):
                self.assertEqual(nodes[number % 3].post(f"/v1/queues/file:{act}").status, 200)
                seen = [node.get("/v1/queues/file").json["paused"] for node in nodes]
                self.assertEqual(seen, [state] * 3)

    def changes_at_every_node_at_the_same_time_come_to_an_end(self):
        nodes = self._begin(3)
        done = []

        def try_until_free(call):
            """What it says in the end; one that finds the queues in the hand of another node for
            longer than a lock is waited for has changed nothing."""
            got = until(lambda: [one for one in [call()] if one.code != "overloaded"])[0]
            done.append((got.status, got.code))

        def change(node, number):
            for round_ in range(10):
                try_until_free(lambda: self._put(node, f"q{number}", concurrency=1 + round_))
                try_until_free(lambda: node.post("/v1/queues/file:pause"))
                try_until_free(lambda: node.post("/v1/queues/file:resume"))
        threads = [threading.Thread(target=change, args=(node, number))
                   for number, node in enumerate(nodes) for _ in range(2)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(done), {(200, None), (201, None)})
        self.assertLess(time.monotonic() - began, 30)

    # --- nodes that do not hear ---

    def a_node_that_hangs_is_waited_for_until_it_may_not_send(self):
        nodes, seen = self._begin(), []
        url = self.target.script("/slow", slowly(seen))
        self.assertEqual(self._put(nodes[0]).status, 201)
        self._fill(nodes[0], url, 2000)
        until(lambda: len(seen) >= 20)
        nodes[0].signal(signal.SIGSTOP)
        self.addCleanup(nodes[0].signal, signal.SIGCONT)
        began = time.monotonic()
        self.assertEqual(nodes[1].post("/v1/queues/q:pause").status, 200)
        self.assertGreater(time.monotonic() - began, LEASE_SECONDS / 2)
        self.assertLess(time.monotonic() - began, 2 * LEASE_SECONDS)
        nodes[0].signal(signal.SIGCONT)  # it begins nothing before it knows
        self.assertLessEqual(self._growth(seen), PLACES)
        self.assertTrue(until(lambda: nodes[0].get("/v1/queues/q").json["paused"]))

    def a_node_of_the_release_before_is_not_waited_for(self):
        nodes = self._begin()
        nodes[1].signal(signal.SIGSTOP)
        self.addCleanup(nodes[1].signal, signal.SIGCONT)
        self._sql("UPDATE daruma.node SET queues = NULL"
                  " WHERE epoch = (SELECT max(epoch) FROM daruma.node)")
        began = time.monotonic()
        self.assertEqual(nodes[0].post("/v1/queues/file:pause").status, 200)
        self.assertLess(time.monotonic() - began, LEASE_SECONDS / 2)


if __name__ == "__main__":
    postgres.shared()
    runner.main()
