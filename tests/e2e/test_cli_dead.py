# SPDX-License-Identifier: MIT
"""`daruma dead`, `unsettled`, `settle` and `audit` against the real server: what people do when tasks
fail (E4, E6, A7), seen through the command line. What no real server says is said by a stand-in.
"""
import json
import os
import unittest

import runner
from server import Server
from target import Target, answer, read_then_reset, silence
from test_cli_client import (ID, OTHER, Answer, StandIn, on_terminal, page, problem, run,
                             unused_url)

ACTS = ("list", "show", "redrive", "cancel", "resolve")
OPERANDS = {"show": [ID], "redrive": [ID], "cancel": ["7"], "resolve": [ID]}
ONCE = {"max_attempts": 1}


class World:
    """A server with dead letters, and the target that made them."""

    def __init__(self, test, *acts, **more):
        self.test, self.target = test, Target()
        self.url = self.target.script("/t", *(acts or (answer(500),)))
        self.server = Server(test, queues=[{"name": "q"}, {"name": "other"}], **more).start()
        self.at = {"DARUMA_URL": f"http://127.0.0.1:{self.server.port}"}

    def die(self, queue="q", **more):
        task = {"target": self.url, "retry": ONCE, "body": "payload", **more}
        identity = self.server.add(queue, **task)
        self.test.assertEqual(self.server.settled(identity)["state"], "failed")
        return identity

    def run(self, *arguments, **more):
        return run(*map(str, arguments), **{**self.at, **more})

    def json(self, *arguments):
        status, out, err = self.run(*arguments, "--json")
        self.test.assertEqual(status, 0, err)
        return json.loads(out)


class List(unittest.TestCase):
    def dead_letters_are_listed_with_why_they_failed(self):  # E6
        world = World(self)
        first = world.die(labels={"job_type": "llm_processing"})
        second = world.die("other", body="")
        status, out, err = world.run("dead", "list")
        self.assertEqual((status, err), (0, ""))
        titles, *rows = out.splitlines()
        self.assertRegex(titles, r"^ID +AGE +QUEUE +WHY +STATUS +TRIES +LABELS +REQUEST$")
        self.assertEqual([row.split()[:1] + row.split()[2:7] for row in rows],
                         [[first, "q", "transient", "500", "failed", "1"],
                          [second, "other", "transient", "500", "failed", "1"]])
        self.assertIn("job_type=llm_processing", rows[0])
        self.assertIn("transient 500", rows[0])
        self.assertIn(f"POST {world.url}", rows[0])

    def what_is_asked_for_is_what_is_listed(self):
        world = World(self, answer(500), answer(422), answer(500))
        ids = [world.die("q"), world.die("q"), world.die("other")]
        for flags, wanted in (((), ids), (("--queue", "q"), ids[:2]), (("--class", "invalid"), ids[1:2]),
                              (("--status", "failed"), ids), (("--status", "resolved"), []),
                              (("--since", "1h"), ids), (("--until", "1h"), []),
                              (("--since", "2020-01-01T00:00:00Z"), ids), (("--limit", 2), ids[:2])):
            found = world.json("dead", "list", *flags)["dead_letters"]
            self.assertEqual([letter["id"] for letter in found], wanted, flags)
        self.assertIsNotNone(world.json("dead", "list", "--limit", 2)["next"])
        self.assertIn("there are more: --all", world.run("dead", "list", "--limit", "2")[2])
        self.assertEqual(world.run("dead", "list", "--queue", "q", "--class", "gone"),
                         (0, "", "there are no such dead letters (--status all lists closed ones, too)\n"))

    def at_80_columns_it_is_told_why(self):
        world = World(self, answer(422))
        identity = world.die(labels={"customer": "c" * 40})
        _, screen = on_terminal("dead", "list", columns=80, NO_COLOR="1", **world.at)
        titles, row = screen.splitlines()
        self.assertRegex(titles, r"^ID +AGE +QUEUE +WHY ")
        self.assertRegex(row, rf"^{identity} .* invalid 422 ")
        self.assertLessEqual(max(map(len, (titles, row))), 80)

    def what_is_closed_is_listed_when_it_is_asked_for(self):
        world = World(self, answer(422))
        identity = world.die()
        self.assertRegex(world.run("queues")[1], r"(?m)^q +active +1 ")
        self.assertEqual(world.run("dead", "resolve", identity)[0], 0)
        self.assertEqual(world.json("dead", "list")["dead_letters"], [])
        for status in ("all", "resolved"):
            found = world.json("dead", "list", "--status", status)["dead_letters"]
            self.assertEqual([letter["id"] for letter in found], [identity])
        self.assertRegex(world.run("queues")[1], r"(?m)^q +active +0 ")

    def one_letter_has_the_target_s_own_words(self):
        world = World(self, answer(422, body=b'{"error":"row must be a number"}\n'))
        identity = world.die()
        words = 'invalid 422: {"error":"row must be a number"}\n'
        self.assertIn(f"error     {words}", world.run("dead", "show", identity)[1])
        status, _, err = world.run("enqueue", "q", "--target", world.url, "--data", "x", "--wait", "30s")
        self.assertEqual(status, 1)
        self.assertTrue(err.endswith(f" of 10: {words}"), err)

    def more_than_a_page_is_one_document(self):
        rows = [{"id": f"{number}"} for number in range(5)]
        server = StandIn(page("dead_letters", rows[:2], "7"), page("dead_letters", rows[2:4], "9"),
                         page("dead_letters", rows[4:]))
        status, out, _ = server.run("dead", "list", "--all", "--json")
        self.assertEqual((status, json.loads(out)), (0, {"dead_letters": rows, "next": None}))
        self.assertEqual(server.lines[1:], ["GET /v1/dead-letters?limit=1000&status=failed&after=7",
                                            "GET /v1/dead-letters?limit=1000&status=failed&after=9"])

    def times_go_out_as_the_server_reads_them(self):
        server = StandIn(page("dead_letters", []))
        server.run("dead", "list", "--since", "2026-11-15T10:20:30+09:00")
        self.assertEqual(server.lines[0], "GET /v1/dead-letters?limit=100"
                                          "&status=failed&since=2026-11-15T01%3A20%3A30.000Z")


