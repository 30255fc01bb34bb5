# SPDX-License-Identifier: MIT
"""Several nodes on one PostgreSQL: they share the work and the limits, take over from each other, and
none does what another has done. The server itself may go away. E7, C5; engineering 1.9, 5.
"""
import os
import signal
import threading
import time
import unittest

import postgres
import runner
import target as does
from polling import until
from server import Server
from target import Target, answer

LEASE_SECONDS = 2
POLICY = {"name": "short", "max_attempts": 5, "transient": {"backoff": "fixed", "base": "20ms"}}


class Nodes(unittest.TestCase):
    def _begin(self, count, *queues, lease=LEASE_SECONDS, start=True):
        self.target = Target()
        self.postgres = getattr(self, "postgres", None) or postgres.shared()
        self.database = self.postgres.new()
        self.queues = list(queues) or [{"name": "q", "policy": "short"}]
        self.nodes = [self._node(number, lease) for number in range(count)]
        for node in self.nodes if start else ():
            node.start()
        if start:
            self._settle_in(count)
        return self.nodes

    def _node(self, number, lease=LEASE_SECONDS):
        os.mkdir(f"node-{number}")
        return Server(self, self.postgres.url(self.database), self.queues, folder=f"node-{number}",
                      policies=[POLICY], limits={"node_lease": f"{lease}s"})

    def _sql(self, text):
        return self.postgres.sql(text, self.database)

    def _settle_in(self, count):
        """Until each has seen the others, and has its share."""
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE beat > 8") == [[str(count)]])

    def _all(self, calls):
        """Calls at the same time: what each gave."""
        results = [None] * len(calls)

        def run(number):
            results[number] = calls[number]()
        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    # --- sharing ---

    def each_task_is_done_by_one_node(self):  # I2
        nodes = self._begin(3, {"name": "q", "policy": "short", "concurrency": 6})
        go = threading.Event()
        url = self.target.script("/sync", does.hold(go))
        for node in nodes:
            self.assertEqual(node.post("/v1/queues/q:pause").status, 200)
        made = [nodes[number % 3].add(target=url) for number in range(150)]
        self.assertEqual(nodes[0].post("/v1/queues/q:resume").status, 200)
        self.target.wait_for(6)  # two of each node, and no answer before: one alone could be done with all
        go.set()
        for number, identity in enumerate(made):
            self.assertEqual(nodes[number % 3].settled(identity)["attempts"], 1)
        self.assertEqual(sorted(one.task for one in self.target.seen()), sorted(made))
        who = self._sql("SELECT count(DISTINCT epoch) FROM daruma.life")
        self.assertEqual(who, [["3"]])

    def one_key_through_three_nodes_is_one_effect(self):  # I3, C5
        nodes = self._begin(3)
        url = self.target.script("/pay", answer(201, {}, b"paid"))
        calls = [lambda number=number: nodes[number % 3].create(target=url, key="once", body="7")
                 for number in range(64)]
        answers = self._all(calls)
        self.assertEqual({one.status for one in answers} - {200, 201, 503}, set())
        self.assertEqual([one.status for one in answers].count(201), 1)
        identities = {one.json["id"] for one in answers if one.status != 503}
        self.assertEqual(len(identities), 1)
        nodes[2].settled(identities.pop())
        self.assertEqual(len(self.target.seen("/pay")), 1)

    def a_waiter_hears_of_what_another_node_did(self):
        nodes = self._begin(2)
        gate = threading.Event()
        url = self.target.script("/slow", does.hold(gate))
        identity = nodes[0].add(target=url)
        self.target.wait_for(1)
        threading.Timer(0.5, gate.set).start()
        self.assertEqual(nodes[1].settled(identity)["attempts"], 1)

    def _most_at_once(self, nodes, count):
        """Requests that the target has had at the same time, of tasks that came to every node."""
        at_once, most, lock = [0], [0], threading.Lock()

        def act(connection, request):
            with lock:
                at_once[0] += 1
                most[0] = max(most[0], at_once[0])
            time.sleep(0.03)
            with lock:
                at_once[0] -= 1
            return answer(200)(connection, request)
        url = self.target.script("/busy", act)
        made = [nodes[number % len(nodes)].add(target=url) for number in range(count)]
        for identity in made:
            nodes[0].settled(identity)
        return most[0]

    def concurrency_holds_across_nodes(self):
        nodes = self._begin(3, {"name": "q", "policy": "short", "concurrency": 4})
        self.assertIn(self._most_at_once(nodes, 90), (2, 3, 4))

    def a_limit_for_each_host_holds_across_nodes(self):
        nodes = self._begin(2, {"name": "q", "policy": "short", "host_concurrency": 3})
        self.assertIn(self._most_at_once(nodes, 60), (2, 3))

    def one_place_at_a_host_is_one_nodes_and_no_task_waits_for_the_others(self):
        nodes = self._begin(2, {"name": "q", "policy": "short", "host_concurrency": 1})
        self.assertEqual(self._most_at_once(nodes, 30), 1)
        nodes[0].kill()  # it had the place
        made = [nodes[1].add(target=self.target.url("/after")) for _ in range(3)]
        self.assertEqual({nodes[1].settled(one)["state"] for one in made}, {"succeeded"})

    def the_rate_holds_across_nodes(self):
        nodes = self._begin(3, {"name": "q", "policy": "short",
                                "rate": {"per_second": 30, "burst": 3}})
        url = self.target.script("/rated", answer(200))
        made = [nodes[number % 3].add(target=url) for number in range(60)]
        for identity in made:
            nodes[0].settled(identity)
        times = sorted(one.at for one in self.target.seen())
        self.assertGreater(times[-1] - times[0], 60 / 30 * 0.75)

    def a_queue_that_one_node_makes_is_known_to_all(self):
        nodes = self._begin(2)
        url = self.target.script("/new", answer(200))
        nodes[0].call("PUT", "/v1/queues/made", {"targets": [{"name": "t", "url": url}]})
        until(lambda: nodes[1].get("/v1/queues/made").status == 200)
        nodes[1].settled(nodes[1].add("made", body="x"))
        nodes[0].post("/v1/queues/made:pause")
        until(lambda: nodes[1].get("/v1/queues/made").json["paused"])
        nodes[1].call("DELETE", "/v1/queues/made?force=true")
        until(lambda: nodes[0].get("/v1/queues/made").status == 404)

    # --- dying and waking ---

    def a_node_that_starts_leaves_alone_what_others_do(self):  # I2
        self._begin(1)
        self.nodes.append(self._node(1))
        gate = threading.Event()
        again = self.nodes[0].add(target=self.target.script("/again", does.hold(gate)))
        once = self.nodes[0].add(target=self.target.script("/once", does.hold(gate)),
                                 repeatable=False)
        self.target.wait_for(2)
        self.nodes[1].start()
        self._settle_in(2)
        gate.set()
        for identity in (again, once):
            task = self.nodes[1].settled(identity)
            self.assertEqual((task["state"], task["attempts"]), ("succeeded", 1))

    def what_a_killed_node_was_doing_is_taken_over(self):  # I5, I8, E7
        nodes = self._begin(2)
        held = does.hold(threading.Event())
        again = nodes[0].add(target=self.target.script("/again", held, answer(200)))
        once = nodes[0].add(target=self.target.script("/once", held), repeatable=False)
        self.target.wait_for(2)
        nodes[0].kill()
        killed_at = time.monotonic()
        task = nodes[1].settled(again)
        took = time.monotonic() - killed_at
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 2))
        self.assertIn("interrupted", task["trail"][0]["message"])
        self.assertEqual(nodes[1].settled(once)["state"], "unsettled")
        self.assertEqual([one.attempt for one in self.target.seen("/again")], [1, 2])
        self.assertGreater(took, LEASE_SECONDS * 0.8)
        self.assertLess(took, LEASE_SECONDS * 5)

    def a_killed_node_that_is_started_again_waits_for_no_lease(self):  # E7
        node, = self._begin(1, lease=600)
        held = does.hold(threading.Event())
        again = node.add(target=self.target.script("/again", held, answer(200)))
        once = node.add(target=self.target.script("/once", held), repeatable=False)
        self.target.wait_for(2)
        node.restart()
        self.assertEqual(node.settled(again)["attempts"], 2)
        self.assertEqual(node.settled(once)["state"], "unsettled")
        self.assertEqual(node.settled(node.add(target=self.target.url("/again")))["attempts"], 1)
        self.assertEqual(self._sql("SELECT count(*) FROM daruma.node"), [["1"]])

    def deadlines_that_passed_while_nobody_was_there_are_found(self):  # I6
        node, = self._begin(1)
        node.post("/v1/queues/q:pause")
        task = {"target": self.target.url(), "deadline_ms": 3600000}
        made = [one["id"] for count in (1000, 200)
                for one in node.post("/v1/queues/q/tasks:batch", [task] * count).json["results"]]
        self.assertEqual(len(set(made)), 1200)
        node.stop()
        self._sql("UPDATE daruma.life SET deadline_at = 1000")
        node.start()
        connection = node.connect()
        for identity in made:
            got = node.get(f"/v1/tasks/{identity}?wait_ms=30000", connection=connection).json
            self.assertEqual(got["error"]["class"], "expired")
        connection.close()
        self.assertEqual(self.target.seen(), [])

    def a_node_writes_with_as_many_connections_as_it_is_told(self):
        self._begin(0, {"name": "q"}, start=False)
        for writers in (1, 2, 5):
            os.mkdir(f"writers-{writers}")
            node = Server(self, self.postgres.url(self.database), self.queues,
                          folder=f"writers-{writers}", limits={"node_writers": writers}).start()
            until(lambda: self._sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type ="
                                    " 'client backend' AND datname = current_database() AND pid <>"
                                    " pg_backend_pid()") == [[str(writers + 3)]])
            node.stop()

    def a_node_that_lacks_a_connection_says_so_at_its_start(self):
        self._begin(0, {"name": "q"}, start=False)
        self._sql("CREATE ROLE few LOGIN CONNECTION LIMIT 4")
        self._sql(f'GRANT CREATE ON DATABASE "{self.database}" TO few')
        os.mkdir("few")
        node = Server(self, self.postgres.url(self.database, "few"), self.queues, folder="few",
                      limits={"node_writers": 8})
        node.launch()
        self.assertNotEqual(node.end(), 0)
        self.assertIn("too many connections", node.said())
        self.assertEqual(self._sql("SELECT count(*) FROM daruma.node"), [["0"]])
        self._sql("ALTER ROLE few CONNECTION LIMIT 11")
        node.start()

    def a_node_that_ends_in_good_order_is_gone_at_once(self):
        nodes = self._begin(2, lease=60)
        nodes[0].stop()
        self.assertEqual(self._sql("SELECT count(*) FROM daruma.node"), [["1"]])

    def a_node_that_hung_sends_nothing_when_it_wakes(self):  # engineering 1.9
        nodes = self._begin(2, {"name": "q", "policy": "short", "host_concurrency": 1})
        gate = threading.Event()
        url = self.target.script("/sync", does.hold(gate), answer(200))
        nodes[0].add(target=url, body="first")
        self.target.wait_for(1)
        second = nodes[0].add(target=url, body="second")  # leased, and waits for the host
        until(lambda: nodes[0].task(second)["state"] == "running")
        nodes[0].signal(signal.SIGSTOP)
        try:
            task = nodes[1].settled(second)
            self.assertEqual(task["state"], "succeeded")
            gate.set()
        finally:
            nodes[0].signal(signal.SIGCONT)
        until(lambda: self._sql("SELECT count(*) FROM daruma.node WHERE beat > 0") == [["2"]])
        until(lambda: nodes[0].get("/readyz").status == 200)
        time.sleep(0.5)  # what should not happen has its chance
        bodies = [one.body for one in self.target.seen() if one.body == b"second"]
        self.assertEqual(len(bodies), 1)
        self.assertEqual(nodes[0].settled(nodes[0].add(target=url))["state"], "succeeded")

    def the_duty_moves_when_its_node_dies(self):
        nodes = self._begin(2)
        first = until(lambda: [node for node in nodes
                               if any(line.event == "node_has_duty" for line in node.lines)])
        self.assertEqual(len(first), 1)
        first[0].kill()
        other = nodes[1] if first[0] is nodes[0] else nodes[0]
        other.wait_line("node_has_duty")

    # --- the server goes away ---

    def a_lost_server_is_refusals_and_then_work_again(self):  # I9
        self.postgres = postgres.Postgres().create().start()
        self.addCleanup(self.postgres.close)
        nodes = self._begin(2)
        url = self.target.script("/sync", answer(200))
        nodes[0].add(target=url)
        self.postgres.stop()
        got = nodes[0].create(target=url, key="in-the-dark")
        self.assertEqual(got.status, 503)
        self.assertIn(got.code, ("store_unavailable", "store_unknown"))
        for node in nodes:  # also the one that nobody asks for anything
            node.wait_line("store_failing")
            self.assertEqual(node.get("/readyz").status, 503)
            self.assertIn("daruma_store_healthy 0\n", node.get("/metrics").body.decode())
        self.postgres.start()
        until(lambda: all(node.get("/readyz").status == 200 for node in nodes))
        for node in nodes:
            node.wait_line("store_well")
        # What reads has a connection of its own, and learns by itself that the server is back.
        until(lambda: all(node.get("/v1/unsettled").status == 200 for node in nodes))
        for node in nodes:
            self.assertEqual(node.settled(node.add(target=url))["state"], "succeeded")
        epochs = self._sql("SELECT min(epoch), max(epoch) FROM daruma.node")
        self.assertEqual(epochs, [["1000", "1001"]])  # nobody was taken for dead meanwhile

    def a_cut_connection_is_made_anew(self):
        nodes = self._begin(1)
        url = self.target.script("/sync", answer(200))
        for number in range(5):
            self._sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                      " current_database() AND application_name = 'daruma'")
            identity = until(lambda: (lambda got: got.status in (200, 201) and got.json["id"])(
                nodes[0].create(target=url, key=f"k{number}")))
            self.assertEqual(nodes[0].settled(identity)["state"], "succeeded")
        self.assertEqual(len(self.target.seen()), 5)

    def what_is_acknowledged_survives_a_failover(self):  # I1
        primary = postgres.Postgres(synchronous_commit="remote_apply",
                                    wal_level="replica").create()
        primary.start()
        self.addCleanup(primary.close)
        self.postgres = primary
        replica = postgres.Postgres(hot_standby="on")
        self.addCleanup(replica.close)
        replica.run("pg_basebackup", "-h", primary.folder, "-U", "daruma", "-D", replica.data, "-R")
        replica.start()
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.sql("SELECT pg_reload_conf()")
        until(lambda: primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state ="
                                  " 'sync'") == [["1"]])
        self._fail_over(primary, replica)

    def _fail_over(self, primary, replica):
        self.target = Target()
        self.database, self.queues = primary.new(), [{"name": "q", "policy": "short"}]
        url = (f"postgres:///{self.database}?host={primary.folder},{replica.folder}&user=daruma"
               "&target_session_attrs=read-write")
        os.mkdir("node")
        node = Server(self, url, self.queues, folder="node", policies=[POLICY],
                      limits={"node_lease": f"{LEASE_SECONDS}s"}).start()
        where, over = self.target.script("/sync", answer(200)), threading.Event()
        acknowledged = []

        def call(number):
            count = 0
            while not over.is_set():
                count += 1
                got = node.create(target=where, key=f"{number}-{count}")
                if got.status in (200, 201):
                    acknowledged.append(got.json["id"])
        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) > 200)
        primary.stop()
        replica.sql("ALTER SYSTEM SET synchronous_standby_names = ''")
        replica.sql("SELECT pg_reload_conf()")
        replica.sql("SELECT pg_promote()")
        before = len(acknowledged)
        until(lambda: len(acknowledged) > before + 200)
        over.set()
        for thread in threads:
            thread.join()
        for identity in acknowledged:
            self.assertEqual(node.settled(identity)["state"], "succeeded")

    # --- starting ---

    def many_nodes_start_at_once_on_an_empty_database(self):
        version = "SELECT value FROM daruma.meta WHERE name = 'schema'"
        self._begin(1)
        alone = self._sql(version)
        self.nodes[0].stop()
        os.rename("node-0", "node-alone")
        nodes = self._begin(4, start=False)
        self._all([node.start for node in nodes])
        self.assertEqual(self._sql(version), alone)
        self.assertEqual(len(set(self._sql("SELECT slot FROM daruma.node")[0])), 1)
        self._settle_in(4)
        url = self.target.script("/sync", answer(200))
        made = self._all([lambda node=node: [node.add(target=url) for _ in range(20)]
                          for node in nodes])
        self.assertEqual(len({one for some in made for one in some}), 80)

    def a_database_of_a_later_version_is_refused_and_left_alone(self):
        node, = self._begin(1)
        node.stop()
        self._sql("UPDATE daruma.meta SET value = 1000 WHERE name = 'schema'")
        node.launch()
        self.assertNotEqual(node.end(), 0)
        self.assertIn("schema version 1000", node.said())
        self.assertEqual(self._sql("SELECT value FROM daruma.meta WHERE name = 'schema'"),
                         [["1000"]])

    def a_password_in_the_url_is_shown_nowhere(self):  # I10
        os.mkdir("node")
        node = Server(self, "postgres://me:hush%20hush@127.0.0.1:1/none?password=hush", [],
                      folder="node")
        node.launch()
        self.assertNotEqual(node.end(), 0)
        self.assertNotIn("hush", node.said())
        self.assertIn("postgres", node.said())


if __name__ == "__main__":
    postgres.shared()
    runner.main()
