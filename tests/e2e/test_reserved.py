# SPDX-License-Identifier: MIT
"""Queues whose names begin with _ are the server's own: callbacks and the requests of routes. Callers
put nothing into them, whatever their role; operators go on looking after them."""
import json
import threading
import unittest

import gateway
import runner
from polling import until
from server import Server
from target import Target, answer, hold

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OWN = ("_callbacks", "_route.POST-v1-orders", "_route.none", "_x", "_")
BATCH = [{"target": "http://127.0.0.1:9/"}, {"target": "http://127.0.0.1:9/"}]


def metric(server, name):
    for line in server.get("/metrics").body.decode().split("\n"):
        if line.split(" ")[0] == name:
            return int(line.split(" ")[1])
    raise AssertionError(f"no {name}")


class Reserved(unittest.TestCase):
    def nothing_is_put_into_the_servers_own_queues(self):
        server, target = gateway.setup(self)
        target.script("/v1/orders", answer(200))
        task = {"target": target.url("/forged"), "key": "k", "json": {}}
        for queue in OWN:
            for method, path, body in (("POST", "/tasks", task), ("POST", "/tasks:batch", BATCH),
                                       ("POST", "/tasks", {**task, "delay_ms": 1000}),
                                       ("POST", "/leases", {"wait_ms": 1000}), ("PUT", "", {}),
                                       ("DELETE", "", None), ("DELETE", "?force=true", None)):
                got = server.call(method, f"/v1/queues/{queue}{path}", body)
                self.assertEqual((got.status, got.code), (403, "queue_reserved"), (queue, path))
        self.assertEqual(target.seen("/forged"), [])
        # A route of scope global whose key a producer could take before.
        self.assertEqual(server.send(key="k").status, 200)

    def operators_go_on_looking_after_them(self):
        server, target = gateway.setup(self)
        target.script("/v1/orders", answer(200))
        target.script("/told", answer(400))
        self.assertEqual(server.send(key="k").status, 200)
        self.assertEqual(server.call("PUT", "/v1/queues/q", {}).status, 201)
        identity = server.add("q", target=target.url("/v1/orders"),
                              callback={"url": target.url("/told")})
        server.settled(identity)
        told = server.get("/v1/queues/_callbacks/tasks").json["tasks"][0]["id"]
        self.assertEqual(server.settled(told)["state"], "failed")
        letters = server.get("/v1/dead-letters?queue=_callbacks").json["dead_letters"]
        self.assertEqual([letter["id"] for letter in letters], [told])
        target.script("/told", answer(200))
        for edit in ({"target": target.url("/victim")}, {"json": {"state": "forged"}},
                     {"headers": {"x": "y"}}):
            got = server.post(f"/v1/dead-letters/{told}:redrive", edit)
            self.assertEqual((got.status, got.code), (403, "queue_reserved"), edit)
        self.assertEqual(server.post(f"/v1/dead-letters/{told}:redrive", {}).status, 202)
        self.assertEqual(server.settled(told)["state"], "succeeded")
        for queue in ("_callbacks", "_route.POST-v1-orders"):
            for verb in ("pause", "resume", "run", "purge"):
                got = server.post(f"/v1/queues/{queue}:{verb}")
                self.assertIn(got.status, (200, 202), (queue, verb, got))
            self.assertEqual(server.get(f"/v1/queues/{queue}").status, 200)

    def a_batch_for_a_route_leaves_no_connection_behind(self):
        server, _target = gateway.setup(self)
        before = metric(server, "daruma_http_connections")
        path = "/v1/queues/_route.POST-v1-orders/tasks:batch"
        seen = []

        def send():
            with_it = server.connect(5)
            seen.append(server.post(path, BATCH, connection=with_it).status)
            with_it.close()
        callers = [threading.Thread(target=send) for _ in range(20)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        self.assertEqual(seen, [403] * 20)
        until(lambda: metric(server, "daruma_http_connections") <= before)

    def nobody_forges_or_suppresses_a_callback(self):
        target = Target()
        self.addCleanup(target.close)
        done = threading.Event()
        target.script("/work", hold(done))
        target.script("/told", answer(200))
        server = Server(self, queues=[
            {"name": "q"},
            {"name": "_callbacks", "targets": [{"name": "usual", "url": target.url("/"),
                                                "sign": ["env:CALLBACK_SECRET"]}]}])
        server.environment["CALLBACK_SECRET"] = SECRET
        server.start()
        identity = server.add("q", target=target.url("/work"), callback={"url": target.url("/told")})
        target.wait_for(1, "/work")
        got = server.create("_callbacks", target=target.url("/told"), key=f"cb:{identity}:0",
                            json={"id": identity, "state": "failed"})
        self.assertEqual(got.code, "queue_reserved")
        done.set()
        target.wait_for(1, "/told")
        told = target.seen("/told")
        self.assertEqual([json.loads(one.body)["state"] for one in told], ["succeeded"])
        self.assertIn("webhook-signature", told[0].headers)
        self.assertEqual(metric(server, "daruma_callbacks_total"), 1)
        self.assertEqual(metric(server, "daruma_callbacks_lost_total"), 0)


if __name__ == "__main__":
    runner.main()
