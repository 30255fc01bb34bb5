# SPDX-License-Identifier: MIT
"""`daruma retry -- CMD`, by the real program and real commands.

Nothing here sleeps: the test and the commands tell each other where they are through pipes, waits
are a millisecond long or ended by a signal. Only what is about time itself takes some: a grace of
2 s that has to be waited out, and the waits of A5.2. Lower bounds on time are checked, upper ones
are not; a wait that should have ended and has not is a minute long and fails the test.
"""
import os
import re
import resource
import signal
import subprocess
import sys
import time
import unittest

import runner
from program import QUICK, retry, start, usual_signals

TERMINATING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
FORWARDED = TERMINATING + (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
LINE = re.compile(r"retrying in (\d+) ms \(attempt (\d+)/(\d+)\)")

# Ends with 11, then 12, then 13 ...
COUNTING = "n=$(cat n 2>/dev/null || echo 10); n=$((n + 1)); echo $n >n; exit $n"

# Says what it gets, and that it can get it; all but a stop and a continue end it with 7.
CATCHER = """
import os, signal
every = {getattr(signal, 'SIG' + name) for name in
         'INT TERM HUP QUIT USR1 USR2 WINCH TSTP CONT'.split()}
signal.pthread_sigmask(signal.SIG_BLOCK, every)
"""
READY = """
os.write(1, b'ready\\n')
while True:
    number = signal.sigwait(every)
    os.write(1, ('got %s\\n' % signal.Signals(number).name).encode())
    if number not in (signal.SIGTSTP, signal.SIGCONT):
        os._exit(7)
"""
MORTAL = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.write(1, b'ready\\n')
while True:
    signal.pause()
"""


def first_line(*arguments):
    """(wait, next attempt, attempts in all) of the first retry, which is not waited for."""
    with start(*arguments) as started:
        line = started.stderr.readline().decode().rstrip("\n")
        started.terminate()
    return tuple(int(number) for number in LINE.fullmatch(line).groups())


def waits(stderr):
    return [int(LINE.fullmatch(line).group(1)) for line in stderr.splitlines()]


def runs():
    with open("runs", encoding="ascii") as file:
        return len(file.readlines())



def signal_set(digits):
    """Without signals 32 and 33, which glibc's posix_spawn leaves ignored: make starts us so."""
    return int(digits, 16) & ~(3 << 31)


class Endings(unittest.TestCase):
    def a_command_that_succeeds_runs_once_and_nothing_is_said(self):
        self.assertEqual(retry("--", "sh", "-c", "echo x >>runs"), (0, "", ""))
        self.assertEqual(runs(), 1)

    def a_command_that_fails_runs_once_more_than_max(self):
        status, _, _ = retry("--max", "2", *QUICK, "--", "sh", "-c", "echo x >>runs; exit 3")
        self.assertEqual((status, runs()), (3, 3))

    def three_retries_are_the_default(self):
        status, _, _ = retry(*QUICK, "--", "sh", "-c", "echo x >>runs; exit 1")
        self.assertEqual((status, runs()), (1, 4))

    def max_zero_is_one_run(self):
        status, _, err = retry("--max", "0", "--", "sh", "-c", "echo x >>runs; exit 1")
        self.assertEqual((status, runs(), err), (1, 1, ""))

    def it_stops_at_the_first_success(self):
        script = "echo x >>runs; [ $(wc -l <runs) -eq 3 ]"
        status, _, err = retry(*QUICK, "--", "sh", "-c", script)
        self.assertEqual((status, runs(), len(waits(err))), (0, 3, 2))

    def the_exit_status_is_the_commands_last(self):
        status, _, _ = retry("--max", "2", *QUICK, "--", "sh", "-c", COUNTING)
        self.assertEqual(status, 13)

    def death_by_a_signal_is_128_and_its_number(self):
        status, _, err = retry("--max", "1", *QUICK, "--", "sh", "-c", "kill -KILL $$")
        self.assertEqual((status, len(waits(err))), (128 + signal.SIGKILL, 1))

    def a_command_that_is_not_there_ends_it_at_once_with_127(self):
        for command in ("no-such-command-anywhere", "./no/such/file", ""):
            status, _, err = retry("--base", "60s", "--", command)
            self.assertEqual(status, 127)
            self.assertEqual(err, f"daruma retry: {command}: No such file or directory\n")

    def a_command_that_cannot_be_executed_ends_it_at_once_with_126(self):
        os.mkdir("folder")
        with open("plain", "w", encoding="ascii") as file:
            file.write("exit 0\n")
        for command in ("./plain", "./folder"):
            status, _, err = retry("--base", "60s", "--", command)
            self.assertEqual(status, 126)
            self.assertEqual(err, f"daruma retry: {command}: Permission denied\n")

    def a_shortage_of_the_system_is_retried(self):
        def without_a_file_to_spare():
            usual_signals()
            resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))  # enough to start, not for a pipe

        status, _, err = retry("--max", "1", *QUICK, "--", "true", prepare=without_a_file_to_spare)
        said = "daruma retry: true: Too many open files\n"
        self.assertEqual((status, err), (126, f"{said}retrying in 1 ms (attempt 2/2)\n{said}"))

    def what_a_finished_run_left_behind_is_left_alone(self):
        os.mkfifo("go")
        with start("--", "sh", "-c", "(read x <go; echo late) & exit 0") as started:
            self.assertEqual(started.wait(), 0)
            with open("go", "w", encoding="ascii") as go:
                go.write("\n")
            self.assertEqual(started.stdout.read(), b"late\n")


