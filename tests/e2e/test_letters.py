# SPDX-License-Identifier: MIT
"""Dead letters on the real server: what is told of them, redrive of one and of many, edits, closing;
a kill in the middle of it. Requirements A7, E4, E6.
"""
import datetime
import json
import threading
import time
import unittest

import runner
from polling import until
from server import Server, on_each_store
from target import Target, answer

FAST = {"name": "fast", "max_attempts": 3, "transient": {"backoff": "fixed", "base": "20ms"}}


class Desk:
    """A server with the queue `q`, and a target that answers as it is told for each path."""

    def __init__(self, test, store, **queue):
        self.statuses = {}
        self.target = Target(self._choose)
        test.addCleanup(self.target.close)
        self.server = Server(test, store, [{"name": "q", "policy": "fast", **queue}],
                             policies=[FAST]).start()

    def _choose(self, request):
        return answer(self.statuses.get(request.path, 200), {"X-Why": "said so"}, b"because")

    def fail(self, status=400, path="/x", **task):
        """The id of a task that has failed for good."""
        self.statuses[path] = status
        identity = self.server.add(target=self.target.url(path), **task)
        task = self.server.settled(identity)
        if task["state"] != "failed":
            raise AssertionError(f"it did not fail: {task}")
        return identity

    def letters(self, query=""):
        got = self.server.get(f"/v1/dead-letters{query}")
        if got.status != 200:
            raise AssertionError(f"no letters: {got}")
        return got.json["dead_letters"]

    def letter(self, identity):
        return self.server.get(f"/v1/dead-letters/{identity}").json

    def redrive(self, identity, **edit):
        return self.server.post(f"/v1/dead-letters/{identity}:redrive", edit or None)

    def redrive_many(self, **wish):
        return self.server.post("/v1/dead-letters:redrive", wish)

    def audit(self, query=""):
        return self.server.get(f"/v1/audit{query}").json["audit"]


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@on_each_store("sqlite", "json", "memory", "postgres")
class Letters(unittest.TestCase):
    def a_letter_tells_all_there_is_to_know(self, store):  # A7, E4
        desk = Desk(self, store)
        began = time.time()
        labels = {"bookmark_id": "b-17", "job_type": "llm_processing"}
        identity = desk.fail(503, json={"url": "https://example.org/"}, key="save-1", labels=labels)
        desk.fail(400, path="/other")
        [letter] = desk.letters("?class=transient")
        self.assertEqual((letter["id"], letter["queue"], letter["key"]), (identity, "q", "save-1"))
        self.assertEqual((letter["labels"], letter["job_type"]), (labels, "llm_processing"))
        self.assertEqual((letter["status"], letter["resolved_at"], letter["note"]),
                         ("failed", None, None))
        self.assertEqual((letter["retry_count"], letter["retryable"]), (3, True))
        self.assertEqual((letter["error"]["class"], letter["error"]["status"]), ("transient", 503))
        # Among nodes the server's time is known a little late, by as much as its word took.
        self.assertLessEqual(began - 0.5, moment(letter["created_at"]))
        self.assertLessEqual(moment(letter["created_at"]), moment(letter["failed_at"]))
        self.assertNotIn("payload", letter)
        whole = desk.letter(identity)
        self.assertEqual(json.loads(whole["payload"]), {"url": "https://example.org/"})
        self.assertEqual([row["attempt"] for row in whole["trail"]], [1, 2, 3])
        self.assertEqual(whole["request"]["target"], desk.target.url("/x"))
        self.assertIsNone(whole["edit"])
        self.assertEqual((whole["attempts"], whole["max_attempts"]), (3, 3))
        shown = desk.server.task(identity)
        self.assertEqual(whole["response"], shown["response"])
        self.assertEqual((whole["response"]["status"], whole["settled_by"]),
                         (503, shown["settled_by"]))
        self.assertNotIn("response", letter)

    def whether_it_may_help_to_send_it_again_is_told(self, store):  # A7
        desk = Desk(self, store)
        for status, expected in ((503, True), (429, True), (400, False), (401, False), (410, False)):
            identity = desk.fail(status, path=f"/{status}")
            self.assertEqual(desk.letter(identity)["retryable"], expected, status)

    def a_letter_can_be_sent_again_as_it_is(self, store):  # E6
        desk = Desk(self, store)
        identity = desk.fail(400, body="first", key="k")
        self.assertEqual(desk.redrive(identity).status, 202)
        desk.server.settled(identity)
        self.assertEqual(desk.letter(identity)["status"], "failed")  # again
        desk.statuses["/x"] = 200
        got = desk.redrive(identity)
        self.assertEqual((got.status, got.json["id"]), (202, identity))
        task = desk.server.settled(identity)
        self.assertEqual((task["state"], task["attempts"], len(task["trail"])), ("succeeded", 1, 3))
        self.assertEqual([(one.attempt, one.key, one.body) for one in desk.target.seen()],
                         [(1, "k", b"first"), (2, "k", b"first"), (3, "k", b"first")])
        letter = desk.letter(identity)
        self.assertEqual(letter["status"], "resolved")
        self.assertIsNotNone(letter["resolved_at"])
        refused = desk.redrive(identity)
        self.assertEqual((refused.status, refused.code), (409, "not_dead"))
        self.assertIn("succeeded", refused.json["detail"])

    def a_letter_can_be_mended_and_sent(self, store):  # E6
        desk = Desk(self, store)
        identity = desk.fail(400, body="wrong", key="k", headers={"x-a": "1", "content-type": "a/b"})
        got = desk.redrive(identity, target=desk.target.url("/right"), json={"a": 1.10},
                           headers={"x-a": "2", "authorization": "Bearer hush"})
        self.assertEqual(got.status, 202)
        self.assertEqual(desk.server.settled(identity)["state"], "succeeded")
        sent = desk.target.seen("/right")[0]
        self.assertEqual((sent.body, sent.key), (b'{"a": 1.1}', "k~2"))
        self.assertEqual((sent.headers["x-a"], sent.headers["authorization"]), ("2", "Bearer hush"))
        letter = desk.letter(identity)
        self.assertEqual(letter["payload"], "wrong")  # the first request stays as it was
        self.assertEqual(letter["edit"]["payload"], '{"a": 1.1}')
        self.assertEqual(letter["edit"]["target"], desk.target.url("/right"))
        self.assertNotIn("hush", json.dumps(letter))  # I10
        same = desk.server.create(target=desk.target.url("/x"), body="wrong", key="k",
                                  headers={"x-a": "1", "content-type": "a/b"})
        self.assertEqual((same.status, same.json["id"]), (200, identity))

    def a_letter_can_be_closed_with_a_note(self, store):  # E4, E6
        desk = Desk(self, store)
        identity = desk.fail(400)
        got = desk.server.post(f"/v1/dead-letters/{identity}:resolve", {"note": "paid by hand ✓"})
        self.assertEqual((got.status, got.json["status"]), (200, "resolved"))
        letter = desk.letter(identity)
        self.assertEqual((letter["status"], letter["note"]), ("resolved", "paid by hand ✓"))
        self.assertIsNotNone(letter["resolved_at"])
        for verb in ("redrive", "resolve"):
            refused = desk.server.post(f"/v1/dead-letters/{identity}:{verb}")
            self.assertEqual((refused.status, refused.code), (409, "not_dead"), verb)
        self.assertEqual(desk.letters("?status=failed"), [])
        self.assertEqual(len(desk.letters("?status=resolved")), 1)
        self.assertEqual(len(desk.target.seen()), 1)

    def letters_can_be_listed_by_what_they_are(self, store):  # E6
        desk = Desk(self, store)
        early = [desk.fail(400, path="/early") for _ in range(3)]
        desk.server.call("PUT", "/v1/queues/other", {"policy": "fast"})
        other = desk.server.add("other", target=desk.target.url("/early"))
        desk.server.settled(other)
        since = desk.letter(other)["failed_at"]
        time.sleep(0.002)  # the next one fails in another millisecond
        late = desk.fail(401, path="/late")
        def named(query):
            return [one["id"] for one in desk.letters(query)]
        self.assertEqual(named(""), early + [other, late])
        self.assertEqual(named("?queue=q"), early + [late])
        self.assertEqual(named("?class=auth"), [late])
        self.assertEqual(named("?queue=q&class=invalid"), early)
        self.assertEqual(named(f"?since={since}"), [other, late])
        self.assertEqual(named(f"?until={since}"), early)
        page = desk.server.get("/v1/dead-letters?limit=2").json
        self.assertEqual([one["id"] for one in page["dead_letters"]], early[:2])
        rest = desk.server.get(f"/v1/dead-letters?limit=100&after={page['next']}").json
        self.assertEqual([one["id"] for one in rest["dead_letters"]], [early[2], other, late])
        self.assertIsNone(rest["next"])

    def what_is_no_letter_is_told_apart(self, store):
        desk = Desk(self, store)
        fine = desk.server.add(target=desk.target.url("/fine"))
        desk.server.settled(fine)
        unknown = "01900000-0000-7000-8000-000000000000"
        self.assertEqual(desk.server.get(f"/v1/dead-letters/{fine}").status, 404)
        self.assertEqual(desk.server.get(f"/v1/dead-letters/{unknown}").status, 404)
        self.assertEqual(desk.redrive(fine).code, "not_dead")
        self.assertEqual(desk.redrive(unknown).status, 404)
        self.assertEqual(desk.redrive("rubbish").status, 404)
        self.assertEqual(desk.server.get("/v1/redrives/77").status, 404)
        self.assertEqual(desk.server.post("/v1/redrives/rubbish:cancel").status, 404)

    def a_redrive_to_another_origin_leaves_secrets_behind(self, store):  # I10
        desk = Desk(self, store)
        other = Target(desk._choose)
        self.addCleanup(other.close)
        given = {"authorization": "Bearer one", "cookie": "c=1", "x-api-key": "k", "x-plain": "p"}
        identity = desk.fail(400, headers=given)
        def sent(target, path, **edit):
            desk.statuses[path] = 400
            self.assertEqual(desk.redrive(identity, target=target.url(path), **edit).status, 202)
            desk.server.settled(identity)
            return {name for name in target.seen(path)[-1].headers if name in given}
        self.assertEqual(sent(desk.target, "/same"), set(given))  # the same origin
        self.assertEqual(sent(other, "/other"), {"x-plain"})
        self.assertEqual(desk.audit()[-1]["note"],
                         "changed: target; left out: authorization, cookie, x-api-key")
        shown = desk.letter(identity)
        self.assertEqual(shown["edit"]["headers"], {"x-plain": "p"})
        self.assertEqual(set(shown["request"]["headers"]), set(given))  # the original stays
        self.assertEqual(sent(desk.target, "/back"), {"x-plain"})  # as the edit stands
        self.assertEqual(sent(other, "/named", headers={"cookie": "d=2"}), {"cookie"})
        self.assertEqual(sent(desk.target, "/home"), set())  # what was meant for the other one
        self.assertEqual(desk.audit()[-1]["note"], "changed: target; left out: cookie")

    def what_was_meant_for_the_queue_s_target_stays_there(self, store):  # I10
        target = Target(lambda _request: answer(400))
        self.addCleanup(target.close)
        desk = Desk(self, store, targets=[{"name": "t", "url": target.url("/hook")}])
        identity = desk.server.add(headers={"Authorization": "Bearer one"})
        desk.server.settled(identity)
        for place, path, names in ((target, "/hook2", True), (desk.target, "/x", False)):
            self.assertEqual(desk.redrive(identity, target=place.url(path)).status, 202)
            desk.server.settled(identity)
            self.assertEqual("authorization" in place.seen(path)[-1].headers, names)

    def a_bad_edit_names_its_field_and_leaves_no_trace(self, store):  # I7
        desk = Desk(self, store)
        identity = desk.fail(400, body="first")
        before = desk.letter(identity)
        for body, field in ((b"[]", None), (b"{", None), (b'{"body":1}', "body"),
                            (b'{"target":"ftp://x/"}', "target"), (b'{"target":null}', "target"),
                            (b'{"headers":[]}', "headers"), (b'{"headers":{"x":"a\\nb"}}', "headers.x"),
                            (b'{"headers":{"host":"h"}}', "headers.host"),
                            (b'{"body":"a","json":1}', "json"), (b'{"body_base64":"?"}', "body_base64"),
                            (b'{"key":"k"}', "key"), (b'{"body":"a","body":"b"}', "body"),
                            (b'{"delay_ms":1}', "delay_ms"), (b"\xff", None)):
            got = desk.server.post(f"/v1/dead-letters/{identity}:redrive", body)
            self.assertEqual((got.status, got.code), (400, "invalid_request"), body)
            self.assertEqual(got.json.get("field"), field, body)
        for body, field in ((b"[]", None), (b'{"note":1}', "note"), (b'{"nota":"x"}', "nota"),
                            (json.dumps({"note": "n" * 5000}).encode(), "note")):
            got = desk.server.post(f"/v1/dead-letters/{identity}:resolve", body)
            self.assertEqual((got.status, got.json.get("field")), (400, field), body)
        for body, field in ((b"[]", None), (b'{"rate_per_second":0}', "rate_per_second"),
                            (b'{"rate_per_second":-1}', "rate_per_second"),
                            (b'{"rate_per_second":1e-9}', "rate_per_second"),
                            (b'{"rate_per_second":1e99}', "rate_per_second"),
                            (b'{"rate_per_second":"1"}', "rate_per_second"),
                            (b'{"dry_run":1}', "dry_run"), (b'{"filter":[]}', "filter"),
                            (b'{"filter":{"class":"odd"}}', "filter.class"),
                            (b'{"filter":{"since":"yesterday"}}', "filter.since"),
                            (b'{"filter":{"state":"x"}}', "filter.state"), (b'{"rate":1}', "rate")):
            got = desk.server.post("/v1/dead-letters:redrive", body)
            self.assertEqual((got.status, got.json.get("field")), (400, field), body)
        self.assertEqual(desk.redrive_many(filter={"queue": "nowhere"}).code, "queue_unknown")
        for query, field in (("status=x", "status"), ("class=x", "class"), ("since=x", "since"),
                             ("limit=0", "limit"), ("after=x", "after"), ("what=1", "what")):
            got = desk.server.get(f"/v1/dead-letters?{query}")
            self.assertEqual((got.status, got.json.get("field")), (400, field), query)
        self.assertEqual(desk.letter(identity), before)
        self.assertEqual(desk.audit(), [])
        self.assertEqual(len(desk.target.seen()), 1)

    def many_letters_can_be_sent_at_a_rate(self, store):  # E6
        desk = Desk(self, store)
        letters = [desk.fail(400, body=str(number)) for number in range(30)]
        kept = desk.fail(401, path="/auth")
        desk.statuses["/x"] = 200
        counted = desk.redrive_many(filter={"class": "invalid"}, dry_run=True)
        self.assertEqual((counted.status, counted.json), (200, {"redrive": None, "matched": 30}))
        self.assertEqual(len(desk.target.seen()), 31)
        began = time.monotonic()
        begun = desk.redrive_many(filter={"queue": "q", "class": "invalid"}, rate_per_second=60)
        self.assertEqual((begun.status, begun.json["matched"]), (202, 30))
        path = f"/v1/redrives/{begun.json['redrive']}"
        until(lambda: desk.server.get(path).json["state"] == "done", "the end of the redrive")
        progress = desk.server.get(path).json
        self.assertEqual((progress["matched"], progress["redriven"], progress["skipped"]),
                         (30, 30, 0))
        self.assertEqual(progress["left"], 0)
        for identity in letters:
            self.assertEqual(desk.server.settled(identity)["state"], "succeeded")
        times = [one.at for one in desk.target.seen("/x")[30:]]
        self.assertEqual(len(times), 30)
        # A tenth of a second's worth may be saved up. From the call on: the first one may be held up on
        # its way to the target, and the others then seem to follow it too soon.
        self.assertGreaterEqual(times[-1] - began, (30 - 6) / 60 - 0.01)
        self.assertEqual(desk.letter(kept)["status"], "failed")
        self.assertEqual(desk.server.post(f"{path}:cancel").json["state"], "done")


