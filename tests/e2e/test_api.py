# SPDX-License-Identifier: MIT
"""The task API as a caller sees it: keys, delays, deadlines, queues and lists, on each store; and
what of it survives a restart.
"""
import json
import threading
import time
import unittest

import runner
import target as does
from server import Server, chosen, on_each_store
from target import Target, answer

FAST = {"name": "fast", "max_attempts": 3, "transient": {"backoff": "fixed", "base": "20ms"}}
COUNT_SECONDS = 30
FAR_MS = 3600000
CLOCK_SLACK = 0.002  # both sides count whole milliseconds


def setup(test, store=chosen("sqlite"), choose=None, **more):
    """A target, and a server with the queue `q`, which sends to it."""
    target = Target(choose)
    test.addCleanup(target.close)
    queue = {"name": "q", "policy": "fast", "targets": [{"name": "bq", "url": target.url("/q")}]}
    return Server(test, store, [queue], policies=[FAST], **more).start(), target


def counts(server, queue="q"):
    return server.get(f"/v1/queues/{queue}").json["counts"]


def settled_counts(server, right):
    """The counts, once they are right, or as they stay: among nodes they may be a moment old where counting
    takes long."""
    end = time.monotonic() + COUNT_SECONDS
    while not right(counts(server)) and time.monotonic() < end:
        time.sleep(0.1)
    return counts(server)


