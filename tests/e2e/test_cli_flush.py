# SPDX-License-Identifier: MIT
"""`daruma flush` and `daruma spool`: what was kept on this machine goes out in order, one request
each (A9.2), to targets that misbehave by script and to a real server's queue through a line that
flaps.
"""
import json
import os
import random
import re
import subprocess
import threading
import unittest

import lacking
import ports
import runner
from server import Server
from spooling import SPOOL, files, flush, on_terminal, run, spool, start, waiting
from target import Target, answer, hold, not_before_seconds, read_then_reset, truncated

SEED = int(os.environ.get("DARUMA_SEED") or 78)
SAVES = 40


def bodies(target):
    return [int(seen.body) for seen in target.seen()]


class Order(unittest.TestCase):
    def what_waits_is_sent_in_order_and_removed(self):  # A9.2
        target = Target(is_up=False)
        spool(target.url(), *map(str, range(12)))
        target.begin()
        status, lines, tally = flush()
        self.assertEqual((status, tally["sent"], bodies(target)), (0, 12, list(range(12))))
        self.assertEqual({line["result"] for line in lines}, {"sent"})
        self.assertEqual((files(), flush()[2]["sent"]), ([], 0))
        self.assertEqual(len(target.seen()), 12)

    def what_gets_no_answer_holds_up_its_own_place_only(self):
        first, second = Target(is_up=False), Target(is_up=False)
        for number in range(3):
            spool(first.url(), str(number))
            spool(second.url(), str(number))
        second.begin()
        status, lines, tally = flush()
        self.assertEqual((status, tally["sent"], tally["waiting"]), (4, 3, 3))
        self.assertEqual(bodies(second), [0, 1, 2])
        self.assertEqual([kept["attempts"] for kept in waiting()], [1, 0, 0])
        first.begin()
        self.assertEqual((flush()[0], bodies(first)), (0, [0, 1, 2]))

    def an_answer_of_5xx_lets_the_next_one_try(self):  # one request each
        target = Target(is_up=False)
        spool(target.script("/t", answer(500), answer(200), answer(502), answer(200)), *"0123")
        target.begin()
        self.assertEqual([line["result"] for line in flush()[1]],
                         ["waiting", "sent", "waiting", "sent"])
        self.assertEqual([kept["attempts"] for kept in waiting()], [1, 1])
        self.assertEqual((flush()[0], bodies(target)), (0, [0, 1, 2, 3, 0, 2]))

    def a_server_that_asks_to_be_left_alone_is(self):  # A5.1
        target = Target(is_up=False)
        spool(target.script("/t", answer(200), not_before_seconds(429, 3600)), *"0123")
        target.begin()
        status, lines, _ = flush()
        self.assertEqual((status, [line["result"] for line in lines]),
                         (4, ["sent", "waiting", "waiting", "waiting"]))
        self.assertEqual([kept["attempts"] for kept in waiting()], [1, 0, 0])
        self.assertEqual((flush()[0], len(target.seen())), (4, 2))

    def a_moment_that_another_clock_wrote_is_not_waited_for(self):
        target = Target(is_up=False)
        (name,) = spool(target.url(), "0")
        text = (SPOOL / name).read_text().replace('"not_before": null',
                                                  '"not_before": "2999-01-01T00:00:00.000Z"')
        (SPOOL / name).write_text(text)
        target.begin()
        self.assertEqual(flush()[0], 0)


