# SPDX-License-Identifier: MIT
"""What people see and do on the real server: the log of a queue, runs by hand, unsettled tasks,
callbacks, targets that are gone or down, and the trail of every act. Requirements D3.1-4, D4.1-4.
"""
import json
import os
import subprocess
import threading
import unittest

import runner
import target as does
from polling import until
from program import BIN
from server import Server, on_each_store
from target import Target, answer

WAIT_MS = 40
FAST = {"name": "fast", "max_attempts": 3,
        "transient": {"backoff": "fixed", "base": f"{WAIT_MS}ms"}}
SLOW = {"name": "slow", "max_attempts": 6,
        "transient": {"backoff": "exponential", "base": "5m", "cap": "24h", "jitter": "none"}}
OPS = "o" * 40


def setup(test, store, choose=None, queues=None, **more):
    target = Target(choose)
    test.addCleanup(target.close)
    queues = queues or [{"name": "q", "policy": "slow"}]
    return Server(test, store, queues, policies=[FAST, SLOW], **more).start(), target


class Switch:
    """A target's mood: the status that it answers with."""

    def __init__(self, status=200):
        self.status = status

    def __call__(self, request):
        return answer(self.status, {}, b"said")


@on_each_store("sqlite", "json", "memory", "postgres")
class Log(unittest.TestCase):
    def a_run_of_retries_is_told_from_its_length_to_its_end(self, store):  # D3.1, D3.2, D3.4
        mood = Switch(503)
        server, target = setup(self, store, mood, [{"name": "q", "policy": "fast"}])
        server.wait_line("queue_length", queue="q", waiting=0)
        server.add(target=target.url())
        target.wait_for(1)
        mood.status = 200
        server.wait_line("queue_length", queue="q", waiting=1)
        server.wait_line("run_done", queue="q", kind="scheduled", taken=1, succeeded=1, failed=0)
        server.wait_line("queue_empty", queue="q")

    def a_permanent_failure_is_a_warning(self, store):  # D3.3
        server, target = setup(self, store, Switch(503), [{"name": "q", "policy": "fast"}])
        identity = server.add(target=target.url())
        server.settled(identity)
        line = server.wait_line("task_failed_permanently", task=identity, queue="q",
                                **{"class": "transient"}, attempts=3)
        self.assertEqual(line.fields["level"], "warn")
        for attempt in (1, 2):
            server.wait_line("task_retry", task=identity, queue="q", attempt=attempt,
                             **{"class": "transient"}, wait_ms=WAIT_MS)

    def a_run_by_hand_takes_everything_at_once(self, store):  # D3.2, D4.1-4
        mood = Switch(503)
        server, target = setup(self, store, mood)
        tasks = [server.add(target=target.url(), body=str(number)) for number in range(5)]
        target.wait_for(5)
        until(lambda: server.get("/v1/queues/q").json["counts"]["waiting"] == 5, "all wait")
        began = server.post("/v1/queues/q:run")
        self.assertEqual((began.status, began.json["taken"]), (202, 5))
        server.wait_line("queue_length", queue="q", waiting=5)
        server.wait_line("run_done", queue="q", kind="manual", taken=5, succeeded=0, failed=5)
        for identity in tasks:  # counts up, and has its next automatic time
            task = server.task(identity)
            self.assertEqual((task["attempts"], task["next_wait_ms"]), (2, 600000))
        mood.status = 200
        done = subprocess.run([BIN, "run", "q", "--server", f"http://127.0.0.1:{server.port}", "--json"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["taken"], told["succeeded"], told["failed"]), (5, 5, 0))
        server.wait_line("run_done", queue="q", kind="manual", taken=5, succeeded=5, failed=0)
        server.wait_line("queue_empty", queue="q")
        self.assertEqual(server.get("/v1/queues/q").json["counts"]["waiting"], 0)