@on_each_store("sqlite", "json", "memory", "postgres")
class Keys(unittest.TestCase):
    def the_same_key_and_request_is_the_same_task(self, store):  # I3
        server, target = setup(self, store)
        first = server.create(key="order-1", body="x", labels={"a": "b"})
        self.assertEqual(first.status, 201)
        self.assertEqual(first.headers["location"], f"/v1/tasks/{first.json['id']}")
        self.assertNotIn("idempotent-replayed", first.headers)
        self.assertNotIn("request", first.json)
        server.settled(first.json["id"])
        again = server.create(key="order-1", body="x", delay_ms=5)
        self.assertEqual((again.status, again.headers["idempotent-replayed"]), (200, "true"))
        self.assertEqual((again.json["id"], again.json["state"]), (first.json["id"], "succeeded"))
        self.assertEqual(len(target.seen()), 1)

    def the_same_key_and_another_request_is_a_conflict(self, store):  # I3
        server, _target = setup(self, store)
        server.add(key="order-1", body="x")
        for other in ({"body": "y"}, {"body": "x", "method": "PUT"},
                      {"body": "x", "headers": {"content-type": "a/b"}}):
            got = server.create(key="order-1", **other)
            self.assertEqual((got.status, got.code), (409, "key_conflict"))
            self.assertEqual(got.headers["content-type"], "application/problem+json")
        got = settled_counts(server, lambda now: sum(now.values()) == 1)
        self.assertEqual(sum(got.values()), 1)

    def a_field_that_there_is_not_names_what_may_be_meant(self, store):
        server, _ = setup(self, store)
        for field, meant in (("url", "did you mean target?"), ("payload", "did you mean json?"),
                             ("delay", "did you mean delay_ms?"), ("max_attempts", "did you mean retry?"),
                             ("colour", "a task has target, method, headers, body, json, ")):
            got = server.create(**{field: 1})
            self.assertEqual((got.status, got.json["field"]), (400, field))
            self.assertIn(meant, got.json["detail"])
        self.assertIn("json takes any value", server.create(body={"a": 1}).json["detail"])

    def a_key_may_come_in_the_header(self, store):
        server, _target = setup(self, store)
        first = server.create(call_headers={"Idempotency-Key": "k"}, body="x")
        again = server.create(key="k", body="x")
        self.assertEqual((first.status, again.status, again.json["id"]),
                         (201, 200, first.json["id"]))
        got = server.create(call_headers={"Idempotency-Key": "k"}, key="other")
        self.assertEqual((got.status, got.json["field"]), (400, "key"))

    def many_callers_with_one_key_make_one_task(self, store):
        server, target = setup(self, store)
        answers, start = [], threading.Barrier(8)

        def call():
            start.wait()
            answers.append(server.create(key="k", body="x"))
        callers = [threading.Thread(target=call) for _ in range(8)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        self.assertEqual(sorted(got.status for got in answers), [200] * 7 + [201])
        self.assertEqual(len({got.json["id"] for got in answers}), 1)
        server.settled(answers[0].json["id"])
        self.assertEqual(len(target.seen()), 1)

    def keys_of_two_queues_have_nothing_to_do_with_each_other(self, store):
        server, _target = setup(self, store)
        server.call("PUT", "/v1/queues/other", {})
        one, two = server.add("q", key="k", body="x"), server.add("other", key="k", body="y")
        self.assertNotEqual(one, two)


@on_each_store("sqlite", "json", "memory", "postgres")
class Times(unittest.TestCase):
    def a_delayed_task_is_not_early(self, store):  # I6
        server, target = setup(self, store)
        began = time.monotonic()
        got = server.create(delay_ms=300)
        self.assertEqual((got.json["state"], got.json["attempts"]), ("waiting", 0))
        self.assertEqual(server.settled(got.json["id"])["state"], "succeeded")
        self.assertGreaterEqual(target.seen()[0].at - began, 0.3 - CLOCK_SLACK)

    def a_due_time_may_be_given(self, store):
        server, target = setup(self, store)
        due = time.time() + 0.3
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(due)) + f".{int(due % 1 * 1000):03}Z"
        task = server.settled(server.add(due_at=text))
        self.assertEqual((task["state"], task["due_at"]), ("succeeded", text))
        self.assertGreaterEqual(target.seen()[0].wall, due - CLOCK_SLACK)

    def a_task_past_its_deadline_fails_as_expired(self, store):  # I6
        server, target = setup(self, store)
        url = target.script("/sync", does.not_before_seconds(503, 1))
        retried = server.settled(server.add(target=url, deadline_ms=500))
        self.assertEqual((retried["state"], retried["error"]["class"]), ("failed", "expired"))
        self.assertEqual(len(target.seen("/sync")), 1)
        server.post("/v1/queues/q:pause")
        late = server.add(deadline_ms=1)
        time.sleep(0.01)  # the deadline itself, nothing that could tell
        server.post("/v1/queues/q:resume")
        task = server.settled(late)
        self.assertEqual((task["state"], task["error"]["class"]), ("failed", "expired"))
        self.assertEqual(target.seen("/q"), [])

    def a_cancelled_task_is_never_sent(self, store):
        server, target = setup(self, store)
        identity = server.add(delay_ms=2000, key="k", body="x")
        got = server.post(f"/v1/tasks/{identity}:cancel")
        self.assertEqual((got.status, got.json["state"]), (200, "cancelled"))
        for verb in ("cancel", "run"):
            got = server.post(f"/v1/tasks/{identity}:{verb}")
            self.assertEqual((got.status, got.code), (409, "not_waiting"))
        self.assertEqual(server.create(key="k", body="x").json["state"], "cancelled")
        server.settled(server.add(delay_ms=2100))
        self.assertEqual(len(target.seen()), 1)

    def a_run_does_not_wait_for_the_due_time(self, store):  # D4
        server, target = setup(self, store)
        identity = server.add(delay_ms=FAR_MS)
        self.assertEqual(server.post(f"/v1/tasks/{identity}:run").status, 200)
        self.assertEqual(server.settled(identity)["state"], "succeeded")
        self.assertEqual(len(target.seen()), 1)

    def a_run_of_a_queue_takes_all_that_waits(self, store):  # D4.1-4
        server, target = setup(self, store, choose=lambda one: answer(200 if one.body != b"3" else
                                                                      503))
        ids = [server.add(delay_ms=FAR_MS, body=str(number), retry={
            "max_attempts": 5, "transient": {"backoff": "fixed", "base": "1h"}})
            for number in range(5)]
        got = server.post("/v1/queues/q:run")
        self.assertEqual((got.status, got.json["taken"]), (202, 5))
        target.wait_for(5)
        server.wait_line("run_done", queue="q", kind="manual", taken=5, succeeded=4, failed=1)
        run = server.get(f"/v1/runs/{got.json['run']}").json
        self.assertEqual((run["taken"], run["succeeded"], run["failed"], run["retrying"],
                          run["unsettled"], run["pending"]), (5, 4, 1, 1, 0, 0))
        left = server.task(ids[3])
        self.assertEqual((left["state"], left["attempts"], left["next_wait_ms"]),
                         ("waiting", 1, FAR_MS))
        self.assertEqual(server.get("/v1/runs/999").code, "run_unknown")


