# SPDX-License-Identifier: MIT
"""The server under measurement: started on a configuration of its own, paused, loaded, killed, and
asked for its counters."""
import http.client
import json
import re
import signal
import subprocess
import threading
import time

from process import Unmeasured, cpu_seconds, end, free_port, resident_bytes, say_last, wait_until

CALL_SECONDS = 60
BATCH = 100
LOADERS = 4
QUEUE = "q"
TASKS = f"/v1/queues/{QUEUE}/tasks"
BODY_BYTES = 400


def payload():
    """400 bytes of JSON."""
    value = {"order": "123456", "note": ""}
    value["note"] = "x" * (BODY_BYTES - len(json.dumps(value)))
    return json.dumps(value)


TASK = '{"json": %s}' % payload()


class Server:
    """daruma serve in a folder; `store` is memory, sqlite or the URL of a PostgreSQL."""

    def __init__(self, program, place, store="sqlite", target_port=9, concurrency=64,
                 host_concurrency=None, queues=1, threads=1, **limits):
        """Without a target_port the queue has no target of its own. Several queues are alike."""
        self.program, self.place = program, place
        self.port = free_port()
        self.log = place / "serve.log"
        self.process = None
        target = {"name": "t", "url": f"http://127.0.0.1:{target_port}/"}
        queue = {"name": QUEUE, "targets": [target], "concurrency": concurrency,
                 "host_concurrency": host_concurrency or concurrency}
        if target_port is None:
            del queue["targets"]
        self.names = [QUEUE] + [f"{QUEUE}{number}" for number in range(1, queues)]
        is_whole = store == "memory" or "://" in store
        config = {"store": store if is_whole else f"{store}:{place}/tasks.db",
                  "api": {"listen": f"127.0.0.1:{self.port}"}, "log": {"level": "warn"}, "threads": threads,
                  "queues": [{**queue, "name": name} for name in self.names]}
        if limits:
            config["limits"] = limits
        (place / "daruma.yaml").write_text(json.dumps(config))  # JSON is YAML

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process is not None:
            end(self.process)

    def start(self):
        """The seconds until it said that it was ready."""
        began = time.monotonic()
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen([self.program, "serve", "-c", "daruma.yaml"],
                                            cwd=self.place, stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output)
        wait_until(self.is_ready, "daruma serve", pause=0.002)
        return time.monotonic() - began

    def is_ready(self):
        if self.process.poll() is not None:
            raise Unmeasured(f"daruma serve does not start: {say_last(self.log)}")
        try:
            return self.call("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    def cpu(self):
        return cpu_seconds(self.pid)

    def resident(self):
        return resident_bytes(self.pid)

    # --- its API ------------------------------------------------------------------------------

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_SECONDS)

    def call(self, method, path, body=None, connection=None):
        own = connection or self.connect()
        try:
            own.request(method, path, body)
            answer = own.getresponse()
            return answer.status, answer.read()
        finally:
            if connection is None:
                own.close()

    def act(self, path):
        status, text = self.call("POST", path)
        if status not in (200, 204):
            raise Unmeasured(f"POST {path}: {status} {text[:200]!r}")

    def pause(self):
        self.act(f"/v1/queues/{QUEUE}:pause")

    def resume(self):
        self.act(f"/v1/queues/{QUEUE}:resume")

    def metric(self, name):
        found = re.search(rf"^{name} (\d+)$", self.call("GET", "/metrics")[1].decode(), re.M)
        if not found:
            raise Unmeasured(f"/metrics has no {name}")
        return int(found.group(1))

    def succeeded(self):
        return self.metric("daruma_tasks_succeeded_total")

    def wait_succeeded(self, count, seconds=170):
        """Every task has succeeded; more than one attempt for one of them is no measurement."""
        wait_until(lambda: self.succeeded() >= count, f"{count} deliveries", seconds, pause=0.02)
        if self.metric("daruma_tasks_retried_total") > 0:
            raise Unmeasured("some deliveries failed")

    def load(self, count, text_of=None):
        """That many tasks, BATCH in a call, over a few connections; text_of(i) is the i-th task."""
        turn, lock, faults = iter(range(0, count, BATCH)), threading.Lock(), []

        def send():
            connection = self.connect()
            try:
                while not faults:
                    with lock:
                        first = next(turn, None)
                    if first is None:
                        break
                    few = min(BATCH, count - first)
                    texts = [TASK] * few if text_of is None else [text_of(i) for i in
                                                                  range(first, first + few)]
                    status, text = self.call("POST", f"{TASKS}:batch",
                                             f"[{','.join(texts)}]".encode(), connection)
                    if status != 200 or b'"error"' in text:
                        faults.append(f"batch: {status} {text[:200]!r}")
            except OSError as error:
                faults.append(f"batch: {error}")
            finally:
                connection.close()

        threads = [threading.Thread(target=send) for _ in range(LOADERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise Unmeasured(faults[0])
