# SPDX-License-Identifier: MIT
"""`daruma send`, `flush` and `spool` as their tests start them, each with a spool in the test's own
folder, and what is in one."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import termios

from program import BIN

SPOOL = pathlib.Path("spool")
UNSET = ("DARUMA_CLIENT", "NO_COLOR", "COLUMNS", "XDG_STATE_HOME", "LD_PRELOAD")


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**kept, "TERM": "xterm", **{name: str(value) for name, value in more.items()}}


def command(*arguments):
    return [BIN, *map(str, arguments), "--spool", str(SPOOL)]


def start(*arguments, **more):
    return subprocess.Popen(command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(**more))


def run(*arguments, given=b"", **more):
    """(exit status, stdout, stderr)."""
    done = subprocess.run(command(*arguments), input=given, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(**more), check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def spool(url, *bodies, **more):
    """Puts requests into the spool; nobody may be listening there. Their names."""
    names = []
    for body in bodies:
        status, out, err = run("send", url, "--data", body, "--attempts", 1, "--json", **more)
        if status != 4:
            raise AssertionError(f"not spooled: {status} {out} {err}")
        names.append(json.loads(out)["name"])
    return names


def flush(*arguments, **more):
    """(exit status, a line for each request, the line for all)."""
    status, out, err = run("flush", "--json", *arguments, **more)
    lines = [json.loads(line) for line in out.splitlines()]
    if not lines:
        raise AssertionError(f"no line at all: {status} {err}")
    return status, lines[:-1], lines[-1]


def waiting():
    """What is in the spool, by `daruma spool list`, which ends with 1 when some of it is damaged."""
    status, out, err = run("spool", "list", "--json")
    kept = json.loads(out)["requests"]
    if status != any(request["state"] == "damaged" for request in kept):
        raise AssertionError(f"{status} {err}")
    return kept


def files():
    return sorted(path.name for path in SPOOL.glob("*.request"))


def on_terminal(*arguments, columns=80, **more):
    """(exit status, what was on the screen)."""
    pid, screen = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execve(BIN, command(*arguments), environment(**more))
    seen = b""
    with contextlib.suppress(OSError):  # Linux's way to say that nobody has it open any more
        while piece := os.read(screen, 65536):
            seen += piece
    os.close(screen)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()
