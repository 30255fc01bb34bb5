# SPDX-License-Identifier: MIT
"""Document D, seen happening: run.sh starts this. Exit status 0 when every article came to the end
that the document says, 1 when one did not.
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from standins import StandIn

HERE = os.path.dirname(os.path.abspath(__file__))
SCALE = 3000  # every wait is this many times shorter: 5 minutes are 100 ms
MINUTE = 60000 // SCALE
POLL_MS = 60000

# What each provider is told to do, the last of it for ever; then how it ends, by whom, after how many
# tries, and the waits in minutes.
CASES = (
    ("nothing wrong", ["ok"], ["ok"], "succeeded", "openai", 1, ()),
    ("OpenAI limited (429)", ["rate_limit_bare"], ["ok"], "succeeded", "claude", 1, ()),
    ("OpenAI quota exceeded", ["quota"], ["ok"], "succeeded", "claude", 1, ()),
    ("OpenAI overloaded", ["overload"], ["ok"], "succeeded", "claude", 1, ()),
    ("OpenAI hangs", ["hang"], ["ok"], "succeeded", "claude", 1, ()),
    ("OpenAI spend limit, Claude 500", ["spend_limit", "ok"], ["500"], "succeeded", "openai", 2,
     (5,)),
    ("both limited, twice", ["rate_limit_bare", "rate_limit_bare", "ok"], ["rate_limit_bare"],
     "succeeded", "openai", 3, (5, 10)),
    ("both down for good", ["500"], ["overload"], "failed", None, 6, (5, 10, 20, 40, 80)),
    ("too long for OpenAI only", ["invalid"], ["ok"], "succeeded", "claude", 1, ()),
    ("too long for both", ["invalid"], ["413"], "failed", None, 1, ()),
)


def queue_settings():
    """As PUT /v1/queues/articles wants it: the policy `articles`, with shorter waits."""
    rule = {"backoff": "exponential", "base": f"{5 * MINUTE}ms", "cap": "24h", "jitter": "none"}
    return {"policy": {"max_attempts": 6, "transient": rule, "rate_limited": rule, "quota": rule},
            "fallback": ["openai", "claude"]}


class Server:
    """`daruma serve` in a folder that is thrown away."""

    def __init__(self, folder):
        self.folder, self.said = folder, []
        self.start()

    def start(self):
        self.url, is_ready = None, threading.Event()
        self.process = subprocess.Popen(
            [os.environ["DARUMA_BIN"], "serve", "-c", os.path.join(HERE, "daruma.yaml")],
            cwd=self.folder, stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, args=(self.process, is_ready),
                         daemon=True).start()
        is_ready.wait()
        if self.url is None:
            sys.exit("the server does not start:\n" + "".join(self.said))

    def _listen(self, process, is_ready):
        """Reads its log to the end; on the way, where it can be reached."""
        for line in process.stderr:
            self.said.append(line)
            if " event=ready " in line:
                self.url = line.split(" api=")[1].split()[0]
                is_ready.set()
        is_ready.set()

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def add(self, number):
        return self.call("POST", "/v1/queues/articles/tasks", {"article": {
            "id": f"article-{number}", "title": f"記事 {number}",
            "content": "七転び八起き。何度倒れても、また立ち上がる。"}})["id"]

    def settled(self, identity):
        """The task when it has ended: one long poll after the other."""
        while True:
            task = self.call("GET", f"/v1/tasks/{identity}?wait_ms={POLL_MS}")
            if task["state"] not in ("waiting", "running"):
                return task

    def tried(self, identity, attempts):
        """The task when it waits again after so many attempts."""
        while True:
            task = self.call("GET", f"/v1/tasks/{identity}")
            if task["state"] == "waiting" and task["attempts"] >= attempts:
                return task
            time.sleep(0.01)

    def events(self, *names):
        return [line.split(" event=")[1].strip() for line in self.said
                if any(f" event={name} " in line for name in names)]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def minutes(milliseconds):
    return f"{milliseconds / MINUTE:g}"


def show(is_right, name, *columns):
    print("   ".join([f"{'ok' if is_right else 'NO':3}{name:31}", *columns]).rstrip())
    return is_right


def run_case(server, providers, number, case):
    name, openai, claude, state, by, tries, waits = case
    providers["openai"].behave(*openai)
    providers["claude"].behave(*claude)
    task = server.settled(server.add(number))
    waited = [row["wait_ms"] for row in task["trail"] if row["wait_ms"]]
    got = (task["state"], task.get("settled_by") if state == "succeeded" else None,
           task["attempts"], waited)
    return show(got == (state, by, tries, [wait * MINUTE for wait in waits]), name,
                f"{task['state']:9}", f"{got[1] or '-':6}", f"{task['attempts']}",
                " ".join(minutes(wait) for wait in waited))


def run_date(server, providers):
    """A spend limit with a date far ahead: no wait above a day; a person's word ends it (D2.3, D4)."""
    providers["openai"].behave("quota")
    providers["claude"].behave("spend_limit")
    identity = server.add("date")
    task = server.tried(identity, 1)
    is_right = task["next_wait_ms"] == 86400000
    providers["claude"].behave("ok")
    server.call("POST", "/v1/queues/articles:run")
    task = server.settled(identity)
    return show(is_right and task["settled_by"] == "claude", "spend limit to 2099, manual run",
                f"{task['state']:9}", f"{task['settled_by']:6}", f"{task['attempts']}",
                minutes(86400000 / SCALE) + ", the most there is")