@on_each_store("sqlite", "json", "memory", "postgres")
class Unsettled(unittest.TestCase):
    def _unsettled(self, server, target, **task):
        identity = server.add(target=target.script("/once", does.read_then_reset), repeatable=False,
                              **task)
        self.assertEqual(server.settled(identity)["state"], "unsettled")
        return identity

    def a_person_can_say_what_became_of_it(self, store):
        server, target = setup(self, store)
        done, failed = (self._unsettled(server, target) for _ in range(2))
        listed = server.get("/v1/unsettled").json["unsettled"]
        self.assertEqual([one["id"] for one in listed], [done, failed])
        self.assertEqual(listed[0]["error"]["class"], "transient")
        self.assertEqual(server.get("/v1/unsettled?queue=q&limit=1").json["next"] is None, False)
        got = server.post(f"/v1/tasks/{done}:settle",
                          {"outcome": "succeeded", "note": "they have it",
                           "response": {"status": 201, "body": "row 7"}})
        self.assertEqual((got.status, got.json["state"]), (200, "succeeded"))
        task = server.task(done)
        self.assertEqual((task["response"]["status"], task["response"]["body"]), (201, "row 7"))
        self.assertEqual(task["settled_by"], "local")
        got = server.post(f"/v1/tasks/{failed}:settle", {"outcome": "failed", "note": "lost"})
        self.assertEqual((got.status, got.json["state"]), (200, "failed"))
        letter = server.get(f"/v1/dead-letters/{failed}").json
        self.assertEqual((letter["status"], letter["retryable"]), ("failed", True))
        server.wait_line("task_failed_permanently", task=failed)
        again = server.post(f"/v1/tasks/{done}:settle", {"outcome": "failed"})
        self.assertEqual((again.status, again.code), (409, "not_unsettled"))
        self.assertIn("succeeded", again.json["detail"])
        acts = server.get("/v1/audit").json["audit"]
        self.assertEqual([(row["act"], row["task"], row["from"], row["to"], row["note"])
                          for row in acts],
                         [("settle_succeeded", done, "unsettled", "succeeded", "they have it"),
                          ("settle_failed", failed, "unsettled", "failed", "lost")])

    def what_was_not_done_is_sent_again(self, store):
        server, target = setup(self, store)
        url = target.script("/twice", does.read_then_reset, answer(200))
        identity = server.add(target=url, repeatable=False)
        server.settled(identity)
        got = server.post(f"/v1/tasks/{identity}:settle", {"outcome": "not_done"})
        self.assertEqual(got.status, 200)
        task = server.settled(identity)
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 1))
        self.assertEqual([one.attempt for one in target.seen("/twice")], [1, 2])

    def bad_input_names_its_field_and_leaves_no_trace(self, store):  # I7
        server, target = setup(self, store)
        identity = self._unsettled(server, target)
        for body, field in ((b"[]", None), (b"", "outcome"), (b"{}", "outcome"),
                            (b'{"outcome":"perhaps"}', "outcome"), (b'{"outcome":1}', "outcome"),
                            (b'{"outcome":"not_done","response":{}}', "response"),
                            (b'{"outcome":"failed","response":{"status":1}}', "response.status"),
                            (b'{"outcome":"failed","response":7}', "response"),
                            (b'{"outcome":"failed","notes":"x"}', "notes")):
            got = server.post(f"/v1/tasks/{identity}:settle", body)
            self.assertEqual((got.status, got.json.get("field")), (400, field), body)
        for query, field in (("limit=x", "limit"), ("state=x", "state")):
            got = server.get(f"/v1/unsettled?{query}")
            self.assertEqual((got.status, got.json.get("field")), (400, field))
        for query, field in (("task=x", "task"), ("since=x", "since"), ("limit=0", "limit")):
            got = server.get(f"/v1/audit?{query}")
            self.assertEqual((got.status, got.json.get("field")), (400, field))
        self.assertEqual(server.task(identity)["state"], "unsettled")
        self.assertEqual(server.get("/v1/audit").json["audit"], [])


