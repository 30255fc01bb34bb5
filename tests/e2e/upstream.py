# SPDX-License-Identifier: MIT
"""An upstream that can be killed: a process of its own that writes each effect into a ledger file
before it answers, and can be asked by key whether an effect happened.

    python3 upstream.py PORT LEDGER SEED

POST /orders        one effect under the Idempotency-Key: a line "KEY NUMBER" in the ledger, then a
                    little while, then 201 with {"key", "effect"}; sometimes 500, or a cut connection,
                    before or after the effect
GET /by-key/KEY     200 with the same body, or 404
It never looks whether the key was there before: that is what is in front of it is for.
"""
import json
import os
import random
import socket
import sys
import threading
import time

import target as does
from target import Connection, answer

SLOW_SECONDS_MAX = 0.015


class Ledger:
    """One line for each effect, written in one call: a kill leaves it whole."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        self.effects = read(path)
        self.count = sum(len(numbers) for numbers in self.effects.values())

    def add(self, key):
        with self.lock:
            self.count += 1
            self.effects.setdefault(key, []).append(self.count)
            os.write(self.file, f"{key} {self.count}\n".encode())
            return self.count


def read(path):
    """{key: [numbers of its effects]}"""
    effects = {}
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            for line in file:
                key, number = line.split()
                effects.setdefault(key, []).append(int(number))
    return effects


def body_of(key, number):
    return json.dumps({"key": key, "effect": number}).encode()


def created(key, number, status=201):
    return answer(status, {"Content-Type": "application/json"}, body_of(key, number))


def act_on(ledger, dice, request):
    if request.method == "GET":
        key = request.path.rsplit("/", 1)[1]
        numbers = ledger.effects.get(key)
        return created(key, numbers[0], 200) if numbers else answer(404)
    fate = dice.random()
    if fate < 0.03:
        return does.read_then_reset
    number = ledger.add(request.key)
    time.sleep(dice.random() * SLOW_SECONDS_MAX)
    if fate < 0.06:
        return answer(500)
    return does.read_then_reset if fate < 0.09 else created(request.key, number)


def serve(connection, ledger, dice):
    try:
        while (request := connection.read_request()) is not None:
            if not act_on(ledger, dice, request)(connection, request):
                break
    except OSError:
        pass  # whoever asked was killed
    connection.channel.close()


def main():
    port, path, seed = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    ledger, dice = Ledger(path), random.Random(seed)
    listener = socket.create_server(("127.0.0.1", port), backlog=512, reuse_port=False)
    number = 0
    while True:
        channel, _address = listener.accept()
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number += 1
        threading.Thread(target=serve, args=(Connection(channel, number), ledger, dice),
                         daemon=True).start()


if __name__ == "__main__":
    main()
