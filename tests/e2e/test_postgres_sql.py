# SPDX-License-Identifier: MIT
"""What programs that have the database open anyway may do and see with SQL: enqueue inside their own
transaction, keep idempotency records there, look at keys and dead letters.
"""
import re
import threading
import time
import unittest

import postgres
import runner
from polling import until
from server import Server
from target import Target, answer
from test_cli_client import run
from test_left_behind import check

POLICY = {"name": "short", "max_attempts": 2, "transient": {"backoff": "fixed", "base": "10ms"}}
WAIT_SECONDS = 20


class Sql(unittest.TestCase):
    def _begin(self, *queues, **more):
        self.target = Target()
        self.postgres = postgres.shared()
        self.database = self.postgres.new()
        self.server = Server(self, self.postgres.url(self.database), queues or [{"name": "q"}],
                             policies=[POLICY], **more).start()

    def _sql(self, text):
        return self.postgres.sql(text, self.database)

    def _enqueue(self, arguments):
        return self._sql(f"SELECT daruma.enqueue({arguments})")[0][0]

    def what_is_enqueued_in_a_transaction_goes_out_when_it_commits(self):
        self._begin()
        url = self.target.script("/sync", answer(200, {"Content-Type": "text/plain"}, b"done"))
        self._sql("CREATE TABLE orders (id int)")
        got = self._sql("BEGIN; INSERT INTO orders VALUES (1);"
                        f" SELECT daruma.enqueue('q', '{url}', '{{\"order\": 1}}'); COMMIT")
        task = self.server.settled(got[-1][0])
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 1))
        seen = self.target.seen()[0]
        self.assertEqual((seen.method, seen.body, seen.headers["content-type"]),
                         ("POST", b'{"order": 1}', "application/json"))

    def what_is_rolled_back_never_was(self):
        self._begin()
        url = self.target.script("/sync", answer(200))
        self._sql(f"BEGIN; SELECT daruma.enqueue('q', '{url}', '1', 'gone'); ROLLBACK")
        identity = self._enqueue(f"'q', '{url}', '2', 'kept'")
        self.server.settled(identity)
        self.assertEqual([one.body for one in self.target.seen()], [b"2"])
        self.assertEqual(self._sql("SELECT count(*) FROM daruma.task"), [["1"]])

    def nothing_is_enqueued_in_the_servers_own_queues(self):
        self._begin()
        url = self.target.script("/told", answer(200))
        for queue in ("_callbacks", "_none"):
            with self.assertRaisesRegex(Exception, "there is no queue " + queue):
                self._enqueue(f"'{queue}', '{url}', '{{}}', 'cb:1:0'")
        self.assertEqual(self._sql("SELECT count(*) FROM daruma.task"), [["0"]])

    def a_key_means_the_same_through_every_door(self):  # I3
        self._begin()
        url = self.target.script("/sync", answer(200))
        identity = self._enqueue(f"'q', '{url}', '{{\"a\": 1}}', 'one'")
        self.assertEqual(self._enqueue(f"'q', '{url}', '{{\"a\": 1}}', 'one'"), identity)
        got = self.server.create("q", target=url, key="one", body='{"a": 1}',
                                 headers={"Content-Type": "application/json"})
        self.assertEqual((got.status, got.json["id"]), (200, identity))
        other = self.server.create("q", target=url, key="one", body='{"a": 2}')
        self.assertEqual((other.status, other.code), (409, "key_conflict"))
        with self.assertRaisesRegex(AssertionError, "belongs to another request"):
            self._enqueue(f"'q', '{url}', 'else', 'one'")
        made = self.server.add("q", target=url, key="two", body="x",
                               headers={"Content-Type": "text/plain"})
        self.assertEqual(
            self._enqueue(f"'q', '{url}', 'x', 'two', content_type => 'text/plain'"), made)

    def an_export_changes_nothing_and_an_import_no_times(self):  # I3
        self._begin()
        url = self.target.script("/sync", answer(200))
        identity = self._enqueue(f"'q', '{url}', '1', 'one'")
        self.server.settled(identity)
        look = "SELECT name, value FROM daruma.meta UNION SELECT 'node', epoch FROM daruma.node" \
               " UNION SELECT 'epoch', last_value FROM daruma.epoch" \
               " ORDER BY 1"
        before = self._sql(look)
        status, out, err = run("export", "--store", self.server.store)
        self.assertEqual((status, self._sql(look)), (0, before), err)
        status, _out, err = run("import", "--store", self.server.store, given=out.encode())
        self.assertEqual(status, 0, err)
        self.assertEqual(self._enqueue(f"'q', '{url}', '1', 'one'"), identity)

    def a_replica_can_be_exported(self):
        primary = postgres.Postgres().create().start()
        self.addCleanup(primary.close)
        replica = postgres.Postgres(hot_standby="on")
        self.addCleanup(replica.close)
        replica.run("pg_basebackup", "-h", primary.folder, "-U", "daruma", "-D", replica.data, "-R")
        replica.start()
        database = primary.new()
        server = Server(self, primary.url(database), [{"name": "q"}]).start()
        identity = server.add(body="x")
        end = primary.sql("SELECT pg_current_wal_lsn()")[0][0]
        until = time.monotonic() + WAIT_SECONDS
        while replica.sql(f"SELECT pg_last_wal_replay_lsn() >= '{end}'") != [["t"]]:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)  # a replica tells nobody how far it is
        status, out, err = run("export", "--store",
                               replica.url(database) + "&target_session_attrs=any")
        self.assertEqual(status, 0, err)
        self.assertIn(identity, out)

    def a_database_without_tasks_is_not_exported_and_stays_empty(self):
        server = postgres.shared()
        database = server.new()
        status, out, err = run("export", "--store", server.url(database))
        self.assertEqual((status, out), (1, ""))
        self.assertIn("there are no tasks of daruma in the database", err)
        self.assertEqual(server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'daruma'",
                                    database), [["0"]])

    def what_cannot_be_kept_is_refused_with_a_reason(self):
        self._begin()
        for arguments, reason in (("'none', 'http://x/', ''", "there is no queue none"),
                                  ("'q', 'ftp://x/', ''", "no http URL"),
                                  ("'q', 'http://x/', '', E'a b'", "visible ASCII"),
                                  ("'q', 'http://x/', '', headers => '{\"a\": \"b\\nc\"}'",
                                   "cannot be kept"),
                                  ("'q', 'http://x/', '', content_type => E'a\\nX-B: c'",
                                   "content_type has a value that cannot be kept")):
            with self.assertRaisesRegex(AssertionError, reason):
                self._enqueue(arguments)

    def what_is_longer_than_the_api_takes_is_refused_by_its_name(self):
        self._begin()
        enqueue = "'q', 'http://x/{}', '', {}".format
        many = "(SELECT jsonb_object_agg('a' || i, 'b') FROM generate_series(1, {}) AS i)".format
        long = "jsonb_build_object('a', repeat('b', {}))".format
        for arguments, reason in ((enqueue("' || repeat('a', 4088) || '", "headers => NULL"),
                                   "target has 4097 bytes, the limit is 4096"),
                                  (enqueue("", "method => repeat('A', 21)"), "method has 21 bytes"),
                                  (enqueue("", "content_type => repeat('a', 16385)"), "content_type has"),
                                  (enqueue("", "headers => " + many(65)), "more than 64 headers"),
                                  (enqueue("", "headers => " + long(16381)), "headers has 16385 bytes"),
                                  (enqueue("", "headers => " + long(20 << 20)), "headers has"),
                                  (enqueue("", "labels => " + many(17)), "more than 16 labels"),
                                  (enqueue("", "labels => " + long(256)), "labels.a has 256 bytes")):
            with self.assertRaisesRegex(AssertionError, reason):
                self._enqueue(arguments)
        for arguments in (enqueue("", "headers => " + many(64)), enqueue("", "headers => " + long(16380)),
                          enqueue("", "labels => " + many(16)), enqueue("", "labels => " + long(255))):
            self._enqueue(arguments)

    def what_a_claim_keeps_is_bounded_too(self):
        self._begin()
        claim = "SELECT state FROM daruma.claim_key({}, {}, 'h')".format
        complete = "SELECT daruma.complete_key('/v1', 'k', 200, {}, '')".format
        long = "repeat('a', {})".format
        self._sql(claim(long(65536), long(65536)))
        self._sql(claim("'/v1'", "'k'"))
        for text, reason in ((claim(long(65537), "'k'"), "endpoint has 65537 bytes, the limit is 65536"),
                             (claim("'/v1'", long(65537)), "key has 65537 bytes"),
                             (complete(long(16385)), "response_content_type has 16385 bytes"),
                             (complete("E'a\\nX-B: c'"), "response_content_type has a value that cannot")):
            with self.assertRaisesRegex(AssertionError, reason):
                self._sql(text)
        self.assertEqual(self._sql(complete("'text/plain'")), [["t"]])

    def a_task_without_a_target_takes_the_queues(self):
        self._begin({"name": "q", "targets": [{"name": "t", "url": "http://127.0.0.1:1/"}]}, {"name": "pulled"})
        url = self.target.script("/own", answer(200))
        self.server.configure(queues=[{"name": "q", "targets": [{"name": "t", "url": url}]},
                                      {"name": "pulled"}], policies=[POLICY])
        self.server.restart()
        self.server.settled(self._enqueue("'q', NULL, 'x'"))
        self.assertEqual(self.target.seen()[0].path, "/own")
        identity = self._enqueue("'pulled', NULL, 'for a worker'")
        got = self.server.post("/v1/queues/pulled/leases", {"max": 1, "wait_ms": 10000})
        self.assertEqual([one["task"]["id"] for one in got.json["leases"]], [identity])

    def a_task_of_a_queue_with_targets_leaves_it_to_them_what_may_be_repeated(self):  # I5
        self._begin({"name": "q", "targets": [{"name": "t", "url": "http://127.0.0.1:1/"}]},
                    {"name": "pulled"})
        self.server.post("/v1/queues/q:pause")
        leaves_it, once, pulls = 4096, 16, 32
        for arguments, flags in (("'q', NULL, 'x'", leaves_it), ("'q', 'http://a/', 'x'", 0),
                                 ("'q', NULL, 'x', repeatable => false", once),
                                 ("'q', NULL, 'x', repeatable => true", 0),
                                 ("'pulled', NULL, 'x'", pulls)):
            identity = self._enqueue(arguments)
            self.assertEqual(self._sql("SELECT flags FROM daruma.life WHERE id ="
                                       f" daruma.row_of('{identity}')"), [[str(flags)]], arguments)

    def a_due_time_is_kept(self):
        self._begin()
        url = self.target.script("/sync", answer(200))
        self.server.settled(self._enqueue(
            f"'q', '{url}', '', due_at => clock_timestamp() + interval '700 ms'"))
        task = self.server.get("/v1/queues/q/tasks").json["tasks"][0]
        self.assertEqual(task["state"], "succeeded")
        lateness = self._sql("SELECT ended_at - due_at FROM daruma.answer JOIN daruma.life"
                             " USING (id)")[0][0]
        self.assertGreaterEqual(int(lateness), 0)

    def _claim(self, key="k", request="h1", run=None, **more):
        """What the claim came to, and its attempt."""
        given = "".join(f", {name} => '{value}'" for name, value in more.items())
        text = f"SELECT state, attempt FROM daruma.claim_key('/v1', '{key}', '{request}'{given})"
        if run is not None:
            return run(text)[-1].split("|")
        return self._sql(text)[0]

    def _complete(self, body, attempt="NULL", key="k"):
        return self._sql(f"SELECT daruma.complete_key('/v1', '{key}', 201, 'text/plain', '{body}',"
                         f" {attempt})")[0][0]

    def _until_waiting(self, count):
        """Until so many claims wait for another session."""
        until(lambda: self._sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                                " AND datname = current_database() AND query LIKE '%claim_key%'")
              == [[str(count)]])

    def an_api_keeps_its_own_idempotency_record(self):  # A2.1-A2.4
        self._begin()
        claim = "SELECT * FROM daruma.claim_key('/v1/bookmarks', 'k', '{}', '1 hour')"
        got, = self._sql(claim.format("h1"))
        self.assertEqual(got[:4], ["new", "", "", ""])
        self.assertGreater(int(got[4]), 0)
        self.assertEqual(self._sql(claim.format("h1")), [["in_progress", "", "", "", ""]])
        self.assertEqual(self._sql(claim.format("h2")), [["conflict", "", "", "", ""]])
        row = "SELECT state, response_status, endpoint FROM daruma.idempotency_keys"
        self.assertEqual(self._sql(row), [["in_progress", "", "/v1/bookmarks"]])
        done = ("SELECT daruma.complete_key('/v1/bookmarks', 'k', 201, 'application/json',"
                " '{\"id\": 7}', %s)" % got[4])
        self.assertEqual(self._sql(done), [["t"]])
        self.assertEqual(self._sql(done), [["f"]])
        self.assertEqual(self._sql(claim.format("h1")),
                         [["completed", "201", "application/json", '{"id": 7}', ""]])
        self.assertEqual(self._sql(claim.format("h2")), [["conflict", "", "", "", ""]])

    def the_queue_of_these_keys_is_not_for_operators(self):
        """It is no queue that a configuration has left behind: a purge of it would free the keys."""
        self._begin()
        attempt = self._claim()[1]
        self.assertEqual(self._complete("paid", attempt), "t")
        self._claim(key="open")
        self.server.restart()
        self.assertEqual([queue["name"] for queue in self.server.get("/v1/queues").json["queues"]], ["q"])
        self.assertNotIn("_keys", self.server.get("/metrics").body.decode())
        self.assertNotIn("queue_missing", self.server.said())
        status, said = check(self.server)
        self.assertEqual((status, "_keys" in said), (0, False), said)
        self.assertEqual(self.server.post("/v1/queues/_keys:purge").status, 404)
        self.assertEqual(self._claim()[0], "completed")

    def a_key_that_is_kept_no_longer_is_free_for_another_request(self):
        self._begin()
        first = self._claim()[1]
        self.assertEqual(self._complete("one", first), "t")
        was = self._sql("SELECT id FROM daruma.key")
        self._sql("UPDATE daruma.life SET keep_until = 1")
        state, second = self._claim(request="h2")
        self.assertEqual(state, "new")
        self.assertGreater(int(second), int(first))
        self.assertEqual(self._complete("late", first), "f")
        self.assertEqual(self._complete("two", second), "t")
        self.assertEqual(self._sql("SELECT state, response_body FROM daruma.claim_key("
                                   "'/v1', 'k', 'h2')"), [["completed", "two"]])
        # A janitor that has seen the first as over means the first, and not what is kept now.
        self.assertNotEqual(self._sql("SELECT id FROM daruma.key"), was)

    def a_key_does_not_change_its_request_before_it_is_answered(self):  # I3
        self._begin()
        first = self._claim(lease="0 s")[1]
        self.assertEqual(self._claim(request="h2"), ["conflict", ""])
        self.assertEqual(self._complete("one", first), "t")  # late, and nobody else has it
        self.assertEqual(self._claim(request="h2"), ["conflict", ""])

    def a_claim_that_nobody_has_ended_is_forgotten_when_its_keep_is_over(self):
        self._begin()
        first = self._claim(lease="0 s", keep="0 s")[1]
        state, second = self._claim(request="h2")
        self.assertEqual(state, "new")
        self.assertEqual(self._complete("one", first), "f")
        self.assertEqual(self._complete("two", second), "t")
        self.assertEqual(self._sql("SELECT state FROM daruma.life ORDER BY id"), [["6"], ["2"]])

    def an_attempt_that_was_taken_over_completes_nothing(self):  # I2
        self._begin()
        first = self._claim(lease="0 s")[1]
        state, second = self._claim()
        self.assertEqual(state, "new")
        self.assertEqual(self._complete("from the first", first), "f")
        self.assertEqual(self._claim(), ["in_progress", ""])
        self.assertEqual(self._complete("from the second", second), "t")
        self.assertEqual(self._complete("again", second), "f")
        self.assertEqual(self._sql("SELECT response_body FROM daruma.idempotency_keys"),
                         [["from the second"]])

    def a_completion_without_an_attempt_is_for_claims_that_nobody_took_over(self):
        self._begin()
        self._claim()
        old = "SELECT daruma.complete_key('/v1', '%s', 200, 'text/plain', 'x')"
        self.assertEqual(self._sql(old % "k"), [["t"]])
        self.assertEqual(self._sql(old % "none"), [["f"]])
        self._claim("other", lease="0 s")
        self._claim("other")
        with self.assertRaisesRegex(AssertionError, "needs the attempt that claim_key gave"):
            self._sql(old % "other")
        self.assertEqual(self._claim("other"), ["in_progress", ""])

    def of_two_who_claim_while_the_key_is_purged_one_gets_it(self):  # I3
        self._begin()
        self.assertEqual(self._complete("x", self._claim()[1]), "t")
        self._sql("UPDATE daruma.life SET keep_until = 1")
        purge = postgres.Session(self.postgres, self.database)
        self.addCleanup(purge.close)
        # As the janitor does it, and no faster than this test wants it.
        purge.run("BEGIN; SELECT 1 FROM daruma.life FOR UPDATE")
        sessions = [postgres.Session(self.postgres, self.database) for _ in range(2)]
        results = [None, None]

        def claim(number):
            results[number] = self._claim(run=sessions[number].run)
        threads = [threading.Thread(target=claim, args=(number,)) for number in range(2)]
        for number, thread in enumerate(threads):
            self.addCleanup(sessions[number].close)
            thread.start()
        self._until_waiting(2)
        purge.run("DELETE FROM daruma.key; DELETE FROM daruma.life; COMMIT")
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(one[0] for one in results), ["in_progress", "new"])
        attempt = max(one[1] for one in results)
        self.assertEqual(self._complete("once", attempt), "t")

    def of_two_who_claim_a_key_that_is_kept_no_longer_one_gets_it(self):  # I3
        self._begin()
        self.assertEqual(self._complete("x", self._claim()[1]), "t")
        self._sql("UPDATE daruma.life SET keep_until = 1")
        first = postgres.Session(self.postgres, self.database)
        second = postgres.Session(self.postgres, self.database)
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        first.run("BEGIN")
        self.assertEqual(self._claim(run=first.run)[0], "new")
        results = []
        thread = threading.Thread(
            target=lambda: results.append(self._claim(request="h2", run=second.run)))
        thread.start()
        self._until_waiting(1)
        first.run("COMMIT")
        thread.join()
        self.assertEqual(results, [["conflict", ""]])

    def a_rolled_back_claim_leaves_the_key_free(self):
        self._begin()
        claim = "SELECT state FROM daruma.claim_key('/v1', 'k', 'h')"
        self._sql(f"BEGIN; {claim}; ROLLBACK")
        self.assertEqual(self._sql(claim), [["new"]])

    def a_claim_whose_holder_is_gone_can_be_taken_over(self):
        self._begin()
        self._sql("SELECT * FROM daruma.claim_key('/v1', 'k', 'h', lease => '0 s')")
        self.assertEqual(self._sql("SELECT state FROM daruma.claim_key('/v1', 'k', 'h')"), [["new"]])

    def keys_and_dead_letters_can_be_seen_with_sql(self):  # A2, A7
        self._begin({"name": "q", "policy": "short"})
        good = self.target.script("/good", answer(201, {"Content-Type": "text/plain"}, b"made"))
        bad = self.target.script("/bad", answer(500))
        self.server.settled(self.server.add("q", target=good, key="good", body="1"))
        letter = self.server.add("q", target=bad, body='{"n": 2}',
                                 labels={"bookmark_id": "b-2", "job_type": "extraction"})
        self.server.settled(letter)
        keys = self._sql("SELECT key, endpoint, length(request_hash), state, response_status,"
                         " response_content_type, response_body, completed_at >= created_at,"
                         " expires_at > completed_at FROM daruma.idempotency_keys")
        self.assertEqual(keys, [["good", "/good", "64", "succeeded", "201", "text/plain", "made",
                                 "t", "t"]])
        jobs = self._sql("SELECT id, bookmark_id, job_type, payload, retryable, failed_at <="
                         " clock_timestamp(), error_message <> '' FROM daruma.failed_jobs")
        self.assertEqual(jobs, [[letter, "b-2", "extraction", '{"n": 2}', "t", "t", "t"]])

    def an_application_needs_no_right_but_to_use_the_schema(self):
        self._begin()
        url = self.target.script("/sync", answer(200))
        role = "app_" + self.database
        self._sql(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA daruma TO {role}")
        got = self._sql(f"SET ROLE {role}; SELECT daruma.enqueue('q', '{url}', 'x')")
        self.server.settled(got[-1][0])
        with self.assertRaisesRegex(AssertionError, "permission denied"):
            self._sql(f"SET ROLE {role}; SELECT * FROM daruma.task")

    def a_key_held_by_an_open_transaction_delays_only_itself(self):  # engineering 5
        self._begin()
        url = self.target.script("/sync", answer(200))
        holder = postgres.Session(self.postgres, self.database)
        self.addCleanup(holder.close)
        holder.run(f"BEGIN; SELECT daruma.enqueue('q', '{url}', 'x', 'held')")
        began = time.monotonic()
        for number in range(20):
            self.server.add("q", target=url, key=f"free-{number}", body="x")
        self.assertLess(time.monotonic() - began, 10)
        got = self.server.create("q", target=url, key="held", body="x")
        self.assertEqual((got.status, got.code), (503, "key_in_progress"))
        self.assertEqual(self.server.get("/readyz").status, 200)
        holder.run("COMMIT")
        got = self.server.create("q", target=url, key="held", body="x",
                                 headers={"Content-Type": "application/json"})
        self.assertEqual(got.status, 200)

    def every_column_that_is_not_self_evident_is_documented(self):
        self._begin()
        known = {row[0] for row in self._sql(
            "SELECT c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid ="
            " a.attrelid JOIN pg_description d ON d.objoid = c.oid AND d.objsubid = a.attnum"
            " WHERE c.relnamespace = 'daruma'::regnamespace")}
        for name in ("life.state", "life.fence", "ready.lane", "key.hash", "node.beat", "batch.tasks"):
            self.assertIn(name, known)
        tables = self._sql("SELECT relname FROM pg_class WHERE relnamespace ="
                           " 'daruma'::regnamespace AND relkind IN ('r', 'p', 'v') AND NOT"
                           " relispartition AND obj_description(oid) IS NULL")
        self.assertEqual([row[0] for row in tables if not re.match("meta$", row[0])], [])


if __name__ == "__main__":
    postgres.shared()
    runner.main()
