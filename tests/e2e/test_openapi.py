# SPDX-License-Identifier: MIT
"""docs/openapi.json: it is valid OpenAPI, its examples are what its schemas say, and so are the answers
of the real server, call by call."""
import http.client
import json
import os
import unittest

import npm
import runner
from server import Server, chosen
from target import Target, answer, read_then_close

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs",
                        "openapi.json")
STORE = chosen("sqlite")

VALIDATE = """
const given = JSON.parse(require("fs").readFileSync(0));
import(require.resolve("@seriousme/openapi-schema-validator"))
    .then(({Validator}) => new Validator().validate(given))
    .then(result => console.log(JSON.stringify(result.valid ? [] : result.errors)));
"""

CONFORM = """
const Ajv = require("ajv/dist/2020").default;
const addFormats = require("ajv-formats").default || require("ajv-formats");
const given = JSON.parse(require("fs").readFileSync(0));
const ajv = new Ajv({strict: false, allErrors: true});
addFormats(ajv);
ajv.addSchema({$id: "https://daruma.test/api", ...given.document});
const wrong = [];
for (const [name, pointer, instance] of given.pairs) {
    const check = ajv.compile({$ref: "https://daruma.test/api#" + pointer});
    if (!check(instance)) {
        wrong.push([name, check.errors, instance]);
    }
}
console.log(JSON.stringify(wrong));
"""


def load():
    with open(DOCUMENT, encoding="utf-8") as file:
        return json.load(file)


def pointer(*parts):
    return "".join("/" + part.replace("~", "~0").replace("/", "~1").replace("%", "%25")
                   .replace("{", "%7B").replace("}", "%7D") for part in parts)


def contents(document):
    """(name, place, content) for each request and response body."""
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            places = [(("requestBody",), call.get("requestBody"))]
            places += [(("responses", status), answer)
                       for status, answer in call["responses"].items()]
            for place, holder in places:
                for kind, content in (holder or {}).get("content", {}).items():
                    yield (f"{method} {path} {place[-1]}",
                           ("paths", path, method, *place, "content", kind), content)


class Checked:
    """Calls a server by the document's words and keeps what is to be held against it."""

    def __init__(self, server, document):
        self.server, self.document, self.pairs, self.done = server, document, [], set()

    def __call__(self, status, method, path, body=None, query="", **names):
        call = self.document["paths"][path][method.lower()]
        where = path
        for name, value in names.items():
            where = where.replace("{" + name + "}", value)
        got = self.server.call(method, where + query, body)
        place = call["responses"][str(status)]
        at = ("paths", path, method.lower(), "responses", str(status))
        if "$ref" in place:
            at = tuple(place["$ref"][2:].split("/"))
            place = self.document["components"]["responses"][at[-1]]
        kind = got.headers.get("content-type", "").split(";")[0]
        if got.status != status or kind not in place.get("content", {kind: None}):
            raise AssertionError(f"{method} {where}: {got}")
        if got.json is not None:
            self.pairs.append((f"{method} {where} {status}",
                               pointer(*at, "content", kind, "schema"), got.json))
        if body is not None and status < 400:
            self.pairs.append((f"{method} {where} request",
                               pointer("paths", path, method.lower(), "requestBody", "content",
                                       "application/json", "schema"), body))
        self.done.add((method.lower(), path))
        return got.json


