# SPDX-License-Identifier: MIT
"""Document A's background queue, seen happening: run.sh starts this. Exit status 0 when every task
ended as the document says, 1 when one did not.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

from model import Model

HERE = os.path.dirname(os.path.abspath(__file__))
QUEUE = "bookmarks"
SCALE = 1000  # without --real, every wait is this many times shorter
UNIT_MS = 60000
LEASE_MS = 2000
POLL_MS = 60000

# Name, path of the bookmark (what the model does), how it ends, tries, waits in seconds.
KILLED = ("its worker is killed", "hang/200", "succeeded", 2, (120,))
CASES = (
    ("nothing wrong", "200", "succeeded", 1, ()),
    ("busy twice", "503/503/200", "succeeded", 3, (120, 240)),
    ("longer than a lease", "slow", "succeeded", 1, ()),
    ("cannot be read (400)", "400", "failed", 1, ()),
    ("always busy", "500", "failed", 5, (120, 240, 480, 960)),
)


def policy(scale):
    """llm_jobs is built in; faster, it has to be written out."""
    if scale == 1:
        return "llm_jobs"
    return {"max_attempts": 5, "transient": {"backoff": "exponential", "jitter": "none",
                                             "base": f"{2 * UNIT_MS // scale}ms", "cap": "24h"}}


class Process:
    """A program whose log is read to its end; its lines can be waited for."""

    started = []

    def __init__(self, arguments, folder):
        self.process = subprocess.Popen(arguments, cwd=folder, stderr=subprocess.PIPE, text=True)
        Process.started.append(self.process)
        self.lines, self._changed, self._is_over = [], threading.Condition(), False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def wait_for(self, event):
        """The first line of that event."""
        def found():
            return [line for line in self.lines if f" event={event}" in line]
        with self._changed:
            self._changed.wait_for(lambda: found() or self._is_over)
            if not found():
                sys.exit("it ended:\n" + "\n".join(self.lines))
            return found()[0]

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()
        return self.process.returncode

    def count(self, event):
        return sum(f" event={event} " in line for line in self.lines)


class Server(Process):
    def __init__(self, folder):
        super().__init__([os.environ["DARUMA_BIN"], "serve", "-c",
                          os.path.join(HERE, "daruma.yaml")], folder)
        self.url = self.wait_for("ready").split(" api=")[1].split()[0]

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def wait(self, identity):
        """The task when it has ended: one long poll after the other."""
        while True:
            task = self.call("GET", f"/v1/tasks/{identity}?wait_ms={POLL_MS}")
            if task["state"] not in ("waiting", "running"):
                return task

    def enqueue(self, number, case):
        """The document's message (A6.1), and what the dead letter is to show (A7)."""
        url = f"https://example.org/{case[1]}"
        return self.call("POST", f"/v1/queues/{QUEUE}/tasks", {
            "json": {"bookmark_id": f"b{number}", "attempt": 1, "max_attempts": 5,
                     "original_request": {"url": url, "idempotency_key": f"save-b{number}"}},
            "key": f"llm-b{number}",
            "labels": {"bookmark_id": f"b{number}", "job_type": "llm_processing"},
        })["id"]


def start_worker(server, model, scale, folder):
    return Process([os.environ["WORKER_BIN"], "--server", server.url, "--queue", QUEUE,
                    "--model", model.url, "--lease-ms", str(LEASE_MS),
                    "--unit-ms", str(UNIT_MS // scale)], folder)


def show(case, task, scale):
    """One line for a task; true when it ended as the document says."""
    name, path, state, tries, waits = case
    waited = [row["wait_ms"] for row in task["trail"][:-1]]
    is_right = (task["state"], task["attempts"], waited) == \
        (state, tries, [wait * 1000 // scale for wait in waits])
    print(f"{'ok' if is_right else 'NO':3}{name:22}{path:13}{task['state']:10}"
          f"{task['attempts']:3} {'try  ' if task['attempts'] == 1 else 'tries'}  "
          f"{' '.join(f'{wait * scale / 1000:g}' for wait in waited)}")
    return is_right


def show_letters(server):
    """A7: what the document's table failed_jobs holds."""
    letters = server.call("GET", f"/v1/dead-letters?queue={QUEUE}&status=failed")["dead_letters"]
    print("\nDead letters, each with what is kept of it:")
    for letter in letters:
        print(f"   bookmark_id={letter['labels']['bookmark_id']} job_type={letter['job_type']} "
              f"retryable={str(letter['retryable']).lower()} tries={letter['retry_count']} "
              f"error=\"{letter['error']['class']}: {letter['error']['message']}\"")
    return {letter["labels"]["bookmark_id"]: letter for letter in letters}


def kill_one(server, model, scale, folder):
    """A worker that dies with a task in its hands; the task's id."""
    worker = start_worker(server, model, scale, folder)
    identity = server.enqueue(0, KILLED)
    model.wait_for("b0")
    worker.end(signal.SIGKILL)
    print(f"kill -9 to a worker that holds a task: it is given back when the lease of {LEASE_MS} ms "
          "is over\n")
    return identity


def redrive(server, model, letter):
    """The model is mended; a person sends the dead letter again."""
    model.is_mended = True
    server.call("POST", f"/v1/dead-letters/{letter['id']}:redrive", {})
    server.wait(letter["id"])
    status = server.call("GET", f"/v1/dead-letters/{letter['id']}")["status"]
    print(f"\nThe model is mended; POST /v1/dead-letters/ID:redrive of the retryable one: {status}")
    return status == "resolved"


def run(server, model, scale, folder):
    server.call("PUT", f"/v1/queues/{QUEUE}",
                {"policy": policy(scale), "lease": f"{LEASE_MS}ms"})
    print(f"PUT {server.url}/v1/queues/{QUEUE}: no target, so tasks wait for workers")
    ids = [kill_one(server, model, scale, folder)]
    cases = (KILLED, *CASES)
    ids += [server.enqueue(number, case) for number, case in enumerate(CASES, 1)]
    worker = start_worker(server, model, scale, folder)
    if scale > 1:
        print(f"Waits are 1/{scale} of the real ones; the real ones are shown, in seconds.")
    print(f"   {'bookmark':22}{'model says':13}{'ends':10}{'after':11} waits")
    results = [show(case, server.wait(identity), scale) for case, identity in zip(cases, ids)]
    letters = show_letters(server)
    results.append({name: letter["retryable"] for name, letter in letters.items()} ==
                   {"b4": False, "b5": True})
    results.append(redrive(server, model, letters["b5"]))
    status = worker.end()
    print(f"SIGTERM to the worker: {worker.lines[-1].split(' event=')[1]}")
    print(f"The slow one was held by {worker.count('heartbeat')} heartbeats.")
    return all(results) and status == 0 and worker.count("heartbeat") > 0


def main():
    if sys.argv[1:] not in ([], ["--real"]):
        sys.exit("usage: run.sh [--real]")
    scale = 1 if sys.argv[1:] == ["--real"] else SCALE
    with tempfile.TemporaryDirectory(prefix="daruma-worker-") as folder:
        model, server = Model(), Server(folder)
        try:
            is_right = run(server, model, scale, folder)
        except KeyboardInterrupt:
            sys.exit(130)
        finally:
            model.over.set()
            for process in Process.started:  # those that have ended do not mind
                process.terminate()
                process.wait()
    print("Every task ended as docs/requirements.md, part A, says." if is_right else "That is not what it says.")
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
