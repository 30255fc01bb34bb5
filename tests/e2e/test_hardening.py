# SPDX-License-Identifier: MIT
"""The built program has what makes a mistake in memory harder to use."""
import platform
import re
import subprocess
import unittest

import runner
from program import BIN

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


if __name__ == "__main__":
    runner.main()
