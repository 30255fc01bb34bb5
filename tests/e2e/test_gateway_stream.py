# SPDX-License-Identifier: MIT
"""Answers that the gateway hands on as they come: too long to be kept, or event streams. They are
recorded as answered before their first byte goes on, and never run again. engineering 1.14.
"""
import hashlib
import http.client
import os
import threading
import time
import unittest

import runner
import target as does
from gateway import Gateway, route, setup
from target import Target, answer
from test_cli_client import run

MIB = 1 << 20
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text):
    return b"%x\r\n%s\r\n" % (len(text), text)


def events(go, seen):
    """One event at once, the others one by one, each when the caller has seen the one before."""
    def act(connection, _request):
        connection.send(SSE + chunk(b"data: 0\n\n"))
        for number in range(1, 4):
            seen[number].wait(20)
            connection.send(chunk(b"data: %d\n\n" % number))
        go.wait(20)
        connection.send(b"0\r\n\r\n")
        return True
    return act


class Oversize(unittest.TestCase):
    def _long(self, size, chunked=False, **more):
        gateway, target = setup(self, **more)
        body = os.urandom(4096) * (size // 4096)
        if chunked:
            act = does.raw(b"HTTP/1.1 201 Created\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                           *[chunk(body[at:at + 50000]) for at in range(0, len(body), 50000)],
                           b"0\r\n\r\n")
        else:
            act = answer(201, {"X-A": "1"}, body)
        target.script("/v1/orders", act, answer(500))
        return gateway, target, body

    def _check(self, gateway, target, body):
        first = gateway.send(key="k")
        self.assertEqual((first.status, first.headers["x-a"]), (201, "1"))
        self.assertEqual(hashlib.md5(first.body).digest(), hashlib.md5(body).digest())
        self.assertNotIn("idempotency-replayed", first.headers)
        self._omitted(gateway, target)
        return first

    def _omitted(self, gateway, target):
        deadline = time.monotonic() + 10
        while (again := gateway.send(key="k")).code == "key_in_progress":  # its end is being written down
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual((again.status, again.body, again.headers["x-a"]), (201, b"", "1"))
        self.assertEqual((again.headers["idempotent-replayed"],
                          again.headers["idempotency-replayed"]), ("true", "omitted"))
        self.assertEqual(len(target.seen()), 1)

    def three_mebibytes_pass_whole_and_are_not_run_again(self):
        gateway, target, body = self._long(3 * MIB)
        first = self._check(gateway, target, body)
        self.assertEqual(first.headers["content-length"], str(len(body)))
        kept = gateway.task(target.seen()[0].task)["response"]
        self.assertTrue(kept["omitted"])
        self.assertNotIn("truncated", kept)

    def chunks_pass_as_chunks(self):
        gateway, target, body = self._long(3 * MIB, chunked=True)
        first = self._check(gateway, target, body)
        self.assertEqual(first.headers["transfer-encoding"], "chunked")

    def one_byte_over_the_limit_is_over_it(self):
        gateway, target, body = self._long(4096, server={"limits": {"response": "4095B"}})
        self._check(gateway, target, body)

    def the_limit_itself_is_kept(self):
        gateway, target, body = self._long(4096, server={"limits": {"response": "4096B"}})
        got = [gateway.send(key="k").body for _ in range(2)]
        self.assertEqual(got, [body, body])

    def a_slow_reader_is_waited_for_and_costs_little_memory(self):
        gateway, target, body = self._long(32 * MIB)
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k",
                                                         "Content-Type": "application/json"})
        got = connection.getresponse()
        digest = hashlib.md5(got.read(100000))
        time.sleep(0.5)  # for the gateway to read ahead, if it did
        with open(f"/proc/{gateway.process.pid}/smaps_rollup", encoding="ascii") as file:
            private = sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))
        if "build-asan" not in os.environ.get("DARUMA_BIN", ""):
            self.assertLess(private, 24 * 1024)  # KiB; the answer has 32 MiB
        while piece := got.read(MIB):
            digest.update(piece)
        self.assertEqual(digest.digest(), hashlib.md5(body).digest())
        self._omitted(gateway, target)

    def a_cut_one_is_seen_as_cut_and_not_run_again(self):
        gateway, target = setup(self)
        target.script("/v1/orders", does.raw(
            does.head_of(201, {"X-A": "1"}, 3 * MIB) + b"x" * (2 * MIB), keeps=False), answer(500))
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k",
                                                         "Content-Type": "application/json"})
        with self.assertRaises(Exception):
            connection.getresponse().read()
        self._omitted(gateway, target)
        kept = gateway.task(target.seen()[0].task)["response"]
        self.assertEqual((kept["status"], kept["omitted"], kept["truncated"]), (201, True, True))
        status, shown, err = run("show", target.seen()[0].task,
                                 DARUMA_URL=f"http://127.0.0.1:{gateway.port}")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(shown, r"201 .*, cut off on its way and not kept\n")

    def a_caller_who_leaves_stops_nothing(self):
        gateway, target, _body = self._long(32 * MIB)
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k",
                                                         "Content-Type": "application/json"})
        connection.getresponse().read(1000)
        connection.close()
        self._omitted(gateway, target)

    def waiters_are_told_that_the_body_was_not_kept(self):
        gateway, target = setup(self, in_progress="wait")
        go = threading.Event()
        target.script("/v1/orders", does.hold(go, answer(201, {"X-A": "1"}, b"x" * 2 * MIB)))
        first = gateway.begin(key="k")
        target.wait_for(1)
        other = gateway.begin(key="k")
        go.set()
        self.assertEqual(len(first.end().body), 2 * MIB)
        self.assertEqual((other.end().status, other.answer.body,
                          other.answer.headers["idempotency-replayed"]), (201, b"", "omitted"))

    def a_long_answer_that_frees_the_key_is_the_first_caller_s(self):
        gateway, target = setup(self, replay="settled")
        body = b"slow down " * 200000
        target.script("/v1/orders", answer(429, {"X-A": "1", "Set-Cookie": "a=1"}, body),
                      answer(201, {}, b"done"))
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.headers["x-a"], got.headers["set-cookie"], got.body == body),
                         (429, "1", "a=1", True))
        self.assertNotIn("idempotency-replayed", got.headers)
        again = gateway.send(key="k")  # nothing of it was kept
        self.assertEqual((again.status, again.body, len(target.seen())), (201, b"done", 2))

    def a_long_answer_that_frees_the_key_and_is_cut_off_leaves_it_in_doubt(self):
        gateway, target = setup(self, replay="settled")
        target.script("/v1/orders", does.raw(does.head_of(429, {}, 3 * MIB) + b"x" * (2 * MIB),
                                             keeps=False), answer(201))
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k",
                                                         "Content-Type": "application/json"})
        with self.assertRaises(Exception):
            connection.getresponse().read()
        again = gateway.send(key="k")
        self.assertEqual((again.status, again.code, len(target.seen())), (409, "outcome_unknown", 1))

    def nobody_gets_a_byte_of_a_long_answer_that_leaves_doubt(self):
        gateway, target = setup(self, replay="settled")
        target.script("/v1/orders", answer(500, {}, b"x" * 2 * MIB))
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.code), (409, "outcome_unknown"))

    def a_crash_in_the_middle_does_not_run_it_again(self):
        gateway, target = setup(self)
        go = threading.Event()
        def act(connection, _request):
            connection.send(does.head_of(201, {"X-A": "1"}, 3 * MIB) + b"x" * (2 * MIB))
            go.wait(20)
            return False
        target.script("/v1/orders", act, answer(500))
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k",
                                                         "Content-Type": "application/json"})
        connection.getresponse().read(1000)
        gateway.restart()
        go.set()
        self._omitted(gateway, target)


