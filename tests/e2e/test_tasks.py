# SPDX-License-Identifier: MIT
"""What becomes of a task, by what its target does: the real server, the real clock, and a target
that answers, hangs, lies and dies by script. Requirements E2, E3; invariants I4, I5, I6.
"""
import base64
import datetime
import json
import socket
import threading
import time
import unittest

import runner
import target as does
from server import Server, chosen, on_each_store
from target import Target, answer

WAIT_MS = 30
TIMEOUT_MS = 250
FAST = {"name": "fast", "max_attempts": 5,
        "transient": {"backoff": "fixed", "base": f"{WAIT_MS}ms"},
        "rate_limited": {"max_attempts": 4, "backoff": "fixed", "base": f"{WAIT_MS}ms"}}
CLOCK_SLACK = 0.002  # both sides count whole milliseconds


def setup(test, store=chosen("sqlite"), choose=None, **more):
    """A target, and a server with the queue `q`, whose tasks say where they go."""
    target = Target(choose)
    test.addCleanup(target.close)
    server = Server(test, store, [{"name": "q", "policy": "fast"}], policies=[FAST], **more)
    return server.start(), target


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def told(task, *fields):
    """Those fields of each row of the trail."""
    return [tuple(row[field] for field in fields) for row in task["trail"]]


@on_each_store("sqlite", "json", "memory", "postgres")
class ByOutcome(unittest.TestCase):
    def two_failures_and_a_success_end_as_succeeded_with_the_trail(self, store):  # E2
        server, target = setup(self, store)
        url = target.script("/sync", answer(503), answer(503), answer(200, {"X-Row": "7"}, b"done"))
        task = server.settled(server.add(target=url, body="row"))
        self.assertEqual((task["state"], task["attempts"], task["error"]), ("succeeded", 3, None))
        self.assertEqual(told(task, "attempt", "class", "status", "sent", "wait_ms"),
                         [(1, "transient", 503, "yes", WAIT_MS),
                          (2, "transient", 503, "yes", WAIT_MS), (3, None, 200, "yes", 0)])
        self.assertEqual(task["response"]["status"], 200)
        self.assertEqual(task["response"]["body"], "done")
        self.assertEqual(task["response"]["headers"]["X-Row"], "7")
        self.assertEqual([one.attempt for one in target.seen()], [1, 2, 3])

    def no_attempt_begins_before_it_is_due(self, store):  # I6
        server, target = setup(self, store)
        url = target.script("/sync", answer(503), answer(503), answer(503), answer(200))
        task = server.settled(server.add(target=url))
        rows, seen = task["trail"], target.seen()
        for before, after, sent, resent in zip(rows, rows[1:], seen, seen[1:]):
            gap = round((moment(after["started_at"]) - moment(before["ended_at"])) * 1000)
            # Each beat in between may set the node's reckoning of the server's clock back by 1 ms.
            self.assertGreaterEqual(gap + 2 * (store == "postgres"), before["wait_ms"])
            self.assertGreaterEqual(resent.at - sent.at, before["wait_ms"] / 1000 - CLOCK_SLACK)

    def the_last_allowed_failure_ends_it(self, store):  # E2, I6
        server, target = setup(self, store)
        url = target.script("/sync", answer(500, {}, b"no luck"))
        task = server.settled(server.add(target=url))
        self.assertEqual((task["state"], task["attempts"]), ("failed", 5))
        self.assertEqual(task["error"]["class"], "transient")
        self.assertEqual(task["error"]["status"], 500)
        self.assertEqual(task["response"]["body"], "no luck")
        self.assertEqual(len(target.seen()), 5)

    def a_reset_before_the_request_was_read_is_tried_again_and_counted(self, store):
        server, target = setup(self, store)
        target.cut_connections(2)
        task = server.settled(server.add(target=target.url("/sync")))
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 3))
        self.assertEqual(told(task, "class", "status"),
                         [("transient", None), ("transient", None), (None, 200)])
        self.assertEqual([one.attempt for one in target.seen()], [3])

    def a_reset_after_the_request_was_read_is_tried_again_and_counted(self, store):
        server, target = setup(self, store)
        url = target.script("/sync", does.read_then_reset, does.read_then_reset, answer(200))
        task = server.settled(server.add(target=url))
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 3))
        self.assertEqual(told(task, "class", "status", "sent"),
                         [("transient", None, "maybe")] * 2 + [(None, 200, "yes")])
        self.assertEqual([one.attempt for one in target.seen()], [1, 2, 3])

    def a_target_that_must_not_see_it_twice_gets_one_request_whatever_happens(self, store):
        server, target = setup(self, store)
        acts = {"/reset": does.read_then_reset, "/close": does.read_then_close,
                "/truncated": does.truncated(), "/silent": does.silence, "/500": answer(500),
                "/503": answer(503), "/slow": does.slow_body()}
        tasks = {path: server.add(target=target.script(path, act), repeatable=False,
                                  timeout_ms=TIMEOUT_MS) for path, act in acts.items()}
        for path, identity in tasks.items():
            with self.subTest(path):
                task = server.settled(identity)
                self.assertEqual((task["state"], task["attempts"]), ("unsettled", 1))
                self.assertEqual(len(target.seen(path)), 1)
                self.assertEqual(server.post(f"/v1/tasks/{identity}:run").status, 409)
                server.wait_line("task_unsettled", task=identity, queue="q")

    def cut_before_it_was_read_is_in_doubt_too_when_it_must_not_be_repeated(self, store):
        server, target = setup(self, store)
        target.cut_connections(1)
        task = server.settled(server.add(target=target.url("/sync"), repeatable=False))
        self.assertEqual((task["state"], task["attempts"]), ("unsettled", 1))
        self.assertEqual(told(task, "sent"), [("maybe",)])
        self.assertEqual(target.seen(), [])

    def what_was_provably_not_done_is_repeated_on_any_target(self, store):  # engineering 1.2
        server, target = setup(self, store)
        held = socket.create_server(("127.0.0.1", 0))
        closed = held.getsockname()[1]
        held.close()
        refused = server.add(target=f"http://127.0.0.1:{closed}/", repeatable=False)
        later = server.add(target=target.script("/later", does.not_before_seconds(503, 0),
                                                answer(429), answer(200)), repeatable=False)
        task = server.settled(refused)
        self.assertEqual((task["state"], task["attempts"]), ("failed", 5))
        self.assertEqual(told(task, "sent", "status"), [("no", None)] * 5)
        task = server.settled(later)
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 3))
        self.assertEqual(len(target.seen("/later")), 3)


