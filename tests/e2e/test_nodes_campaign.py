# SPDX-License-Identifier: MIT
"""Three nodes on one PostgreSQL under load, while nodes are killed and stopped, connections are cut
and the server falls over, at moments chosen by dice (DARUMA_SEED). DARUMA_NODE_TASKS tasks are
acknowledged in all; then everything is held to account. Invariants I1-I9; E7.

What can happen to a node or the server, by share:
    kill     a node is killed and started again at once
    lose     a node is killed, and started again when its peers have taken it for dead
    stop     a node is stopped for longer than its lease, and goes on
    nap      a node is stopped for less than that
    cut      every connection of one node to the server is terminated
    crash    the server is stopped at once, as by a power cut, and started again
    away     likewise, and started again after longer than any caller or operation waits
Meanwhile operators talk to any node: they run and cancel tasks, pause and change the queue, settle what
is in doubt, make and delete queues. The judge is what the target has seen.
"""
import collections
import http.client
import os
import random
import signal
import threading
import time
import unittest

import campaign
import postgres
import runner
from campaign import ATTEMPTS_MAX, ONLY_ONCE, REFUSALS, Books, Caller, Lost
from server import Server

TASKS = int(os.environ.get("DARUMA_NODE_TASKS", "1500"))
SEED = int(os.environ.get("DARUMA_SEED", "78"))
SECONDS_MAX = 120 + TASKS // 20
REPORT = os.dup(1)  # the runner shows what a test prints only when it fails
NODES = 3
CALLERS = 6
LEASE_SECONDS = 2
QUIET_SECONDS = (0.2, 1.0)  # between two acts
END_SECONDS = 120
AWAY_SECONDS = (7, 11)  # longer than COMMITTER_DOUBT_MS and every look-up
ACTS = ("kill", "lose", "stop", "nap", "cut", "cut", "crash", "kill", "stop", "cut", "away")
OPERATORS = 2
REST_SECONDS = (0.0, 0.05)  # of an operator
MADE_FIRST = 10 ** 9  # numbers of tasks in queues that operators make
PAGE = 1000
RETRY_SECONDS = 0.02


def report(text):
    os.write(REPORT, (text + "\n").encode())


class Node:
    """One server, and who may talk to it or hurt it at the moment."""

    def __init__(self, server):
        self.server = server
        self.lock = threading.Lock()  # one act at a time


class Load:
    """Callers that talk to any node, until enough has been acknowledged."""

    def __init__(self, books, nodes, seed):
        self.books, self.nodes, self.seed = books, nodes, seed
        self.acknowledged = 0
        self.unsure = set()  # numbers: sent whole, and not answered, or told that it is not known
        self.faults = []
        self.recent = []  # acknowledged, the latest last
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number,), daemon=True)
                        for number in range(CALLERS)]
        for thread in self.threads:
            thread.start()

    def join(self):
        for thread in self.threads:
            thread.join()

    def _run(self, number):
        dice = random.Random(f"{self.seed}:caller:{number}")
        while not self.over.is_set():
            try:
                self._talk(dice)
            except Exception as error:  # pylint: disable=broad-except
                self.faults.append(repr(error))
                return

    def _talk(self, dice):
        """To one node, until it is gone."""
        create = None
        try:
            caller = Caller(dice.choice(self.nodes).server.port)
        except OSError:
            time.sleep(RETRY_SECONDS)
            return
        caller.channel.settimeout(15)
        try:
            while not self.over.is_set():
                create = self._pick(dice)
                self._send(caller, create)
                create = None
                if dice.randrange(30) == 0:
                    return
        except (Lost, TimeoutError):
            if create is not None and create.sent_at is not None:
                self._resend(create, dice)
        finally:
            caller.close()

    def _pick(self, dice):
        create = self.books.new(dice.choice((campaign.AGAIN, campaign.AGAIN, campaign.ONCE)))
        create.delay_ms = dice.choice((0, 0, 0, 100, 700))
        if dice.randrange(2) == 0:
            create.key = f"key-{create.number}"
        return create

    def _send(self, caller, create):
        caller.send(create, self.books)
        caller.receive(create)
        if create.status not in (200, 201, 503):
            self.faults.append(f"{create.status} for {create.number}")
        with self.lock:
            if create.identity is not None:
                self.acknowledged += 1
                self.recent.append(create)
            elif create.code == "store_unknown":
                self.unsure.add(create.number)  # anything else is a refusal: it is not there

    def _resend(self, create, dice):
        """A keyed create is sent again to any node until it is acknowledged, as callers do."""
        with self.lock:
            self.unsure.add(create.number)
        while create.key is not None and create.identity is None and not self.over.is_set():
            try:
                caller = Caller(dice.choice(self.nodes).server.port)
                caller.channel.settimeout(15)
                self._send(caller, create)
                caller.close()
            except (OSError, Lost):
                time.sleep(RETRY_SECONDS)


