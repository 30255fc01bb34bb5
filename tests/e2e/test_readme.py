# SPDX-License-Identifier: MIT
"""The first thing that a reader of the README does works, and tells what the README says it tells."""
import os
import pathlib
import re
import subprocess
import unittest

import runner
from program import BIN
from server import Server

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = "http://127.0.0.1:8700"
VARIES = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|20\S+Z|(?<= in )\S+(?=,)|127\.0\.0\.1:\d+")


class FirstTask(unittest.TestCase):
    def _first_task(self, readme):
        text = (ROOT / readme).read_text(encoding="utf-8")
        command = re.search(r"^curl -i .*?\}'$", text, re.M | re.S).group()
        shown = re.search(r"^```\n([0-9a-f-]{36}  succeeded\n.*?)^```$", text, re.M | re.S).group(1)
        server = Server(self, queues=[{"name": "demo"}]).start()
        url = f"http://127.0.0.1:{server.port}"
        got = subprocess.run(command.replace(HERE, url), shell=True, capture_output=True, text=True,
                             check=True).stdout
        self.assertRegex(got, r"^HTTP/1.1 201 ")
        identity = re.search(r'"id":"([0-9a-f-]{36})"', got).group(1)
        self.assertEqual(server.settled(identity)["state"], "succeeded")
        told = subprocess.run([BIN, "show", identity], capture_output=True, text=True, check=True,
                              env={**os.environ, "DARUMA_URL": url}).stdout
        told = re.sub(r"(?m)^ +(Date|Content-Length): .*\n", "", told)  # left out there
        self.assertEqual(VARIES.sub("…", told), VARIES.sub("…", shown))

    def the_english_one_works(self):
        self._first_task("README.md")

    def the_japanese_one_works(self):
        self._first_task("README.ja.md")


if __name__ == "__main__":
    runner.main()
