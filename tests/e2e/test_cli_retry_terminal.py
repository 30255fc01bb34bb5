# SPDX-License-Identifier: MIT
"""`daruma retry -- CMD` on a terminal: who may read from it, Ctrl-C and Ctrl-Z, with and without a
shell above. The shells here are a few lines of Python that do what a shell does for a command.
"""
import os
import pty
import signal
import sys
import unittest

import runner
from program import BIN, QUICK, usual_signals


class Terminal:
    """A terminal with a shell on it that starts the program. The shell stays until it has been
    read: a terminal that its first process leaves drops what was not read yet."""

    def __init__(self, *arguments, shell=None):
        leave, self.stay = os.pipe()
        self.seen = b""
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            os.close(self.stay)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU):
                signal.signal(number, signal.SIG_IGN)
            print(f"shell: {(shell or shell_without_groups)(arguments)}.", flush=True)
            os.read(leave, 1)
            os._exit(0)
        os.close(leave)

    def type(self, text):
        os.write(self.screen, text)

    def read_until(self, text):
        """What was on the screen up to that text, which must come."""
        while text not in self.seen:
            try:
                self.seen += os.read(self.screen, 4096)
            except OSError as error:  # Linux's way to say that nobody has it open any more
                raise AssertionError(f"no {text} but {self.seen}") from error
        before, self.seen = self.seen.split(text, 1)
        return before

    def end(self):
        """(exit status, what else was on the screen)."""
        seen = self.read_until(b"shell: ")
        status = int(self.read_until(b"."))
        os.close(self.stay)
        os.waitpid(self.pid, 0)
        return status, seen


def execute(arguments):
    usual_signals()
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(BIN, [BIN, "retry", *arguments])


def shell_without_groups(arguments):
    """One that knows nothing of stopping and continuing: sh in a script, or a container's first
    process. The system does not stop what it starts either."""
    pid = os.fork()
    if pid == 0:
        execute(arguments)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def shell_start(arguments):
    """The program as a foreground process group."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        execute(arguments)
    return pid


def shell_wait(pid):
    """Says how the program is and whose the terminal is, and takes it."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    owner = "program" if os.tcgetpgrp(0) == pid else "other"
    os.tcsetpgrp(0, os.getpgrp())
    if os.WIFSTOPPED(status):
        print(f"stopped by {os.WSTOPSIG(status)}, terminal: {owner}", flush=True)
    else:
        print(f"ended with {os.waitstatus_to_exitcode(status)}, terminal: {owner}", flush=True)


def shell_that_says_fg(arguments):
    pid = shell_start(arguments)
    shell_wait(pid)
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
    print("continued", flush=True)
    shell_wait(pid)
    return 0


def shell_that_says_bg(arguments):
    pid = shell_start(arguments)
    shell_wait(pid)
    os.killpg(pid, signal.SIGCONT)
    _, status = os.waitpid(pid, 0)
    owner = "shell" if os.tcgetpgrp(0) == os.getpgrp() else "other"
    print(f"ended with {os.waitstatus_to_exitcode(status)}, terminal: {owner}", flush=True)
    return 0


def shell_that_only_waits(arguments):
    shell_wait(shell_start(arguments))
    return 0


class OnATerminal(unittest.TestCase):
    def a_run_can_read_from_the_terminal(self):
        terminal = Terminal("--", "sh", "-c", "read line; echo \"got $line\"")
        terminal.type(b"hello\n")
        terminal.read_until(b"got hello")
        self.assertEqual(terminal.end()[0], 0)

    def a_run_is_in_the_foreground_from_its_start(self):
        script = "import os; print('foreground:', os.tcgetpgrp(0) == os.getpgrp() == os.getpid())"
        terminal = Terminal("--", sys.executable, "-c", script)
        terminal.read_until(b"foreground: True")
        self.assertEqual(terminal.end()[0], 0)

    def every_run_can_read_from_the_terminal(self):
        script = "read line; echo \"got $line\"; [ $line = two ]"
        terminal = Terminal(*QUICK, "--", "sh", "-c", script)
        terminal.type(b"one\n")
        terminal.read_until(b"attempt 2/4")
        terminal.type(b"two\n")
        terminal.read_until(b"got two")
        self.assertEqual(terminal.end()[0], 0)

    def ctrl_c_ends_the_run_and_the_retrying(self):
        terminal = Terminal("--base", "60s", "--", "sh", "-c", "echo ready; exec cat")
        terminal.read_until(b"ready")
        terminal.type(b"\x03")
        status, seen = terminal.end()
        self.assertEqual(status, 130)
        self.assertNotIn(b"retrying", seen)

    def ctrl_c_ends_a_wait(self):
        terminal = Terminal("--base", "60s", "--", "false")
        terminal.read_until(b"attempt 2/4")
        terminal.type(b"\x03")
        self.assertEqual(terminal.end()[0], 130)

    def the_terminal_is_taken_back_at_the_end(self):
        for command in (("sh", "-c", "exit 3"), ("no-such-command-anywhere",)):
            terminal = Terminal("--max", "0", "--", *command, shell=shell_that_only_waits)
            terminal.read_until(b", terminal: program")
            self.assertEqual(terminal.end()[0], 0)

    def ctrl_z_stops_all_and_fg_continues_all(self):
        script = "echo ready; read line; echo \"got $line\"; exit 5"
        terminal = Terminal("--max", "0", "--", "sh", "-c", script, shell=shell_that_says_fg)
        terminal.read_until(b"ready")
        terminal.type(b"\x1a")
        terminal.read_until(f"stopped by {signal.SIGTSTP:d}, terminal: program".encode())
        terminal.type(b"hello\n")
        terminal.read_until(b"got hello")
        terminal.read_until(b"ended with 5, terminal: program")
        self.assertEqual(terminal.end()[0], 0)

    def ctrl_z_stops_a_wait_and_fg_continues_it(self):
        terminal = Terminal("--base", "60s", "--", "false", shell=shell_that_says_fg)
        terminal.read_until(b"attempt 2/4")
        terminal.type(b"\x1a")
        terminal.read_until(f"stopped by {signal.SIGTSTP:d}, terminal: program".encode())
        terminal.read_until(b"continued")
        terminal.type(b"\x03")
        terminal.read_until(b"ended with 130, terminal: program")
        self.assertEqual(terminal.end()[0], 0)

    def continued_in_the_background_it_leaves_the_terminal_alone(self):
        script = "kill -STOP $$; echo on; exit 4"
        terminal = Terminal("--max", "0", "--", "sh", "-c", script, shell=shell_that_says_bg)
        terminal.read_until(b"stopped by")
        terminal.read_until(b"on\r\n")
        terminal.read_until(b"ended with 4, terminal: shell")
        self.assertEqual(terminal.end()[0], 0)

    def ctrl_z_without_a_shell_to_continue_it_stops_nothing(self):
        terminal = Terminal("--", "sh", "-c", "echo ready; read line; echo \"got $line\"")
        terminal.read_until(b"ready")
        terminal.type(b"\x1a")
        terminal.read_until(b"^Z")
        terminal.type(b"hello\n")
        terminal.read_until(b"got hello")
        self.assertEqual(terminal.end()[0], 0)


if __name__ == "__main__":
    runner.main()
