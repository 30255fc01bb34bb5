# SPDX-License-Identifier: MIT
"""Runs the tests of one end-to-end file: each in a process and an empty folder of its own, a few
at a time, none for longer than TEST_SECONDS_MAX.

    if __name__ == "__main__":
        runner.main()

A test is a method of a unittest.TestCase whose name is a claim: any method that does not begin
with an underscore and is not unittest's own. Names as arguments run only those tests. Prints
`ok NAME` or `FAIL NAME` with what the test said, and ends with `N passed, N failed`.
"""
import io
import os
import shutil
import signal
import sys
import tempfile
import traceback
import unittest

TEST_SECONDS_MAX = 120
AT_ONCE = int(os.environ.get("DARUMA_TESTS_AT_ONCE") or 4)


def ended(_number, _frame):
    sys.exit("runner: ended by a signal")


signal.signal(signal.SIGTERM, ended)  # also while a server is being made for all tests


def claims(module):
    """(name, class) of each test, in the order they are written."""
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase):
            for name, member in vars(kind).items():
                if callable(member) and name[0] != "_" and not hasattr(unittest.TestCase, name):
                    yield name, kind


def out_of_time(_number, _frame):
    raise TimeoutError(f"no end after {TEST_SECONDS_MAX} s")


def run_here(name, kind, folder, output):
    """In the test's own process: the exit status says how it went."""
    os.chdir(folder)
    tempfile.tempdir = os.environ["TMPDIR"] = folder  # what it makes goes with it
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell ignores it for what it runs behind its back
    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, TEST_SECONDS_MAX, 1)  # again if it hangs in cleaning up
    outcome = unittest.TestResult()
    kind(name).run(outcome)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for _test, text in outcome.failures + outcome.errors:
        os.write(2, text.encode(errors="replace"))
    return 0 if outcome.wasSuccessful() and not outcome.skipped else 1


def start(name, kind):
    folder = tempfile.mkdtemp(prefix="daruma-e2e-")
    os.chmod(folder, 0o711)  # PostgreSQL runs as another user
    output = tempfile.TemporaryFile()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = run_here(name, kind, folder, output)
        except BaseException:  # whatever it is, this process must end here
            os.write(2, traceback.format_exc().encode(errors="replace"))
        os._exit(status)
    return pid, (name, folder, output)


def end_strays(folder):
    """What a failed test has left running is known by the folder it runs in."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(folder):
                os.kill(int(pid), signal.SIGKILL)
        except OSError:  # gone meanwhile, or somebody else's
            pass


def finish(running):
    """Waits for one test; true when it passed."""
    pid, status = os.wait()
    name, folder, output = running.pop(pid)
    end_strays(folder)
    shutil.rmtree(folder, ignore_errors=True)
    print("ok" if status == 0 else "FAIL", name, flush=True)
    if status != 0:
        output.seek(0)
        said = io.TextIOWrapper(output, errors="replace").read()
        print(said or f"ended with wait status {status}", flush=True)
    output.close()
    return status == 0


def clean_up(running):
    """Ended before its tests are: they end with it, and leave nothing behind."""
    for pid, (_name, folder, _output) in running.items():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        end_strays(folder)
        shutil.rmtree(folder, ignore_errors=True)


def main():
    running = {}
    try:
        run_all(sys.argv[1:], running)
    finally:
        clean_up(running)


def run_all(wanted, running):
    tests = [test for test in claims(sys.modules["__main__"]) if not wanted or test[0] in wanted]
    names = [name for name, _kind in tests]
    passed = 0
    if len(set(names)) != len(names) or not names:
        sys.exit("runner: there are no tests, or two of one name")
    sys.stdout.flush()
    for name, kind in tests:
        if len(running) == AT_ONCE:
            passed += finish(running)
        pid, test = start(name, kind)
        running[pid] = test
    while running:
        passed += finish(running)
    print(f"{passed} passed, {len(tests) - passed} failed")
    sys.exit(passed != len(tests))
