# SPDX-License-Identifier: MIT
"""The spool and everything that can go wrong with the machine: `daruma send` and `daruma flush` are
killed in place of each call they make to its folder, each write of theirs fails, the power goes, the
network is not there. What was promised (exit status 4) is kept, whole and in order, until it is
taken; what is kept is sent under one key (A9.1, A9.2, I8, I9).

tests/powercut/powercut.so does the killing and the failing and writes down what happened to the disk;
tests/powercut/disk.py says what is left when the power is back. DARUMA_POWERCUT names their folder.
DARUMA_POWERCUT_ROUNDS: how many cuts.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import threading
import unittest

import runner
from server import Server
from spooling import BIN, SPOOL, files, flush, run, spool, waiting
from target import Target, answer, read_then_reset

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "powercut"))
import disk  # noqa: E402

BESIDE = pathlib.Path(BIN).resolve().parent
TOOLS = pathlib.Path(os.environ.get("DARUMA_POWERCUT") or BESIDE / "tests" / "powercut").resolve()
ROUNDS = int(os.environ.get("DARUMA_POWERCUT_ROUNDS") or 30)
SEED = int(os.environ.get("DARUMA_SEED") or 78)
REPORT = os.dup(1)  # the runner shows what a test prints only when it fails
CALLS_MAX = 100  # that one command makes to the folder: far more than it does
KILLED = -signal.SIGKILL
runner.TEST_SECONDS_MAX = max(runner.TEST_SECONDS_MAX, 4 * ROUNDS)

for needed in ("powercut.so", "nonet.so"):
    if not (TOOLS / needed).exists():
        sys.exit(f"DARUMA_POWERCUT must say where {needed} is: not in {TOOLS}")


def under_shim(*arguments, **settings):
    """(exit status, stdout, stderr) of a run whose calls to the spool are watched."""
    SPOOL.mkdir(exist_ok=True)
    return run(*arguments, LD_PRELOAD=TOOLS / "powercut.so", DARUMA_POWERCUT_DIR=SPOOL.absolute(),
               DARUMA_POWERCUT_LOG=os.path.abspath("log"), **settings)


def send(url, body, **settings):
    return under_shim("send", url, "--data", body, "--attempts", 1, **settings)


def whole(test):
    """What is in the spool; nothing in it may be damaged."""
    kept = waiting()
    test.assertNotIn("damaged", [one["state"] for one in kept])
    return kept


def keys_of(target):
    """The keys that each body was seen under."""
    seen = {}
    for request in target.seen():
        seen.setdefault(request.body.decode(), set()).add(request.key)
    return seen


class Killed(unittest.TestCase):
    def send_can_be_killed_at_every_step(self):
        target = Target(is_up=False)
        kills = 0
        for number in range(1, CALLS_MAX):
            status, _, err = send(target.url(), str(number), DARUMA_POWERCUT_AT=number)
            kept = [one["name"] for one in whole(self)]
            if status != KILLED:
                self.assertEqual((status, len(kept)), (4, 1), err)
                break
            kills += 1
            self.assertLessEqual(len(kept), 1)
            run("spool", "drop", "--all")
        self.assertGreater(kills, 5)

    def send_that_waits_to_try_again_can_be_killed_at_every_step(self):
        """The first try was answered 503, so from the first wait on it is kept, whatever happens."""
        kills = 0
        for number in range(1, CALLS_MAX):
            target = Target()
            url = target.script("/t", answer(503), answer(200))
            status, _, err = under_shim("send", url, "--data", str(number),
                                        DARUMA_POWERCUT_AT=number)
            if status != KILLED:
                self.assertEqual((status, files()), (0, []), err)
                break
            kills += 1
            if "retrying" in err:
                self.assertTrue(len(whole(self)) == 1 or len(target.seen()) == 2, (number, err))
            self.assertEqual(flush()[0], 0)
            self.assertEqual({len(keys) for keys in keys_of(target).values()}, {1})
        self.assertGreater(kills, 8)

    def flush_can_be_killed_at_every_step(self):
        """A real server's queue has each save once, in order, however often a flush is killed."""
        server = Server(self, queues=[{"name": "q"}]).start()
        server.post("/v1/queues/q:pause")
        is_cut = threading.Event()

        def pass_on(connection, request):
            if is_cut.is_set():
                return read_then_reset(connection, request)
            headers = {"Idempotency-Key": request.key}
            got = server.call(request.method, request.path, request.body, headers)
            return answer(got.status, {}, got.body)(connection, request)

        target, saves, kills = Target(choose=lambda _request: pass_on), 0, 0
        for number in range(1, CALLS_MAX):
            is_cut.set()
            for _ in range(2):
                task = json.dumps({"target": "http://127.0.0.1:9/", "body": str(saves)})
                spool(target.url("/v1/queues/q/tasks"), task)
                saves += 1
            is_cut.clear()
            status, _, err = under_shim("flush", DARUMA_POWERCUT_AT=number)
            whole(self)
            if status != KILLED:
                self.assertEqual(status, 0, err)
                break
            kills += 1
            self.assertEqual(flush()[0], 0)
        self.assertGreater(kills, 3)
        tasks = server.get("/v1/queues/q/tasks?limit=1000").json["tasks"]
        recorded = [int(server.task(task["id"])["request"]["body"]) for task in tasks]
        self.assertEqual(recorded, list(range(saves)))

    def flush_that_counts_can_be_killed_at_every_step(self):
        """A try is counted or not; the request, its order and its key stay what they were."""
        kills = 0
        for number in range(1, CALLS_MAX):
            target = Target(is_up=False)
            spool(target.script("/t", answer(500)), "0", "1")
            before = [(one["name"], one["key"], one["created_at"]) for one in whole(self)]
            target.begin()
            status, _, err = under_shim("flush", DARUMA_POWERCUT_AT=number)
            after = whole(self)
            self.assertEqual([(one["name"], one["key"], one["created_at"]) for one in after], before)
            self.assertLessEqual({one["attempts"] for one in after}, {0, 1})
            if status != KILLED:
                self.assertEqual((status, [one["attempts"] for one in after]), (4, [1, 1]), err)
                break
            kills += 1
            run("spool", "drop", "--all")
        self.assertGreater(kills, 8)


