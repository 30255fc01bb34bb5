# SPDX-License-Identifier: MIT
"""The load and the books of the kill -9 campaign (test_kill.py).

Every create carries a number of its own in its body and in the label `n`. The callers write down
what they sent and what they were told; the target writes down what it saw and what it did with it.
The books are these two, held against what the server's lists say after each restart.
"""
import collections
import json
import random
import socket
import threading
import time

import target as does
from target import Target, answer

ATTEMPTS_MAX = 6
CALLERS = 6
CALL_SECONDS = 30
LATENCY_FIRST = 0.002
POLICY = {"name": "campaign", "max_attempts": ATTEMPTS_MAX,
          "transient": {"backoff": "fixed", "base": "5ms"}}
AGAIN, FLAKY, ONCE = "/again", "/flaky", "/once"
HELD_AGAIN, HELD_ONCE = "/held-again", "/held-once"
ONLY_ONCE = {ONCE, HELD_ONCE}

# What the target does, by path: (share, word). On AGAIN no connection dies without an answer, since
# libcurl may then send the same attempt twice by itself; on FLAKY no connection is used twice.
SHARES = {
    AGAIN: ((76, "200"), (10, "503"), (6, "500"), (4, "truncated"), (4, "429")),
    FLAKY: ((70, "200 close"), (20, "reset"), (10, "503 close")),
    ONCE: ((70, "200"), (10, "500"), (8, "429"), (6, "reset"), (6, "truncated")),
}
ACTS = {"200": answer(200), "503": answer(503), "500": answer(500), "429": answer(429),
        "200 close": answer(200, {"Connection": "close"}), "reset": does.read_then_reset,
        "503 close": answer(503, {"Connection": "close"}), "truncated": does.truncated(),
        "held": does.hold(threading.Event())}
REFUSALS = {"429"}  # says "I did not do it": another attempt is no second effect


class Create:
    """One create: what was sent, and what came of it."""

    def __init__(self, number, path, key=None, wrong=None):
        self.number, self.path, self.key = number, path, key
        self.wrong = wrong  # None, or the status that must refuse it
        self.sent_at = None  # time.monotonic(), once it was sent whole
        self.identity = None  # once it was acknowledged
        self.status = self.code = None
        self.delay_ms = 0

    def body(self, books):
        target = books.closing if self.path == FLAKY else books.target
        task = {"target": target.url(self.path), "body": str(self.number),
                "labels": {"n": str(self.number)}}
        if self.key is not None:
            task["key"] = self.key
        if self.path in ONLY_ONCE:
            task["repeatable"] = False
        if self.delay_ms:
            task["delay_ms"] = self.delay_ms
        if self.wrong == 400:
            task["delay_ms"] = -1
        return task


class Lost(Exception):
    """The connection ended before the answer."""


class Caller:
    """One kept-alive connection, which knows how far a request got."""

    def __init__(self, port):
        self.channel = socket.create_connection(("127.0.0.1", port), CALL_SECONDS)
        self.channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.held = b""

    def send(self, create, books):
        body = json.dumps(create.body(books)).encode()
        head = f"POST /v1/queues/q/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            self.channel.sendall(head.encode() + body)
        except OSError as error:
            raise Lost from error
        create.sent_at = time.monotonic()

    def _more(self):
        try:
            piece = self.channel.recv(65536)
        except TimeoutError:
            raise
        except OSError as error:
            raise Lost from error
        if not piece:
            raise Lost
        self.held += piece

    def receive(self, create):
        while b"\r\n\r\n" not in self.held:
            self._more()
        head, rest = self.held.split(b"\r\n\r\n", 1)
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"])
        while len(rest) < length:
            before = len(self.held)
            self._more()
            rest += self.held[before:]
        self.held = rest[length:]
        said = json.loads(rest[:length])
        create.status = int(head.split(b" ", 2)[1])
        create.code = said.get("code")
        if create.status in (200, 201):
            create.identity = said["id"]

    def close(self):
        self.channel.close()