class Show(unittest.TestCase):
    def a_letter_is_told_whole(self):  # E4, A7
        world = World(self)
        identity = world.die(labels={"bookmark_id": "b-1"}, headers={"X-A": "b"}, key="k-1")
        status, out, err = world.run("dead", "show", identity)
        self.assertEqual((status, err), (0, ""))
        for line in (f"{identity}\n", "letter    failed 20", "queue     q", "key       k-1", "labels    bookmark_id=b-1",
                     f"request   POST {world.url}", "X-A: b", "payload",
                     "tries     1 of 1\n", "answer    500",
                     "may work when it is sent again as it is", "attempts  1. "):
            self.assertIn(line, out)
        whole = world.json("dead", "show", identity)
        self.assertEqual((whole["payload"], whole["retryable"], whole["retry_count"]),
                         ("payload", True, 1))

    def one_that_is_not_there_is_told(self):
        world = World(self)
        status, out, err = world.run("dead", "show", ID)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("unknown", err)


class Redrive(unittest.TestCase):
    def a_letter_goes_out_again_and_is_resolved_by_success(self):  # E6
        world = World(self, answer(500), answer(200))
        identity = world.die()
        self.assertEqual(world.run("dead", "redrive", identity, "--wait", "30s"),
                         (0, f"{identity} succeeded\n", ""))
        self.assertEqual(world.json("dead", "show", identity)["status"], "resolved")
        self.assertEqual(len(world.target.seen()), 2)

    def one_that_fails_again_says_so(self):
        world = World(self, answer(500), answer(500), silence)
        identity = world.die()
        status, out, err = world.run("dead", "redrive", identity, "--wait", "30s")
        self.assertEqual((status, out), (1, f"{identity} failed\n"))
        self.assertIn("transient 500", err)
        self.assertEqual(world.run("dead", "redrive", identity)[1], f"{identity} retrying\n")

    def a_letter_can_be_mended_on_the_way(self):  # E6
        world = World(self, answer(400), answer(200))
        mended = world.target.script("/mended", answer(200))
        identity = world.die(key="k-1")
        status, _, err = world.run("dead", "redrive", identity, "--target", mended, "--json-data",
                                   '{"a": 1.10}', "--header", "X-New: yes", "--wait", "30s")
        self.assertEqual(status, 0, err)
        (seen,) = world.target.seen("/mended")
        self.assertEqual((seen.body, seen.headers["x-new"]), (b'{"a": 1.10}', "yes"))
        letter = world.json("dead", "show", identity)
        self.assertEqual((letter["edit"]["target"], letter["payload"]), (mended, "payload"))
        shown = world.run("dead", "show", identity)[1]
        self.assertIn(f"edited    {mended}", shown)

    def one_that_does_not_wait_for_a_person_is_refused(self):
        world = World(self, answer(500), answer(200))
        identity = world.die()
        world.run("dead", "redrive", identity, "--wait", "30s")
        status, _, err = world.run("dead", "redrive", identity)
        self.assertEqual(status, 1)
        self.assertIn("(not_dead)", err)
        self.assertIn("it is closed already: 'daruma show ID' tells when", err)
        self.assertNotIn("settle", err)
        world.target.script("/doubt", read_then_reset)
        doubtful = world.server.add("q", target=world.target.url("/doubt"), repeatable=False)
        self.assertEqual(world.server.settled(doubtful)["state"], "unsettled")
        self.assertIn("'daruma settle ID' is for what is unsettled",
                      world.run("dead", "resolve", doubtful)[2])

    def all_that_match_go_out_again(self):  # E6
        world = World(self)
        ids = [world.die() for _ in range(6)]
        world.die("other")
        world.target.script("/t", answer(200))
        self.assertEqual(world.run("dead", "redrive", "--all", "--queue", "q", "--dry-run"),
                         (0, "matched 6\n", ""))
        self.assertEqual(len(world.target.seen()), 7)
        status, out, err = world.run("dead", "redrive", "--all", "--queue", "q", "--rate", "1000")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^redrive \d+ done: redriven 6, skipped 0 of 6\n$")
        for identity in ids:
            self.assertEqual(world.server.settled(identity)["state"], "succeeded")
        self.assertEqual(len(world.json("dead", "list", "--status", "failed")["dead_letters"]), 1)

    def a_redrive_can_be_left_and_stopped(self):
        world = World(self)
        for _ in range(5):
            world.die()
        begun = world.json("dead", "redrive", "--all", "--rate", "0.01", "--no-wait")
        self.assertEqual(begun["matched"], 5)
        status, out, _ = world.run("dead", "cancel", begun["redrive"])
        self.assertEqual(status, 0)
        self.assertRegex(out, rf"^redrive {begun['redrive']} cancelled: redriven \d of 5\n$")
        self.assertIn("redrive_unknown", world.run("dead", "cancel", "999")[2])

    def the_request_is_as_the_flags_say(self):
        server = StandIn(Answer(200, {"redrive": None, "matched": 3}))
        status, out, _ = server.run("dead", "redrive", "--all", "--queue", "q", "--class", "quota",
                                    "--since", "2026-11-15T10:20:30Z", "--until",
                                    "2026-11-16T00:00:00Z", "--rate", "0.5", "--dry-run")
        self.assertEqual((status, out, server.lines),
                         (0, "matched 3\n", ["POST /v1/dead-letters:redrive"]))
        self.assertEqual(server.asked[0].json, {
            "filter": {"queue": "q", "class": "quota", "since": "2026-11-15T10:20:30.000Z",
                       "until": "2026-11-16T00:00:00.000Z"},
            "rate_per_second": 0.5, "dry_run": True})
        server = StandIn(Answer(202, {"id": ID, "status": "retrying"}))
        server.run("dead", "redrive", ID)
        self.assertEqual((server.lines, server.asked[0].body),
                         ([f"POST /v1/dead-letters/{ID}:redrive"], b""))

    def progress_is_shown_on_a_terminal_until_it_is_done(self):
        def redrive(state, redriven):
            return Answer(200, {"redrive": "7", "matched": 9, "state": state, "redriven": redriven,
                                "skipped": 1, "rate_per_second": 50, "started_at": "x"})
        server = StandIn(Answer(202, {"redrive": "7", "matched": 9}), redrive("running", 3),
                         Answer(503, {}), redrive("running", 6), redrive("done", 8))
        status, seen = server.on_terminal("dead", "redrive", "--all")
        self.assertEqual(status, 0)
        self.assertIn("'daruma dead cancel 7' stops it", seen)
        for count in (3, 6):
            self.assertIn(f"\r\x1b[Kredriven {count} of 9", seen)
        self.assertTrue(seen.endswith("redrive 7 done: redriven 8, skipped 1 of 9\r\n"), seen)
        server = StandIn(Answer(202, {"redrive": "7", "matched": 9}), redrive("cancelled", 3))
        self.assertEqual(server.run("dead", "redrive", "--all")[0], 1)


