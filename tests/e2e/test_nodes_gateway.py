# SPDX-License-Identifier: MIT
"""Routes on several nodes with one PostgreSQL: a key is one effect by the upstream's own ledger,
whichever nodes its callers talk to and whichever node dies. C1, C2, C5; I2, I3, I4.
"""
import collections
import os
import threading
import time
import unittest

import postgres
import runner
import target as does
from gateway import Gateway, route
from polling import until
from program import BIN
from target import Target, answer
from test_gateway import lasting, replayed
from test_gateway_race import Client, numbered, race

CLIENTS = 63  # on kept connections; and one more that sets out alone
ROUNDS = int(os.environ.get("DARUMA_NODE_RACES", "10" if "asan" in BIN else "30"))
LEASE = {"node_lease": "2s"}
CREATED = answer(201, {"Content-Type": "application/json", "X-Number": "7"}, b'{"id": 7}')


# 503: another node's commit of the key takes longer than the key is asked for; docs/postgres.md
NOT_YET = {201, 503}


class Routes(unittest.TestCase):
    def _begin(self, count, path="/v1/orders", **more):
        self.target = Target()
        self.addCleanup(self.target.close)
        self.database = postgres.shared().new()
        self.nodes = [self._node(number, path, more) for number in range(count)]
        for node in self.nodes:
            node.start()
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE beat > 8")
              == [[str(count)]])
        return self.nodes

    def _node(self, number, path, more):
        os.mkdir(f"node-{number}")
        return Gateway(self, [route(self.target, f"POST {path}", **more)],
                       postgres.shared().url(self.database), folder=f"node-{number}", limits=LEASE)

    def _sql(self, text):
        return postgres.shared().sql(text, self.database)

    def _held(self, *then, **more):
        """Three nodes; the first one has a request that its upstream holds until `go`."""
        self.go = threading.Event()
        self.addCleanup(self.go.set)
        nodes = self._begin(3, **more)
        self.target.script("/v1/orders", does.hold(self.go, CREATED), *then)
        first = nodes[0].begin(key="k")
        self.target.wait_for(1)
        return nodes, first

    # --- 64 clients, one key, three gateways ---

    def _race(self, **more):
        numbered.count = 0
        nodes = self._begin(3, **more)
        self.target.script("/v1/orders", numbered)
        clients = [Client(nodes[number % 3].gateway_port) for number in range(CLIENTS + 1)]
        for number in range(ROUNDS):
            asked = (b"POST /v1/orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: key-%d\r\n"
                     b"Content-Length: 2\r\n\r\n{}" % number)
            answers = race(clients, asked)
            yield answers
            again = race(clients, asked)
            self.assertEqual({(status, body) for status, _headers, body in again},
                             {next((status, body) for status, _headers, body in answers
                                   if status == 201)})
        effects = collections.Counter(one.key for one in self.target.seen())
        self.assertEqual(len(effects), ROUNDS)
        self.assertEqual({key: count for key, count in effects.items() if count != 1}, {})

    def all_who_wait_at_three_gateways_get_the_same_bytes(self):  # C2.A
        for answers in self._race(in_progress="wait"):
            said = {(status, body) for status, _headers, body in answers if status != 503}
            self.assertEqual(len(said), 1, said)
            self.assertEqual(said.pop()[0], 201)
            marks = [headers.get(b"idempotent-replayed") for status, headers, _body in answers
                     if status != 503]
            self.assertEqual(marks.count(None), 1)  # one of them was the first

    def all_who_poll_at_three_gateways_get_one_answer_or_a_202(self):  # C2.B
        for answers in self._race(in_progress="accepted"):
            self.assertLessEqual({status for status, _headers, _body in answers}, NOT_YET | {202})
            self.assertEqual(len({body for status, _headers, body in answers if status == 201}), 1)

    def all_who_are_sent_away_at_three_gateways_get_one_answer_or_a_409(self):  # C2.C
        for answers in self._race(in_progress="conflict"):
            self.assertLessEqual({status for status, _headers, _body in answers}, NOT_YET | {409})
            self.assertEqual(len({body for status, _headers, body in answers if status == 201}), 1)

    def a_waiter_at_another_node_hears_of_the_end(self):  # C2.A
        nodes, first = self._held(in_progress="wait")
        others = [node.begin(key="k") for node in nodes for _ in range(3)]
        until(lambda: all(node.send(key="k", headers={"Prefer": "wait=0"}).code == "key_in_progress"
                          for node in nodes))
        self.go.set()
        began = time.monotonic()
        answers = [one.end() for one in [first, *others]]
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual({repr(lasting(got)) for got in answers}, {repr(lasting(answers[0]))})
        self.assertEqual({replayed(got) for got in answers[1:]}, {("true", "true")})
        self.assertEqual(len(self.target.seen()), 1)

    def an_answer_is_replayed_byte_for_byte_by_every_node(self):  # I4
        nodes, first = self._held()
        self.go.set()
        kept = lasting(first.end())
        self.assertEqual(kept[0], 201)
        for node in nodes:
            got = node.send(key="k")
            self.assertEqual((lasting(got), replayed(got)), (kept, ("true", "true")))
            self.assertEqual(node.send(key="k", body=b'{"other": 1}').code, "key_conflict")
        nodes[0].kill()
        self.assertEqual(lasting(nodes[1].send(key="k")), kept)

    def a_poll_is_answered_by_any_node(self):  # C2.B
        nodes, first = self._held(in_progress="accepted")
        got = nodes[1].send(key="k")
        self.assertEqual((got.status, got.json["status"]), (202, "processing"))
        self.assertEqual(nodes[2].send(got.json["pollUrl"], None, method="GET").status, 202)
        self.go.set()
        self.assertEqual(first.end().status, 201)
        for node in nodes:
            self.assertEqual(node.send(got.json["pollUrl"], None, method="GET").body, b'{"id": 7}')

    def what_is_not_kept_is_told_to_waiters_everywhere_and_then_sent_anew(self):
        self.go = threading.Event()
        self.addCleanup(self.go.set)
        nodes = self._begin(2, in_progress="wait", replay="success")
        busy = answer(422, {"Content-Type": "text/plain"}, b"not now")
        self.target.script("/v1/orders", does.hold(self.go, busy), CREATED)
        first = nodes[0].begin(key="k")
        self.target.wait_for(1)
        other = nodes[1].begin(key="k")
        until(lambda: 'daruma_gateway_waiting 1' in nodes[1].get("/metrics").body.decode())
        self.go.set()
        for got in (first.end(), other.end()):
            self.assertEqual((got.status, got.body, replayed(got)), (422, b"not now", (None, None)))
        self.assertEqual(nodes[1].send(key="k").status, 201)

    def what_one_node_forgets_no_node_replays(self):
        nodes, first = self._held(answer(201, {}, b"anew"))
        self.go.set()
        self.assertEqual(first.end().status, 201)
        self.assertEqual(nodes[1].send(key="k").body, b'{"id": 7}')
        found, = nodes[2].get("/v1/keys?route=POST-v1-orders&key=k").json["keys"]
        self.assertEqual(nodes[2].post(f"/v1/keys/{found['task']}:forget").status, 204)
        self.assertEqual([node.send(key="k").body for node in nodes], [b"anew"] * 3)

    def a_key_that_another_session_holds_is_in_progress_and_worth_asking_again(self):  # I7
        node, = self._begin(1)
        self.target.script("/v1/orders", CREATED)
        self.assertEqual(node.send(key="k").status, 201)  # makes the row that is then held
        found, = node.get("/v1/keys?route=POST-v1-orders&key=k").json["keys"]
        other = postgres.Session(postgres.shared(), self.database)
        self.addCleanup(other.close)
        other.run("CREATE TEMP TABLE held AS SELECT * FROM daruma.key")
        self.assertEqual(node.post(f"/v1/keys/{found['task']}:forget").status, 204)
        other.run("BEGIN; INSERT INTO daruma.key SELECT * FROM held")
        got = node.send(key="k")
        self.assertEqual((got.status, got.code, got.json["retry"]),
                         (503, "key_in_progress", "same_key"))
        self.assertIn("retry-after", got.headers)
        other.run("ROLLBACK")
        self.target.script("/v1/orders", CREATED)
        self.assertEqual(node.send(key="k").status, 201)

    # --- the node that holds the attempt dies ---

    def nobody_sends_again_what_a_killed_node_had_sent(self):  # C4, I5
        nodes, first = self._held(CREATED, replay="settled", ambiguous="hold")
        nodes[0].kill()
        self.assertIsNone(first.answer)
        got = until(lambda: (lambda got: got.code == "outcome_unknown" and got)(
            nodes[1].send(key="k")))
        self.assertEqual(got.status, 409)
        self.assertEqual(nodes[2].send(key="k").code, "outcome_unknown")
        nodes[0].start()
        self.assertEqual(nodes[0].send(key="k").code, "outcome_unknown")
        self.assertEqual(len(self.target.seen()), 1)

    def another_node_probes_for_a_killed_one(self):  # C4
        probe = {"request": "GET /by-key/{key}", "every": "100ms", "misses": 3, "status": 201,
                 "settle_after": "100ms"}
        nodes, _first = self._held(CREATED, replay="settled", ambiguous="probe", probe=probe,
                                   in_progress="wait", wait="30s")
        self.target.script("/by-key/k", answer(404), answer(200, {}, b"it happened"))
        waiting = [node.begin(key="k") for node in nodes[1:]]
        nodes[0].kill()
        self.assertEqual([(one.end().status, one.end().body) for one in waiting],
                         [(201, b"it happened")] * 2)
        self.assertEqual(len(self.target.seen("/v1/orders")), 1)
        self.assertEqual(len(self.target.seen("/by-key/k")), 2)

    def waiters_of_a_killed_node_s_attempt_hear_that_nobody_knows(self):
        nodes, _first = self._held(CREATED, replay="settled", in_progress="wait", wait="30s")
        waiting = [node.begin(key="k") for node in nodes[1:]]
        nodes[0].kill()
        self.assertEqual([one.end().code for one in waiting], ["outcome_unknown"] * 2)
        self.assertEqual(len(self.target.seen()), 1)


if __name__ == "__main__":
    postgres.shared()
    runner.main()
