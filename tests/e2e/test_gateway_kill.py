# SPDX-License-Identifier: MIT
"""kill -9 of the gateway, of the upstream, and of both, DARUMA_GATEWAY_KILLS times at random under
keyed load. By the upstream's own ledger: no key with two effects on `hold` and `probe` routes, no
answer that a caller was given lost or changed; every unsettled record is one whose attempt had begun.
I1, I4, I5, I8, C1, C4.
"""
import collections
import http.client
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time
import unittest

import ports
import runner
import upstream
from gateway import Gateway
from program import BIN

KILLS = int(os.environ.get("DARUMA_GATEWAY_KILLS", "12" if "asan" in BIN else "40"))
SEED = int(os.environ.get("DARUMA_SEED", "78"))
SECONDS_MAX = 120 + 9 * KILLS
CALLERS = 8
LOAD_SECONDS_MAX = 0.25
CALL_SECONDS = 15
SETTLE_SECONDS, SETTLE_EACH_SECONDS = 90, 0.05  # and for each key
REPORT = os.dup(1)
HERE = pathlib.Path(__file__).resolve().parent


class Upstream:
    """The upstream's process."""

    def __init__(self, seed):
        self.port, self.seed, self.lives, self.process = ports.lasting(), seed, 0, None

    def start(self):
        self.lives += 1
        self.process = subprocess.Popen(
            [sys.executable, HERE / "upstream.py", str(self.port), "ledger",
             f"{self.seed}:{self.lives}"], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.005)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Caller(threading.Thread):
    """Sends requests with keys, and each again with the same key until it has an answer or is told
    that nobody knows."""

    def __init__(self, campaign, number):
        super().__init__(daemon=True)
        self.campaign, self.number = campaign, number
        self.dice = random.Random(f"{campaign.seed}:{number}")
        self.connection = None

    def run(self):
        serial = 0
        while not self.campaign.is_over:
            key = f"c{self.number}-{serial}"
            serial += 1
            self.campaign.sent.add(key)
            for _ in range(self.dice.randint(1, 6)):
                if self.campaign.is_over or not self._once(key):
                    break

    def _once(self, key):
        """True: it is worth sending again."""
        try:
            got = self.campaign.call(self, key)
        except (OSError, http.client.HTTPException):
            self.connection = None
            time.sleep(0.005)
            return True
        if got[0] == 201:
            self.campaign.answers[key].append(got[1])
            return self.dice.random() < 0.3  # and once more: a replay
        return True


class Campaign:
    def __init__(self, test, seed, route):
        self.test, self.seed, self.route = test, seed, route
        self.dice = random.Random(f"{seed}:kills")
        self.sent, self.answers = set(), collections.defaultdict(list)
        self.is_over, self.kills = False, collections.Counter()
        self.upstream = Upstream(seed)
        self.gateway = Gateway(test, [{"match": "POST /orders", "scope": "global", "policy": "quick",
                                       "upstream": f"http://127.0.0.1:{self.upstream.port}",
                                       "timeout": "3s", **route}])
        test.addCleanup(self.upstream.kill)

    def call(self, caller, key, **headers):
        """(status, body)"""
        if caller.connection is None:
            caller.connection = http.client.HTTPConnection("127.0.0.1", self.gateway.gateway_port,
                                                           timeout=CALL_SECONDS)
        caller.connection.request("POST", "/orders", key.encode(),
                                  {"Idempotency-Key": key, **headers})
        got = caller.connection.getresponse()
        return got.status, got.read()

    def play(self):
        self.upstream.start()
        self.gateway.start()
        callers = [Caller(self, number) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        for _ in range(KILLS):
            time.sleep(self.dice.random() * LOAD_SECONDS_MAX)
            whom = self.dice.choice(("gateway", "upstream", "both"))
            self.kills[whom] += 1
            if whom != "upstream":
                self.gateway.kill()
            if whom != "gateway":
                self.upstream.kill()
                self.upstream.start()
            if whom != "upstream":
                self.gateway.start()
        self.is_over = True
        for caller in callers:
            caller.join(CALL_SECONDS + 5)

    def settle(self):
        """Every key once more, until it has an answer or stays unsettled: {key: (status, body)}"""
        ends, asker = {}, Caller(self, -1)
        deadline = time.monotonic() + SETTLE_SECONDS + SETTLE_EACH_SECONDS * len(self.sent)
        left = set(self.sent)
        while left and time.monotonic() < deadline:
            for key in sorted(left):
                status, body = self.call(asker, key, Prefer="wait=0")
                ends[key] = (status, body)
                if status == 201 or (self.route["ambiguous"] == "hold" and b"outcome_unknown" in body):
                    left.discard(key)
            time.sleep(0.1)
        self.test.assertEqual(left, set(), "did not settle")
        return ends


class Kills(unittest.TestCase):
    def _held_to_account(self, name, route):
        campaign = Campaign(self, f"{SEED}:{name}", route)
        campaign.play()
        ends = campaign.settle()
        ledger = upstream.read("ledger")
        twice = {key: numbers for key, numbers in ledger.items() if len(numbers) > 1}
        lost = {key for key, bodies in campaign.answers.items()
                if len(set(bodies)) != 1 or ends[key] != (201, bodies[0])}
        unsettled = [key for key, (status, _body) in ends.items() if status != 201]
        given = sum(len(bodies) for bodies in campaign.answers.values())
        os.write(REPORT, (
            f"# {name}: {sum(campaign.kills.values())} kills {dict(campaign.kills)}, "
            f"{len(campaign.sent)} keys, {sum(map(len, ledger.values()))} effects, {given} answers "
            f"given; duplicate side effects: {len(twice)} ({100 * len(twice) / len(ends):.2f} %), "
            f"answers lost or changed: {len(lost)}, unsettled: {len(unsettled)}\n").encode())
        self.assertEqual(twice, {})
        self.assertEqual(lost, set())
        for key, (status, body) in ends.items():
            if status == 201:
                self.assertEqual(body, upstream.body_of(key, ledger[key][0]))
        self._each_had_begun(campaign.gateway)
        self.assertGreater(len(campaign.answers), KILLS)
        return unsettled

    def _each_had_begun(self, gateway):
        cursor = "0"
        while cursor is not None:
            page = gateway.get("/v1/queues/_route.POST-orders/tasks?state=unsettled&limit=1000"
                               f"&after={cursor}").json
            for task in page["tasks"]:
                self.assertGreaterEqual(task["attempts"], 1)
            cursor = page["next"]

    def nothing_happens_twice_on_a_route_that_holds(self):
        self._held_to_account("hold", {"replay": "settled", "ambiguous": "hold"})

    def nothing_happens_twice_on_a_route_that_probes(self):
        unsettled = self._held_to_account("probe", {
            "replay": "settled", "ambiguous": "probe", "in_progress": "wait", "wait": "300ms",
            "probe": {"request": "GET /by-key/{key}", "every": "100ms", "misses": 3, "status": 201,
                      "settle_after": "3500ms"}})
        self.assertEqual(unsettled, [])


if __name__ == "__main__":
    runner.TEST_SECONDS_MAX = SECONDS_MAX
    runner.main()
