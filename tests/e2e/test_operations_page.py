# SPDX-License-Identifier: MIT
"""The commands of docs/operations.md, taken from the page and carried out in its order: what an operator copies
at night works. Paths and addresses are the test's own; what is the service manager's is done by the test.
"""
import os
import re
import shutil
import sqlite3
import subprocess
import unittest

import postgres
import runner
from program import BIN
from server import Server
from target import Target

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/operations.md")
LATER_MS = 600000
SECONDS_MAX = 60
postgres.shared()  # before the tests are forked


def commands(heading):
    """The lines of the shell blocks below a heading of the page, without what is said beside them."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    section = re.search(rf"(?ms)^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", without_blocks(text))
    lines = []
    for number in re.findall(r"^ *BLOCK (\d+)$", section.group(1), re.M):
        kind, block = BLOCKS[int(number)]
        if kind == "sh":
            lines += [re.sub(r"\s+# .*", "", line.strip()) for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


BLOCKS = []


def without_blocks(text):
    """Comments of shell blocks look like headings: each block is a word in its place."""
    BLOCKS.clear()

    def note(found):
        BLOCKS.append((found.group(1), found.group(2)))
        return f"BLOCK {len(BLOCKS) - 1}"
    return re.sub(r"(?ms)^ *```(\w*)\n(.*?)^ *```$", note, text)


class Operator:
    """Carries out lines of the page against a server."""

    def __init__(self, test, server, **replaced):
        self.test, self.server, self.replaced = test, server, replaced
        os.makedirs("bin", exist_ok=True)
        os.symlink(BIN, "bin/daruma")
        self.path = os.path.abspath("bin")

    def do(self, line):
        if line == "systemctl stop daruma":
            self.test.assertEqual(self.server.stop(), 0)
            return ""
        if line == "systemctl start daruma":
            self.server.start()
            return ""
        for written, own in self.replaced.items():
            line = line.replace(written, own)
        url = f"http://127.0.0.1:{self.server.port}"
        done = subprocess.run(["sh", "-ec", line.replace("http://127.0.0.1:8700", url)],
                              env={**os.environ, "DARUMA_URL": url,
                                   "PATH": f"{self.path}:{os.environ['PATH']}"},
                              text=True, capture_output=True, check=False, timeout=SECONDS_MAX)
        self.test.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def do_all(self, heading):
        for line in commands(heading):
            self.do(line)


def paths(server):
    """Those of the page, as they are here."""
    return {"/var/lib/daruma/daruma.db": server.store_path(),
            "/var/lib/daruma": os.path.dirname(server.store_path()),
            "/backup": os.path.abspath("backup")}


class Page(unittest.TestCase):
    def a_restore_brings_the_backup_back_with_its_queues_paused(self):
        target = Target()
        self.addCleanup(target.close)
        queue = {"name": "sync", "targets": [{"name": "t", "url": target.url("/in")}]}
        server = Server(self, "sqlite", [queue]).start()
        task = server.add("sync", delay_ms=LATER_MS)
        os.mkdir("backup")
        live, copy = sqlite3.connect(server.store_path()), sqlite3.connect("backup/daruma.db")
        live.backup(copy)
        live.close()
        copy.close()
        lost = server.add("sync", delay_ms=LATER_MS)
        lines = commands("Restore")
        operator = Operator(self, server, **{"daruma.db*": "tasks.sqlite*", **paths(server)})
        for line in lines[:-2]:
            said = operator.do(line)
        self.assertIn(task, said)  # what the list of waiting tasks tells
        self.assertTrue(server.get("/v1/queues/sync").json["paused"])
        for line in lines[-2:]:
            operator.do(line)
        listed = server.get("/v1/queues").json["queues"]
        self.assertEqual([one["name"] for one in listed if one["paused"]], [])
        self.assertEqual(server.get(f"/v1/tasks/{lost}").status, 404)

    def a_queue_that_was_left_behind_is_dealt_with(self):
        target = Target()
        self.addCleanup(target.close)
        targets = [{"name": "t", "url": target.url("/in")}]
        lines = commands("A queue was left behind")
        self.assertEqual([line.split()[1] for line in lines], ["tasks", "queue", "queue", "queue", "queue"])
        server = Server(self, "sqlite", [{"name": "orders", "targets": targets}]).start()
        task = server.add("orders", delay_ms=LATER_MS)
        server.stop()
        server.configure(queues=[{"name": "bills", "targets": targets}])
        server.start()
        operator = Operator(self, server)
        self.assertIn(task, operator.do(lines[0]))
        operator.do_all("A queue was left behind")
        self.assertEqual(server.get("/v1/queues/orders").status, 404)

    def everything_is_moved_to_another_store(self):
        server = Server(self, "json", [{"name": "q"}]).start()
        task = server.add("q", target="http://127.0.0.1:9/", delay_ms=LATER_MS)
        server.stop()
        shutil.copy(server.store_path(), "tasks.json")
        lines = commands("Moving to another store")
        self.assertEqual(len(lines), 3)
        operator = Operator(self, server, **{
            "postgres://db1/daruma": f"'{postgres.shared().url(postgres.shared().new())}'"})
        for line in lines:
            operator.do(line)
        server.store = f"sqlite:{os.path.abspath('tasks.db')}"
        server.configure(queues=[{"name": "q"}])
        server.start()
        self.assertEqual(server.task(task)["state"], "waiting")

    def a_file_is_made_small(self):
        server = Server(self, "sqlite", [{"name": "q"}]).start()
        server.stop()
        Operator(self, server, **paths(server)).do_all("The file does not shrink")

    def the_first_look_tells(self):
        server = Server(self, "sqlite", [{"name": "q"}]).start()
        operator = Operator(self, server)
        with open(PAGE, encoding="utf-8") as file:
            first = re.search(r"(?ms)```sh\n(.*?)```", file.read()).group(1)
        for line in first.splitlines():
            line = re.sub(r"\s+# .*", "", line)
            if not line.startswith("journalctl"):  # the service manager's
                operator.do(line)


if __name__ == "__main__":
    runner.main()
