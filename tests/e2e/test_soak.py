# SPDX-License-Identifier: MIT
"""Mixed traffic for a long time (DARUMA_SOAK_SECONDS) on each store: producers, callers of the gateway,
workers, operators, callers that leave in the middle, a target that fails. Retention is short, so that
after a while as much is removed as is added. Then nothing may have grown: memory, descriptors, the
store. The health check is asked all the while. At the end the books are held against the server, and
a server without work has to be at rest.
"""
import collections
import http.client
import json
import os
import random
import socket
import statistics
import threading
import time
import unittest

import postgres
import runner
from gateway import QUICK, Gateway, route
from server import on_each_store
from target import Target, answer, read_then_close

SECONDS = float(os.environ.get("DARUMA_SOAK_SECONDS") or 110)
SEED = int(os.environ.get("DARUMA_SEED") or 78)
REPORT = os.dup(1)  # the runner shows what a test prints only when it fails
SAMPLE_SECONDS = 1
KEEP = "8s"
RATE = {"sqlite": 60, "json": 30, "postgres": 40}  # tasks a second
WARM_SHARE = 0.4  # of the time: until retention removes as much as comes in
GROWTH = 1.15
GROWTH_BYTES = 6 << 20
STORE_GROWTH = 1.6
STORE_LOG_BYTES = 16 << 20  # of SQLite: begun anew every 8 MiB, later when a reader looks at that moment
DESCRIPTORS_MORE = 24
HEALTH_MEDIAN_SECONDS, HEALTH_P99_SECONDS = 0.05, 1.0  # three servers and their loads share the machine
REST_SECONDS, REST_SHARE = 5, 0.03
SETTLE_SECONDS = 40
TICKS = os.sysconf("SC_CLK_TCK")
runner.TEST_SECONDS_MAX = SECONDS + 120


def report(text):
    os.write(REPORT, (text + "\n").encode())