@on_each_store("sqlite", "json", "memory", "postgres")
class Callbacks(unittest.TestCase):
    def the_end_of_a_task_is_told_with_its_answer_or_its_error(self, store):
        server, target = setup(self, store)
        tell = {"url": target.url("/tell")}
        good = server.add(target=target.script("/good", answer(201, {}, b"made")), callback=tell,
                          labels={"order": "7"})
        target.wait_for(1, "/tell")
        bad = server.add(target=target.script("/bad", answer(400, {}, b"no")), callback=tell)
        told = [json.loads(one.body) for one in target.wait_for(2, "/tell")]
        self.assertEqual([(one["id"], one["state"], one["queue"]) for one in told],
                         [(good, "succeeded", "q"), (bad, "failed", "q")])
        self.assertEqual((told[0]["response"]["status"], told[0]["response"]["body"]), (201, "made"))
        self.assertEqual((told[1]["error"]["class"], told[1]["error"]["status"]), ("invalid", 400))
        self.assertEqual(told[0]["labels"], {"order": "7"})
        self.assertEqual([one.key for one in target.seen("/tell")], [f"cb:{good}:0", f"cb:{bad}:0"])
        server.post(f"/v1/dead-letters/{bad}:redrive")
        again = target.wait_for(3, "/tell")[2]
        self.assertEqual((again.key, json.loads(again.body)["state"]), (f"cb:{bad}:1", "failed"))

    def only_what_was_asked_for_is_told_and_cancelled_tasks_are_not(self, store):
        server, target = setup(self, store)
        def wish(*words):
            return {"url": target.url("/tell"), "on": list(words)}
        good, bad = target.script("/good", answer(200)), target.script("/bad", answer(400))
        server.settled(server.add(target=good, callback=wish("failed")))
        server.settled(server.add(target=bad, callback=wish("succeeded")))
        gone = server.add(target=good, callback=wish("succeeded", "failed"), delay_ms=3600000)
        self.assertEqual(server.post(f"/v1/tasks/{gone}:cancel").status, 200)
        last = server.add(target=good, callback=wish("succeeded"))
        self.assertEqual([one.key for one in target.wait_for(1, "/tell")], [f"cb:{last}:0"])
        counts = {}
        def is_told():
            counts.update(server.get("/v1/queues/_callbacks").json["counts"])
            return counts["succeeded"] == 1
        until(is_told, "one callback")
        self.assertEqual(sum(counts.values()), 1)

    def a_callback_is_tried_until_it_is_taken(self, store):
        queues = [{"name": "q", "policy": "fast"}, {"name": "_callbacks", "policy": "fast"}]
        server, target = setup(self, store, queues=queues)
        tell = target.script("/tell", answer(503), answer(503), answer(200))
        server.add(target=target.script("/good", answer(200)), callback={"url": tell})
        seen = target.wait_for(3, "/tell")
        self.assertEqual([one.attempt for one in seen], [1, 2, 3])
        self.assertEqual(len({one.key for one in seen}), 1)