class Slow(unittest.TestCase):
    def _check(self, act, sent):
        server, target = setup(self)
        url = target.script("/slow", act, answer(200))
        task = server.settled(server.add(target=url, timeout_ms=TIMEOUT_MS))
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 2))
        self.assertEqual(told(task, "class", "status", "sent"),
                         [("transient", None, sent), (None, 200, "yes")])
        return task

    def headers_that_never_end_run_into_the_timeout(self):
        row = self._check(does.slow_headers(), "maybe")["trail"][0]
        took = moment(row["ended_at"]) - moment(row["started_at"])
        self.assertGreaterEqual(round(took * 1000), TIMEOUT_MS - 2)
        self.assertIn("time", row["message"].lower())

    def a_body_that_never_ends_runs_into_the_timeout(self):
        self._check(does.slow_body(), "maybe")

    def a_target_that_says_nothing_runs_into_the_timeout(self):
        self._check(does.silence, "maybe")

    def a_truncated_body_is_no_answer(self):
        self._check(does.truncated(), "maybe")


class WhenToldToWait(unittest.TestCase):
    def retry_after_in_seconds_is_obeyed(self):  # E3, I6
        server, target = setup(self)
        url = target.script("/sync", does.not_before_seconds(429, 1), answer(200))
        task = server.settled(server.add(target=url))
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 2))
        self.assertEqual(told(task, "class", "wait_ms")[0], ("rate_limited", 1000))
        first, second = target.seen()
        self.assertGreaterEqual(second.at - first.at, 1 - CLOCK_SLACK)

    def retry_after_as_a_date_is_obeyed(self):
        server, target = setup(self)
        url = target.script("/sync", does.not_before_date(429, 2), answer(200))
        identity = server.add(target=url)
        target.wait_for(1)
        task = server.settled(identity)
        self.assertEqual((task["state"], told(task, "wait_ms")[0]), ("succeeded", (2000,)))
        first, second = target.seen()
        self.assertGreaterEqual(second.at - first.at, 2 - CLOCK_SLACK)

    def a_waiting_retry_says_when_it_is_due(self):
        server, target = setup(self)
        url = target.script("/sync", does.not_before_seconds(503, 3600))
        identity = server.add(target=url)
        server.wait_line("task_retry", task=identity)
        task = server.task(identity)
        self.assertEqual((task["state"], task["attempts"], task["next_wait_ms"]),
                         ("waiting", 1, 3600000))
        ahead = moment(task["due_at"]) - moment(task["trail"][0]["ended_at"])
        self.assertGreaterEqual(round(ahead), 3600)

    def the_rate_limit_has_a_count_of_its_own(self):  # E3: 3 retries = 4 tries
        server, target = setup(self)
        task = server.settled(server.add(target=target.script("/sync", answer(429))))
        self.assertEqual((task["state"], task["attempts"]), ("failed", 4))
        self.assertEqual(task["error"]["class"], "rate_limited")


