# SPDX-License-Identifier: MIT
"""Long header fields, of requests and of answers: what a request came to can always be told."""
import http.client
import socket
import time
import unittest

import runner
from gateway import setup
from target import answer

REQUEST_BYTES = 16384  # what a request may take of its connection's memory
TOLD_BYTES = 15360  # of the upstream's header

http.client._MAXHEADERS = 10000  # pylint: disable=protected-access


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


def ended(gateway, key):
    """The answer, once what was handed on has been read to its end."""
    deadline = time.monotonic() + 20
    while (got := gateway.send(key=key)).code == "key_in_progress" and time.monotonic() < deadline:
        time.sleep(0.02)
    return got


def post(path, key, more):
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Idempotency-Key: %s\r\n%s" % (path, key, more))


def padded(size):
    return b"Content-Length: 2\r\nX-Pad: " + b"p" * size + b"\r\n"


def cookies(count):
    return b"Content-Length: 2\r\nCookie: %s\r\n" % b"; ".join(
        b"c%d=%08d" % (number, number) for number in range(count))


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
        self._check(range(1000, 1200, 10), cookies)

    def cookies_reach_the_upstream_byte_for_byte(self):
        gateway, target = setup(self)
        text = 'a = "b;c" ,d; ;=; ' + "; ".join(f"c{number}=v" for number in range(1000))
        more = b"Content-Length: 2\r\nCookie: %s\r\n" % text.encode()
        self.assertEqual(told(gateway.gateway_port, post(b"/v1/orders", b"k", more)), 200)
        self.assertEqual([one.headers["cookie"] for one in target.seen()], [text])

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


class Connections(unittest.TestCase):
    """Memory that served a request serves the next one, with nothing of the first in it."""

    def a_request_has_nothing_of_the_one_before_it(self):
        gateway, target = setup(self, match="POST /v1/*")
        connection = gateway.caller()
        self.addCleanup(connection.close)
        long, short = "/v1/" + "o" * 3000, "/v1/o"
        rows = [(long, {"Prefer": "wait=9", "X-Mine": "m" * 5000, "Cookie": "a=1; b=2"}),
                (short, {}), (long[:300], {"X-Other": "yes"}), (short, {"Prefer": "wait=8"})]
        for number, (path, headers) in enumerate(rows):
            for is_first in (True, False):
                got = gateway.send(path, key=f"k{number}", headers=headers, connection=connection)
                self.assertEqual(got.status, 200)
                self.assertEqual("idempotency-replayed" in got.headers, not is_first)
                self.assertEqual(got.headers.get("preference-applied"), headers.get("Prefer"))
            sent = target.seen()[number]
            self.assertEqual((sent.path, sent.key), (path, f"k{number}"))
            for name in ("X-Mine", "X-Other", "Cookie"):
                self.assertEqual(sent.headers.get(name.lower()), headers.get(name))
        self.assertEqual(len(target.seen()), len(rows))


