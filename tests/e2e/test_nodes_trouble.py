# SPDX-License-Identifier: MIT
"""What goes wrong around nodes that do nothing wrong themselves: clocks that are set apart, a person
with a lock, a role with settings of its own, a server without room. Nothing is lost, nothing happens
twice, and they go on by themselves. I1, I2, I6, I7, I9.
"""
import ctypes
import os
import re
import signal
import threading
import time
import unittest

import postgres
import runner
from gateway import Gateway, route
from polling import until
from server import Server
from target import Target, answer
from test_nodes import POLICY

LOCKED_SECONDS = float(os.environ.get("DARUMA_LOCKED_SECONDS", "4"))
CALLERS = 4


class Trouble(unittest.TestCase):
    def _begin(self, count, server=None, lease="2s", settings=()):
        self.target = Target()
        self.postgres = server or postgres.shared()
        self.database = self.postgres.new()
        for setting in settings:
            self.postgres.sql(f"ALTER DATABASE {self.database} SET {setting}")
        self.nodes = []
        for number in range(count):
            os.mkdir(f"node-{number}")
            self.nodes.append(Server(self, self.postgres.url(self.database),
                                     [{"name": "q", "policy": "short"}], folder=f"node-{number}",
                                     policies=[POLICY], limits={"node_lease": lease}))
        return self.nodes

    def _start(self):
        for node in self.nodes:
            node.start()
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE beat > 4")
              == [[str(len(self.nodes))]])

    def _sql(self, text):
        return self.postgres.sql(text, self.database)

    def _load(self, url):
        """Callers that go on until they are told; what they have been promised."""
        over, promised = threading.Event(), []

        def call(number):
            count = 0
            while not over.is_set():
                count += 1
                got = self.nodes[number % len(self.nodes)].create(target=url,
                                                                  key=f"{number}-{count}")
                if got.status in (200, 201):
                    promised.append(got.json["id"])
                else:
                    self.refused.append((got.status, got.code))
                    time.sleep(0.02)
        self.refused = []
        threads = [threading.Thread(target=call, args=(number,), daemon=True)
                   for number in range(CALLERS)]
        for thread in threads:
            thread.start()

        def end():
            over.set()
            for thread in threads:
                thread.join()
            return promised
        return end, promised

    def _shut_commits(self):
        """From now on whoever begins a task stops in the middle of its commit."""
        self._sql("CREATE TABLE public.gate AS SELECT true AS shut")
        self._sql("CREATE FUNCTION public.wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                  " WHILE (SELECT shut FROM public.gate) LOOP PERFORM pg_sleep(0.02); END LOOP;"
                  " RETURN NULL; END $$;"
                  " CREATE CONSTRAINT TRIGGER gate AFTER INSERT OR UPDATE ON daruma.life"
                  " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 1)"
                  " EXECUTE FUNCTION public.wait_at_gate()")

    def _account(self, promised):
        for identity in promised:
            self.assertEqual(self.nodes[0].settled(identity)["state"], "succeeded")
        seen = [one.task for one in self.target.seen()]
        self.assertLessEqual(set(promised), set(seen))
        for one in {(one.task, one.attempt) for one in self.target.seen()}:
            self.assertEqual([(each.task, each.attempt) for each in self.target.seen()].count(one), 1)

    def a_node_that_stands_still_inside_a_commit_is_fenced(self):  # I2, engineering 1.9
        first, second = self._begin(2)
        self._start()
        url = self.target.script("/sync", answer(200))
        self._shut_commits()
        answers = []
        caller = threading.Thread(target=lambda: answers.append(first.create(target=url)))
        caller.start()
        until(lambda: self._sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
                                " AND query LIKE 'COMMIT%'") != [["0"]])
        first.signal(signal.SIGSTOP)
        try:
            time.sleep(3)  # its lease is over, and its batch is still being committed
            self.assertEqual(self._sql("SELECT count(*) FROM daruma.node"), [["2"]])
            self._sql("UPDATE public.gate SET shut = false")
            until(lambda: self._sql("SELECT count(*) FROM daruma.node") == [["1"]])
            identity, = self._sql("SELECT daruma.uuid_of(id, tail) FROM daruma.life")[0]
            self.assertEqual(second.settled(identity)["state"], "succeeded")
        finally:
            first.signal(signal.SIGCONT)
        caller.join()
        self.assertEqual((answers[0].status, answers[0].json["id"]), (201, identity))
        until(lambda: first.get("/readyz").status == 200)
        later = first.add(target=url)
        self.assertEqual(first.settled(later)["state"], "succeeded")
        self.assertEqual([one.task for one in self.target.seen()], [identity, later])

    def _lose_answer_of_commit(self, server, database, send):
        """A request whose commit is on the server's disk when the server goes away, and stays away for
        longer than any caller waits: what the caller was told."""
        answers = []
        server.sql("ALTER SYSTEM SET synchronous_standby_names = 'none_such'")
        server.sql("SELECT pg_reload_conf()")
        until(lambda: server.sql("SHOW synchronous_standby_names") == [["none_such"]])
        caller = threading.Thread(target=lambda: answers.append(send()))
        caller.start()
        # Nodes commit other things as well: it is the one that has written a life.
        until(lambda: server.sql(
            "SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE wait_event ="
            " 'SyncRep' AND relation = 'daruma.life'::regclass AND mode = 'RowExclusiveLock'",
            database) != [["0"]])
        server.sql("ALTER SYSTEM SET synchronous_standby_names = ''")
        server.stop(signal.SIGQUIT)
        caller.join()
        server.start()
        return answers[0]

    def a_record_that_is_found_after_an_outage_is_carried_out(self):  # I1, I7, I8
        """The caller is told that it is not known, never that it was refused; the task is not left
        without a node that works on it."""
        server = postgres.Postgres().create().start()
        self.addCleanup(server.close)
        self.target = Target()
        url = self.target.script("/task", answer(200))
        self.target.script("/v1/orders", answer(201, {}, b"paid"))
        database = server.new()
        node = Gateway(self, [route(self.target, name="pay")], server.url(database),
                       queues=[{"name": "q"}], limits={"node_lease": "2s"}).start()
        sends = {"/task": lambda: node.create(target=url, key="k", repeatable=False),
                 "/v1/orders": lambda: node.send(key="k")}
        for path, send in sends.items():
            until(lambda: node.get("/readyz").status == 200)
            got = self._lose_answer_of_commit(server, database, send)
            self.assertEqual((got.status, got.code), (503, "store_unknown"))
            until(lambda: node.get("/readyz").status == 200)
            began = time.monotonic()
            self.target.wait_for(1, path)
            self.assertLess(time.monotonic() - began, 10)
            again = until(lambda: (lambda got: got if got.status in (200, 201) else None)(send()))
            if path == "/task":
                self.assertEqual(node.settled(again.json["id"])["state"], "succeeded")
            else:
                self.assertEqual((again.status, again.body), (201, b"paid"))
            self.assertEqual(len(self.target.seen(path)), 1)

    def clocks_that_are_set_apart_do_not_matter(self):  # I6
        self._begin(3)
        for node, ahead in zip(self.nodes, ("+0", "+3600s", "-3600s")):
            node.environment = {**postgres.ahead(ahead),
                                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
                                + ":verify_asan_link_order=0"}
        self._start()
        url = self.target.script("/in", answer(200))
        for node in self.nodes:
            began, wall = time.monotonic(), time.time()
            late = node.add(target=url, delay_ms=1500)
            soon = node.add(target=url)
            lost = node.add(target=url, delay_ms=60000, deadline_ms=1000)
            self.assertEqual(node.settled(soon)["state"], "succeeded")
            self.assertLess(time.monotonic() - began, 1.4)
            self.assertEqual(node.settled(late)["state"], "succeeded")
            self.assertGreater(time.monotonic() - began, 1.49)
            self.assertLess(time.monotonic() - began, 10)
            self.assertEqual(node.settled(lost)["error"]["class"], "expired")
            made = int(late[:8] + late[9:13], 16) / 1000  # ids are of the server's time too
            self.assertLess(abs(made - wall), 5)
        self.assertEqual(len(self.target.seen()), 6)

    def a_person_who_locks_a_table_stops_them_only_for_as_long(self):  # I9
        self._begin(2)
        self._start()
        end, promised = self._load(self.target.script("/in", answer(200)))
        until(lambda: len(promised) > 50)
        person = postgres.Session(self.postgres, self.database)
        person.run("BEGIN")
        person.run("LOCK TABLE daruma.life")
        time.sleep(LOCKED_SECONDS)
        before = len(promised)
        person.run("COMMIT")
        person.close()
        until(lambda: len(promised) > before + 50)
        self._account(end())
        self.assertLessEqual({status for status, _code in self.refused}, {503}, self.refused)

    def what_a_database_has_set_is_set_back(self):
        self._begin(2, settings=("statement_timeout = '40ms'", "lock_timeout = '1ms'",
                                 "default_transaction_isolation = 'serializable'",
                                 "idle_in_transaction_session_timeout = '10ms'"))
        self._start()
        end, promised = self._load(self.target.script("/in", answer(200)))
        until(lambda: len(promised) > 200)
        self._account(end())
        self.assertEqual(self.refused, [])

    def a_commit_that_is_not_synchronous_is_made_so(self):  # I1
        server = postgres.Postgres(wal_writer_delay="10s").create().start()
        self.addCleanup(server.close)
        node, = self._begin(1, server, settings=("synchronous_commit = off",))
        node.start()
        made = [node.add(target=self.target.url(), delay_ms=3600000) for _ in range(20)]
        server.crash()
        until(lambda: node.get("/readyz").status == 200)
        for identity in made:
            self.assertEqual(until(lambda: node.get(f"/v1/tasks/{identity}")).status, 200)

    def a_server_without_room_refuses_and_goes_on_when_there_is_some(self):  # I7, I9
        self._begin(1)
        self._start()
        url = self.target.script("/in", answer(200))
        self._sql("CREATE FUNCTION public.no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                  " RAISE EXCEPTION 'could not extend file: No space left on device'"
                  " USING ERRCODE = '53100'; END $$")
        self._sql("CREATE TRIGGER no_room BEFORE INSERT ON daruma.life EXECUTE FUNCTION"
                  " public.no_room()")
        got = self.nodes[0].create(target=url, key="k")
        self.assertEqual((got.status, got.code), (503, "overloaded"), got)
        self._sql("DROP TRIGGER no_room ON daruma.life")
        identity = until(lambda: (lambda got: got.status == 201 and got.json["id"])(
            self.nodes[0].create(target=url, key="k")))
        self.assertEqual(self.nodes[0].settled(identity)["attempts"], 1)

    def a_process_that_cannot_name_itself_says_so(self):
        """Nothing tells one process of such a machine from the next one: here its host has a name that
        is no word, under a unit with ProcSubset=pid there is no boot id."""
        clone_newuts, clone_newuser = 0x4000000, 0x10000000
        libc = ctypes.CDLL(None, use_errno=True)
        wanted = clone_newuts if os.geteuid() == 0 else clone_newuts | clone_newuser
        self.assertEqual(libc.unshare(wanted), 0, os.strerror(ctypes.get_errno()))  # before any thread
        node, = self._begin(1)
        node.start()
        self.assertNotIn("node_unnamed", node.said())
        node.stop()
        self.assertEqual(libc.sethostname(b"two words", 9), 0, os.strerror(ctypes.get_errno()))
        node.start()
        said = node.wait_line("node_unnamed")
        self.assertEqual(said.fields["recovered_after_ms"], "2000")
        self.assertIn('missing="a host name without spaces', said.text)
        self.assertEqual(self._sql("SELECT process FROM daruma.node"), [[""]])

    def a_database_is_not_measured_at_each_look(self):
        node, = self._begin(1)
        node.start()

        def measured():
            node.get("/v1/queues")  # counts the tasks anew
            return re.search(r"^daruma_store_bytes (\d+)$", node.get("/metrics").body.decode(), re.M).group(1)
        before = measured()
        self.assertGreater(int(before), 0)
        self._sql("CREATE TABLE daruma.more AS SELECT g, repeat('x', 500) AS t"
                  " FROM generate_series(1, 10000) g")
        self.assertEqual({measured() for _ in range(20)}, {before})


if __name__ == "__main__":
    postgres.shared()
    runner.main()
