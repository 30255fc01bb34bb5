# SPDX-License-Identifier: MIT
"""The kill -9 campaign: a server under load is killed DARUMA_KILLS times at moments chosen by dice
(DARUMA_SEED), started again each time, and held to account. Invariants I1, I3, I5-I8; E7.

A kill falls
    before commit                a request was sent, no answer came, and nothing was recorded
    between commit and answer    no answer came, and it was recorded
    between send and settle      the target has the request, and its outcome is lost
and a campaign in which one of the three never happened proves too little, and fails.
"""
import os
import random
import signal
import time
import unittest

import campaign
import postgres
import runner
from campaign import (ATTEMPTS_MAX, HELD_AGAIN, HELD_ONCE, ONLY_ONCE, REFUSALS, Books, Caller, Load,
                      Lost)
from server import Server

KILLS = int(os.environ.get("DARUMA_KILLS", "200"))
SEED = int(os.environ.get("DARUMA_SEED", "78"))
SECONDS_MAX = 60 + 2 * KILLS
REPORT = os.dup(1)  # the runner shows what a test prints only when it fails

LOAD_SECONDS_MAX = 0.12
START_SECONDS_MAX = 0.03
BURST = 12
BURST_LATENCIES = 1.5  # of the latest answer: the kill falls before, in or after the commit
EXTRA = 4  # times as many kills at most, when luck has left out a phase
PAGE = 1000
SAMPLES = 100
PHASES = ("before commit", "between commit and answer", "between send and settle")


def report(text):
    os.write(REPORT, (text + "\n").encode())