class NotRetried(unittest.TestCase):
    def an_answer_that_cannot_get_better_ends_it_at_once(self):  # E3
        server, target = setup(self)
        expected = {401: "auth", 403: "auth", 400: "invalid", 404: "invalid", 422: "invalid",
                    410: "gone", 301: "invalid", 302: "invalid", 307: "invalid", 304: "invalid"}
        for repeatable in (True, False):
            for status, name in expected.items():
                with self.subTest(status=status, repeatable=repeatable):
                    path = f"/{status}/{repeatable}"
                    url = target.script(path, answer(status, {"Location": target.url("/else")}))
                    task = server.settled(server.add(target=url, repeatable=repeatable))
                    self.assertEqual((task["state"], task["attempts"]), ("failed", 1))
                    self.assertEqual(task["error"]["class"], name)
                    self.assertEqual(task["error"]["status"], status)
                    self.assertEqual(len(target.seen(path)), 1)
        self.assertEqual(target.seen("/else"), [])


class ByteForByte(unittest.TestCase):
    @staticmethod
    def _body_of(part):
        if "body_base64" in part:
            return base64.b64decode(part["body_base64"])
        return part["body"].encode()

    def bodies_reach_the_target_and_come_back_unchanged(self):
        server, target = setup(self, choose=lambda request: does.echo)
        every = bytes(range(256)) * 5
        cases = {"/nul": ({"body": "a\x00b\x00"}, b"a\x00b\x00"),
                 "/empty": ({"body": ""}, b""), "/text": ({"body": "だるま\r\n"}, "だるま\r\n".encode()),
                 "/every": ({"body_base64": base64.b64encode(every).decode()}, every),
                 "/large": ({"body": "x" * 700000}, b"x" * 700000)}
        for path, (given, expected) in cases.items():
            with self.subTest(path):
                task = server.settled(server.add(target=target.url(path), **given))
                self.assertEqual(task["state"], "succeeded")
                self.assertEqual(target.seen(path)[0].body, expected)
                self.assertEqual(self._body_of(task["request"]), expected)
                self.assertEqual(self._body_of(task["response"]), expected)

    def large_tasks_are_read_aside_by_the_same_rules(self):  # engineering 7, I3
        server, target = setup(self)
        large = "x" * 600000
        first = server.create(target=target.url("/a"), body=large, key="k")
        self.assertEqual(first.status, 201)
        again = server.create(target=target.url("/a"), body=large, key="k")
        self.assertEqual((again.status, again.json["id"]), (200, first.json["id"]))
        other = server.create(target=target.url("/a"), body=large + "y", key="k")
        self.assertEqual((other.status, other.code), (409, "key_conflict"))
        small = server.create(target=target.url("/a"), body="x", key="k")
        self.assertEqual((small.status, small.code), (409, "key_conflict"))
        wrong = server.create(target=target.url("/a"), body=large, nonsense=1)
        self.assertEqual((wrong.status, wrong.json["field"]), (400, "nonsense"))
        broken = server.call("POST", "/v1/queues/q/tasks", b'{"body":"' + large.encode())
        self.assertEqual((broken.status, broken.code), (400, "invalid_request"))
        server.settled(first.json["id"])
        self.assertEqual(len(target.seen("/a")), 1)

    def large_batches_are_read_aside_by_the_same_rules(self):  # engineering 7
        server, target = setup(self)
        tasks = [{"target": target.url(f"/{n}"), "body": "x" * 3000, "key": f"k{n}"}
                 for n in range(150)]
        tasks[7]["nonsense"] = 1
        whole = server.post("/v1/queues/q/tasks:batch", tasks)
        self.assertEqual(whole.status, 200)
        results = whole.json["results"]
        self.assertEqual(results[7]["error"]["field"], "nonsense")
        ids = [result.get("id") for result in results]
        self.assertEqual(len(set(ids)), 150)
        lines = b"\n".join(json.dumps(task).encode() for task in tasks)
        again = server.call("POST", "/v1/queues/q/tasks:batch", lines)
        self.assertEqual([result.get("id") for result in again.json["results"]], ids)
        tasks[3]["body"] += "y"
        other = server.post("/v1/queues/q/tasks:batch", tasks)
        self.assertEqual(other.json["results"][3]["error"]["code"], "key_conflict")
        broken = server.call("POST", "/v1/queues/q/tasks:batch", b"[" + lines)
        self.assertEqual((broken.status, broken.code), (400, "invalid_request"))
        for n in (0, 149):
            self.assertEqual(server.settled(ids[n])["state"], "succeeded")

    def those_who_leave_while_it_is_read_do_no_harm(self):
        server, target = setup(self)
        request = json.dumps({"target": target.url("/b"), "body": "x" * 900000}).encode()
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(b"POST /v1/queues/q/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d"
                               b"\r\n\r\n" % len(request) + request)
        self.assertEqual(server.get("/healthz").status, 200)
        self.assertEqual(server.settled(server.add(target=target.url("/c"), body="x"))["state"],
                         "succeeded")

    def json_is_sent_as_the_bytes_that_were_given(self):  # engineering 1.14
        server, target = setup(self, choose=lambda request: does.echo)
        values = (b'{"a":1.10}', b"12345678901234567890", b'{ "a" :  [1,  2 ] ,"a":null }',
                  b'"\\u00e9\\/"', b"1e400", b"null", b"[]")
        for number, value in enumerate(values):
            with self.subTest(value):
                path = f"/{number}"
                body = b'{"target":"%s", "json": %s ,"labels":{}}' % (target.url(path).encode(),
                                                                     value)
                got = server.post("/v1/queues/q/tasks", body)
                self.assertEqual(got.status, 201)
                task = server.settled(got.json["id"])
                seen = target.seen(path)[0]
                self.assertEqual((seen.body, seen.headers["content-type"]),
                                 (value, "application/json"))
                self.assertEqual(task["request"]["body"].encode(), value)

    def an_answer_survives_a_restart_unchanged(self):  # I4
        server, target = setup(self)
        said = bytes(range(256))
        url = target.script("/sync", answer(200, {"X-One": "1", "Content-Type": "a/b"}, said))
        before = server.settled(server.add(target=url))
        server.restart()
        after = server.task(before["id"])
        self.assertEqual(after, before)
        self.assertEqual(base64.b64decode(after["response"]["body_base64"]), said)


