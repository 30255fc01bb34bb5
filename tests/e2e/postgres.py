# SPDX-License-Identifier: MIT
"""A real PostgreSQL server of a test's own: Debian's, in a temporary folder, on a socket there, with
fsync on. It refuses to run as root; then it runs as the user `postgres`, or nobody.

`shared()` is one for all tests of a program: started by whoever asks first, which has to be before the
tests are forked; it ends with the process that started it.
"""
import atexit
import ctypes
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

START_SECONDS = 60
SETTINGS = {"fsync": "on", "listen_addresses": "", "max_connections": "300",
            "shared_buffers": "64MB", "log_min_messages": "fatal"}
PR_SET_PDEATHSIG = 1
FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"


def programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found:
        raise AssertionError("no PostgreSQL: tools/install-deps test")
    return found[-1]


def ahead(clock):
    """The environment of a process whose clock is set to something else; waits are not."""
    return {"LD_PRELOAD": glob.glob(FAKETIME)[0], "FAKETIME": clock,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def _user():
    """Whom it runs as; None: as ourselves."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


class Postgres:
    """One server: started, stopped, crashed, started again."""

    def __init__(self, **settings):
        self.folder = tempfile.mkdtemp(prefix="daruma-pg-")
        self.data = os.path.join(self.folder, "data")
        self.settings = {**SETTINGS, "unix_socket_directories": self.folder, **settings}
        self.process, self.pid = None, os.getpid()
        user = _user()
        if user is not None:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        atexit.register(self.close)

    def run(self, program, *arguments, **more):
        """One of the server's programs, as the server's user."""
        return subprocess.run([os.path.join(programs(), program), *arguments], check=True,
                              cwd="/", stdout=subprocess.DEVNULL, preexec_fn=self._become, **more)

    @staticmethod
    def _become():
        user = _user()
        if user is not None:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)

    def create(self):
        self.run("initdb", "-D", self.data, "-U", "daruma", "-E", "UTF8", "--locale=C",
                 "-A", "trust", "-N")
        return self

    def start(self, clock=None):
        """`clock`: how far its clock is ahead, as faketime has it ("+3d")."""
        flags = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen(
            [os.path.join(programs(), "postgres"), "-D", self.data, *flags], cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=self._become, env={**os.environ, **(ahead(clock) if clock else {})})
        until = time.monotonic() + START_SECONDS
        ready = [os.path.join(programs(), "pg_isready"), "-q", "-h", self.folder, "-t", "1"]
        while subprocess.run(ready, check=False).returncode != 0:
            if time.monotonic() > until or self.process.poll() is not None:
                raise AssertionError("PostgreSQL does not start")
            time.sleep(0.02)  # nobody tells when a server is ready
        return self

    def stop(self, how=signal.SIGQUIT):
        """SIGQUIT: at once, as a power cut would; SIGINT: in good order."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(START_SECONDS)
            self.process = None

    def crash(self):
        self.stop()
        return self.start()

    def close(self):
        if os.getpid() == self.pid:
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database, user="daruma"):
        return f"postgres:///{database}?host={self.folder}&user={user}"

    def sql(self, text, database="postgres"):
        """The rows, as lists of text."""
        done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h",
                               self.folder, "-U", "daruma", "-d", database, "-c", text],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{text}: {done.stderr}")
        return [line.split("|") for line in done.stdout.splitlines()]

    def new(self):
        """The name of a new, empty database."""
        name = "t" + uuid.uuid4().hex[:16]
        self.sql(f"CREATE DATABASE {name} TEMPLATE template0")
        return name


class Session:
    """A psql that stays open: a transaction can be left under way."""

    def __init__(self, server, database):
        self.process = subprocess.Popen(
            ["psql", "-X", "-q", "-A", "-t", "-h", server.folder, "-U", "daruma", "-d", database],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, text):
        """Until it is done: what it printed."""
        self.process.stdin.write(f"{text};\n\\echo over\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "over\n":
                break
            lines.append(line.rstrip("\n"))
        return lines

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


_shared = None


def await_beats(sql, count, seconds=30):
    """Until each node of the database has raised its counter so often: it has looked around since."""
    text = "SELECT epoch, beat FROM daruma.node"
    began, end = dict(sql(text)), time.monotonic() + seconds
    while time.monotonic() < end:
        now = dict(sql(text))
        if all(int(now.get(epoch, beat)) >= int(beat) + count or epoch not in now
               for epoch, beat in began.items()):
            return
        time.sleep(0.05)
    raise AssertionError("the nodes do not beat")


def shared():
    global _shared
    if _shared is None:
        _shared = Postgres().create().start()
    return _shared