class Resolve(unittest.TestCase):
    def a_letter_is_closed_without_being_sent(self):  # E4
        world = World(self)
        identity = world.die()
        self.assertEqual(world.run("dead", "resolve", identity, "--note", "己で直した"),
                         (0, f"{identity} resolved\n", ""))
        letter = world.json("dead", "show", identity)
        self.assertEqual((letter["status"], letter["note"]), ("resolved", "己で直した"))
        self.assertEqual(len(world.target.seen()), 1)
        self.assertEqual(world.run("dead", "resolve", identity)[0], 1)


class Unsettled(unittest.TestCase):
    def _unsettle(self, world, **more):
        identity = world.server.add("q", target=world.url, repeatable=False, **more)
        self.assertEqual(world.server.settled(identity)["state"], "unsettled")
        return identity

    def what_may_have_been_done_is_listed(self):
        world = World(self, read_then_reset)
        self.assertEqual(world.run("unsettled"), (0, "", "nothing is unsettled\n"))
        identity = self._unsettle(world, labels={"order": "7"})
        for arguments in (("unsettled",), ("unsettled", "list", "--queue", "q")):
            status, out, _ = world.run(*arguments)
            self.assertEqual(status, 0)
            self.assertIn(identity, out)
            self.assertIn("order=7", out)
        self.assertEqual([task["id"] for task in world.json("unsettled")["unsettled"]], [identity])

    def a_person_says_what_became_of_it(self):
        world = World(self, read_then_reset)
        ids = [self._unsettle(world) for _ in range(3)]
        self.assertEqual(world.run("settle", ids[0], "succeeded", "--note", "seen in the bank",
                                   "--status", "201", "--data", '{"id": 7}'),
                         (0, f"{ids[0]} succeeded\n", ""))
        task = world.server.task(ids[0])
        self.assertEqual((task["response"]["status"], task["response"]["body"]), (201, '{"id": 7}'))
        self.assertRegex(world.run("show", ids[0])[1],
                         r"(?m)^settled   succeeded 20\S+Z by \S+\nnote      seen in the bank$")
        self.assertEqual(world.run("unsettled", "settle", ids[1], "failed")[1],
                         f"{ids[1]} failed\n")
        world.target.script("/t", answer(200))
        status, out, _ = world.run("settle", ids[2], "not_done")
        self.assertEqual(status, 0)
        self.assertRegex(out, rf"^{ids[2]} (waiting|running|succeeded)\n$")
        self.assertEqual(world.server.settled(ids[2])["state"], "succeeded")
        status, _, err = world.run("settle", ids[0], "failed")
        self.assertEqual(status, 1)
        self.assertIn("(not_unsettled)", err)

    def what_was_not_done_in_a_deleted_queue_can_only_be_ended(self):
        world = World(self, read_then_reset)
        self.assertEqual(world.server.call("PUT", "/v1/queues/tmp", {}).status, 201)
        identity = world.server.add("tmp", target=world.url, repeatable=False)
        self.assertEqual(world.server.settled(identity)["state"], "unsettled")
        self.assertIn(world.server.call("DELETE", "/v1/queues/tmp?force=true").status, (200, 204))
        status, out, err = world.run("settle", identity, "not_done")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("(queue_deleted)", err)
        self.assertIn("'daruma settle ID failed' ends the task", err)
        self.assertEqual(world.server.task(identity)["state"], "unsettled")
        self.assertEqual(world.run("settle", identity, "failed")[1], f"{identity} failed\n")
        self.assertEqual(len(world.target.seen()), 1)

    def bytes_that_are_no_text_are_an_answer_too(self):
        server = StandIn(Answer(200, {"id": ID, "state": "succeeded"}))
        server.run("settle", ID, "succeeded", "--status", "200", "--data", "-", given=b"\xff\0")
        self.assertEqual(server.asked[0].json, {
            "outcome": "succeeded", "response": {"status": 200, "body_base64": "/wA="}})


