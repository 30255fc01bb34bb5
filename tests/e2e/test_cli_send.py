# SPDX-License-Identifier: MIT
"""`daruma send`: the client's policy (A5) and the spool behind it (A9.1), by the real program against
a target that misbehaves by script. Nothing here sleeps; what takes time is the policy's own waiting.
"""
import json
import os
import re
import resource
import signal
import subprocess
import threading
import time
import unittest

import lacking
import runner
from program import BIN
from spooling import SPOOL, environment, files, flush, on_terminal, run, start, waiting
from target import (FLOODS, Target, answer, flood, hold, not_before_seconds, read_then_reset, silence, slow_body,
                    truncated)

SECRET = "tok-3n-s3cret"
RETRYING = re.compile(r"retrying in (\d+) ms \(attempt (\d)/(\d)\)")
JITTER = 0.1
MEMORY_KIB_MAX = 128 << 10  # most of it is for a build with sanitizers
FLOOD_SECONDS_MAX = 20  # less than one time-out
SLACK_SECONDS = 0.9  # of a machine with other things to do


def finished(*processes):
    """[(exit status, stdout, stderr)] of each."""
    ended = [process.communicate() for process in processes]
    return [(process.returncode, out.decode(), err.decode())
            for process, (out, err) in zip(processes, ended)]


class Sending(unittest.TestCase):
    def what_is_taken_is_sent_once_as_the_flags_say(self):
        target = Target()
        body = bytes(range(256))
        status, out, err = run("send", target.url("/a?b=c"), "--data", "@-", "--method", "PUT",
                               "--header", "X-A: b:c ", "--header", "X-Empty:", "--key", "k-1",
                               given=body)
        self.assertEqual((status, out, err), (0, "sent HTTP 200, key k-1\n", ""))
        (seen,) = target.seen()
        self.assertEqual((seen.method, seen.path, seen.body, seen.key),
                         ("PUT", "/a?b=c", body, "k-1"))
        self.assertEqual((seen.headers["x-a"], seen.headers["x-empty"]), ("b:c", ""))
        self.assertNotIn("content-type", seen.headers)
        self.assertFalse(SPOOL.exists())

    def json_data_is_checked_and_says_what_it_is(self):
        target = Target()
        self.assertEqual(run("send", target.url(), "--json-data", '{"a": 1.10}')[0], 0)
        self.assertEqual(target.seen()[0].headers["content-type"], "application/json")
        self.assertEqual(target.seen()[0].body, b'{"a": 1.10}')
        self.assertEqual(run("send", target.url(), "--json-data", "{")[0], 2)
        self.assertEqual(len(target.seen()), 1)

    def the_answer_is_in_the_document(self):
        target = Target()
        url = target.script("/t", answer(201, {}, b'{"id": 7}'), answer(200, {}, b"\xff\0"),
                            answer(200, {}, b"x" * (1 << 21)))
        told = json.loads(run("send", url, "--json", "--key", "k")[1])
        self.assertEqual(told, {"result": "sent", "url": url, "key": "k", "attempts": 1,
                                "status": 201, "body": '{"id": 7}'})
        self.assertEqual(json.loads(run("send", url, "--json")[1])["body_base64"], "/wA=")
        self.assertTrue(json.loads(run("send", url, "--json")[1])["body_omitted"])

    def methods_without_a_body_have_none(self):
        target = Target()
        for method in ("GET", "DELETE", "HEAD"):
            self.assertEqual(run("send", target.url(), "--method", method)[0], 0)
            self.assertEqual(target.seen()[-1].method, method)
            self.assertNotIn("content-length", target.seen()[-1].headers)
        run("send", target.url())
        self.assertEqual(target.seen()[-1].headers["content-length"], "0")

    def proxies_are_not_used_and_redirects_not_followed(self):
        elsewhere, target = Target(), Target()
        url = target.script("/t", answer(307, {"Location": elsewhere.url()}))
        status, _, err = run("send", url, "--header", f"Authorization: {SECRET}",
                             http_proxy=elsewhere.url(), ALL_PROXY=elsewhere.url())
        self.assertEqual((status, elsewhere.seen()), (1, []))
        self.assertIn("HTTP 307", err)

    def an_answer_without_end_is_not_kept_and_not_waited_for(self):
        began = time.monotonic()
        for name, (head, piece) in FLOODS.items():
            url = Target().script("/in", flood(head, piece))
            status, out, err = run("send", url, "--attempts", 1, "--key", name.replace(" ", "-"))
            if "trailers" in name:  # the answer before them is whole
                self.assertEqual((status, out[:13], err), (0, "sent HTTP 200", ""), name)
            else:
                self.assertRegex(out + err, "over 256 KiB|Too large response headers", name)
                self.assertEqual(status, 4, name)
        used_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(used_kib, MEMORY_KIB_MAX)
        self.assertLess(time.monotonic() - began, FLOOD_SECONDS_MAX)


