# SPDX-License-Identifier: MIT
"""The gateway's contract, row by row: what a caller is told about his key, and what the upstream
gets to see. The real server and a scripted upstream. Requirements A1, A2, C1 to C6.
"""
import json
import queue
import re
import threading
import time
import unittest
import urllib.parse

import runner
import target as does
from gateway import Gateway, route, setup
from target import Target, answer
from test_cli_client import run

CREATED = answer(201, {"Content-Type": "application/json", "X-Order": "7"}, b'{"id": 7}')
RENAMING = ("_method=POST", "_METHOD=POST", "a=1&_method", "%5Fmethod=POST", "_%6dethod=POST", "_metho%64=POST",
            "%5f%6D%65thod=POST", "%u005fmethod=POST", "x=1;_method=POST", "x=1;%20_method=POST", "+_method=POST",
            ".method=POST", "%5Bmethod=POST", "_method%00=POST", "_method[]=POST", "_method%5B0%5D=POST",
            "X-HTTP-Method-Override=POST", "a=1&x%2dhttp-method-override=POST")  # all read as _method by some upstream
REPLAYED = ("idempotent-replayed", "idempotency-replayed")


def replayed(got):
    return tuple(got.headers.get(name) for name in REPLAYED)


def lasting(got):
    """What of an answer is the same each time: all but the date and the mark of a replay."""
    return (got.status, got.body, [pair for pair in got.pairs
                                   if pair[0].lower() not in ("date", *REPLAYED)])


class Keys(unittest.TestCase):
    def a_required_key_that_is_missing_is_a_400(self):  # A1
        gateway, target = setup(self)
        got = gateway.send()
        self.assertEqual((got.status, got.code, got.json["retry"]), (400, "key_missing", "new_key"))
        self.assertTrue(got.json["type"].startswith("/.daruma/idempotency"))
        self.assertEqual(target.seen(), [])

    def an_optional_key_that_is_missing_passes_unrecorded(self):  # A1
        gateway, target = setup(self, key="optional")
        target.script("/v1/orders", CREATED)
        self.assertEqual([gateway.send().status for _ in range(2)], [201, 201])
        self.assertEqual([one.key for one in target.seen()], [None, None])
        self.assertEqual(gateway.get("/v1/queues/_route.POST-v1-orders/tasks").json["tasks"], [])

    def a_key_that_is_none_is_a_400(self):
        gateway, target = setup(self)
        for key in ("", "a b", "a,b", '"a", "b"', "x" * 256, '"open'):
            got = gateway.send(key=key)
            self.assertEqual((got.status, got.code), (400, "key_invalid"), key)
        with_two = gateway.caller()
        with_two.putrequest("POST", "/v1/orders")
        for value in ("a", "a"):
            with_two.putheader("Idempotency-Key", value)
        with_two.putheader("Content-Length", "0")
        with_two.endheaders()
        got = with_two.getresponse()
        self.assertEqual((got.status, json.loads(got.read())["code"]), (400, "key_invalid"))
        self.assertEqual(target.seen(), [])

    def a_caller_who_says_twice_who_he_is_is_not_known(self):
        gateway, target = setup(self, scope="header:x-api-key")
        caller = gateway.caller()
        caller.putrequest("POST", "/v1/orders")
        for name, value in (("Idempotency-Key", "k"), ("X-Api-Key", "a"), ("X-Api-Key", "b"),
                            ("Content-Length", "0")):
            caller.putheader(name, value)
        caller.endheaders()
        got = caller.getresponse()
        self.assertEqual((got.status, json.loads(got.read())["code"]), (401, "scope_missing"))
        self.assertEqual(target.seen(), [])

    def a_quoted_and_a_bare_key_are_one(self):
        gateway, target = setup(self)
        target.script("/v1/orders", CREATED, answer(500))
        first, other = gateway.send(key="k-1"), gateway.send(key='"k-1"')
        self.assertEqual(lasting(first), lasting(other))
        self.assertEqual(len(target.seen()), 1)

    def a_strict_route_takes_quoted_keys_only(self):
        gateway, _target = setup(self, strict=True)
        self.assertEqual(gateway.send(key="bare").code, "key_invalid")
        self.assertEqual(gateway.send(key='"quoted"').status, 200)

    def get_head_and_options_pass_whatever_their_key(self):
        gateway, target = setup(self, match="POST,GET,HEAD,OPTIONS /v1/orders")
        target.script("/v1/orders", answer(200, {}, b"one"), answer(200, {}, b"two"),
                      does.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), answer(204))
        got = [gateway.send(key="k", method=method, body=None)
               for method in ("GET", "GET", "HEAD", "OPTIONS")]
        self.assertEqual([one.body for one in got], [b"one", b"two", b"", b""])
        self.assertEqual(got[2].headers["content-length"], "5")
        self.assertEqual([one.status for one in got], [200, 200, 200, 204])
        self.assertNotIn("idempotent-replayed", got[1].headers)

    def another_header_can_carry_the_key(self):
        gateway, target = setup(self, header="X-Request-Token")
        target.script("/v1/orders", CREATED, answer(500))
        for _ in range(2):
            self.assertEqual(gateway.send(headers={"X-Request-Token": "t"}).status, 201)
        self.assertEqual([one.headers.get("x-request-token") for one in target.seen()], ["t"])
        self.assertNotIn("idempotency-key", target.seen()[0].headers)


class Scopes(unittest.TestCase):
    def a_key_belongs_to_its_caller(self):
        gateway, target = setup(self, scope="header:authorization")
        target.script("/v1/orders", answer(201, {}, b"of a"), answer(201, {}, b"of b"))
        by = [gateway.send(key="k", headers={"Authorization": f"Bearer {who}"}).body
              for who in ("a", "b", "a", "b")]
        self.assertEqual(by, [b"of a", b"of b", b"of a", b"of b"])
        self.assertEqual(len(target.seen()), 2)

    def a_request_without_its_scope_is_a_401(self):
        gateway, target = setup(self, scope="cookie:session")
        got = gateway.send(key="k", headers={"Cookie": "other=1"})
        self.assertEqual((got.status, got.code, got.json["retry"]),
                         (401, "scope_missing", "never"))
        self.assertIn("the cookie session", got.json["detail"])
        self.assertEqual(gateway.send(key="k", headers={"Cookie": "session=s"}).status, 200)
        self.assertEqual(len(target.seen()), 1)

    def a_poll_answers_only_to_whose_it_is(self):
        gateway, target = setup(self, scope="header:authorization", in_progress="accepted")
        go = threading.Event()
        target.script("/v1/orders", does.hold(go, CREATED))
        mine = {"Authorization": "Bearer me"}
        first = gateway.begin(key="k", headers=mine)
        target.wait_for(1)
        poll = gateway.send(key="k", headers=mine).json["pollUrl"]
        def ask(headers):
            return gateway.send(poll, None, method="GET", headers=headers)
        self.assertEqual((ask(mine).status, ask(mine).json["state"]), (202, "running"))
        go.set()
        self.assertEqual(first.end().status, 201)
        self.assertEqual((ask(mine).status, ask(mine).body), (201, b'{"id": 7}'))
        self.assertEqual(replayed(ask(mine)), ("true", "true"))
        # Another caller is not told that there is such a request.
        nobody = gateway.send("/.daruma/requests/01900000-0000-7000-8000-000000000000", None,
                              method="GET")
        self.assertEqual(nobody.code, "request_unknown")
        twice = {"Authorization": "Bearer me, Bearer you"}
        for foreign in (ask({"Authorization": "Bearer you"}), ask({}), ask(twice)):
            self.assertEqual((foreign.status, foreign.body), (nobody.status, nobody.body))
            self.assertEqual({name for name, _value in foreign.pairs},
                             {name for name, _value in nobody.pairs})
        self.assertEqual(gateway.send("/.daruma/requests/x", None, method="GET").status, 404)

    def a_poll_tells_its_caller_that_a_person_has_settled_it(self):
        gateway, target = setup(self, replay="settled", scope="header:authorization", in_progress="accepted")
        target.script("/v1/orders", answer(500))
        mine = {"Authorization": "Bearer me"}
        poll = gateway.send(key="k", headers=mine).json["pollUrl"]
        task = poll.rsplit("/", 1)[1]
        self.assertEqual(gateway.post(f"/v1/tasks/{task}:settle", {"outcome": "failed"}).status, 200)
        got = gateway.send(poll, None, method="GET", headers=mine)
        self.assertEqual((got.status, got.code), (502, "failed"))
        got = gateway.send(poll, None, method="GET", headers={"Authorization": "Bearer you"})
        self.assertEqual((got.status, got.code), (404, "request_unknown"))

    def derived_keys_keep_two_callers_apart_upstream(self):
        gateway, target = setup(self, scope="header:authorization", derive=True)
        for who in ("a", "b", "a"):
            gateway.send(key="k", headers={"Authorization": who})
        keys = [one.key for one in target.seen()]
        self.assertEqual((len(keys), len(set(keys)), {len(key) for key in keys}), (2, 2, {64}))