class Counting(unittest.TestCase):
    def _counts(self, target, name):
        for attempts in (1, 2, 3):
            status, (line,), _ = flush()
            self.assertEqual((status, line["result"], line["attempts"]), (4, "waiting", attempts))
            self.assertEqual(waiting()[0]["attempts"], attempts)
        status, (line,), tally = flush()
        self.assertEqual((status, line["result"], tally["failed"]), (1, "failed", 1))
        self.assertEqual([(kept["name"], kept["state"]) for kept in waiting()], [(name, "failed")])
        self.assertEqual(flush()[2]["failed_before"], 1)  # and is not tried any more

    def three_failures_count_and_the_fourth_is_the_end(self):  # A9.2
        target = Target(is_up=False)
        (name,) = spool(target.script("/t", answer(503)), "0")
        target.begin()
        self._counts(target, name)
        self.assertEqual(len(target.seen()), 4)  # one request a flush

    def a_server_that_is_not_there_counts_too(self):  # A9.2
        target = Target(is_up=False)
        (name,) = spool(target.url(), "0")
        self._counts(target, name)

    def each_has_a_count_of_its_own(self):  # A9.2
        target = Target(is_up=False)
        spool(target.script("/t", *[answer(500)] * 8, answer(200)), "0", "1")
        target.begin()
        for attempts in (1, 2, 3):
            flush()
            self.assertEqual([kept["attempts"] for kept in waiting()], [attempts] * 2)
        self.assertEqual(flush()[2]["failed"], 2)

    def failed_ones_can_be_taken_along_again(self):
        target = Target(is_up=False)
        spool(target.script("/t", answer(422), answer(422), answer(200)), "0", "1")
        target.begin()
        self.assertEqual(flush()[0], 1)
        status, _, tally = flush("--retry-failed")
        self.assertEqual((status, tally["sent"], files()), (0, 2, []))

    def a_refusal_is_the_end_at_once_and_lets_the_next_one_go(self):
        target = Target(is_up=False)
        spool(target.script("/t", answer(422), answer(200)), "0", "1")
        target.begin()
        status, lines, _ = flush()
        self.assertEqual((status, [line["result"] for line in lines]), (1, ["failed", "sent"]))
        (kept,) = waiting()
        self.assertEqual((kept["state"], kept["last_error"]), ("failed", "HTTP 422"))

    def a_lost_answer_counts_and_is_sent_again_under_its_key(self):
        target = Target(is_up=False)
        acts = (read_then_reset, truncated(), answer(200))
        spool(target.script("/t", *acts), "0")
        target.begin()
        self.assertEqual([flush()[0] for _ in range(3)], [4, 4, 0])
        self.assertEqual(len({seen.key for seen in target.seen()}), 1)
        self.assertEqual(len(target.seen()), 3)

    def an_answer_that_ends_within_its_head_is_none(self):
        def cut_head(connection, _request):
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Le")
            return False
        target = Target(is_up=False)
        spool(target.script("/t", cut_head, answer(200)), "0")
        target.begin()
        self.assertEqual([flush()[0], len(files()), flush()[0]], [4, 1, 0])


class Together(unittest.TestCase):
    def two_flushes_at_once_do_not_send_twice(self):  # A9.2
        target, event = Target(is_up=False), threading.Event()
        spool(target.script("/t", hold(event)), *"012")
        target.begin()
        flushing = start("flush", "--json")
        target.wait_for(1)
        status, _, err = run("flush")
        self.assertEqual(status, 4)
        self.assertIn(f"process {flushing.pid} is sending", err)
        status, _, err = run("spool", "drop", "--all")
        self.assertEqual(status, 1)
        self.assertEqual(len(waiting()), 3)  # looking is free
        event.set()
        self.assertEqual((flushing.wait(), bodies(target)), (0, [0, 1, 2]))
        flushing.communicate()

    def many_flushes_at_once_send_each_request_once(self):
        target = Target(is_up=False)
        spool(target.url(), *map(str, range(10)))
        target.begin()
        flushes = [start("flush", "--json") for _ in range(8)]
        for flushing in flushes:
            flushing.communicate()
        self.assertIn(0, [flushing.returncode for flushing in flushes])
        self.assertLessEqual({flushing.returncode for flushing in flushes}, {0, 4})
        self.assertEqual(bodies(target), list(range(10)))

    def a_killed_flush_leaves_no_lock_and_no_loss(self):
        target, event = Target(is_up=False), threading.Event()
        spool(target.script("/t", answer(200), hold(event), answer(200)), *"012")
        target.begin()
        flushing = start("flush", "--json")
        target.wait_for(2)
        flushing.kill()
        flushing.communicate()
        event.set()
        self.assertEqual([kept["attempts"] for kept in waiting()], [0, 0])
        self.assertEqual((flush()[0], bodies(target)), (0, [0, 1, 1, 2]))
        self.assertEqual(len({seen.key for seen in target.seen()}), 3)