class Lines(unittest.TestCase):
    def each_retry_is_one_line_of_exactly_the_promised_form(self):
        _, _, err = retry(*QUICK, "--", "false")
        self.assertEqual(err, "retrying in 1 ms (attempt 2/4)\nretrying in 2 ms (attempt 3/4)\n"
                              "retrying in 4 ms (attempt 4/4)\n")

    def quiet_leaves_the_lines_out(self):
        self.assertEqual(retry("--quiet", *QUICK, "--", "sh", "-c", COUNTING), (14, "", ""))

    def input_and_output_pass_through_untouched(self):
        script = "cat; printf '\\377\\000b' >&2; exit 9"
        started = start("--quiet", "--max", "0", "--", "sh", "-c", script, stdin=subprocess.PIPE)
        out, err = started.communicate(b"\xff\x00\r\na")
        self.assertEqual((started.returncode, out, err), (9, b"\xff\x00\r\na", b"\xff\x00b"))

    def a_reader_of_stderr_that_has_left_changes_nothing(self):
        reading, writing = os.pipe()
        os.close(reading)
        status, _, _ = retry(*QUICK, "--", "sh", "-c", COUNTING, stderr=writing)
        self.assertEqual(status, 14)


class Waits(unittest.TestCase):
    def the_default_waits_are_the_librarys(self):  # B1
        wait, coming, every = first_line("--", "false")
        self.assertTrue(160 <= wait <= 240, wait)
        self.assertEqual((coming, every), (2, 4))

    def waits_double_from_the_base_up_to_the_cap(self):
        _, _, err = retry("--base", "2ms", "--cap", "5ms", "--jitter", "none", "--", "false")
        self.assertEqual(waits(err), [2, 4, 5])

    def a_base_above_the_default_cap_raises_it(self):
        self.assertEqual(first_line("--base", "1h30m", "--jitter", "0", "--", "false")[0], 5400000)

    def each_kind_of_jitter_keeps_within_its_bounds(self):
        low_and_high = {
            "none": [(8, 8), (16, 16), (20, 20)],
            "0": [(8, 8), (16, 16), (20, 20)],
            "0.5": [(4, 12), (8, 20), (10, 20)],
            "1": [(0, 16), (0, 20), (0, 20)],
            "full": [(0, 8), (0, 16), (0, 20)],
            "equal": [(4, 8), (8, 16), (10, 20)],
            "decorrelated": [(8, 20), (8, 20), (8, 20)],
        }
        for jitter, bounds in low_and_high.items():
            _, _, err = retry("--base", "8ms", "--cap", "20ms", "--jitter", jitter, "--", "false")
            for wait, (low, high) in zip(waits(err), bounds, strict=True):
                self.assertTrue(low <= wait <= high, (jitter, wait))

    def a_seed_gives_the_same_waits_again(self):
        flags = ("--base", "10ms", "--jitter", "full", "--max", "5", "--seed")
        first, again, other = (retry(*flags, seed, "--", "false")[2] for seed in ("7", "7", "8"))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertEqual(len(waits(first)), 5)

    def without_a_seed_waits_differ(self):
        flags = ("--base", "1h", "--cap", "1000h", "--jitter", "full", "--", "false")
        self.assertNotEqual(first_line(*flags), first_line(*flags))