class Fingerprints(unittest.TestCase):
    def the_same_key_with_another_request_is_a_conflict(self):  # A2.3, C6
        gateway, target = setup(self, match="POST,PUT /v1/orders")
        target.script("/v1/orders", CREATED)
        first = gateway.send(key="k")
        others = [gateway.send(key="k", body=b"{ }"), gateway.send(key="k", method="PUT"),
                  gateway.send("/v1/orders?x=1", key="k"),
                  gateway.send(key="k", headers={"Content-Type": "text/plain"})]
        for got in others:
            self.assertEqual((got.status, got.code, got.json["title"], got.json["retry"]),
                             (409, "key_conflict", "Idempotency conflict", "new_key"))
            self.assertEqual((got.headers["x-should-retry"], got.headers["stripe-should-retry"]),
                             ("false", "false"))
        again = gateway.send(key="k", headers={"X-Stainless-Retry-Count": "2"})
        self.assertEqual(lasting(again), lasting(first))
        self.assertEqual(len(target.seen()), 1)

    def a_conflict_can_be_a_422(self):
        gateway, _target = setup(self, mismatch=422)
        gateway.send(key="k")
        got = gateway.send(key="k", body=b"other")
        self.assertEqual((got.status, got.json["status"]), (422, 422))

    def a_conflict_beats_being_in_progress(self):
        gateway, target = setup(self, in_progress="accepted")
        go = threading.Event()
        target.script("/v1/orders", does.hold(go, CREATED))
        first = gateway.begin(key="k")
        target.wait_for(1)
        self.assertEqual(gateway.send(key="k", body=b"other").code, "key_conflict")
        self.assertEqual(gateway.send(key="k").status, 202)
        go.set()
        self.assertEqual(first.end().status, 201)
        self.assertEqual(gateway.send(key="k").status, 201)

    def selected_fields_or_nothing_can_make_the_fingerprint(self):
        gateway, target = setup(self, lambda to: route(to, fingerprint=["order"]),
                                lambda to: route(to, "POST /v1/any", fingerprint="off"))
        target.script("/v1/orders", CREATED)
        self.assertEqual(gateway.send(key="k", body=b'{"order": 1, "sent": 1}').status, 201)
        self.assertEqual(gateway.send(key="k", body=b'{"sent": 2, "order":1}').status, 201)
        self.assertEqual(gateway.send(key="k", body=b'{"order": 2}').status, 409)
        self.assertEqual(gateway.send("/v1/any", b"a", key="k").status, 200)
        self.assertEqual(gateway.send("/v1/any", b"b", key="k").status, 200)
        self.assertEqual(len(target.seen()), 2)


class InProgress(unittest.TestCase):
    def _begun(self, **more):
        gateway, target = setup(self, **more)
        self.go = threading.Event()
        target.script("/v1/orders", does.hold(self.go, CREATED), answer(500))
        first = gateway.begin(key="k")
        target.wait_for(1)
        return gateway, target, first

    def accepted_is_a_202_with_a_poll_url(self):  # C2.B
        gateway, target, first = self._begun(in_progress="accepted", retry_after="3s")
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.headers["retry-after"]), (202, "3"))
        self.assertEqual((got.json["status"], got.json["pollUrl"]),
                         ("processing", got.headers["location"]))
        self.assertEqual(set(got.json), {"status", "message", "pollUrl"})
        self.go.set()
        self.assertEqual(lasting(first.end()), lasting(gateway.send(key="k")))
        self.assertEqual(gateway.send(got.json["pollUrl"], None, method="GET").body, b'{"id": 7}')
        self.assertEqual(len(target.seen()), 1)

    def wait_gives_every_caller_the_same_bytes(self):  # C2.A
        gateway, target, first = self._begun(in_progress="wait")
        others = [gateway.begin(key="k") for _ in range(8)]
        self.go.set()
        answers = [one.end() for one in [first, *others]]
        self.assertEqual({repr(lasting(got)) for got in answers}, {repr(lasting(answers[0]))})
        self.assertEqual({replayed(got) for got in answers[1:]}, {("true", "true")})
        self.assertEqual(replayed(answers[0]), (None, None))
        self.assertEqual(len(target.seen()), 1)

    def wait_is_the_default_and_bounded_in_time(self):  # C2.A
        gateway, _target, first = self._begun(wait="100ms")
        began = time.monotonic()
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.code, got.json["retry"]), (409, "key_in_progress", "same_key"))
        self.assertGreaterEqual(time.monotonic() - began, 0.099)
        self.go.set()
        self.assertEqual(first.end().status, 201)

    def wait_can_end_in_a_202(self):
        gateway, _target, first = self._begun(wait="50ms", wait_then="accepted")
        self.assertEqual(gateway.send(key="k").status, 202)
        self.go.set()
        first.end()

    def wait_is_bounded_in_number(self):
        gateway, target, first = self._begun(in_progress="wait",
                                             server={"limits": {"waiters": 1}})
        ended = queue.Queue()
        for one in (gateway.begin(key="k"), gateway.begin(key="k")):
            threading.Thread(target=lambda one=one: ended.put(one.end().status)).start()
        self.assertEqual(ended.get(timeout=10), 409)  # the house has one place, and somebody is in it
        self.go.set()
        self.assertEqual((first.end().status, ended.get(timeout=10)), (201, 201))
        self.assertEqual(len(target.seen()), 1)

    def conflict_is_a_409_to_come_back_to(self):  # C2.C
        gateway, _target, first = self._begun(in_progress="conflict")
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.code, got.json["retry"], got.headers["retry-after"]),
                         (409, "key_in_progress", "same_key", "2"))
        self.assertNotIn("x-should-retry", got.headers)
        self.go.set()
        first.end()
        self.assertEqual(gateway.send(key="k").status, 201)

    def a_preference_overrides_the_way_for_the_first_one_too(self):
        gateway, target = setup(self, in_progress="conflict")
        go = threading.Event()
        target.script("/v1/orders", does.hold(go, CREATED))
        first = gateway.send(key="k", headers={"Prefer": "respond-async"})
        self.assertEqual((first.status, first.headers["preference-applied"]),
                         (202, "respond-async"))
        again = gateway.send(key="k", headers={"Prefer": "respond-async, wait=0"})
        self.assertEqual((again.status, again.headers["preference-applied"]),
                         (202, "respond-async, wait=0"))
        waiting = gateway.begin(key="k", headers={"Prefer": "wait=9"})
        target.wait_for(1)
        go.set()
        got = waiting.end()
        self.assertEqual((got.status, got.headers["preference-applied"]), (201, "wait=9"))
        self.assertNotIn("prefer", target.seen()[0].headers)

    def the_first_caller_can_bound_his_own_wait(self):
        gateway, target = setup(self)
        go = threading.Event()
        target.script("/v1/orders", does.hold(go, CREATED))
        got = gateway.send(key="k", headers={"Prefer": "wait=0"})
        self.assertEqual((got.status, got.code), (409, "key_in_progress"))
        got = gateway.send(key="k", headers={"Prefer": "wait=0, respond-async"})
        self.assertEqual(got.status, 202)
        go.set()
        poll = got.json["pollUrl"]
        deadline = time.monotonic() + 10
        while gateway.send(poll, None, method="GET").status == 202:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(gateway.send(poll, None, method="GET").status, 201)

    def a_client_that_leaves_cancels_nothing(self):  # C4
        gateway, target, first = self._begun()
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "gone"})
        target.wait_for(2)  # 500 by script: kept
        connection.close()
        self.go.set()
        first.end()
        deadline = time.monotonic() + 10
        while gateway.send(key="gone", headers={"Content-Type": ""}).status == 409:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(len(target.seen()), 2)


