# SPDX-License-Identifier: MIT
"""Nodes on one PostgreSQL that hold kept answers in memory: what one node forgets, no node replays
from the moment that the one who wanted it forgotten was told so. I4.
"""
import os
import re
import signal
import threading
import time
import unittest

import postgres
import runner
from gateway import Gateway, route
from polling import until
from target import Target, answer

LEASE_SECONDS = 2
PURGE = "/v1/queues/_route.POST-v1-orders:purge"


def numbered():
    """An upstream that does everything it is asked, and says how often."""
    seen = []

    def act(connection, request):
        seen.append(request)
        answer(201, {}, b"effect %d" % len(seen))(connection, request)
    return act


class Forgetting(unittest.TestCase):
    def _begin(self, count=2):
        self.target = Target()
        self.addCleanup(self.target.close)
        self.target.script("/v1/orders", numbered())
        self.database = postgres.shared().new()
        self.nodes = []
        for number in range(count):
            os.mkdir(f"node-{number}")
            self.nodes.append(Gateway(
                self, [route(self.target)], postgres.shared().url(self.database),
                folder=f"node-{number}", limits={"node_lease": f"{LEASE_SECONDS}s"}).start())
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE forgotten > 0")
              == [[str(count)]])
        return self.nodes

    def _sql(self, text):
        return postgres.shared().sql(text, self.database)

    @staticmethod
    def _held(node):
        """How many answers it has given from memory."""
        text = node.get("/metrics").body.decode()
        return int(re.search(r"^daruma_gateway_replayed_held_total (\d+)", text, re.M).group(1))

    def _hold(self, key="k"):
        """Every node holds the answer of the key in memory afterwards; that answer."""
        first = self.nodes[0].send(key=key)
        self.assertEqual(first.status, 201)
        for node in self.nodes:
            before = self._held(node)
            until(lambda: (node.send(key=key).body, self._held(node) > before)
                  == (first.body, True))
        return first.body

    @staticmethod
    def _forget(node, key="k"):
        found, = node.get(f"/v1/keys?route=POST-v1-orders&key={key}").json["keys"]
        return node.post(f"/v1/keys/{found['task']}:forget")

    def a_held_answer_is_replayed_without_the_tables_of_keys_and_answers(self):  # I4
        nodes = self._begin()
        kept = self._hold()
        other = postgres.Session(postgres.shared(), self.database)
        self.addCleanup(other.close)
        other.run("BEGIN; LOCK TABLE daruma.key, daruma.answer IN ACCESS EXCLUSIVE MODE")
        for node in nodes:
            began, before = time.monotonic(), self._held(node)
            self.assertEqual([node.send(key="k").body for _ in range(10)], [kept] * 10)
            self.assertEqual(self._held(node) - before, 10)
            self.assertLess(time.monotonic() - began, 1)
            self.assertEqual(node.send(key="k", body=b'{"other": 1}').code, "key_conflict")

    def what_one_node_forgets_no_node_replays_from_memory(self):
        nodes = self._begin(3)
        for number in range(10):
            kept = self._hold(f"k{number}")
            began = time.monotonic()
            self.assertEqual(self._forget(nodes[number % 3], f"k{number}").status, 204)
            self.assertLess(time.monotonic() - began, LEASE_SECONDS / 2)
            anew = [node.send(key=f"k{number}").body for node in nodes]
            self.assertEqual(len(set(anew)), 1)
            self.assertNotIn(kept, anew)

    def a_node_that_hung_while_a_key_was_forgotten_does_not_replay_it(self):
        nodes = self._begin()
        kept = self._hold()
        nodes[0].signal(signal.SIGSTOP)
        self.addCleanup(nodes[0].signal, signal.SIGCONT)
        began = time.monotonic()
        self.assertEqual(self._forget(nodes[1]).status, 204)
        took = time.monotonic() - began
        self.assertLess(took, 2 * LEASE_SECONDS)
        self.assertGreater(took, LEASE_SECONDS / 2)  # as long as it might have replayed
        asked = [nodes[0].begin(key="k") for _ in range(5)]  # there before its first beat
        time.sleep(0.1)
        nodes[0].signal(signal.SIGCONT)
        anew = nodes[1].send(key="k").body
        self.assertNotEqual(anew, kept)
        # A peer records the key at the same time: who has asked for it too long is told to ask again.
        self.assertLessEqual({one.end().status for one in asked}, {201, 503})
        self.assertNotIn(kept, {one.end().body for one in asked})
        self._hold()  # and holds what is kept now

    def what_a_purge_forgets_no_node_replays(self):
        nodes = self._begin()
        kept = [self._hold(f"k{number}") for number in range(3)]
        self.assertEqual(nodes[1].post(PURGE).status, 200)
        anew = [node.send(key=f"k{number}").body for number in range(3) for node in nodes]
        self.assertEqual(set(anew) & set(kept), set())
        self.assertEqual(len(set(anew)), 3)

    def a_purge_that_a_session_holds_up_is_told_as_done_when_it_is_done(self):
        nodes = self._begin()
        for number in range(8):
            self._hold(f"k{number}")
        other = postgres.Session(postgres.shared(), self.database)
        self.addCleanup(other.close)
        other.run("BEGIN; SELECT FROM daruma.meta WHERE name = 'forgotten' FOR UPDATE")
        said = []
        purging = threading.Thread(target=lambda: said.append(nodes[0].post(PURGE)))
        purging.start()
        time.sleep(0.3)  # longer than a lock is waited for
        other.run("ROLLBACK")
        purging.join()
        self.assertEqual(said[0].status, 200)
        self.assertEqual(self._sql("SELECT count(*) FROM daruma.key"), [["0"]])
        self.assertEqual(said[0].json["counts"]["succeeded"], 0)

    def a_purge_that_cannot_be_done_is_not_told_as_done(self):
        nodes = self._begin()
        self._hold()
        other = postgres.Session(postgres.shared(), self.database)
        self.addCleanup(other.close)
        other.run("BEGIN; SELECT FROM daruma.meta WHERE name = 'forgotten' FOR UPDATE")
        got = nodes[0].post(PURGE)
        self.assertEqual((got.status, got.code), (503, "overloaded"))
        other.run("ROLLBACK")
        self.assertEqual(nodes[0].post(PURGE).status, 200)
        self.assertEqual(self._sql("SELECT count(*) FROM daruma.key"), [["0"]])

    def what_is_deleted_with_sql_is_replayed_for_no_longer_than_a_moment(self):
        nodes = self._begin()
        kept = self._hold()
        self._sql("DELETE FROM daruma.key")
        until(lambda: nodes[0].send(key="k").body != kept, seconds=LEASE_SECONDS)

    def a_node_of_an_earlier_version_is_not_waited_for_and_nothing_is_held_beside_it(self):
        nodes = self._begin()
        self._hold()
        self._sql("UPDATE daruma.node SET forgotten = NULL"
                  " WHERE epoch = (SELECT max(epoch) FROM daruma.node)")
        postgres.await_beats(self._sql, 3)
        before = self._held(nodes[0])
        self.assertEqual(nodes[0].send(key="k").status, 201)
        self.assertEqual(self._held(nodes[0]), before)
        began = time.monotonic()
        found, = nodes[0].get("/v1/keys?route=POST-v1-orders&key=k").json["keys"]
        nodes[1].signal(signal.SIGSTOP)
        self.addCleanup(nodes[1].signal, signal.SIGCONT)
        self.assertEqual(nodes[0].post(f"/v1/keys/{found['task']}:forget").status, 204)
        self.assertLess(time.monotonic() - began, LEASE_SECONDS)

    def the_answer_is_held_again_after_the_database_was_away(self):
        nodes = self._begin()
        self._hold()
        self._sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                  " WHERE application_name = 'daruma' AND datname = current_database()")
        until(lambda: nodes[0].send(key="k").status == 201)
        self._hold()


if __name__ == "__main__":
    postgres.shared()
    runner.main()