class Policies(unittest.TestCase):
    def _is_as_a52_says(self, *flags):
        status, _, err = retry(*flags, "--", "sh", "-c", COUNTING)
        lines = [tuple(map(int, LINE.fullmatch(line).groups())) for line in err.splitlines()]
        self.assertEqual(status, 13)
        self.assertEqual([line[1:] for line in lines], [(2, 3), (3, 3)])
        self.assertTrue(900 <= lines[0][0] <= 1100, err)
        self.assertTrue(1800 <= lines[1][0] <= 2200, err)

    def the_client_policy_is_three_runs_with_waits_of_1_and_2_seconds(self):  # A5.2
        self._is_as_a52_says("--policy", "client")

    def the_client_policy_can_be_written_out_in_flags(self):  # A5.2
        self._is_as_a52_says("--max", "2", "--base", "1s", "--cap", "1m", "--jitter", "0.1")

    def every_built_in_policy_is_known_by_its_name(self):
        for name, low, high, every in (("sync", 1000, 1000, 10), ("articles", 300000, 300000, 6),
                                       ("llm_jobs", 120000, 120000, 5), ("default", 0, 1000, 10)):
            wait, coming, said = first_line("--policy", name, "--", "false")
            self.assertTrue(low <= wait <= high, (name, wait))
            self.assertEqual((coming, said), (2, every))

    def a_flag_counts_more_than_the_policy_wherever_it_stands(self):
        for flags in (("--policy", "sync", "--max", "4", "--base", "5s"),
                      ("--max", "4", "--base", "5s", "--policy", "sync")):
            self.assertEqual(first_line(*flags, "--", "false"), (5000, 2, 5))

    def the_cap_of_a_policy_gives_way_to_a_base_above_it(self):
        wait, _, _ = first_line("--policy", "client", "--base", "2m", "--", "false")
        self.assertTrue(108000 <= wait <= 120000, wait)


class Statuses(unittest.TestCase):
    def only_the_statuses_of_on_are_retried(self):
        for status, is_retried in ((1, True), (75, True), (100, True), (105, True), (110, True),
                                   (2, False), (74, False), (99, False), (111, False)):
            flags = ("--on", "1,75,100-110", "--max", "1", *QUICK)
            ended, _, err = retry(*flags, "--", "sh", "-c", f"exit {status}")
            self.assertEqual((ended, len(waits(err))), (status, int(is_retried)))

    def every_status_but_zero_is_retried_when_on_is_not_given(self):
        for status in (1, 2, 126, 127, 255):
            _, _, err = retry("--max", "1", *QUICK, "--", "sh", "-c", f"exit {status}")
            self.assertEqual(len(waits(err)), 1)

    def a_status_that_is_not_retried_ends_a_series_of_those_that_are(self):
        status, _, err = retry("--on", "11-12", *QUICK, "--", "sh", "-c", COUNTING)
        self.assertEqual((status, len(waits(err))), (13, 2))

    def death_by_a_signal_can_be_named_in_on(self):
        for on, count in (("143", 1), ("15", 0)):
            flags = ("--max", "1", "--on", on, *QUICK)
            status, _, err = retry(*flags, "--", "sh", "-c", "kill -TERM $$")
            self.assertEqual((status, len(waits(err))), (143, count))