class AfterOne(unittest.TestCase):
    def the_time_out_of_a_stream_ends_with_it(self):
        """What is sent next, on the same handle, has its own."""
        def late(connection, request):
            time.sleep(3.5)  # a time-out of silence of 1 s is noticed after 3 s
            return answer(201)(connection, request)
        target = Target()
        self.addCleanup(target.close)
        target.script("/sse", does.raw(SSE, chunk(b"data: 0\n\n"), b"0\r\n\r\n"))
        target.script("/long", answer(200, {}, b"x" * 5000))
        target.script("/pay", late)
        target.script("/task", late)
        gateway = Gateway(self, [route(target, "POST /sse", timeout="1s"),
                                 route(target, "POST /long", timeout="1s"),
                                 route(target, "POST /pay", timeout="60s")],
                          limits={"response": "4096B"},
                          queues=[{"name": "q", "targets": [{"name": "t", "url": target.url("/task"),
                                                             "timeout": "60s"}]}]).start()
        streams = [gateway.begin(path=path, key="s") for path in ("/sse", "/long")]
        self.assertEqual([one.end().status for one in streams], [200, 200])
        task, payment = gateway.add(body="x"), gateway.begin(path="/pay", key="p")
        self.assertEqual((payment.end().status, gateway.settled(task)["state"]), (201, "succeeded"))
        self.assertEqual((len(target.seen("/pay")), len(target.seen("/task"))), (1, 1))


