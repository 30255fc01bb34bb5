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
import threading
import unittest

import postgres
import runner
from gateway import QUICK, Gateway, route
from polling import until
from program import BIN
from server import on_each_store
from target import Target, answer, hold


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


class Paused(unittest.TestCase):
    def the_queues_that_are_paused_are_named_and_listed_until_they_are_resumed(self):
        target = Target()
        self.addCleanup(target.close)
        queue = {"name": "q", "targets": [{"name": "t", "url": target.url("/task")}]}
        gateway = Gateway(self, [route(target)], "sqlite", queues=[queue]).start()
        backup = Backup(gateway)
        gateway.stop()
        status, said, _why = backup.put_back()
        self.assertEqual(status, 0)
        self.assertIn("2 queues paused: ", said)
        told = [line for line in said.splitlines() if "daruma queue resume" in line][0]
        resumed = [part.split(" ")[0] for part in told.split("daruma queue resume ")[1:]]
        names = [name.rstrip(";") for name in resumed]
        self.assertEqual(sorted(names), ["_callbacks", "q"])
        gateway.start()
        listed = {one["name"]: one["paused"] for one in gateway.get("/v1/queues").json["queues"]}
        self.assertEqual({name for name, paused in listed.items() if paused}, {"_callbacks", "q"})
        for name in names:
            self.assertEqual(gateway.post(f"/v1/queues/{name}:resume").status, 200)
        gateway.post("/v1/queues/q/tasks", {"json": {}, "callback": {"url": target.url("/told")}})
        target.wait_for(2)
        self.assertEqual([one.path for one in target.seen()], ["/task", "/told"])

    def one_whose_report_is_lost_is_done(self):
        gateway = Gateway(self, [route(Target())], "sqlite", queues=[{"name": "q"}]).start()
        backup = Backup(gateway)
        gateway.stop()
        os.remove(gateway.store_path())
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BIN, "restore", "--store", gateway.store, "--from", backup.file],
                                  stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"the exit status tells what was done", done.stderr)
        gateway.start()
        self.assertTrue(gateway.get("/v1/queues/q").json["paused"])


class Opening(unittest.TestCase):
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


@on_each_store("sqlite", "json", "postgres")
class Restore(Opening):
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
        self.assertEqual(task["error"], gateway.task(task["id"])["error"])
        self.assertIn("restored from a backup", task["error"]["message"])
        for arguments in (["unsettled"], ["show", task["id"]]):
            told = subprocess.run([BIN, *arguments], text=True, capture_output=True, check=True, env={
                **os.environ, "DARUMA_URL": f"http://127.0.0.1:{gateway.port}"})
            self.assertIn("restored from a backup", told.stdout)
        gateway.post(f"/v1/tasks/{task['id']}:settle", {"outcome": "not_done"})
        self.assertEqual(gateway.settled(task["id"])["state"], "succeeded")
        self.assertEqual(gateway.send(key="after").headers["idempotency-replayed"], "true")
        self.assertEqual(len(self.target.seen("/v1/orders")), 3)

    def a_backup_without_tasks_has_no_age(self, store):
        gateway, backup = self._open(store)
        self.assertEqual(backup.put_back()[0], 0)
        self._start(gateway)
        age_ms = int(gateway.wait_line("keys_unknown", self.first).fields["backup_age_ms"])
        self.assertLess(age_ms, 3600000)
        gateway.stop()
        gateway.store = (postgres.shared().url(postgres.shared().new()) if store == "postgres"
                         else f"{store}:{os.path.abspath('empty')}")
        self._start(gateway).stop()
        self.assertEqual(restore("--store", gateway.store)[0], 0)
        self._start(gateway)
        said = gateway.wait_line("keys_unknown", self.first).fields
        self.assertNotIn("backup_age_ms", said)

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


