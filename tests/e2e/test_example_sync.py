# SPDX-License-Identifier: MIT
"""examples/sync, run as its reader would: each category ends as document E says. E1, E2, E3."""
import os
import re
import subprocess
import tempfile
import unittest

import runner
from program import BIN

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "sync")
SECONDS_MAX = 50


def run(*arguments, **environment):
    return subprocess.run([os.path.join(EXAMPLE, "run.sh"), *arguments], check=False, text=True,
                          env={**os.environ, "DARUMA_BIN": BIN, **environment}, timeout=SECONDS_MAX,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class SyncExample(unittest.TestCase):
    def each_category_ends_as_the_document_says(self):  # E2, E3
        done = run(TMPDIR=os.getcwd())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = re.findall(r"^(ok|NO) +(.+?)  +(\S.*?)  +(\w+) +(\d+) (?:tries|try) *(.*)$",
                          done.stdout, re.M)
        self.assertEqual([(row[1], row[3], int(row[4]), row[5].split()) for row in rows], [
            ("transient, heals", "succeeded", 3, ["1", "2"]),
            ("transient, never heals", "failed", 10,
             ["1", "2", "4", "8", "16", "32", "64", "128", "256"]),
            ("timeout, heals", "succeeded", 2, ["1"]),
            ("rate limit (429)", "failed", 4, ["10", "10", "10"]),
            ("authentication (401)", "failed", 1, []),
            ("authentication (403)", "failed", 1, []),
            ("bad data (400)", "failed", 1, []),
            ("nothing wrong", "succeeded", 1, [])])
        tries = sum(int(row[4]) for row in rows)
        self.assertIn(f"the target saw {tries} requests", done.stdout)
        self.assertIn("Waits are 1/100 of the real ones", done.stdout)
        self.assertEqual(os.listdir("."), [])  # nothing is left behind

    def the_page_shows_what_it_prints(self):
        with open(os.path.join(EXAMPLE, "README.md"), encoding="utf-8") as file:
            page = file.read()
        shown = re.search(r"^Waits are.*?part E, says\.$", page, re.M | re.S).group(0)
        lines = [line.rstrip() for line in run().stdout.splitlines()]
        self.assertEqual(shown.splitlines(), lines[lines.index(shown.splitlines()[0]):])

    def without_a_program_it_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(DARUMA_BIN=os.path.join(folder, "daruma"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("run make first", done.stderr)


if __name__ == "__main__":
    runner.main()