@on_each_store("sqlite", "json", "memory", "postgres")
class Queues(unittest.TestCase):
    def a_paused_queue_sends_nothing_but_what_is_run(self, store):
        server, target = setup(self, store)
        self.assertTrue(server.post("/v1/queues/q:pause").json["paused"])
        ids = [server.add(body=str(number)) for number in range(3)]
        server.post(f"/v1/tasks/{ids[1]}:run")
        self.assertEqual(server.settled(ids[1])["state"], "succeeded")
        self.assertEqual([one.body for one in target.seen()], [b"1"])
        self.assertEqual(settled_counts(server, lambda now: now["waiting"] == 2)["waiting"], 2)
        self.assertFalse(server.post("/v1/queues/q:resume").json["paused"])
        for identity in ids:
            self.assertEqual(server.settled(identity)["state"], "succeeded")
        self.assertEqual(len(target.seen()), 3)

    def a_purge_forgets_what_is_not_under_way(self, store):
        server, target = setup(self, store)
        release = threading.Event()
        held = server.add(target=target.script("/held", does.hold(release)))
        target.wait_for(1)
        done = server.add(key="k", body="x")
        server.settled(done)
        waiting = server.add(delay_ms=FAR_MS)
        got = server.post("/v1/queues/q:purge")
        self.assertEqual(got.status, 200)
        self.assertEqual(sum(got.json["counts"].values()), 1)
        for identity in (done, waiting):
            self.assertEqual(server.get(f"/v1/tasks/{identity}").code, "task_unknown")
        self.assertEqual(server.create(key="k", body="y").status, 201)  # the key is free again
        release.set()
        self.assertEqual(server.settled(held)["state"], "succeeded")

    def a_queue_is_made_changed_and_deleted_by_call(self, store):  # E1
        server, target = setup(self, store)
        rule = {"backoff": "fixed", "base": "10ms"}
        settings = {"policy": {"max_attempts": 2, "transient": rule},
                    "targets": [{"name": "bq", "url": target.url("/sync")}]}
        made = server.call("PUT", "/v1/queues/sync", settings)
        self.assertEqual((made.status, made.json["in_file"]), (201, False))
        self.assertEqual(made.json["settings"]["targets"][0]["url"], target.url("/sync"))
        self.assertEqual(server.settled(server.add("sync"))["settled_by"], "bq")
        settings["targets"][0]["url"] = target.script("/else", answer(500))
        self.assertEqual(server.call("PUT", "/v1/queues/sync", settings).status, 200)
        task = server.settled(server.add("sync"))
        self.assertEqual((task["state"], task["attempts"]), ("failed", 2))
        names = [queue["name"] for queue in server.get("/v1/queues").json["queues"]]
        self.assertEqual(sorted(names), ["q", "sync"])
        server.add("sync", delay_ms=FAR_MS)
        got = server.call("DELETE", "/v1/queues/sync")
        self.assertEqual((got.status, got.code), (409, "queue_not_empty"))
        self.assertEqual(server.call("DELETE", "/v1/queues/sync?force=true").status, 204)
        self.assertEqual(server.get("/v1/queues/sync").code, "queue_unknown")
        self.assertEqual(server.create("sync").code, "queue_unknown")

    def a_queue_of_the_file_is_the_files(self, store):
        server, _target = setup(self, store)
        for method, body in (("PUT", {}), ("DELETE", None)):
            got = server.call(method, "/v1/queues/q", body)
            self.assertEqual((got.status, got.code), (409, "queue_in_file"))

    def a_deleted_queue_may_be_made_anew(self, store):
        server, target = setup(self, store)
        settings = {"targets": [{"name": "bq", "url": target.url("/sync")}]}
        server.call("PUT", "/v1/queues/sync", settings)
        old = server.add("sync", key="k", body="x", delay_ms=FAR_MS)
        server.call("DELETE", "/v1/queues/sync?force=true")
        self.assertEqual(server.call("PUT", "/v1/queues/sync", settings).status, 201)
        self.assertEqual(sum(counts(server, "sync").values()), 0)
        new = server.add("sync", key="k", body="y")
        self.assertNotEqual(new, old)
        self.assertEqual(server.settled(new)["state"], "succeeded")

    def a_change_while_a_run_is_tallied_does_no_harm(self, store):
        server, target = setup(self, store)
        release = threading.Event()
        settings = {"targets": [{"name": "bq", "url": target.script("/held", does.hold(release))}]}
        server.call("PUT", "/v1/queues/sync", settings)
        server.add("sync", delay_ms=FAR_MS)
        run = server.post("/v1/queues/sync:run").json["run"]
        target.wait_for(1)
        server.call("PUT", "/v1/queues/sync", settings)
        self.assertEqual(server.get(f"/v1/runs/{run}").json["queue"], "sync")
        release.set()
        server.wait_line("run_done", queue="sync", taken=1, succeeded=1)

    def settings_that_are_wrong_are_refused_and_leave_no_trace(self, store):  # I7
        server, _target = setup(self, store)
        for settings in ({"targets": 1}, {"polcy": "sync"}, {"policy": "nobody"},
                         {"targets": [{"name": "x", "url": "ftp://a"}]}, [], "x"):
            got = server.call("PUT", "/v1/queues/bad", settings)
            self.assertEqual((got.status, got.code), (400, "invalid_request"), settings)
        self.assertEqual(server.get("/v1/queues/bad").status, 404)


