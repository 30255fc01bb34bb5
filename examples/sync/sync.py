# SPDX-License-Identifier: MIT
"""Document E's retries, seen happening: run.sh starts this. Exit status 0 when every task ended as
the document says, 1 when one did not.
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request

from target import Target

HERE = os.path.dirname(os.path.abspath(__file__))
QUEUE = "bigquery-sync"
SCALE = 100  # without --real, every wait is this many times shorter
POLL_MS = 60000

# What docs/requirements.md, part E, wants: name, what the target is told to do, how it ends, tries, waits
# in seconds.
CASES = (
    ("transient, heals", "503 503 200", "succeeded", 3, (1, 2)),
    ("transient, never heals", "cut", "failed", 10, (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    ("timeout, heals", "hang 200", "succeeded", 2, (1,)),
    ("rate limit (429)", "429", "failed", 4, (10, 10, 10)),
    ("authentication (401)", "401", "failed", 1, ()),
    ("authentication (403)", "403", "failed", 1, ()),
    ("bad data (400)", "400", "failed", 1, ()),
    ("nothing wrong", "200", "succeeded", 1, ()),
)


def settings(target, scale):
    """The queue, as PUT /v1/queues/bigquery-sync wants it: durations as in the configuration."""
    def duration(seconds):
        return f"{seconds * 1000 // scale}ms"
    return {
        "policy": {
            "max_attempts": 10,
            "transient": {"backoff": "exponential", "base": duration(1), "cap": duration(3600),
                          "jitter": "none"},
            "rate_limited": {"max_attempts": 4, "backoff": "fixed", "base": duration(10)},
        },
        "targets": [{"name": "bigquery", "url": target.url, "timeout": "500ms"}],
    }


class Server:
    """`daruma serve` in a folder that is thrown away."""

    def __init__(self, folder):
        config = os.path.join(HERE, "daruma.yaml")
        self.process = subprocess.Popen([os.environ["DARUMA_BIN"], "serve", "-c", config],
                                        cwd=folder, stderr=subprocess.PIPE, text=True)
        self.said, self.url = [], None
        self.is_ready = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        self.is_ready.wait()
        if self.url is None:
            sys.exit("the server does not start:\n" + "".join(self.said))

    def _listen(self):
        """Reads its log to the end; on the way, where it can be reached."""
        for line in self.process.stderr:
            self.said.append(line)
            if " event=ready " in line:
                self.url = line.split(" api=")[1].split()[0]
                self.is_ready.set()
        self.is_ready.set()

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

    def stop(self):
        self.process.terminate()
        self.process.wait()


def enqueue(server, number, behave):
    return server.call("POST", f"/v1/queues/{QUEUE}/tasks", {
        "json": {"userId": "u1", "sessionId": f"s{number}", "tableName": "sessions"},
        "headers": {"x-behave": behave},
        "key": f"sync-s{number}",
        "labels": {"sessionId": f"s{number}"},
    })["id"]


def seconds(milliseconds):
    return f"{milliseconds / 1000:g}"


def show(case, task, scale):
    """One line for a task; true when it ended as the document says."""
    name, behave, state, tries, waits = case
    waited = [row["wait_ms"] for row in task["trail"][:-1]]
    is_right = (task["state"], task["attempts"], waited) == \
        (state, tries, [wait * 1000 // scale for wait in waits])
    print(f"{'ok' if is_right else 'NO':3}{name:24}{behave:13}{task['state']:10}"
          f"{task['attempts']:3} {'try  ' if task['attempts'] == 1 else 'tries'}  "
          f"{' '.join(seconds(wait * scale) for wait in waited)}")
    return is_right


def run(server, target, scale):
    server.call("PUT", f"/v1/queues/{QUEUE}", settings(target, scale))
    print(f"PUT {server.url}/v1/queues/{QUEUE}: made, with the retry settings of the document")
    ids = [enqueue(server, number, case[1]) for number, case in enumerate(CASES)]
    print(f"POST {server.url}/v1/queues/{QUEUE}/tasks: {len(ids)} tasks, each on disk\n")
    if scale > 1:
        print(f"Waits are 1/{scale} of the real ones; the real ones are shown, in seconds.")
    print(f"   {'category':24}{'target says':13}{'ends':10}{'after':11} waits")
    results = [show(case, server.wait(identity), scale) for case, identity in zip(CASES, ids)]
    failed = server.call("GET", f"/v1/queues/{QUEUE}/tasks?state=failed")["tasks"]
    print(f"\nKept for a person to look at (state=failed): {len(failed)} of {len(ids)}; "
          f"the target saw {len(target.seen)} requests.")
    return all(results)


def main():
    if sys.argv[1:] not in ([], ["--real"]):
        sys.exit("usage: run.sh [--real]")
    scale = 1 if sys.argv[1:] == ["--real"] else SCALE
    with tempfile.TemporaryDirectory(prefix="daruma-sync-") as folder:
        target = Target()
        server = Server(folder)
        try:
            is_right = run(server, target, scale)
        except KeyboardInterrupt:
            sys.exit(130)
        finally:
            server.stop()
    print("Every category ended as docs/requirements.md, part E, says." if is_right else "That is not what it says.")
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
