# SPDX-License-Identifier: MIT
"""Every command in surroundings that lack something: it ends with a status that its manual page has, or
waits for a reader; it does not crash; and nothing but what it was told to send goes over a connection or
into a file that is not its own."""
import contextlib
import functools
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

import lacking
import ports
import runner
from program import BIN

BODY = "the-body-that-was-given"
DONE, FAILED, _USAGE, UNREACHABLE, SPOOLED = range(5)
USUAL = {DONE, FAILED, UNREACHABLE}  # and not USAGE: what is asked for can be done
EXPORT = (b'{"kind": "begin", "format": "daruma export", "version": 1}\n'
          b'{"kind": "queue", "number": 1, "name": "q"}\n{"kind": "end"}\n')
ARTICLE = "# A title\n\nA text.\n"


def task_id():
    """One of the form that the program takes."""
    return "0198c0de-0000-7000-8000-000000000000"


class World:
    """What the commands work on: a server that records what it is sent, a spool, a store, files."""

    def __init__(self):
        self.server = lacking.Recorder()
        pathlib.Path("article.md").write_text(ARTICLE)
        pathlib.Path("daruma.yaml").write_text('{"store": "json:q.json", "queues": [{"name": "q"}]}')
        pathlib.Path("empty.jsonl").write_text("")

    def commands(self):
        """name: (arguments, the statuses it may end with)."""
        body = "@large" if os.path.exists("large") else BODY
        url = self.server.url("/in")
        api = ("--server", self.server.url().rstrip("/"))
        return {
            "check": (("-c", "daruma.yaml"), USUAL),
            "enqueue": (("q", "--target", url, "--data", body, *api), USUAL),
            "tasks": (("q", *api), USUAL),
            "show": ((task_id(), *api), USUAL),
            "run": (("q", *api), USUAL),
            "queues": (api, USUAL),
            "queue": (("pause", "q", *api), USUAL),
            "summarize": (("article.md", *api), USUAL),
            "retry": (("--max", "1", "--base", "1ms", "--", "true"), {DONE, FAILED, 125, 126, 127}),
            "dead": (("list", *api), USUAL),
            "unsettled": (api, USUAL),
            "settle": ((task_id(), "succeeded", *api), USUAL),
            "audit": (api, USUAL),
            "send": ((url, "--data", body, "--attempts", "2", "--spool", "spool"), USUAL | {SPOOLED}),
            "flush": (("--spool", "spool"), USUAL | {SPOOLED}),
            "spool": (("--spool", "spool"), USUAL),
            "key": ((url,), USUAL),
            "export": (("--store", "sqlite:none.db"), USUAL),
            "import": (("--input", "empty.jsonl", "--store", "sqlite:new.db"), USUAL),
            "compact": (("--store", "sqlite:none.db"), USUAL),
            "restore": (("--store", "sqlite:none.db"), USUAL),
            "version": ((), USUAL),
            "help": ((), USUAL),
        }


