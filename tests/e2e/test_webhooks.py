# SPDX-License-Identifier: MIT
"""Signed deliveries (`sign`), read by the library that receivers use: the npm package
standardwebhooks."""
import base64
import os
import unittest

import npm
import runner
from server import Server, chosen
from target import Target, answer

OLD = "whsec_" + base64.b64encode(b"the old secret of 24 bytes").decode()
NEW = "whsec_" + base64.b64encode(bytes(range(32))).decode()
PLAIN = "a-plain-secret-of-more-than-24-letters"
VERIFY = """
const { Webhook } = require("standardwebhooks");
const given = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify(given.map(({ secret, raw, headers, body }) => {
  const webhook = new Webhook(secret, raw ? { format: "raw" } : undefined);
  try {
    webhook.verify(Buffer.from(body, "base64"), headers, { jsonParse: false });
    return "ok";
  } catch (error) {
    return error.message;
  }
})));
"""


def read(request, secret, raw=False, body=None, **changed):
    """One for VERIFY."""
    headers = {name: value for name, value in request.headers.items() if "webhook" in name}
    return {"secret": secret, "raw": raw, "headers": {**headers, **changed},
            "body": base64.b64encode(request.body if body is None else body).decode()}


class Webhooks(unittest.TestCase):
    def _server(self, *sign, store=chosen("memory"), **target):
        os.environ.update(OLD_SECRET=OLD, NEW_SECRET=NEW, PLAIN_SECRET=PLAIN)
        self.target = Target()
        url = self.target.url("/hook")
        queue = {"name": "hooks", "targets": [{"name": "t", "url": url, "sign": list(sign),
                                               **target}],
                 "policy": {"max_attempts": 3, "transient": {"backoff": "fixed", "base": "1100ms"}}}
        return Server(self, store=store, queues=[queue]).start()

    def _verdicts(self, *readings):
        npm.install()
        return npm.node(VERIFY, readings)

    def a_receiver_can_verify_what_it_gets(self):
        server = self._server("env:NEW_SECRET")
        identity = server.add("hooks", json={"type": "user.created", "data": {"id": 1}})
        [got] = self.target.wait_for(1)
        self.assertEqual(got.headers["webhook-id"], identity)
        self.assertAlmostEqual(int(got.headers["webhook-timestamp"]), got.wall, delta=5)
        self.assertEqual(self._verdicts(read(got, NEW), read(got, OLD), read(got, NEW, body=b"{}"),
                                        read(got, NEW, **{"webhook-id": "other"}),
                                        read(got, NEW, **{"webhook-timestamp": str(int(got.wall))
                                                          + "0"})),
                         ["ok"] + ["No matching signature found"] * 3
                         + ["Message timestamp too new"])

    def bodies_are_signed_byte_for_byte(self):
        server = self._server("env:NEW_SECRET")
        bodies = [b"", b"\0", b"a\0b\0", b'{"a":\t1.10 ,"a":2}\n', "日本語 ✓".encode(), b"x" * 200000]
        for body in bodies:
            server.add("hooks", body_base64=base64.b64encode(body).decode())
        seen = self.target.wait_for(len(bodies))
        self.assertEqual(sorted(one.body for one in seen), sorted(bodies))
        self.assertEqual(self._verdicts(*(read(one, NEW) for one in seen)), ["ok"] * len(bodies))

    def with_two_secrets_receivers_may_know_either(self):
        server = self._server("env:NEW_SECRET", "env:OLD_SECRET")
        server.add("hooks", json=1)
        [got] = self.target.wait_for(1)
        self.assertEqual(len(got.headers["webhook-signature"].split(" ")), 2)
        self.assertEqual(self._verdicts(read(got, NEW), read(got, OLD), read(got, PLAIN, raw=True)),
                         ["ok", "ok", "No matching signature found"])

    def a_secret_without_a_prefix_is_its_own_bytes(self):
        with open("secret", "w", encoding="ascii") as file:
            file.write(PLAIN + "\n")
        server = self._server("file:" + os.path.abspath("secret"))
        server.add("hooks", json=1)
        [got] = self.target.wait_for(1)
        self.assertEqual(self._verdicts(read(got, PLAIN, raw=True)), ["ok"])

    def a_retry_has_the_same_id_and_a_time_of_its_own(self):
        server = self._server("env:NEW_SECRET")
        self.target.script("/hook", answer(503), answer(200))
        server.add("hooks", json=1)
        first, second = self.target.wait_for(2)
        self.assertEqual(first.headers["webhook-id"], second.headers["webhook-id"])
        self.assertLess(int(first.headers["webhook-timestamp"]),
                        int(second.headers["webhook-timestamp"]))
        self.assertEqual(self._verdicts(read(first, NEW), read(second, NEW)), ["ok", "ok"])

    def nothing_of_a_queues_target_goes_to_another_origin(self):
        secret = {"Authorization": "Bearer CRM-SECRET", "X-Shop": "kept"}
        server = self._server("env:NEW_SECRET", headers=[
            {"name": name, "value": value} for name, value in secret.items()])
        other = Target()
        self.addCleanup(other.close)
        for target in (self.target, other):
            for path, status in (("/hook", 200), ("/own", 200), ("/bad", 400)):
                target.script(path, answer(status))
        server.add("hooks", json={})  # the queue's target
        server.add("hooks", json={}, target=self.target.url("/own"))  # the same origin
        for got in self.target.wait_for(2):
            self.assertEqual(got.headers["authorization"], secret["Authorization"])
            self.assertIn("webhook-signature", got.headers)
        elsewhere = other.url("/own")
        server.add("hooks", json={}, target=elsewhere)
        server.add("hooks", json={}, target=self.target.url("/own").replace("127.0.0.1", "localhost"))
        failed = server.add("hooks", json={}, target=self.target.url("/bad"))
        server.settled(failed)
        got = server.post(f"/v1/dead-letters/{failed}:redrive", {"target": elsewhere})
        self.assertEqual(got.status, 202)
        seen = other.wait_for(2) + [one for one in self.target.wait_for(4)
                                    if one.headers["host"].startswith("localhost")]
        self.assertEqual(len(seen), 3)
        for got in seen:
            self.assertFalse({"authorization", "x-shop", "webhook-signature", "webhook-id"} &
                             set(got.headers), got.headers)
            self.assertIn("x-daruma-task", got.headers)

    def callbacks_are_signed_wherever_they_go(self):
        os.environ["NEW_SECRET"] = NEW
        told, target = Target(), Target()
        for one in (told, target):
            self.addCleanup(one.close)
            one.script("/", answer(200))
        server = Server(self, queues=[{"name": "q"}, {"name": "_callbacks", "targets": [
            {"name": "usual", "url": target.url(), "sign": ["env:NEW_SECRET"],
             "headers": [{"name": "X-Secret", "value": "s"}]}]}]).start()
        for url in (told.url(), target.url()):
            server.add("q", target=target.url(), callback={"url": url})
        [got] = told.wait_for(1)
        self.assertIn("webhook-signature", got.headers)
        self.assertNotIn("x-secret", got.headers)
        seen = [one for one in target.wait_for(3) if "webhook-signature" in one.headers]
        self.assertEqual([one.headers["x-secret"] for one in seen], ["s"])

    def a_callback_may_be_written_with_escapes(self):
        target = Target()
        self.addCleanup(target.close)
        target.script("/", answer(200))
        server = Server(self, queues=[{"name": "q"}]).start()
        told = [target.script(path, answer(200)) for path in ("/one", "/two")]
        for name, url, events in (("u\\u0072l", told[0], ""),
                                  ("\\u0075rl", told[1], ', "\\u006fn": ["succeeded"]')):
            made = server.post("/v1/queues/q/tasks", (
                f'{{"target": "{target.url()}", "callb\\u0061ck": {{"{name}": "{url}"{events}}}}}'
            ).encode())
            self.assertEqual(made.status, 201, made)
        target.wait_for(1, "/one")
        target.wait_for(1, "/two")

    def a_task_cannot_bring_a_signature_of_its_own(self):
        server = self._server("env:NEW_SECRET")
        server.add("hooks", json=1, headers={"Webhook-Id": "mine", "webhook-signature": "v1,mine",
                                             "WEBHOOK-TIMESTAMP": "1"})
        [got] = self.target.wait_for(1)
        self.assertNotIn("mine", str(got.headers))
        self.assertEqual(self._verdicts(read(got, NEW)), ["ok"])

    def a_queue_made_by_the_api_names_its_secret_and_never_shows_it(self):
        server = self._server("env:NEW_SECRET", store="sqlite")
        made = {"targets": [{"name": "t", "url": self.target.url("/made"),
                             "sign": ["env:OLD_SECRET"]}]}
        put = server.call("PUT", "/v1/queues/made", made)
        self.assertEqual(put.status, 201, put)
        server.restart()
        shown = server.get("/v1/queues/made")
        self.assertEqual(shown.json["settings"]["targets"][0]["sign"], ["env:OLD_SECRET"])
        server.add("made", json=1)
        [got] = self.target.wait_for(1, "/made")
        self.assertEqual(self._verdicts(read(got, OLD)), ["ok"])
        for text in (put.body, shown.body, server.get("/v1/queues").body):
            self.assertNotIn(OLD[6:].encode(), text)
        server.stop()
        with open(server.store_path(), "rb") as file:
            self.assertNotIn(OLD[6:].encode(), file.read())

    def what_cannot_be_a_secret_is_refused_by_name(self):
        server = self._server("env:NEW_SECRET")
        os.mkfifo("pipe")
        with open("short", "w", encoding="ascii") as file:
            file.write("whsec_c2hvcnQ=")
        with open("broken", "w", encoding="ascii") as file:
            file.write("whsec_not*base64*not*base64*not*base64")
        for reference, words in [
                ("env:NOT_THERE", "the environment variable NOT_THERE is not set"),
                ("file:" + os.path.abspath("nowhere"), "cannot be read"),
                ("file:" + os.path.abspath("pipe"), "cannot be read"),  # and nothing hangs
                ("file:" + os.path.abspath("short"), "has 5 bytes, expected at least 24"),
                ("file:" + os.path.abspath("broken"), "base64 after whsec_"),
                (NEW, "expected env:NAME or file:PATH"), (7, "expected env:NAME or file:PATH")]:
            target = {"name": "t", "url": self.target.url(), "sign": ["env:NEW_SECRET", reference]}
            got = server.call("PUT", "/v1/queues/bad", {"targets": [target]})
            self.assertEqual((got.status, got.json["field"]), (400, "targets[0].sign[1]"), got)
            self.assertIn(words, got.json["detail"])
            self.assertNotIn(NEW[6:], got.body.decode())

    def without_its_secret_a_queue_is_held(self):
        server = self._server("env:NEW_SECRET", store=chosen("sqlite"))
        made = {"targets": [{"name": "t", "url": self.target.url(), "sign": ["env:OLD_SECRET"]}]}
        self.assertEqual(server.call("PUT", "/v1/queues/made", made).status, 201)
        server.post("/v1/queues/made:pause")
        task = server.add("made", json=1)
        server.stop()
        del os.environ["OLD_SECRET"]  # unsigned deliveries would be worse than none
        server.start()
        held = server.wait_line("queue_held", queue="made", reason="settings")
        self.assertIn("targets[0].sign[0]: the environment variable OLD_SECRET is not set", held.text)
        self.assertEqual(server.post("/v1/queues/made:resume").status, 200)
        got = server.create("made", json=2)
        self.assertEqual((got.status, got.code), (409, "queue_held"))
        self.assertEqual(server.task(task)["state"], "waiting")
        self.assertEqual(self.target.seen(), [])


if __name__ == "__main__":
    runner.main()