class Audit(unittest.TestCase):
    def every_act_is_there_with_who_and_what(self):
        os.environ["OPS"] = "o" * 40
        world = World(self)
        identity = world.die()
        world.run("dead", "redrive", identity, "--wait", "30s")
        world.run("dead", "resolve", identity, "--note", "enough")
        status, out, err = world.run("audit")
        self.assertEqual((status, err), (0, ""))
        titles, *rows = out.splitlines()
        self.assertRegex(titles, r"^AT +WHO +ACT +TASK +QUEUE +FROM +TO +NOTE$")
        self.assertEqual(len(rows), 2)
        self.assertIn("enough", rows[1])
        self.assertIn(identity, rows[0])
        acts = [row["act"] for row in world.json("audit")["audit"]]
        self.assertEqual([row["act"] for row in world.json("audit", "--act", acts[1])["audit"]],
                         acts[1:])
        self.assertEqual(len(world.json("audit", "--task", identity)["audit"]), 2)
        self.assertEqual(world.json("audit", "--task", OTHER)["audit"], [])
        self.assertEqual(world.json("audit", "--since", "1h", "--limit", 1)["audit"][0]["act"],
                         acts[0])
        self.assertEqual(world.run("audit", "--who", "nobody-of-that-name")[2],
                         "there are no such acts\n")
        status, out, err = world.run("audit", "--act", "nonsense")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"--act: act is one of run, cancel, redrive, .*, queue_purge, or is "
                              r"left out \(invalid_request\)")