class OpenApi(unittest.TestCase):
    def the_document_is_valid(self):
        npm.install()
        self.assertEqual(npm.node(VALIDATE, load()), [])

    def every_example_is_what_its_schema_says(self):
        npm.install()
        document = load()
        pairs = [(name, pointer(*place, "schema"), content["example"])
                 for name, place, content in contents(document) if "example" in content]
        self.assertGreaterEqual(len(pairs), 19)
        self.assertEqual(npm.node(CONFORM, {"document": document, "pairs": pairs}), [])

    def every_new_call_has_an_example_of_its_answer(self):
        missing = [name for name, _place, content in contents(load())
                   if any(word in name for word in ("lease", "dead", "redrive", "settle",
                                                    "audit")) and "example" not in content]
        self.assertEqual(missing, [])

    def what_the_server_answers_is_what_the_document_says(self):
        npm.install()
        document = load()
        target = Target()
        self.addCleanup(target.close)
        target.script("/cut", read_then_close)
        target.script("/bad", answer(500))
        server = Server(self, STORE, [
            {"name": "pull", "policy": {"max_attempts": 2,
                                        "transient": {"backoff": "fixed", "base": "1h"}}},
            {"name": "push", "policy": {"max_attempts": 1},
             "targets": [{"name": "t", "url": target.url("/bad")}]},
            {"name": "once", "targets": [{"name": "t", "url": target.url("/cut"),
                                          "repeatable": False}]}],
            gateway={"listen": "127.0.0.1:0"},
            routes=[{"match": "POST /v1/orders", "upstream": target.url("").rstrip("/"),
                     "scope": "global"}]).start()
        ask = Checked(server, document)
        self._tasks(ask, server)
        self._leases(ask)
        self._letters(ask, server)
        self._unsettled(ask, server)
        self._keys(ask, server)
        self._operations(ask)
        left = {(method, path) for path, calls in document["paths"].items() for method in calls}
        self.assertEqual(left - ask.done, set())
        self.assertEqual(npm.node(CONFORM, {"document": document, "pairs": ask.pairs}), [])

    def _keys(self, ask, server):
        port = int(server.wait_line("gateway_ready").fields["gateway"].rsplit(":", 1)[1])
        caller = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        caller.request("POST", "/v1/orders", b"{}", {"Idempotency-Key": "k"})
        caller.getresponse().read()
        caller.close()
        keys = ask(200, "GET", "/v1/keys", query="?route=POST-v1-orders&key=k")["keys"]
        ask(204, "POST", "/v1/keys/{id}:forget", id=keys[0]["task"])
        ask(404, "GET", "/v1/keys", query="?route=nobody")

    def _tasks(self, ask, server):
        one = ask(201, "POST", "/v1/queues/{queue}/tasks",
                  {"json": {"row": 1}, "key": "k1", "labels": {"job_type": "sync"},
                   "delay_ms": 3600000}, queue="pull")
        ask(200, "POST", "/v1/queues/{queue}/tasks",
            {"json": {"row": 1}, "key": "k1", "labels": {"job_type": "sync"},
             "delay_ms": 3600000}, queue="pull")
        ask(409, "POST", "/v1/queues/{queue}/tasks", {"json": {"row": 2}, "key": "k1"},
            queue="pull")
        ask(404, "POST", "/v1/queues/{queue}/tasks", {"json": 1}, queue="nobody")
        ask(200, "POST", "/v1/queues/{queue}/tasks:batch", [{"body": "a"}, {"target": "ftp://x/"}],
            queue="pull")
        ask(200, "GET", "/v1/queues/{queue}/tasks", queue="pull", query="?limit=1")
        ask(200, "GET", "/v1/tasks/{id}", id=one["id"])
        ask(200, "POST", "/v1/tasks/{id}:run", id=one["id"])
        waiting = server.add("push", body="x", delay_ms=3600000)
        ask(200, "POST", "/v1/tasks/{id}:cancel", id=waiting)
        ask(409, "POST", "/v1/tasks/{id}:cancel", id=waiting)

    def _leases(self, ask):
        got = ask(200, "POST", "/v1/queues/{queue}/leases", {"max": 10, "lease_ms": 20000,
                                                             "wait_ms": 1000}, queue="pull")
        leases = [each["lease"] for each in got["leases"]]
        self.assertEqual(len(leases), 2)
        ask(200, "POST", "/v1/leases:settle", {
            "extend": [{"lease": leases[0], "lease_ms": 20000}]})
        got = ask(200, "POST", "/v1/leases:settle", {
            "acks": [{"lease": leases[0], "response": {"status": 201, "body": "done"}}],
            "retries": [{"lease": leases[1], "error": {"class": "invalid", "message": "no"}},
                        {"lease": "lost"}]})
        self.assertEqual([each["result"] for each in got["results"]],
                         ["settled", "settled", "stale"])
        ask(409, "POST", "/v1/queues/{queue}/leases", {}, queue="push")
        ask(400, "POST", "/v1/queues/{queue}/leases", {"max": 0}, queue="pull")
        ask(400, "POST", "/v1/leases:settle", {"acks": [{}]})

    def _letters(self, ask, server):
        for number in range(3):
            server.settled(server.add("push", json={"row": number}, key=f"row-{number}"))
        got = ask(200, "GET", "/v1/dead-letters", query="?queue=push&status=failed")
        first, second = [letter["id"] for letter in got["dead_letters"]][:2]
        ask(200, "GET", "/v1/dead-letters/{id}", id=first)
        ask(202, "POST", "/v1/dead-letters/{id}:redrive", {"json": {"row": 9}}, id=first)
        server.settled(first)
        ask(200, "GET", "/v1/dead-letters/{id}", id=first)
        ask(200, "POST", "/v1/dead-letters/{id}:resolve", {"note": "by hand"}, id=second)
        ask(409, "POST", "/v1/dead-letters/{id}:resolve", {}, id=second)
        ask(200, "POST", "/v1/dead-letters:redrive", {"filter": {"queue": "push"},
                                                      "dry_run": True})
        got = ask(202, "POST", "/v1/dead-letters:redrive",
                  {"filter": {"queue": "push", "class": "transient"}, "rate_per_second": 0.5})
        ask(200, "GET", "/v1/redrives/{redrive}", redrive=got["redrive"])
        ask(200, "POST", "/v1/redrives/{redrive}:cancel", redrive=got["redrive"])
        ask(404, "GET", "/v1/redrives/{redrive}", redrive="7")

    def _unsettled(self, ask, server):
        identity = server.add("once", body="x")
        self.assertEqual(server.settled(identity)["state"], "unsettled")
        ask(200, "GET", "/v1/unsettled")
        ask(200, "POST", "/v1/tasks/{id}:settle", {"outcome": "succeeded", "note": "seen",
                                                   "response": {"status": 201, "body": "y"}},
            id=identity)
        ask(409, "POST", "/v1/tasks/{id}:settle", {"outcome": "failed"}, id=identity)

    def _operations(self, ask):
        ask(201, "PUT", "/v1/queues/{queue}", {"policy": "sync", "outage": {}}, queue="new")
        ask(200, "GET", "/v1/queues")
        ask(200, "GET", "/v1/queues/{queue}", queue="push")
        for verb in ("pause", "resume", "purge"):
            ask(200, "POST", "/v1/queues/{queue}:" + verb, queue="new")
        run = ask(202, "POST", "/v1/queues/{queue}:run", queue="new")
        ask(200, "GET", "/v1/runs/{run}", run=run["run"])
        ask(204, "DELETE", "/v1/queues/{queue}", queue="new")
        ask(200, "GET", "/v1/audit")
        for path in ("/healthz", "/readyz", "/metrics", "/v1/hosts", "/v1/openapi.json"):
            ask(200, "GET", path)


if __name__ == "__main__":
    runner.main()