class FailingDisk(unittest.TestCase):
    """The n-th write, truncation, fsync or rename fails, for n = 1, 2, 3 …"""

    def _send(self, name, sticky):
        target, ended = Target(is_up=False), {1: 0, 4: 0}
        for number in range(1, 20):
            shutil.rmtree(SPOOL, ignore_errors=True)
            status, _, err = send(target.url(), "0", DARUMA_FAIL_WRITE_AT=number,
                                    DARUMA_FAIL_ERRNO=name, DARUMA_FAIL_STICKY=sticky)
            ended[status] += 1
            kept = whole(self)
            if status == 4:
                self.assertEqual(len(kept), 1)
            else:
                self.assertIn("not kept", err)
                self.assertIn("spool", err)
        self.assertGreater(ended[1], 1)
        self.assertGreater(ended[4], 1)

    def a_full_disk_under_send_is_told(self):
        self._send("ENOSPC", 0)

    def a_disk_that_stays_full_under_send_is_told(self):
        self._send("ENOSPC", 1)

    def a_failed_write_under_send_is_told(self):
        self._send("EIO", 0)

    def a_broken_disk_under_send_is_told(self):
        self._send("EIO", 1)

    def _flush(self, name, sticky):
        """What was not taken is there as it was, or counted."""
        failed = 0
        for number in range(1, 20):
            shutil.rmtree(SPOOL, ignore_errors=True)
            target = Target(is_up=False)
            spool(target.script("/t", answer(500), answer(200)), *"012")
            before = {one["key"]: one["name"] for one in whole(self)}
            target.begin()
            status, _, err = under_shim("flush", "--json", DARUMA_FAIL_WRITE_AT=number,
                                        DARUMA_FAIL_ERRNO=name, DARUMA_FAIL_STICKY=sticky)
            self.assertIn(status, (1, 4), err)
            left = {one["key"]: one["name"] for one in whole(self)}
            taken = {request.key for request in target.seen()[1:]}
            self.assertLessEqual(left.items(), before.items())
            self.assertGreaterEqual(left.keys() | taken, before.keys())
            failed += status == 1
        self.assertGreater(failed, 1)

    def a_full_disk_under_flush_loses_nothing(self):
        self._flush("ENOSPC", 0)

    def a_disk_that_stays_full_under_flush_loses_nothing(self):
        self._flush("ENOSPC", 1)

    def a_broken_disk_under_flush_loses_nothing(self):
        self._flush("EIO", 1)