class Keys(unittest.TestCase):
    def _key(self, target, *arguments, **more):
        self.assertEqual(run("send", target.url("/save"), *arguments, **more)[0], 0)
        return target.seen()[-1].key

    def a_double_send_carries_one_key_and_another_body_another(self):  # A3
        target = Target()
        before = self._expected(target, "one")
        keys = [self._key(target, "--data", "one"), self._key(target, "--data", "one")]
        after = self._expected(target, "one")
        self.assertLessEqual(set(keys), {before, after})  # two only at the border of a window
        other = self._key(target, "--data", "two")
        self.assertNotIn(other, keys)
        self.assertNotEqual(self._key(target, "--data", "two", "--method", "PUT"), other)
        self.assertNotEqual(self._key(target, "--data", "two", DARUMA_CLIENT="ios"), other)

    @staticmethod
    def _expected(target, body):
        done = subprocess.run([BIN, "key", target.url("/save"), "--data", body], check=True,
                              stdout=subprocess.PIPE, env=environment())
        return done.stdout.decode().strip()

    def a_key_that_is_given_is_the_key(self):
        self.assertEqual(self._key(Target(), "--key", "mine"), "mine")

    def a_retry_and_a_flush_have_the_key_of_the_first_send(self):
        target = Target()
        url = target.script("/t", answer(503), answer(503), answer(200))
        self.assertEqual(run("send", url, "--data", "x", "--attempts", 2)[0], 4)
        self.assertEqual(flush()[0], 0)
        self.assertEqual(len({seen.key for seen in target.seen()}), 1)
        self.assertEqual(len(target.seen()), 3)


class Policy(unittest.TestCase):
    def three_attempts_with_waits_of_1_and_2_seconds_each_logged(self):  # A5.1, A5.2
        target = Target()
        status, _, err = run("send", target.script("/t", answer(500)), "--data", "x")
        self.assertEqual(status, 4)
        first, second, third = [seen.at for seen in target.seen()]
        logged = RETRYING.findall(err)
        self.assertEqual([(n, m) for _, n, m in logged], [("2", "3"), ("3", "3")])
        for base, (wait_ms, _, _), seconds in zip((1, 2), logged, (second - first, third - second)):
            self.assertTrue(base * (1 - JITTER) <= int(wait_ms) / 1000 <= base * (1 + JITTER), err)
            self.assertTrue(0 <= seconds - int(wait_ms) / 1000 + 0.01 <= SLACK_SECONDS, seconds)
        self.assertIn("HTTP 500", err)

    def what_may_get_better_is_tried_again(self):  # A5.1
        target = Target()
        acts = [answer(status) for status in (500, 502, 503, 504, 599, 408, 429)]
        acts += [read_then_reset, truncated()]
        urls = [target.script(f"/{number}", act, answer(200)) for number, act in enumerate(acts)]
        urls.append(target.script("/slow", silence, answer(200)))
        urls.append(target.script("/slower", slow_body(), answer(200)))
        sends = [start("send", url, "--data", "x", "--timeout", "500ms" if "slow" in url else "10s")
                 for url in urls]
        for url, (status, _, err) in zip(urls, finished(*sends)):
            self.assertEqual(status, 0, f"{url} {err}")
            self.assertEqual([found[1:] for found in RETRYING.findall(err)], [("2", "3")], url)
        self.assertEqual(len(target.seen()), 2 * len(urls))
        self.assertEqual(files(), [])

    def a_server_that_is_not_there_yet_is_tried_again(self):  # A5.1
        target = Target(is_up=False)
        sent = start("send", target.url(), "--data", "x")
        self.assertIn(b"connect: Connection refused: retrying", sent.stderr.readline())
        target.begin()
        (status, out, _), = finished(sent)
        self.assertEqual((status, len(target.seen())), (0, 1))
        self.assertIn("sent HTTP 200", out)
        self.assertEqual(files(), [])

    def other_answers_are_final(self):  # A5.1
        target = Target()
        for status in (300, 301, 304, 400, 401, 403, 404, 405, 409, 410, 413, 422, 425, 451):
            url = target.script(f"/{status}", answer(status, {}, b'{"detail": "because so"}'))
            code, out, err = run("send", url, "--data", "x")
            self.assertEqual((code, out, len(target.seen(f"/{status}"))), (1, "", 1))
            self.assertNotIn("retrying", err)
            self.assertIn(f"HTTP {status}", err)
            if status not in (304,):
                self.assertIn("because so", err)
        self.assertFalse(SPOOL.exists())

    def success_is_never_sent_again(self):  # A5.1
        target = Target()
        for status in (200, 201, 202, 204, 299):
            self.assertEqual(run("send", target.script(f"/{status}", answer(status)))[0], 0)
        self.assertEqual(len(target.seen()), 5)

    def retry_after_is_obeyed(self):  # A5.1
        target = Target()
        urls = [target.script(f"/{status}", not_before_seconds(status, 2), answer(200))
                for status in (429, 503)]
        for url, (status, _, err) in zip(urls, finished(*[start("send", url) for url in urls])):
            self.assertEqual(status, 0)
            self.assertGreaterEqual(int(RETRYING.findall(err)[0][0]), 2000)
        for path in ("/429", "/503"):
            first, second = target.seen(path)
            self.assertGreaterEqual(second.at - first.at, 1.99)

    def a_server_that_asks_for_an_hour_gets_it(self):  # A5.1
        target = Target()
        url = target.script("/t", not_before_seconds(429, 3600))
        status, _, err = run("send", url, "--data", "x")
        self.assertEqual((status, len(target.seen())), (4, 1))
        self.assertNotIn("retrying", err)
        (kept,) = waiting()
        self.assertIsNotNone(kept["not_before"])
        status, (line,), _ = flush()
        self.assertEqual((status, line["result"], len(target.seen())), (4, "waiting", 1))
        self.assertEqual(waiting()[0]["attempts"], 0)

    def a_refusal_at_the_second_try_is_not_kept(self):
        target = Target()
        status, _, err = run("send", target.script("/t", answer(503), answer(422)))
        self.assertEqual((status, files(), len(target.seen())), (1, [], 2))
        self.assertIn("refused: HTTP 422", err)