@on_each_store("sqlite", "json", "memory", "postgres")
class Targets(unittest.TestCase):
    def a_target_that_is_down_costs_no_attempts(self, store):
        mood = Switch(503)
        server, target = setup(self, store, mood, [
            {"name": "q", "policy": "slow", "concurrency": 4,
             "outage": {"after_failures": 4, "try_every": "100ms"}}])
        tasks = [server.add(target=target.url(), body=str(number)) for number in range(40)]
        server.wait_line("outage_began", queue="q")
        self.assertIsNotNone(server.get("/v1/queues/q").json["outage_since"])
        seen = len(target.seen())
        self.assertLessEqual(seen, 12)
        target.wait_for(seen + 3)  # trials
        mood.status = 200
        server.wait_line("outage_ended", queue="q")
        until(lambda: server.get("/v1/queues/q").json["counts"]["succeeded"] >= 40 - 8, "the backlog")
        lost = [identity for identity in tasks if server.task(identity)["attempts"] > 1
                or server.task(identity)["state"] == "waiting"]
        self.assertLessEqual(len(lost), 8)
        self.assertIsNone(server.get("/v1/queues/q").json["outage_since"])
        server.post("/v1/queues/q:run")  # those that failed before it was noticed wait five minutes
        until(lambda: server.get("/v1/queues/q").json["counts"]["succeeded"] == 40, "all of them")

    def a_person_can_send_through_an_outage(self, store):  # D4
        mood = Switch(503)
        server, target = setup(self, store, mood, [
            {"name": "q", "policy": "slow", "outage": {"after_failures": 2, "try_every": "1h"}}])
        tasks = [server.add(target=target.url(), body=str(number)) for number in range(6)]
        server.wait_line("outage_began", queue="q")
        until(lambda: server.get("/v1/queues/q").json["counts"]["running"] == 0, "the last answer")
        mood.status = 200
        server.post("/v1/queues/q:run")  # sends what waits, and not what is under way
        for identity in tasks:
            self.assertEqual(server.settled(identity)["state"], "succeeded")


@on_each_store("sqlite", "json", "postgres")
class AcrossKills(unittest.TestCase):
    def a_target_that_is_gone_stays_stopped_until_it_is_resumed(self, store):
        moods = {"/a": 410, "/b": 200}
        target = Target(lambda request: answer(moods[request.path]))
        self.addCleanup(target.close)
        targets = [{"name": "a", "url": target.url("/a")}, {"name": "b", "url": target.url("/b")}]
        server = Server(self, store, [{"name": "q", "policy": "slow", "targets": targets}],
                        policies=[SLOW]).start()
        self.assertEqual(server.settled(server.add(body="1"))["state"], "failed")
        server.wait_line("target_stopped", queue="q", target="a", status=410)
        for round_number in range(2):
            self.assertEqual(server.get("/v1/queues/q").json["stopped"], ["a"])
            for number in range(3):
                task = server.settled(server.add(body=str(number)))
                self.assertEqual((task["state"], task["settled_by"]), ("succeeded", "b"))
            if round_number == 0:
                server.restart()
        self.assertEqual(len(target.seen("/a")), 1)
        moods["/b"] = 410
        server.settled(server.add(body="last"))
        until(lambda: server.get("/v1/queues/q").json["stopped"] == ["a", "b"], "both stopped")
        held = server.add(body="held")
        server.restart()
        self.assertEqual(server.task(held)["state"], "waiting")
        moods["/a"] = moods["/b"] = 200
        self.assertEqual(server.post("/v1/queues/q:resume").json["stopped"], [])
        self.assertEqual(server.settled(held)["state"], "succeeded")
        server.restart()
        self.assertEqual(server.get("/v1/queues/q").json["stopped"], [])

    def an_end_that_a_kill_brought_about_is_told_too(self, store):  # I8
        held = does.hold(threading.Event())
        def choose(request):
            return held if request.path == "/held" else answer(200)
        server, target = setup(self, store, choose, [{"name": "q", "policy": "fast"}])
        identity = server.add(target=target.url("/held"), callback={"url": target.url("/tell")},
                              retry={"max_attempts": 1})
        target.wait_for(1, "/held")
        server.restart()  # its only attempt is lost, and was one
        self.assertEqual(server.settled(identity)["state"], "failed")
        [told] = target.wait_for(1, "/tell")
        self.assertEqual(told.key, f"cb:{identity}:0")
        server.wait_line("task_failed_permanently", task=identity)
        until(lambda: server.get("/v1/queues/_callbacks").json["counts"]["succeeded"] == 1,
              "its outcome on record")  # a kill before that has it told again, as it should
        server.restart()
        until(lambda: server.get("/v1/queues/_callbacks").json["counts"]["running"] == 0, "quiet")
        self.assertEqual(len(target.seen("/tell")), 1)