class Replays(unittest.TestCase):
    def the_first_answer_is_replayed_byte_for_byte(self):  # A2.1, A2.2, C1
        gateway, target = setup(self)
        body = bytes(range(256)) * 50
        target.script("/v1/orders", answer(200, {"Content-Type": "application/octet-stream",
                                                 "Content-Encoding": "gzip", "ETag": '"1"'}, body))
        first = gateway.send(key="k")
        self.assertEqual((first.body, replayed(first)), (body, (None, None)))
        for _ in range(3):
            again = gateway.send(key="k")
            self.assertEqual(lasting(again), lasting(first))
            self.assertEqual(replayed(again), ("true", "true"))
        self.assertEqual(len(target.seen()), 1)

    def an_answer_survives_a_restart(self):
        gateway, target = setup(self)
        target.script("/v1/orders", CREATED)
        first = gateway.send(key="k")
        gateway.restart()
        self.assertEqual(lasting(gateway.send(key="k")), lasting(first))
        self.assertEqual(len(target.seen()), 1)

    def what_is_true_of_one_moment_is_not_kept(self):
        gateway, target = setup(self)
        target.script("/v1/orders", does.raw(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=1\r\nLink: <a>\r\nLink: <b>\r\n"
            b"Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nX-RateLimit-Left: 3\r\nServer: u\r\n"
            b"X-Request-Id: 7\r\nWWW-Authenticate: Basic\r\nAlt-Svc: h3\r\nAge: 3\r\n"
            b"X-Kept: yes\r\n\r\nok"))
        first, again = gateway.send(key="k"), gateway.send(key="k")
        self.assertEqual(lasting(first), lasting(again))
        names = [name.lower() for name, _value in again.pairs]
        self.assertEqual([name for name in names if name not in ("date", *REPLAYED)],
                         ["link", "link", "x-kept", "content-length"])
        self.assertEqual([value for name, value in again.pairs if name == "Link"], ["<a>", "<b>"])

    def an_allow_list_can_stand_for_the_deny_list(self):
        gateway, target = setup(self, replay_headers=["set-cookie", "X-A"])
        target.script("/v1/orders", answer(200, {"Set-Cookie": "a=1", "X-A": "1", "X-B": "2",
                                                 "Content-Type": "a/b"}))
        got = gateway.send(key="k")
        self.assertEqual((got.headers["set-cookie"], got.headers["x-a"], got.headers["content-type"]),
                         ("a=1", "1", "a/b"))
        self.assertNotIn("x-b", got.headers)

    def the_upstream_sees_the_caller_s_request(self):
        gateway, target = setup(self)
        gateway.send("/v1/orders?a=%2F1", b"\x00\xff", key="k", headers={
            "Authorization": "Bearer x", "Accept-Encoding": "gzip", "X-Own": "1",
            "Connection": "X-Own", "X-Daruma-Task": "forged", "X-Two": "2"})
        seen = target.seen()[0]
        self.assertEqual((seen.path, seen.body, seen.key), ("/v1/orders?a=%2F1", b"\x00\xff", "k"))
        self.assertEqual((seen.headers["authorization"], seen.headers["x-two"], seen.attempt),
                         ("Bearer x", "2", 1))
        for name in ("accept-encoding", "x-own"):
            self.assertNotIn(name, seen.headers)
        self.assertNotEqual(seen.task, "forged")
        self.assertRegex(seen.headers["traceparent"], "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")
        given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        gateway.send(key="l", headers={"traceparent": given})
        self.assertEqual(target.seen()[1].headers["traceparent"], given)

    def the_upstream_is_told_where_it_came_from_and_the_fingerprint_is_not(self):
        gateway, target = setup(self)
        target.script("/v1/orders", CREATED)
        gateway.send(key="k", headers={"Host": "shop.example"})
        seen = target.seen()[0].headers
        self.assertEqual((seen["x-forwarded-for"], seen["x-forwarded-proto"],
                          seen["x-forwarded-host"]), ("127.0.0.1", "http", "shop.example"))
        self.assertNotIn("user-agent", seen)  # the caller has not said who he is
        again = gateway.send(key="k", headers={"X-Forwarded-For": "9.9.9.9", "Host": "other",
                                               "X-Forwarded-Proto": "https"})
        self.assertEqual((again.status, replayed(again)), (201, ("true", "true")))
        gateway.send(key="l", headers={"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https",
                                       "X-Forwarded-Host": "outer", "User-Agent": "mine"})
        seen = target.seen()[1].headers
        self.assertEqual((seen["x-forwarded-for"], seen["x-forwarded-proto"],
                          seen["x-forwarded-host"], seen["user-agent"]),
                         ("9.9.9.9, 127.0.0.1", "https", "outer", "mine"))

    def an_expired_key_can_be_a_first_one_again(self):  # A2.4
        gateway, target = setup(self, keep="200ms", expired="rerun")
        target.script("/v1/orders", answer(200, {}, b"one"), answer(200, {}, b"two"))
        self.assertEqual([gateway.send(key="k").body for _ in range(2)], [b"one", b"one"])
        time.sleep(0.25)  # the keeping time itself
        self.assertEqual([gateway.send(key="k").body for _ in range(2)], [b"two", b"two"])
        self.assertEqual(gateway.send(key="k", body=b"other").code, "key_conflict")