class UnderWayOpening(unittest.TestCase):
    """What ran or waited in the backup, and was carried out after it."""

    def _gateway(self, store, *routes, **more):
        self.settings = {"gateway": {"listen": "127.0.0.1:0"}, "policies": [QUICK], "routes": list(routes), **more}
        gateway = Gateway(self, [], store)
        gateway.configure(**self.settings)
        return gateway.start()

    def _begin(self, gateway, path, key, state):
        """A caller whose request is in that state."""
        sending = gateway.begin(path=path, key=key)
        where = f"/v1/keys?route=POST{path.replace('/', '-')}&key={key}"
        found = until(lambda: [one for one in gateway.get(where).json["keys"] if one["state"] == state], state)
        return sending, found[0]["task"]

    def _put_back(self, gateway, backup, *arguments):
        gateway.stop()
        self.assertEqual(len(self.target.seen()), self.sent)
        status, said, error = backup.put_back("--json", *arguments)
        self.assertEqual(status, 0, error)
        gateway.configure(**self.settings)
        gateway.start()
        return json.loads(said)

    def _open(self, store, **more):
        """A gateway with a request that runs in the backup, and one that waits behind it; and the same on a
        route whose upstream may see a request twice. All of them are carried out after it."""
        self.target = Target()
        self.addCleanup(self.target.close)
        goes = threading.Event()
        gateway = self._gateway(store, route(self.target, concurrency=1, **more),
                                route(self.target, "POST /v1/safe", concurrency=1, ambiguous="retry"))
        begun = []
        for path in ("/v1/orders", "/v1/safe"):
            self.target.script(path, hold(goes, answer(200)))
            begun += [self._begin(gateway, path, "ran", "running"), self._begin(gateway, path, "waited", "waiting")]
        backup = Backup(gateway)
        goes.set()
        for sending, _task in begun:
            self.assertEqual(sending.end().status, 200)
        self.sent = 4
        return gateway, backup, [task for _sending, task in begun]


@on_each_store("sqlite", "json", "postgres")
class UnderWay(UnderWayOpening):
    def what_was_under_way_in_the_backup_is_in_doubt_and_not_sent_again(self, store):
        gateway, backup, (ran, waited, *safe) = self._open(store, in_progress="conflict")
        told = self._put_back(gateway, backup)
        self.assertEqual(told["requests_unsettled"], 1)  # the other one is found to have run by the start
        for task in safe:
            self.assertEqual(gateway.settled(task)["state"], "succeeded")  # its upstream may see it twice
        for _ in range(2):
            for task, key in ((ran, "ran"), (waited, "waited")):
                self.assertEqual(gateway.settled(task)["state"], "unsettled")
                got = gateway.send(key=key)
                self.assertEqual((got.status, got.code), (409, "outcome_unknown"))
            self.assertIn("restored from a backup", gateway.task(waited)["error"]["message"])
            gateway.stop()
            gateway.start()
        self.assertEqual(len(self.target.seen("/v1/orders")), 2)
        gateway.post(f"/v1/tasks/{waited}:settle", {"outcome": "not_done"})
        self.assertEqual(gateway.settled(waited)["state"], "succeeded")
        self.assertEqual(len(self.target.seen("/v1/orders")), 3)  # by a person's word, and it holds
        gateway.stop()
        gateway.start()
        self.assertEqual(gateway.send(key="waited").headers["idempotency-replayed"], "true")

    def the_probe_is_asked_about_what_was_under_way(self, store):
        probe = {"request": "GET /by-key/{key}", "every": "1s", "misses": 1, "settle_after": "1s"}
        gateway, backup, (ran, waited, *_) = self._open(store, ambiguous="probe", probe=probe, in_progress="wait")
        for key in ("ran", "waited"):
            self.target.script(f"/by-key/{key}", answer(200, body=b'{"id":1}'))
        self._put_back(gateway, backup)
        for task, key in ((ran, "ran"), (waited, "waited")):
            until(lambda: gateway.task(task)["state"] == "succeeded", "the probe has found it")
            self.assertEqual(gateway.send(key=key).body, b'{"id":1}')
        self.assertEqual(len(self.target.seen("/v1/orders")), 2)

    def what_waited_goes_on_where_keys_are_known(self, store):
        gateway, backup, (ran, waited, *_) = self._open(store)
        self.assertEqual(self._put_back(gateway, backup, "--keys-are-known")["requests_unsettled"], 0)
        self.assertEqual(gateway.settled(waited)["state"], "succeeded")
        self.assertEqual(gateway.settled(ran)["state"], "unsettled")
        self.assertEqual(len(self.target.seen("/v1/orders")), 3)

    def a_persons_word_from_before_the_backup_sends_nothing_after_it(self, store):
        """A task that was told to run is not held by a pause, and was carried out since."""
        self.target = Target()
        self.addCleanup(self.target.close)
        goes = threading.Event()
        self.target.script("/first", hold(goes))
        gateway = self._gateway(store, route(self.target), queues=[{"name": "q", "concurrency": 1}])
        first = gateway.add("q", target=self.target.url("/first"))
        self.target.wait_for(1)
        forced = gateway.add("q", target=self.target.url("/forced"))
        self.assertEqual(gateway.post(f"/v1/tasks/{forced}:run").status, 200)
        backup = Backup(gateway)
        goes.set()
        for task in (first, forced):
            self.assertEqual(gateway.settled(task)["state"], "succeeded")
        self.sent = 2
        self._put_back(gateway, backup)
        later = gateway.add("q", target=self.target.url("/later"))  # what the pause holds
        self.assertEqual(gateway.post(f"/v1/tasks/{later}:run").status, 200)
        self.assertEqual(gateway.settled(later)["state"], "succeeded")
        self.assertEqual(gateway.task(forced)["state"], "waiting")
        self.assertEqual(len(self.target.seen("/forced")), 1)
        gateway.post("/v1/queues/q:resume")
        self.assertEqual(gateway.settled(forced)["state"], "succeeded")