class Spool(unittest.TestCase):
    def what_is_damaged_is_told_and_left_alone(self):
        target = Target(is_up=False)
        torn, changed, whole = spool(target.url(), "0", "1", "2")
        (SPOOL / torn).write_bytes((SPOOL / torn).read_bytes()[:-1])
        (SPOOL / changed).write_bytes((SPOOL / changed).read_bytes()[:-1] + b"8")
        before = {name: (SPOOL / name).read_bytes() for name in (torn, changed)}
        (SPOOL / "notes\x1b[31m.txt").write_text("mine")
        target.begin()
        status, out, err = run("flush", "--json")
        self.assertEqual(status, 1)
        self.assertIn("notes\ufffd[31m.txt in spool is no request", err)
        results = {line.get("name"): line["result"] for line in map(json.loads, out.splitlines()[:-1])}
        self.assertEqual(results, {torn: "damaged", changed: "damaged", whole: "sent"})
        self.assertEqual(files(), [torn, changed])
        self.assertEqual(before, {name: (SPOOL / name).read_bytes() for name in files()})
        self.assertEqual({kept["state"] for kept in waiting()}, {"damaged"})
        self.assertIn("its body has 0 bytes instead of 1", run("spool")[1])
        self.assertEqual(run("spool", "drop", "--all")[1], "dropped 0\n")
        self.assertEqual(run("spool", "drop", torn)[1], "dropped 1\n")

    def a_list_with_a_damaged_file_ends_with_one(self):
        torn, _whole = spool(Target(is_up=False).url(), "0", "1")
        self.assertEqual(run("spool")[0], 0)
        (SPOOL / torn).write_bytes(b"torn")
        for arguments in ((), ("--json",)):
            self.assertEqual(run("spool", *arguments)[0], 1)
        self.assertEqual(run("spool", "--failed")[0], 0)  # it is not in this list

    def a_folder_that_others_may_write_is_refused(self):
        target = Target()
        SPOOL.mkdir()
        for mode in (0o777, 0o1777, 0o770, 0o720):
            SPOOL.chmod(mode)
            for arguments in (("send", target.url()), ("flush",), ("spool",), ("spool", "drop", "--all")):
                status, out, err = run(*arguments)
                self.assertEqual((status, out), (1, ""))
                self.assertIn(f"spool may be written by others (mode {mode:04o}): see what is in it, "
                              "then chmod 700 it, or give another folder with --spool\n", err)
        self.assertEqual((target.seen(), list(SPOOL.iterdir())), ([], []))
        SPOOL.chmod(0o755)
        self.assertEqual(run("send", target.url())[0], 0)

    def a_folder_of_another_user_is_refused(self):
        if os.geteuid() != 0:
            return  # only root can make one
        target = Target()
        SPOOL.mkdir(mode=0o700)
        os.chown(SPOOL, 12345, -1)
        for arguments in (("send", target.url()), ("flush",), ("spool",)):
            status, out, err = run(*arguments)
            self.assertEqual((status, out), (1, ""))
            self.assertIn("spool belongs to user 12345: run this as that user, or give a folder of your "
                          "own with --spool\n", err)
        self.assertEqual(target.seen(), [])

    def a_flush_that_cannot_write_counts_what_still_waits(self):
        target = Target(is_up=False)
        spool(target.script("/t", answer(503)), "0", "1")
        target.begin()
        status, said = lacking.run(lacking.files_that_do_not_grow, "flush", "--spool", SPOOL)
        self.assertEqual(status, 1)
        self.assertIn(b"sent 0, waiting 2, failed 0\n", said)
        self.assertIn(b"spool/.changed: cannot be written: File too large\n", said)

    def a_flush_that_cannot_revive_counts_what_has_failed(self):
        target = Target(is_up=False)
        spool(target.script("/t", answer(422)), "0", "1")
        target.begin()
        self.assertEqual(flush()[0], 1)
        status, said = lacking.run(lacking.files_that_do_not_grow, "flush", "--retry-failed", "--spool",
                                   SPOOL)
        self.assertEqual(status, 1)
        self.assertIn(b"sent 0, waiting 0, failed 2\n", said)

    def a_person_can_mend_an_address(self):
        target, other = Target(is_up=False), Target()
        (name,) = spool(target.url("/old"), "0")
        text = (SPOOL / name).read_text().replace(target.url("/old"), other.url("/new"))
        (SPOOL / name).write_text(text)
        self.assertEqual((flush()[0], other.seen()[0].path), (0, "/new"))

    def what_is_not_wanted_can_be_dropped(self):
        target = Target(is_up=False)
        names = spool(target.script("/t", answer(422), answer(500)), "0", "1", "2")
        self.assertEqual(run("spool", "drop", names[2], "--json")[1], '{"dropped":1}\n')
        status, _, err = run("spool", "drop", names[2])
        self.assertEqual(status, 1)
        self.assertIn("not every NAME is in spool", err)
        target.begin()
        flush()
        self.assertEqual(json.loads(run("spool", "--failed", "--json")[1])["requests"][0]["name"],
                         names[0])
        self.assertEqual(run("spool", "drop", "--failed")[1], "dropped 1\n")
        self.assertEqual(files(), [names[1]])
        self.assertEqual(run("spool", "drop", "--all")[1], "dropped 1\n")

    def a_spool_that_is_not_there_is_empty(self):
        self.assertEqual(run("flush"), (0, "sent 0, waiting 0, failed 0\n", ""))
        self.assertEqual(run("spool"), (0, "", ""))
        self.assertEqual(run("spool", "--json"), (0, '{"requests":[]}\n', ""))
        self.assertEqual(run("spool", "drop", "--all")[:2], (0, "dropped 0\n"))
        self.assertFalse(SPOOL.exists())