class Lacking(unittest.TestCase):
    def _every_command(self, world, *also):
        there = World()
        self.addCleanup(there.server.close)
        for name, (arguments, statuses) in there.commands().items():
            with self.subTest(name):
                status, said = lacking.run(world, name, *arguments, HOME=os.getcwd())
                self.assertIn(status, statuses | set(also), said.decode(errors="replace"))
        self.assertEqual(there.server.strange, [])
        for body in there.server.bodies:
            self.assertNotIn(b"daruma ", body)
            self.assertNotIn(b"retrying", body)
        return there

    def every_command_of_the_program_is_tried(self):
        told = subprocess.run([BIN, "help"], stdout=subprocess.PIPE, check=True).stdout.decode()
        names = set(re.findall(r"(?m)^  (\w+) ", told))
        self.assertEqual(names - {"serve"}, set(World().commands()) - {"help"})

    def no_command_minds_that_all_its_streams_are_closed(self):
        there = self._every_command(lacking.closed_streams)
        self.assertIn(BODY.encode(), there.server.bodies)

    def no_command_minds_a_closed_input(self):
        self._every_command(lacking.closed_input)

    def no_command_minds_a_closed_output(self):
        self._every_command(lacking.closed_output)

    def no_command_minds_closed_errors(self):
        self._every_command(lacking.closed_errors)

    def no_command_minds_a_full_output(self):
        self._every_command(lacking.full_output)

    def no_command_minds_full_errors(self):
        self._every_command(lacking.full_errors)

    def no_command_crashes_without_a_reader(self):
        self._every_command(lacking.gone_reader, -signal.SIGPIPE)

    def no_command_spins_or_crashes_at_a_reader_that_hangs(self):
        self._every_command(lacking.hanging_reader, lacking.BLOCKED)

    def no_command_crashes_for_want_of_descriptors(self):
        self._every_command(lacking.few_descriptors)

    def no_command_crashes_for_want_of_memory(self):
        if lacking.least_memory() > 0:
            with open("large", "wb") as file:
                file.write(b"x" * (3 * lacking.MEMORY_STEP))
            for more in (5, 9, 12):
                self._every_command(lambda more=more: lacking.little_memory(more))

    def no_command_crashes_at_a_file_that_may_not_grow(self):
        self._every_command(lacking.files_that_do_not_grow)


class Effects(unittest.TestCase):
    """The exit status of a command that changes something tells what it did."""

    LOST = (lacking.full_output, lacking.gone_reader, lacking.closed_output, lacking.closed_streams)
    ANSWER = {"id": task_id(), "state": "succeeded", "run": "1", "redrive": "1", "taken": 1,
              "pending": 0, "succeeded": 1, "failed": 0, "matched": 1, "redriven": 1}

    def _ends(self, wanted, *arguments):
        """In each world."""
        for number, world in enumerate(self.LOST):
            with self.subTest(world=world.__name__):
                told = [argument.replace("NUMBER", str(number)) for argument in arguments]
                status, said = lacking.run(world, *told, HOME=os.getcwd())
                self.assertEqual(status, wanted, said)

    def _recorder(self, *statuses):
        recorder = lacking.Recorder(statuses, json.dumps(self.ANSWER).encode())
        self.addCleanup(recorder.close)
        return recorder

    def a_request_that_was_sent_is_sent(self):
        target = self._recorder(200)
        self._ends(DONE, "send", target.url(), "--data", BODY, "--spool", "spool")
        self.assertEqual(target.bodies, [BODY.encode()] * len(self.LOST))

    def a_request_that_was_kept_is_kept(self):
        self._ends(SPOOLED, "send", "http://127.0.0.1:1/", "--data", BODY, "--attempts", "1", "--spool",
                   "spool")
        self.assertEqual(len(list(pathlib.Path("spool").glob("*.request"))), len(self.LOST))

    def a_request_that_was_refused_is_refused(self):
        target = self._recorder(422)
        self._ends(FAILED, "send", target.url(), "--data", BODY, "--spool", "spool")
        self.assertFalse(pathlib.Path("spool").exists())

    def a_flush_tells_what_it_sent(self):
        target = self._recorder(503, 200)
        for _ in self.LOST:
            lacking.run(dict, "send", target.url(), "--data", BODY, "--attempts", "1", "--spool", "spool")
            status, said = lacking.run(self.LOST[0], "flush", "--spool", "spool")
            self.assertEqual((status, list(pathlib.Path("spool").glob("*.request"))), (DONE, []), said)

    def what_was_dropped_is_dropped(self):
        for world in self.LOST:
            lacking.run(dict, "send", "http://127.0.0.1:1/", "--attempts", "1", "--spool", "spool")
            status, said = lacking.run(world, "spool", "drop", "--all", "--spool", "spool")
            self.assertEqual((status, list(pathlib.Path("spool").glob("*.request"))), (DONE, []), said)

    def what_the_server_took_is_done(self):
        api = ("--server", self._recorder(200).url().rstrip("/"))
        for command in (("enqueue", "q", "--data", BODY), ("run", "q"), ("run", "--task", task_id()),
                        ("settle", task_id(), "succeeded"), ("dead", "redrive", task_id()),
                        ("dead", "redrive", "--all"), ("dead", "resolve", task_id()),
                        ("dead", "cancel", "1"), ("summarize", "--no-wait", "article.md")):
            with self.subTest(command):
                pathlib.Path("article.md").write_text(ARTICLE)
                self._ends(DONE, *command, *api)

    def what_was_carried_is_carried(self):
        made = lacking.run(dict, "import", "--store", "sqlite:a.db", given=EXPORT)
        self.assertEqual(made[0], DONE, made)
        self._ends(DONE, "export", "--store", "sqlite:a.db", "--output", "lines-NUMBER")
        self._ends(DONE, "import", "--store", "sqlite:b.db", "--input", "lines-0")
        self._ends(DONE, "compact", "--store", "sqlite:b.db")

    def what_is_only_shown_has_to_arrive(self):
        api = ("--server", self._recorder(200).url().rstrip("/"))
        for command in (("help",), ("version",), ("--version",), ("send", "--help"), ("serve", "--help"),
                        ("retry", "--help"), ("dead", "--help"), ("key", "http://x/"),
                        ("show", task_id(), *api), ("dead", "redrive", "--all", "--dry-run", *api)):
            for world in (lacking.full_output, lacking.closed_output):
                with self.subTest(command=command, world=world.__name__):
                    status, said = lacking.run(world, *command)
                    self.assertEqual(status, FAILED)
                    self.assertIn(b"cannot write the output", said)

    def an_input_that_is_not_there_is_not_an_empty_one(self):
        target = self._recorder(200)
        status, said = lacking.run(lacking.closed_input, "send", target.url(), "--data", "-", "--spool",
                                   "spool")
        self.assertEqual((status, target.bodies), (FAILED, []))
        self.assertIn(b"cannot read standard input", said)


