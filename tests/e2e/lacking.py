# SPDX-License-Identifier: MIT
"""The program in surroundings that lack something: standard streams that are closed, an output that is
full, a reader that has gone or never reads, few descriptors, little memory, files that may not grow, a
small disk.

    status, said = lacking.run(lacking.closed_streams, "send", url, "--data", "x")

A world is a function that gives the settings of subprocess.Popen. `run` waits for the end, with a limit;
a program that is still blocked at the limit (which only `hanging_reader` allows) is ended and has the
status BLOCKED. A report of a sanitizer has the status SANITIZER, which no command has.
"""
import contextlib
import fcntl
import functools
import os
import re
import resource
import signal
import socket
import subprocess
import threading

from program import BIN

SECONDS_MAX = 30
HANGING_SECONDS = 1  # as long as a program that cannot be read from is left alone
BLOCKED = "blocked"
SANITIZER = 99
MEMORY_STEP = 1 << 20
OPTIONS = f"exitcode={SANITIZER}:halt_on_error=1:abort_on_error=0"


def environment(**more):
    return {**os.environ, "ASAN_OPTIONS": OPTIONS, "UBSAN_OPTIONS": OPTIONS, "TERM": "xterm", **more}


# --- worlds -----------------------------------------------------------------------------------

def closing(*streams):
    """Without these descriptors, and with nothing in their place."""
    def prepare():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        for stream in streams:
            os.close(stream)
    return {"preexec_fn": prepare}


def closed_streams():
    return closing(0, 1, 2)


def closed_input():
    return closing(0)


def closed_output():
    return closing(1)


def closed_errors():
    return closing(2)


def full_output():
    """Everything that is written there fails with ENOSPC."""
    return {"stdout": open("/dev/full", "wb")}


def full_errors():
    return {"stderr": open("/dev/full", "wb")}


def gone_reader():
    """Both outputs go to a pipe that is not read any more."""
    reader, writer = os.pipe()
    os.close(reader)
    return {"stdout": writer, "stderr": writer}


def hanging_reader():
    """Standard output goes to a pipe that is full and stays so."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
    os.set_blocking(writer, True)
    return {"stdout": writer, "keep": reader}


def limiting(which, most):
    return {"preexec_fn": lambda: resource.setrlimit(which, (most, most))}


def few_descriptors(most=6):
    return limiting(resource.RLIMIT_NOFILE, most)


def files_that_do_not_grow():
    return limiting(resource.RLIMIT_FSIZE, 0)


def little_memory(more=1):
    """So much address space as the program needs to say its version, and a few steps more: the stack has
    to be able to grow, or no program can do anything about it."""
    return limiting(resource.RLIMIT_AS, least_memory() + more * MEMORY_STEP)


def runs_in(most):
    done = subprocess.run([BIN, "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False, **limiting(resource.RLIMIT_AS, most))
    return done.returncode == 0


@functools.lru_cache
def least_memory():
    """0: it cannot be limited, as under a sanitizer, which reserves terabytes."""
    steps = range(8 * MEMORY_STEP, 256 * MEMORY_STEP, MEMORY_STEP)
    return next(filter(runs_in, steps)) if runs_in(steps[-1]) else 0


# --- running ----------------------------------------------------------------------------------

def run(world, *arguments, given=b"", **more):
    """(exit status, what was said on both outputs as far as it arrived)."""
    settings = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **world()}
    kept = settings.pop("keep", None)
    process = subprocess.Popen([BIN, *map(str, arguments)], env=environment(**more), **settings)
    for name in ("stdout", "stderr"):
        stream = settings[name]
        if isinstance(stream, int) and stream >= 0:
            with contextlib.suppress(OSError):  # one pipe may be both
                os.close(stream)
        elif hasattr(stream, "close"):
            stream.close()
    try:
        out, err = process.communicate(given, HANGING_SECONDS if kept is not None else SECONDS_MAX)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        status = BLOCKED
    if kept is not None:
        os.close(kept)
    return status, (out or b"") + (err or b"")


# --- the wire ---------------------------------------------------------------------------------

class Recorder:
    """A server that looks at every byte it is sent and answers with these statuses in turn, with the same
    body: it may be the target of a request, or the API."""

    FIRST = re.compile(rb"[A-Z]+ /\S* HTTP/1\.1")
    FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[^\r\n]*")

    def __init__(self, statuses=(503, 200), body=b"{}"):
        self.statuses, self.body = statuses, body
        self.bodies, self.strange = [], []  # what came whole; what is no request
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.port}{path}"

    def close(self):
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                channel, _peer = self.listener.accept()
                threading.Thread(target=self._serve, args=(channel,), daemon=True).start()

    def _serve(self, channel):
        held = b""
        with contextlib.suppress(OSError), channel:
            while True:
                head, end, rest = held.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                length = int(length[1]) if length else 0
                if end and len(rest) >= length:
                    self._take(head, rest[:length])
                    held = rest[length:]
                    channel.sendall(self._answer())
                    continue
                piece = channel.recv(65536)
                if not piece:
                    break
                held += piece
        if held:
            with self.lock:
                self.strange.append(held)

    def _take(self, head, body):
        first, *lines = head.split(b"\r\n")
        with self.lock:
            self.bodies.append(body)
            if not self.FIRST.fullmatch(first) or not all(map(self.FIELD.fullmatch, lines)):
                self.strange.append(head)

    def _answer(self):
        with self.lock:
            status = self.statuses[(len(self.bodies) - 1) % len(self.statuses)]
        return (b"HTTP/1.1 %d Said So\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % (status, len(self.body))) + self.body