class Books:
    """What was sent, what was seen. `listed` is what the server said after the latest restart."""

    def __init__(self, seed):
        self.seed = seed
        self.lock = threading.Lock()
        self.creates = {}  # by number
        self.open = []  # creates that no account has closed yet
        self.decisions = collections.defaultdict(list)  # (attempt, word) by the task's id
        self.listed = {}  # by id
        self.by_number = {}
        self.target = Target(self._choose)
        self.closing = Target(self._choose)  # FLAKY's own: connections are shared by host and port

    def _choose(self, request):
        """The dice are the number's and the attempt's own, so that a seed decides."""
        number = int(request.body)
        if request.path in (HELD_AGAIN, HELD_ONCE):
            word = "held" if request.attempt == 1 else "200"
        else:
            roll = random.Random(f"{self.seed}:{number}:{request.attempt}").randrange(100)
            for share, word in SHARES[request.path]:
                roll -= share
                if roll < 0:
                    break
        with self.lock:
            self.decisions[request.task].append((request.attempt, word))
        return ACTS[word]

    def new(self, path, **more):
        with self.lock:
            create = Create(len(self.creates), path, **more)
            self.creates[create.number] = create
            self.open.append(create)
        return create

    def delivery_count(self):
        return len(self.target.ledger) + len(self.closing.ledger)

    def seen(self, identity):
        with self.lock:
            return list(self.decisions.get(identity, ()))


class Load:
    """Callers that go on until they are told, through any number of restarts of the server."""

    def __init__(self, books, seed):
        self.books, self.seed = books, seed
        self.port = None
        self.answered = 0  # since the server was last started
        self.latency = LATENCY_FIRST  # seconds that the latest answer took
        self.unanswered = []  # creates whose connection died
        self.faults = []  # what a caller was surprised by
        self._state = "down"
        self._parked = 0
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True)
                         for number in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    # --- the campaign's side ---

    def begin(self, port):
        with self._changed:
            self.port, self.answered = port, 0
            self._state = "up"
            self._changed.notify_all()

    def wait_answered(self, count):
        with self._changed:
            self._changed.wait_for(lambda: self.answered >= count or self.faults, CALL_SECONDS)

    def halt(self):
        """The server is dead or about to be: until every caller has noticed."""
        with self._changed:
            self._state = "down"
            if not self._changed.wait_for(lambda: self._parked == CALLERS, CALL_SECONDS):
                raise AssertionError("a caller still waits for an answer")
        if self.faults:
            raise AssertionError(f"a caller was told: {self.faults}")

    def take_unanswered(self):
        taken, self.unanswered = self.unanswered, []
        return taken

    def end(self):
        with self._changed:
            self._state = "over"
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    # --- a caller's side ---

    def _pick(self, dice):
        """What is sent next: mostly good, with and without keys, to each kind of target."""
        path = dice.choice((AGAIN, AGAIN, FLAKY, ONCE))
        roll = dice.randrange(100)
        create = self.books.new(path, wrong=400 if roll < 3 else None)
        if roll >= 50:
            create.key = f"key-{create.number}"
        return create

    def _run(self, number):
        dice = random.Random(f"{self.seed}:caller:{number}")
        pending = None  # a keyed create without an answer: sent again, as callers do
        while True:
            with self._changed:
                self._parked += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._state != "down")
                self._parked -= 1
                if self._state == "over":
                    return
                port = self.port
            try:
                pending = self._talk(port, dice, pending)
            except Exception as error:  # a mistake must not look like a killed server
                self.faults.append(repr(error))

    def _talk(self, port, dice, pending):
        """Until the server is gone; returns the create that is to be sent again, if any."""
        try:
            caller = Caller(port)
        except OSError:
            return pending
        create = pending
        try:
            while self._state == "up":
                create = create or self._pick(dice)
                caller.send(create, self.books)
                caller.receive(create)
                self.latency = time.monotonic() - create.sent_at
                self._check(create)
                create = None
        except Lost:
            if create.sent_at is not None and create.wrong is None:
                with self._changed:
                    self.unanswered.append(create)
        finally:
            caller.close()
        return create if create is not None and create.key is not None else None

    def _check(self, create):
        expected = (create.wrong,) if create.wrong else (200, 201) if create.key else (201,)
        if create.status not in expected:
            self.faults.append(f"{create.status} for {create.body(self.books)}")
        with self._changed:
            self.answered += 1
            self._changed.notify_all()
