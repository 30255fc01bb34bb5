# SPDX-License-Identifier: MIT
"""Callers who wait at one node for a task that another node carries out: they hear of its end by that
node's word, and by looking now and then where no word comes.
"""
import os
import re
import statistics
import threading
import time
import unittest

import postgres
import runner
import target as does
from gateway import Gateway, route
from polling import until
from target import Target, answer

ROUNDS = 20
LOOK_SECONDS = 0.2  # between two looks of those who wait
CREATED = answer(201, {}, b"made")


class Words(unittest.TestCase):
    def _begin(self):
        self.target = Target()
        self.addCleanup(self.target.close)
        self.database = postgres.shared().new()
        self.nodes = []
        for number in range(2):
            os.mkdir(f"node-{number}")
            self.nodes.append(Gateway(
                self, [route(self.target, in_progress="wait", wait="30s")],
                postgres.shared().url(self.database), folder=f"node-{number}").start())
        return self.nodes

    def _sql(self, text):
        return postgres.shared().sql(text, self.database)

    @staticmethod
    def _metric(node, name):
        text = node.get("/metrics").body.decode()
        return int(re.search(rf"^{name} (\d+)", text, re.M).group(1))

    def _words(self):
        return self._metric(self.nodes[1], "daruma_peer_words_total")

    def _round(self, key):
        """A request at the first node, its duplicate at the second: seconds from the one's answer to
        the other's."""
        go = threading.Event()
        self.addCleanup(go.set)
        self.target.script("/v1/orders", does.hold(go, CREATED))
        first = self.nodes[0].begin(key=key)
        until(lambda: self.target.seen() and self.target.seen()[-1].key == key)
        ended = []

        def wait():
            got = self.nodes[1].send(key=key)
            ended.append((time.monotonic(), got.status, got.body))
        other = threading.Thread(target=wait, daemon=True)
        other.start()
        until(lambda: self._metric(self.nodes[1], "daruma_gateway_waiting") == 1)
        go.set()
        self.assertEqual(first.end().status, 201)
        began = time.monotonic()
        other.join(10)
        self.assertEqual(ended[0][1:], (201, b"made"))
        return ended[0][0] - began

    def a_duplicate_at_another_node_is_told_by_that_node_s_word(self):  # C2.A
        self._begin()
        self._round("first")  # from here on the other one knows that words are wanted
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE awaits") == [["1"]])
        before = self._words()
        took = [self._round(f"k{number}") for number in range(ROUNDS)]
        print(f"# median {1000 * statistics.median(took):.1f} ms, longest {1000 * max(took):.1f} ms,"
              f" {self._words() - before} words for {ROUNDS} waits")
        self.assertLess(statistics.median(took), LOOK_SECONDS / 2)
        self.assertGreaterEqual(self._words() - before, ROUNDS * 3 // 4)

    def _poll(self, key):
        """A request at the first node, and a long poll for its task at the second."""
        go, got = threading.Event(), []
        self.addCleanup(go.set)
        self.target.script("/v1/orders", does.hold(go, CREATED))
        first = self.nodes[0].begin(key=key)
        until(lambda: self.target.seen() and self.target.seen()[-1].key == key)
        found, = self.nodes[1].get(f"/v1/keys?route=POST-v1-orders&key={key}").json["keys"]
        poll = threading.Thread(
            target=lambda: got.append(self.nodes[1].task(found["task"], 20000)), daemon=True)
        poll.start()
        until(lambda: re.search(r"^daruma_http_waiters [1-9]",
                                self.nodes[1].get("/metrics").body.decode(), re.M))
        go.set()
        self.assertEqual(first.end().status, 201)
        poll.join(10)
        self.assertEqual(got[0]["state"], "succeeded")

    def a_long_poll_at_another_node_is_told_by_a_word(self):
        self._begin()
        self._round("first")
        before = self._words()
        for number in range(5):
            self._poll(f"k{number}")
        self.assertGreaterEqual(self._words() - before, 3)  # a look may come first

    def who_waits_hears_of_the_end_also_when_no_word_comes(self):
        self._begin()
        self._round("first")
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE awaits") == [["1"]])
        self._sql("UPDATE daruma.node SET awaits = false")  # peers are not asked for it any more
        postgres.await_beats(self._sql, 2)
        before = self._words()
        took = [self._round(f"k{number}") for number in range(3)]
        self.assertLess(max(took), 5)
        self.assertEqual(self._words(), before)


if __name__ == "__main__":
    postgres.shared()
    runner.main()
