# SPDX-License-Identifier: MIT
"""`daruma export` and `daruma import` on the real program: from a store in use to another, with what
is under way, cut off anywhere, and into a server that goes on with it.
"""
import json
import os
import subprocess
import threading
import unittest

import postgres
import runner
from program import BIN
from server import Server
from target import Target, answer, hold, read_then_reset
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


def new_database():
    return postgres.shared().url(postgres.shared().new())


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

    def _move(self, world, to):
        """What a person does: exports beside the server, stops it, imports."""
        self.assertEqual(run("export", "--store", world.server.store, "--output", "x.ndjson")[0], 0)
        world.server.kill()
        world.go_on.set()
        os.makedirs("moved/var")
        moved = Server(self, to, queues=[{"name": "q"}], folder="moved")
        status, out, err = run("import", "--store", moved.store, "--input", "x.ndjson", "--json")
        self.assertEqual(status, 0, err)
        self.assertEqual(json.loads(out)["conflicts"], 0)
        return moved.start()

    def _lived_in(self, store):
        """With more in it: a task in doubt, a cancelled one, a dead letter that was sent again."""
        world = World(self, store)
        server, target = world.server, world.target
        cut = target.script("/cut", read_then_reset)
        world.unsure = server.add(target=cut, key="unsure", repeatable=False)
        world.cancelled = server.add(target=cut, delay_ms=3600000)
        world.mended = server.add(target=target.script("/mend", answer(500), answer(200)),
                                  key="mended", retry=ONCE)
        self.assertEqual(server.settled(world.unsure)["state"], "unsettled")
        self.assertEqual(server.post(f"/v1/tasks/{world.cancelled}:cancel").status, 200)
        server.settled(world.mended)
        self.assertEqual(server.post(f"/v1/dead-letters/{world.mended}:redrive", {}).status, 202)
        self.assertEqual(server.settled(world.mended)["state"], "succeeded")
        return world

    def _moves(self, store, to):
        world = self._lived_in(store)
        server = world.server
        known = [world.done, world.dead, world.later, world.unsure, world.cancelled, world.mended]
        before = {identity: server.task(identity) for identity in known}
        lists = ("/v1/audit", "/v1/dead-letters", "/v1/unsettled")
        listed = [server.get(path).json for path in lists]
        moved = self._move(world, to)
        for identity in known:  # with its state, attempts, trail and answer
            self.assertEqual(moved.task(identity), before[identity])
        self.assertEqual([moved.get(path).json for path in lists], listed)
        self.assertTrue(all(len(next(iter(one.values()))) > 0 for one in listed), listed)
        taken_back = moved.settled(world.running)
        self.assertEqual((taken_back["state"], taken_back["attempts"]), ("succeeded", 2))
        for key, identity in (("done", world.done), ("unsure", world.unsure)):  # I3
            got = moved.create(target="http://elsewhere.invalid/", key=key)
            self.assertEqual((got.status, got.code), (409, "key_conflict"), key)
        new = moved.settled(moved.add(target=world.target.url("/good")))
        self.assertGreater(new["id"], max(known))

    def an_installation_that_runs_moves_from_sqlite_to_postgres(self):
        self._moves("sqlite", "postgres")

    def an_installation_that_runs_moves_from_postgres_to_sqlite(self):
        self._moves("postgres", "sqlite")

    def what_goes_through_postgres_comes_back_the_same(self):
        world = self._lived_in("sqlite")
        world.go_on.set()
        world.server.settled(world.running)
        self.assertEqual(world.server.stop(), 0)
        first = exported(self, world.server.store)
        specs = [world.server.store, new_database(), "sqlite:back.db"]
        for source, to in zip(specs, specs[1:]):
            status, out, _err = run("export", "--store", source)
            self.assertEqual(status, 0)
            self.assertEqual(run("import", "--store", to, given=out.encode())[0], 0)
            self.assertEqual(exported(self, to), first)

    def who_exports_or_imports_is_no_node(self):
        target, database = Target(), postgres.shared().new()
        url = postgres.shared().url(database)
        server = Server(self, url, [{"name": "q"}], keep={"succeeded": "5d"}).start()
        server.settled(server.add(target=target.script("/in", answer(200))))

        def looked():
            return postgres.shared().sql(
                "SELECT (SELECT count(*) FROM daruma.node), (SELECT value FROM daruma.meta"
                " WHERE name = 'keep_succeeded')", database)
        before = looked()
        self.assertEqual(before, [["1", str(5 * 86400 * 1000)]])
        self.assertEqual(len(tasks_in(exported(self, url))), 1)
        lines = list(made_up(3))
        for line in lines[2:-1]:  # beside a server: it does them; one of them ran elsewhere
            line.update(target=target.url("/in"), due_at="2026-01-15T08:00:00.000Z")
        lines[2].update(state="running", attempts=1, attempts_all=1, fence=1)
        status, _out, err = run("import", "--store", url, given=written(lines))
        self.assertEqual(status, 0, err)
        self.assertEqual(looked(), before)
        target.wait_for(4)
        self.assertEqual(sorted(one.attempt for one in target.seen()), [1, 1, 1, 2])

    def a_database_of_another_version_is_not_exported_and_left_alone(self):
        database = postgres.shared().new()
        url = postgres.shared().url(database)
        status, _out, err = run("export", "--store", url)
        self.assertEqual(status, 1)
        self.assertIn("there are no tasks of daruma", err)
        self.assertEqual(postgres.shared().sql("SELECT count(*) FROM pg_namespace WHERE nspname ="
                                               " 'daruma'", database), [["0"]])

    def a_store_in_use_is_not_imported_into(self):
        for store, word in (("sqlite", "is open already"), ("json", "is in use by process")):
            os.mkdir(store)
            server = Server(self, store, queues=[{"name": "q"}], folder=store).start()
            status, out, err = run("import", "--store", server.store, given=written(made_up(1)))
            self.assertEqual((status, out), (1, ""))
            self.assertIn(word, err)
            self.assertEqual(server.get("/v1/queues").status, 200)

    def a_store_in_use_is_in_use_by_every_name(self):
        for store, word in (("sqlite", "is open already"), ("json", "is in use by process")):
            os.mkdir(store)
            server = Server(self, store, queues=[{"name": "q"}], folder=store).start()
            path = server.store.split(":", 1)[1]
            os.symlink(os.path.abspath(path), f"{store}/first.link")
            os.symlink("first.link", f"{store}/second.link")
            link = f"{store}:{store}/second.link"
            config = {"store": link, "api": {"listen": "127.0.0.1:1"}}
            with open(f"{store}/second.yaml", "w", encoding="utf-8") as file:
                json.dump(config, file)
            for args in (["serve", "-c", f"{store}/second.yaml"], ["import", "--store", link],
                         ["compact", "--store", link]):
                if (store, args[0]) == ("json", "compact"):
                    continue  # has nothing to gain by it
                status, _out, err = run(*args, given=written(made_up(1)))
                self.assertEqual(status, 1, args)
                self.assertIn(word, err)
            self.assertEqual(len(tasks_in(exported(self, link))), 0)
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
        for store in ("sqlite:killed.db", "json:killed.json", new_database()):
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
    postgres.shared()
    runner.main()