@on_each_store("sqlite", "json", "memory", "postgres")
class Lists(unittest.TestCase):
    def pages_go_on_where_the_last_one_ended(self, store):
        server, _target = setup(self, store)
        ids = [server.add(delay_ms=FAR_MS, body="x" * 10) for _ in range(7)]
        seen, after = [], ""
        for expected in (3, 3, 1):
            page = server.get(f"/v1/queues/q/tasks?limit=3{after}").json
            self.assertEqual(len(page["tasks"]), expected)
            seen += [task["id"] for task in page["tasks"]]
            self.assertNotIn("body", page["tasks"][0].get("request", {}))
            after = f"&after={page['next']}"
        self.assertEqual((seen, page["next"]), (ids, None))  # oldest first

    def states_and_labels_narrow_it(self, store):
        server, target = setup(self, store)
        target.script("/bad", answer(400))
        waiting = server.add(delay_ms=FAR_MS, labels={"kind": "a", "n": "1"})
        good = server.add(labels={"kind": "a", "n": "2"})
        bad = server.add(target=target.url("/bad"), labels={"kind": "b"})
        for identity in (good, bad):
            server.settled(identity)

        def found(query):
            return [task["id"] for task in server.get(f"/v1/queues/q/tasks?{query}").json["tasks"]]
        self.assertEqual(found("state=waiting"), [waiting])
        self.assertEqual(found("state=succeeded"), [good])
        self.assertEqual(found("state=failed"), [bad])
        self.assertEqual(found("state=cancelled"), [])
        self.assertEqual(found("label.kind=a"), [waiting, good])
        self.assertEqual(found("label.kind=a&state=succeeded"), [good])
        self.assertEqual(found("label.kind=c"), [])
        self.assertEqual(server.task(good)["labels"], {"kind": "a", "n": "2"})
        for query in ("state=maybe", "limit=0", "limit=x", "nothing=1"):
            self.assertEqual(server.get(f"/v1/queues/q/tasks?{query}").status, 400)
        self.assertEqual(server.get("/v1/queues/none/tasks").code, "queue_unknown")

    def a_task_names_its_queue_and_how_often_it_may_be_tried(self, store):
        server, _target = setup(self, store)
        identity = server.add()
        whole = server.settled(identity)
        listed = server.get("/v1/queues/q/tasks").json["tasks"][0]
        for task in (whole, listed):
            self.assertEqual((task["queue"], task["max_attempts"]), ("q", 3))
        own = server.create(retry={"max_attempts": 7})
        self.assertEqual(own.json["max_attempts"], 7)
        self.assertEqual(server.settled(own.json["id"])["max_attempts"], 7)

    def a_batch_answers_each_in_order(self, store):
        server, target = setup(self, store)
        tasks = [{"body": "0"}, {"body": 1}, {"key": "k", "body": "2"}, {"key": "k", "body": "2"},
                 {"key": "k", "body": "4"}, {"what": 5}, {"body": "6"}]
        for form in (json.dumps(tasks).encode(),
                     "\n".join(json.dumps(task) for task in tasks).encode() + b"\n"):
            got = server.post("/v1/queues/q/tasks:batch", form)
            self.assertEqual(got.status, 200)
            results = got.json["results"]
            self.assertEqual([result.get("error", {}).get("code") for result in results],
                             [None, "invalid_request", None, None, "key_conflict",
                              "invalid_request", None])
            self.assertEqual(results[2]["id"], results[3]["id"])
            for index in (0, 2, 6):
                self.assertEqual(server.settled(results[index]["id"])["state"], "succeeded")
        self.assertEqual(sorted(one.body for one in target.seen()),
                         [b"0", b"0", b"2", b"6", b"6"])

    def a_batch_has_at_most_a_thousand(self, store):
        server, _target = setup(self, store)
        full = [{"delay_ms": FAR_MS}] * 1000
        got = server.post("/v1/queues/q/tasks:batch", full)
        self.assertEqual((got.status, len({one["id"] for one in got.json["results"]})), (200, 1000))
        self.assertEqual(server.post("/v1/queues/q/tasks:batch", full + full[:1]).status, 400)
        got = settled_counts(server, lambda now: now["waiting"] == 1000)
        self.assertEqual(got["waiting"], 1000)