class PowerCut(unittest.TestCase):
    """Save after save and flush after flush, each with a power cut somewhere in it; the next one
    begins with what the disk has kept."""

    def _cut(self, seed, *arguments, **settings):
        """The exit status; the spool is what the disk kept."""
        SPOOL.mkdir(exist_ok=True)
        before = disk.Disk(str(SPOOL))
        status, _, _ = under_shim(*arguments, **settings)
        before.replay("log")
        os.unlink("log")
        shutil.rmtree(SPOOL)
        before.cut(seed, str(SPOOL))
        return status

    def _round(self, dice, url, body, **settings):
        """One save and one flush: was it promised?"""
        status = self._cut(dice.randrange(1 << 32), "send", url, "--data", body, "--attempts", 1,
                           DARUMA_POWERCUT_AT=dice.randint(1, 25), **settings)
        self.assertIn(status, (0, 4, KILLED))
        flushed = self._cut(dice.randrange(1 << 32), "flush",
                            DARUMA_POWERCUT_AT=dice.randint(1, 30), **settings)
        self.assertIn(flushed, (0, 1, 4, KILLED))
        return status == 4

    def _run(self, rounds, **settings):
        """(what is wrong at the end, or None; what was promised)."""
        dice, luck, taken = random.Random(SEED), random.Random(SEED + 1), set()

        def choose(request):
            if luck.random() < 0.5:
                return luck.choice((answer(500), answer(500), read_then_reset))
            taken.add(request.body.decode())
            return answer(200)
        target = Target(choose)
        promised = [body for body in map(str, range(rounds))
                    if self._round(dice, target.url(), body, **settings)]
        kept = waiting()
        if any(one["state"] == "damaged" for one in kept):
            return "something is damaged", promised
        there = {(SPOOL / name).read_text().rsplit("\n}\n", 1)[1] for name in files()}
        keys = keys_of(target)
        for body in promised:
            if body not in taken | there:
                return f"{body} was promised, and is gone", promised
            if len(keys.get(body, ())) > 1:
                return f"{body} was seen under {keys[body]}", promised
        return None, promised

    def what_was_promised_outlives_any_power_cut(self):
        wrong, promised = self._run(ROUNDS)
        self.assertIsNone(wrong, f"DARUMA_SEED={SEED}: {wrong}")
        self.assertGreater(len(promised), ROUNDS // 10)
        os.write(REPORT, f"spool: {ROUNDS} cuts, {len(promised)} requests promised\n".encode())

    def without_fsync_a_loss_is_found(self):
        wrong, _ = self._run(max(ROUNDS, 30), DARUMA_POWERCUT_NOSYNC=1)
        self.assertIsNotNone(wrong, "nothing was lost without fsync: the test is blind")


class WithoutANetwork(unittest.TestCase):
    def nothing_is_counted_while_there_is_no_network(self):
        """Nobody answers, because nobody can be asked: a flush on a train uses no tries up."""
        for url in ("http://192.0.2.1/", "http://nowhere.example.org/"):
            spool(url, "0", LD_PRELOAD=TOOLS / "nonet.so")
        for _ in range(6):
            status, lines, _ = flush(LD_PRELOAD=TOOLS / "nonet.so")
            self.assertEqual(status, 4)
            self.assertEqual({line["error"] for line in lines}, {"there is no network"})
        self.assertEqual([one["attempts"] for one in waiting()], [0, 0])

    def a_place_on_this_machine_counts_all_the_same(self):
        target = Target(is_up=False)
        spool(target.url(), "0")
        flush(LD_PRELOAD=TOOLS / "nonet.so")
        self.assertEqual([one["attempts"] for one in waiting()], [1])


if __name__ == "__main__":
    runner.main()