class Serving(unittest.TestCase):
    def _serve(self, world, store):
        """(exit status after TERM, ready or not)."""
        port = ports.lasting()
        pathlib.Path("daruma.yaml").write_text(json.dumps(
            {"store": store, "api": {"listen": f"127.0.0.1:{port}"}, "queues": [{"name": "q"}]}))
        settings = world()
        process = subprocess.Popen([BIN, "serve", "-c", "daruma.yaml"], env=lacking.environment(),
                                   **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
                                      "stderr": subprocess.DEVNULL, **settings})
        until = time.monotonic() + lacking.SECONDS_MAX
        is_ready = False
        while not is_ready and process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):
                called = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                called.request("POST", "/v1/queues/q/tasks", json.dumps(
                    {"target": "http://127.0.0.1:1/", "delay_ms": 3600000}))
                is_ready = called.getresponse().status > 0
                called.close()
            time.sleep(0.02)
        if process.poll() is None:
            process.terminate()
        return process.wait(lacking.SECONDS_MAX), is_ready

    def a_server_without_streams_writes_only_its_own_files(self):
        for world in (lacking.closed_streams, lacking.closed_errors, lacking.full_errors,
                      lacking.gone_reader):
            for store in ("json:q.json", "sqlite:q.db"):
                with self.subTest(world=world.__name__, store=store):
                    self.assertEqual(self._serve(world, store), (DONE, True))
                    for path in pathlib.Path(".").iterdir():
                        self.assertNotIn(b"level=", path.read_bytes(), path)
                        self.assertNotIn(b'"level"', path.read_bytes(), path)

    def a_server_that_lacks_what_it_needs_says_so_and_ends(self):
        for store in ("json:q.json", "sqlite:q.db"):
            self.assertIn(self._serve(lacking.files_that_do_not_grow, store)[0], (DONE, FAILED))

    def a_server_with_too_few_descriptors_says_so_and_ends(self):
        for store in ("json:q.json", "sqlite:q.db"):
            for most in range(4, 13):
                with self.subTest(store=store, most=most):
                    world = functools.partial(lacking.few_descriptors, most)
                    self.assertEqual(self._serve(world, store), (FAILED, False))


if __name__ == "__main__":
    runner.main()