def run_kill(server, providers):
    """The queue is a file: what waits survives kill -9 (D5)."""
    providers["openai"].behave("quota")
    providers["claude"].behave("500")
    waiting = [server.tried(server.add(f"kept-{number}"), 1) for number in range(2)]
    server.kill()
    with open(os.path.join(server.folder, "var", "articles.json"), encoding="utf-8") as file:
        text = file.read()
    is_right = all(task["id"] in text for task in waiting)
    providers["openai"].behave("ok")
    server.start()
    server.call("POST", "/v1/queues/articles:run")
    tasks = [server.settled(task["id"]) for task in waiting]
    is_right = is_right and all(task["state"] == "succeeded" for task in tasks)
    return show(is_right, "kill -9, two in the queue", "succeeded", "openai")


def run(server, providers):
    server.call("PUT", "/v1/queues/articles", queue_settings())
    print("Waits are 1/3000 of the real ones; the real ones are shown, in minutes.")
    print(f"   {'what happens':31}   {'ends':9}   {'by':6}   tries waits")
    results = [run_case(server, providers, number, case) for number, case in enumerate(CASES)]
    results.append(run_date(server, providers))
    results.append(run_kill(server, providers))
    metrics = urllib.request.urlopen(server.url + "/metrics").read().decode()
    print("\nWhat the log has to say about it (D3, D6.4), some of it:")
    for name in ("queue_length queue=articles", "provider_succeeded", "task_retry",
                 "task_failed_permanently", "run_done queue=articles kind=scheduled",
                 "run_done queue=articles kind=manual", "queue_empty"):
        for line in server.events(name)[:1]:
            print("  " + line)
    print("and the metrics:")
    for line in metrics.splitlines():
        if line.startswith(("daruma_provider_tokens", "daruma_provider_cost")):
            print("  " + line)
    return all(results)


def main():
    if sys.argv[1:]:
        sys.exit("usage: run.sh")
    providers = {"openai": StandIn("openai"), "claude": StandIn("anthropic")}
    os.environ.update(OPENAI_URL=providers["openai"].url, OPENAI_API_KEY="sk-example-openai",
                      ANTHROPIC_URL=providers["claude"].url, ANTHROPIC_API_KEY="sk-example-claude")
    with tempfile.TemporaryDirectory(prefix="daruma-articles-") as folder:
        server = Server(folder)
        try:
            is_right = run(server, providers)
        except KeyboardInterrupt:
            sys.exit(130)
        finally:
            server.stop()
    print("Every article ended as docs/requirements.md, part D, says." if is_right else "That is not what it says.")
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
