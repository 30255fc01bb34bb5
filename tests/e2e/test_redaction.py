# SPDX-License-Identifier: MIT
"""Secrets reach nobody but their target (I10): each place that can hold one is given one of its own,
and then everything that the program says is searched for all of them."""
import json
import os
import subprocess
import unittest

import runner
from program import BIN
from server import Server
from target import Target, answer

SIGN = "sesame-sign-" + "x" * 24
MARK = "sesame-"


class Redaction(unittest.TestCase):
    def _server(self):
        self.target = Target()
        os.environ["SIGN"] = SIGN
        url = self.target.script("/hook;sid=sesame-path/?api_key=sesame-queue-query&page=1;sig=sesame-mark", answer(
            200, {"Set-Cookie": "id=sesame-set-cookie", "X-Auth-Token": "sesame-answer-token"}))
        queue = {"name": "hooks", "targets": [
            {"name": "t", "url": url, "sign": ["env:SIGN"],
             "headers": [{"name": "x-anything", "value": "sesame-queue-header"},
                         {"name": "authorization", "value": "Bearer sesame-queue-auth"}]}]}
        return Server(self, queues=[queue, {"name": "q"}],
                      log={"level": "debug", "format": "kv"}).start()

    def _run(self, server, *arguments):
        ran = subprocess.run([BIN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**os.environ, "DARUMA_URL": f"http://127.0.0.1:{server.port}"},
                             check=False, timeout=60)
        return ran.stdout.decode(errors="replace")

    def _expect_clean(self, said, where):
        self.assertNotIn(MARK, said, f"in {where}")

    def _create(self, server):
        """Tasks that succeed, fail and are refused, each full of secrets."""
        headers = {"Authorization": "Bearer sesame-task-auth", "x-api-key": "sesame-task-key",
                   "cookie": "a=sesame-task-cookie", "X-Vault-Token": "sesame-task-token"}
        moved = self.target.script("/moved?token=sesame-moved", answer(
            302, {"Location": "http://u:sesame-user@h/;sid=sesame-path?sig=sesame-location#pw=sesame-end",
                  "Content-Location": "/a;sid=sesame-content"}))
        lost = self.target.script("/lost", answer(
            302, {"Location": "/" + 5000 * "x" + "?sig=sesame-long"}))
        return [
            server.add("hooks", json={}, headers=headers),
            server.add(target=self.target.url("/own?a=1;token=sesame-mark&access_token=sesame-task-query&b=c"),
                       headers=headers),
            server.add(target=moved, headers=headers),
            server.add(target=lost, headers={"Referer": "http://h/?a;sig=sesame-referer"}),
            server.add(target="http://127.0.0.1:1/?password=sesame-refused", headers=headers,
                       retry={"max_attempts": 1}),
            server.add(target="http://nowhere.invalid/?key=sesame-unresolved", headers=headers,
                       retry={"max_attempts": 1}),
        ]

    def nothing_that_is_said_holds_a_secret(self):
        server = self._server()
        made = {"targets": [{"name": "t", "url": self.target.url("/?secret=sesame-put-query"),
                             "sign": ["env:SIGN"],
                             "headers": [{"name": "x-a", "value": "sesame-put-header"}]}]}
        said = {"PUT": server.call("PUT", "/v1/queues/made", made).body.decode()}
        tasks = self._create(server)
        for number, identity in enumerate(tasks):
            server.settled(identity)
            said[f"task {number}"] = server.get(f"/v1/tasks/{identity}").body.decode()
            said[f"show {number}"] = self._run(server, "show", identity)
            said[f"show --json {number}"] = self._run(server, "show", "--json", identity)
        self.assertEqual(json.loads(said["task 0"])["state"], "succeeded", said["task 0"])
        for path in ("/metrics", "/v1/queues", "/v1/queues/hooks", "/v1/queues/made",
                     "/v1/queues/hooks/tasks", "/v1/queues/q/tasks", "/readyz", "/healthz"):
            got = server.get(path)
            self.assertEqual(got.status, 200, path)
            said[path] = got.body.decode()
        for command in (["queues"], ["queues", "--json"], ["tasks", "q"], ["tasks", "q", "--json"],
                        ["tasks", "hooks"], ["check", "-c", server.path],
                        ["check", "--json", "-c", server.path], ["run", "q"]):
            said[" ".join(command)] = self._run(server, *command)
        server.stop()
        said["the log"] = server.said()
        for where, text in said.items():
            self._expect_clean(text, where)
        self.assertIn("/hook;sid=(hidden)/?api_key=(hidden)&page=1;sig=(hidden)", said["/v1/queues/hooks"])  # it was looked at
        self.assertIn("/own?a=1;token=(hidden)&access_token=(hidden)&b=c", said["task 1"])
        self.assertIn("event=ready", said["the log"])

    def the_target_gets_all_of_it(self):
        server = self._server()
        server.settled(server.add("hooks", json={}, headers={"x-api-key": "sesame-task-key"}))
        [got] = self.target.seen()
        self.assertEqual(got.path, "/hook;sid=sesame-path/?api_key=sesame-queue-query&page=1;sig=sesame-mark")
        self.assertEqual(got.headers["x-api-key"], "sesame-task-key")
        self.assertEqual(got.headers["x-anything"], "sesame-queue-header")
        self.assertEqual(got.headers["authorization"], "Bearer sesame-queue-auth")

    def what_is_refused_is_not_repeated(self):
        server = self._server()
        answers = [server.create(**task) for task in (
            {"target": "http://user:sesame-password@127.0.0.1/"},
            {"target": "http://127.0.0.1/?token=sesame query"},
            {"target": "http://127.0.0.1/", "headers": {"authorization": "sesame-line\nx: y"}},
            {"target": "http://127.0.0.1/", "headers": {"x-api-key": ["sesame-list"]}},
            {"target": "http://127.0.0.1/?token=(hidden)"})]
        answers += [server.call("PUT", "/v1/queues/bad", {"targets": [{"name": "t", **target}]})
                    for target in (
            {"url": "http://user:sesame-password@h/"}, {"url": "ftp://h/?token=sesame-scheme"},
            {"url": "http://h", "sign": ["sesame-secret-itself-and-not-its-name"]},
            {"url": "http://h", "sign": "sesame-secret-itself-and-not-its-name"},
            {"url": "http://h", "headers": [{"name": "a", "value": "sesame\nline"}]})]
        for number, got in enumerate(answers):
            self.assertEqual(got.status, 400, got)
            self._expect_clean(got.body.decode(), number)
        server.stop()
        self._expect_clean(server.said(), "the log")

    def a_configuration_that_is_wrong_is_described_without_its_secrets(self):
        os.environ.update(TOKEN="sesame-token", SIGN="sesame-short")
        for config in (
                {"api": {"tokens": [{"name": "a", "role": "admin", "token": "env:TOKEN"},
                                    {"name": "b", "role": "admin", "token": "env:TOKEN"}]}},
                {"api": {"tokens": [{"name": "a", "role": "admin", "token": "sesame-token"}]}},
                {"queues": [{"name": "q", "targets": [{"name": "t", "url": "http://h",
                                                       "sign": ["env:SIGN"]}]}]},
                {"queues": [{"name": "q", "targets": [{"name": "t",
                                                       "url": "http://u:${TOKEN}@h"}]}]}):
            with open("bad.yaml", "w", encoding="utf-8") as file:
                json.dump(config, file)
            for command in ("check", "serve"):
                ran = subprocess.run([BIN, command, "-c", "bad.yaml"], stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, check=False, timeout=60)
                self.assertEqual(ran.returncode, 1)
                self._expect_clean(ran.stdout.decode(), command)


if __name__ == "__main__":
    runner.main()
