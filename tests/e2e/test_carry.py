# SPDX-License-Identifier: MIT
"""`daruma export` and `daruma import` on the real program: from a store in use to another, with what
is under way, cut off anywhere, and into a server that goes on with it.
"""
import json
import os
import subprocess
import threading
import unittest

import runner
from program import BIN
from server import Server
from target import Target, answer, hold
from test_cli_client import environment, run

ONCE = {"max_attempts": 1}
FEW, MANY = 700, 5000  # more than one batch; more than the pipe holds


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def exported(test, store, *more):
    """What is in a store, as lines."""
    status, out, err = run("export", "--store", store, *more)
    test.assertEqual(status, 0, err)
    return [json.loads(line) for line in out.splitlines()]


def tasks_in(lines):
    return [line for line in lines if line["kind"] == "task"]


def made_up(count):
    """Lines of an export with that many tasks."""
    yield {"kind": "begin", "format": "daruma export", "version": 1}
    yield {"kind": "queue", "number": 1, "name": "q", "settings": "{}"}
    for i in range(count):
        yield {"kind": "task", "queue": "q", "id": [i + 1, i + 7], "state": "waiting",
               "due_at": "2027-01-15T08:00:00.000Z", "attempts": 0, "key": f"key-{i}", "fingerprint": "61" * 32, "body": "x" * 200}
    yield {"kind": "end"}


def written(lines):
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


class World:
    """A server with tasks that succeeded, died, wait, and one that is under way."""

    def __init__(self, test, store="sqlite"):
        self.test, self.target, self.go_on = test, Target(), threading.Event()
        test.addCleanup(self.go_on.set)
        self.server = Server(test, store, queues=[{"name": "q"}]).start()
        good = self.target.script("/good", answer(200, {"X-Own": "yes"}, b"\xff\x00answer"))
        bad = self.target.script("/bad", answer(500))
        slow = self.target.script("/slow", hold(self.go_on), answer(200))
        self.done = self.server.add(target=good, key="done", body="hello", labels={"a": "b"})
        self.dead = self.server.add(target=bad, key="dead", retry=ONCE)
        self.later = self.server.add(target=good, key="later", delay_ms=3600000)
        for identity in (self.done, self.dead):
            self.server.settled(identity)
        self.running = self.server.add(target=slow, key="running")
        self.target.wait_for(3)


