# SPDX-License-Identifier: MIT
"""Targets and upstreams that do whatever bytes can do (hostile_upstream.py), through tasks, keyed
requests and requests that pass: no caller gets an answer that is not his own, none is left without
one, none goes out twice, and neither memory nor anybody else's time is taken.
"""
import concurrent.futures
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import runner
from gateway import Gateway
from hostile_upstream import BEHAVIOURS, FLOODS, QUIET, STRAYS
from meter import Meter

CALL_SECONDS = 30
TIMEOUT_MS = 1500  # of one attempt
# Between the last look at a connection and the moment at which the upstream sees the request on it,
# what comes cannot be told from an answer. Here that is longer than it is: it is a busy machine.
RACE_SECONDS = 0.02
RACES_MAX = 4  # of the some 200 requests of a test that could meet one
READ_BYTES_MAX = 4 << 20  # of one answer
READ_SECONDS_MAX = 2
AT_ONCE = 8
ONCE = {"name": "once", "max_attempts": 1}
http.client._MAXHEADERS = 20000  # pylint: disable=protected-access
http.client._MAXLINE = 1 << 20  # pylint: disable=protected-access

# What has to be told as it is, and what can be no answer, whichever way it goes.
WELL = {name for name in BEHAVIOURS if name.startswith("own")} | {
    "interim_answers", "few_trailers", "short_chunk_extension", "two_answers", "ten_answers",
    "two_chunked_answers", "close_and_an_answer", "second_answer_at_once",
    "second_answer_after_150_ms", "a_byte_behind", "a_megabyte_behind", "folded_field",
    "length_twice_the_same", "odd_hints", "upgrade_offered", "connection_names_framing"}
NO_ANSWER = FLOODS - {"endless_body", "endless_chunks", "endless_short_chunks", "endless_events",
                      "endless_trailers", "endless_short_trailers", "endless_trailer_line",
                      "endless_events_of_framing", "a_byte_for_each_long_extension"} | QUIET - {
    "comments_drip"} | {name for name in BEHAVIOURS if name.startswith("length_")} - {
    "length_twice_the_same", "length_too_small", "length_zero_and_a_body", "length_and_coding"} | {
    "http_0_9", "garbage_before_status", "http_2_preface", "tls_on_a_plain_port",
    "another_protocol", "nothing_but_nul", "only_processing", "switching_protocols",
    "switching_and_an_answer", "fold_first", "chunk_size_huge", "chunk_size_negative", "chunk_size_words", "chunk_cut_within",
    "chunk_cut_between", "chunk_cut_within_size", "cut_after_0_bytes", "cut_after_12_bytes",
    "cut_after_30_bytes", "reset_before_the_answer", "reset_within_the_answer",
    "too_long_header_line"}


class Upstream:
    """The process; others are served first."""

    def __init__(self, test):
        script = str(Path(__file__).with_name("hostile_upstream.py"))
        self.process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, preexec_fn=lambda: os.nice(5))
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        test.addCleanup(self.end)

    def ask(self, what):
        with urllib.request.urlopen(f"{self.url}/{what}", timeout=CALL_SECONDS) as got:
            return json.load(got)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Said:
    """What a caller was told. `is_whole` is false for an answer that was cut, by either side."""

    def __init__(self, status, body, is_whole):
        self.status, self.body, self.is_whole = status, body, is_whole

    @property
    def is_error(self):
        """In our own words, or an upstream's status that is none of success."""
        return self.status >= 300 or (self.status == 202 and b'"code"' in self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:200]!r} {'whole' if self.is_whole else 'cut'}"


def read(got):
    """The body, as far as one wants it; whether that is all of it."""
    deadline, body = time.monotonic() + READ_SECONDS_MAX, b""
    try:
        while len(body) < READ_BYTES_MAX and time.monotonic() < deadline:
            piece = got.read1(65536)
            if not piece:
                return body, got.length in (None, 0)
            body += piece
    except (http.client.HTTPException, OSError, ValueError):
        pass
    return body, False


