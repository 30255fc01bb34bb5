# SPDX-License-Identifier: MIT
"""Stores and the disk: what was acknowledged is there after a power cut at any moment, whatever the
disk kept of what was not yet synced, and after a write or an fsync that failed (I1, I7, I8, I9).
And that these tests bite: with an fsync that does nothing they find a loss.

tests/powercut/driver uses a store, tests/powercut/powercut.so writes down what it does to the disk
and cuts the power, tests/powercut/disk.py says what is left. DARUMA_POWERCUT names the folder with
the first two, or they are in tests/powercut beside the program that DARUMA_BIN names.
DARUMA_POWERCUT_ROUNDS: how many cuts.
"""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import unittest

import runner

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "powercut"))
import disk  # noqa: E402

BESIDE = pathlib.Path(os.environ.get("DARUMA_BIN", "daruma")).resolve().parent
TOOLS = pathlib.Path(os.environ.get("DARUMA_POWERCUT") or BESIDE / "tests" / "powercut").resolve()
ROUNDS = int(os.environ.get("DARUMA_POWERCUT_ROUNDS") or 30)
SEED = int(os.environ.get("DARUMA_SEED") or 78)
REPORT = os.dup(1)  # the runner shows what a test prints only when it fails
BATCHES = 12
SPECS = {"json": "json:{}/tasks.json", "sqlite": "sqlite:{}/tasks.db"}
CLOSED = 3  # the driver's exit status when a store cannot be opened
runner.TEST_SECONDS_MAX = max(runner.TEST_SECONDS_MAX, 4 * ROUNDS)

if not (TOOLS / "driver").exists() or not (TOOLS / "powercut.so").exists():
    sys.exit(f"DARUMA_POWERCUT must say where driver and powercut.so are: not in {TOOLS}")


class World:
    """What may be in the store, by what the driver told: a line of `try` is what would be, `ack`
    makes it so."""

    def __init__(self):
        self.surely = {}
        self.maybe = []  # each whole or not at all, and at most one of them

    @staticmethod
    def changed(things, changes):
        after = {**things, **changes}
        return {what: how for what, how in after.items() if how != "gone"}

    def hear(self, lines):
        tried = {}
        for line in lines:
            word, *rest = line.split(" ", 2)
            if word == "try":
                tried[rest[0]] = rest[1]
            elif word == "ack":
                self.surely = self.changed(self.surely, tried)
                self.maybe, tried = [], {}  # what was in doubt is certainly not there any more
            elif word == "refused":
                tried = {}
            elif word == "doubt":
                self.maybe.append(tried)
                tried = {}
        if tried:
            self.maybe.append(tried)  # under way when the power went

    def possible(self):
        return [self.surely] + [self.changed(self.surely, tried) for tried in self.maybe]

    def settle_on(self, found):
        """False when it cannot be. Else it is what surely is, from now on."""
        if found not in self.possible():
            return False
        self.surely, self.maybe = found, []
        return True

    def difference(self, found):
        """For people: what is lost, and what should not be there."""
        missing = sorted(set(self.surely.items()) - set(found.items()))
        extra = sorted(set(found.items()) - set(self.surely.items()))
        return f"lost or older: {missing}\nnot acknowledged: {extra}\nmaybe: {self.maybe}"


def environment(**more):
    sanitized = os.environ.get("ASAN_OPTIONS", "")
    return {**os.environ, "ASAN_OPTIONS": f"{sanitized}:verify_asan_link_order=0", **more}


