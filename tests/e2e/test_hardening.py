# SPDX-License-Identifier: MIT
"""The built program has what makes a mistake in memory harder to use, and its unit what bounds it."""
import os
import platform
import re
import shutil
import subprocess
import unittest

import runner
from program import BIN

UNIT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../packaging/daruma.service.in"))
EXPOSURE_MAX = 1.5
IS_SANITIZED = "asan" in BIN or "tsan" in BIN


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments, BIN], capture_output=True, text=True,
                          check=True).stdout


if IS_SANITIZED:
    class Sanitized(unittest.TestCase):
        def test_it_looks_at_every_access(self):  # sanitizers have checks of their own
            self.assertIn("__asan_init", readelf("--dyn-syms"))
else:
    class Program(unittest.TestCase):
        def test_it_is_loaded_at_an_address_that_is_not_known(self):
            self.assertIn("DYN (Position-Independent Executable", readelf("-h"))

        def test_its_tables_of_functions_cannot_be_written(self):
            self.assertRegex(readelf("-l"), r"GNU_RELRO")
            self.assertRegex(readelf("-d"), r"BIND_NOW|FLAGS_1.*NOW")

        def test_its_stack_cannot_be_executed(self):
            stack = re.search(r"GNU_STACK.*", readelf("-l")).group(0)
            self.assertNotIn("E", stack.split()[6])

        def test_its_stack_and_its_copies_are_checked(self):
            symbols = readelf("--dyn-syms")
            self.assertIn("__stack_chk_fail", symbols)
            self.assertRegex(symbols, r"__\w+_chk\b(?<!__stack_chk_fail)")

        def test_its_jumps_are_marked(self):
            if platform.machine() != "x86_64":
                return  # a feature of that processor
            begun = subprocess.run(["objdump", "-d", "--disassemble=main", BIN], capture_output=True,
                                   text=True, check=True).stdout
            self.assertRegex(begun, r"<main>:\n.*endbr64")


class Unit(unittest.TestCase):
    def test_it_leaves_what_a_process_is_told_from_the_one_before_it_by(self):
        with open(UNIT, encoding="utf-8") as file:
            self.assertNotRegex(file.read(), r"(?m)^ProcSubset=pid")

    def test_it_exposes_little(self):
        if shutil.which("systemd-analyze") is None:
            return
        with open(UNIT, encoding="utf-8") as file:
            text = re.sub(r"@\w+@", "/usr", file.read())
        with open("daruma.service", "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run(["systemd-analyze", "security", "--offline=true",
                               os.path.abspath("daruma.service")],
                              capture_output=True, text=True, check=False)
        found = re.search(r"exposure level for daruma.service: ([\d.]+)", done.stdout)
        if found is None:
            return  # a version that cannot do so
        self.assertLessEqual(float(found.group(1)), EXPOSURE_MAX)


if __name__ == "__main__":
    runner.main()
