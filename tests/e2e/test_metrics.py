# SPDX-License-Identifier: MIT
"""GET /metrics: the form is Prometheus', docs/metrics.md names each metric, and the numbers follow
what happens. A10 (dead letters)."""
import math
import os
import re
import shutil
import socket
import subprocess
import time
import unittest

import runner
from gateway import Gateway, route
from server import Server, chosen
from target import Target, answer

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "metrics.md")
STORE = chosen("sqlite")
FILES = {"memory": {"daruma_store_bytes", "daruma_store_free_bytes"},  # what cannot be known there
         "postgres": {"daruma_store_free_bytes"}}.get(STORE, set())
OPEN = {"Accept": "application/openmetrics-text; version=1.0.0; q=0.8, text/plain; q=0.5"}
LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*"'
SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(" + LABEL + "(?:," + LABEL + r")*)\})? (\S+)$")
ENDS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count"),
        "summary": ("", "_sum", "_count")}


class Metrics(unittest.TestCase):
    def _start(self, **queue):
        os.environ["OPENAI_API_KEY"] = "s3cret"
        self.target = Target()
        self.addCleanup(self.target.close)
        self.server = Server(self, STORE, [
            {"name": "q", "policy": {"max_attempts": 1},
             "targets": [{"name": "t", "url": self.target.url("/in")}], **queue},
            {"name": "pull"}], providers=[
                {"name": "openai", "kind": "openai", "url": self.target.url("/ai"), "model": "m",
                 "keys": ["env:OPENAI_API_KEY"]}]).start()
        return self.server

    def _read(self):
        """name{labels} -> value."""
        self.server.get("/v1/queues")  # among nodes queues are counted now and then, and for who asks
        text = self.server.get("/metrics").body.decode()
        return {name: float(value) for name, value in
                re.findall(r"^([^#\s]\S*) (\S+)$", text, re.M)}

    def _check(self, text, is_open=False):
        """Strictly: families whole and once, help and type before them, samples of their kind, no series
        twice, histograms that only grow and end with their count."""
        families, seen, kind, family, base, last, whole = {}, set(), None, None, None, None, None
        self.assertTrue(text.endswith("# EOF\n" if is_open else "\n"))
        for line in text.splitlines()[:-1 if is_open else None]:
            head = re.match(r"# (HELP|TYPE) (\S+) (.+)$", line)
            if head and head.group(1) == "HELP":
                family = head.group(2)
                self.assertNotIn(family, families)
                self.assertTrue(head.group(3).endswith("."), line)
            elif head:
                self.assertEqual(head.group(2), family)
                kind = families[family] = head.group(3)
                self.assertEqual(kind == "counter" and not is_open, family.endswith("_total"), line)
                base = family[:-len("_total")] if family.endswith("_total") else family
            else:
                found = SAMPLE.match(line)
                self.assertIsNotNone(found, line)
                name, labels, value = found.groups()
                self.assertIn(name, [base + end for end in ENDS[kind]], line)
                self.assertNotIn((name, labels), seen)
                seen.add((name, labels))
                self.assertTrue(float(value) >= 0 or value == "NaN" and "quantile" in labels, line)
                if name.endswith("_bucket"):
                    self.assertGreaterEqual(float(value), last or 0)
                    last = None if 'le="+Inf"' in labels else float(value)
                    whole = float(value)
                elif kind == "histogram" and name.endswith("_count"):
                    self.assertEqual(float(value), whole)
        return families

    def its_form_is_right_in_both_formats(self):
        server = self._start()
        self.target.script("/in", answer(503), answer(200))
        for _ in range(3):
            server.settled(server.create(body="x", key="k").json["id"])
        plain, opened = server.get("/metrics"), server.get("/metrics", headers=OPEN)
        self.assertEqual(plain.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertEqual(opened.headers["content-type"],
                         "application/openmetrics-text; version=1.0.0; charset=utf-8")
        families = self._check(plain.body.decode())
        self.assertEqual({re.sub("_total$", "", name) for name in families},
                         set(self._check(opened.body.decode(), True)))
        if shutil.which("promtool"):
            found = subprocess.run(["promtool", "check", "metrics"], input=plain.body, check=False,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual((found.returncode, found.stdout), (0, b""))

    def the_page_names_each_of_them_and_no_other(self):
        self._start()
        told = set(re.findall(r"^# TYPE (\S+)", self.server.get("/metrics").body.decode(), re.M))
        with open(PAGE, encoding="utf-8") as file:
            named = set(re.findall(r"^\| `((?:daruma|process)_\w+)", file.read(), re.M))
        self.assertEqual(named - FILES, told)

    def each_of_them_has_the_kind_and_the_labels_of_the_page(self):
        self._start()
        text = self.server.get("/metrics").body.decode()
        kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        labels = {}
        for name, found in re.findall(r"^((?:daruma|process)_\w+)(?:\{(.*)\})? \S+$", text, re.M):
            family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
            own = set(re.findall(r'(\w+)="', found)) - {"le", "quantile"}
            self.assertEqual(labels.setdefault(family, own), own, name)
        with open(PAGE, encoding="utf-8") as file:
            rows = re.findall(r"^\| `((?:daruma|process)_\w+)(?:\{([\w,]+)\})?` \| (\w+) \|", file.read(), re.M)
        self.assertGreater(len(rows), 80)
        for name, named, kind in rows:
            if name not in FILES:
                self.assertEqual((kinds[name], labels[name]),
                                 (kind, set(named.split(",")) if named else set()), name)

    def dead_letters_are_counted_until_they_are_dealt_with(self):
        server = self._start()
        self.target.script("/in", answer(400), answer(400), answer(200))
        ids = [server.settled(server.add(body="x"))["id"] for _ in range(2)]
        self.assertEqual(self._read()['daruma_queue_dead_letters{queue="q"}'], 2)
        server.post(f"/v1/dead-letters/{ids[0]}:redrive", {})
        server.settled(ids[0])
        server.post(f"/v1/dead-letters/{ids[1]}:resolve", {})
        now = self._read()
        self.assertEqual(now['daruma_queue_dead_letters{queue="q"}'], 0)
        self.assertEqual(now["daruma_dead_letters_redriven_total"], 1)
        self.assertEqual(now["daruma_dead_letters_resolved_total"], 1)

    def the_oldest_dead_letter_is_told_until_it_is_dealt_with(self):
        name = 'daruma_queue_dead_letter_oldest_seconds{queue="q"}'
        server = self._start()
        self.target.script("/in", answer(400), answer(400), answer(200), answer(200))
        self.assertEqual(self._read()[name], 0)
        first = server.settled(server.add(body="x"))["id"]
        while self._read()[name] < 1:
            time.sleep(0.05)
        second = server.settled(server.add(body="x"))["id"]
        if STORE != "memory":
            server.stop()
            server.start()
        self.assertGreaterEqual(self._read()[name], 1)  # as old as before
        server.post(f"/v1/dead-letters/{first}:redrive", {})
        server.settled(first)
        self.assertLess(self._read()[name], 60)
        server.post("/v1/queues/q:purge")
        self.assertEqual(self._read()[name], 0)
        self.assertEqual(server.get(f"/v1/tasks/{second}").status, 404)

    def all_series_of_a_queue_are_there_at_0_as_soon_as_it_is(self):
        server = self._start()
        before = {re.sub('queue="pull"', "", name) for name in self._read() if 'queue="pull"' in name}
        server.call("PUT", "/v1/queues/new", {})
        now = self._read()
        new = {name: value for name, value in now.items() if 'queue="new"' in name}
        self.assertEqual({re.sub('queue="new"', "", name) for name in new}, before)
        self.assertTrue(all(value == 0 or math.isnan(value) for value in new.values()), new)

    def a_total_has_no_queues(self):
        server = self._start()
        text = server.get("/metrics?detail=total").body.decode()
        self._check(text)
        self.assertNotIn("queue=", text)
        self.assertIn("daruma_end_to_end_seconds_count 0", text)
        refused = server.get("/metrics?detail=some")
        self.assertEqual((refused.status, refused.json["field"]), (400, "detail"))

    def a_queue_counts_what_its_attempts_and_tasks_came_to(self):
        server = self._start(policy={"max_attempts": 2, "transient": {"backoff": "fixed", "base": "10ms"}})
        self.target.script("/in", answer(200), answer(503), answer(200), answer(503), answer(503),
                           answer(400), answer(200))
        ids = [server.settled(server.add(body="x"))["id"] for _ in range(4)]
        late = server.add(body="x", delay_ms=3600000)
        server.post(f"/v1/tasks/{late}:cancel")
        now = self._read()
        self.assertEqual(now['daruma_queue_recorded_total{queue="q"}'], 5)
        for outcome, count in (("succeeded", 2), ("transient", 3), ("invalid", 1), ("unsettled", 0)):
            name = f'daruma_queue_attempts_total{{queue="q",outcome="{outcome}"}}'
            self.assertEqual(now[name], count, name)
        for end, one, more in (("succeeded", 1, 1), ("failed", 1, 1), ("cancelled", 1, 0)):
            for tries, count in (("one", one), ("more", more)):
                name = f'daruma_queue_ended_total{{queue="q",end="{end}",tries="{tries}"}}'
                self.assertEqual(now[name], count, name)
        self.assertEqual(now['daruma_queue_dead_letters_entered_total{queue="q"}'], 2)
        self.assertEqual(now['daruma_queue_end_to_end_seconds_count{queue="q"}'], 5)
        self.assertEqual(now["daruma_end_to_end_seconds_count"], 5)
        self.assertEqual(now["daruma_retry_wait_seconds_count"], 2)
        self.assertEqual(now['daruma_queue_attempt_seconds_count{queue="q"}'], 6)
        self.assertGreaterEqual(now['daruma_queue_attempt_seconds{queue="q",quantile="0.99"}'], 0)
        server.post(f"/v1/dead-letters/{ids[2]}:redrive", {})
        server.settled(ids[2])
        server.post(f"/v1/dead-letters/{ids[3]}:resolve", {})
        now = self._read()
        self.assertEqual(now['daruma_queue_dead_letters_left_total{queue="q",by="redriven"}'], 1)
        self.assertEqual(now['daruma_queue_dead_letters_left_total{queue="q",by="closed"}'], 1)
        self.assertEqual(now["daruma_dead_letter_open_seconds_count"], 2)
        self.assertEqual(now['daruma_manual_retries_total{kind="redrive"}'], 1)
        self.assertEqual(now['daruma_queue_ended_total{queue="q",end="succeeded",tries="one"}'], 2)

    def a_redrive_is_counted_as_edited_only_by_the_call_that_edits(self):
        """An edit stands in the later rounds of a letter, but they were redriven as they were."""
        server = self._start()
        self.target.script("/in", answer(400))
        task = server.add(body="a")
        server.settled(task)
        for edit in ({"body": "b"}, {}, {}):
            self.assertEqual(server.post(f"/v1/dead-letters/{task}:redrive", edit).status, 202)
            server.settled(task)
        now = self._read()
        self.assertEqual(now['daruma_manual_retries_total{kind="edited"}'], 1)
        self.assertEqual(now['daruma_manual_retries_total{kind="redrive"}'], 2)
        self.assertEqual([one.body for one in self.target.seen()], [b"a", b"b", b"b", b"b"])

    def keys_are_counted_by_what_they_were_found_to_be(self):
        server = self._start()
        self.target.script("/in", answer(200))
        server.settled(server.add(body="x", key="a"))
        server.create(body="x", key="a")
        server.create(body="y", key="a")
        server.add(body="x", key="b", delay_ms=3600000)
        server.create(body="x", key="b", delay_ms=3600000)
        server.add(body="x")
        now = self._read()
        self.assertEqual(now['daruma_requests_total{door="api",key="with"}'], 5)
        self.assertEqual(now['daruma_requests_total{door="api",key="without"}'], 1)
        for word, count in (("first", 2), ("replayed", 1), ("conflict", 1), ("in_progress", 1)):
            self.assertEqual(now[f'daruma_key_answers_total{{door="api",answer="{word}"}}'], count, word)

    def answers_are_counted_by_door_and_code(self):
        self.target = Target()
        self.addCleanup(self.target.close)
        self.target.script("/v1/orders", answer(201), answer(500))
        self.server = server = Gateway(self, [route(self.target, key="required")], STORE).start()
        first = self._read()
        server.send(key="a")
        server.send(key="a")
        server.send()
        server.get("/v1/queues/none")
        now = self._read()
        grown = {name[len("daruma_http_answers_total"):]: now[name] - first[name] for name in now
                 if name.startswith("daruma_http_answers_total")}
        self.assertEqual(grown['{door="gateway",code="relayed"}'], 2)
        self.assertEqual(grown['{door="gateway",code="4xx"}'], 1)
        self.assertEqual(grown['{door="gateway",code="5xx"}'], 0)
        self.assertEqual(grown['{door="api",code="4xx"}'], 1)
        self.assertEqual(now['daruma_key_answers_total{door="gateway",answer="first"}'], 1)
        self.assertEqual(now['daruma_key_answers_total{door="gateway",answer="replayed"}'], 1)
        self.assertEqual(now['daruma_requests_total{door="gateway",key="with"}'], 2)
        self.assertEqual(now['daruma_requests_total{door="api",key="with"}'], 0)

    def what_holds_a_queue_back_is_told(self):
        server = self._start(concurrency=1, rate={"per_second": 0.01, "burst": 1})
        self.target.script("/in", answer(200))
        server.post("/v1/queues/pull:pause")
        server.settled(server.add(body="x"))
        server.add(body="x")
        self.assertEqual(self._read()['daruma_queue_held{queue="pull",reason="paused"}'], 0)
        server.add("pull", body="x", delay_ms=600000)
        self.assertEqual(self._read()['daruma_queue_held{queue="pull",reason="paused"}'], 0)
        server.add("pull", body="x")
        now = self._read()
        self.assertEqual(now['daruma_queue_held{queue="pull",reason="paused"}'], 1)
        self.assertEqual(now['daruma_queue_held{queue="q",reason="rate"}'], 1)
        for reason in ("paused", "outage", "gone", "host", "store"):
            self.assertEqual(now[f'daruma_queue_held{{queue="q",reason="{reason}"}}'], 0, reason)
        self.assertTrue(90 < now['daruma_queue_held_seconds{queue="q"}'] <= 100.1)
        self.assertEqual(now['daruma_queue_held_seconds{queue="pull"}'], 0)

    def the_hosts_that_fail_most_are_listed_first(self):
        server = self._start()
        other = Target()
        self.addCleanup(other.close)
        self.target.script("/in", answer(503), answer(503), answer(200))
        other.script("/in?token=hunter2", answer(400))
        for url in [self.target.url("/in")] * 3 + [other.url("/in?token=hunter2")]:
            server.settled(server.add(body="x", target=url))
        got = server.get("/v1/hosts")
        worst, next_one = got.json["hosts"]
        self.assertEqual((worst["queue"], worst["host"]), ("q", self.target.url().split("/")[2]))
        self.assertEqual((worst["attempts"], worst["failures"], worst["status"], worst["class"],
                          worst["reason"]), (3, 2, 503, "transient", "HTTP 503"))
        self.assertEqual((next_one["failures"], next_one["class"]), (1, "invalid"))
        self.assertNotIn(b"hunter2", got.body)

    def the_process_and_its_store_are_measured(self):
        self._start()
        now = self._read()
        self.assertGreater(now["process_cpu_seconds_total"], 0)
        self.assertGreater(now["process_resident_memory_bytes"], 1 << 20)
        self.assertGreater(now["process_open_fds"], 5)
        self.assertGreaterEqual(now["process_max_fds"], now["process_open_fds"])
        self.assertGreater(now["process_start_time_seconds"], 1.7e9)
        self.assertEqual((now["daruma_nodes"], now["daruma_node_has_duty"]), (1, 1))
        for name in ("daruma_store_bytes", "daruma_store_free_bytes"):
            self.assertEqual(now.get(name, 0) > 0, name not in FILES, name)
        self.server.add(body="x")
        now = self._read()
        self.assertGreaterEqual(now["daruma_commit_seconds_count"], 1)
        self.assertGreaterEqual(now["daruma_commit_batch_operations_sum"], 1)

    def descriptors_are_told_as_the_system_counts_them(self):
        server = self._start()
        folder = f"/proc/{server.process.pid}/fd"
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        for connection in idle:
            self.addCleanup(connection.close)
        until, told, there = time.monotonic() + 10, None, 0
        while told != there or there <= len(idle):  # those of earlier calls may still be closing
            self.assertLess(time.monotonic(), until, (told, there))
            told = self._read()["process_open_fds"] - 1  # without that of the call itself
            there = len(os.listdir(folder))

    def leases_are_counted_and_those_that_were_over(self):
        server = self._start()
        for _ in range(2):
            server.add("pull", body="x")
        server.post("/v1/queues/pull/leases", {"max": 2, "lease_ms": 100})
        server.wait_line("task_retry", queue="pull")
        now = self._read()
        self.assertEqual(now["daruma_leases_total"], 2)
        self.assertGreaterEqual(now["daruma_leases_expired_total"], 1)

    def a_callback_is_counted(self):
        server = self._start()
        self.target.script("/in", answer(200))
        server.settled(server.add(body="x", callback={"url": self.target.url("/told")}))
        self.target.wait_for(1, "/told")
        self.assertEqual(self._read()["daruma_callbacks_total"], 1)

    def an_outage_and_what_waits_in_it_are_told(self):
        server = self._start(outage={"after_failures": 1, "try_every": "10m"})
        self.target.script("/in", answer(503))
        server.add(body="x")
        server.wait_line("outage_began")
        server.add(body="y")
        now = self._read()
        self.assertEqual((now['daruma_queue_outage{queue="q"}'], now["daruma_outages_total"]), (1, 1))
        self.assertEqual(now['daruma_queue_held{queue="q",reason="outage"}'], 1)
        self.assertTrue(500 < now['daruma_queue_held_seconds{queue="q"}'] <= 600)
        self.assertGreaterEqual(now['daruma_queue_due{queue="q"}'], 1)
        first = now['daruma_queue_oldest_due_seconds{queue="q"}']
        while self._read()['daruma_queue_oldest_due_seconds{queue="q"}'] <= first:
            pass  # it grows by itself
        self.assertEqual(now['daruma_queue_oldest_due_seconds{queue="pull"}'], 0)

    def stopped_targets_and_paused_queues_are_told(self):
        server = self._start()
        self.target.script("/in", answer(410))
        server.settled(server.add(body="x"))
        server.post("/v1/queues/pull:pause")
        now = self._read()
        self.assertEqual(now['daruma_queue_targets_stopped{queue="q"}'], 1)
        self.assertEqual(now['daruma_queue_paused{queue="pull"}'], 1)
        self.assertEqual(now['daruma_queue_paused{queue="q"}'], 0)

    def nothing_that_came_with_a_request_is_in_it(self):  # I10
        server = self._start()
        self.target.script("/in", answer(400))
        server.settled(server.add(body="b0dy", key="k3y", labels={"l4bel": "v4lue"}))
        text = server.get("/metrics").body.decode()
        for word in ("b0dy", "k3y", "l4bel", "v4lue", "s3cret", self.target.url()):
            self.assertNotIn(word, text)


if __name__ == "__main__":
    runner.main()
