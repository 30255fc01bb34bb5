# SPDX-License-Identifier: MIT
"""Processes that a measurement starts: each is ended by whoever started it, also when the
measurement fails, and none is waited for without a bound."""
import contextlib
import os
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 60
TICKS = os.sysconf("SC_CLK_TCK")
# /var/tmp is on a disk even where /tmp is not: what is fsynced here must reach one.
WORK = Path("/var/tmp")
NO_DISK = {"tmpfs", "ramfs"}


class Unmeasured(Exception):
    pass


def say_last(path):
    lines = path.read_text(errors="replace").strip().splitlines() if path.is_file() else []
    return lines[-1] if lines else "no word"


def run(arguments, seconds=170, **more):
    """What the command printed; or Unmeasured, with its last words."""
    name = Path(str(arguments[0])).name
    try:
        done = subprocess.run([str(argument) for argument in arguments], text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds, **more)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unmeasured(f"{name}: {error}") from error
    if done.returncode != 0:
        words = done.stdout.strip().splitlines()[-1:] or ["no word"]
        raise Unmeasured(f"{name} ended with {done.returncode}: {words[0]}")
    return done.stdout


def wait_until(is_so, what, seconds=START_SECONDS, pause=0.01):
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            raise Unmeasured(f"{what}: not within {seconds} s")
        time.sleep(pause)


def file_system(path):
    return run(["findmnt", "-n", "-o", "FSTYPE", "-T", path]).strip()


@contextlib.contextmanager
def folder():
    """An empty folder on a disk, gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="daruma-bench-", dir=WORK))
    try:
        kind = file_system(path)
        if kind in NO_DISK:
            raise Unmeasured(f"/var/tmp is on {kind}: fsync would mean nothing there")
        path.chmod(0o755)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def running(arguments, log, **more):
    """The process while it is needed; then a TERM, and a KILL if that is not heard."""
    with open(log, "ab") as output:
        try:
            process = subprocess.Popen([str(argument) for argument in arguments],
                                       stdin=subprocess.DEVNULL, stderr=output,
                                       **{"stdout": output, **more})
        except OSError as error:
            raise Unmeasured(f"{Path(str(arguments[0])).name}: {error}") from error
    try:
        yield process
    finally:
        end(process)


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


@contextlib.contextmanager
def listening(arguments, log, **more):
    """A process that prints the port it has found: (process, port)."""
    with running(arguments, log, stdout=subprocess.PIPE, **more) as process:
        line = process.stdout.readline().decode()
        if not line.strip().isdigit():
            raise Unmeasured(f"{Path(str(arguments[0])).name} does not start: {say_last(log)}")
        yield process, int(line)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def cpu_seconds(pid):
    """User and system time of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_bytes(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise Unmeasured("the kernel does not tell the resident size")


def want_files(count):
    """Descriptors, here and in whatever is started from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise Unmeasured(f"{count} open files are needed, {hard} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