@on_each_store("sqlite", "json", "postgres")
class AcrossKills(unittest.TestCase):
    def letters_edits_notes_and_acts_survive_a_kill(self, store):  # E4, E7
        desk = Desk(self, store)
        identity = desk.fail(400, body="first", key="k")
        desk.redrive(identity, json=[2])
        desk.server.settled(identity)
        closed = desk.fail(400)
        desk.server.post(f"/v1/dead-letters/{closed}:resolve", {"note": "why"})
        before = [desk.letter(identity), desk.letter(closed), desk.audit()]
        desk.server.restart()
        self.assertEqual([desk.letter(identity), desk.letter(closed), desk.audit()], before)
        desk.statuses["/x"] = 200
        self.assertEqual(desk.redrive(identity).status, 202)
        desk.server.settled(identity)
        sent = desk.target.seen("/x")[-1]
        self.assertEqual((sent.body, sent.key), (b"[2]", "k~2"))  # the edit stands

    def a_kill_in_the_middle_of_a_redrive_loses_and_repeats_nothing(self, store):  # E6, E7
        count = 150 if store == "sqlite" else 60
        desk = Desk(self, store)
        letters = [desk.fail(400, body=str(number)) for number in range(count)]
        desk.statuses["/x"] = 200
        live, stop = [], threading.Event()
        redrive = desk.redrive_many(rate_per_second=count / 2).json["redrive"]
        path = f"/v1/redrives/{redrive}"

        def keep_coming():
            while not stop.is_set():
                try:
                    live.append(desk.server.add(target=desk.target.url("/live")))
                except (OSError, AssertionError):  # it is dead at the moment
                    stop.wait(0.05)
                stop.wait(0.01)

        caller = threading.Thread(target=keep_coming, daemon=True)
        caller.start()
        for share in (0.2, 0.6):
            until(lambda: desk.server.get(path).json["redriven"] >= count * share, "progress")
            desk.server.restart()
            # Where others might look after it, it is taken over once they are known to be gone.
            until(lambda: desk.server.get(path).status == 200, "the redrive")
            self.assertIn(desk.server.get(path).json["state"], ("counting", "running"))
        until(lambda: desk.server.get(path).json["state"] == "done", "the end of the redrive")
        stop.set()
        caller.join()
        progress = desk.server.get(path).json
        self.assertEqual((progress["matched"], progress["redriven"]), (count, count))
        acts = [row["task"] for row in self._all_acts(desk, "redrive")]
        self.assertEqual(sorted(acts), sorted(letters))  # each of them, once
        for identity in letters:
            task = desk.server.settled(identity)
            self.assertEqual(task["state"], "succeeded")
            for row in task["trail"][1:-1]:  # sent more than once: only what the kill cut short
                self.assertEqual(row["message"], "interrupted by a restart")
        for identity in live:
            self.assertEqual(desk.server.settled(identity)["state"], "succeeded")
        self.assertEqual(desk.letters("?status=failed"), [])

    @staticmethod
    def _is_counted(told, redriven):
        return told["state"] == "running" and told["skipped"] == 9 and told["redriven"] >= redriven

    def a_kill_does_not_change_what_a_redrive_tells(self, store):  # E6, E7
        desk = Desk(self, store)
        letters = [desk.fail(400, body=str(number)) for number in range(40)]
        desk.statuses["/x"] = 200
        path = f"/v1/redrives/{desk.redrive_many(rate_per_second=15).json['redrive']}"
        until(lambda: desk.server.get(path).json["redriven"] >= 5, "progress")
        for identity in letters[-8:]:
            got = desk.server.post(f"/v1/dead-letters/{identity}:resolve", {"note": "by hand"})
            self.assertEqual(got.status, 200)
        self.assertEqual(desk.redrive(letters[-9]).status, 202)  # likewise somebody else's doing
        for _ in range(2):
            redriven = desk.server.get(path).json["redriven"]
            desk.server.restart()
            until(lambda: desk.server.get(path).status == 200, "the redrive")
            # Among nodes it is told from what the dead one kept until this one has counted what is left.
            until(lambda: self._is_counted(desk.server.get(path).json, redriven), "the count")
            told = desk.server.get(path).json
            self.assertEqual((told["matched"], told["skipped"]), (40, 9))
            self.assertEqual(told["left"], 40 - 9 - told["redriven"])
            acts = len(self._all_acts(desk, "redrive")) - 1  # now: never less than was told
            self.assertTrue(redriven <= told["redriven"] <= acts, (redriven, told, acts))
        until(lambda: desk.server.get(path).json["state"] == "done", "the end of the redrive")
        told = desk.server.get(path).json
        self.assertEqual((told["redriven"], told["skipped"], told["left"]), (31, 9, 0))

    @staticmethod
    def _all_acts(desk, act):
        after, rows = 0, []
        while after is not None:
            page = desk.server.get(f"/v1/audit?act={act}&limit=100&after={after}").json
            rows += page["audit"]
            after = page["next"]
        return rows

    def a_cancelled_redrive_stays_cancelled(self, store):  # E6
        desk = Desk(self, store)
        for number in range(40):
            desk.fail(400, body=str(number))
        desk.statuses["/x"] = 200
        path = f"/v1/redrives/{desk.redrive_many(rate_per_second=10).json['redrive']}"
        until(lambda: desk.server.get(path).json["redriven"] >= 5, "progress")
        stopped = desk.server.post(f"{path}:cancel")
        self.assertEqual((stopped.status, stopped.json["state"]), (200, "cancelled"))
        desk.server.restart()
        until(lambda: desk.server.get("/v1/queues/q").json["counts"]["running"] == 0, "quiet")
        left = len(desk.letters("?status=failed&limit=100"))
        self.assertGreaterEqual(left, 25)
        time.sleep(0.5)  # nothing tells that nothing happens
        self.assertEqual(len(desk.letters("?status=failed&limit=100")), left)
        found = desk.server.get(path)
        if store == "postgres":  # where other nodes tell of it, too
            self.assertEqual(found.json, stopped.json)
        else:
            self.assertEqual(found.status, 404)


if __name__ == "__main__":
    runner.main()
