# SPDX-License-Identifier: MIT
"""GET /metrics: the form is Prometheus', docs/metrics.md names each metric, and the numbers follow
what happens. A10 (dead letters)."""
import os
import re
import unittest

import runner
from server import Server, chosen
from target import Target, answer

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "metrics.md")
STORE = chosen("sqlite")


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

    def each_has_its_help_and_type_once_and_before_it(self):
        self._start()
        seen, families = set(), []
        for line in self.server.get("/metrics").body.decode().splitlines():
            found = re.match(r"# (HELP|TYPE) (\S+) (.+)$", line)
            if found and found.group(1) == "HELP":
                self.assertNotIn(found.group(2), families)
                families.append(found.group(2))
                self.assertTrue(found.group(3).endswith("."), line)
            elif found:
                self.assertEqual(found.group(2), families[-1])
                self.assertIn(found.group(3), ("counter", "gauge", "histogram"))
                self.assertEqual(found.group(3) == "counter", families[-1].endswith("_total"), line)
            else:
                found = re.match(r"(daruma_\w+?)(_bucket|_sum|_count)?(\{[^}]*\})? \S+$", line)
                self.assertIsNotNone(found, line)
                name = line.split("{")[0].split(" ")[0]
                self.assertIn(families[-1], (name, found.group(1)))
                self.assertNotIn(line.rsplit(" ", 1)[0], seen)
                seen.add(line.rsplit(" ", 1)[0])

    def the_page_names_each_of_them_and_no_other(self):
        self._start()
        told = set(re.findall(r"^# TYPE (\S+)", self.server.get("/metrics").body.decode(), re.M))
        with open(PAGE, encoding="utf-8") as file:
            named = set(re.findall(r"^\| `(daruma_\w+)", file.read(), re.M))
        self.assertEqual(named, told)

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