class Rig:
    """A server before the upstream, with each way through it."""

    def __init__(self, test):
        self.test, self.upstream = test, Upstream(test)
        routes = [{"match": "POST,GET,HEAD /k/*", "name": "k", "upstream": self.upstream.url,
                   "scope": "global", "timeout": f"{TIMEOUT_MS}ms", "in_progress": "wait",
                   "wait": "20s", "policy": "once", "not_sent": "release"}]
        self.server = Gateway(test, routes, queues=[{"name": "q", "policy": "once"}],
                              outbound={"redirects": 3}, **{"pass": self.upstream.url})
        self.server.configure(**{**self.server.config, "policies": [ONCE]})
        self.server.start()
        self.number, self._lock = 0, threading.Lock()
        self.races = []  # lost ones

    def token(self):
        with self._lock:
            self.number += 1
            return f"n{self.number}"

    def _call(self, method, path, headers):
        connection = self.server.caller(CALL_SECONDS)
        try:
            connection.request(method, path, b"{}" if method == "POST" else None, headers)
            got = connection.getresponse()
            return Said(got.status, *read(got))
        except (http.client.HTTPException, ConnectionError) as wrong:
            return Said(0, repr(wrong).encode(), False)
        finally:
            connection.close()

    def keyed(self, behaviour, token):
        return self._call("POST", f"/k/{behaviour}/{token}", {"Idempotency-Key": token})

    def passed(self, behaviour, token):
        return self._call("GET", f"/k/{behaviour}/{token}", {})

    def headed(self, behaviour, token):
        return self._call("HEAD", f"/k/{behaviour}/{token}", {})

    def task(self, behaviour, token):
        made = self.server.add(target=f"{self.upstream.url}/t/{behaviour}/{token}",
                               timeout_ms=TIMEOUT_MS)
        task = self.server.settled(made)
        if task["state"] != "succeeded":
            return Said(599, json.dumps(task["trail"][-1]).encode(), True)
        body = task["response"].get("body", "")
        return Said(task["response"]["status"], body.encode(), True)

    def victim(self, way):
        """Another caller of the same upstream gets his own answer, or is told that there is none."""
        token = self.token()
        said = way("own", token)
        is_own = said.status == 200 and said.body == f"own:{token}".encode() and said.is_whole
        if not is_own and not said.is_error:
            lag = self.upstream.ask("lags").get(token, RACE_SECONDS)
            self.races.append((token, said, lag))
            self.test.assertLess(lag, RACE_SECONDS, (token, said))
            self.test.assertLessEqual(len(self.races), RACES_MAX)
        return is_own

    def attack(self, way, behaviour):
        """What came of it. Nothing that was not asked for is in it, and a kept answer stays."""
        token = self.token()
        said = way(behaviour, token)
        told = (behaviour, token, said)
        self.test.assertNotEqual(said.status, 0, told)  # closed without an answer
        self.test.assertNotIn(b"POISON", said.body, told)
        if behaviour in WELL:
            own = b"" if way == self.headed else f"own:{token}".encode()
            self.test.assertEqual((said.status, said.body), (200, own), told)
        if behaviour in NO_ANSWER:
            self.test.assertTrue(said.is_error, told)
        if way == self.keyed and said.is_whole:
            again = self.keyed(behaviour, token)
            self.test.assertEqual(again.status, said.status, (told, again))
            if again.status != 202:  # whose body says when it was asked
                self.test.assertIn(again.body, (said.body, b""), told)
        return said

    def check_ledger(self):
        """No request of a caller went out twice."""
        twice = {token: count for token, count in self.upstream.ask("ledger").items()
                 if count > 1 and token}
        self.test.assertEqual(twice, {})


