# SPDX-License-Identifier: MIT
"""`daruma serve` as a test sees it: started on a free port in the test's own folder, stopped,
killed, started again on what it left behind, and talked to.

The configuration is written as JSON, which is YAML too.
"""
import http.client
import json
import os
import signal
import subprocess
import threading

import postgres
from program import BIN

START_SECONDS = 30
STOP_SECONDS = 40
CALL_SECONDS = 70
SETTLE_MS = 30000
LINES_SHOWN = 100
THREADS = os.environ.get("DARUMA_THREADS")  # of every server that says nothing else
CHOSEN = os.environ.get("DARUMA_STORE")  # for all tests that are about behaviour, not about a store
if CHOSEN == "postgres":
    postgres.shared()  # before the tests are forked


def chosen(otherwise):
    """The store for a test that would do on any."""
    return CHOSEN or otherwise


class Answer:
    """What the API said; `json` is None when it is not JSON."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.json = json.loads(body) if "json" in headers.get("content-type", "") else None

    @property
    def code(self):
        return self.json.get("code") if isinstance(self.json, dict) else None

    def __repr__(self):
        return f"{self.status} {self.body!r}"


class Line:
    """One line of the log."""

    def __init__(self, text):
        self.text = text

    @property
    def fields(self):
        return dict(part.split("=", 1) for part in self.text.split(" ") if "=" in part)

    @property
    def event(self):
        return self.fields.get("event")


class Server:
    """One configuration in one folder, and the process that runs it at the moment, if any."""

    def __init__(self, test=None, store=chosen("sqlite"), queues=(), folder=".", **more):
        self.folder = os.path.abspath(folder)
        self.process = None
        self.port = None
        self.environment = {}  # besides the test's own
        self.tls = None  # the ssl.SSLContext to talk to it with, when it speaks TLS
        self.lines = []  # of every process so far
        self._changed = threading.Condition()
        self._reader = None
        self.store = self._store(store)
        self.configure(queues=list(queues), **more)
        if test is not None:  # what it said is shown when the test fails
            test.addCleanup(lambda: print(self.said(-LINES_SHOWN)))
            test.addCleanup(self.finish)

    def _store(self, store):
        """As in the configuration. A URL is taken as it is; "postgres" is a new database."""
        if store == "memory" or "://" in store:
            return store
        if store == "postgres":
            return postgres.shared().url(postgres.shared().new())
        return f"{store}:{self.store_path(store)}"

    def store_path(self, store=None):
        return os.path.join(self.folder, "var", f"tasks.{store or self.store.split(':')[0]}")

    def configure(self, **more):
        """Writes the configuration anew; it is read at the next start."""
        if self.store.startswith("postgres"):  # what a kill cut short is recovered soon
            more["limits"] = {"node_lease": "1s", **more.get("limits", {})}
        self.config = {"store": self.store, "api": {"listen": "127.0.0.1:0"},
                       **({"threads": int(THREADS)} if THREADS else {}), **more}
        self.path = os.path.join(self.folder, "daruma.yaml")
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.config, file)

    # --- the process ------------------------------------------------------------------------

    def launch(self):
        """Starts the process and waits for nothing."""
        self.process = subprocess.Popen([BIN, "serve", "-c", self.path],
                                        cwd=self.folder, env={**os.environ, **self.environment},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()

    def start(self):
        """Until it is ready."""
        first = len(self.lines)
        self.launch()
        ready = self.wait_line("ready", first)
        self.port = int(ready.fields["api"].rsplit(":", 1)[1])
        return self

    def _read(self, process):
        for text in process.stderr:
            with self._changed:
                self.lines.append(Line(text.decode(errors="replace").rstrip("\n")))
                self._changed.notify_all()
        with self._changed:
            process.has_said_all = True
            self._changed.notify_all()

    def wait_line(self, event, first=0, **fields):
        """The first line of that event, with those fields, from line number `first` on."""
        def matches(line):
            return line.event == event and all(line.fields.get(name) == str(value)
                                               for name, value in fields.items())
        def look():
            if any(matches(line) for line in self.lines[first:]):
                return True
            return getattr(self.process, "has_said_all", False)
        with self._changed:
            self._changed.wait_for(look, START_SECONDS)
            for line in self.lines[first:]:
                if matches(line):
                    return line
        raise AssertionError(f"no {event} {fields} in:\n{self.said(first)}")

    def said(self, first=0):
        return "\n".join(line.text for line in self.lines[first:])

    def end(self):
        """Waits for the process to end by itself: its exit status."""
        status = self.process.wait(STOP_SECONDS)
        self._reader.join(STOP_SECONDS)
        self.process.stderr.close()
        self.process = None
        return status

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def stop(self):
        self.signal()
        return self.end()

    def kill(self):
        """Its exit status: -9, unless it had ended by itself."""
        if self.process is None:
            return None
        self.process.kill()
        return self.end()

    def finish(self):
        """After a test: stopped at once, in good order, which a sanitizer may have a word on."""
        if self.process is None:
            return
        first = len(self.lines)
        self.signal()
        self.wait_line("stopping", first)
        self.signal()
        status = self.end()
        if status != 0:
            raise AssertionError(f"stopped with status {status}")

    def restart(self):
        self.kill()
        return self.start()

    # --- its API ----------------------------------------------------------------------------

    def connect(self, seconds=CALL_SECONDS):
        if self.tls is not None:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=seconds,
                                               context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def call(self, method, path, body=None, headers=None, connection=None):
        """`body` that is not bytes is sent as JSON."""
        own = connection or self.connect()
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        try:
            own.request(method, path, body, headers or {})
            got = own.getresponse()
            said = {name.lower(): value for name, value in got.getheaders()}
            return Answer(got.status, said, got.read())
        finally:
            if connection is None:
                own.close()

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.call("POST", path, body, **more)

    def create(self, queue="q", call_headers=None, **task):
        """The answer to one new task."""
        return self.post(f"/v1/queues/{queue}/tasks", task, headers=call_headers)

    def add(self, queue="q", **task):
        """The id of a new task, which must be taken."""
        got = self.create(queue, **task)
        if got.status != 201:
            raise AssertionError(f"not created: {got}")
        return got.json["id"]

    def task(self, identity, wait_ms=0):
        got = self.get(f"/v1/tasks/{identity}" + (f"?wait_ms={wait_ms}" if wait_ms else ""))
        if got.status != 200:
            raise AssertionError(f"no task: {got}")
        return got.json

    def settled(self, identity):
        """The task once it is settled or unsettled: a long poll."""
        task = self.task(identity, SETTLE_MS)
        if task["state"] in ("waiting", "running"):
            raise AssertionError(f"it does not end: {task}")
        return task


def on_each_store(*stores):
    """For a TestCase whose methods take a store: one claim for each of them and each store, or the one
    that was chosen."""
    stores = [store for store in stores if CHOSEN in (None, store)]

    def bind(member, store):
        return lambda self: member(self, store)

    def decorate(kind):
        if "postgres" in stores:
            postgres.shared()  # before the tests are forked
        for name, member in list(vars(kind).items()):
            if name[0] != "_" and callable(member):
                delattr(kind, name)
                for store in stores:
                    setattr(kind, f"{name}_on_{store}", bind(member, store))
        return kind
    return decorate