class HalfDone(UnderWayOpening):
    def a_store_that_was_marked_in_part_is_taken_by_no_server(self):
        """In place, where no copy is thrown away: as after pg_restore."""
        gateway, backup, (_ran, waited, *_) = self._open("sqlite", in_progress="conflict")
        gateway.stop()
        path = gateway.store_path()
        shutil.rmtree(os.path.dirname(path))
        os.mkdir(os.path.dirname(path))
        shutil.copy(backup.file, path)
        with sqlite3.connect(path) as live:
            live.execute("CREATE TRIGGER no BEFORE UPDATE ON life BEGIN SELECT RAISE(ABORT, 'no'); END")
        live.close()
        self.assertEqual(restore("--store", gateway.store)[0], 1)
        gateway.configure(**self.settings)
        gateway.launch()
        self.assertNotEqual(gateway.end(), 0)
        self.assertIn("'daruma restore' of this store did not end", gateway.said())
        with sqlite3.connect(path) as live:
            live.execute("DROP TRIGGER no")
        live.close()
        status, told, _ = restore("--store", gateway.store, "--json")
        self.assertEqual((status, json.loads(told)["paused"]), (0, ["_callbacks"]))  # by the first run
        gateway.start()
        self.assertEqual(gateway.task(waited)["state"], "unsettled")
        self.assertTrue(gateway.get("/v1/queues/_callbacks").json["paused"])
        self.assertEqual(len(self.target.seen("/v1/orders")), 2)


@on_each_store("sqlite", "json")
class Placing(Opening):
    def a_copy_that_cannot_be_marked_is_not_in_the_place_of_the_store(self, store):
        """A server that is started after a restore that failed must not find the backup going."""
        gateway, backup = self._open(store)
        good = backup.file
        backup.file = os.path.abspath("unmarkable")
        if store == "sqlite":
            shutil.copy(good, backup.file)
            with sqlite3.connect(backup.file) as copy:
                copy.execute("CREATE TRIGGER no BEFORE UPDATE ON queue BEGIN SELECT RAISE(ABORT, 'no'); END")
            copy.close()
        else:
            with open(good, "rb") as whole, open(backup.file, "wb") as cut:
                cut.write(whole.read()[:-9])
        folder = os.path.dirname(gateway.store_path())
        status, _, said = backup.put_back()
        self.assertEqual(status, 1, said)
        name = os.path.basename(gateway.store_path())
        self.assertIn(os.listdir(folder), ([], [name + ".lock"]))
        with open("nothing", "wb"):
            pass
        status, _, said = restore("--store", gateway.store, "--from", "nothing")
        self.assertEqual((status, os.listdir(folder)), (1, [name + ".lock"]), said)
        self.assertIn("is empty", said)
        for end in ("", "-wal", "-shm", ".lock", ".new"):  # of a restore that was killed
            with open(gateway.store_path() + ".restoring" + end, "wb") as left:
                left.write(b"half")
        status, told, said = restore("--store", gateway.store, "--from", good, "--json")
        self.assertEqual((status, json.loads(told)["queues_paused"]), (0, 2), said)
        self.assertIn(name + ".restoring: was left behind", said)
        self.assertEqual(sorted(os.listdir(folder)), [name, name + ".lock"])
        self._start(gateway)
        self.assertTrue(gateway.get("/v1/queues/q").json["paused"])
        gateway.stop()

    def a_store_that_a_server_has_is_not_put_back_under_it(self, store):
        gateway, backup = self._open(store)
        gateway.start()
        folder, path = os.path.dirname(gateway.store_path()), gateway.store_path()
        os.mkdir("aside")
        for end in ("", "-wal", "-shm"):
            if os.path.exists(path + end):
                os.rename(path + end, "aside/store" + end)
        status, _, said = restore("--store", gateway.store, "--from", backup.file)
        self.assertEqual(status, 1, said)
        self.assertIn("a server or another restore is at work on it", said)
        self.assertEqual(os.listdir(folder), [os.path.basename(path) + ".lock"])
        gateway.kill()


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
