# SPDX-License-Identifier: MIT
"""Two nodes on one PostgreSQL, of which one is cut off from it while the other goes on: what the one says
meanwhile, and what it does once it is back.
"""
import os
import threading
import unittest

import postgres
import runner
from server import Server
from target import Target, answer
from test_nodes import until
from wire import Wire

LEASE_SECONDS = 2


class CutOff(unittest.TestCase):
    def _begin(self, queues):
        """The node that stays, and the one that can be cut off."""
        self.database = postgres.shared().new()
        self.wire = Wire(postgres.shared())
        self.addCleanup(self.wire.close)
        urls = [postgres.shared().url(self.database), self.wire.url(self.database)]
        self.nodes = []
        for number, url in enumerate(urls):
            os.mkdir(f"node-{number}")
            self.nodes.append(Server(self, url, queues, folder=f"node-{number}",
                                     policies=[{"name": "once", "max_attempts": 1}],
                                     limits={"node_lease": f"{LEASE_SECONDS}s"}).start())
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE beat > 4") == [["2"]])
        return self.nodes

    def _sql(self, text):
        return postgres.shared().sql(text, self.database)

    # --- queues ---

    def a_node_that_is_cut_off_does_not_tell_queues_as_they_were(self):
        stays, lost = self._begin([{"name": "q"}])
        self.assertEqual(stays.call("PUT", "/v1/queues/other", {}).status, 201)
        self.assertEqual(lost.post("/v1/queues/q/tasks", {"json": {}}).status, 201)
        run = lost.post("/v1/queues/q:run").json["run"]
        asked = [("GET", "/v1/queues/q"), ("GET", "/v1/queues/other"), ("GET", "/v1/queues"),
                 ("GET", f"/v1/runs/{run}"), ("POST", "/v1/queues/q/leases"),
                 ("DELETE", "/v1/queues/other"), ("GET", "/readyz")]

        def told():
            return [lost.call(method, path, {} if method == "POST" else None).status
                    for method, path in asked]
        self.wire.cut()
        until(lambda: told() == [503] * len(asked))
        self.assertEqual(stays.post("/v1/queues/q:pause").status, 200)
        self.assertEqual(stays.call("DELETE", "/v1/queues/other").status, 204)
        self.assertEqual(told(), [503] * len(asked))
        self.assertEqual(lost.get("/v1/queues").code, "store_unavailable")
        self.assertEqual(lost.get("/healthz").status, 200)
        metrics = lost.get("/metrics")  # of what was known last
        self.assertEqual(metrics.status, 200)
        self.assertIn(b'queue="other"', metrics.body)
        self.wire.mend()
        back = []
        until(lambda: back.append(lost.get("/v1/queues/q")) or back[-1].status == 200)
        self.assertTrue(back[-1].json["paused"])
        self.assertEqual(lost.get("/v1/queues/other").status, 404)
        self.assertEqual([queue["name"] for queue in lost.get("/v1/queues").json["queues"]], ["q"])

    # --- targets that are gone ---

    def _hooks(self):
        """A target that says nothing until it is told to, and then that it is gone, as long as it is."""
        self.target = Target()
        self.addCleanup(self.target.close)
        self.says, self.is_gone = threading.Event(), True

        def hook(connection, request):
            self.says.wait(30)
            answer(410 if self.is_gone else 200)(connection, request)
        self.addCleanup(self.says.set)
        return [{"name": "hooks", "policy": "once", "concurrency": 4, "targets": [
            {"name": "them", "url": self.target.script("/hook", hook)}]}]

    @staticmethod
    def _stopped(node):
        got = node.get("/v1/queues/hooks")
        return got.json["stopped"] if got.status == 200 else got.status

    @staticmethod
    def _stops(node):
        return [line for line in node.lines if line.event == "target_stopped"]

    def a_target_that_a_node_without_the_store_has_stopped_is_let_in_by_a_resume(self):
        stays, lost = self._begin(self._hooks())
        for node in self.nodes:
            while node.get("/v1/queues/hooks").json["in_flight"] == 0:
                node.post("/v1/queues/hooks/tasks", {"json": {}})
        self.wire.cut()
        self.says.set()
        until(lambda: self._stops(stays) and self._stops(lost))
        self.is_gone = False
        until(lambda: stays.post("/v1/queues/hooks:resume").status == 200)
        self.wire.mend()
        until(lambda: [line for line in lost.lines if line.event == "node_rejoined"])
        until(lambda: self._stopped(lost) == [])
        until(lambda: self._sql("SELECT count(*) FROM daruma.life WHERE state = 1") == [["0"]])
        self.assertEqual([self._stopped(node) for node in self.nodes], [[], []])
        self.is_gone = True  # one that says so after the resume is out again, whatever peers do
        while self._stopped(lost) == []:
            lost.post("/v1/queues/hooks/tasks", {"json": {}})
        until(lambda: self._sql("SELECT count(*) FROM daruma.memo m JOIN daruma.memo l"
                                " ON m.value = 'gone '::bytea || l.value"
                                " AND l.name = 'node-let-in:hooks'") == [["1"]])
        stays.restart()
        self.assertEqual([self._stopped(node) for node in self.nodes], [["them"], ["them"]])

    def a_stop_that_is_written_down_after_the_resume_does_not_count(self):
        stays, lost = self._begin(self._hooks())
        self.says.set()
        while self._stopped(lost) == []:
            lost.post("/v1/queues/hooks/tasks", {"json": {}})
        late = "SELECT name, value FROM daruma.memo WHERE name LIKE 'stopped:%'"
        until(lambda: self._sql(f"SELECT count(*) FROM ({late}) AS late") == [["1"]])
        self.is_gone = False  # or what still waits would stop it again after the resume
        until(lambda: [node.get("/v1/queues/hooks").json["in_flight"] for node in self.nodes] == [0, 0])
        self._sql(f"CREATE TABLE late AS {late}")
        self.assertEqual(stays.post("/v1/queues/hooks:resume").status, 200)
        self._sql("INSERT INTO daruma.memo SELECT * FROM late")  # its writer was slow
        stays.restart()
        self.assertEqual([self._stopped(node) for node in self.nodes], [[], []])


if __name__ == "__main__":
    runner.main()