class Timeouts(unittest.TestCase):
    def the_timeout_ends_the_run_with_124(self):
        os.mkfifo("never")
        self.assertEqual(retry("--timeout", "100ms", "--", "cat", "never"), (124, "", ""))

    def a_run_that_takes_the_term_for_a_success_still_is_124(self):
        os.mkfifo("never")
        script = "trap 'echo term; exit 0' TERM; echo ready; cat never"
        status, out, _ = retry("--timeout", "1s", "--", "sh", "-c", script)
        self.assertEqual((status, out), (124, "ready\nterm\n"))

    def a_whole_group_that_ignores_term_is_killed_after_the_grace(self):
        os.mkfifo("never")
        started_at = time.monotonic()
        script = "trap '' TERM; cat never & echo ready; cat never"
        # stdout ends when the last of the three that hold it is gone.
        status, out, _ = retry("--timeout", "1s", "--", "sh", "-c", script)
        self.assertEqual((status, out), (124, "ready\n"))
        self.assertGreaterEqual(time.monotonic() - started_at, 3)

    def a_grandchild_that_outlives_its_parent_is_killed_as_well(self):
        os.mkfifo("never")
        script = "(trap '' TERM; echo ready; exec cat never) & exec cat never"
        status, out, _ = retry("--timeout", "1s", "--", "sh", "-c", script)
        self.assertEqual((status, out), (124, "ready\n"))

    def a_grandchild_has_the_grace_to_clean_up(self):
        os.mkfifo("never")
        os.mkfifo("go")
        cleaner = "trap 'echo cleaning; read x <go; echo cleaned; exit' TERM; echo ready; cat never"
        with start("--timeout", "1s", "--", "sh", "-c", f"({cleaner}) & exec cat never") as started:
            self.assertEqual(started.stdout.readline(), b"ready\n")
            self.assertEqual(started.stdout.readline(), b"cleaning\n")
            with open("go", "w", encoding="ascii") as go:
                go.write("\n")
            self.assertEqual(started.stdout.read(), b"cleaned\n")
        self.assertEqual(started.returncode, 124)

    def a_stopped_run_is_ended_too(self):
        script = "trap 'echo term; exit' TERM; kill -STOP $$"
        self.assertEqual(retry("--timeout", "1s", "--", "sh", "-c", script), (124, "term\n", ""))

    def no_wait_goes_past_the_timeout(self):
        flags = ("--timeout", "30s", "--base", "60s")
        self.assertEqual(retry(*flags, "--", "sh", "-c", "exit 6"), (6, "", ""))

    def a_run_over_its_own_timeout_counts_as_failed(self):
        os.mkfifo("never")
        script = "if [ -e once ]; then exit 0; fi; : >once; exec cat never"
        status, _, err = retry("--attempt-timeout", "500ms", *QUICK, "--", "sh", "-c", script)
        self.assertEqual(status, 0)
        self.assertTrue(err.startswith("retrying in 1 ms (attempt 2/4)\n"), err)

    def the_status_of_such_a_run_is_124(self):
        os.mkfifo("never")
        for on, count in (("124", 2), ("1-123,125-255", 0)):
            flags = ("--attempt-timeout", "50ms", "--max", "2", "--on", on, *QUICK)
            status, _, err = retry(*flags, "--", "cat", "never")
            self.assertEqual((status, len(waits(err))), (124, count))

    def the_total_counts_when_it_is_the_shorter_one(self):
        os.mkfifo("never")
        flags = ("--timeout", "100ms", "--attempt-timeout", "60s", *QUICK)
        self.assertEqual(retry(*flags, "--", "cat", "never"), (124, "", ""))


