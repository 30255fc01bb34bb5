# SPDX-License-Identifier: MIT
"""What the command line shows when things do not work out, on a real server: outages and stopped
targets in `daruma queues`, dead letters and their edits in `daruma show`, the progress and the end of
`daruma run`. D4, E6."""
import os
import re
import subprocess
import threading
import time
import unittest

import ports
import runner
from program import BIN
from server import Server, chosen
from target import Target, answer, echo, hold
from test_cli_client import on_terminal, run

STORE = chosen("sqlite")
AWAY_SECONDS = 2.5  # more than the library's own number of retries lasts
ONE_TRY = {"max_attempts": 1}


def url_of(server):
    return f"http://127.0.0.1:{server.port}"


class Trouble(unittest.TestCase):
    def _start(self, **queue):
        self.target = Target()
        self.addCleanup(self.target.close)
        self.server = Server(self, STORE, [{"name": "q", "policy": ONE_TRY, "targets": [
            {"name": "them", "url": self.target.url("/in")}], **queue}], api=ports.listen()).start()
        return self.server

    def _shown(self, *arguments):
        status, out, err = run(*arguments, DARUMA_URL=url_of(self.server))
        self.assertEqual((status, err), (0, ""))
        return out

    def an_outage_is_in_the_list_of_queues(self):
        server = self._start(outage={"after_failures": 2, "try_every": "10m"})
        self.target.script("/in", answer(503))
        for _ in range(2):
            server.add(body="x")
        server.wait_line("outage_began")
        out = self._shown("queues")
        self.assertRegex(out, r"(?m)^q +outage ")
        self.assertRegex(out, r"(?m)^q: outage since 20\S+Z: the target keeps failing; one task at "
                              r"a time tries it$")

    def a_stopped_target_is_in_the_list_of_queues(self):
        server = self._start()
        self.target.script("/in", answer(410))
        server.settled(server.add(body="x"))
        out = self._shown("queues")
        self.assertRegex(out, r"(?m)^q +stopped ")
        self.assertIn("q: target them has answered 410 and gets nothing more: "
                      "daruma queue resume q lets it in again\n", out)
        self.assertEqual(run("queue", "resume", "q", DARUMA_URL=url_of(server))[0], 0)
        out = self._shown("queues")
        self.assertRegex(out, r"(?m)^q +active ")
        self.assertNotIn("410", out)

    def a_queue_is_stopped_only_when_all_its_targets_are(self):
        server = self._start()
        server.stop()
        server.configure(queues=[{"name": "q", "policy": ONE_TRY, "targets": [
            {"name": name, "url": self.target.url("/" + name)} for name in ("gone", "there")]}])
        server.start()
        self.target.script("/gone", answer(410))
        for _ in range(2):
            server.settled(server.add(body="x"))
        out = self._shown("queues")
        self.assertRegex(out, r"(?m)^q +active ")
        self.assertIn("q: target gone has answered 410 and gets nothing more", out)

    def a_dead_letter_says_so_and_whether_it_may_work(self):
        server = self._start()
        self.target.script("/in", answer(503), answer(400))
        transient, invalid = [server.settled(server.add(body="x"))["id"] for _ in range(2)]
        self.assertRegex(self._shown("show", transient),
                         r"(?m)^letter +failed 20\S+Z, may work when it is sent again as it is$")
        self.assertRegex(self._shown("show", invalid),
                         r"(?m)^letter +failed 20\S+Z, would fail again as it is$")

    def a_redriven_one_is_shown_with_its_edit(self):
        server = self._start()
        is_let_go = threading.Event()
        self.addCleanup(is_let_go.set)
        self.target.script("/in", answer(400), hold(is_let_go, echo))
        identity = server.settled(server.add(body="old", key="k"))["id"]
        got = server.post(f"/v1/dead-letters/{identity}:redrive",
                          {"body": "mended", "headers": {"x-why": "typo"}})
        self.assertEqual(got.status, 202)
        self.target.wait_for(2)
        out = self._shown("show", identity)
        self.assertRegex(out, r"(?m)^letter +retrying 20\S+Z, and was sent again$")
        self.assertRegex(out, r"(?m)^request +POST .*\n +old\nedited +\(its target is as it was\)\n"
                              r" +x-why: typo\n +mended$")
        is_let_go.set()
        server.settled(identity)
        out = self._shown("show", identity)
        self.assertRegex(out, r"(?m)^letter +resolved 20\S+Z$")
        self.assertIn("answer    200 from them\n", out)

    def the_note_of_a_closed_one_is_shown(self):
        server = self._start()
        self.target.script("/in", answer(400))
        identity = server.settled(server.add(body="x"))["id"]
        server.post(f"/v1/dead-letters/{identity}:resolve", {"note": "done by hand"})
        self.assertRegex(self._shown("show", identity),
                         r"(?m)^letter +resolved 20\S+Z\nnote +done by hand$")

    def a_task_that_never_failed_has_no_letter(self):
        server = self._start()
        self.target.script("/in", answer(200))
        out = self._shown("show", server.settled(server.add(body="x"))["id"])
        self.assertNotIn("letter", out)

    def a_run_shows_its_progress_and_ends_with_the_tally(self):  # D4.1-4
        server = self._start(policy={"max_attempts": 3,
                                     "transient": {"backoff": "fixed", "base": "1h"}})
        is_let_go = threading.Event()
        self.addCleanup(is_let_go.set)
        self.target.script("/in", answer(200), answer(503), hold(is_let_go, answer(200)))
        for _ in range(3):
            server.add(body="x", delay_ms=3600000)

        def let_go(screen):
            if "of 3 done" in screen:
                is_let_go.set()
        status, screen = on_terminal("run", "q", seeing=let_go, DARUMA_URL=url_of(server))
        self.assertEqual(status, 1)
        self.assertRegex(screen, r"q: \d of 3 done, \d failed")
        self.assertTrue(re.search(r"\033\[Kq: taken 3, succeeded 2, failed 0, waiting for another try 1\r\n$",
                                  screen), screen)
        failed = server.get("/v1/queues/q/tasks?state=waiting").json["tasks"]
        self.assertEqual([(task["attempts"], task["next_wait_ms"]) for task in failed],
                         [(1, 3600000)])  # it counts, and has its next automatic time

    def _begin(self, *arguments):
        return subprocess.Popen([BIN, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "DARUMA_URL": url_of(self.server)})

    def what_is_left_to_workers_is_told_wherever_it_is_looked_at(self):
        server = self._start(targets=[], policy={"max_attempts": 3})
        status, out, err = run("enqueue", "q", "--data", "x", DARUMA_URL=url_of(server))
        self.assertEqual((status, err), (0, "  it waits for a worker: queue q has no target and the "
                                            "task has none (--target URL)\n"))
        identity = out.split()[0]
        self.assertIn("request   POST (for a worker: neither it nor its queue has a target)\n",
                      self._shown("show", identity))
        running, alone = self._begin("run", "q"), self._begin("run", "--task", identity)
        self.assertEqual(running.stderr.readline(),
                         "q: 1 not done yet: it has no targets, so a task without one of its own "
                         "waits for a worker to lease it; 'daruma tasks q' shows them, and they go "
                         "on without this command\n")
        self.assertEqual(alone.stderr.readline(),
                         "  it waits for a worker: neither it nor its queue has a target\n")
        lease = server.post("/v1/queues/q/leases", {"max": 1}).json["leases"][0]["lease"]
        got = server.post("/v1/leases:settle", {"acks": [{"lease": lease}]})
        self.assertEqual(got.status, 200)
        self.assertEqual(running.communicate(), ("q: taken 1, succeeded 1, failed 0\n", ""))
        self.assertEqual(alone.communicate(), (f"{identity} succeeded\n", ""))
        self.assertEqual((running.returncode, alone.returncode), (0, 0))

    def what_the_queue_has_a_target_for_is_not_left_to_workers(self):
        server = self._start()
        self.target.script("/in", answer(200))
        status, out, err = run("enqueue", "q", "--data", "x", DARUMA_URL=url_of(server))
        self.assertEqual((status, err), (0, ""))
        server.settled(out.split()[0])
        self.assertIn("request   POST (a target of its queue)\n", self._shown("show", out.split()[0]))

    def a_server_that_is_away_for_some_seconds_is_waited_for(self):
        server = self._start()
        waiting = self._begin("enqueue", "q", "--data", "x", "--delay", "2s", "--wait", "30s")
        while not server.get("/v1/queues/q/tasks").json["tasks"]:
            time.sleep(0.02)
        server.stop()
        time.sleep(AWAY_SECONDS)
        self.assertIsNone(waiting.poll())
        self.server.start()
        out, err = waiting.communicate()
        self.assertEqual(waiting.returncode, 0, err)
        self.assertRegex(out, r"^\S+ succeeded\n$")

    def a_run_of_a_server_that_was_started_again_tells_what_is_known(self):
        server = self._start()
        is_let_go = threading.Event()
        self.addCleanup(is_let_go.set)
        self.target.script("/in", hold(is_let_go, echo))
        server.add(body="x", delay_ms=3600000)
        running = self._begin("run", "q")
        self.target.wait_for(1)
        server.kill()
        self.server.start()
        _out, err = running.communicate()
        self.assertEqual(running.returncode, 1)
        self.assertIn("it was started again, and goes on with the 1 it had taken without counting them",
                      err)
        self.assertRegex(err, r"(?m)^  q has now: waiting \d, running \d, unsettled \d, succeeded \d, "
                              r"failed \d$")


if __name__ == "__main__":
    runner.main()
