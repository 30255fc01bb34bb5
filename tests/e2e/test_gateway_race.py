# SPDX-License-Identifier: MIT
"""Many clients, one key: DARUMA_RACE_CLIENTS send the same request at the same moment,
DARUMA_RACE_ROUNDS times. The upstream's own ledger shows one request for each key. A2.2, C1, C2.
"""
import collections
import os
import select
import socket
import time
import unittest

import runner
from gateway import setup
from program import BIN
from server import CHOSEN
from target import answer

CLIENTS = int(os.environ.get("DARUMA_RACE_CLIENTS", "64"))
ROUNDS = int(os.environ.get("DARUMA_RACE_ROUNDS", "200" if "asan" in BIN or CHOSEN else "1000"))
ANSWER_SECONDS = 20
runner.TEST_SECONDS_MAX = max(runner.TEST_SECONDS_MAX, ROUNDS // 5)
REPORT = os.dup(1)  # the runner shows what a test prints only when it fails


class Client:
    """One kept connection; reads an answer with a Content-Length."""

    def __init__(self, port):
        self.channel = socket.create_connection(("127.0.0.1", port))
        self.channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.held = b""

    def ask(self, request):
        self.channel.sendall(request)

    def hear(self):
        """(status, headers, body) once it is whole, else None."""
        self.held += self.channel.recv(65536)
        head, found, rest = self.held.partition(b"\r\n\r\n")
        if not found:
            return None
        lines = head.split(b"\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:])
        length = int(headers[b"content-length"])
        if len(rest) < length:
            return None
        self.held = rest[length:]
        return int(lines[0].split()[1]), headers, rest[:length]


def race(clients, request):
    """Everybody asks before anybody hears."""
    for client in clients:
        client.ask(request)
    waiting = {client.channel: client for client in clients}
    answers, until = [], time.monotonic() + ANSWER_SECONDS
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [], until - time.monotonic())
        if not ready:
            raise AssertionError(f"{len(waiting)} clients got no answer")
        for channel in ready:
            got = waiting[channel].hear()
            if got is not None:
                answers.append(got)
                del waiting[channel]
    return answers


def numbered(connection, request):
    """Each effect has a number of its own: two effects cannot look alike."""
    numbered.count += 1
    return answer(201, {"Content-Type": "application/json"},
                  b'{"effect": %d}' % numbered.count)(connection, request)


class Races(unittest.TestCase):
    def _race(self, **more):
        numbered.count = 0
        gateway, target = setup(self, **more)
        target.script("/v1/orders", numbered)
        clients = [Client(gateway.gateway_port) for _ in range(CLIENTS)]
        for number in range(ROUNDS):
            request = (b"POST /v1/orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: key-%d\r\n"
                       b"Content-Length: 2\r\n\r\n{}" % number)
            yield number, race(clients, request)
        effects = collections.Counter(one.key for one in target.seen())
        self.assertEqual(len(effects), ROUNDS)
        self.assertEqual({key: count for key, count in effects.items() if count != 1}, {})
        os.write(REPORT, f"# {more.get('in_progress', 'usual')}: {ROUNDS} races of {CLIENTS} clients "
                         f"for one key, {len(effects)} keys, {sum(effects.values())} effects\n".encode())

    def all_who_wait_get_the_same_bytes(self):  # C2.A
        for number, answers in self._race(in_progress="wait"):
            said = {(status, body) for status, _headers, body in answers}
            self.assertEqual(len(said), 1, (number, said))
            self.assertEqual(answers[0][0], 201)
            marks = [headers.get(b"idempotent-replayed") for _status, headers, _body in answers]
            self.assertEqual(marks.count(None), 1, number)  # one of them was the first

    def all_who_do_not_wait_get_the_answer_or_a_202(self):  # C2.B
        for number, answers in self._race(in_progress="accepted"):
            self.assertLessEqual({status for status, _headers, _body in answers}, {201, 202})
            bodies = {body for status, _headers, body in answers if status == 201}
            self.assertEqual(len(bodies), 1, number)


if __name__ == "__main__":
    runner.main()
