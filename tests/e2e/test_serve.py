# SPDX-License-Identifier: MIT
"""`daruma serve` as a process: how it starts, what it refuses to start on, how it stops, and
what it finds when it was killed. Invariants I5, I8; requirements D5, E7.
"""
import ctypes
import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import unittest

import runner
import target as does
from program import BIN
from server import Server, chosen, on_each_store
from target import Target, answer

FAST = {"name": "fast", "max_attempts": 3, "transient": {"backoff": "fixed", "base": "20ms"}}
FAR_MS = 3600000
FILES_OF_500 = 2804 + 512  # what 500 connections and one queue want, and names that are looked up


def setup(test, store=chosen("sqlite"), **more):
    target = Target()
    test.addCleanup(target.close)
    server = Server(test, store, [{"name": "q", "policy": "fast"}], policies=[FAST], **more)
    return server.start(), target


class Starting(unittest.TestCase):
    def it_takes_as_many_files_as_its_connections_want(self):
        server = Server(self, queues=[{"name": "q"}], limits={"connections": 500})
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
        server.start()
        with open(f"/proc/{server.process.pid}/limits", encoding="ascii") as file:
            limits = [line.split() for line in file if line.startswith("Max open files")]
        self.assertEqual(limits[0][3], str(FILES_OF_500))
        self.assertNotIn("files_few", server.said())
        server.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
        server.start()
        server.wait_line("files_few", limit=200, wanted=FILES_OF_500)

    def it_says_when_it_is_ready_and_what_it_found(self):
        server, _target = setup(self)
        beside = ("node_has_duty", "files_few", "store_created")  # by the store and the system
        lines = [line for line in server.lines if line.event not in beside]
        self.assertEqual([line.event for line in lines], ["recovered", "queue_length", "ready"])
        fields = lines[0].fields
        self.assertEqual((fields["waiting"], fields["unsettled"]), ("0", "0"))
        for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
            got = server.get(path)
            self.assertEqual((got.status, got.json["status"]), (200, status))
        for line in server.get("/metrics").body.decode().splitlines():
            self.assertRegex(line, r"^(# (HELP|TYPE) )?(daruma|process)_")

    def it_tells_the_service_manager(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind("notify")
            manager.settimeout(30)
            os.environ["NOTIFY_SOCKET"] = os.path.abspath("notify")
            server = Server(self).start()
            self.assertEqual(manager.recv(100), b"READY=1")
            self.assertEqual(server.stop(), 0)
            self.assertEqual(manager.recv(100), b"STOPPING=1")

    def waiting_tasks_are_counted_at_the_start(self):  # D3.1
        server, target = setup(self)
        for _ in range(3):
            server.add(target=target.url(), delay_ms=FAR_MS)
        server.restart()
        server.wait_line("queue_length", queue="q", waiting=3)


class Threads(unittest.TestCase):
    def every_list_is_told_by_every_thread(self):
        """A connection belongs to one of the threads; by turns each of them gets one."""
        server = Server(self, "sqlite", [{"name": "q"}], threads=3).start()
        document = server.get("/v1/openapi.json").json
        paths = [path for path, calls in document["paths"].items() if "get" in calls and "{" not in path]
        self.assertGreater(len(paths), 8)
        for path in paths:
            for _ in range(6):
                self.assertIn(server.get(path).status, (200, 400), path)


class Refusing(unittest.TestCase):
    """Each ends with status 1, a message, and nothing changed."""

    def _refuses(self, server, *words):
        first = len(server.lines)
        server.launch()
        self.assertEqual(server.end(), 1)
        self.assertNotIn("event=ready", server.said(first))
        for word in words:
            self.assertIn(word, server.said(first))

    def _file(self, server, content):
        os.makedirs(os.path.dirname(server.store_path()), exist_ok=True)
        with open(server.store_path(), "wb") as file:
            file.write(content)

    def _kept(self, server):
        with open(server.store_path(), "rb") as file:
            return file.read()

    def a_file_that_is_no_database_is_refused_and_left_alone(self):
        server = Server(self, "sqlite")
        content = b"these are the only notes of my thesis\n" * 300
        self._file(server, content)
        self._refuses(server, server.store_path())
        self.assertEqual(self._kept(server), content)

    def a_database_of_another_program_is_refused_and_left_alone(self):
        server = Server(self, "sqlite")
        os.makedirs(os.path.dirname(server.store_path()))
        other = sqlite3.connect(server.store_path())
        other.execute("CREATE TABLE album (name TEXT)")
        other.execute("INSERT INTO album VALUES ('Kind of Blue')")
        other.commit()
        other.close()
        content = self._kept(server)
        self._refuses(server, server.store_path())
        self.assertEqual(self._kept(server), content)

    def a_database_with_a_damaged_page_is_refused(self):
        server, target = setup(self, "sqlite")
        for number in range(200):
            server.add(target=target.url(), delay_ms=FAR_MS, body="x" * 500, key=f"k{number}")
        self.assertEqual(server.stop(), 0)
        size = os.path.getsize(server.store_path())
        with open(server.store_path(), "r+b") as file:
            file.seek(8192)
            file.write(b"\xa5" * (size - 8192))
        self._refuses(server, "malformed")

    def a_damaged_json_file_is_refused_with_the_place_and_left_alone(self):  # D5
        server, target = setup(self, "json")
        server.add(target=target.url(), delay_ms=FAR_MS, body="first")
        self.assertEqual(server.stop(), 0)
        lines = self._kept(server).split(b"\n")
        wrong = next(number for number, line in enumerate(lines) if b"first" in line)
        lines[wrong] = lines[wrong].replace(b'"', b"", 1)
        content = b"\n".join(lines)
        self._file(server, content)
        self._refuses(server, server.store_path(), f":{wrong + 1}:")
        self.assertEqual(self._kept(server), content)

    def a_json_file_of_another_program_is_refused_and_left_alone(self):
        server = Server(self, "json")
        for content in (b'{"name": "left-pad", "version": "1.0.0"}\n', b"[]\n", b"hello\n"):
            self._file(server, content)
            self._refuses(server, server.store_path())
            self.assertEqual(self._kept(server), content)

    def a_store_that_another_server_has_open_is_refused(self):
        for store in ("sqlite", "json"):
            os.mkdir(store)
            first = Server(self, store, folder=store).start()
            second = Server(self, store, folder=store)
            self._refuses(second, second.store_path())
            self.assertEqual(first.get("/readyz").status, 200)
            first.kill()
            second.start()  # the lock is not left behind
            second.kill()

    def a_port_that_is_taken_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = Server(self, api={"listen": f"127.0.0.1:{taken.getsockname()[1]}"})
            self._refuses(server, str(taken.getsockname()[1]))

    def a_wrong_configuration_is_told_with_file_and_line(self):
        cases = {"store: memory\nqueues:\n  - name: q\n    polcy: sync\n": (4, "polcy"),
                 "store: memory\nlimits: {body: 1 apple}\n": (2, "body"),
                 "store: memory\nqueues:\n  - name: q\n  - name: q\n": (4, "q"),
                 "store: memory\napi: [\n": (3, ""), "stores: memory\n": (1, "stores"),
                 "store: memory\nqueues:\n- {name: q, policy: nobody}\n": (3, "nobody")}
        for text, (line, word) in cases.items():
            with self.subTest(text), open("wrong.yaml", "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                done = subprocess.run([BIN, "serve", "-c", "wrong.yaml"], check=False, timeout=30,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"wrong.yaml:{line}", done.stderr)
                self.assertIn(word, done.stderr)

    def a_missing_configuration_is_named(self):
        done = subprocess.run([BIN, "serve", "-c", "nowhere.yaml"], check=False, timeout=30,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nowhere.yaml", done.stderr)


@on_each_store("sqlite", "json", "postgres")
class Stopping(unittest.TestCase):
    def an_attempt_in_flight_is_let_finish(self, store):
        server, target = setup(self, store)
        release = threading.Event()
        held = server.add(target=target.script("/held", does.hold(release)))
        waiting = server.add(target=target.url("/later"), delay_ms=FAR_MS)
        target.wait_for(1)
        server.signal()
        server.wait_line("stopping")
        self.assertIsNone(server.process.poll())
        release.set()
        self.assertEqual(server.end(), 0)
        self.assertEqual(server.lines[-1].event, "stopped")
        first = len(server.lines)
        server.start()
        server.wait_line("recovered", first, waiting=0, unsettled=0)
        task = server.task(held)
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 1))
        self.assertEqual(server.task(waiting)["state"], "waiting")
        self.assertEqual(len(target.seen()), 1)

    def a_second_signal_ends_it_at_once_and_nothing_is_lost(self, store):  # I5, I8
        server, target = setup(self, store)
        held = does.hold(threading.Event())
        again = server.add(target=target.script("/again", held, answer(200)))
        once = server.add(target=target.script("/once", held), repeatable=False)
        target.wait_for(2)
        server.signal()
        server.wait_line("stopping")
        began = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - began, 5)
        self._recovers(server, target, again, once)

    def what_a_kill_cut_short_is_recovered(self, store):  # I5, I8
        server, target = setup(self, store)
        held = does.hold(threading.Event())
        again = server.add(target=target.script("/again", held, answer(200)))
        once = server.add(target=target.script("/once", held), repeatable=False)
        target.wait_for(2)
        server.kill()
        self._recovers(server, target, again, once)

    def _recovers(self, server, target, again, once):
        first = len(server.lines)
        server.start()
        server.wait_line("recovered", first, waiting=1, unsettled=1)
        task = server.settled(again)
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 2))
        self.assertEqual((task["trail"][0]["class"], task["trail"][0]["sent"]),
                         ("transient", "maybe"))
        self.assertIn("interrupted", task["trail"][0]["message"])
        self.assertEqual([one.attempt for one in target.seen("/again")], [1, 2])
        task = server.settled(once)
        self.assertEqual((task["state"], task["attempts"]), ("unsettled", 1))
        self.assertIn("interrupted", task["trail"][0]["message"])
        self.assertEqual(len(target.seen("/once")), 1)

    def an_attempt_that_a_kill_cut_short_counts(self, store):  # I6
        server, target = setup(self, store)
        held = does.hold(threading.Event())
        identity = server.add(target=target.script("/held", held))
        for number in (1, 2, 3):
            target.wait_for(number)
            server.restart()
        task = server.settled(identity)
        self.assertEqual((task["state"], task["attempts"], len(task["trail"])), ("failed", 3, 3))
        self.assertEqual([one.attempt for one in target.seen()], [1, 2, 3])


    def _queue(self, server, target, **words):
        """PUT of a queue `w` whose targets may be repeated as the words say."""
        targets = [{"name": path, "url": target.url(f"/{path}"), "repeatable": repeatable}
                   for path, repeatable in words.items()]
        got = server.call("PUT", "/v1/queues/w", {"policy": "fast", "targets": targets})
        self.assertIn(got.status, (200, 201))

    def what_is_made_not_repeatable_while_it_waits_is_sent_once(self, store):  # I5
        server, target = setup(self, store)
        target.script("/shop", does.hold(threading.Event()), answer(200))
        self._queue(server, target, shop=True)
        server.post("/v1/queues/w:pause")
        identity = server.add("w", body="1")
        self._queue(server, target, shop=False)
        server.post("/v1/queues/w:resume")
        target.wait_for(1)
        server.restart()
        self.assertEqual(server.settled(identity)["state"], "unsettled")
        self.assertEqual(len(target.seen()), 1)

    def each_target_of_a_list_has_its_own_word(self, store):  # I5
        """The first may be asked again, the second not: a kill during either attempt."""
        server, target = setup(self, store)
        held = does.hold(threading.Event())
        target.script("/one", held)
        target.script("/two", held)
        self._queue(server, target, one=True, two=False)
        identity = server.add("w", body="1")
        target.wait_for(1, "/one")
        server.restart()
        target.wait_for(1, "/two")
        server.restart()
        self.assertEqual(server.settled(identity)["state"], "unsettled")
        self.assertEqual([one.path for one in target.seen()], ["/one", "/two"])