class Keeping(unittest.TestCase):
    def url_key_time_and_attempts_are_kept(self):  # A9.1
        target = Target(is_up=False)
        body = bytes(range(256))
        status, out, _ = run("send", target.url("/v1/bookmarks"), "--data", "-", "--attempts", 1,
                             "--key", "k-1", "--header", "X-A: b", "--json", given=body)
        told = json.loads(out)
        self.assertEqual((status, told["result"], told["key"], told["attempts"]),
                         (4, "spooled", "k-1", 1))
        (kept,) = waiting()
        self.assertEqual(files(), [kept["name"]])
        self.assertEqual((kept["url"], kept["key"], kept["attempts"], kept["state"]),
                         (target.url("/v1/bookmarks"), "k-1", 0, "waiting"))
        self.assertRegex(kept["created_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(kept["last_error"], "connect: Connection refused")
        target.begin()
        self.assertEqual(flush()[0], 0)
        (seen,) = target.seen()
        self.assertEqual((seen.body, seen.key, seen.headers["x-a"], seen.path),
                         (body, "k-1", "b", "/v1/bookmarks"))

    def it_is_kept_before_the_first_wait(self):
        """kill -9 while it waits loses nothing."""
        target = Target()
        sent = start("send", target.script("/t", answer(503), answer(200)), "--data", "x")
        self.assertIn(b"retrying", sent.stderr.readline())
        sent.kill()
        finished(sent)
        self.assertEqual([kept["last_error"] for kept in waiting()], ["HTTP 503"])
        self.assertEqual(flush()[0], 0)
        first, second = target.seen()
        self.assertEqual(first.key, second.key)

    def one_that_waits_to_try_again_is_not_sent_by_a_flush_meanwhile(self):
        target = Target(is_up=False)
        sent = start("send", target.url(), "--data", "x")
        self.assertIn(b"retrying", sent.stderr.readline())
        target.begin()
        status, (line,), _ = flush()
        self.assertEqual((status, line["error"]), (4, "another process is sending it"))
        status, _, err = run("spool", "drop", "--all")
        self.assertEqual(status, 1)
        self.assertIn("another process is sending", err)
        self.assertEqual((finished(sent)[0][0], len(target.seen()), files()), (0, 1, []))

    def sends_at_the_same_time_do_not_wait_for_each_other(self):
        target = Target()
        waits = start("send", target.script("/1", answer(503), answer(200)), "--data", "1")
        self.assertIn(b"retrying", waits.stderr.readline())
        self.assertEqual(run("send", target.url("/2"), "--data", "2")[0], 0)
        other = start("send", target.script("/3", answer(503)), "--data", "3")
        self.assertIn(b"retrying", other.stderr.readline())
        other.kill()  # it was kept, also beside one that is being sent
        finished(other)
        self.assertEqual((finished(waits)[0][0], len(files())), (0, 1))

    def a_send_waits_behind_what_waits_for_the_same_place(self):  # A9.2
        target = Target(is_up=False)
        for body in ("1", "2", "3"):
            status, _, _ = run("send", target.url(f"/{body}"), "--data", body, "--attempts", 1)
            self.assertEqual(status, 4)
        self.assertEqual([kept["attempts"] for kept in waiting()], [0, 0, 0])  # none is used up
        other = Target()
        self.assertEqual(run("send", other.url(), "--data", "elsewhere")[0], 0)
        target.begin()
        status, out, _ = run("send", target.url("/4"), "--data", "4")
        self.assertEqual((status, files()), (0, []))
        self.assertEqual([seen.body for seen in target.seen()], [b"1", b"2", b"3", b"4"])

    def saving_often_while_offline_uses_no_tries_up(self):
        target = Target(is_up=False)
        for number in range(8):
            run("send", target.url(), "--data", str(number), "--attempts", 1)
        self.assertEqual([kept["attempts"] for kept in waiting()], [0] * 8)
        self.assertEqual({kept["state"] for kept in waiting()}, {"waiting"})

    def a_send_during_a_flush_is_taken_along(self):
        target, event = Target(is_up=False), threading.Event()
        url = target.script("/t", hold(event))
        run("send", url, "--data", "1", "--attempts", 1)
        target.begin()
        flushing = start("flush", "--json")
        target.wait_for(1)
        status, out, _ = run("send", url, "--data", "2", "--json")
        self.assertEqual((status, json.loads(out)["error"]), (4, "others before it are being sent"))
        event.set()
        (status, out, _), = finished(flushing)
        self.assertEqual((status, json.loads(out.splitlines()[-1])["sent"], files()), (0, 2, []))
        self.assertEqual([seen.body for seen in target.seen()], [b"1", b"2"])

    def what_cannot_be_kept_is_told(self):
        target = Target(is_up=False)
        SPOOL.write_text("no folder")
        status, out, err = run("send", target.url(), "--attempts", 1)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("spool", err)

    def the_usual_folder_is_in_the_home(self):
        target = Target(is_up=False)
        done = subprocess.run([BIN, "send", target.url(), "--attempts", "1"], check=False,
                              stdout=subprocess.PIPE, env=environment(HOME=os.getcwd()))
        self.assertEqual(done.returncode, 4)
        names = os.listdir(".local/state/daruma/spool")
        self.assertEqual(len([name for name in names if name.endswith(".request")]), 1)
        self.assertEqual(os.stat(".local/state/daruma/spool").st_mode & 0o777, 0o700)

    def ctrl_c_while_it_waits_leaves_it_kept(self):
        target = Target()
        sent = start("send", target.script("/t", answer(503)), "--data", "x")
        self.assertIn(b"retrying", sent.stderr.readline())
        sent.send_signal(signal.SIGINT)
        self.assertEqual(finished(sent)[0][0], -signal.SIGINT)
        self.assertEqual(len(files()), 1)


class CommandLine(unittest.TestCase):
    def what_is_wrong_is_named(self):
        url = "http://127.0.0.1:9/"
        for arguments, named in ((("send",), "no URL given"), (("send", "ftp://x/"), "expected one"),
                                 (("send", url, url), "expected one"),
                                 (("send", f"http://me:{SECRET}@x/"), "expected one"),
                                 (("send", url, "--data", "a", "--json-data", "1"), "--json-data"),
                                 (("send", url, "--header", f"X {SECRET}"), "--header: expected"),
                                 (("send", url, "--header", "Content-Length: 5"), "--header"),
                                 (("send", url, "--header", "idempotency-key: 5"), "--key"),
                                 (("send", url, "--header", "A: 1", "--header", "a: 2"), "--header"),
                                 (("send", url, "--header", b"A: \xff"), "--header"),
                                 (("send", url, "--key", "a b"), "--key"),
                                 (("send", url, "--method", "CONNECT"), "--method"),
                                 (("send", url, "--attempts", "0"), "--attempts"),
                                 (("send", url, "--timeout", "25h"), "--timeout"),
                                 (("flush", "now"), "'now' given"),
                                 (("spool", "show"), "'show' given"),
                                 (("spool", "drop"), "drop: expected one of"),
                                 (("spool", "drop", "--all", "--failed"), "drop: expected one of"),
                                 (("spool", "drop", "../x"), "'../x' given"),
                                 (("spool", "--all"), "--all: expected only with drop")):
            words = [word if isinstance(word, bytes) else word.encode() for word in arguments]
            done = subprocess.run([BIN.encode(), *words], stdout=subprocess.PIPE, check=False,
                                  stderr=subprocess.PIPE, env=environment(HOME=os.getcwd()))
            self.assertEqual((done.returncode, done.stdout), (2, b""), arguments)
            self.assertIn(named, done.stderr.decode())
            self.assertNotIn(SECRET, done.stderr.decode().replace(f"me:{SECRET}@", ""))

    def every_command_has_help(self):
        for name in ("send", "flush", "spool", "key"):
            done = subprocess.run([BIN, name, "--help"], stdout=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(done.stdout.decode().startswith(f"usage: daruma {name}"))
            self.assertIn(b"--json", done.stdout)
            self.assertNotIn(b"--server", done.stdout)

    def secrets_are_kept_for_their_owner_and_shown_nowhere(self):  # I10
        target = Target(is_up=False)
        _, *said = run("send", target.url(), "--header", f"Authorization: Bearer {SECRET}",
                       "--data", SECRET, "--attempts", 1)
        for arguments in (("spool",), ("spool", "--json"), ("flush",), ("flush", "--json")):
            said += run(*arguments)[1:]
        self.assertNotIn(SECRET, "".join(said))
        self.assertIn("Authorization", "".join(said))  # that there is one
        self.assertEqual({(SPOOL / name).stat().st_mode & 0o777 for name in files()}, {0o600})

    def on_a_terminal_the_result_has_a_colour(self):
        target = Target()
        status, seen = on_terminal("send", target.url(), "--key", "k")
        self.assertEqual((status, seen), (0, "\x1b[32msent\x1b[0m HTTP 200, key k\r\n"))
        status, seen = on_terminal("send", target.url(), "--key", "k", NO_COLOR="1")
        self.assertEqual((status, seen), (0, "sent HTTP 200, key k\r\n"))


class HeaderFiles(unittest.TestCase):
    def headers_can_come_from_a_file(self):
        target = Target()
        with open("headers", "wb") as file:
            file.write(b"Authorization: Bearer " + SECRET.encode() + b"\r\n\nX-B:  two \n")
        status, _, err = run("send", target.url(), "--header", "@headers", "--header", "X-C: 3")
        self.assertEqual((status, err), (0, ""))
        seen = target.seen()[0].headers
        self.assertEqual((seen["authorization"], seen["x-b"], seen["x-c"]),
                         (f"Bearer {SECRET}", "two", "3"))

    def what_is_wrong_with_a_file_is_told_without_its_lines(self):
        target = Target()
        for text in (f"X-A: 1\n{SECRET}\n", f"X-A: 1\nx-a: {SECRET}\n", f"X-A: 1\nHost {SECRET}\n",
                     f"X-A: 1\nContent-Length: {SECRET}", f"X-A: 1\nX-B: {SECRET}\x01"):
            with open("headers", "w", encoding="utf-8") as file:
                file.write(text)
            status, out, err = run("send", target.url(), "--header", "@headers")
            self.assertEqual((status, out), (2, ""))
            self.assertIn("--header: line 2 of headers: expected 'Name: value', each name once", err)
            self.assertNotIn(SECRET, err)
        status, _, err = run("send", target.url(), "--header", "@missing")
        self.assertEqual(status, 1)
        self.assertIn("--header: cannot read missing: No such file or directory", err)
        self.assertEqual(run("send", target.url(), "--header", "@-")[0], 2)
        self.assertEqual((target.seen(), SPOOL.exists()), ([], False))


class Disk(unittest.TestCase):
    def what_could_not_be_tried_is_told_to_be_neither_sent_nor_kept(self):
        target = Target(is_up=False)
        self.assertEqual(run("send", target.url(), "--data", "0", "--attempts", 1)[0], 4)
        target.script("/", answer(503))
        target.begin()
        status, said = lacking.run(lacking.files_that_do_not_grow, "send", target.url(), "--data", "1",
                                   "--spool", SPOOL)
        self.assertEqual(status, 1)
        self.assertRegex(said.decode(), r"(?m)^daruma send: not sent \(spool/\.changed: cannot be written: "
                                        r"File too large\), and not kept$")
        self.assertEqual([request.body for request in target.seen()], [b"0"])

    def a_spool_that_cannot_be_opened_is_told_to_have_kept_nothing(self):
        target = Target()
        status, said = lacking.run(dict, "send", target.url(), "--spool", "x" * 5000)
        self.assertEqual((status, target.seen()), (1, []))
        self.assertIn(b"daruma send: neither sent nor kept\n", said)


if __name__ == "__main__":
    runner.main()