@on_each_store("sqlite", "json", "memory", "postgres")
class Audit(unittest.TestCase):
    def every_act_is_kept_with_the_name_of_the_token(self, store):  # E6
        os.environ["OPS_TOKEN"] = OPS
        mood = Switch(400)
        api = {"listen": "127.0.0.1:0",
               "tokens": [{"name": "ops", "role": "admin", "token": "env:OPS_TOKEN"}]}
        target = Target(mood)
        self.addCleanup(target.close)
        server = Server(self, store, [{"name": "q", "policy": "slow"}], policies=[FAST, SLOW], api=api)
        server.start()
        headers = {"Authorization": f"Bearer {OPS}"}

        def call(method, path, body=None, status=None):
            got = server.call(method, path, body, headers=headers)
            self.assertIn(got.status, (status,) if status else (200, 201, 202, 204), (path, got))
            return got.json

        def add(queue="q", **task):
            return call("POST", f"/v1/queues/{queue}/tasks", {"target": target.url(), **task})["id"]

        def settled(identity):
            return call("GET", f"/v1/tasks/{identity}?wait_ms=30000")

        call("PUT", "/v1/queues/made", {"policy": "slow"})
        call("POST", "/v1/queues/made:pause")
        call("POST", "/v1/queues/made:resume")
        later = add("made", delay_ms=3600000)
        call("POST", f"/v1/tasks/{later}:cancel")
        later = add("made", delay_ms=3600000)
        call("POST", f"/v1/tasks/{later}:run")
        settled(later)
        call("POST", "/v1/queues/made:run")
        call("POST", "/v1/queues/made:purge")
        call("DELETE", "/v1/queues/made?force=true")
        letter = add()
        settled(letter)
        call("POST", f"/v1/dead-letters/{letter}:redrive", {"body": "other"})
        settled(letter)
        redrive = call("POST", "/v1/dead-letters:redrive", {"rate_per_second": 0.01})["redrive"]
        call("POST", f"/v1/redrives/{redrive}:cancel")
        call("POST", f"/v1/dead-letters/{letter}:resolve", {"note": "enough"})
        for path in (f"/v1/tasks/{letter}:cancel", f"/v1/tasks/{letter}:settle"):
            call("POST", path, {"outcome": "failed"} if "settle" in path else None, status=409)
        rows = call("GET", "/v1/audit?limit=1000")["audit"]
        self.assertEqual({row["who"] for row in rows}, {"ops"})
        told = [(row["act"], row["task"], row["from"], row["to"]) for row in rows]
        for act in ("queue_put", "queue_pause", "queue_resume", "queue_run", "queue_purge",
                    "queue_delete", "redrive_many", "redrive_cancel"):
            self.assertEqual([one for one in told if one[0] == act], [(act, None, None, None)])
        self.assertIn(("run", later, "waiting", "waiting"), told)
        self.assertIn(("redrive_edited", letter, "failed", "waiting"), told)
        self.assertIn(("resolve", letter, "failed", "failed"), told)
        self.assertEqual(len([one for one in told if one[0] == "cancel"]), 1)
        self.assertEqual(len(rows), 12, told)
        only = call("GET", f"/v1/audit?task={letter}")["audit"]
        self.assertEqual([row["act"] for row in only], ["redrive_edited", "resolve"])
        self.assertEqual(only[1]["note"], "enough")
        self.assertEqual(only[0]["queue"], "q")
        self.assertEqual(len(call("GET", "/v1/audit?queue=made&act=queue_pause")["audit"]), 1)
        self.assertEqual(call("GET", "/v1/audit?who=nobody")["audit"], [])
        page = call("GET", "/v1/audit?limit=5")
        rest = call("GET", f"/v1/audit?limit=100&after={page['next']}")["audit"]
        self.assertEqual(page["audit"] + rest, rows)


if __name__ == "__main__":
    runner.main()