class Signals(unittest.TestCase):
    def _ready(self, script, *flags, **more):
        started = start(*flags, "--", sys.executable, "-c", script, **more)
        self.addCleanup(started.communicate)
        self.addCleanup(started.terminate)
        self.assertEqual(started.stdout.readline(), b"ready\n")
        return started

    def each_signal_is_passed_on(self):
        for number in FORWARDED:
            started = self._ready(CATCHER + READY, "--max", "0")
            started.send_signal(number)
            out, err = started.communicate()
            self.assertEqual((out.decode(), err), (f"got {number.name}\n", b""))
            self.assertEqual(started.returncode, 7)

    def it_is_passed_on_to_the_whole_group(self):
        started = self._ready(CATCHER + "os.fork()\n" + READY, "--max", "0")
        self.assertEqual(started.stdout.readline(), b"ready\n")
        started.send_signal(signal.SIGUSR1)
        self.assertEqual(started.stdout.read(), b"got SIGUSR1\ngot SIGUSR1\n")

    def the_run_has_a_group_of_its_own(self):
        _, out, _ = retry("--", sys.executable, "-c", "import os; print(os.getpid(), os.getpgrp())")
        self.assertEqual(*out.split())
        self.assertNotEqual(int(out.split()[0]), os.getpgrp())

    def a_terminating_signal_ends_the_retrying(self):
        for number in TERMINATING:
            started = self._ready(CATCHER + READY, "--base", "60s")
            started.send_signal(number)
            _, err = started.communicate()
            self.assertEqual((started.returncode, err), (7, b""))

    def a_run_that_dies_of_it_is_128_and_its_number(self):
        for number in TERMINATING:
            started = self._ready(MORTAL, "--base", "60s")
            started.send_signal(number)
            _, err = started.communicate()
            self.assertEqual((started.returncode, err), (128 + number, b""))

    def a_run_that_succeeds_in_spite_of_it_is_a_success(self):
        started = self._ready(CATCHER + READY.replace("_exit(7)", "_exit(0)"))
        started.send_signal(signal.SIGTERM)
        started.communicate()
        self.assertEqual(started.returncode, 0)

    def a_user_signal_does_not_end_the_retrying(self):
        started = self._ready(CATCHER + READY, *QUICK, "--max", "1")
        started.send_signal(signal.SIGUSR1)
        self.assertEqual(started.stdout.readline(), b"got SIGUSR1\n")
        self.assertEqual(started.stderr.readline(), b"retrying in 1 ms (attempt 2/2)\n")
        self.assertEqual(started.stdout.readline(), b"ready\n")
        started.send_signal(signal.SIGUSR2)
        started.communicate()
        self.assertEqual(started.returncode, 7)

    def a_run_that_is_interrupted_or_quit_is_not_repeated(self):
        for name, status in (("INT", 130), ("QUIT", 131)):
            ended, _, err = retry("--base", "60s", "--", "sh", "-c", f"kill -{name} $$")
            self.assertEqual((ended, err), (status, ""))

    def a_terminating_signal_ends_a_wait_at_once(self):
        for number in TERMINATING:
            with start("--base", "60s", "--jitter", "none", "--", "false") as started:
                self.assertEqual(started.stderr.readline(), b"retrying in 60000 ms (attempt 2/4)\n")
                started.send_signal(number)
            self.assertEqual(started.returncode, 128 + number)

    def other_signals_do_not_end_a_wait(self):
        with start("--base", "60s", "--", "false") as started:
            started.stderr.readline()
            for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT):
                started.send_signal(number)
            started.send_signal(signal.SIGTERM)
        self.assertEqual(started.returncode, 143)

    def a_signal_that_was_ignored_before_stays_ignored(self):  # nohup
        def without_hangup():
            usual_signals()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        script = "grep SigIgn /proc/self/status; exit 1"
        with start("--base", "60s", "--", "sh", "-c", script, prepare=without_hangup) as started:
            started.stderr.readline()
            started.send_signal(signal.SIGHUP)
            started.send_signal(signal.SIGTERM)
            self.assertEqual(signal_set(started.stdout.read().split()[1]), 1)
        self.assertEqual(started.returncode, 143)

    def the_run_starts_with_no_signal_blocked_or_ignored_and_no_file_of_ours(self):
        script = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd"
        _, out, _ = retry("--", "sh", "-c", script)
        words = out.split()
        self.assertEqual((signal_set(words[1]), signal_set(words[3])), (0, 0))
        self.assertEqual(words[4:], ["0", "1", "2", "3"])

    def a_caller_that_ignores_its_children_still_learns_the_status(self):
        def without_children():
            usual_signals()
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)

        self.assertEqual(retry("--max", "0", "--", "sh", "-c", "exit 5", prepare=without_children),
                         (5, "", ""))

    def a_stop_and_a_continue_are_passed_on_too(self):
        def own_group():
            usual_signals()
            os.setpgid(0, 0)  # with this test as its shell, so that it can be stopped

        started = self._ready(CATCHER + READY, "--max", "0", prepare=own_group)
        started.send_signal(signal.SIGTSTP)
        self.assertEqual(started.stdout.readline(), b"got SIGTSTP\n")
        self.assertTrue(os.WIFSTOPPED(os.waitpid(started.pid, os.WUNTRACED)[1]))
        started.send_signal(signal.SIGCONT)
        self.assertEqual(started.stdout.readline(), b"got SIGCONT\n")
        started.send_signal(signal.SIGTERM)
        started.communicate()
        self.assertEqual(started.returncode, 7)