class WhatTheTargetSees(unittest.TestCase):
    def it_sees_key_task_and_attempt(self):
        server, target = setup(self)
        url = target.script("/sync", answer(503), answer(200))
        keyed = server.add(target=url, key="order-123")
        server.settled(keyed)
        bare = server.add(target=target.url("/bare"), method="PUT", headers={"X-Own": "mine"})
        server.settled(bare)
        self.assertEqual([(one.task, one.attempt, one.key) for one in target.seen("/sync")],
                         [(keyed, 1, "order-123"), (keyed, 2, "order-123")])
        one = target.seen("/bare")[0]
        self.assertEqual((one.task, one.attempt, one.key, one.method), (bare, 1, bare, "PUT"))
        self.assertEqual(one.headers["x-own"], "mine")
        self.assertNotIn("expect", one.headers)

    def a_queue_target_gives_address_method_and_headers(self):
        target = Target()
        queue = {"name": "q", "targets": [{"name": "bq", "url": target.url("/bq"), "method": "PUT",
                                           "headers": [{"name": "X-Row", "value": "7"}]}]}
        server = Server(self, queues=[queue]).start()
        task = server.settled(server.add(body="row"))
        self.assertEqual((task["state"], task["settled_by"]), ("succeeded", "bq"))
        one = target.seen("/bq")[0]
        self.assertEqual((one.method, one.headers["x-row"], one.body), ("PUT", "7", b"row"))


