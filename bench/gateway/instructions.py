# SPDX-License-Identifier: MIT
"""What a request of the gateway costs the server in instructions, by callgrind: the real program, a
fixed number of requests on connections that stay open, twice; the difference of the two runs over
the difference of their numbers, so that start and stop are not in it; nor
is what the server reads from the store by the clock, which a busy machine has more of."""
import os
import re
import selectors
import socket

from process import Unmeasured, folder, listening, run, running, wait_until

CONNECTIONS = 16
REPLAYED = 200  # keys that are replayed, round and round
ROUNDS = (1000, 3000)
ANSWER_SECONDS = 60
# Else valgrind counts every byte of a long memset or memcpy as an instruction.
TUNABLES = ("glibc.cpu.x86_rep_stosb_threshold=1000000000:"
            "glibc.cpu.x86_rep_movsb_threshold=1000000000")
BODY = b'{"order": 123, "amount": 5000}'
REQUEST = (b"POST /orders HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
           b"Idempotency-Key: %s\r\nContent-Length: %d\r\n\r\n" + BODY)


class Caller:
    """One connection, one request at a time."""

    def __init__(self, port, keys):
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
        self.keys, self.bytes, self.answered = keys, b"", 0

    def send(self):
        key = next(self.keys, None)
        if key is not None:
            self.socket.sendall(REQUEST % (key.encode(), len(BODY)))

    def hear(self):
        self.bytes += self.socket.recv(65536)
        head, found, rest = self.bytes.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if found and len(rest) >= int(length.group(1) if length else 0):
            if not head.startswith(b"HTTP/1.1 2"):
                raise Unmeasured(f"callgrind: {head[:60]!r}")
            self.bytes, self.answered = b"", self.answered + 1
            self.send()


def call(port, keys):
    """All of the keys, once each; everybody is answered when it returns."""
    keys = list(keys)
    each = iter(keys)
    callers = [Caller(port, each) for _ in range(CONNECTIONS)]
    with selectors.DefaultSelector() as selector:
        for caller in callers:
            selector.register(caller.socket, selectors.EVENT_READ, caller)
            caller.send()
        while sum(caller.answered for caller in callers) < len(keys):
            ready = selector.select(ANSWER_SECONDS)
            if not ready:
                raise Unmeasured("callgrind: no answer")
            for key, _mask in ready:
                key.data.hear()
    for caller in callers:
        caller.socket.close()


def timed(out):
    """Instructions of what the server reads by the clock, not for a request: more in a slower run."""
    said = run(["callgrind_annotate", "--threshold=100", "--inclusive=yes", "--auto=no", out])
    found = re.search(r"^ *([\d,]+) \([^)]*\) .*:read_perform\b", said, re.MULTILINE)
    return int(found.group(1).replace(",", "")) if found else 0


def collected(daruma, noop, configure, keys):
    with folder() as place, listening([noop], place / "noop.log") as (_process, upstream):
        log, config = place / "daruma.log", configure(place, upstream)
        with running(["valgrind", "--tool=callgrind", f"--callgrind-out-file={place}/out", daruma,
                      "serve", "-c", config], log,
                     env={**os.environ, "GLIBC_TUNABLES": TUNABLES}):
            wait_until(lambda: "gateway_ready" in log.read_text(), "the gateway under callgrind")
            port = int(re.search(r"gateway=http://127.0.0.1:(\d+)", log.read_text()).group(1))
            call(port, [f"r{i}" for i in range(REPLAYED)])
            call(port, keys)
        found = re.search(r"Collected : (\d+)", log.read_text())
        if found is None:
            raise Unmeasured("callgrind says nothing")
        return int(found.group(1)) - timed(place / "out")


def measure(daruma, noop, configure):
    """Instructions of one first request and of one replay."""
    few, many = ROUNDS

    def difference(keys):
        return (collected(daruma, noop, configure, keys(many))
                - collected(daruma, noop, configure, keys(few))) / (many - few)

    return {"first": difference(lambda count: [f"f{i}" for i in range(count)]),
            "replay": difference(lambda count: [f"r{i % REPLAYED}" for i in range(count)])}