class WhileStopping(unittest.TestCase):
    def readiness_goes_first(self):
        server, target = setup(self)
        release = threading.Event()
        server.add(target=target.script("/held", does.hold(release)))
        target.wait_for(1)
        with socket.create_connection(("127.0.0.1", server.port)) as early:
            early.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n")
            self.assertEqual(server.get("/readyz").status, 200)
            server.signal()
            server.wait_line("stopping")
            early.sendall(b"\r\n")
            said = early.recv(4096)
            self.assertTrue(said.startswith(b"HTTP/1.1 503"), said)
            self.assertIn(b"draining", said)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port)).close()
        self.assertIsNone(server.process.poll())  # and the attempt is still under way
        release.set()
        self.assertEqual(server.end(), 0)

    def who_waits_for_a_task_is_told_how_it_is(self):
        server, target = setup(self)
        release = threading.Event()
        identity = server.add(target=target.script("/held", does.hold(release)))
        target.wait_for(1)
        answers = []
        poll = threading.Thread(target=lambda: answers.append(server.task(identity, 30000)))
        poll.start()
        while "daruma_http_waiters 1" not in server.get("/metrics").body.decode():
            pass  # each look is a whole call: nothing else can tell
        server.signal()
        poll.join()
        self.assertEqual(answers[0]["state"], "running")
        release.set()
        self.assertEqual(server.end(), 0)

    def it_keeps_time_on_a_machine_that_was_suspended(self):
        """The clock of leases goes on while a machine sleeps, libuv's does not: on one that has ever
        slept they differ, and no timer may mix them."""
        clone_newtime, clone_newuser = 0x80, 0x10000000
        libc = ctypes.CDLL(None, use_errno=True)
        wanted = clone_newtime if os.geteuid() == 0 else clone_newtime | clone_newuser
        self.assertEqual(libc.unshare(wanted), 0, os.strerror(ctypes.get_errno()))
        with open("/proc/self/timens_offsets", "w", encoding="ascii") as offsets:
            offsets.write("boottime 86400 0\n")  # for processes that are started from here on
        target = Target()
        server = Server(self, queues=[{"name": "q"}]).start()
        began = time.monotonic()
        server.settled(server.add(target=target.script("/late", answer(200)), delay_ms=300))
        self.assertLess(time.monotonic() - began, 30)

    def idle_connections_do_not_hold_it_up(self):
        server, _target = setup(self)
        idle = [server.connect() for _ in range(10)]
        for connection in idle:
            self.assertEqual(server.get("/healthz", connection=connection).status, 200)
        began = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - began, 5)

    def an_interrupt_stops_it_as_well(self):
        server, _target = setup(self)
        server.signal(signal.SIGINT)
        self.assertEqual(server.end(), 0)

    def signals_that_come_too_late_change_nothing(self):
        server, _target = setup(self)
        server.signal()
        while server.process.poll() is None:
            server.signal()
        self.assertEqual(server.end(), 0)

    def nothing_that_was_acknowledged_is_lost_under_load(self):  # I1
        server, target = setup(self)
        taken = []

        def load(number):
            connection = server.connect()
            try:
                for count in range(10000):
                    got = server.post("/v1/queues/q/tasks", {
                        "target": target.url("/load"), "key": f"{number}-{count}"},
                        connection=connection)
                    if got.status != 201:
                        return
                    taken.append(got.json["id"])
            except OSError:
                pass  # it is gone: what was not answered is nobody's
            except Exception as error:  # http.client's own words for the same
                if type(error).__module__ != "http.client":
                    raise
        callers = [threading.Thread(target=load, args=(number,)) for number in range(4)]
        for caller in callers:
            caller.start()
        target.wait_for(100)
        self.assertEqual(server.stop(), 0)
        for caller in callers:
            caller.join()
        server.start()
        self.assertGreater(len(taken), 50)
        for identity in taken:
            self.assertEqual(server.settled(identity)["state"], "succeeded")
        self.assertLessEqual(set(taken), {one.task for one in target.seen()})


class JsonFile(unittest.TestCase):
    def the_queue_is_a_file_that_can_be_read(self):  # D5.1-4
        server, target = setup(self, "json")
        self.assertTrue(os.path.exists(server.store_path()))
        identity = server.add(target=target.url("/x"), delay_ms=FAR_MS, key="order-1", body="hello")
        with open(server.store_path(), encoding="utf-8") as file:
            text = file.read()
        json.loads(text)
        for word in ("hello", "order-1", "/x"):
            self.assertIn(word, text)
        server.post(f"/v1/tasks/{identity}:cancel")
        with open(server.store_path(), encoding="utf-8") as file:
            self.assertNotEqual(file.read(), text)


if __name__ == "__main__":
    runner.main()