class Operators:
    """People who act upon what the callers make, at any node and moment."""

    def __init__(self, books, nodes, load, seed):
        self.books, self.nodes, self.load, self.seed = books, nodes, load, seed
        self.told = []  # (act, identity, status, when it was told)
        self.made = {}  # identities that a queue which may be deleted has acknowledged, by number
        self.deleted, self.faults = 0, []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, args=(number,), daemon=True)
                        for number in range(OPERATORS)]
        for thread in self.threads:
            thread.start()

    def join(self):
        for thread in self.threads:
            thread.join()

    def _run(self, number):
        dice = random.Random(f"{self.seed}:operator:{number}")
        serial = 0
        while not self.load.over.is_set():
            time.sleep(dice.uniform(*REST_SECONDS))
            serial += 1
            try:
                dice.choice((self._move, self._move, self._move, self._move, self._settle,
                             self._change, self._delete))(dice, number, serial)
            except (OSError, http.client.HTTPException):
                time.sleep(RETRY_SECONDS)  # that node is away
            except Exception as error:  # pylint: disable=broad-except
                self.faults.append(repr(error))
                return

    def _node(self, dice):
        return dice.choice(self.nodes).server

    def _recent(self, dice):
        with self.load.lock:
            return dice.choice(self.load.recent[-60:]).identity if self.load.recent else None

    def _say(self, act, identity, call):
        """What is not answered, or is told as unknown, may have been done."""
        status = None
        try:
            got = call()
            status = got.status if got.code != "store_unknown" else None
        finally:
            with self.lock:
                self.told.append((act, identity, status, time.monotonic()))

    def _move(self, dice, _number, _serial):
        identity, act = self._recent(dice), dice.choice(("run", "cancel"))
        if identity is not None:
            self._say(act, identity,
                      lambda: self._node(dice).post(f"/v1/tasks/{identity}:{act}"))

    def _settle(self, dice, _number, _serial):
        """What the target has never seen has not been done."""
        node = self._node(dice)
        for row in node.get("/v1/unsettled?limit=5").json.get("tasks", ()):
            if not self.books.seen(row["id"]):
                self._say("settle", row["id"], lambda row=row: node.post(
                    f"/v1/tasks/{row['id']}:settle", {"outcome": "not_done"}))

    def _change(self, dice, _number, _serial):
        node = self._node(dice)
        if dice.randrange(2) == 0:
            node.post("/v1/queues/q:pause")
            time.sleep(dice.uniform(0, 0.1))
            while not self.load.over.is_set() and self._node(dice).post(
                    "/v1/queues/q:resume").status != 200:
                time.sleep(RETRY_SECONDS)
        else:
            node.call("PUT", "/v1/queues/q", {"policy": "campaign",
                                              "concurrency": dice.choice((8, 24)),
                                              "host_concurrency": dice.choice((4, 32))})

    def _delete(self, dice, number, serial):
        """A queue is made, gets a few tasks at any node, and is deleted on condition that it is empty."""
        name = f"made-{number}-{serial % 3}"
        if self._node(dice).call("PUT", f"/v1/queues/{name}",
                                 {"policy": "campaign"}).status not in (200, 201):
            return
        for at in range(dice.randrange(4)):
            body = MADE_FIRST + (number * 10 ** 6 + serial) * 10 + at
            got = self._node(dice).create(name, target=self.books.target.url(campaign.AGAIN),
                                          body=str(body))
            if got.status == 201:
                with self.lock:
                    self.made[body] = got.json["id"]
        self.deleted += self._node(dice).call("DELETE", f"/v1/queues/{name}").status == 204


