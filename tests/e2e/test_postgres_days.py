# SPDX-License-Identifier: MIT
"""Requests and answers have a partition for each day, made by nodes; what comes on a day without one
goes to the default partitions. Days without a node, a server whose clock was wrong, and what else
writes while a day is made, dropped or swept.
"""
import threading
import unittest

import postgres
import runner
from polling import until
from server import Server
from target import Target, answer

TASK = ("INSERT INTO daruma.task VALUES ({id}, 9, 1, '', '', decode(repeat('00', 32), 'hex'), 'POST',"
        " 'http://x/', '', '', '', 'body') ON CONFLICT (id) DO UPDATE SET body = excluded.body")
LIFE = ("INSERT INTO daruma.life (id, tail, due_at, fence, epoch, queue, attempts, attempts_all, round,"
        " flags, trail_count, state, has_answer, has_edit) VALUES ({id}, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0,"
        " 0, false, false)")
OLD = (100 * 86400000) << 12  # the first task of a day long ago


class Days(unittest.TestCase):
    def _begin(self, server):
        self.target = Target()
        self.url = self.target.script("/sync", answer(200))
        self.postgres = server
        self.database = server.new()
        self.node = Server(self, server.url(self.database), [{"name": "q"}])

    def _own(self):
        server = postgres.Postgres().create()
        self.addCleanup(server.close)
        return server

    def _sql(self, text):
        return self.postgres.sql(text, self.database)

    def _number(self, text):
        return int(self._sql(f"SELECT {text}")[0][0])

    def _enqueue(self, key):
        return self._sql(f"SELECT daruma.enqueue('q', '{self.url}', 'x', '{key}')")[0][0]

    def _set_clock(self, clock):
        self.postgres.stop()
        self.postgres.start(clock)

    def _has_day(self, day):
        return self._number(f"count(to_regclass('daruma.task_' || {day}))") == 1

    def _session(self):
        session = postgres.Session(self.postgres, self.database)
        self.addCleanup(session.close)
        return session

    def _purge_all(self):
        """A start purges what is over, and the next one sweeps what that has left."""
        self._sql("UPDATE daruma.life SET settled_at = 1")
        self.node.restart()
        until(lambda: self._number("count(*) FROM daruma.life") == 0)
        self.node.restart()

    def nodes_start_after_days_without_one(self):
        self._begin(self._own().start())
        self.node.start()
        self.node.stop()
        self._set_clock("+3d")
        third = self._enqueue("third")
        self._set_clock("+4d")
        fourth = self._enqueue("fourth")
        self.assertEqual(self._number("count(*) FROM daruma.task_rest"), 2)
        self.node.start()
        for identity in (third, fourth):
            self.assertEqual(self.node.settled(identity)["state"], "succeeded")
        today = self._number("daruma.today()")
        for day in range(today - 1, today + 3):
            self.assertTrue(self._has_day(day))
        self.assertEqual(self._number("count(*) FROM daruma.task_rest"), 0)
        self._set_clock("+7d")
        self.node.restart()
        self.assertTrue(self._has_day(today + 5))
        self._purge_all()
        until(lambda: self._number("count(*) FROM daruma.task") == 0)
        self.assertFalse(self._has_day(today - 1))

    def a_clock_that_was_far_ahead_once_stops_nothing(self):
        self._begin(self._own().start())
        self.node.start()
        self.node.stop()
        self._set_clock("+400d")
        early = self._enqueue("early")
        self._set_clock(None)
        now = self._enqueue("now")
        self.node.start()
        self.assertEqual(self.node.post(f"/v1/tasks/{early}:run").status, 200)  # due in that future
        later = self.node.add("q", target=self.url)
        for identity in (early, now, later):
            self.assertEqual(self.node.settled(identity)["state"], "succeeded")
        self.assertEqual(self._number("count(*) FROM daruma.task_rest"), 0)
        self.assertEqual(self._number("count(*) FROM daruma.answer_rest"), 0)
        self._purge_all()
        until(lambda: self._number("count(*) FROM daruma.task"
                                   " WHERE daruma.day_of(id) > daruma.today()") == 0)
        self.node.settled(self.node.add("q", target=self.url))

    def a_day_that_the_default_partition_has_much_of_is_left_to_it(self):
        self._begin(postgres.shared())
        self.node.start()
        self.node.stop()
        self._sql(TASK.format(id=f"{OLD} + n").replace(
            "VALUES (", "SELECT ").replace("'body')", "'body' FROM generate_series(1, 10000) AS n"))
        self.assertEqual(self._number("daruma.make_partitions(100, 102)"), 4)
        self.assertEqual([self._has_day(day) for day in (100, 101, 102)], [False, True, True])
        self.assertEqual(self._number("count(*) FROM daruma.task"), 10000)
        self.assertEqual(self._number("daruma.drop_remains(200, 5000)"), 5000)
        self.assertEqual(self._number("daruma.make_partitions(100, 102)"), 2)
        self.assertEqual(self._number("count(*) FROM daruma.task_100"), 5000)

    def a_start_does_not_wait_for_a_session_that_is_in_the_way(self):
        self._begin(postgres.shared())
        self.node.start()
        self.node.stop()
        today = self._number("daruma.today()")
        self._sql(f"DROP TABLE daruma.task_{today + 2}, daruma.answer_{today + 2}")
        holder = self._session()
        holder.run("BEGIN; LOCK TABLE ONLY daruma.task IN ROW EXCLUSIVE MODE")
        self.node.start()
        self.node.settled(self.node.add("q", target=self.url))
        self.assertFalse(self._has_day(today + 2))
        holder.run("COMMIT")

    def what_is_imported_while_its_day_is_dropped_keeps_its_request(self):  # I1
        self._begin(postgres.shared())
        self.node.start()
        self.node.stop()
        self._sql("SELECT daruma.make_partitions(100, 100)")
        importer, dropper = self._session(), self._session()
        importer.run(f"BEGIN; {TASK.format(id=OLD)}; {LIFE.format(id=OLD)}")
        dropped = []
        thread = threading.Thread(
            target=lambda: dropped.append(dropper.run("SELECT daruma.drop_partitions(200)")))
        thread.start()
        until(lambda: self._number("count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                                   " AND datname = current_database()") == 1)
        importer.run("COMMIT")
        thread.join()
        self.assertEqual(dropped, [["0"]])
        self.assertEqual(self._number("count(*) FROM daruma.task JOIN daruma.life USING (id)"), 1)

    def what_is_imported_while_its_remains_are_swept_keeps_its_request(self):  # I1
        self._begin(postgres.shared())
        self.node.start()
        self.node.stop()
        self._sql(TASK.format(id=OLD))  # purged: it has no life
        importer, sweeper = self._session(), self._session()
        importer.run(f"BEGIN; {TASK.format(id=OLD)}; {LIFE.format(id=OLD)}")
        swept = []
        thread = threading.Thread(
            target=lambda: swept.append(sweeper.run("SELECT daruma.drop_remains(200, 10)")))
        thread.start()
        until(lambda: swept or self._number(
            "count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND datname = current_database()") == 1)
        importer.run("COMMIT")
        thread.join()
        self.assertEqual(swept, [["0"]])
        self.assertEqual(self._number("count(*) FROM daruma.task JOIN daruma.life USING (id)"), 1)


if __name__ == "__main__":
    postgres.shared()
    runner.main()