class Forgetting(unittest.TestCase):
    def an_expired_key_is_gone_and_never_runs_again(self):
        gateway, target = setup(self, keep="200ms")
        target.script("/v1/orders", CREATED)
        poll = gateway.send(key="k", headers={"Prefer": "respond-async"}).json["pollUrl"]
        deadline = time.monotonic() + 10
        while gateway.send(poll, None, method="GET").status == 202:
            self.assertLess(time.monotonic(), deadline)
        time.sleep(0.25)  # the keeping time itself
        def look():
            got = gateway.send(key="k")
            self.assertEqual((got.status, got.code, got.json["retry"]),
                             (410, "result_expired", "new_key"))
            self.assertEqual(gateway.send(key="k", body=b"other").code, "key_conflict")
        look()
        gateway.restart()  # the janitor begins with what is past its time
        identity = poll.rsplit("/", 1)[1]
        while gateway.get(f"/v1/tasks/{identity}").status != 410:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        look()
        self.assertEqual(gateway.send(poll, None, method="GET").status, 410)
        self.assertEqual(len(target.seen()), 1)

    def a_tombstone_has_its_time_too(self):
        gateway, target = setup(self, keep="100ms", server={"keep": {"tombstones": "1s"}})
        gateway.send(key="k")
        time.sleep(0.2)
        self.assertEqual(gateway.send(key="k").status, 410)
        time.sleep(1)
        self.assertEqual(gateway.send(key="k").status, 200)
        self.assertEqual(len(target.seen()), 2)

    def keys_can_be_looked_up_and_forgotten(self):  # C5
        gateway, target = setup(self, scope="header:authorization")
        target.script("/v1/orders", CREATED)
        for who in ("a", "b"):
            gateway.send(key="k", headers={"Authorization": who})
        gateway.send(key="l", headers={"Authorization": "a"})
        name = "POST-v1-orders"
        found = gateway.get(f"/v1/keys?route={name}&key=k").json["keys"]
        self.assertEqual([one["key"] for one in found], ["k", "k"])
        first = found[0]
        self.assertEqual((first["state"], first["response_status"], first["content_type"],
                          first["is_bound"], len(first["request_hash"]), len(first["scope"])),
                         ("succeeded", 201, "application/json", True, 64, 32))
        self.assertIsNotNone(first["completed_at"])
        only = gateway.get(f"/v1/keys?route={name}&key=k&scope={first['scope']}").json["keys"]
        self.assertEqual([one["task"] for one in only], [first["task"]])
        self.assertEqual(len(gateway.get(f"/v1/keys?route={name}").json["keys"]), 3)
        quoted = gateway.get(f"/v1/keys?route={name}&key=%22k%22").json["keys"]
        self.assertEqual([one["task"] for one in quoted], [one["task"] for one in found])
        self.assertEqual(gateway.get("/v1/keys?route=nobody").status, 404)
        self.assertEqual(gateway.get("/v1/keys").status, 400)
        gone = gateway.post(f"/v1/keys/{first['task']}:forget")
        self.assertEqual(gone.status, 204)
        self.assertEqual(gateway.post(f"/v1/keys/{first['task']}:forget").status, 404)
        before = len(target.seen())
        gateway.send(key="k", headers={"Authorization": "a"})
        self.assertEqual(len(target.seen()), before + 1)
        acts = gateway.get("/v1/audit?act=forget").json["audit"]
        self.assertEqual([act["task"] for act in acts], [first["task"]])

    def a_purged_route_knows_none_of_its_keys(self):
        gateway, target = setup(self)
        target.script("/v1/orders", answer(200, {}, b"one"), answer(200, {}, b"two"))
        self.assertEqual([gateway.send(key="k").body for _ in range(3)], [b"one"] * 3)
        self.assertEqual(gateway.post("/v1/queues/_route.POST-v1-orders:purge").status, 200)
        self.assertEqual([gateway.send(key="k").body for _ in range(3)], [b"two"] * 3)
        self.assertEqual(len(target.seen()), 2)

    def what_has_not_ended_cannot_be_forgotten(self):
        gateway, target = setup(self)
        go = threading.Event()
        target.script("/v1/orders", does.hold(go, CREATED))
        first = gateway.begin(key="k")
        target.wait_for(1)
        task = gateway.get("/v1/keys?route=POST-v1-orders").json["keys"][0]["task"]
        self.assertEqual(gateway.post(f"/v1/keys/{task}:forget").code, "not_ended")
        go.set()
        self.assertEqual(first.end().status, 201)

    def a_person_settles_what_is_in_doubt(self):
        gateway, target = setup(self, replay="settled")
        target.script("/v1/orders", answer(500), answer(500), answer(500), CREATED)
        said = {}
        for key, outcome in (("a", {"outcome": "succeeded", "response": {
                "status": 201, "headers": {"X-A": "1"}, "body": "by hand"}}),
                             ("b", {"outcome": "failed"}), ("c", {"outcome": "not_done"})):
            self.assertEqual(gateway.send(key=key).code, "outcome_unknown")
            task = gateway.get(f"/v1/keys?route=POST-v1-orders&key={key}").json["keys"][0]["task"]
            got = gateway.post(f"/v1/tasks/{task}:settle", outcome)
            self.assertEqual(got.status, 200, got)
            deadline = time.monotonic() + 10
            while (said := gateway.send(key=key)).code == "key_in_progress":
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            if key == "a":
                self.assertEqual((said.status, said.body, said.headers["x-a"], replayed(said)),
                                 (201, b"by hand", "1", ("true", "true")))
            elif key == "b":
                self.assertEqual((said.status, said.code, said.json["retry"]),
                                 (502, "failed", "new_key"))
                gateway.wait_line("task_failed", task=task)
                self.assertIn("callers are told", gateway.get(f"/v1/dead-letters/{task}").body.decode())
                got = gateway.post(f"/v1/dead-letters/{task}:redrive")
                self.assertEqual(got.code, "not_dead")
                self.assertIn("callers are told", got.json["detail"])
                _status, _said, why = run("dead", "redrive", task,
                                         DARUMA_URL=f"http://127.0.0.1:{gateway.port}")
                self.assertIn("with a new key", why)
                self.assertNotIn("dead show", why)
            else:
                self.assertEqual(said.body, b'{"id": 7}')
        self.assertEqual(len(target.seen()), 4)
        self.assertEqual([line for line in gateway.lines
                          if line.event == "task_failed_permanently"], [])