class Flags(unittest.TestCase):
    def a_bad_flag_is_named_with_what_was_given_and_what_is_expected(self):
        duration = "a duration above zero such as 250ms, 10s or 5m"
        number = "a whole number from 0 to 2147483647"
        seed = "a whole number from 0 to 18446744073709551615"
        jitter = "a factor from 0 to 1, or one of none, full, equal, decorrelated"
        statuses = "statuses from 1 to 255 and ranges of them, such as 1,75,100-110"
        policies = "one of default, sync, articles, llm_jobs, client"
        expected = {
            "--max": (number, "x", "-1", "1.5", "", "4294967295", "1 ", "99999999999999999999"),
            "--base": (duration, "x", "10", "0s", "-1s", "", "200y"),
            "--cap": (duration, "soon"),
            "--timeout": (duration, "5 minutes", "0ms"),
            "--attempt-timeout": (duration, "5x"),
            "--jitter": (jitter, "1.1", "-0.1", "some", "nan", "1e-1", "", ".", "0.1.2"),
            "--on": (statuses, "0", "256", "1,", ",1", "1,,2", "5-3", "1-", "x", "", "1-256"),
            "--policy": (policies, "mine", ""),
            "--seed": (seed, "x", "-1", "18446744073709551616"),
        }
        for flag, (what, *values) in expected.items():
            for value in values:
                said = f"daruma retry: {flag}: '{value}' given, expected {what}\n"
                self.assertEqual(retry(flag, value, "--", "touch", "ran"), (2, "", said))
                self.assertEqual(retry(f"{flag}={value}", "--", "touch", "ran"), (2, "", said))
            self.assertEqual(retry(flag),
                             (2, "", f"daruma retry: {flag}: nothing given, expected {what}\n"))
        self.assertFalse(os.path.exists("ran"))

    def a_cap_below_the_base_is_refused(self):
        said = "daruma retry: --cap: '100ms' given, expected a duration not below the base, " \
               "which is {}ms\n"
        self.assertEqual(retry("--cap", "100ms", "--", "touch", "ran"), (2, "", said.format(200)))
        self.assertEqual(retry("--cap", "0.1s", "--base", "1s", "--", "touch", "ran"),
                         (2, "", said.format(1000)))
        self.assertFalse(os.path.exists("ran"))

    def an_unknown_flag_is_refused(self):
        for flag in ("--maximum", "-m", "--max-", "-"):
            self.assertEqual(retry(flag, "--", "touch", "ran"), (2, "",
                f"daruma retry: {flag}: no such flag, expected one that --help lists\n"))
        self.assertFalse(os.path.exists("ran"))

    def a_value_for_a_flag_that_takes_none_is_refused(self):
        self.assertEqual(retry("--quiet=yes", "--", "touch", "ran"),
                         (2, "", "daruma retry: --quiet: 'yes' given, expected no value\n"))

    def a_command_must_be_given(self):
        for flags in ((), ("--",), ("--max", "3"), ("--max", "3", "--")):
            status, out, err = retry(*flags)
            self.assertEqual((status, out), (2, ""))
            self.assertIn("no command given, expected one after the flags", err)

    def the_two_dashes_may_be_left_out(self):
        script = "echo \"$0\"; exit 1"
        self.assertEqual(retry("--max", "0", "sh", "-c", script, "--max"), (1, "--max\n", ""))
        self.assertEqual(retry("sh", "-c", "echo \"$0\"", "--"), (0, "--\n", ""))

    def a_command_may_begin_with_a_dash_after_them(self):
        with open("-x", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho \"$1\"\n")
        os.chmod("-x", 0o755)
        path = {**os.environ, "PATH": os.getcwd()}
        self.assertEqual(retry("--", "-x", "--", env=path), (0, "--\n", ""))

    def of_a_flag_given_twice_the_last_counts(self):
        status, _, err = retry("--max", "9", "--on", "1", "--max", "1", "--on", "3", *QUICK, "sh",
                               "-c", "exit 3")
        self.assertEqual((status, err), (3, "retrying in 1 ms (attempt 2/2)\n"))

    def help_lists_every_flag_and_runs_nothing(self):
        for flag in ("--help", "-h"):
            status, out, err = retry(flag, "touch", "ran")
            self.assertEqual((status, err), (0, ""))
            for named in ("--max", "--base", "--cap", "--jitter", "--timeout", "--attempt-timeout",
                          "--on", "--policy", "--seed", "--quiet", "--help", "client"):
                self.assertIn(named, out)
            self.assertTrue(all(len(line) <= 80 for line in out.splitlines()))
        self.assertFalse(os.path.exists("ran"))


if __name__ == "__main__":
    runner.main()
