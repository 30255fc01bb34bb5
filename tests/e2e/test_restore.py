# SPDX-License-Identifier: MIT
"""A backup that is put back: what was sent since then waits in it again, so its queues are paused; keys that
were used since then are not in it, so a request of the gateway with a key that it does not know is in
doubt, and not sent to an upstream that must not see it twice.
"""
import json
import os
import shutil
import sqlite3
import subprocess
import unittest

import postgres
import runner
from gateway import QUICK, Gateway, route
from program import BIN
from server import on_each_store
from target import Target, answer


def restore(*arguments):
    done = subprocess.run([BIN, "restore", *arguments], text=True, capture_output=True, check=False,
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


class Backup:
    """Of the store of a gateway, made as the operators' page says."""

    def __init__(self, gateway):
        self.gateway, self.kind = gateway, gateway.store.split(":")[0]
        self.file = os.path.abspath("backup")
        if self.kind == "sqlite":
            with sqlite3.connect(gateway.store_path()) as live, sqlite3.connect(self.file) as copy:
                live.backup(copy)
            live.close()
            copy.close()
        elif self.kind == "json":
            shutil.copy(gateway.store_path(), self.file)
        else:
            self._run("pg_dump", "-Fc", "-n", "daruma", "-f", self.file, gateway.store)

    @staticmethod
    def _run(program, *arguments):
        subprocess.run([os.path.join(postgres.programs(), program), *arguments], check=True, capture_output=True)

    def put_back(self, *arguments):
        """In place of what has become of the store since."""
        if self.kind in ("sqlite", "json"):
            folder = os.path.dirname(self.gateway.store_path())
            shutil.rmtree(folder)
            os.mkdir(folder)
            return restore("--store", self.gateway.store, "--from", self.file, *arguments)
        self.gateway.store = postgres.shared().url(postgres.shared().new())
        self._run("pg_restore", "-d", self.gateway.store, self.file)
        return restore("--store", self.gateway.store, *arguments)


@on_each_store("sqlite", "json", "postgres")
class Restore(unittest.TestCase):
    def _open(self, store, **more):
        """A gateway with one request in the backup and one after it; and the upstream."""
        self.target = Target()
        self.addCleanup(self.target.close)
        queue = {"name": "q", "targets": [{"name": "t", "url": self.target.url("/task")}]}
        self.settings = {"queues": [queue], "gateway": {"listen": "127.0.0.1:0"}, "policies": [QUICK],
                         "routes": [route(self.target, **more),
                                    route(self.target, "POST /v1/safe", repeatable=True)]}
        gateway = Gateway(self, self.settings["routes"], store, queues=[queue]).start()
        self.assertEqual(gateway.send(key="before").status, 200)
        backup = Backup(gateway)
        self.assertEqual(gateway.send(key="after").status, 200)
        gateway.stop()
        return gateway, backup

    def _start(self, gateway):
        gateway.configure(**self.settings)
        self.first = len(gateway.lines)
        return gateway.start()

    def a_key_that_was_used_since_the_backup_is_in_doubt_and_not_sent_again(self, store):
        gateway, backup = self._open(store, in_progress="conflict")
        status, said, error = backup.put_back("--json")
        self.assertEqual(status, 0, error)
        self.assertEqual(json.loads(said)["queues_paused"], 2)  # and that of the callbacks
        self._start(gateway)
        gateway.wait_line("keys_unknown", self.first, routes=1)
        self.assertEqual(gateway.send(key="before").headers["idempotency-replayed"], "true")
        for _ in range(2):
            got = gateway.send(key="after")
            self.assertEqual((got.status, got.code), (409, "outcome_unknown"))
        self.assertEqual(len(self.target.seen("/v1/orders")), 2)
        self.assertEqual(gateway.send("/v1/safe", key="after").status, 200)  # it may see it twice
        [task] = gateway.get("/v1/unsettled").json["unsettled"]
        gateway.post(f"/v1/tasks/{task['id']}:settle", {"outcome": "not_done"})
        self.assertEqual(gateway.settled(task["id"])["state"], "succeeded")
        self.assertEqual(gateway.send(key="after").headers["idempotency-replayed"], "true")
        self.assertEqual(len(self.target.seen("/v1/orders")), 3)

    def the_probe_is_asked_about_it(self, store):
        probe = {"request": "GET /by-key/{key}", "every": "1s", "misses": 1, "settle_after": "1s",
                 "on_missing": "send"}
        gateway, backup = self._open(store, ambiguous="probe", probe=probe, in_progress="wait")
        self.target.script("/by-key/after", answer(200, body=b'{"id":1}'))
        self.target.script("/by-key/fresh", answer(404))
        self.assertEqual(backup.put_back()[0], 0)
        self._start(gateway)
        self.assertEqual(gateway.send(key="after").status, 200)
        self.assertEqual(len(self.target.seen("/v1/orders")), 2)  # it had happened
        self.assertEqual(gateway.send(key="fresh").status, 200)
        self.assertEqual(len(self.target.seen("/v1/orders")), 3)  # it had not

    def queues_are_paused_unless_told_otherwise(self, store):
        gateway, backup = self._open(store)
        self.assertEqual(backup.put_back()[0], 0)
        self._start(gateway)
        task = gateway.add("q")
        self.assertTrue(gateway.get("/v1/queues/q").json["paused"])
        self.assertEqual(gateway.task(task)["state"], "waiting")
        gateway.post("/v1/queues/q:resume")
        self.assertEqual(gateway.settled(task)["state"], "succeeded")
        gateway.stop()
        self.assertEqual(backup.put_back("--leave-queues", "--keys-are-known")[0], 0)
        self._start(gateway)
        self.assertNotIn("keys_unknown", gateway.said(self.first))
        self.assertFalse(gateway.get("/v1/queues/q").json["paused"])
        self.assertEqual(gateway.send(key="after").status, 200)
        self.assertEqual(len(self.target.seen("/v1/orders")), 3)  # as was said


class Refusals(unittest.TestCase):
    def nothing_is_written_over_and_nothing_is_made_of_nothing(self):
        with open("there.db", "w", encoding="utf-8") as file:
            file.write("x")
        for arguments in (("--store", "sqlite:there.db", "--from", "there.db"),
                          ("--store", "sqlite:gone.db"), ("--store", "json:gone.json"),
                          ("--store", "sqlite:new.db", "--from", "gone.db")):
            status, _, said = restore(*arguments)
            self.assertEqual(status, 1, said)
        self.assertEqual(os.listdir("."), ["there.db"])


if __name__ == "__main__":
    runner.main()