class Outcomes(unittest.TestCase):
    def all_keeps_the_first_result_whatever_it_is(self):  # C3.1
        for status in (400, 401, 404, 408, 410, 429, 500, 503, 504):
            with self.subTest(status=status):
                gateway, target = setup(self)
                target.script("/v1/orders", answer(status, {"Retry-After": "1"}, b"no"), CREATED)
                got = [gateway.send(key=f"k-{status}") for _ in range(2)]
                self.assertEqual([lasting(one) for one in got], [lasting(got[0])] * 2)
                self.assertEqual((got[0].status, len(target.seen())), (status, 1))
                gateway.finish()

    def settled_keeps_success_and_4xx(self):  # C3.2
        gateway, target = setup(self, replay="settled")
        for key, status in (("a", 200), ("b", 303), ("c", 404), ("d", 422)):
            target._scripts["/v1/orders"] = [answer(status, {}, b"said")]
            got = [gateway.send(key=key) for _ in range(2)]
            self.assertEqual([one.status for one in got], [status, status])
        self.assertEqual(len(target.seen()), 4)
        letters = gateway.get("/v1/queues/_route.POST-v1-orders").json["counts"]
        self.assertEqual((letters["succeeded"], letters["failed"]), (2, 2))

    def settled_leaves_a_5xx_in_doubt(self):  # C3.2
        gateway, target = setup(self, replay="settled")
        target.script("/v1/orders", answer(500, {}, b"oops"), CREATED)
        for _ in range(3):
            got = gateway.send(key="k")
            self.assertEqual((got.status, got.code, got.json["retry"]),
                             (409, "outcome_unknown", "same_key"))
            self.assertNotIn(b"oops", got.body)
            self.assertIn("retry-after", got.headers)
        self.assertEqual(len(target.seen()), 1)

    def doubt_is_a_202_for_none_but_those_who_ask(self):  # clients take it for the created object
        ways = ({}, {"in_progress": "wait"}, {"in_progress": "conflict"},
                {"wait_then": "accepted"}, {"in_progress": "accepted"})
        for more, status in zip(ways, (409, 409, 409, 202, 202)):
            with self.subTest(**more):
                gateway, target = setup(self, replay="settled", **more)
                target.script("/v1/orders", answer(502))
                got = [gateway.send(key="k") for _ in range(2)]
                self.assertEqual([(one.status, one.code) for one in got], [(status, "outcome_unknown")] * 2)
                asked = gateway.send(key="k", headers={"Prefer": "respond-async"})
                self.assertEqual((asked.status, asked.code), (202, "outcome_unknown"))
                gateway.finish()

    def nobody_waits_for_what_is_held(self):
        gateway, target = setup(self, replay="settled", in_progress="wait", wait="30s")
        target.script("/v1/orders", answer(500))
        began = time.monotonic()
        self.assertEqual([gateway.send(key="k").status for _ in range(2)], [409, 409])
        self.assertLess(time.monotonic() - began, 10)

    def a_refusal_frees_the_key(self):
        gateway, target = setup(self, replay="settled")
        for status, more in ((401, {}), (403, {}), (407, {}), (408, {}), (425, {}), (429, {}),
                             (503, {"Retry-After": "1"})):
            target._scripts["/v1/orders"] = [answer(status, {"X-Say": "no", **more}, b"no")]
            got = gateway.send(key="k")
            self.assertEqual((got.status, got.headers["x-say"], got.body), (status, "no", b"no"))
            self.assertEqual(replayed(got), (None, None))
        target._scripts["/v1/orders"] = [CREATED]
        self.assertEqual([gateway.send(key="k").status for _ in range(2)], [201, 201])
        self.assertEqual(len(target.seen()), 8)

    def success_frees_the_key_after_any_4xx(self):
        gateway, target = setup(self, replay="success")
        target.script("/v1/orders", answer(400), answer(422), CREATED, answer(500))
        self.assertEqual([gateway.send(key="k").status for _ in range(4)], [400, 422, 201, 201])
        self.assertEqual(len(target.seen()), 3)

    def release_is_the_route_s_own_list(self):
        gateway, target = setup(self, release=[404])
        target.script("/v1/orders", answer(404), answer(429), answer(200))
        self.assertEqual([gateway.send(key="k").status for _ in range(3)], [404, 429, 429])

    def waiters_of_a_released_key_get_that_answer_and_nobody_is_promoted(self):
        gateway, target = setup(self, replay="settled", in_progress="wait")
        go = threading.Event()
        refusal = answer(429, {"Retry-After": "7", "Set-Cookie": "mine=1"}, b"slow down")
        target.script("/v1/orders", does.hold(go, refusal), CREATED)
        first = gateway.begin(key="k")
        target.wait_for(1)
        others = [gateway.begin(key="k") for _ in range(5)]
        self._until_waiting(gateway, 5)
        go.set()
        answers = [one.end() for one in [first, *others]]
        self.assertEqual({(got.status, got.body, got.headers["retry-after"]) for got in answers},
                         {(429, b"slow down", "7")})
        self.assertIn("set-cookie", answers[0].headers)
        self.assertFalse(any("set-cookie" in got.headers for got in answers[1:]))
        self.assertEqual(len(target.seen()), 1)
        self.assertEqual(gateway.send(key="k").status, 201)

    def _until_waiting(self, gateway, count):
        """Until that many duplicates have been seen by the engine."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            said = gateway.get("/metrics").body.decode()
            line = [one for one in said.splitlines()
                    if one.startswith("daruma_gateway_waiting ")]
            if line and int(float(line[0].split()[1])) >= count:
                return
            time.sleep(0.01)
        raise AssertionError("nobody waits")

    def a_final_4xx_is_failed_but_no_dead_letter(self):
        gateway, target = setup(self)
        target.script("/v1/orders", answer(404))
        gateway.send(key="k")
        tasks = gateway.get("/v1/queues/_route.POST-v1-orders/tasks").json["tasks"]
        self.assertEqual([task["state"] for task in tasks], ["failed"])
        task = gateway.task(tasks[0]["id"])
        self.assertEqual((task["attempts"], task["response"]["status"], task["key"]), (1, 404, "k"))
        self.assertFalse(any(line.event == "task_failed_permanently" for line in gateway.lines))


    def a_request_whose_outcome_is_unknown_is_logged_once(self):
        gateway, target = setup(self, ambiguous="probe", probe={
            "request": "GET /by-key/{key}", "every": "20ms", "misses": 3, "settle_after": "60ms"})
        target.script("/v1/orders", does.read_then_reset)
        target.script("/by-key/k", answer(500), answer(404), answer(404), answer(500),
                      answer(200, {}, b"done"))
        gateway.send(key="k")
        task = gateway.get("/v1/keys?route=POST-v1-orders").json["keys"][0]["task"]
        line = gateway.wait_line("task_unsettled", task=task, queue="_route.POST-v1-orders")
        self.assertIn("level=warn", line.text)
        self.assertIn("closed before the answer", line.text)
        while gateway.task(task)["state"] == "unsettled":
            time.sleep(0.01)
        self.assertEqual(len([one for one in gateway.lines if one.event == "task_unsettled"]), 1)


class HowFar(unittest.TestCase):
    def _ends_in_doubt(self, act, key="k", **more):
        gateway, target = setup(self, timeout="300ms", **more)
        target.script("/v1/orders", act, CREATED)
        got = [gateway.send(key=key) for _ in range(2)]
        self.assertEqual([(one.status, one.code) for one in got], [(409, "outcome_unknown")] * 2)
        self.assertEqual(len(target.seen()), 1)
        gateway.finish()

    def read_then_reset_is_in_doubt(self):  # C4
        self._ends_in_doubt(does.read_then_reset)

    def a_timeout_is_in_doubt(self):  # C4
        self._ends_in_doubt(does.silence)

    def half_an_answer_is_in_doubt_never_a_success(self):
        self._ends_in_doubt(does.truncated(), "a")
        self._ends_in_doubt(does.cut_answer(b"HTTP/1.1 200 OK\r\nContent-Le"), "b")
        self._ends_in_doubt(does.cut_answer(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), "c")

    def a_reset_before_reading_is_in_doubt_too(self):  # its bytes may have been read
        gateway, target = setup(self)
        target.cut_connections(1)
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.code), (409, "outcome_unknown"))

    def what_cannot_be_sent_is_tried_and_then_released(self):  # C4
        target = Target(is_up=False)
        gateway = Gateway(self, [route(target)]).start()
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.code, got.json["retry"]), (502, "not_sent", "same_key"))
        self.assertEqual(got.json["detail"], "The upstream could not be reached")
        task = gateway.get("/v1/queues/_route.POST-v1-orders/tasks").json["tasks"][0]
        self.assertIn("refused", gateway.task(task["id"])["trail"][-1]["message"])
        self.assertEqual((task["state"], task["attempts"]), ("failed", 3))
        self.assertEqual([row["sent"] for row in gateway.task(task["id"])["trail"]], ["no"] * 3)
        self.assertEqual(gateway.send(key="k").code, "not_sent")  # a first one again
        listed = gateway.get("/v1/queues/_route.POST-v1-orders/tasks").json["tasks"]
        self.assertEqual(len(listed), 2)

    def a_target_that_comes_back_in_time_gets_it_once(self):
        target = Target(is_up=False)
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target, policy={
            "max_attempts": 50, "transient": {"backoff": "fixed", "base": "50ms"}})]).start()
        first = gateway.begin(key="k")
        time.sleep(0.1)
        target.script("/v1/orders", CREATED)
        target.begin()
        self.assertEqual(first.end().status, 201)
        self.assertEqual(len(target.seen()), 1)

    def not_sent_release_frees_the_key_at_once(self):
        target = Target(is_up=False)
        gateway = Gateway(self, [route(target, not_sent="release")]).start()
        self.assertEqual(gateway.send(key="k").code, "not_sent")
        task = gateway.get("/v1/queues/_route.POST-v1-orders/tasks").json["tasks"][0]
        self.assertEqual(task["attempts"], 1)

    def a_certain_failure_can_be_kept(self):  # C3.2
        target = Target(is_up=False)
        gateway = Gateway(self, [route(target, not_sent="fail")]).start()
        got = [gateway.send(key="k") for _ in range(2)]
        self.assertEqual([(one.status, one.code, one.json["retry"]) for one in got],
                         [(502, "not_sent", "new_key")] * 2)
        self.assertEqual(lasting(got[0]), lasting(got[1]))
        self.assertEqual(replayed(got[1]), ("true", "true"))

    def a_repeatable_upstream_gets_it_again(self):
        gateway, target = setup(self, replay="settled", ambiguous="retry")
        target.script("/v1/orders", does.read_then_reset, answer(500), CREATED)
        self.assertEqual(gateway.send(key="k").status, 201)
        self.assertEqual([one.key for one in target.seen()], ["k"] * 3)
        self.assertEqual([one.attempt for one in target.seen()], [1, 2, 3])

    def a_repeatable_upstream_that_keeps_failing_leaves_doubt(self):
        gateway, target = setup(self, replay="settled", repeatable=True)
        target.script("/v1/orders", answer(500))
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.code), (409, "outcome_unknown"))
        self.assertEqual(len(target.seen()), 3)

    def a_certificate_or_a_name_that_fails_is_not_sent(self):
        gateway = Gateway(self, [{"match": "POST /a", "upstream": "http://nowhere.invalid",
                                  "scope": "global", "policy": "quick"}]).start()
        self.assertEqual(gateway.send("/a", key="k").code, "not_sent")


class Probes(unittest.TestCase):
    PROBE = {"request": "GET /by-key/{key}?task={id}", "every": "50ms", "misses": 3,
             "settle_after": "150ms"}

    def _set_up(self, **more):
        probe = {**self.PROBE, **more.pop("probe", {})}
        gateway, target = setup(self, replay="settled", ambiguous="probe", probe=probe, **more)
        self.paths = []
        return gateway, target

    def _script(self, target, *acts):
        """What the upstream says of the key, in turn; the last one goes on."""
        acts = list(acts)
        def choose(request):
            if request.path.startswith("/by-key/"):
                self.paths.append(request.path)
                return acts.pop(0) if len(acts) > 1 else acts[0]
            return answer(404)
        target._choose = choose

    def a_key_that_would_lead_the_probe_elsewhere_is_a_400(self):
        gateway, target = self._set_up(in_progress="wait")
        for key in (".", "..", "../orders"):
            got = gateway.send(key=key)
            self.assertEqual((got.status, got.code), (400, "key_invalid"), key)
            self.assertIn("dot segment", got.body.decode())
        self.assertEqual(target.seen(), [])

    def what_the_probe_finds_is_the_answer(self):
        gateway, target = self._set_up(in_progress="wait", probe={"status": 201, "field": "order"})
        target.script("/v1/orders", does.read_then_reset)
        self._script(target, answer(404), answer(503), answer(
            200, {"Content-Type": "application/json"}, b'{"order": {"id": 7.10}, "x": 1}'))
        got = gateway.send(key="a/b", headers={"Authorization": "Bearer x"})
        self.assertEqual((got.status, got.body), (201, b'{"id": 7.10}'))
        self.assertEqual(lasting(gateway.send(key="a/b")), lasting(got))
        self.assertEqual(len(target.seen("/v1/orders")), 1)
        self.assertTrue(self.paths[0].startswith("/by-key/a%2Fb?task=0"))
        asked = target.seen()[-1]
        self.assertEqual((asked.method, asked.headers["authorization"], asked.body),
                         ("GET", "Bearer x", b""))
        self.assertNotIn("content-type", asked.headers)

    def _paid_once(self, kept_as, keys, **more):
        """An upstream that takes the first request of a key and breaks the connection, and knows the
        key as `kept_as` makes it of the header."""
        gateway, target = self._set_up(in_progress="wait", probe={"status": 201},
                                       server={"store": "memory"}, **more)
        paid = []
        header = more.get("header", "Idempotency-Key").lower()
        def choose(request):
            if request.path.startswith("/by-key/"):
                key = urllib.parse.unquote(request.path.split("?")[0][len("/by-key/"):])
                return answer(200, {}, b"paid") if key in paid else answer(404)
            paid.append(kept_as(request.headers[header]))
            return does.read_then_reset
        target._choose = choose
        got = [gateway.send(headers={header: key}) for key in keys]
        self.assertEqual([(one.status, one.body) for one in got], [(201, b"paid")] * len(keys))
        self.assertEqual(len(paid), 1)
        return paid[0]

    def the_probe_asks_for_the_key_that_the_upstream_got(self):
        def as_it_came(value):
            return value
        def as_a_string(value):
            return value[1:-1] if value.startswith('"') else value
        for kept_as in (as_it_came, as_a_string):
            self.assertEqual(self._paid_once(kept_as, ['"k-1"', "k-1", '"k-1";a=1']), "k-1")
            self.assertEqual(self._paid_once(kept_as, ["k-1", '"k-1"'], header="X-Once"), "k-1")
            self._paid_once(kept_as, ['"k-1"', '"k-1";a=1'], strict=True)
            self._paid_once(kept_as, ['"a,b"'])
            self._paid_once(kept_as, ['"k-1"', "k-1"], derive=True)

    def a_key_in_quotes_is_missed_in_both_spellings_before_it_is_free(self):
        gateway, target = self._set_up(in_progress="wait", strict=True,
                                       probe={"misses": 1, "settle_after": "100ms"})
        target.script("/v1/orders", does.read_then_reset, CREATED)
        self._script(target, answer(404))
        self.assertEqual(gateway.send(key='"k"').code, "not_done")
        asked = [path.split("?")[0] for path in self.paths]
        self.assertEqual((set(asked), asked[0], asked[-1]),
                         ({"/by-key/%22k%22", "/by-key/k"}, "/by-key/%22k%22", "/by-key/k"))

    def misses_that_agree_over_time_free_the_key(self):
        gateway, target = self._set_up(in_progress="wait")
        target.script("/v1/orders", does.read_then_reset, CREATED)
        self._script(target, answer(404))
        began = time.monotonic()
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.code, got.json["retry"]), (502, "not_done", "same_key"))
        self.assertGreaterEqual(time.monotonic() - began, 0.149)
        self.assertGreaterEqual(len(self.paths), 3)
        self.assertEqual(gateway.send(key="k").status, 201)

    def on_missing_send_sends_it_again_itself(self):
        gateway, target = self._set_up(in_progress="wait", probe={"on_missing": "send"})
        target.script("/v1/orders", does.read_then_reset, CREATED)
        self._script(target, answer(404))
        self.assertEqual(gateway.send(key="k").status, 201)
        self.assertEqual([one.attempt for one in target.seen("/v1/orders")], [1, 2])

    def a_probe_s_answer_that_is_too_long_to_keep_says_nothing(self):
        gateway, target = self._set_up(in_progress="wait")
        target.script("/v1/orders", does.read_then_reset)
        self._script(target, answer(200, {}, b"x" * (2 << 20)), answer(200, {}, b"it happened"))
        self.assertEqual(gateway.send(key="k").body, b"it happened")

    def a_probe_that_cannot_say_is_asked_again_for_ever(self):
        gateway, target = self._set_up(in_progress="accepted")
        target.script("/v1/orders", does.read_then_reset)
        self._script(target, answer(500))
        self.assertEqual(gateway.send(key="k").code, "outcome_unknown")
        deadline = time.monotonic() + 20
        while len(self.paths) < 8:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertEqual(gateway.send(key="k").code, "outcome_unknown")

    def accepted_callers_poll_until_the_probe_has_found_out(self):  # C3.2
        gateway, target = self._set_up(in_progress="accepted")
        target.script("/v1/orders", answer(500))
        self._script(target, answer(200, {}, b"it happened"))
        got = gateway.send(key="k")
        self.assertEqual((got.status, got.code), (202, "outcome_unknown"))
        deadline = time.monotonic() + 20
        while gateway.send(got.json["pollUrl"], None, method="GET").status == 202:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertEqual(gateway.send(key="k").body, b"it happened")

    def a_crash_neither_forgets_nor_doubles_a_miss(self):
        gateway, target = self._set_up(in_progress="wait",
                                       probe={"misses": 2, "settle_after": "0s", "every": "1s"})
        target.script("/v1/orders", does.read_then_reset, CREATED)
        self._script(target, answer(404))
        gateway.begin(key="k", headers={"Prefer": "wait=0"}).end()
        deadline = time.monotonic() + 20
        while len(self.paths) < 1:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        time.sleep(0.2)  # for the miss to be written down
        gateway.restart()
        got = gateway.send(key="k")
        self.assertEqual(got.code, "not_done")
        self.assertEqual(len(self.paths), 2)


class Framing(unittest.TestCase):
    def _twice(self, key, act, status, body):
        gateway, target = setup(self)
        target.script("/v1/orders", act, answer(500))
        got = [gateway.send(key=key) for _ in range(2)]
        self.assertEqual([(one.status, one.body) for one in got], [(status, body)] * 2)
        self.assertEqual(lasting(got[0]), lasting(got[1]))
        self.assertEqual(len(target.seen()), 1)
        gateway.finish()

    def answers_of_every_frame_are_kept(self):
        self._twice("a", does.raw(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"), 204, b"")
        self._twice("b", does.raw(b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n"), 304, b"")
        self._twice("c", does.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
                                  b"3\r\none\r\n3\r\ntwo\r\n0\r\nX-T: 1\r\n\r\n"), 200, b"onetwo")
        self._twice("d", does.raw(b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
                                  b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
                                  b"Content-Length: 2\r\n\r\nok"), 200, b"ok")
        self._twice("e", does.raw(b"HTTP/1.0 200 OK\r\n\r\nuntil it closes", keeps=False), 200,
                    b"until it closes")
        self._twice("f", answer(200, {}, b""), 200, b"")

    def an_answer_that_only_ends_can_be_doubted(self):
        gateway, target = setup(self, unframed="doubt")
        target.script("/v1/orders", does.raw(b"HTTP/1.0 200 OK\r\n\r\nhalf?", keeps=False))
        self.assertEqual(gateway.send(key="k").code, "outcome_unknown")

    def an_answer_that_only_ends_is_marked(self):
        gateway, target = setup(self)
        target.script("/v1/orders", does.raw(b"HTTP/1.0 200 OK\r\n\r\nwhole?", keeps=False))
        self.assertEqual(gateway.send(key="k").body, b"whole?")
        kept = gateway.task(target.seen()[0].task)["response"]
        self.assertEqual((kept["body"], kept["unframed"]), ("whole?", True))
        self.assertNotIn("omitted", kept)

    def a_body_over_the_limit_is_refused_before_anything_is_claimed(self):
        gateway, target = setup(self, server={"limits": {"body": "1KiB"}})
        got = gateway.send(key="k", body=b"x" * 1025)
        self.assertEqual((got.status, got.code, got.json["retry"]), (413, "too_large", "never"))
        self.assertEqual(gateway.send(key="k", body=b"x" * 1024).status, 200)
        self.assertEqual(len(target.seen()), 1)

    def continue_is_said_only_after_the_headers_are_good(self):
        gateway, target = setup(self)
        def expect(key):
            connection = gateway.caller()
            connection.putrequest("POST", "/v1/orders")
            for name, value in (("Expect", "100-continue"), ("Content-Length", "2"), *key):
                connection.putheader(name, value)
            connection.endheaders()
            return connection
        refused = expect([])
        self.assertEqual(refused.getresponse().status, 400)
        taken = expect([("Idempotency-Key", "k")])
        self.assertEqual(taken.sock.recv(25), b"HTTP/1.1 100 Continue\r\n\r\n")
        taken.send(b"{}")
        self.assertEqual(taken.getresponse().status, 200)
        self.assertEqual(len(target.seen()), 1)

    def pipelined_requests_with_one_key_are_one(self):
        gateway, target = setup(self, in_progress="wait")
        connection = gateway.caller()
        connection.connect()
        one = (b"POST /v1/orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n"
               b"Content-Length: 2\r\n\r\n{}")
        connection.sock.sendall(one * 5)
        said = b""
        while said.count(b"HTTP/1.1 200 OK") < 5:
            piece = connection.sock.recv(65536)
            self.assertTrue(piece, said)
            said += piece
        self.assertEqual(len(target.seen()), 1)


class Paths(unittest.TestCase):
    def what_matches_no_route_is_404(self):
        gateway, target = setup(self)
        for path, method in (("/v1/other", "POST"), ("/v1/orders", "DELETE"), ("/", "GET")):
            got = gateway.send(path, key="k", method=method)
            self.assertEqual((got.status, got.code), (404, "not_found"))
        self.assertEqual(target.seen(), [])

    def with_pass_it_goes_through_untouched(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target)], **{"pass": target.url("/base")}).start()
        target.script("/base/v1/other?x=%2F", answer(418, {"Set-Cookie": "a=1", "X-A": "1"}, b"tea"))
        got = gateway.send("/v1/other?x=%2F", b"hello", key="k", method="PUT",
                           headers={"Accept-Encoding": "gzip"})
        self.assertEqual((got.status, got.body, got.headers["set-cookie"]), (418, b"tea", "a=1"))
        seen = target.seen()[0]
        self.assertEqual((seen.method, seen.body, seen.key, seen.headers["accept-encoding"]),
                         ("PUT", b"hello", "k", "gzip"))
        self.assertEqual(gateway.send("/v1/orders").code, "key_missing")

    def what_passes_is_never_sent_twice(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [], **{"pass": target.url("")}).start()
        target.script("/a", answer(200), does.read_then_close)
        connection = gateway.caller()
        self.assertEqual(gateway.send("/a", connection=connection).status, 200)
        got = gateway.send("/a", connection=connection)
        self.assertEqual((got.status, got.code, got.json["retry"]),
                         (502, "upstream_failed", "never"))
        self.assertEqual(len(target.seen()), 2)

    def nothing_slips_past_a_keyed_route(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target)], **{"pass": target.url("")}).start()
        for path in ("/v1/%6frders", "/v1//orders", "//v1/orders", "/v1/./orders", "/x/../v1/orders",
                     "/v1%2Forders", "/v1/orders/", "/v1/orders/.", "/v1/%2e/orders", "/v1\\orders"):
            got = gateway.send(path)
            self.assertEqual((got.status, got.code), (400, "path_invalid"), path)
        self.assertEqual(target.seen(), [])

    def what_an_upstream_may_take_for_a_route_is_not_passed_on(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target)], **{"pass": target.url("")}).start()
        for path in ("/V1/orders", "/v1/Orders", "/v1/orders;x=1", "/v1;a/orders",
                     "/v1/x/..;/orders", "/.;/v1/orders", "/v1/;x/orders", "/v1/orders.json",
                     "/v1/orders.", "/v1/orders%20", "/v1/orders%3B", "/v1/orders%3Fx",
                     "/v1/orders::$DATA", "/v1/orders.json.json", "/v1.json/orders",
                     "/v1/orders.abcdefghi", "/v1/orders%3Fa/b", "/v1/orders/%23x", "/v1/%3Bx/orders", "/v1/x/..%3Ba/orders",
                     "/v1/orders/%20", "/v1/%C2%A0orders", "/v1/order%C5%BF", "/v1/%256frders", "/v1/%252e%252e/v1/orders"):
            got = gateway.send(path)
            self.assertEqual((got.status, got.code), (400, "path_invalid"), path)
        for method in ("post", "Post"):
            got = gateway.send("/v1/orders", method=method)
            self.assertEqual((got.status, got.code), (405, "method_not_allowed"), method)
        for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "x-method-override",
                     "X_HTTP_Method_Override", "X-Http-Methodoverride"):
            got = gateway.send("/v1/orders", method="PUT", headers={name: "POST"})
            self.assertEqual((got.status, got.code), (405, "method_not_allowed"), name)
        for query in RENAMING:
            got = gateway.send("/v1/orders?" + query, method="PUT")
            self.assertEqual((got.status, got.code), (405, "method_not_allowed"), query)
        self.assertEqual(target.seen(), [])
        for path in ("/v1/orders2", "/v1.1/orders", "/v1/orders:batch", "/v1/things.json", "/v1/orders%3Abatch",
                     "/v1/what%3F/orders", "/files/a%252Fb%20c", "/v1/orders%C3%A9"):
            self.assertEqual(gateway.send(path).status, 200, path)
            self.assertEqual(target.seen()[-1].path, path)

    def an_escape_that_needs_none_does_not_lead_around_a_route(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target, "POST /v1/orders:batch"), route(target, "POST /v1/users/@me/bills", name="me")],
                          **{"pass": target.url("").rstrip("/")}).start()
        for path in ("/v1/orders%3Abatch", "/v1/orders%3abatch", "/v1/users/%40me/bills", "/v1/users/@me/b%C4%B1lls"):
            got = gateway.send(path)
            self.assertEqual((got.status, got.code), (400, "path_invalid"), path)
        self.assertEqual(target.seen(), [])
        self.assertEqual(gateway.send("/v1/orders%3Abatches").status, 200)

    def an_escape_that_needs_none_does_not_use_a_key_on_a_route_behind(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target, "POST /v1/users/@me/x", name="me"),
                                 route(target, "POST /v1/users/{id}/x", name="others")]).start()
        self.assertEqual(gateway.send("/v1/users/@me/x", key="k").status, 200)
        got = gateway.send("/v1/users/%40me/x", key="k")
        self.assertEqual((got.status, got.code), (400, "path_invalid"))
        for path in ("/v1/users/7/x", "/v1/users/%40you/x"):
            self.assertEqual(gateway.send(path, key="k" + path).status, 200)
        self.assertEqual(len(target.seen()), 3)

    def a_safe_method_on_a_route_is_what_it_says(self):
        gateway, target = setup(self, match="GET,POST /v1/orders")
        for path, headers in [("/v1/orders", {"X-HTTP-Method-Override": "POST"})] + [
                ("/v1/orders?" + query, {}) for query in RENAMING]:
            got = gateway.send(path, None, method="GET", headers=headers)
            self.assertEqual((got.status, got.code), (405, "method_not_allowed"), path)
        self.assertEqual(target.seen(), [])
        self.assertEqual(gateway.send("/v1/orders", None, method="GET").status, 200)

    def a_request_without_a_key_is_passed_on_as_what_it_says(self):
        """It is not recorded, and must not be what another route of that path would record."""
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target, key="optional"), route(target, "DELETE /v1/orders")]).start()
        for query, headers in [("", {"X-HTTP-Method-Override": "DELETE"})] + [
                ("?" + query.replace("POST", "DELETE"), {}) for query in RENAMING]:
            got = gateway.send("/v1/orders" + query, headers=headers)
            self.assertEqual((got.status, got.code), (405, "method_not_allowed"), query)
        self.assertEqual(target.seen(), [])
        self.assertEqual(gateway.send("/v1/orders?payment_method=x").status, 200)
        self.assertEqual(gateway.send("/v1/orders?_method=PUT", key="k").status, 200)  # recorded as it is

    def a_route_of_optional_keys_leads_around_none_before_it(self):
        """Without a key such a route only passes on, as `pass` does."""
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target), route(target, "POST,GET /v1/*", key="optional"),
                                 route(target, "POST /v1/things/later")]).start()
        for path in ("/v1/Orders", "/v1/orders.json", "/v1/order%C5%BF"):
            got = gateway.send(path)
            self.assertEqual((got.status, got.code), (400, "path_invalid"), path)
        self.assertEqual(target.seen(), [])
        for path in ("/v1/things", "/v1/Things/later", "/v1/things/later"):
            self.assertEqual(gateway.send(path).status, 200, path)
        self.assertEqual(gateway.send("/v1/Orders", None, method="GET").status, 200)
        self.assertEqual(gateway.send("/v1/Orders", key="k").status, 200)  # recorded, by that route

    def a_form_does_not_go_around_a_route_by_its_method(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target, "DELETE /v1/orders/*"), route(target, key="optional")],
                          **{"pass": target.url("").rstrip("/")}).start()
        parts = b'--b\r\nContent-Disposition: form-data; name="_method"\r\n\r\nDELETE\r\n--b--\r\n'
        rows = [("application/x-www-form-urlencoded", b"a=1&_method=DELETE"),
                ("multipart/form-data; boundary=b", parts)]
        for number, (kind, body) in enumerate(rows):
            said = {"Content-Type": kind}
            for path in ("/v1/orders", "/v1/orders/7"):  # without a key; beside the route
                got = gateway.send(path, body, headers=said)
                self.assertEqual((got.status, got.code), (405, "method_not_allowed"), (kind, path))
            self.assertEqual(len(target.seen()), 3 * number)
            self.assertEqual(gateway.send("/v1/orders", body, key=kind[:9], headers=said).status, 200)
            self.assertEqual(gateway.send("/v1/things/7", body, headers=said).status, 200)
            self.assertEqual(gateway.send("/v1/orders/7", body, headers={
                "Content-Type": "application/json"}).status, 200)
        for body in (b"_method[]=DELETE", b"X-HTTP-Method-Override=DELETE"):
            got = gateway.send("/v1/orders/7", body, headers={"Content-Type": "application/x-www-form-urlencoded"})
            self.assertEqual((got.status, got.code), (405, "method_not_allowed"), body)
        got = gateway.send("/v1/orders/7", b"_method=DELETE", headers={"Connection": "close, Content-Type"})
        self.assertEqual((got.status, target.seen()[-1].headers["content-type"]), (200, "application/json"))
        for body in (b"payment_method=card", b"a=_method", b"http_method=PUT"):
            self.assertEqual(gateway.send("/v1/orders/7", body, headers={
                "Content-Type": "application/x-www-form-urlencoded"}).status, 200)

    def a_part_does_not_hide_its_method(self):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target, "DELETE /v1/orders/*")], **{"pass": target.url("").rstrip("/")}).start()

        def send(name):
            body = b"--b\r\nContent-Disposition: form-data; " + name + b"\r\n\r\nDELETE\r\n--b--\r\n"
            return gateway.send("/v1/orders/7", body, headers={"Content-Type": "multipart/form-data; boundary=b"})

        for name in (b'name*0="_met"; name*1="hod"', b"name*0*=utf-8''%5Fmet; name*1=hod",
                     b'name="=?utf-8?Q?=5Fmethod?="', b'name="=?utf-8?B?X21ldGhvZA==?="',
                     b'name="[_method]"', b'x=1\r\nContent-ID: _method', b'\r\nname="_method"'):
            got = send(name)
            self.assertEqual((got.status, got.code), (405, "method_not_allowed"), name)
        self.assertEqual(target.seen(), [])
        for name in (b'name="a"; filename*0="b"; filename*1="c"', b'name="a"; filename="=?utf-8?Q?=C3=A9?="',
                     b"name*=utf-8''%C3%A9", 'name="é"'.encode()):
            self.assertEqual(send(name).status, 200, name)

    def the_first_route_that_matches_counts(self):
        gateway, target = setup(
            self, lambda to: route(to, "POST /v1/orders/{id}/confirm", mismatch=422),
            lambda to: route(to, "POST /v1/orders/*", key="optional"))
        self.assertEqual(gateway.send("/v1/orders/7/confirm").status, 400)
        self.assertEqual(gateway.send("/v1/orders/7/cancel").status, 200)

    def the_policy_of_each_route_is_published(self):
        gateway, _target = setup(self, scope="header:x-api-key", replay="settled")
        got = gateway.send("/.daruma/idempotency", None, method="GET")
        rule = got.json["routes"][0]
        self.assertEqual((rule["match"], rule["key"], rule["replay"], rule["scope"], rule["keep_ms"]),
                         ("POST /v1/orders", "required", "settled", "header:x-api-key", 259200000))
        self.assertIn("key_conflict", [one["code"] for one in got.json["problems"]])
        self.assertNotIn("127.0.0.1", got.body.decode())
        page = gateway.send("/.daruma/idempotency", None, method="GET",
                            headers={"Accept": "text/html,*/*"})
        self.assertEqual(page.headers["content-type"], "text/html; charset=utf-8")
        self.assertIn('id="key_conflict"', page.body.decode())
        anchors = re.findall('id="([a-z_]+)"', page.body.decode())
        self.assertEqual(sorted(set(anchors)), sorted(anchors))
        self.assertEqual(set(anchors), {one["code"] for one in got.json["problems"]})
        statuses = {one["code"]: one["statuses"] for one in got.json["problems"]}
        self.assertEqual((statuses["not_sent"], statuses["key_in_progress"], statuses["failed"]),
                         ([502, 504], [409, 503], [502]))
        self.assertIn("<td>502 or 504<td>", page.body.decode())
        self.assertEqual(gateway.send("/.daruma/idempotency").status, 405)


class Crashes(unittest.TestCase):
    def a_running_request_is_unsettled_after_a_crash(self):  # I5
        gateway, target = setup(self)
        go = threading.Event()
        target.script("/v1/orders", does.hold(go, CREATED))
        connection = gateway.caller()
        connection.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k",
                                                         "Content-Type": "application/json"})
        target.wait_for(1)
        gateway.restart()
        deadline = time.monotonic() + 20
        while gateway.send(key="k").code is None:  # among nodes: not before the dead one's lease is over
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertEqual(gateway.send(key="k").code, "outcome_unknown")
        self.assertEqual(len(target.seen()), 1)
        go.set()

    def a_waiting_request_is_sent_after_a_restart_while_its_time_is_not_over(self):
        target = Target(is_up=False)
        self.addCleanup(target.close)
        slow = {"max_attempts": 9, "transient": {"backoff": "fixed", "base": "700ms"}}
        gateway = Gateway(self, [route(target, policy=slow)]).start()
        gateway.send(key="k", headers={"Prefer": "respond-async"})
        deadline = time.monotonic() + 10
        tasks = "/v1/queues/_route.POST-v1-orders/tasks"
        while gateway.get(tasks).json["tasks"][0]["state"] != "waiting":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        target.begin()
        target.script("/v1/orders", CREATED)
        gateway.restart()
        target.wait_for(1)
        while gateway.send(key="k").code == "key_in_progress":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertEqual((gateway.send(key="k").status, len(target.seen())), (201, 1))

    def a_waiting_request_whose_time_is_over_is_released(self):
        target = Target(is_up=False)
        self.addCleanup(target.close)
        slow = {"max_attempts": 9, "transient": {"backoff": "fixed", "base": "400ms"}}
        gateway = Gateway(self, [route(target, policy=slow, deadline="600ms")]).start()
        gateway.send(key="k", headers={"Prefer": "respond-async"})
        deadline = time.monotonic() + 10
        tasks = "/v1/queues/_route.POST-v1-orders/tasks"
        while gateway.get(tasks).json["tasks"][0]["state"] != "waiting":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        gateway.kill()
        time.sleep(0.7)  # the deadline itself
        target.begin()
        gateway.start()
        while gateway.get(tasks).json["tasks"][0]["state"] != "failed":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assertEqual(target.seen(), [])
        self.assertEqual(gateway.send(key="k").status, 200)  # a first one again
        self.assertEqual(len(target.seen()), 1)


if __name__ == "__main__":
    runner.main()