def drive(spec, seed, log, folder, **settings):
    """(exit status, lines) of a run under the shim."""
    shim = {"LD_PRELOAD": str(TOOLS / "powercut.so"), "DARUMA_POWERCUT_DIR": folder,
            "DARUMA_POWERCUT_LOG": log, **{name: str(value) for name, value in settings.items()}}
    done = subprocess.run([TOOLS / "driver", "run", spec, str(seed), str(BATCHES)], check=False,
                          env=environment(**shim), stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout.splitlines()


def look(spec):
    """(exit status, what is in the store or what it said)."""
    done = subprocess.run([TOOLS / "driver", "check", spec], env=environment(), check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = dict(line.split(" ", 2)[1:] for line in done.stdout.splitlines()
                 if line.startswith("is "))
    return done.returncode, found if done.returncode == 0 else done.stdout


class Bench:
    """One store, used and cut round after round. What one round leaves the next one begins with."""

    def __init__(self, kind):
        self.kind, self.round = kind, 0
        self.world = World()
        self.folder = os.path.abspath("disk")
        self.log = os.path.abspath("log")
        self.luck = {}
        os.makedirs(self.folder)

    def spec(self, folder=None):
        return SPECS[self.kind].format(folder or self.folder)

    def run(self, seed, **settings):
        """Runs and cuts; the folder is what the disk kept. The driver's status and lines."""
        before = disk.Disk(self.folder)
        status, lines = drive(self.spec(), seed, self.log, self.folder, **settings)
        before.replay(self.log)
        shutil.rmtree(self.folder)
        luck = before.cut(seed, self.folder)
        self.luck[luck] = self.luck.get(luck, 0) + 1
        os.unlink(self.log)
        self.world.hear(lines)
        self.round += 1
        return status, lines

    def problem(self):
        """None, or what is wrong with what the disk kept."""
        status, found = look(self.spec())
        if status != 0:
            return f"round {self.round}: the store does not open: {found}"
        if not self.world.settle_on(found):
            return f"round {self.round}: {self.world.difference(found)}"
        return None


def call_count(kind):
    """How many calls of a whole run are looked at, about."""
    folder, log = os.path.abspath("dry"), os.path.abspath("dry-log")
    os.makedirs(folder)
    drive(SPECS[kind].format(folder), SEED, log, folder)
    counter = disk.Disk(folder)
    counter.replay(log)
    return counter.number


class PowerCut(unittest.TestCase):
    def _survives(self, kind):
        dice, calls, bench = random.Random(SEED), call_count(kind), Bench(kind)
        acks = cuts = 0
        for _ in range(ROUNDS):
            seed = dice.randrange(1 << 32)
            status, lines = bench.run(seed, DARUMA_POWERCUT_AT=dice.randint(1, calls))
            self.assertEqual(status, -signal.SIGKILL, lines[-3:])
            problem = bench.problem()
            self.assertIsNone(problem, f"DARUMA_SEED={SEED}, seed {seed}: {problem}")
            acks += sum(line.startswith("ack") for line in lines)
            cuts += bool(lines) and not lines[-1].startswith("ack")
        os.write(REPORT, f"{kind}: {ROUNDS} cuts, {cuts} within a commit, {acks} commits acknowledged\n".encode())
        self.assertGreater(acks, ROUNDS)
        self.assertGreater(cuts, 0)

    def a_json_file_outlives_any_power_cut(self):
        self._survives("json")

    def a_sqlite_file_outlives_any_power_cut(self):
        self._survives("sqlite")

    def _bites(self, kind):
        """Some round within the usual number finds a loss when fsync does nothing."""
        dice, calls, bench = random.Random(SEED), call_count(kind), Bench(kind)
        for _ in range(max(ROUNDS, 30)):
            bench.run(dice.randrange(1 << 32), DARUMA_POWERCUT_AT=dice.randint(1, calls),
                      DARUMA_POWERCUT_NOSYNC=1)
            if bench.problem() is not None:
                return
        self.fail("nothing was lost without fsync: the test is blind")

    def without_fsync_a_json_file_is_found_to_lose(self):
        self._bites("json")

    def without_fsync_a_sqlite_file_is_found_to_lose(self):
        self._bites("sqlite")


class FailingDisk(unittest.TestCase):
    """The n-th write, truncation, fsync or rename fails, for n = 1, 2, 3 …; then the power goes."""

    def _refuses(self, kind, name, sticky):
        calls = call_count(kind)
        dice = random.Random(f"{SEED} {kind} {name} {sticky}")
        counts = {"ack": 0, "refused": 0, "doubt": 0, "closed": 0}
        for number in sorted(dice.sample(range(1, calls), min(ROUNDS, calls - 1))):
            bench = Bench(kind)
            status, lines = bench.run(number, DARUMA_FAIL_WRITE_AT=number, DARUMA_FAIL_ERRNO=name,
                                      DARUMA_FAIL_STICKY=sticky)
            self.assertIn(status, (-signal.SIGKILL, CLOSED), lines[-3:])
            for line in lines:
                word = line.split(" ", 1)[0]
                if word in counts:
                    counts[word] += 1
            problem = bench.problem()
            self.assertIsNone(problem, f"write {number} fails with {name}: {problem}")
            shutil.rmtree(bench.folder)
        print(f"{kind}, {name}{', and all after it' if sticky else ''}: {counts}")
        self.assertGreater(counts["refused"] + counts["doubt"], 0)

    def a_full_disk_leaves_refusals_and_no_loss_in_json(self):
        self._refuses("json", "ENOSPC", 0)

    def a_disk_that_stays_full_leaves_refusals_and_no_loss_in_json(self):
        self._refuses("json", "ENOSPC", 1)

    def a_failed_write_leaves_refusals_and_no_loss_in_json(self):
        self._refuses("json", "EIO", 0)

    def a_broken_disk_leaves_refusals_and_no_loss_in_json(self):
        self._refuses("json", "EIO", 1)

    def a_full_disk_leaves_refusals_and_no_loss_in_sqlite(self):
        self._refuses("sqlite", "ENOSPC", 0)

    def a_disk_that_stays_full_leaves_refusals_and_no_loss_in_sqlite(self):
        self._refuses("sqlite", "ENOSPC", 1)

    def a_failed_write_leaves_refusals_and_no_loss_in_sqlite(self):
        self._refuses("sqlite", "EIO", 0)

    def a_broken_disk_leaves_refusals_and_no_loss_in_sqlite(self):
        self._refuses("sqlite", "EIO", 1)


if __name__ == "__main__":
    runner.main()
