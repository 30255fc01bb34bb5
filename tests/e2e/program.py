# SPDX-License-Identifier: MIT
"""The program under test, which DARUMA_BIN names, and how the tests of `daruma retry` start it."""
import os
import signal
import subprocess
import sys

BIN = os.environ.get("DARUMA_BIN") or sys.exit("DARUMA_BIN must say where the program is")
BIN = os.path.abspath(BIN)
QUICK = ("--base", "1ms", "--jitter", "none")
USUAL = "INT TERM HUP QUIT USR1 USR2 WINCH TSTP CONT CHLD".split()


def usual_signals():
    """Before the program starts: nothing ignored or blocked that this test was born with."""
    for name in USUAL:
        signal.signal(getattr(signal, "SIG" + name), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def start(*arguments, prepare=usual_signals, **more):
    settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([BIN, "retry", *arguments], preexec_fn=prepare, **{**settings, **more})


def retry(*arguments, **more):
    """(exit status, stdout, stderr) of a whole run."""
    started = start(*arguments, **more)
    out, err = started.communicate()
    return started.returncode, (out or b"").decode(), (err or b"").decode()
