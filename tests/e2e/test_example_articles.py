# SPDX-License-Identifier: MIT
"""examples/articles, run as its reader would: every article ends as document D says. D1-D6."""
import os
import re
import subprocess
import tempfile
import unittest

import runner
from program import BIN

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples",
                       "articles")
SECONDS_MAX = 50


def run(**environment):
    return subprocess.run([os.path.join(EXAMPLE, "run.sh")], check=False, text=True,
                          env={**os.environ, "DARUMA_BIN": BIN, **environment}, timeout=SECONDS_MAX,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class ArticlesExample(unittest.TestCase):
    def every_article_ends_as_the_document_and_the_page_say(self):  # D1, D2, D4, D5, D6
        done = run(TMPDIR=os.getcwd())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(EXAMPLE, "README.md"), encoding="utf-8") as file:
            page = file.read()
        shown = re.search(r"^Waits are.*?(?=^```)", page, re.M | re.S).group(0)
        self.assertTrue(done.stdout.startswith(shown), done.stdout)
        for event in ("provider_succeeded task=", "task_failed_permanently task=",  # D3, D6.4
                      "queue_length queue=articles", "run_done queue=articles kind=manual",
                      "run_done queue=articles kind=scheduled", "queue_empty queue=articles"):
            self.assertIn("\n  " + event, done.stdout)
        self.assertEqual(os.listdir("."), [])  # nothing is left behind

    def without_a_program_it_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(DARUMA_BIN=os.path.join(folder, "daruma"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("run make first", done.stderr)


if __name__ == "__main__":
    runner.main()
