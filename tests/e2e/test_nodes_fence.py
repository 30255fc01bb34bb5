# SPDX-License-Identifier: MIT
"""Who may send a task on PostgreSQL: the node that holds its lease, and only while it does. A cancel or
a manual run beside a claim, a node that was stopped and wakes up, a fallback list whose first provider
takes longer than the lease. I2, I5; engineering 1.6, 1.9.
"""
import collections
import concurrent.futures
import json
import os
import signal
import threading
import time
import unittest

import postgres
import runner
import target as does
from polling import until
from server import Server
from target import Target, answer
from test_nodes import POLICY

QUEUES, ROUNDS, TASKS = 4, 2, 60  # tasks for each queue and round
LEASE = "2s"
SLOW_SECONDS = 2.5  # longer than the part of the lease that a node uses
DONE = json.dumps({"type": "message", "role": "assistant",
                   "content": [{"type": "text", "text": "short"}], "stop_reason": "end_turn",
                   "usage": {"input_tokens": 1, "output_tokens": 1}}).encode()


class Fence(unittest.TestCase):
    def _begin(self, count, *queues, **more):
        self.target = Target()
        self.postgres = postgres.shared()
        self.database = self.postgres.new()
        self.nodes = []
        for number in range(count):
            os.mkdir(f"node-{number}")
            self.nodes.append(Server(self, self.postgres.url(self.database), list(queues),
                                     folder=f"node-{number}", limits={"node_lease": LEASE},
                                     **{"policies": [POLICY], **more}).start())
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE beat > 8")
              == [[str(count)]])
        return self.nodes

    def _sql(self, text):
        return self.postgres.sql(text, self.database)

    # --- claims beside what people do ---

    def _act_while_claimed(self, act):
        """Every task of paused queues is acted upon at the moment at which the queues go on: who was
        told 200, and how often the target has seen each task."""
        node, = self._begin(1, *({"name": f"q{number}", "policy": "short", "concurrency": 8}
                                 for number in range(QUEUES)))
        url = self.target.script("/once", answer(200))
        told = {}
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for _ in range(ROUNDS):
                made = []
                for number in range(QUEUES):
                    node.post(f"/v1/queues/q{number}:pause")
                    tasks = [{"target": url, "repeatable": False} for _ in range(TASKS)]
                    batch = node.post(f"/v1/queues/q{number}/tasks:batch", tasks)
                    made += [one["id"] for one in batch.json["results"]]
                resumes = [pool.submit(node.post, f"/v1/queues/q{number}:resume")
                           for number in range(QUEUES)]
                acts = {one: pool.submit(node.post, f"/v1/tasks/{one}:{act}") for one in made}
                told.update((one, future.result().status) for one, future in acts.items())
                for future in resumes:
                    self.assertEqual(future.result().status, 200)
                until(lambda: self._sql("SELECT count(*) FROM daruma.life WHERE state < 2")
                      == [["0"]])
        seen = collections.Counter(one.task for one in self.target.seen())
        return [one for one, status in told.items() if status == 200], seen

    def a_task_that_was_cancelled_is_never_sent(self):
        cancelled, seen = self._act_while_claimed("cancel")
        self.assertEqual([one for one in cancelled if seen[one] > 0], [])

    def a_manual_run_beside_a_claim_sends_once(self):
        _run, seen = self._act_while_claimed("run")
        self.assertEqual(len(seen), QUEUES * ROUNDS * TASKS)
        self.assertEqual([one for one, count in seen.items() if count != 1], [])

    # --- a node that was stopped ---

    def what_a_stopped_node_had_leased_is_not_sent_when_it_wakes(self):
        first, second = self._begin(2, {"name": "q", "policy": "short", "concurrency": 8,
                                        "host_concurrency": 1})
        gate = threading.Event()
        slow, once = self.target.script("/slow", does.hold(gate)), self.target.script("/once", answer(200))
        first.add(target=slow, repeatable=False)
        self.target.wait_for(1)
        made = [first.add(target=once)]  # behind it, leased: the host's line has one place
        until(lambda: self._sql("SELECT count(*) FROM daruma.life WHERE state = 1") == [["2"]])
        first.signal(signal.SIGSTOP)
        try:
            for one in made:
                second.settled(one)
        finally:
            first.signal(signal.SIGCONT)
        first.wait_line("node_rejoined")
        gate.set()
        until(lambda: first.get("/readyz").status == 200)
        time.sleep(0.5)  # what would go out now must not
        self.assertEqual([len([1 for seen in self.target.seen("/once") if seen.task == one])
                          for one in made], [1])

    def what_must_not_be_sent_twice_and_was_not_sent_is_not_left_in_doubt(self):
        """It waits for its host without a lease but for a moment each second, when its node looks whether
        the host has a place: a node that stops meanwhile takes nothing of it along."""
        first, second = self._begin(2, {"name": "q", "policy": "short", "concurrency": 8,
                                        "host_concurrency": 1})
        gate = threading.Event()
        slow, once = self.target.script("/slow", does.hold(gate)), self.target.script("/once", answer(200))
        first.add(target=slow, repeatable=False)
        self.target.wait_for(1)
        behind = first.add(target=once, repeatable=False)

        def stopped_without_its_lease():
            first.signal(signal.SIGSTOP)
            if second.task(behind)["state"] == "waiting":
                return True
            first.signal(signal.SIGCONT)
            return False
        until(stopped_without_its_lease)
        try:
            until(lambda: second.task(behind)["state"] == "succeeded")
        finally:
            first.signal(signal.SIGCONT)
        first.wait_line("node_rejoined")
        gate.set()
        until(lambda: first.get("/readyz").status == 200)
        self.assertEqual(len(self.target.seen("/once")), 1)
        self.assertEqual(second.task(behind)["attempts"], 1)

    def what_was_leased_goes_on_when_a_share_falls_to_nothing(self):
        """With one place for two nodes, one of them has none; what it had leased is the other's."""
        nodes = self._begin(2, {"name": "q", "policy": "short"})

        def act(connection, request):
            time.sleep(0.1)
            return answer(200)(connection, request)
        url = self.target.script("/shop", act)

        def put(concurrency):
            targets = [{"name": "t", "url": url}]
            self.assertIn(nodes[0].call("PUT", "/v1/queues/shop", {
                "policy": "short", "concurrency": concurrency, "host_concurrency": 1,
                "targets": targets}).status, (200, 201))
        put(8)
        until(lambda: nodes[1].get("/v1/queues/shop").status == 200)
        made = [nodes[number % 2].add("shop", body="x") for number in range(20)]
        put(1)
        for identity in made:
            self.assertEqual(nodes[0].settled(identity)["state"], "succeeded")
        self.assertEqual(len(self.target.seen("/shop")), 20)

    # --- an attempt that lasts longer than the lease ---

    def the_second_provider_is_asked_after_a_slow_first_one(self):
        os.environ["DARUMA_TEST_KEY"] = "x"
        providers = Target()

        def fail_late(connection, request):
            time.sleep(SLOW_SECONDS)
            return answer(500)(connection, request)

        def provider(name, kind):
            return {"name": name, "kind": kind, "url": f"http://127.0.0.1:{providers.port}",
                    "model": "m", "keys": ["env:DARUMA_TEST_KEY"],
                    "prompt": {"language": "en", "length": 100}}
        providers.script("/v1/chat/completions", fail_late)
        providers.script("/v1/messages", answer(200, {"Content-Type": "application/json"}, DONE))
        node, = self._begin(1, {"name": "articles", "policy": "single",
                                "fallback": ["openai", "claude"]},
                            policies=[{"name": "single", "max_attempts": 1}],
                            providers=[provider("openai", "openai"),
                                       provider("claude", "anthropic")])
        identity = node.add("articles", article={"id": "1", "title": "t", "content": "c"})
        self.assertEqual(node.settled(identity)["state"], "succeeded")
        self.assertEqual(len(providers.seen("/v1/messages")), 1)


if __name__ == "__main__":
    postgres.shared()
    runner.main()
