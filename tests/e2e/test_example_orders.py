# SPDX-License-Identifier: MIT
"""examples/orders, run as its reader would: document C's hands-on, each failure policy, each kind of
timeout. C2.B, C3.1, C3.2, C4, C7."""
import os
import re
import subprocess
import unittest

import runner
from program import BIN

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "orders")
SECONDS_MAX = 50
CONFIRMED = '{"confirmation": 1001, "status": "confirmed"}'


def run(*arguments):
    """(status, body) of each call, and how many confirmations there were."""
    done = subprocess.run([os.path.join(EXAMPLE, "run.sh"), *arguments], check=False, text=True,
                          env={**os.environ, "DARUMA_BIN": BIN, "ORDERS_SECONDS": "1",
                               "TMPDIR": os.getcwd()},
                          timeout=SECONDS_MAX, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    calls = re.findall(r"^HTTP/1.1 (\d+) .*\n(?:[A-Z].*\n)*(\{.*\})$", done.stdout, re.M)
    count = int(re.search(r"^(\d+) confirmation", done.stdout, re.M).group(1))
    return [(int(status), body) for status, body in calls], count, done.stdout


class OrdersExample(unittest.TestCase):
    def the_hands_on_shows_202_and_then_the_same_201(self):  # C7
        calls, count, said = run()
        self.assertEqual([status for status, _body in calls], [202, 201, 201])
        self.assertIn('"status":"processing"', calls[0][1])
        self.assertEqual([body for _status, body in calls[1:]], [CONFIRMED] * 2)
        self.assertEqual((count, said.count("Idempotent-Replayed: true")), (1, 1))
        self.assertEqual(os.listdir("."), [])  # nothing is left behind

    def the_configuration_of_the_page_is_the_one_that_is_written(self):
        with open(os.path.join(EXAMPLE, "README.md"), encoding="utf-8") as file:
            page = re.search(r"```yaml\n(.*?)```", file.read(), re.S).group(1)
        with open(os.path.join(EXAMPLE, "run.sh"), encoding="utf-8") as file:
            script = file.read()
        written = re.search(r"<<YAML\n(.*?)^YAML", script, re.S | re.M).group(1)
        written = written.replace("$probe", re.search(r"^ *probe='(.*)'$", script, re.M).group(1))
        chosen = {"$replay": "settled", "$ambiguous": "probe"}
        def settings(text):
            return {line.split("#")[0].strip() for line in text.splitlines()
                    if not re.match(r"\s*(store|api|gateway|- match|upstream|timeout):?", line)}
        for name, value in chosen.items():
            written = written.replace(name, value)
        self.assertEqual(settings(page) - {"routes:"}, settings(written) - {"routes:"})

    def policy_1_keeps_a_500(self):  # C3.1
        calls, count, _said = run("all")
        self.assertEqual([status for status, _body in calls], [500, 500])
        self.assertEqual((calls[0], count), (calls[1], 1))

    def policy_2_keeps_what_is_certain(self):  # C3.2
        calls, count, _said = run("settled")
        self.assertEqual([status for status, _body in calls], [202, 202, 400, 400])
        self.assertEqual(count, 1)

    def a_probe_finds_out_what_a_500_and_a_cut_have_left_open(self):  # C3.2, C4
        for what in ("probe", "cut"):
            calls, count, _said = run(what)
            self.assertEqual([status for status, _body in calls], [202, 201])
            self.assertEqual((calls[1][1], count), (CONFIRMED, 1))

    def a_client_that_gives_up_sends_the_same_again(self):  # C4
        calls, count, _said = run("client-timeout")
        self.assertEqual([status for status, _body in calls], [202, 201])
        self.assertEqual((calls[1][1], count), (CONFIRMED, 1))

    def a_service_that_never_answers_is_not_asked_twice(self):  # C4
        calls, count, _said = run("server-timeout")
        self.assertEqual([status for status, _body in calls], [202, 202])
        self.assertEqual(count, 0)

    def a_503_frees_the_key(self):  # C4
        calls, count, _said = run("unavailable")
        self.assertEqual([status for status, _body in calls], [503, 201])
        self.assertEqual(count, 1)


if __name__ == "__main__":
    runner.main()
