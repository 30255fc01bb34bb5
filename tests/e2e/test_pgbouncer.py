# SPDX-License-Identifier: MIT
"""Nodes that reach PostgreSQL through PgBouncer: session mode works and survives the pooler's end,
transaction mode is refused at the start.
"""
import os
import shutil
import signal
import subprocess
import threading
import time
import unittest

import postgres
import runner
import target as does
from polling import until
from server import Server
from target import Target, answer

LEASE = {"node_lease": "2s"}
POLICY = {"name": "short", "max_attempts": 5, "transient": {"backoff": "fixed", "base": "20ms"}}
NAME = "pgbouncer"
START_SECONDS = 30


class Pooler:
    """On a socket in a folder of its own, in front of the shared server."""

    def __init__(self, test, mode):
        self.server, self.process = postgres.shared(), None
        self.folder = os.path.join(self.server.folder, f"pool-{os.getpid()}-{mode}")
        os.mkdir(self.folder)
        shutil.chown(self.folder, *(2 * [os.stat(self.server.folder).st_uid]))
        self._write("users", '"daruma" ""\n')
        self._write("ini", "[databases]\n"
                    f"* = host={self.server.folder}\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\n"
                    f"unix_socket_dir = {self.folder}\nauth_type = trust\n"
                    f"auth_file = {self.folder}/users\npool_mode = {mode}\n"
                    f"logfile = {self.folder}/log\npidfile = {self.folder}/pid\n"
                    "server_login_retry = 1\n")
        test.addCleanup(self.stop)
        self.start()

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def start(self):
        program = shutil.which(NAME, path=os.environ["PATH"] + ":/usr/sbin")
        if program is None:
            raise AssertionError("no PgBouncer: tools/install-deps test")
        self.process = subprocess.Popen([program, "-q", os.path.join(self.folder, "ini")], cwd="/",
                                        stdin=subprocess.DEVNULL, preexec_fn=self.server._become)
        end = time.monotonic() + START_SECONDS
        while not os.path.exists(os.path.join(self.folder, ".s.PGSQL.6432")):
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("PgBouncer does not start")
            time.sleep(0.02)  # nobody tells

    def stop(self, how=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(START_SECONDS)
            self.process = None

    def url(self, database):
        return f"postgres:///{database}?host={self.folder}&port=6432&user=daruma"


class Pooled(unittest.TestCase):
    def _node(self, number, url, **more):
        os.mkdir(f"node-{number}")
        return Server(self, url, [{"name": "q", "policy": "short"}], folder=f"node-{number}",
                      policies=[POLICY], limits=LEASE, **more)

    def _begin(self):
        self.target, self.database = Target(), postgres.shared().new()
        self.pooler = Pooler(self, "session")
        return [self._node(number, self.pooler.url(self.database)).start() for number in range(2)]

    def nodes_share_work_and_take_over_through_session_mode(self):  # I2, I3, E7
        nodes = self._begin()
        url = self.target.script("/sync", answer(200))
        made = [nodes[number % 2].add(target=url, key=f"k{number}") for number in range(40)]
        for number, identity in enumerate(made):
            self.assertEqual(nodes[(number + 1) % 2].settled(identity)["attempts"], 1)
            again = nodes[(number + 1) % 2].create(target=url, key=f"k{number}")
            self.assertEqual((again.status, again.json["id"]), (200, identity))
        held = self.target.script("/held", does.hold(threading.Event()), answer(200))
        identity = nodes[0].add(target=held)
        self.target.wait_for(41)
        nodes[0].kill()
        task = nodes[1].settled(identity)
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 2))
        nodes[1].wait_line("node_has_duty")

    def nodes_come_back_after_the_pooler_was_away(self):  # I9
        nodes = self._begin()
        url = self.target.script("/sync", answer(200))
        nodes[0].settled(nodes[0].add(target=url))
        self.pooler.stop(signal.SIGKILL)
        got = nodes[0].create(target=url, key="in-the-dark")
        self.assertEqual(got.status, 503)
        os.unlink(os.path.join(self.pooler.folder, ".s.PGSQL.6432"))
        self.pooler.start()
        until(lambda: all(node.get("/readyz").status == 200 for node in nodes))
        for node in nodes:
            identity = until(lambda: (lambda got: got.status in (200, 201) and got.json["id"])(
                node.create(target=url, key="in-the-dark")))
            self.assertEqual(node.settled(identity)["state"], "succeeded")
        self.assertEqual(len(self.target.seen()), 2)

    def transaction_mode_is_refused_at_the_start(self):
        pooler, database = Pooler(self, "transaction"), postgres.shared().new()
        node = self._node(0, pooler.url(database))
        node.launch()
        self.assertNotEqual(node.end(), 0)
        self.assertIn("session mode is needed", node.said())
        self.assertEqual(postgres.shared().sql("SELECT count(*) FROM pg_namespace WHERE nspname ="
                                               " 'daruma'", database), [["0"]])


if __name__ == "__main__":
    postgres.shared()
    runner.main()
