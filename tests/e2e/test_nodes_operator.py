# SPDX-License-Identifier: MIT
"""Nodes on one PostgreSQL behind a load balancer, and an operator whose calls come to any of them: what one
node was asked to do can be watched and stopped at every other.
"""
import os
import signal
import subprocess
import time
import unittest

import postgres
import runner
from program import BIN
from server import Server
from target import Target, answer
from test_nodes import until

LEASE_SECONDS = 2
POLICY = {"name": "once", "max_attempts": 1}
WAIT_SECONDS = 20
NO_TASK = "01a1df91-4cef-7000-a46e-99e63246fae9"


class Operator(unittest.TestCase):
    def _begin(self, count=2, queues=None, target=None):
        self.target = target or Target()
        self.addCleanup(self.target.close)
        self.database = postgres.shared().new()
        self.nodes = []
        for number in range(count):
            os.mkdir(f"node-{number}")
            self.nodes.append(Server(
                self, postgres.shared().url(self.database),
                queues or [{"name": "q", "policy": "once", "concurrency": 8}],
                folder=f"node-{number}", policies=[POLICY],
                limits={"node_lease": f"{LEASE_SECONDS}s"}).start())
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE beat > 4")
              == [[str(count)]])
        return self.nodes

    def _sql(self, text):
        return postgres.shared().sql(text, self.database)

    def _fill(self, node, url, count, **more):
        where = {"target": url} if url else {}
        batch = [{**where, "json": {}, **more} for _ in range(count)]
        got = node.post("/v1/queues/q/tasks:batch", batch)
        self.assertEqual((got.status, len(got.json["results"])), (200, count))

    # --- runs ---

    def a_task_that_is_run_again_and_again_costs_no_worker_a_poll(self):
        nodes = self._begin(queues=[{"name": "q"}])
        first = nodes[0].add(json={})
        for _ in range(50):
            self.assertEqual(nodes[0].post(f"/v1/tasks/{first}:run").status, 200)
        self._fill(nodes[0], None, 3)
        for _ in range(4):
            got = nodes[0].post("/v1/queues/q/leases", {"max": 1})
            self.assertEqual((got.status, len(got.json["leases"])), (200, 1))
        got = nodes[0].post("/v1/queues/q/leases", {"max": 1})
        self.assertEqual((got.status, got.json["leases"]), (200, []))

    def a_run_ends_with_what_every_node_has_settled(self):
        nodes = self._begin()
        good = self.target.script("/good", answer(200))
        bad = self.target.script("/bad", answer(400))
        self.assertEqual(nodes[0].post("/v1/queues/q:pause").status, 200)
        self._fill(nodes[0], good, 90)
        self._fill(nodes[1], bad, 30)
        begun = nodes[0].post("/v1/queues/q:run")
        self.assertEqual((begun.status, begun.json["taken"]), (202, 120))
        path = f"/v1/runs/{begun.json['run']}"
        for node in nodes:
            until(lambda: node.get(path).json["pending"] == 0)
            self.assertEqual(node.get(path).json,
                             {"run": begun.json["run"], "queue": "q", "taken": 120,
                              "succeeded": 90, "failed": 30, "retrying": 0,
                              "unsettled": 0, "pending": 0})

    def the_command_that_runs_a_queue_ends_whichever_node_it_asks(self):
        nodes = self._begin()
        url = self.target.script("/good", answer(200))
        self.assertEqual(nodes[0].post("/v1/queues/q:pause").status, 200)
        for node in nodes:
            self._fill(node, url, 60)
            ended = subprocess.run([BIN, "run", "q", "--server", f"http://127.0.0.1:{node.port}"],
                                   capture_output=True, text=True, timeout=WAIT_SECONDS)
            self.assertEqual((ended.returncode, ended.stdout),
                             (0, "q: taken 60, succeeded 60, failed 0\n"), ended.stderr)

    def a_run_does_not_wait_for_what_was_cancelled_at_another_node(self):
        nodes = self._begin()
        made = [nodes[0].post("/v1/queues/q/tasks", {"json": {}}).json["id"] for _ in range(3)]
        run = nodes[0].post("/v1/queues/q:run").json["run"]  # for workers, and there is none
        self.assertEqual(nodes[0].get(f"/v1/runs/{run}").json["pending"], 3)
        for task in made:
            self.assertEqual(nodes[1].post(f"/v1/tasks/{task}:cancel").status, 200)
        until(lambda: nodes[0].get(f"/v1/runs/{run}").json["failed"] == 3)

    def a_run_is_not_known_any_more_once_its_node_is_dead(self):
        nodes = self._begin()
        url = self.target.script("/good", answer(200))
        self._fill(nodes[0], url, 3)
        run = nodes[0].post("/v1/queues/q:run").json["run"]
        self.assertEqual(nodes[1].get(f"/v1/runs/{run}").status, 200)
        nodes[0].kill()
        until(lambda: nodes[1].get(f"/v1/runs/{run}").code == "run_unknown")

    def a_run_whose_node_is_started_again_at_once_is_not_known_any_more(self):
        first, second = self._begin()  # the first one has the duty
        self._fill(second, None, 3)  # for workers: they stay
        run = second.post("/v1/queues/q:run").json["run"]
        self.assertEqual(first.get(f"/v1/runs/{run}").json["pending"], 3)
        second.restart()
        for node in (first, second):
            until(lambda: node.get(f"/v1/runs/{run}").code == "run_unknown")

    # --- a node that has lost the store ---

    def a_node_without_the_store_does_not_say_that_anything_is_unknown(self):
        server = postgres.Postgres().create()
        self.addCleanup(server.close)
        server.start()
        node = Server(self, server.url(server.new()), [{"name": "q"}],
                      limits={"node_lease": f"{LEASE_SECONDS}s"}).start()
        asked = [("GET", "/v1/queues/new"), ("POST", "/v1/queues/new/tasks"),
                 ("POST", "/v1/queues/new:run"), ("GET", "/v1/runs/4711"),
                 ("GET", "/v1/redrives/4711"), ("GET", f"/v1/tasks/{NO_TASK}"),
                 ("GET", "/v1/queues/new/tasks"), ("GET", "/v1/dead-letters?queue=new")]

        def statuses():
            return [node.call(method, path, {} if method == "POST" else None).status
                    for method, path in asked]
        self.assertEqual(statuses(), [404] * len(asked))
        server.stop()
        until(lambda: statuses() == [503] * len(asked))
        self.assertEqual(node.get("/v1/queues/new").code, "store_unavailable")
        server.start()
        until(lambda: statuses() == [404] * len(asked))

    # --- targets that are gone ---

    def _stopped(self):
        return [node.get("/v1/queues/hooks").json["stopped"] for node in self.nodes]

    def a_resume_at_one_node_lets_a_target_that_was_gone_in_at_every_node(self):
        self.target = Target()
        is_gone = [True]
        url = self.target.script("/hook", lambda connection, request:
                                 answer(410 if is_gone[0] else 200)(connection, request))
        nodes = self._begin(2, [{"name": "hooks", "policy": "once",
                                 "targets": [{"name": "them", "url": url}]}], self.target)
        for node in nodes:  # each finds out by itself
            while node.get("/v1/queues/hooks").json["stopped"] == []:
                node.post("/v1/queues/hooks/tasks", {"json": {}})
        until(lambda: self._stopped() == [["them"], ["them"]])
        nodes[1].restart()  # whose row is written with it: that is no resume
        self.assertEqual(self._stopped(), [["them"], ["them"]])
        is_gone[0] = False
        self.assertEqual(nodes[0].post("/v1/queues/hooks:resume").status, 200)
        self.assertEqual(self._stopped(), [[], []])
        nodes[1].restart()
        self.assertEqual(self._stopped(), [[], []])
        made = [node.post("/v1/queues/hooks/tasks", {"json": {}}).json["id"] for node in nodes]
        for task in made:
            self.assertEqual(nodes[0].settled(task)["state"], "succeeded")

    # --- queues ---

    def every_node_tells_how_many_tasks_are_due_and_none_that_is_due_later(self):
        nodes = self._begin()
        self.assertEqual(nodes[0].post("/v1/queues/q:pause").status, 200)
        for count in (300, 500):
            self._fill(nodes[0], self.target.url("/in"), count)
        self._fill(nodes[1], self.target.url("/in"), 50, delay_ms=3600000)
        for node in nodes:
            until(lambda: node.get("/v1/queues/q").json["due"] == 800)
            until(lambda: b'daruma_queue_due{queue="q"} 800\n' in node.get("/metrics").body)
            self.assertEqual(node.get("/v1/queues/q").json["counts"]["waiting"], 850)

    # --- redrives ---

    def _letters(self, count, rate=2, at=0):
        """A redrive of as many dead letters that one node looks after, if not told otherwise the first."""
        node = self.nodes[at]
        for begin in range(0, count, 500):
            self._fill(node, self.target.script("/bad", answer(400)), min(500, count - begin))
        until(lambda: node.get("/v1/queues/q").json["counts"]["failed"] == count)
        begun = node.post("/v1/dead-letters:redrive",
                              {"filter": {"queue": "q"}, "rate_per_second": rate})
        self.assertEqual((begun.status, begun.json["matched"]), (202, count))
        return begun.json["redrive"], f"/v1/redrives/{begun.json['redrive']}"

    def _epoch_of(self, redrive):
        """Which node's it is, by its memo."""
        ((epoch,),) = self._sql("SELECT substring(convert_from(value, 'UTF8') FROM 'epoch: ([0-9]+)')"
                                f" FROM daruma.memo WHERE name = 'redrive:{redrive}'")
        return epoch

    def a_redrive_is_watched_at_any_node_until_it_has_ended(self):
        nodes = self._begin()
        _, path = self._letters(6)
        began = nodes[1].get(path)
        self.assertEqual((began.status, began.json["state"], began.json["matched"]),
                         (200, "running", 6))
        until(lambda: 0 < nodes[1].get(path).json["redriven"] < 6)
        until(lambda: nodes[1].get(path).json["state"] == "done")
        self.assertEqual(nodes[1].get(path).json, nodes[0].get(path).json)
        self.assertEqual(nodes[1].get(path).json["redriven"], 6)
        self.assertEqual(nodes[1].post(f"{path}:cancel").json["state"], "done")

    def a_redrive_that_is_cancelled_at_another_node_has_stopped_when_that_is_told(self):
        nodes = self._begin()
        redrive, path = self._letters(60)
        until(lambda: nodes[0].get(path).json["redriven"] >= 2)
        ended = nodes[1].post(f"{path}:cancel")
        self.assertEqual((ended.status, ended.json["state"]), (200, "cancelled"))
        for node in nodes:
            self.assertEqual(node.get(path).json, ended.json)
        self.assertLess(ended.json["redriven"], 60)
        self.assertEqual(nodes[1].post(f"{path}:cancel").json, ended.json)
        acts = nodes[0].get("/v1/audit?act=redrive_cancel").json["audit"]
        self.assertEqual([act["note"] for act in acts], [f"redrive {redrive}"])
        until(lambda: self._sql("SELECT count(*) FROM daruma.memo"
                                " WHERE name LIKE 'node-redrive-stop%' OR name LIKE 'redrive:%'")
              == [["0"]])

    def a_cancel_that_is_not_confirmed_in_time_says_that_it_is_stored(self):
        nodes = self._begin()
        redrive, path = self._letters(60)
        until(lambda: nodes[0].get(path).json["redriven"] >= 2)
        person = postgres.Session(postgres.shared(), self.database)
        self.addCleanup(person.close)
        person.run("BEGIN; INSERT INTO daruma.memo (name, value)"  # so its end cannot be written
                   f" VALUES ('node-redriven:{redrive}', '')")
        got = nodes[1].post(f"{path}:cancel")
        self.assertEqual((got.status, got.code), (503, "store_unknown"))
        self.assertIn("the wish to cancel is stored", got.json["detail"])
        person.run("ROLLBACK")
        ended = nodes[1].post(f"{path}:cancel")
        self.assertEqual((ended.status, ended.json["state"]), (200, "cancelled"))

    def a_redrive_whose_node_has_died_goes_on_at_another(self):
        nodes = self._begin(3)
        _, path = self._letters(60)
        until(lambda: nodes[0].get(path).json["redriven"] >= 2)
        nodes[0].kill()
        for node in nodes[1:]:
            self.assertIn(node.get(path).json["state"], ("running", "counting"))
        before = nodes[1].get(path).json["redriven"]
        until(lambda: min(node.get(path).json["redriven"] for node in nodes[1:]) > before + 2)
        ended = nodes[2].post(f"{path}:cancel")
        self.assertEqual((ended.status, ended.json["state"]), (200, "cancelled"))

    def a_redrive_whose_node_is_started_again_at_once_goes_on(self):
        first, second = self._begin()  # the first one has the duty
        _, path = self._letters(60, at=1)
        until(lambda: second.get(path).json["redriven"] >= 2)
        second.restart()
        before = first.get(path).json["redriven"]
        until(lambda: min(node.get(path).json["redriven"] for node in self.nodes) > before + 2)
        ended = second.post(f"{path}:cancel")
        self.assertEqual((ended.status, ended.json["state"]), (200, "cancelled"))
        self.assertEqual(first.get(path).json, ended.json)

    def the_end_of_a_redrive_is_told_although_the_store_refused_it_at_first(self):
        nodes = self._begin()
        redrive, path = self._letters(6)
        person = postgres.Session(postgres.shared(), self.database)
        self.addCleanup(person.close)
        person.run("BEGIN; INSERT INTO daruma.memo (name, value)"  # its end alone: how far it is can be written
                   f" VALUES ('node-redriven:{redrive}', '')")
        nodes[0].wait_line("redrive_done")
        time.sleep(3 * LEASE_SECONDS)  # for longer than a write is waited for
        person.run("ROLLBACK")
        until(lambda: nodes[1].get(path).json["state"] == "done")
        self.assertEqual(nodes[1].get(path).json, nodes[0].get(path).json)

    def the_numbers_of_a_cancelled_redrive_are_the_same_everywhere(self):
        nodes = self._begin()
        redrive, path = self._letters(2000, rate=200)
        until(lambda: nodes[0].get(path).json["redriven"] > 0)
        told = nodes[1].post(f"{path}:cancel").json
        self.assertEqual(told["state"], "cancelled")
        self.assertEqual(nodes[0].get(path).json, told)
        acts = self._sql("SELECT count(*) FROM daruma.audit WHERE act = 'redrive' AND note ="
                         f" 'redrive {redrive}'")
        self.assertEqual(acts, [[str(told["redriven"])]])

    def a_node_that_was_stopped_leaves_its_redrive_to_the_node_that_has_it_now(self):
        nodes = self._begin()
        count, rate = 120, 10
        redrive, path = self._letters(count, rate)
        until(lambda: nodes[0].get(path).json["redriven"] >= 10)
        epoch = self._epoch_of(redrive)
        nodes[0].signal(signal.SIGSTOP)
        until(lambda: self._epoch_of(redrive) != epoch)
        until(lambda: nodes[1].get(path).json["state"] == "running")
        nodes[0].signal(signal.SIGCONT)
        nodes[0].wait_line("redrive_left", redrive=redrive)
        before, began = nodes[1].get(path).json["redriven"], time.monotonic()
        self.assertLess(before, count)
        until(lambda: nodes[1].get(path).json["state"] == "done")
        self.assertLess((count - before) / (time.monotonic() - began), 1.5 * rate)
        for node in nodes:
            until(lambda: node.get(path).json["state"] == "done")
            ended = node.get(path).json
            self.assertEqual([ended[name] for name in ("matched", "redriven", "skipped")],
                             [count, count, 0])

    def a_redrive_that_was_never_begun_is_unknown_at_every_node(self):
        for node in self._begin():
            self.assertEqual(node.get("/v1/redrives/4711").code, "redrive_unknown")
            self.assertEqual(node.post("/v1/redrives/4711:cancel").code, "redrive_unknown")


if __name__ == "__main__":
    runner.main()
