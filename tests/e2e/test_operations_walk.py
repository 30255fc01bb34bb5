# SPDX-License-Identifier: MIT
"""docs/operations.md, followed to the letter: every command of the page is run, in its order, on a
server whose folders are the test's own. What a service manager does (systemctl, journalctl, sudo) is
done by small programs that start and stop the real server. A command that fails fails the test, and so
does one that the test knows nothing about.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import ports
import postgres
import runner
from program import BIN
from target import Target, answer, read_then_close

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "operations.md")
RUN_SECONDS = 60
FENCE = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.M | re.S)
INLINE = re.compile(r"`((?:daruma|sqlite3|pg_dump|curl) [^`\n]+)`")
# Not commands of their own but a command's name in a sentence.
PROSE = {"daruma export", "daruma import", "daruma restore", "daruma restore --store …",
         "daruma restore --store postgres://…"}
runner.TEST_SECONDS_MAX = 120
postgres.shared()  # before the tests are forked

SYSTEMCTL = """#!/bin/sh
# start and stop the real server, as the unit does: in its state folder, on its configuration
case "$1" in
start|enable) exec python3 - <<'END'
import os, subprocess, time, urllib.request
world = os.environ["WORLD"]
log = open(f"{world}/log", "ab")
process = subprocess.Popen([os.environ["DARUMA_BIN"], "serve", "-c", f"{world}/etc/daruma/daruma.yaml"],
                           cwd=f"{world}/var/lib/daruma", stdout=log, stderr=log, start_new_session=True)
open(f"{world}/pid", "w").write(str(process.pid))
for _ in range(600):
    try:
        urllib.request.urlopen(os.environ["DARUMA_URL"] + "/readyz")
        break
    except OSError:
        time.sleep(0.05)
else:
    raise SystemExit("the server is not ready")