class Refusals(unittest.TestCase):
    def what_is_refused_leaves_no_trace(self):  # I7
        server, target = setup(self)
        self.assertEqual(server.create("none").code, "queue_unknown")
        wrong = {"what": 1, "target": "ftp://x", "delay_ms": -1, "labels": {"a": 1}, "key": "",
                 "body": 1, "body_base64": "!", "retry": {"max": 1}, "deadline_ms": 0,
                 "headers": {"a b": "c"}, "timeout_ms": "1s", "repeatable": 1, "due_at": "soon"}
        for field, value in wrong.items():
            got = server.create(**{field: value})
            self.assertEqual((got.status, got.code), (400, "invalid_request"), field)
            self.assertTrue(got.json["field"].startswith(field), got)
        for body in (b"", b"{", b"[]", b"{} {}", b"\xff"):
            self.assertEqual(server.post("/v1/queues/q/tasks", body).status, 400)
        got = server.create(body="x" * (1 << 20))
        self.assertEqual(got.status, 413)
        self.assertEqual(sum(counts(server).values()), 0)
        self.assertEqual(target.seen(), [])

    def ids_that_nobody_has_are_unknown(self):
        server, _target = setup(self)
        real = server.add(delay_ms=FAR_MS)
        for identity in ("x", "0198c0de-0000-7000-8000-000000000000", real[:-1] +
                         ("0" if real[-1] != "0" else "1")):
            for method, verb in (("GET", ""), ("POST", ":run"), ("POST", ":cancel")):
                got = server.call(method, f"/v1/tasks/{identity}{verb}")
                self.assertEqual((got.status, got.code), (404, "task_unknown"), identity)

    def a_full_backlog_is_said_with_when_to_come_back(self):
        server, _target = setup(self, limits={"backlog": 2})
        for _ in range(2):
            server.add(delay_ms=FAR_MS)
        self.assertEqual(counts(server)["waiting"], 2)  # and among nodes they are counted for it
        got = server.create(delay_ms=FAR_MS)
        self.assertEqual((got.status, got.code), (503, "overloaded"))
        self.assertGreaterEqual(int(got.headers["retry-after"]), 1)