class Carry(unittest.TestCase):
    def a_store_in_use_is_exported_and_another_server_goes_on_with_it(self):
        world = World(self)
        status, out, err = run("export", "--store", world.server.store, "--output", "all.ndjson")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out, "exported 2 queues, 4 tasks, 0 memos, 0 acts\n")  # and the server's own
        self.assertEqual(os.stat("all.ndjson").st_mode & 0o777, 0o600)  # I10
        before = {task["id"]: task for task in tasks_in(lines_of("all.ndjson"))}
        self.assertEqual(before[world.running]["state"], "running")
        world.server.kill()
        world.go_on.set()

        os.mkdir("other")
        other = Server(self, "json", queues=[{"name": "q"}], folder="other")
        os.mkdir("other/var")
        status, out, err = run("import", "--store", other.store, "--input", "all.ndjson", "--json")
        self.assertEqual(status, 0, err)
        counts = json.loads(out)
        self.assertEqual((counts["queues"], counts["tasks"], counts["conflicts"]), (2, 4, 0))
        other.start()
        self.assertEqual(other.task(world.done)["state"], "succeeded")
        self.assertEqual(other.get("/v1/dead-letters").json["dead_letters"][0]["id"], world.dead)
        again = other.create(target=world.target.url("/good"), key="later", delay_ms=3600000)
        self.assertEqual(again.json["id"], world.later)  # I3
        # I5: nobody knows what became of the one under way; it counts, and is sent again.
        taken_back = other.settled(world.running)
        self.assertEqual(taken_back["state"], "succeeded")
        self.assertEqual(taken_back["attempts"], 2)
        self.assertIn("interrupted", json.dumps(other.get(f"/v1/tasks/{world.running}").json))

    def what_goes_round_comes_back_the_same(self):
        world = World(self)
        world.go_on.set()
        world.server.settled(world.running)
        self.assertEqual(world.server.stop(), 0)
        first = exported(self, world.server.store)
        specs = [world.server.store, "json:b.json", "sqlite:c.db"]
        for source, to in zip(specs, specs[1:]):
            status, out, _err = run("export", "--store", source)
            self.assertEqual(status, 0)
            self.assertEqual(run("import", "--store", to, given=out.encode())[0], 0)
            self.assertEqual(exported(self, to), first)

    def a_store_in_use_is_not_imported_into(self):
        for store, word in (("sqlite", "is open already"), ("json", "is in use by process")):
            os.mkdir(store)
            server = Server(self, store, queues=[{"name": "q"}], folder=store).start()
            status, out, err = run("import", "--store", server.store, given=written(made_up(1)))
            self.assertEqual((status, out), (1, ""))
            self.assertIn(word, err)
            self.assertEqual(server.get("/v1/queues").status, 200)

    def a_torn_line_is_told_with_its_number_and_nothing_of_it_is_taken(self):
        whole = written(made_up(FEW))
        for cut in (1, 9, 100, 300):
            store = f"sqlite:torn-{cut}.db"
            torn = whole[:whole.rindex(b'{"kind": "end"}') - cut]
            count = len(torn.split(b"\n")) - 1  # whole lines
            status, _out, err = run("import", "--store", store, given=torn)
            self.assertEqual(status, 1)
            if cut == 1:  # all of the line but its end: a whole line
                self.assertIn("stdin has no end: the export was cut off", err)
                count += 1
            else:
                self.assertIn(f"stdin:{count + 1}: the line is cut short; nothing of it was taken", err)
            self.assertEqual(len(tasks_in(exported(self, store))), count - 2)
            self.assertEqual(run("import", "--store", store, given=whole)[0], 0)
            self.assertEqual(len(tasks_in(exported(self, store))), FEW)

    def an_import_that_is_killed_is_completed_by_the_next_and_nothing_is_there_twice(self):  # I8
        whole = written(made_up(MANY))
        for store in ("sqlite:killed.db", "json:killed.json"):
            with subprocess.Popen([BIN, "import", "--store", store], stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env=environment()) as started:
                started.stdin.write(whole[:len(whole) * 2 // 3])  # it has read nearly all of it
                started.stdin.flush()
                started.kill()
            status, out, err = run("import", "--store", store, "--json", given=whole)
            self.assertEqual(status, 0, err)
            counts = json.loads(out)
            self.assertGreater(counts["kept"]["tasks"], 0)
            self.assertEqual(counts["kept"]["tasks"] % 500, 0)  # whole batches
            self.assertEqual(counts["kept"]["tasks"] + counts["tasks"], MANY)
            found = [tuple(task["id"]) for task in tasks_in(exported(self, store))]
            self.assertEqual((len(found), len(set(found))), (MANY, MANY))
            status, out, _err = run("import", "--store", store, "--json", given=whole)
            self.assertEqual((status, json.loads(out)["tasks"]), (0, 0))

    def an_export_never_writes_over_a_file(self):
        self.assertEqual(run("import", "--store", "sqlite:a.db", given=written(made_up(FEW)))[0], 0)
        self.assertEqual(run("export", "--store", "sqlite:a.db", "--output", "a.ndjson")[0], 0)
        status, out, err = run("export", "--store", "sqlite:a.db", "--output", "a.ndjson")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("a.ndjson is there already", err)

    def a_part_is_exported(self):
        world = World(self)
        found = exported(self, world.server.store, "--state", "dead", "--state", "waiting")
        self.assertEqual({task["id"] for task in tasks_in(found)}, {world.dead, world.later})
        found = exported(self, world.server.store, "--after", world.dead)
        self.assertEqual([task["id"] for task in tasks_in(found)], [world.later, world.running])
        status, _out, err = run("export", "--store", world.server.store, "--queue", "none")
        self.assertEqual((status, err), (1, 'daruma export: there is no queue "none"\n'))

    def an_export_goes_on_behind_the_last_whole_line(self):
        world = World(self)
        store = world.server.store
        self.assertEqual(run("export", "--store", store, "--output", "a.ndjson")[0], 0)
        with open("a.ndjson", "rb") as file:
            text = file.read()
        cut = text.index(world.later.encode()) + 5  # within the third task
        os.truncate("a.ndjson", cut)
        status, _out, err = run("export", "--store", store, "--output", "a.ndjson",
                                "--after", world.dead)
        self.assertEqual(status, 0, err)
        self.assertEqual([task["id"] for task in tasks_in(lines_of("a.ndjson"))],
                         [world.done, world.dead, world.later, world.running])
        self.assertEqual(run("import", "--store", "sqlite:b.db", "--input", "a.ndjson")[0], 0)

    def what_cannot_be_understood_is_refused_before_anything_is_touched(self):
        for arguments, word in ((("export",), "--store is missing"),
                                (("import",), "--store is missing"),
                                (("export", "--store", "memory"), "sqlite:PATH"),
                                (("export", "--store", "sqlite:"), "sqlite:PATH"),
                                (("export", "--store", "sqlite:x", "--state", "lost"), "--state")):
            status, out, err = run(*arguments)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(word, err)
        status, _out, err = run("export", "--store", "sqlite:none.db")
        self.assertEqual(status, 1)
        self.assertIn("none.db: cannot open", err)
        status, _out, err = run("import", "--store", "sqlite:new.db", "--input", "none.ndjson")
        self.assertEqual(status, 1)
        self.assertIn("none.ndjson: cannot open", err)
        self.assertEqual([name for name in os.listdir(".") if "db" in name], [])


if __name__ == "__main__":
    runner.main()
