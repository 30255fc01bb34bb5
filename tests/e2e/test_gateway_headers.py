# SPDX-License-Identifier: MIT
"""Long header fields, of requests and of answers: what a request came to can always be told."""
import socket
import unittest

import runner
from gateway import setup
from target import answer

REQUEST_BYTES = 16384  # what a request may take of its connection's memory
TOLD_BYTES = 15360  # of the upstream's header


def told(port, head, body=b"{}"):
    """The status of the answer to these bytes; None: the connection was closed without one."""
    with socket.create_connection(("127.0.0.1", port), 20) as channel:
        channel.sendall(head + b"\r\n" + body)
        got = b""
        while b"\r\n\r\n" not in got:
            piece = channel.recv(65536)
            if not piece:
                return None
            got += piece
    return int(got.split(b" ", 2)[1])


def post(path, key, more):
    return (b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Idempotency-Key: %s\r\n%s" % (path, key, more))


def padded(size):
    return b"Content-Length: 2\r\nX-Pad: " + b"p" * size + b"\r\n"


class Requests(unittest.TestCase):
    """A request that leaves no room for its answer is refused before it is sent or recorded."""

    def _check(self, sizes, head, body=lambda size: b"{}"):
        gateway, target = setup(self)
        target.script("/v1/orders", answer(201, {"Link": "y" * (TOLD_BYTES - 20)}, b"done"))
        statuses = set()
        for number, size in enumerate(sizes):
            before = len(target.seen())
            status = told(gateway.gateway_port, post(b"/v1/orders", b"k%d" % number, head(size)),
                          body(size))
            self.assertEqual((status, len(target.seen()) - before),
                             (201, 1) if status == 201 else (431, 0), size)
            statuses.add(status)
        self.assertEqual(statuses, {201, 431})

    def a_long_field_leaves_room_or_is_refused(self):
        self._check([8000, *range(15800, REQUEST_BYTES, 37)], padded)

    def cookies_leave_room_or_are_refused(self):
        def head(count):
            cookies = b"; ".join(b"c%d=%08d" % (number, number) for number in range(count))
            return b"Content-Length: 2\r\nCookie: " + cookies + b"\r\n"
        self._check(range(130, 220, 5), head)

    def many_fields_leave_room_or_are_refused(self):
        self._check(range(150, 220, 3), lambda count: b"Content-Length: 2\r\n" + b"".join(
            b"X-%03d: some text\r\n" % number for number in range(count)))

    def trailers_leave_room_or_are_refused(self):
        self._check([8000, *range(15700, REQUEST_BYTES, 61)],
                    lambda size: b"Transfer-Encoding: chunked\r\n",
                    lambda size: b"2\r\n{}\r\n0\r\nX-Pad: " + b"p" * size + b"\r\n\r\n")

    def a_task_is_told_or_not_created(self):
        gateway, _target = setup(self, server={"queues": [{"name": "q"}]})
        gateway.post("/v1/queues/q:pause")
        statuses = [told(gateway.port, post(b"/v1/queues/q/tasks", b"t%d" % size, padded(size)))
                    for size in range(15800, REQUEST_BYTES, 37)]
        self.assertEqual(set(statuses), {201, 431})
        self.assertEqual(len(gateway.get("/v1/queues/q/tasks?limit=100").json["tasks"]),
                         statuses.count(201))


if __name__ == "__main__":
    runner.main()