END
;;
stop) kill -TERM "$(cat "$WORLD/pid")"; tail --pid="$(cat "$WORLD/pid")" -f /dev/null ;;
daemon-reload) ;;
*) echo "systemctl $1: not known here" >&2; exit 1 ;;
esac
"""
PROGRAMS = {
    "systemctl": SYSTEMCTL,
    "journalctl": '#!/bin/sh\ntail -n 5 "$WORLD/log"\n',
    "sudo": '#!/bin/sh\nexec "$@"\n',
    "sudoedit": '#!/bin/sh\ncp "$WORLD/own.yaml" "$1"\n',
    # Installing is what tests/install is about: here only what the page needs of it.
    "make": '#!/bin/sh\nmkdir -p "$WORLD/usr/local/share/doc/daruma"\n'
            f'cp {ROOT}/config/daruma.yaml "$WORLD/usr/local/share/doc/daruma/"\n',
    "daruma": '#!/bin/sh\nexec "$DARUMA_BIN" "$@"\n',
}


class Command:
    """One command of the page, or one block of them, and where it stands."""

    def __init__(self, line, text):
        self.line, self.text = line, text


def commands():
    """In the order of the page."""
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    found = [(match.start(), re.sub(rf"^{match.group(1)}", "", match.group(2), flags=re.M))
             for match in FENCE.finditer(page)]
    bare = re.sub(r"^ *```.*?^ *```$", lambda match: " " * len(match.group(0)), page,
                  flags=re.M | re.S)
    found += [(match.start(1), match.group(1)) for match in INLINE.finditer(bare)
              if match.group(1) not in PROSE]
    return [Command(page.count("\n", 0, at) + 1, text) for at, text in sorted(found)]


class World:
    """The folders that the page speaks of, below one of the test's own."""

    def __init__(self, test):
        self.path = os.getcwd()
        self.bin = os.path.join(self.path, "bin")
        for folder in ("bin", "etc", "var/lib/daruma", "var/log", "backup", "work", "usr"):
            os.makedirs(os.path.join(self.path, folder))
        for name, text in PROGRAMS.items():
            with open(os.path.join(self.bin, name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(os.path.join(self.bin, name), 0o755)
        self.target = Target()
        self.target.script("/fails", answer(400))
        self.target.script("/doubt", read_then_close)
        test.addCleanup(self.target.close)
        test.addCleanup(self.end)
        self.port = ports.lasting()
        self.configure()

    def begin(self):
        """On its configuration as it is now."""
        os.makedirs(f"{self.path}/etc/daruma", exist_ok=True)
        shutil.copy(f"{self.path}/own.yaml", f"{self.path}/etc/daruma/daruma.yaml")
        self.run("systemctl start daruma")

    def halt(self):
        if self.is_running():
            self.run("systemctl stop daruma")
            os.remove(f"{self.path}/pid")

    def leave_behind(self):
        """The queue that the file does not have any more."""
        self.halt()
        self.configure("orders")
        self.begin()
        self.run("curl -sf -X POST \"$DARUMA_URL/v1/queues/orders/tasks\" -d '{\"delay_ms\": 600000}'")
        self.halt()
        self.configure()
        self.begin()

    def configure(self, *more):
        queues = [{"name": name, "targets": [{"name": "t", "url": self.target.url("/ok")}]}
                  for name in ("sync", "bills", *more)]
        config = {"store": "sqlite:daruma.db", "queues": queues, "api": {"listen": f"127.0.0.1:{self.port}"}}
        with open(os.path.join(self.path, "own.yaml"), "w", encoding="utf-8") as file:
            json.dump(config, file)

    def run(self, text):
        """The commands in a shell of their own: output, or what went wrong."""
        environment = {**os.environ, "WORLD": self.path, "DARUMA_BIN": BIN, "DARUMA_URL":
                       f"http://127.0.0.1:{self.port}", "PATH": f"{self.bin}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", text], env=environment,
                              cwd=os.path.join(self.path, "work"), text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=RUN_SECONDS,
                              check=False)
        if done.returncode != 0:
            raise AssertionError(f"{text}\nended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def end(self):
        path = os.path.join(self.path, "pid")
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                pid = int(file.read())
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    # --- what a command needs ---

    def make(self, **task):
        out = self.run("curl -sf -X POST \"$DARUMA_URL/v1/queues/sync/tasks\" -d '%s'" % json.dumps(task))
        return json.loads(out)["id"]

    def failed(self):
        return self.until(self.make(target=self.target.url("/fails")), "failed")

    def unsettled(self):
        return self.until(self.make(target=self.target.url("/doubt"), repeatable=False), "unsettled")

    def until(self, identity, state):
        for _ in range(200):
            out = self.run(f"curl -sf \"$DARUMA_URL/v1/tasks/{identity}?wait_ms=1000\"")
            if json.loads(out)["state"] == state:
                return identity
            time.sleep(0.05)
        raise AssertionError(f"it is not {state}: {out}")

    def is_running(self):
        return os.path.exists(os.path.join(self.path, "pid"))

    def last_exported(self):
        with open(os.path.join(self.path, "work", "tasks.ndjson"), encoding="utf-8") as file:
            tasks = [json.loads(line) for line in file if '"kind": "task"' in line or
                     '"kind":"task"' in line]
        return tasks[-1]["id"]

    def places(self, text):
        """The page's folders and addresses as they are here."""
        for folder in ("/var/lib/daruma", "/var/log", "/etc/daruma", "/backup", "/usr/local/share"):
            text = re.sub(rf"(?<![\w.]){folder}(?![\w])", self.path + folder, text)
        text = text.replace("/tmp/check.db", f"{self.path}/check.db")
        return text.replace("http://127.0.0.1:8700", f"http://127.0.0.1:{self.port}")


class Page:
    """The commands one after the other, each with what its words stand for."""

    def __init__(self, world):
        self.world = world
        self.database = postgres.shared().url(postgres.shared().new())

    def prepare(self, text):
        """What has to be there before, as the page's reader would have it."""
        world = self.world
        if not world.is_running():
            world.begin()
        if text.startswith("daruma tasks orders"):
            world.leave_behind()
        if "dead list" in text and "ID" not in text:
            world.failed()
        if "--store json:tasks.json |" in text:
            for name in ("tasks.json", "tasks.db", "tasks.ndjson"):
                if os.path.exists(f"{world.path}/work/{name}"):
                    os.remove(f"{world.path}/work/{name}")
            world.run(f"daruma export --store {self.own_store()} | daruma import --store json:tasks.json")
        if "check.db" in text and not os.path.exists(f"{world.path}/work/tasks.ndjson"):
            world.run(f"daruma export --store {self.own_store()} --output tasks.ndjson")
        if text.startswith(("make ", "daruma compact", "daruma serve", "daruma restore")):
            world.halt()
            shutil.copy(f"{world.path}/own.yaml", f"{world.path}/work/daruma.yaml")

    def own_store(self):
        return f"sqlite:{self.world.path}/var/lib/daruma/daruma.db"

    def words(self, text):
        world = self.world
        lines = []
        for line in text.splitlines():
            if re.search(r"\bID\b", line):
                line = re.sub(r"\bID\b", world.unsettled() if "settle" in line else world.failed(), line)
            lines.append(line)
        text = "\n".join(lines)
        text = re.sub(r"\bQUEUE\b", "sync", text)
        text = re.sub(r"\bSTORE\b", self.own_store(), text)
        text = re.sub(r"\bTIME\b", "2h", text)
        text = text.replace("daruma serve", "timeout --preserve-status -s TERM 3 daruma serve")
        text = re.sub(r"-c (NEW-)?FILE\b", f"-c {world.path}/etc/daruma/daruma.yaml", text)
        text = text.replace("--output FILE", "--output whole.ndjson")
        text = re.sub(r"postgres://db1/daruma", f"'{self.database}'", text)
        text = re.sub(r"(--after )[0-9a-f-]{36}", lambda match: match.group(1) + world.last_exported(),
                      text)
        if text.startswith("pg_dump"):  # of a database that daruma has
            world.run(f"daruma export --store {self.own_store()} | "
                      f"daruma import --store '{self.database}'")
            text += f" '{self.database}' > pg.dump"
        return world.places(text)

    def follow(self, command):
        self.prepare(command.text)
        self.world.run(self.words(command.text))


class Operations(unittest.TestCase):
    def every_command_of_the_page_does_what_it_says(self):
        world = World(self)
        page = Page(world)
        done = []
        for command in commands():
            try:
                page.follow(command)
            except AssertionError as error:
                raise AssertionError(f"docs/operations.md:{command.line}: {error}") from error
            done.append(command.line)
        self.assertGreater(len(done), 12)


if __name__ == "__main__":
    runner.main()