class OnATerminal(unittest.TestCase):
    def there_is_progress_then_a_table_and_a_line(self):
        target = Target(is_up=False)
        spool(target.script("/t", answer(200), answer(500), answer(422)), "0", "1", "2")
        target.begin()
        status, seen = on_terminal("flush", columns=120)
        self.assertEqual(status, 1)
        for number in (1, 2, 3):
            self.assertIn(f"\r\x1b[Ksending {number} of 3: {target.url('/t')}", seen)
        shown = seen[seen.rindex("\x1b[K") + 3:]
        self.assertRegex(shown, r"RESULT.*TRIES.*NAME.*REQUEST.*WHY")
        self.assertRegex(shown, r"\x1b\[33mwaiting\x1b\[0m.* 1 .*HTTP 500")
        self.assertRegex(shown, r"\x1b\[31mfailed\x1b\[0m.* 1 .*HTTP 422")
        self.assertTrue(shown.endswith("sent 1, waiting 1, failed 1\r\n"), shown)

    def a_narrow_one_gets_no_longer_lines_than_it_has_room_for(self):
        target = Target(is_up=False)
        spool(target.script("/" + "long" * 40, answer(500)), "0")
        target.begin()
        for arguments in (("flush",), ("spool",)):
            _, seen = on_terminal(*arguments, columns=60)
            for line in re.split(r"\r\n|\r", re.sub(r"\x1b\[[\d;]*[mK]", "", seen)):
                self.assertLessEqual(len(line), 60, line)

    def without_colour_there_is_no_progress(self):
        target = Target(is_up=False)
        spool(target.url(), "0")
        target.begin()
        self.assertEqual(on_terminal("flush", NO_COLOR="1"),
                         (0, "sent 1, waiting 0, failed 0\r\n"))

    def an_empty_one_says_so(self):
        self.assertEqual(on_terminal("spool"), (0, "nothing waits in spool\r\n"))