class Events(unittest.TestCase):
    def _read_events(self, got, seen):
        text = b""
        for number in range(4):
            while b"data: %d\n\n" % number not in text:
                piece = got.read1(65536)
                self.assertTrue(piece)
                text += piece
            if number + 1 in seen:
                seen[number + 1].set()
        return text

    def each_event_passes_when_it_comes(self):
        gateway, target = setup(self, timeout="2s", in_progress="accepted")
        go, seen = threading.Event(), {number: threading.Event() for number in (1, 2, 3)}
        target.script("/v1/orders", events(go, seen), answer(500))
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k",
                                                         "Content-Type": "application/json"})
        got = connection.getresponse()
        self.assertEqual(got.getheader("content-type"), "text/event-stream")
        self._read_events(got, seen)
        self.assertEqual(gateway.send(key="k").status, 202)  # it still goes on
        go.set()
        self.assertEqual(got.read(), b"")
        deadline = time.monotonic() + 10
        while (again := gateway.send(key="k")).code == "key_in_progress":
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual((again.status, again.body, again.headers["idempotency-replayed"]),
                         (200, b"", "omitted"))
        self.assertEqual(len(target.seen()), 1)

    def a_stream_may_take_longer_than_the_time_out_but_not_be_silent(self):
        gateway, target = setup(self, timeout="1s")
        def act(connection, _request):
            connection.send(SSE)
            for _ in range(8):
                time.sleep(0.3)
                connection.send(chunk(b": still here\n\n"))
            connection.is_left()  # silence
            return False
        target.script("/v1/orders", act)
        began = time.monotonic()
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k"})
        got = connection.getresponse()
        with self.assertRaises(Exception):
            got.read()
        self.assertGreater(time.monotonic() - began, 2.4)
        self.assertLess(time.monotonic() - began, 15)

    def what_its_caller_has_left_is_ended_after_the_time_out(self):
        """An answer that never ends is read while its caller reads it, and no longer than that."""
        gateway, target = setup(self, timeout="1s", concurrency=1)
        left = threading.Event()
        def act(connection, _request):
            connection.send(SSE + chunk(b"data: 0\n\n"))
            try:
                while True:
                    time.sleep(0.02)
                    connection.send(chunk(b": ping\n\n"))
            except OSError:
                left.set()
            return False
        target.script("/v1/orders", act, answer(201))
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k",
                                                         "Content-Type": "application/json"})
        got = connection.getresponse()
        until = time.monotonic() + 1.5  # longer than the time-out
        while time.monotonic() < until:
            self.assertTrue(got.read1(100))
        self.assertFalse(left.is_set())
        began = time.monotonic()
        got.close()
        connection.close()
        self.assertTrue(left.wait(20))
        self.assertGreater(time.monotonic() - began, 0.9)
        task = gateway.settled(target.seen()[0].task)
        self.assertEqual((task["state"], task["response"]["omitted"], task["response"]["truncated"]),
                         ("succeeded", True, True))
        self.assertIn("its caller has left", task["trail"][-1]["message"])
        again = gateway.send(key="k")
        self.assertEqual((again.status, again.headers["idempotency-replayed"]), (200, "omitted"))
        self.assertEqual(gateway.send(key="other").status, 201)  # the place is free

    def _cut(self, status, later, delay_s=0, **more):
        """Once the head is on disk later callers are told what it says: so is the first one, and sees
        the cut. One that was cut before that is in doubt, for all of them."""
        gateway, target = setup(self, **more)
        def act(connection, _request):
            connection.send(SSE.replace(b"200 OK", b"%d X" % status))
            time.sleep(delay_s)
            return False
        target.script("/v1/orders", *[act] * 5)
        for number in range(5):
            connection = gateway.caller()
            connection.request("POST", "/v1/orders", b"{}", {
                "Idempotency-Key": f"k{number}", "Content-Type": "application/json"})
            got = connection.getresponse()
            if got.status == 409:
                self.assertEqual(gateway.send(key=f"k{number}").code, "outcome_unknown")
                continue
            self.assertEqual((got.status, got.getheader("content-type")),
                             (status, "text/event-stream"))
            with self.assertRaises(http.client.IncompleteRead):
                got.read()
            connection.close()
            self.assertEqual(gateway.send(key=f"k{number}").status, later)
        self.assertEqual(len(target.seen()), 5)

    def one_that_is_cut_behind_its_head_is_told_as_it_was_recorded(self):
        self._cut(200, 200)

    def one_that_is_cut_some_time_behind_its_head_is_told_as_it_was_recorded(self):
        self._cut(200, 200, delay_s=0.1)

    def one_that_frees_its_key_and_is_cut_behind_its_head_is_told_and_in_doubt(self):
        self._cut(429, 409, replay="settled")

    def what_is_passed_on_streams_too_and_ends_with_its_caller(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target)], **{"pass": target.url("")}).start()
        left = threading.Event()
        def act(connection, _request):
            connection.send(SSE + chunk(b"data: 0\n\n"))
            connection.channel.settimeout(0.05)
            while not left.is_set():
                try:
                    connection.send(chunk(b": ping\n\n"))
                    if connection.is_left():
                        left.set()
                except TimeoutError:
                    continue
                except OSError:
                    left.set()
            return False
        target.script("/events", act)
        connection = gateway.caller()
        connection.request("GET", "/events")
        got = connection.getresponse()
        self.assertIn(b"data: 0", got.read1(100))
        got.close()
        connection.close()
        self.assertTrue(left.wait(20))

    def a_long_download_passes_whole(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target)], **{"pass": target.url("")}).start()
        body = os.urandom(4096) * 2048
        target.script("/file", answer(200, {"Content-Encoding": "gzip"}, body))
        got = gateway.send("/file", None, method="GET")
        self.assertEqual((hashlib.md5(got.body).digest(), got.headers["content-encoding"]),
                         (hashlib.md5(body).digest(), "gzip"))


if __name__ == "__main__":
    runner.main()