class Figures:
    """What the process and its store take."""

    def __init__(self, server):
        self.server, self.pid = server, server.process.pid
        self.resident, self.descriptors, self.stored = [], [], []

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
            words = file.read().rsplit(") ", 1)[1].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def store_bytes(self):
        if self.server.store.startswith("postgres"):
            name = self.server.store.split("///")[1].split("?")[0]
            return int(postgres.shared().sql(f"SELECT pg_database_size('{name}')")[0][0])
        path = self.server.store.split(":", 1)[1]
        return sum(os.path.getsize(path + end) for end in ("", "-wal") if os.path.exists(path + end))

    def sample(self):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            self.resident.append(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        self.descriptors.append(len(os.listdir(f"/proc/{self.pid}/fd")))
        self.stored.append(self.store_bytes())


class Books:
    """What was acknowledged, and what the target has seen."""

    def __init__(self):
        self.lock = threading.Lock()
        self.made = {}  # the id of each acknowledged task, by its number
        self.effects = collections.Counter()  # answers that say "done", by number
        self.sends = collections.Counter()
        self.cancelled = set()
        self.replies = {}  # of the gateway, by key: the first
        self.orders = collections.Counter()  # effects of the upstream, by key
        self.worked = collections.Counter()
        self.faults = []

    def choose(self, request):
        """The target of the queue: one in five attempts fails, some for good."""
        kind, number = request.body.decode().split(":")
        roll = random.Random(f"{SEED}:{number}:{request.attempt}").randrange(100)
        with self.lock:
            self.sends[number] += 1
            if kind == "bad":
                return answer(400)
            if roll < 16 and kind == "once":
                return answer(429)  # it says "not done": another attempt is no second effect
            if roll < 16:
                return answer(503) if roll < 12 else read_then_close
            self.effects[number] += 1
        return answer(200, {"Content-Type": "text/plain"}, number.encode())

    def order(self, request):
        with self.lock:
            self.orders[request.key] += 1
            return answer(201, {"Content-Type": "text/plain"}, f"{request.key} done".encode())


class Soak:
    """One server under all of it."""

    def __init__(self, test, store):
        self.books, self.store = Books(), store
        self.target, self.upstream = Target(self.books.choose), Target(self.books.order)
        test.addCleanup(self.target.close)
        test.addCleanup(self.upstream.close)
        fast = {"name": "fast", "max_attempts": 8, "transient": {"backoff": "fixed", "base": "30ms"},
                "rate_limited": {"backoff": "fixed", "base": "30ms"}}
        queues = [{"name": "q", "policy": "fast", "targets": [{"name": "t", "url": self.target.url()}]},
                  {"name": "work", "policy": "fast", "lease": "5s"}]
        self.server = Gateway(test, [route(self.upstream, keep=KEEP, in_progress="wait")], store,
                              queues=queues, limits={"node_lease": "10s"},
                              keep={"succeeded": KEEP, "failed": KEEP, "cancelled": KEEP,
                                    "tombstones": KEEP})
        self.server.config["policies"] = [QUICK, fast]
        self.server.configure(**{name: value for name, value in self.server.config.items()
                                 if name != "store"})
        self.server.start()
        self.is_over, self.health = threading.Event(), []
        self.numbers = iter(range(10 ** 9))

    # --- who comes ---

    def each(self, every_seconds, act, dice):
        """The act again and again, on a connection of its own, until it is over."""
        connection = self.server.connect()
        try:
            while not self.is_over.wait(every_seconds * dice.uniform(0.5, 1.5)):
                act(connection, dice)
        except (AssertionError, OSError, http.client.HTTPException, KeyError, ValueError) as error:
            self.books.faults.append(f"{act.__name__}: {error!r}")
        finally:
            connection.close()

    def produce(self, connection, dice):
        number = str(next(self.numbers))
        kind = dice.choices(("again", "once", "bad"), (80, 15, 5))[0]
        task = {"body": f"{kind}:{number}", "labels": {"n": number}}
        if dice.random() < 0.5:
            task["key"] = f"k{number}"
        if kind == "once":
            task["repeatable"] = False
        if dice.random() < 0.2:
            task["delay_ms"] = dice.randrange(2000)
        got = self.server.call("POST", "/v1/queues/q/tasks", task, connection=connection)
        if got.status != 201:
            raise AssertionError(f"{got}")
        self.books.made[number] = (got.json["id"], kind)
        if dice.random() < 0.05:
            done = self.server.call("POST", f"/v1/tasks/{got.json['id']}:cancel", connection=connection)
            if done.status == 200:
                self.books.cancelled.add(number)

    def buy(self, connection, dice):
        """A key, sent up to three times: the same reply each time, one effect."""
        del connection
        key = f"o{next(self.numbers)}"
        for _ in range(dice.choice((1, 1, 2, 3))):
            got = self.server.send(key=key, body=b'{"n": 1}', connection=self.line)
            if got.status != 201 or got.body != f"{key} done".encode():
                raise AssertionError(f"{key}: {got}")
        self.books.replies[key] = True

    def labour(self, connection, dice):
        if dice.random() < 0.5:
            self.server.call("POST", "/v1/queues/work/tasks", {"json": {"n": 1}},
                             connection=connection)
        got = self.server.call("POST", "/v1/queues/work/leases", {"max": 5, "wait_ms": 50},
                               connection=connection)
        for lease in got.json["leases"]:
            word = "acks" if dice.random() < 0.8 else "retries"
            self.server.call("POST", "/v1/leases:settle", {word: [{"lease": lease["lease"]}]},
                             connection=connection)
            self.books.worked[word] += 1

    def operate(self, connection, dice):
        act = dice.choice(("pause", "lists", "letters", "metrics", "queue"))
        if act == "pause":
            self.server.call("POST", "/v1/queues/q:pause", connection=connection)
            time.sleep(0.1)
            self.server.call("POST", "/v1/queues/q:resume", connection=connection)
        elif act == "lists":
            self.server.call("GET", "/v1/queues/q/tasks?state=succeeded&limit=50", connection=connection)
        elif act == "letters":
            got = self.server.call("GET", "/v1/dead-letters?limit=20", connection=connection)
            for letter in got.json["dead_letters"][:3]:
                self.server.call("POST", f"/v1/dead-letters/{letter['id']}:redrive",
                                 connection=connection)
        elif act == "metrics":
            self.server.call("GET", "/metrics", connection=connection)
        else:
            name = f"made-{dice.randrange(5)}"
            self.server.call("PUT", f"/v1/queues/{name}", {"concurrency": 4}, connection=connection)
            self.server.call("DELETE", f"/v1/queues/{name}", connection=connection)

    def leave(self, connection, dice):
        """A caller that is gone before its request is whole, or before its answer is."""
        del connection
        port = dice.choice((self.server.port, self.server.gateway_port))
        with socket.create_connection(("127.0.0.1", port), 10) as channel:
            whole = (b"GET /v1/tasks/t-none?wait_ms=20000 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"POST /v1/orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf",
                     b"POST /v1/queues/work/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18\r\n\r\n"
                     b'{"wait_ms": 20000}')
            text = dice.choice(whole)
            channel.sendall(text[:dice.randrange(1, len(text) + 1)])

    def check_health(self, connection, dice):
        del dice
        began = time.monotonic()
        got = self.server.call("GET", "/healthz", connection=connection)
        if got.status != 200:
            raise AssertionError(f"{got}")
        self.health.append(time.monotonic() - began)

    # --- the time ---

    def run(self):
        self.line = self.server.caller()
        acts = [(1 / RATE[self.store], self.produce), (0.04, self.buy), (0.1, self.labour),
                (0.5, self.operate), (0.1, self.leave), (0.05, self.check_health)]
        threads = [threading.Thread(target=self.each, args=(every, act, random.Random(f"{SEED}:{i}")))
                   for i, (every, act) in enumerate(acts)]
        figures = Figures(self.server)
        for thread in threads:
            thread.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not self.books.faults:
            figures.sample()
            self.forget_requests()
            self.is_over.wait(SAMPLE_SECONDS)
        self.is_over.set()
        for thread in threads:
            thread.join()
        self.line.close()
        return figures

    def forget_requests(self):
        """The books have what matters of them."""
        for target in (self.target, self.upstream):
            del target.ledger[:-1000]

    def wait_idle(self):
        """Until nothing waits or runs any more."""
        end = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < end:
            queues = {one["name"]: one for one in self.server.get("/v1/queues").json["queues"]}
            counts = queues["q"]["counts"] if "counts" in queues["q"] else queues["q"]
            if counts["waiting"] == 0 and counts["running"] == 0:
                return
            time.sleep(0.2)
        raise AssertionError(f"it does not end: {json.dumps(queues['q'])}")


def middle(values):
    return statistics.median(values)


@on_each_store("sqlite", "json", "postgres")
class Soaking(unittest.TestCase):
    def nothing_grows_and_nothing_is_lost(self, store):
        soak = Soak(self, store)
        figures = soak.run()
        books = soak.books
        self.assertEqual(books.faults, [])
        self._check_growth(store, figures)
        soak.health.sort()
        self.assertLess(middle(soak.health), HEALTH_MEDIAN_SECONDS)
        self.assertLess(soak.health[int(len(soak.health) * 0.99)], HEALTH_P99_SECONDS)
        soak.wait_idle()
        self._check_books(books)
        used = figures.cpu_seconds()
        time.sleep(REST_SECONDS)
        rest = (figures.cpu_seconds() - used) / REST_SECONDS
        self.assertLess(rest, REST_SHARE, "a server without work is not at rest")
        figures.sample()
        report(f"{store}: seed {SEED}: {SECONDS:.0f} s, {len(books.made)} tasks, "
               f"{sum(books.sends.values())} sends, {len(books.replies)} keys, "
               f"{sum(books.worked.values())} leases; resident {figures.resident[-1] >> 20} MB, "
               f"{figures.descriptors[-1]} descriptors, store {figures.stored[-1] >> 10} KB, health "
               f"p99 {soak.health[int(len(soak.health) * 0.99)] * 1000:.1f} ms, at rest "
               f"{rest * 100:.1f} % of a core")

    def _check_growth(self, store, figures):
        first = int(len(figures.resident) * WARM_SHARE)
        half = (len(figures.resident) + first) // 2
        for what, values, factor, more in (
                ("memory", figures.resident, GROWTH, GROWTH_BYTES),
                ("descriptors", figures.descriptors, 1, DESCRIPTORS_MORE),
                ("the store", figures.stored, STORE_GROWTH, STORE_LOG_BYTES)):
            before, after = middle(values[first:half]), middle(values[half:])
            self.assertLessEqual(after, before * factor + more, f"{what} grows on {store}: {values}")

    def _check_books(self, books):
        for number, (identity, kind) in books.made.items():
            if kind == "once":
                self.assertLessEqual(books.effects[number], 1, f"{identity} was done twice")
            if kind != "bad" and number not in books.cancelled:
                self.assertGreaterEqual(books.effects[number], 1, f"{identity} was never done")
        for key in books.replies:
            self.assertEqual(books.orders[key], 1, f"the effects of {key}")


if __name__ == "__main__":
    runner.main()