class Answers(unittest.TestCase):
    """What is told of an answer with a long header is the same to the first caller and in each replay."""

    def _told(self, gateway, key="k", **more):
        got = gateway.send(key=key, **more)
        kept = {name: value for name, value in got.headers.items()
                if name not in ("date", "idempotent-replayed", "idempotency-replayed")}
        return got, (got.status, kept, got.body)

    def _check(self, act, is_told, **more):
        gateway, target = setup(self, **more)
        target.script("/v1/orders", act, answer(500))
        got, first = self._told(gateway)
        self.assertNotIn("idempotency-replayed", got.headers)
        self.assertEqual((got.status, got.code), (201, None) if is_told
                         else (502, "answer_header_too_long"))
        if not is_told:
            gateway.wait_line("answer_untold")  # a killed server takes what it has not written along
        for _ in range(2):  # from memory, and from the store
            again, replay = self._told(gateway)
            self.assertEqual(replay, first)
            self.assertEqual(again.headers["idempotency-replayed"], "true" if is_told else "omitted")
            gateway.restart()
        self.assertEqual(self._told(gateway)[1], first)
        self.assertEqual(len(target.seen()), 1)
        task = gateway.task(target.seen()[0].task)
        self.assertEqual((task["state"], task["response"]["status"], task["response"]["body"]),
                         ("succeeded", 201, "done"))
        self.assertEqual(task["response"].get("untold", False), not is_told)
        lines = [line for line in gateway.lines if line.event == "answer_untold"]
        self.assertEqual(len(lines), 0 if is_told else 1)
        return gateway, target, got

    def fifteen_thousand_bytes_are_told(self):
        _gateway, _target, got = self._check(answer(201, {"Link": "y" * 15000}, b"done"), True)
        self.assertEqual(got.headers["link"], "y" * 15000)

    def the_limit_is_told(self):
        self._check(answer(201, {"Link": "y" * (TOLD_BYTES - 8)}, b"done"), True,
                    replay_headers=["link"])

    def one_byte_more_is_not(self):
        self._check(answer(201, {"Link": "y" * (TOLD_BYTES - 7)}, b"done"), False,
                    replay_headers=["link"])

    def sixteen_thousand_bytes_are_not(self):
        _gateway, _target, got = self._check(answer(201, {"Link": "y" * 16500}, b"done"), False)
        self.assertIn("answered 201", got.json["detail"])
        self.assertEqual((got.json["retry"], got.headers["x-should-retry"]), ("never", "false"))

    def forty_thousand_bytes_are_not(self):
        gateway, target, _got = self._check(answer(201, {"Link": "y" * 40000}, b"done"), False)
        kept = gateway.task(target.seen()[0].task)["response"]["headers"]
        self.assertEqual(kept["Link"], "y" * 40000)

    def a_hundred_thousand_bytes_are_not(self):
        """More than is kept, so that a part of the header is missing."""
        self._check(answer(201, {"Link": "y" * 100000}, b"done"), False)

    def a_thousand_small_fields_are_told(self):
        fields = {f"X-{number:04}": "1" for number in range(1000)}
        _gateway, _target, got = self._check(answer(201, fields, b"done"), True)
        self.assertEqual([got.headers[f"x-{number:04}"] for number in range(1000)], ["1"] * 1000)

    def thousands_of_small_fields_are_not(self):
        self._check(answer(201, {f"X-{number:04}": "1" for number in range(3000)}, b"done"), False)

    def what_is_not_kept_does_not_count(self):
        self._check(answer(201, {"Set-Cookie": "a=" + "y" * 20000}, b"done"), True)

    def a_poll_says_the_same(self):
        gateway, target = setup(self, scope="header:x-who")
        target.script("/v1/orders", answer(201, {"Link": "y" * 20000}, b"done"))
        who = {"X-Who": "me"}
        first = gateway.send(key="k", headers=who)
        path = "/.daruma/requests/" + target.seen()[0].task
        polled = gateway.send(path, None, method="GET", headers=who)
        self.assertEqual((polled.status, polled.body), (502, first.body))
        self.assertEqual(gateway.send(path, None, method="GET", headers={"X-Who": "her"}).status, 404)

    def a_stream_with_a_long_header_is_not_handed_on(self):
        gateway, target = setup(self, server={"limits": {"response": "4096B"}})
        target.script("/v1/orders", answer(201, {"Link": "y" * 20000}, b"x" * 6000),
                      answer(201, {"Link": "y" * 20000, "Content-Type": "text/event-stream"}, b":\n"),
                      answer(500))
        for key in ("long", "events"):
            first, replay = gateway.send(key=key), ended(gateway, key)
            gateway.restart()
            after = gateway.send(key=key)
            self.assertEqual([(one.status, one.code) for one in (first, replay, after)],
                             [(502, "answer_header_too_long")] * 3)
            self.assertEqual({one.body for one in (first, replay, after)}, {first.body})
            self.assertEqual(after.headers["idempotency-replayed"], "omitted")
        self.assertEqual(len(target.seen()), 2)

    def what_frees_the_key_says_so(self):
        gateway, target = setup(self, replay="settled", in_progress="conflict")
        target.script("/v1/orders", answer(429, {"Link": "y" * 20000}, b"slow"),
                      answer(429, {"Link": "y" * 20000}, b"x" * 2000000), answer(201, {}, b"done"))
        for _ in range(2):
            got = gateway.send(key="k")
            self.assertEqual((got.status, got.json["retry"]), (502, "same_key"))
            self.assertIn("answered 429", got.json["detail"])
        self.assertEqual((ended(gateway, "k").body, len(target.seen())), (b"done", 3))

    def what_passes_is_told_or_refused(self):
        gateway, target = setup(self, match="GET, POST /v1/orders")
        target.script("/v1/orders", answer(200, {"Link": "y" * 15000}, b"done"),
                      answer(200, {"Link": "y" * 20000}, b"done"),
                      answer(200, {"Link": "y" * 20000}, b"x" * 2000000),
                      answer(200, {"Link": "y" * 100000}, b"done"))
        got = [gateway.send(method="GET", body=None) for _ in range(4)]
        self.assertEqual([(one.status, one.code) for one in got],
                         [(200, None)] + [(502, "answer_header_too_long")] * 3)


if __name__ == "__main__":
    runner.main()
