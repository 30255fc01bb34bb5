# SPDX-License-Identifier: MIT
"""Real clients, unmodified, through the gateway: stripe, orb-billing, svix, openai and anthropic, each
against an upstream that cuts the connection, says 500, says 503, or is slow. Always one effect. On a
route with settled and a probe the call resolves; on hold and all it ends in the documented error, with the
route's other keys as they are when they are not written.
"""
import collections
import json
import threading
import unittest

import npm
import runner
import target as does
from gateway import Gateway, chosen, route
from target import Target, answer

# Each makes one call; what it resolves to, or the error it ends in, is printed.
CLIENTS = {
    "stripe": """
        const Stripe = require("stripe");
        const client = new (Stripe.default ?? Stripe)("sk_test_1", {host: "127.0.0.1",
            port: given.port, protocol: "http", maxNetworkRetries: 2, telemetry: false});
        call = () => client.customers.create({name: "n"});""",
    "orb": """
        const Orb = require("orb-billing");
        const client = new (Orb.default ?? Orb)({apiKey: "k", baseURL: base, maxRetries: 2});
        call = () => client.customers.create({email: "a@example.org", name: "n"});""",
    "svix": """
        const {Svix} = require("svix");
        const client = new Svix("t", {serverUrl: base, retryScheduleInMs: [50, 100, 200]});
        call = () => client.application.create({name: "n"});""",
    "openai": """
        const OpenAI = require("openai");
        const client = new (OpenAI.default ?? OpenAI)({apiKey: "k", baseURL: base + "/v1",
            maxRetries: 2, defaultHeaders: {"Idempotency-Key": given.key}});
        call = () => client.chat.completions.create({model: "m",
            messages: [{role: "user", content: "c"}]});""",
    "anthropic": """
        const Anthropic = require("@anthropic-ai/sdk");
        const client = new (Anthropic.default ?? Anthropic)({apiKey: "k", baseURL: base,
            maxRetries: 2, defaultHeaders: {"Idempotency-Key": given.key}});
        call = () => client.messages.create({model: "m", max_tokens: 1,
            messages: [{role: "user", content: "c"}]});""",
}
SCRIPT = """
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const base = `http://127.0.0.1:${given.port}`;
let call;
%s
call().then((made) => ({id: made.id ?? null, body: made}),
            (error) => ({error: error.constructor.name, status: error.status ?? error.statusCode ??
                         error.code ?? null, message: String(error.message)}))
      .then((said) => process.stdout.write(JSON.stringify(said), () => process.exit(0)));
"""
BODIES = {  # what the real service would say, as far as the client looks
    "stripe": {"id": "made", "object": "customer"}, "orb": {"id": "made"},
    "svix": {"id": "made", "name": "n", "metadata": {}, "createdAt": "2026-01-01T00:00:00Z",
             "updatedAt": "2026-01-01T00:00:00Z"},
    "openai": {"id": "made", "object": "chat.completion", "choices": []},
    "anthropic": {"id": "made", "type": "message", "content": []},
}
OOPS = b'{"error": {"type": "api_error", "message": "oops"}}'  # stripe reads nothing else
FAILURES = ("drop", "500", "503", "slow")
PROBE = {"request": "GET /by-key/{key}", "every": "50ms", "settle_after": "0s", "misses": 500,
         "status": 200}


class Service:
    """Each POST is an effect under its key; the first one of a key fails as it is told."""

    def __init__(self, test, name, failure):
        self.body = json.dumps(BODIES[name]).encode()
        self.failure = failure
        self.lock = threading.Lock()
        self.effects = collections.Counter()
        self.refused = set()
        self.target = Target(self.choose)
        test.addCleanup(self.target.close)

    def choose(self, request):
        made = answer(200, {"Content-Type": "application/json"}, self.body)
        with self.lock:
            if request.method == "GET":
                key = request.path.rsplit("/", 1)[1]
                return made if self.effects[key] else answer(404)
            if self.failure == "503" and request.key not in self.refused:
                self.refused.add(request.key)  # says that it did nothing, and did nothing
                return answer(503, {"Retry-After": "0"}, b"{}")
            self.effects[request.key] += 1
            is_first = self.effects[request.key] == 1
        if not is_first or self.failure == "503":
            return made
        return {"drop": does.read_then_reset, "500": answer(500, {}, OOPS),
                "slow": self.slow}[self.failure]

    def slow(self, connection, _request):
        threading.Event().wait(0.4)
        return answer(200, {"Content-Type": "application/json"}, self.body)(connection, None)


