# SPDX-License-Identifier: MIT
"""The systems that are measured beside the server, each with an acknowledged write on disk:
beanstalkd -f0; BullMQ on redis with `appendfsync always`; graphile-worker and pg-boss on PostgreSQL
with `synchronous_commit = on`. Those without HTTP of their own get a front on node:http."""
import contextlib
import json
import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

from process import (Unmeasured, answers, free_port, listening, run, running, say_last, wait_until)

HERE = Path(__file__).resolve().parent / "peers"
NODE_ENVIRONMENT = {"NODE_ENV": "production"}
POSTGRES_BUFFERS = "256MB"


class Peers:
    """Where they are, and their versions. `build` gets their packages from npm, once."""

    def __init__(self, build):
        self.build = build
        self.versions = {}

    def install(self):
        """What package-lock.json names, beside the scripts, in the build directory."""
        for name in ("node", "npm", "redis-server", "beanstalkd", "wrk"):
            if shutil.which(name) is None:
                raise Unmeasured(f"{name} is missing: run tools/install-deps bench")
        self.build.mkdir(exist_ok=True)
        fresh = {path: path.read_bytes() for path in HERE.iterdir() if path.is_file()}
        lock = self.build / "package-lock.json"
        is_same = (lock.is_file() and lock.read_bytes() == fresh[HERE / "package-lock.json"] and
                   (self.build / "node_modules" / "bullmq").is_dir())
        for path, content in fresh.items():
            (self.build / path.name).write_bytes(content)
        if not is_same:
            run(["npm", "ci", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"],
                cwd=self.build)
        self.versions = self.read_versions()

    def read_versions(self):
        def first(arguments, pattern):
            found = re.search(pattern, run(arguments))
            return found.group(1) if found else "?"

        versions = {name: json.loads((self.build / "node_modules" / name / "package.json")
                                     .read_text())["version"]
                    for name in ("bullmq", "graphile-worker", "pg-boss")}
        return {**versions,
                "node": first(["node", "--version"], r"v([\d.]+)"),
                "redis": first(["redis-server", "--version"], r"v=([\d.]+)"),
                "beanstalkd": first(["beanstalkd", "-v"], r"([\d.]+)"),
                "postgresql": first([postgres_program("postgres"), "--version"], r"([\d.]+)")}

    def node(self, script, place, store, *arguments, **more):
        """Arguments for running a script, and its environment."""
        return (["node", self.build / f"{script}.mjs", *arguments],
                {"log": place / f"{script}.log",
                 "env": {**os.environ, **NODE_ENVIRONMENT, "PEER_STORE": str(store), **more}})

    @contextlib.contextmanager
    def front(self, script, place, store):
        """The port of its HTTP front."""
        arguments, more = self.node(script, place, store, "front")
        with listening(arguments, **more) as (_, port):
            yield port

    def work(self, script, place, store, url, count, **more):
        """Entries that it took and posted, per second."""
        arguments, options = self.node(script, place, store, "work", url, count, **more)
        del options["log"]
        seconds = float(run(arguments, **options).strip().splitlines()[-1])
        return count / seconds


def postgres_program(name):
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"),
                      key=lambda path: float(path.parent.name))
    if not versions:
        raise Unmeasured("PostgreSQL is missing: run tools/install-deps bench")
    return versions[-1] / name


def postgres_owner():
    """PostgreSQL refuses to run as root; its package brings a user along."""
    if os.geteuid() != 0:
        return {}
    try:
        owner = pwd.getpwnam("postgres")
    except KeyError as error:
        raise Unmeasured("there is no user postgres") from error
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def postgres(place):
    """A connection string; a new cluster each time."""
    data, owner, port = place / "postgres", postgres_owner(), free_port()
    data.mkdir()
    if owner:
        os.chown(data, owner["user"], owner["group"])
    run([postgres_program("initdb"), "-D", data, "-A", "trust", "-U", "bench", "--no-locale",
         "-E", "UTF8"], cwd=data, **owner)
    options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "",
               "fsync": "on", "synchronous_commit": "on", "shared_buffers": POSTGRES_BUFFERS}
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    log = place / "postgres.log"
    with running([postgres_program("postgres"), "-D", data, *arguments], log, cwd=data,
                 **owner) as process:
        asks = [postgres_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        wait_until(lambda: subprocess.run(asks, check=False).returncode == 0 or
                   process.poll() is not None, "PostgreSQL")
        if process.poll() is not None:
            raise Unmeasured(f"PostgreSQL does not start: {say_last(log)}")
        yield f"postgres://bench@127.0.0.1:{port}/postgres"


@contextlib.contextmanager
def redis(place):
    """Its port."""
    port, log = free_port(), place / "redis.log"
    (place / "redis").mkdir()
    with running(["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", place / "redis",
                  "--appendonly", "yes", "--appendfsync", "always", "--save", "",
                  "--no-appendfsync-on-rewrite", "no"], log):
        wait_until(lambda: answers(port), "redis")
        yield port


@contextlib.contextmanager
def beanstalkd(place):
    """Its port."""
    port, log = free_port(), place / "beanstalkd.log"
    (place / "beanstalkd").mkdir()
    with running(["beanstalkd", "-l", "127.0.0.1", "-p", port, "-b", place / "beanstalkd", "-f0"],
                 log):
        wait_until(lambda: answers(port), "beanstalkd")
        yield port