class Strays(unittest.TestCase):
    """Bytes that were not asked for, one kind after the other, and callers behind them."""

    def _check(self, way, behaviours):
        rig = Rig(self)
        with Meter(rig.server) as meter:
            for behaviour in behaviours:
                for pause in (0, 0.03, 0.06):
                    rig.attack(getattr(rig, way), behaviour)
                    time.sleep(0.16 if behaviour.endswith("150_ms") else pause)
                    for victim in (rig.keyed, rig.passed, rig.keyed):
                        rig.victim(victim)
            own = [rig.victim(victim) for victim in (rig.keyed, rig.passed, rig.task)]
        lags = rig.upstream.ask("lags")
        print(f"{len(lags)} requests behind stray bytes, after {sorted(lags.values())}, "
              f"{len(rig.races)} lost")
        self.assertEqual(own, [True] * 3)
        self.assertLess(max(lags.values(), default=0), RACE_SECONDS)
        rig.check_ledger()
        meter.check(self)

    def behind_the_answer_to_a_keyed_request_reach_nobody(self):
        self._check("keyed", sorted(STRAYS))

    def behind_an_answer_that_passed_reach_nobody(self):
        self._check("passed", sorted(STRAYS))

    def behind_the_answer_to_a_task_reach_nobody(self):
        self._check("task", sorted(STRAYS))

    def behind_the_answer_to_a_head_reach_nobody(self):
        self._check("headed", ["own", "own_chunked", "two_answers", "bomb", "long_header_line",
                               "no_content_and_a_body", "second_answer_after_5_ms"])


class Floods(unittest.TestCase):
    """All that never ends, at once: it ends, by itself, and meanwhile everybody else is served."""

    def _check(self, way):
        rig = Rig(self)
        with Meter(rig.server) as meter, concurrent.futures.ThreadPoolExecutor(len(FLOODS)) as pool:
            said = dict(zip(sorted(FLOODS), pool.map(
                lambda behaviour: rig.attack(getattr(rig, way), behaviour), sorted(FLOODS))))
            own = [rig.victim(victim) for victim in (rig.keyed, rig.passed, rig.task)]
        self.assertEqual(own, [True] * 3)
        meter.check(self)
        return said

    def as_tasks_end_with_a_reason(self):
        said = self._check("task")
        for behaviour, reason in {
                "endless_header": b"answer_headers_too_large", "endless_continue":
                b"answer_headers_too_large", "endless_hints": b"answer_headers_too_large",
                "endless_folded_lines": b"answer_headers_too_large",
                "endless_chunk_extension": b"answer_framing_too_large",
                "endless_chunk_size": b"answer cut off"}.items():
            self.assertIn(reason, said[behaviour].body, behaviour)
        for behaviour in ("endless_trailers", "endless_short_trailers"):  # the answer was whole
            self.assertEqual((said[behaviour].status, said[behaviour].body), (200, b"x"), behaviour)

    def as_keyed_requests_end(self):
        said = self._check("keyed")
        for behaviour in ("endless_trailers", "endless_short_trailers"):
            self.assertEqual((said[behaviour].status, said[behaviour].body), (200, b"x"), behaviour)

    def as_requests_that_pass_end(self):
        self._check("passed")


class Answers(unittest.TestCase):
    """Every other thing that can come instead of an answer."""

    def _check(self, way):
        rig = Rig(self)

        def meet(behaviour):
            said = rig.attack(getattr(rig, way), behaviour)
            for victim in (rig.keyed, rig.passed):
                rig.victim(victim)
            return said
        with Meter(rig.server) as meter, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(meet, sorted(set(BEHAVIOURS) - FLOODS - STRAYS)))
            own = [rig.victim(victim) for victim in (rig.keyed, rig.passed, rig.task)]
        self.assertEqual(own, [True] * 3)
        if way != "task":  # which may follow a redirect
            rig.check_ledger()
        meter.check(self)

    def to_keyed_requests_are_told_or_refused(self):
        self._check("keyed")

    def to_requests_that_pass_are_told_or_refused(self):
        self._check("passed")

    def to_tasks_are_kept_or_refused(self):
        self._check("task")


if __name__ == "__main__":
    runner.main()