class Clients(unittest.TestCase):
    def _call(self, name, failure, **more):
        """What the client's program was given, and the effects that it had."""
        service = Service(self, name, failure)
        more = {"scope": "header:x-api-key" if name == "anthropic" else "header:authorization",
                **more}
        gateway = Gateway(self, [route(service.target, "POST /*", retry_after="1s", **more)],
                          store=chosen("memory")).start()
        said = npm.node(SCRIPT % CLIENTS[name],
                        {"port": gateway.gateway_port, "key": f"{name}-{failure}"})
        gateway.finish()
        return said, service.effects

    def _resolves(self, name):
        for failure in FAILURES:
            with self.subTest(name=name, failure=failure):
                said, effects = self._call(name, failure, replay="settled", ambiguous="probe", probe=PROBE)
                self.assertEqual(said.get("id"), "made", said)
                self.assertEqual(list(effects.values()), [1], effects)

    def _ends(self, name):
        """On hold nobody finds out: no time-out is a created object. Under all a 500 is the result."""
        for failure, more in (("drop", {}), ("slow", {"timeout": "200ms"}), ("drop", {"in_progress": "conflict"}),
                              ("slow", {"timeout": "200ms", "in_progress": "wait", "replay": "settled"})):
            with self.subTest(name=name, failure=failure, **more):
                said, effects = self._call(name, failure, **more)
                self.assertEqual((said.get("status"), list(effects.values())), (409, [1]), said)
        said, effects = self._call(name, "500", replay="all")
        self.assertEqual((said.get("status"), list(effects.values())), (500, [1]), said)

    def stripe_resolves_where_the_gateway_can_ask(self):
        npm.install()
        self._resolves("stripe")

    def orb_resolves_where_the_gateway_can_ask(self):
        npm.install()
        self._resolves("orb")

    def svix_resolves_where_the_gateway_can_ask(self):
        npm.install()
        self._resolves("svix")

    def openai_resolves_where_the_gateway_can_ask(self):
        npm.install()
        self._resolves("openai")

    def anthropic_resolves_where_the_gateway_can_ask(self):
        npm.install()
        self._resolves("anthropic")

    def each_client_ends_in_the_documented_error_where_it_cannot(self):
        npm.install()
        for name in CLIENTS:
            with self.subTest(name=name):
                self._ends(name)

    def a_client_that_reuses_a_key_is_told_not_to_try_again(self):
        npm.install()
        service = Service(self, "openai", "slow")
        gateway = Gateway(self, [route(service.target, "POST /*", scope="header:authorization")],
                          store=chosen("memory")).start()
        given = {"port": gateway.gateway_port, "key": "one"}
        self.assertEqual(npm.node(SCRIPT % CLIENTS["openai"], given)["id"], "made")
        other = CLIENTS["openai"].replace('content: "c"', 'content: "other"')
        said = npm.node(SCRIPT % other, given)
        self.assertEqual((said["status"], "onflict" in said["message"]), (409, True), said)
        self.assertEqual(len(service.target.seen()), 1)
        refused = [line for line in gateway.get("/metrics").body.decode().splitlines()
                   if line.startswith("daruma_key_conflicts_total ")]
        self.assertEqual(refused, ["daruma_key_conflicts_total 1"])  # and it was not sent again


if __name__ == "__main__":
    runner.main()