class Campaign:
    """One server in one folder, killed again and again."""

    def __init__(self, test, store, seed):
        self.test, self.seed = test, seed
        self.dice = random.Random(f"{seed}:kills")
        self.books = Books(seed)
        self.load = Load(self.books, seed)
        self.server = Server(test, store, [{"name": "q", "policy": "campaign"}],
                             policies=[campaign.POLICY])
        self.cursor = "0"
        self.held = None  # the create that the target has in its hands at the kill
        self.burst = []  # creates of the campaign's own
        self.unsure = []  # sent without an answer, before the latest kill
        self.fallen = dict.fromkeys(PHASES, 0)
        self.kills = 0

    # --- the moments ---

    def after_a_while(self):
        time.sleep(self.dice.uniform(0, LOAD_SECONDS_MAX))

    def after_some_answers(self):
        self.load.wait_answered(self.dice.randrange(1, 100))

    def right_after_a_burst(self):
        callers = [Caller(self.server.port) for _ in range(BURST)]
        self.burst = [(caller, self.books.new(campaign.AGAIN)) for caller in callers]
        for caller, create in self.burst:
            caller.send(create, self.books)
        time.sleep(self.dice.uniform(0, BURST_LATENCIES * self.load.latency))

    def while_the_target_has_a_request(self):
        create = self.books.new(self.dice.choice((HELD_AGAIN, HELD_ONCE)))
        caller = Caller(self.server.port)
        caller.send(create, self.books)
        caller.receive(create)
        caller.close()
        self.books.target.wait_for_body(str(create.number).encode())
        self.held = create

    def while_it_starts(self):
        """Killed once more, before it is ready: recovery must bear that too."""
        self.after_a_while()
        self._kill()
        self.server.launch()
        time.sleep(self.dice.uniform(0, START_SECONDS_MAX))

    MOMENTS = (after_a_while, right_after_a_burst, while_the_target_has_a_request,
               after_some_answers, right_after_a_burst, after_a_while,
               while_the_target_has_a_request, while_it_starts)

    def _kill(self):
        killed_at = time.monotonic()
        self.test.assertEqual(self.server.kill(), -signal.SIGKILL, "it had ended by itself")
        self.kills += 1
        self.load.halt()
        self._hear_the_burst()
        self.unsure += [create for create in self.load.take_unanswered()
                        if create.sent_at < killed_at]

    def _hear_the_burst(self):
        """An answer that is in the socket was given, killed or not."""
        for caller, create in self.burst:
            try:
                caller.receive(create)
            except Lost:
                self.unsure.append(create)
            caller.close()
        self.burst = []

    # --- the campaign ---

    def run(self, kills):
        self.server.start()
        while self.kills < kills:
            self._round(self.MOMENTS[self.kills % len(self.MOMENTS)])
        while not all(self.fallen.values()) and self.kills < kills * EXTRA:
            self._round(Campaign.right_after_a_burst)
        self.load.begin(self.server.port)
        self.load.wait_answered(20)
        self.load.halt()
        self._leave_alone()
        self.load.end()

    def _round(self, moment):
        self.load.begin(self.server.port)
        moment(self)
        self._kill()
        self.server.start()
        self._list()
        self._account(self.books.open)
        self.books.open = [one for one in self.books.open if one.status is None]

    def _list(self, state=None):
        """What was recorded since the last look, or everything in a state."""
        after, rows = "0" if state else self.cursor, []
        query = f"&state={state}" if state else ""
        while after is not None:
            page = self.server.get(f"/v1/queues/q/tasks?limit={PAGE}&after={after}{query}").json
            rows += page["tasks"]
            if not state and page["tasks"]:
                self.cursor = after = page["next"] or self._row(page["tasks"][-1]["id"])
            after = page["next"]
        if not state:
            for row in rows:
                self._enter(row)
        return rows

    @staticmethod
    def _row(identity):
        """The cursor behind a task: milliseconds since 2020, and 12 bits that count."""
        digits = identity.replace("-", "")
        return str((int(digits[:12], 16) - 1577836800000) << 12 | int(digits[13:16], 16))

    def _enter(self, row):
        number = int(row["labels"]["n"])
        self.test.assertNotIn(number, self.books.by_number, "recorded twice")
        self.books.by_number[number] = row["id"]
        self.books.listed[row["id"]] = row

    def _account(self, creates):
        """After a restart: nothing that was acknowledged is gone, nothing refused is there."""
        for create in creates:
            found = self.books.by_number.get(create.number)
            if create.identity is not None:
                self.test.assertEqual(found, create.identity, "acknowledged, and gone")  # I1
            elif create.status is not None:
                self.test.assertIsNone(found, "refused, and there")  # I7
        recorded = [create.number in self.books.by_number for create in self.unsure]
        self.fallen[PHASES[0]] += not all(recorded)
        self.fallen[PHASES[1]] += any(recorded)
        self.unsure = []
        if self.held is not None:
            self._account_held(self.held)
            self.held = None

    def _account_held(self, create):
        task = self.server.settled(create.identity)
        first = task["trail"][0]
        self.test.assertEqual((first["attempt"], first["sent"]), (1, "maybe"))
        self.test.assertIn("interrupted", first["message"])
        expected = "unsettled" if create.path == HELD_ONCE else "succeeded"
        self.test.assertEqual(task["state"], expected)
        self.fallen[PHASES[2]] += 1

    # --- the end ---

    def _leave_alone(self):
        """Whatever still waits ends by itself; then everything is counted."""
        while self._open_count() > 0:  # two lists are two moments: a task can slip between them
            for state in ("waiting", "running"):
                for row in self._list(state):
                    self.server.settled(row["id"])
        self._list()
        states = {}
        for state in ("waiting", "running", "unsettled", "succeeded", "failed", "cancelled"):
            for row in self._list(state):
                self.test.assertNotIn(row["id"], states, "in two states")  # I7
                states[row["id"]] = state
                self.books.listed[row["id"]] = row
        self.test.assertEqual(states.keys(), set(self.books.by_number.values()))
        counts = self.server.get("/v1/queues/q").json["counts"]
        for state, count in counts.items():
            self.test.assertEqual(count, list(states.values()).count(state), state)
        self._account(self.books.creates.values())
        for row in self.books.listed.values():
            self._check(row)
        self._check_keys()
        self._check_trails()
        self._say(counts)

    def _open_count(self):
        counts = self.server.get("/v1/queues/q").json["counts"]
        return counts["waiting"] + counts["running"]

    def _check(self, row):
        create = self.books.creates[int(row["labels"]["n"])]
        seen = self.books.seen(row["id"])
        attempts = [attempt for attempt, _word in seen]
        words = [word for _attempt, word in seen]
        about = (create.number, create.path, row["state"], row["attempts"], seen)
        self.test.assertEqual(len(set(attempts)), len(attempts), about)  # I5
        self.test.assertLessEqual(max(attempts, default=0), row["attempts"], about)
        self.test.assertLessEqual(row["attempts"], ATTEMPTS_MAX, about)  # I6
        if row["state"] == "succeeded":
            self.test.assertIn(words[-1], ("200", "200 close"), about)
        elif row["state"] == "failed":
            self.test.assertEqual(row["attempts"], ATTEMPTS_MAX, about)
        else:
            self.test.assertEqual(row["state"], "unsettled", about)
            self.test.assertIn(create.path, ONLY_ONCE, about)
        if create.path in ONLY_ONCE:
            self.test.assertLessEqual(set(words[:-1]), REFUSALS, about)
            if words and words[-1] not in REFUSALS | {"200"}:
                self.test.assertEqual(row["state"], "unsettled", about)

    def _check_keys(self):  # I3
        keyed = [create for create in self.books.creates.values()
                 if create.key is not None and create.identity is not None]
        for create in self.dice.sample(keyed, min(SAMPLES, len(keyed))):
            again = self.server.create(**create.body(self.books))
            self.test.assertEqual((again.status, again.json["id"]), (200, create.identity))
            other = self.server.create(**{**create.body(self.books), "body": "other"})
            self.test.assertEqual((other.status, other.code), (409, "key_conflict"))

    def _check_trails(self):
        rows = list(self.books.listed.values())
        for row in self.dice.sample(rows, min(SAMPLES, len(rows))):
            task = self.server.task(row["id"])
            self.test.assertEqual([one["attempt"] for one in task["trail"]],
                                  list(range(1, task["attempts"] + 1)))
            self.test.assertEqual(task["state"] == "succeeded", task["error"] is None)

    def _say(self, counts):
        store = self.server.store.split(":")[0]
        report(f"{store}: seed {self.seed}: {self.kills} kills, of them " +
               ", ".join(f"{count} {phase}" for phase, count in self.fallen.items()) +
               f"; {len(self.books.listed)} tasks, {self.books.delivery_count()} deliveries, " +
               ", ".join(f"{count} {state}" for state, count in counts.items() if count))
        for phase, count in self.fallen.items():
            self.test.assertGreater(count, 0, f"no kill fell {phase}")


class Killed(unittest.TestCase):
    def nothing_is_lost_or_repeated_on_sqlite(self):
        Campaign(self, "sqlite", SEED).run(KILLS - KILLS // 10)

    def nothing_is_lost_or_repeated_on_json(self):
        Campaign(self, "json", SEED).run(max(KILLS // 10, 16))

    def nothing_is_lost_or_repeated_on_postgres(self):
        Campaign(self, "postgres", SEED).run(max(KILLS // 10, 16))


if __name__ == "__main__":
    postgres.shared()
    runner.TEST_SECONDS_MAX = SECONDS_MAX
    runner.main()