class SilentResend(unittest.TestCase):
    """libcurl sends a request again by itself when a reused connection dies before an answer."""

    def _reuse(self, **more):
        server, target = setup(self)
        server.settled(server.add(target=target.url("/first")))
        url = target.script("/second", does.read_then_close, answer(200))
        task = server.settled(server.add(target=url, **more))
        seen = target.seen("/second")
        self.assertEqual(seen[0].connection, target.seen("/first")[0].connection, "not reused")
        return task, seen

    def a_target_that_must_not_see_it_twice_is_not_sent_it_again(self):
        task, seen = self._reuse(repeatable=False)
        self.assertEqual((task["state"], task["attempts"], len(seen)), ("unsettled", 1, 1))

    def an_empty_body_is_not_sent_again_either(self):
        task, seen = self._reuse(repeatable=False, body="", method="POST")
        self.assertEqual((task["state"], len(seen)), ("unsettled", 1))

    def on_any_other_target_it_is_counted(self):
        task, seen = self._reuse()
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 1))
        self.assertEqual((task["trail"][0]["sends"], len(seen)), (2, 2))


class WhileItRuns(unittest.TestCase):
    def a_long_poll_is_woken_by_the_settle(self):
        server, target = setup(self)
        release = threading.Event()
        identity = server.add(target=target.script("/held", does.hold(release)))
        target.wait_for(1)
        answers = []
        polls = [threading.Thread(target=lambda: answers.append(server.settled(identity)))
                 for _ in range(5)]
        for poll in polls:
            poll.start()
        release.set()
        began = time.monotonic()
        for poll in polls:
            poll.join()
        self.assertLess(time.monotonic() - began, 5)  # the poll itself would take 30
        self.assertEqual([task["state"] for task in answers], ["succeeded"] * 5)

    def a_long_poll_that_runs_out_tells_how_it_is(self):
        server, target = setup(self)
        identity = server.add(target=target.script("/held", does.hold(threading.Event())))
        target.wait_for(1)
        began = time.monotonic()
        self.assertEqual(server.task(identity, wait_ms=200)["state"], "running")
        self.assertGreaterEqual(time.monotonic() - began, 0.19)

    def a_running_task_can_be_neither_cancelled_nor_run(self):  # engineering 1.6
        server, target = setup(self)
        release = threading.Event()
        identity = server.add(target=target.script("/held", does.hold(release)))
        target.wait_for(1)
        for verb in ("cancel", "run"):
            got = server.post(f"/v1/tasks/{identity}:{verb}")
            self.assertEqual((got.status, got.code), (409, "not_waiting"))
        release.set()
        self.assertEqual(server.settled(identity)["state"], "succeeded")
        self.assertEqual(len(target.seen()), 1)


if __name__ == "__main__":
    runner.main()