@on_each_store("sqlite", "json", "postgres")
class AfterARestart(unittest.TestCase):
    def queues_and_their_pauses_are_still_there(self, store):  # E1, E7
        server, target = setup(self, store)
        settings = {"policy": "sync", "targets": [{"name": "bq", "url": target.url("/sync")}]}
        before = server.call("PUT", "/v1/queues/sync", settings).json
        server.call("PUT", "/v1/queues/gone", {})
        server.call("DELETE", "/v1/queues/gone")
        server.post("/v1/queues/q:pause")
        waiting = server.add("q")
        server.restart()
        after = server.get("/v1/queues/sync").json
        self.assertEqual(after["settings"], before["settings"])
        self.assertEqual(server.get("/v1/queues/gone").status, 404)
        self.assertTrue(server.get("/v1/queues/q").json["paused"])
        self.assertEqual(server.settled(server.add("sync"))["settled_by"], "bq")
        server.post("/v1/queues/q:resume")
        self.assertEqual(server.settled(waiting)["state"], "succeeded")

    def changes_of_a_queue_at_the_same_time_are_all_there(self, store):  # I1
        server, _target = setup(self, store)
        server.call("PUT", "/v1/queues/x", {"concurrency": 1})
        rounds, start = range(30), threading.Barrier(2)

        def change(calls):
            connection = server.connect()
            for method, path, body in calls:
                start.wait()
                server.call(method, path, body, connection=connection)
        both = [threading.Thread(target=change, args=(calls,)) for calls in (
            [("PUT", "/v1/queues/x", {"concurrency": 2 + number}) for number in rounds],
            [("POST", "/v1/queues/x:" + ("pause" if number % 2 else "resume"), None)
             for number in rounds])]
        for one in both:
            one.start()
        for one in both:
            one.join()
        before = server.get("/v1/queues/x").json
        self.assertEqual((before["paused"], before["settings"]["concurrency"]), (True, 31))
        server.restart()
        self.assertEqual(server.get("/v1/queues/x").json, before)

    def tasks_keys_and_counts_are_still_there(self, store):  # E7, I3
        server, target = setup(self, store)
        target.script("/bad", answer(400))
        first = server.create(key="k", body="x")
        ids = [first.json["id"], server.add(target=target.url("/bad")),
               server.add(delay_ms=FAR_MS, labels={"a": "b"}), server.add(delay_ms=FAR_MS)]
        server.post(f"/v1/tasks/{ids[3]}:cancel")
        for identity in ids[:2]:
            server.settled(identity)
        before = [server.task(identity) for identity in ids], counts(server)
        server.restart()
        self.assertEqual(([server.task(identity) for identity in ids], counts(server)), before)
        self.assertEqual(server.create(key="k", body="x").status, 200)
        self.assertEqual(server.create(key="k", body="y").status, 409)
        self.assertEqual(len(target.seen("/q")), 1)

    def a_delayed_task_goes_out_when_it_is_due(self, store):  # I6
        server, target = setup(self, store)
        began = time.monotonic()
        identity = server.add(delay_ms=400)
        server.restart()
        self.assertEqual(server.settled(identity)["state"], "succeeded")
        self.assertGreaterEqual(target.seen()[0].at - began, 0.4 - CLOCK_SLACK)

    def the_count_of_attempts_goes_on(self, store):  # I6
        server, target = setup(self, store)
        url = target.script("/sync", answer(503))
        slow = {"max_attempts": 3, "transient": {"backoff": "schedule", "schedule": ["1ms", "1h"]}}
        identity = server.add(target=url, retry=slow)
        target.wait_for(2)
        server.wait_line("task_retry", task=identity, attempt=2)
        server.restart()
        server.post(f"/v1/tasks/{identity}:run")
        task = server.settled(identity)
        self.assertEqual((task["state"], task["attempts"], len(task["trail"])), ("failed", 3, 3))
        self.assertEqual([one.attempt for one in target.seen()], [1, 2, 3])


if __name__ == "__main__":
    runner.main()
