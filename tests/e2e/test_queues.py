# SPDX-License-Identifier: MIT
"""A queue takes tasks or is deleted: what was acknowledged is there, or the deletion was refused, from
whichever door, node or transaction either of them comes.
"""
import concurrent.futures
import os
import unittest

import postgres
import runner
from polling import until
from server import Server, on_each_store

ROUNDS = 60
LATER = {"target": "http://127.0.0.1:9/never", "delay_ms": 600000}
CUT_OFF = 1000  # two pages of a purge


def fill(server, queue, count):
    """Tasks that wait: their ids."""
    got = server.post(f"/v1/queues/{queue}/tasks:batch", [LATER] * count)
    return [one["id"] for one in got.json["results"]]


def put(server, queue="tmp"):
    return server.call("PUT", f"/v1/queues/{queue}", {}).status


def delete(server, queue="tmp", force=False):
    return server.call("DELETE", f"/v1/queues/{queue}" + ("?force=true" if force else ""))


@on_each_store("sqlite", "json", "postgres")
class Deleting(unittest.TestCase):
    def _round(self, server, pool, force):
        """Two creates, the deletion, two creates, all at once: what was acknowledged, and the reply."""
        self.assertEqual(put(server), 201)
        create = [pool.submit(server.create, "tmp", **LATER) for _ in range(2)]
        deleted = pool.submit(delete, server, force=force)
        create += [pool.submit(server.create, "tmp", **LATER) for _ in range(2)]
        replies = [one.result() for one in create]
        self.assertLessEqual({reply.status for reply in replies}, {201, 404})
        made = [reply.json["id"] for reply in replies if reply.status == 201]
        return made, deleted.result()

    def what_was_acknowledged_is_there_or_the_deletion_was_refused(self, store):
        server = Server(self, store, [{"name": "q"}]).start()
        outcomes = set()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in range(ROUNDS):
                made, deleted = self._round(server, pool, force=False)
                outcomes.add(deleted.status)
                if deleted.status == 204:
                    self.assertEqual(made, [])
                    continue
                self.assertEqual((deleted.status, deleted.code), (409, "queue_not_empty"))
                for identity in made:
                    self.assertEqual(server.get(f"/v1/tasks/{identity}").status, 200)
                self.assertEqual(delete(server, force=True).status, 204)
        self.assertIn(409, outcomes)

    def a_forced_deletion_leaves_nothing_behind(self, store):
        server = Server(self, store, [{"name": "q"}]).start()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in range(ROUNDS // 4):
                made, deleted = self._round(server, pool, force=True)
                self.assertEqual(deleted.status, 204)
                self.assertEqual(server.create("tmp", **LATER).status, 404)
                for identity in made:
                    until(lambda one=identity: server.get(f"/v1/tasks/{one}").status == 404)

    def a_deletion_that_a_crash_cut_off_is_finished(self, store):
        server = Server(self, store, [{"name": "q"}]).start()
        put(server)
        made = fill(server, "tmp", CUT_OFF)
        kept = server.add(**LATER)
        self.assertEqual(delete(server, force=True).status, 204)
        server.kill()
        server.start()
        for identity in (made[0], made[-1]):
            until(lambda one=identity: server.get(f"/v1/tasks/{one}").status == 404)
        self.assertEqual(server.task(kept)["state"], "waiting")


class Nodes(unittest.TestCase):
    def _begin(self, count=2):
        self.postgres = postgres.shared()
        self.database = self.postgres.new()
        self.nodes = []
        for number in range(count):
            os.mkdir(f"node-{number}")
            self.nodes.append(Server(self, self.postgres.url(self.database), [{"name": "q"}],
                                     folder=f"node-{number}").start())
        self._both_know()
        return self.nodes

    def _both_know(self):
        """A queue that both nodes have."""
        self.assertIn(put(self.nodes[0]), (200, 201))
        for node in self.nodes:
            until(lambda one=node: one.get("/v1/queues/tmp").status == 200)

    def _left(self):
        return self.postgres.sql("SELECT count(*) FROM daruma.life l JOIN daruma.queue q"
                                 " ON q.number = l.queue WHERE q.dropped", self.database)

    @staticmethod
    def _concurrency(node):
        return node.get("/v1/queues/tmp").json["settings"]["concurrency"]

    def a_put_at_one_node_and_a_pause_at_another_both_stand(self):
        """Neither has heard of what the other has done."""
        one, other = self._begin()
        for number in range(1, 6):
            self.assertEqual(one.post("/v1/queues/tmp:pause").status, 200)
            put = other.call("PUT", "/v1/queues/tmp", {"concurrency": number})
            self.assertEqual((put.status, put.json["paused"]), (200, True))
            for node in (one, other):
                until(lambda at=node: self._concurrency(at) == number)
                self.assertTrue(node.get("/v1/queues/tmp").json["paused"])
            self.assertEqual(other.call("PUT", "/v1/queues/tmp", {"concurrency": 99}).status, 200)
            self.assertFalse(one.post("/v1/queues/tmp:resume").json["paused"])
            for node in (one, other):
                until(lambda at=node: not at.get("/v1/queues/tmp").json["paused"])
                until(lambda at=node: self._concurrency(at) == 99)

    def a_node_that_has_not_heard_of_a_deletion_takes_nothing(self):
        one, other = self._begin()
        for _ in range(3):
            self.assertEqual(delete(one).status, 204)
            replies = [other.create("tmp", **LATER).status for _ in range(5)]
            self.assertEqual(replies, [404] * 5)
            self.assertEqual(self._left(), [["0"]])
            self._both_know()

    def a_node_that_has_not_heard_of_a_deletion_does_not_undo_it(self):
        one, other = self._begin()
        self.assertEqual(delete(one).status, 204)
        self.assertEqual(other.post("/v1/queues/tmp:pause").status, 404)
        self.assertEqual(one.get("/v1/queues/tmp").status, 404)
        self._both_know()
        self.assertEqual(delete(one).status, 204)
        self.assertEqual(put(other), 201)  # a new one
        self.assertEqual(other.create("tmp", **LATER).status, 201)
        until(lambda: one.get("/v1/queues/tmp").status == 200)
        self.assertEqual(delete(one).status, 409)

    def what_a_killed_node_left_of_a_deleted_queue_is_purged_by_another(self):
        one, = self._begin(1)
        fill(one, "tmp", CUT_OFF)
        kept = one.add(**LATER)
        self.postgres.sql("CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                          " RAISE 'not now'; END $$;"
                          " CREATE TRIGGER refuse BEFORE DELETE ON daruma.life"
                          " EXECUTE FUNCTION public.refuse()", self.database)
        self.assertEqual(delete(one, force=True).status, 204)
        one.kill()
        self.assertEqual(self._left(), [[str(CUT_OFF)]])
        self.postgres.sql("DROP FUNCTION public.refuse() CASCADE", self.database)
        os.mkdir("node-1")
        other = Server(self, self.postgres.url(self.database), [{"name": "q"}], folder="node-1").start()
        until(lambda: self._left() == [["0"]])
        self.assertEqual(other.task(kept)["state"], "waiting")

    def what_another_node_has_just_taken_keeps_the_queue(self):
        one, other = self._begin()
        identity = other.create("tmp", **LATER).json["id"]
        self.assertEqual(delete(one).status, 409)
        self.assertEqual(one.task(identity)["state"], "waiting")

    def creating_at_one_node_and_deleting_at_another_has_one_winner(self):
        one, other = self._begin()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in range(ROUNDS // 4):
                create = [pool.submit(other.create, "tmp", **LATER) for _ in range(2)]
                deleted = pool.submit(delete, one)
                create += [pool.submit(other.create, "tmp", **LATER) for _ in range(2)]
                made = [reply.json["id"] for reply in (each.result() for each in create)
                        if reply.status == 201]
                if deleted.result().status == 204:
                    self.assertEqual(made, [])
                    self._both_know()
                for identity in made:
                    self.assertEqual(one.task(identity)["state"], "waiting")
                    self.assertEqual(one.post(f"/v1/tasks/{identity}:cancel").status, 200)
        self.assertEqual(self._left(), [["0"]])

    # --- programs that have the database open ---

    def a_transaction_that_enqueues_keeps_the_queue_until_it_ends(self):
        (node,) = self._begin(1)
        session = postgres.Session(self.postgres, self.database)
        self.addCleanup(session.close)
        enqueue = "SELECT daruma.enqueue('tmp', 'http://127.0.0.1:9/never', 'x'," \
            " due_at => now() + interval '1 hour')"
        session.run(f"BEGIN; {enqueue}")
        for force in (False, True):
            refused = delete(node, force=force)
            self.assertEqual((refused.status, refused.code), (503, "overloaded"))
        self.assertEqual(node.create("q", **LATER).status, 201)  # nobody else waits
        session.run("COMMIT")
        self.assertEqual(delete(node).status, 409)
        self.assertEqual(delete(node, force=True).status, 204)
        until(lambda: self._left() == [["0"]])
        self.assertIn("there is no queue tmp", " ".join(session.run(enqueue)))

    def a_create_in_a_queue_whose_deletion_takes_long_is_told_to_come_again(self):
        (node,) = self._begin(1)
        session = postgres.Session(self.postgres, self.database)
        self.addCleanup(session.close)
        session.run("BEGIN; SELECT pg_advisory_xact_lock(7233188327665434624 + number % 256)"
                    " FROM daruma.queue WHERE name = 'tmp' AND NOT dropped")  # as who deletes it
        for task in (LATER, {**LATER, "key": "k"}):
            refused = node.create("tmp", **task)
            self.assertEqual((refused.status, refused.code), (503, "overloaded"))
            self.assertGreaterEqual(int(refused.headers["retry-after"]), 1)
        self.assertEqual(node.create("q", **LATER).status, 201)
        self.assertEqual(node.get("/readyz").status, 200)
        session.run("ROLLBACK")
        self.assertEqual(node.create("tmp", **LATER, key="k").status, 201)

    def a_transaction_that_looks_at_an_earlier_moment_cannot_enqueue_into_a_deleted_queue(self):
        (node,) = self._begin(1)
        session = postgres.Session(self.postgres, self.database)
        self.addCleanup(session.close)
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        self.assertEqual(delete(node).status, 204)
        said = session.run("SELECT daruma.enqueue('tmp', 'http://127.0.0.1:9/never', 'x')")
        self.assertIn("could not serialize", " ".join(said))
        session.run("ROLLBACK")
        self.assertEqual(self._left(), [["0"]])


if __name__ == "__main__":
    postgres.shared()
    runner.main()