class CommandLine(unittest.TestCase):
    def _refused(self, *arguments):
        status, out, err = run(*arguments, DARUMA_URL=unused_url())
        self.assertEqual((status, out), (2, ""), (arguments, err))
        return err

    def what_is_wrong_is_named(self):
        for arguments, named in ((("dead",), "usage: daruma dead"),
                                 (("dead", "sing"), "'sing' given, expected one of list"),
                                 (("dead", "list", "--status", "lost"), "--status: 'lost'"),
                                 (("dead", "list", "--class", "bad"), "--class: 'bad'"),
                                 (("dead", "list", "--since", "soon"), "--since: 'soon'"),
                                 (("dead", "list", "--limit", "5", "--all"), "--all"),
                                 (("dead", "list", ID), "expected nothing but flags"),
                                 (("dead", "show"), "no ID given"),
                                 (("dead", "show", "x"), "'x' given"),
                                 (("dead", "redrive"), "neither given"),
                                 (("dead", "redrive", ID, "--all"), "both given"),
                                 (("dead", "redrive", ID, "--queue", "q"), "only with --all"),
                                 (("dead", "redrive", ID, "--dry-run"), "only with --all"),
                                 (("dead", "redrive", "--all", "--target", "http://x/"), "only with"),
                                 (("dead", "redrive", "--all", "--wait", "5s"), "only with an ID"),
                                 (("dead", "redrive", "--all", "--rate", "0.0"), "--rate: '0.0'"),
                                 (("dead", "redrive", "--all", "--rate", "-1"), "--rate: '-1'"),
                                 (("dead", "redrive", "--all", "--rate", "1."), "--rate: '1.'"),
                                 (("dead", "redrive", "--all", "--rate", "01"), "--rate: '01'"),
                                 (("dead", "redrive", ID, "--json-data", "{"), "not JSON"),
                                 (("dead", "cancel"), "no REDRIVE given"),
                                 (("dead", "cancel", "x"), "'x' given"),
                                 (("dead", "resolve"), "no ID given"),
                                 (("unsettled", "all"), "'all' given"),
                                 (("settle",), "no ID given"), (("settle", ID), "no OUTCOME given"),
                                 (("settle", ID, "done"), "'done' given"),
                                 (("settle", ID, "failed", "--status", "99"), "--status: '99'"),
                                 (("settle", ID, "failed", "--data", "x"), "together with --status"),
                                 (("audit", "--task", "x"), "--task: 'x'"),
                                 (("audit", "now"), "expected nothing but flags")):
            self.assertIn(named, self._refused(*arguments), arguments)

    def every_command_has_help(self):
        for command in [("dead", act) for act in ACTS] + [("unsettled",), ("settle",), ("audit",)]:
            status, out, _ = run(*command, "--help")
            self.assertEqual(status, 0)
            self.assertTrue(out.startswith(f"usage: daruma {' '.join(command)}"), out)
            for flag in ("--json", "--server", "--token"):
                self.assertIn(flag, out)
        status, out, _ = run("dead", "--help")
        self.assertEqual(status, 0)
        for act in ACTS:
            self.assertIn(f"  {act} ", out)

    def nobody_there_is_exit_status_3(self):
        for command in [("dead", act, *OPERANDS.get(act, [])) for act in ACTS] + [
                ("dead", "redrive", "--all"), ("unsettled",), ("settle", ID, "failed"), ("audit",)]:
            status, out, err = run(*command, DARUMA_URL=unused_url())
            self.assertEqual((status, out), (3, ""), err)
            self.assertIn("is not reachable", err)

    def with_json_a_problem_is_the_document(self):
        for command in [("dead", act, *OPERANDS.get(act, [])) for act in ACTS] + [
                ("dead", "redrive", "--all"), ("unsettled",), ("settle", ID, "failed"), ("audit",)]:
            said = problem(403, "forbidden", "not for this role")
            status, out, err = StandIn(said).run(*command, "--json")
            self.assertEqual((status, out), (1, said.body.decode() + "\n"))
            self.assertIn("role", err)

    def what_a_server_says_cannot_move_the_cursor(self):
        evil = "\x1b[2J\u202e"
        letter = {"id": evil, "status": evil, "queue": evil, "key": evil, "labels": {evil: evil},
                  "request": {"method": evil, "target": evil, "headers": {evil: evil}},
                  "error": {"class": evil, "message": evil}, "payload": evil, "note": evil,
                  "state": evil, "redrive": "7", "matched": 1, "trail": [{"message": evil}],
                  "edit": {"target": evil}}
        rows = {"dead_letters": [letter], "unsettled": [letter], "next": None,
                "audit": [{name: evil for name in ("at", "who", "act", "task", "note", "from")}]}
        for command in (("dead", "list"), ("dead", "show", ID), ("dead", "redrive", ID),
                        ("dead", "cancel", "7"), ("dead", "redrive", "--all", "--no-wait"),
                        ("dead", "resolve", ID), ("unsettled",), ("settle", ID, "failed"),
                        ("audit",)):
            answers = Answer(200, {**letter, **rows})
            for status, out in (StandIn(answers).run(*command)[:2],
                                StandIn(answers).on_terminal(*command, "--json")):
                self.assertEqual(status, 0, out)
                self.assertNotIn("\x1b[2J", out)
                self.assertNotIn("\u202e", out)


if __name__ == "__main__":
    runner.main()