class Campaign:
    def __init__(self, test, seed):
        self.test, self.seed = test, seed
        self.dice = random.Random(f"{seed}:acts")
        self.postgres = postgres.shared()
        self.database = self.postgres.new()
        self.books = Books(seed)
        self.acts = dict.fromkeys(ACTS, 0)
        self.recoveries = {"kill": [], "lose": []}
        self.watchers, self.held_unsure = [], []
        self.cancelled, self.people = {}, (0, 0, 0)
        self.nodes = [self._node(number) for number in range(NODES)]

    def _node(self, number):
        folder = f"node-{number}"
        os.mkdir(folder)
        return Node(Server(self.test, self.postgres.url(self.database),
                           [{"name": "q", "policy": "campaign", "concurrency": 24}], folder=folder,
                           policies=[campaign.POLICY],
                           limits={"node_lease": f"{LEASE_SECONDS}s"}))

    def sql(self, text):
        return self.postgres.sql(text, self.database)

    # --- the acts ---

    def _held(self, node):
        """A task that the target has in its hands; None: the node would not take it just now."""
        create = self.books.new(self.dice.choice((campaign.HELD_AGAIN, campaign.HELD_ONCE)))
        try:
            caller = Caller(node.server.port)
            caller.send(create, self.books)
            caller.receive(create)
            caller.close()
        except (OSError, Lost):
            pass
        if create.identity is None:
            self.held_unsure.append(create)
            return None
        self.books.target.wait_for_body(str(create.number).encode())
        own = self.sql("SELECT 1 FROM daruma.life JOIN daruma.node USING (epoch) WHERE life.id ="
                       f" daruma.row_of('{create.identity}') AND name LIKE"
                       f" '%:{node.server.process.pid}'")
        return create if own else None  # another node may have been faster

    def kill(self, node, act="kill", away_seconds=0):
        held = self._held(node)
        node.server.kill()
        watcher = threading.Thread(target=self._watch, args=(held, time.monotonic(), act),
                                   daemon=True)
        watcher.start()
        self.watchers.append(watcher)
        time.sleep(away_seconds)
        node.server.start()

    def lose(self, node):
        self.kill(node, "lose", LEASE_SECONDS * 1.5)

    def _watch(self, held, killed_at, act):
        """How long until what it was doing is somebody else's."""
        row = None if held is None else f"daruma.row_of('{held.identity}')"
        while row is not None and time.monotonic() < killed_at + END_SECONDS:
            try:
                got = self.sql(f"SELECT state = 1 AND attempts = 1 FROM daruma.life WHERE id = {row}")
                if got == [["f"]]:
                    self.recoveries[act].append(time.monotonic() - killed_at)
                    return
            except AssertionError:  # the server is away
                pass
            time.sleep(0.1)

    def stop(self, node, seconds=LEASE_SECONDS * 2):
        node.server.signal(signal.SIGSTOP)
        time.sleep(seconds)
        node.server.signal(signal.SIGCONT)

    def nap(self, node):
        self.stop(node, LEASE_SECONDS * self.dice.uniform(0.1, 0.6))

    def cut(self, _node):
        self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN (SELECT pid"
                 " FROM pg_stat_activity WHERE application_name = 'daruma' AND datname ="
                 f" current_database() ORDER BY random() LIMIT {self.dice.randrange(1, 6)})")

    def crash(self, _node):
        self.postgres.crash()

    def away(self, _node):
        self.postgres.stop()
        time.sleep(self.dice.uniform(*AWAY_SECONDS))
        self.postgres.start()

    def _act(self, word, node):
        with node.lock:
            getattr(self, word)(node)
        self.acts[word] += 1

    # --- the campaign ---

    def run(self, tasks):
        for node in self.nodes:
            node.server.start()
        load = Load(self.books, self.nodes, self.seed)
        operators = Operators(self.books, self.nodes, load, self.seed)
        first = list(dict.fromkeys(ACTS))
        while load.acknowledged < tasks and not load.faults:
            time.sleep(self.dice.uniform(*QUIET_SECONDS))
            self._act(first.pop() if first else self.dice.choice(ACTS), self.dice.choice(self.nodes))
        while first:
            self._act(first.pop(), self.dice.choice(self.nodes))
        load.over.set()
        load.join()
        operators.join()
        self.test.assertEqual(load.faults + operators.faults, [])
        self._end_pause()
        self._wait_for_the_end()
        for watcher in self.watchers:
            watcher.join()
        self._account(load, operators)

    def _end_pause(self):
        until = time.monotonic() + END_SECONDS
        while self.nodes[0].server.post("/v1/queues/q:resume").status != 200:
            self.test.assertLess(time.monotonic(), until, "it cannot be resumed")
            time.sleep(0.2)

    def _wait_for_the_end(self):
        until = time.monotonic() + END_SECONDS
        while int(self.sql("SELECT count(*) FROM daruma.life WHERE state < 2")[0][0]) > 0:
            self.test.assertLess(time.monotonic(), until, "it does not end")
            time.sleep(0.2)

    def _rows(self):
        after, rows = "0", []
        while after is not None:
            page = self.nodes[0].server.get(f"/v1/queues/q/tasks?limit={PAGE}&after={after}").json
            rows += page["tasks"]
            after = page["next"]
        return rows

    def _account(self, load, operators):
        rows = self._rows()
        self._account_operators(operators)
        by_number, numbers = {}, [int(row["labels"]["n"]) for row in rows]
        self.test.assertEqual(len(set(numbers)), len(numbers), "recorded twice")  # I3, I7
        for row in rows:
            by_number[int(row["labels"]["n"])] = row
        unsure = load.unsure | {create.number for create in self.held_unsure}
        for create in self.books.creates.values():
            found = by_number.get(create.number)
            if create.identity is not None:
                self.test.assertIsNotNone(found, f"acknowledged, and gone: {create.number}")  # I1
                self.test.assertEqual(found["id"], create.identity)
            elif found is not None:
                self.test.assertIn(create.number, unsure, "never sent or refused, and there")  # I7
        for number, row in by_number.items():
            self._check(self.books.creates[number], row)
        left = self.sql("SELECT (SELECT count(*) FROM daruma.ready), (SELECT count(*) FROM"
                        " daruma.life l WHERE NOT EXISTS (SELECT 1 FROM daruma.task t"
                        " WHERE t.id = l.id)), (SELECT count(*) FROM daruma.key k WHERE NOT EXISTS"
                        " (SELECT 1 FROM daruma.life l WHERE l.id = k.id AND l.key_hash = k.hash))")
        self.test.assertEqual(left, [["0", "0", "0"]])
        self._say(rows)

    def _account_operators(self, operators):
        seen_at = collections.defaultdict(float)  # the latest request for each task
        for request in list(self.books.target.ledger):
            seen_at[request.task] = max(seen_at[request.task], request.at)
        for act, identity, status, when in operators.told:
            if act == "cancel" and status != 409:
                self.cancelled.setdefault(identity, []).append(status)
            if (act, status) == ("cancel", 200):
                self.test.assertLessEqual(seen_at[identity], when, f"cancelled, then sent: {identity}")
        for number, identity in operators.made.items():
            self.test.assertTrue(self.books.seen(identity),
                                 f"acknowledged by a queue and never done: {number} {identity}")  # I1
        self.people = (len(operators.told), len(operators.made), operators.deleted)

    def _check(self, create, row):
        seen = self.books.seen(row["id"])
        attempts, words = [one for one, _word in seen], [word for _one, word in seen]
        about = (create.number, create.path, row["state"], row["attempts"], seen)
        self.test.assertEqual(len(set(attempts)), len(attempts), about)  # I2, I5
        # A lease that is given back unsent is no attempt, and its number is not used again.
        self.test.assertLessEqual(len(attempts), row["attempts"], about)
        self.test.assertLessEqual(row["attempts"], ATTEMPTS_MAX, about)  # I6
        if row["state"] == "succeeded":
            self.test.assertIn("200", words, about)
        elif row["state"] == "failed":
            self.test.assertEqual(row["attempts"], ATTEMPTS_MAX, about)
        elif row["state"] == "cancelled":
            self.test.assertIn(row["id"], self.cancelled, about)
        else:
            self.test.assertEqual((row["state"], create.path in ONLY_ONCE), ("unsettled", True), about)
        if 200 in self.cancelled.get(row["id"], ()):
            self.test.assertEqual(row["state"], "cancelled", about)
        if create.path in ONLY_ONCE:
            self.test.assertLessEqual(set(words[:-1]), REFUSALS, about)  # one effect at most

    def _say(self, rows):
        states = {}
        for row in rows:
            states[row["state"]] = states.get(row["state"], 0) + 1
        times = {act: sorted(found) or [0] for act, found in self.recoveries.items()}
        report(f"nodes: seed {self.seed}: " +
               ", ".join(f"{count} {word}" for word, count in self.acts.items()) +
               f"; {len(rows)} tasks, {self.books.delivery_count()} deliveries, " +
               ", ".join(f"{count} {state}" for state, count in sorted(states.items())) +
               "; {} acts of operators upon tasks, {} tasks in queues of which {} were deleted"
               .format(*self.people) +
               "; a killed node's tasks were back after" +
               ",".join(f" {found[len(found) // 2]:.1f} s, at most {found[-1]:.1f} s where it {how}"
                        for found, how in ((times["kill"], "came back at once"),
                                           (times["lose"], "stayed away"))) +
               f", with a lease of {LEASE_SECONDS} s")


class Nodes(unittest.TestCase):
    def nothing_is_lost_or_repeated_by_three_nodes(self):
        Campaign(self, SEED).run(TASKS)


if __name__ == "__main__":
    runner.TEST_SECONDS_MAX = SECONDS_MAX
    postgres.shared()
    runner.main()