class KeyedQueue(unittest.TestCase):
    """A real server's queue behind a line that flaps: nothing is lost, nothing is recorded twice."""

    def _line(self, lottery):
        self.server = Server(self, queues=[{"name": "q"}], api=ports.listen()).start()
        self.server.post("/v1/queues/q:pause")

        def pass_on(connection, request):
            headers = {"Idempotency-Key": request.key}
            got = self.server.call(request.method, request.path, request.body, headers)
            return answer(got.status, {}, got.body)(connection, request)

        def pass_on_and_cut(connection, request):
            headers = {"Idempotency-Key": request.key}
            self.server.call(request.method, request.path, request.body, headers)
            return read_then_reset(connection, request)

        acts = {"on": pass_on, "lost": pass_on_and_cut, "cut": read_then_reset,
                "busy": answer(503)}
        return Target(choose=lambda request: acts[lottery(request)])

    def _send(self, target, number):
        task = json.dumps({"target": "http://127.0.0.1:9/", "body": str(number)})
        return run("send", target.url("/v1/queues/q/tasks"), "--json-data", task,
                   "--attempts", 1)[0]

    def _recorded(self):
        tasks = self.server.get("/v1/queues/q/tasks?limit=1000").json["tasks"]
        return [int(self.server.task(task["id"])["request"]["body"]) for task in tasks]

    def a_flapping_line_loses_and_doubles_nothing_and_keeps_the_order(self):  # A9.2
        dice, is_steady = random.Random(SEED), threading.Event()
        target = self._line(lambda _request: "on" if is_steady.is_set() else
                            dice.choice(("on", "on", "on", "on", "lost", "cut")))
        statuses = [self._send(target, number) for number in range(SAVES)]
        self.assertEqual(set(statuses), {0, 4}, "the dice have left something out")
        is_steady.set()
        self.assertEqual(flush()[0], 0)
        self.assertEqual(self._recorded(), list(range(SAVES)))
        self.assertEqual(files(), [])

    def a_flapping_server_loses_and_doubles_nothing(self):
        dice, is_steady = random.Random(SEED), threading.Event()
        target = self._line(lambda _request: "on" if is_steady.is_set() else
                            dice.choice(("on", "lost", "cut", "busy", "busy")))
        flushes = []
        for number in range(SAVES):
            self.assertIn(self._send(target, number), (0, 4))
            if number % 4 == 3:
                flushes.append(flush()[0])
        self.assertIn(4, flushes)
        is_steady.set()
        self.assertEqual(flush("--retry-failed")[0], 0)
        self.assertEqual(sorted(self._recorded()), list(range(SAVES)))

    def a_server_that_is_killed_and_comes_back_has_each_save_once(self):
        self._line(lambda _request: "on")
        url = f"http://127.0.0.1:{self.server.port}/v1/queues/q/tasks"
        task = json.dumps({"target": "http://127.0.0.1:9/", "body": "0"})
        self.assertEqual(run("send", url, "--json-data", task)[0], 0)
        self.server.kill()
        for number in (1, 2):
            task = json.dumps({"target": "http://127.0.0.1:9/", "body": str(number)})
            self.assertEqual(run("send", url, "--json-data", task, "--attempts", 1)[0], 4)
        self.assertEqual(flush()[0], 4)
        self.server.start()
        self.assertEqual(flush()[0], 0)
        self.assertEqual(self._recorded(), [0, 1, 2])

    def a_server_with_tls_and_tokens_is_trusted_by_its_own_authority(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-keyout", "own.key", "-out", "own.pem",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        os.environ["SHOP"] = "s" * 40
        server = Server(self, queues=[{"name": "q"}], api={
            "listen": "127.0.0.1:0", "tls": {"cert": "own.pem", "key": "own.key"},
            "tokens": [{"name": "shop", "role": "producer", "token": "env:SHOP"}]}).start()
        arguments = ("send", f"https://127.0.0.1:{server.port}/v1/queues/q/tasks", "--attempts", 1,
                     "--json-data", '{"target": "http://127.0.0.1:9/", "delay_ms": 3600000}')
        bearer = ("--header", "Authorization: Bearer " + "s" * 40)
        status, out, _ = run(*arguments, *bearer)
        self.assertEqual(status, 4)
        self.assertIn("certificate", out)
        self.assertEqual(flush(DARUMA_CA="own.pem")[0], 0)
        self.assertIn("HTTP 401", run(*arguments, DARUMA_CA="own.pem")[2])


if __name__ == "__main__":
    runner.main()
