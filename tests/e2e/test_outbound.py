# SPDX-License-Identifier: MIT
"""Where tasks may go (`outbound`), on the real program: what may not is refused before a byte is
sent, once and for all, however it is written and wherever a redirect leads."""
import os
import unittest

import runner
from gateway import Gateway, route
from server import Server, chosen
from target import Target, answer

PRIVATE = "(outbound.deny_private)"


class Guard(unittest.TestCase):
    def _server(self, outbound, queues=(), **more):
        return Server(self, store=chosen("memory"), queues=[{"name": "q"}, *queues], outbound=outbound,
                      **more).start()

    def _expect_refused(self, server, identity, words):
        task = server.settled(identity)
        self.assertEqual(task["state"], "failed", task)
        self.assertEqual(task["attempts"], 1)  # final: never tried again
        self.assertEqual(task["error"]["class"], "invalid")
        self.assertEqual(task["trail"][0]["sent"], "no")
        self.assertTrue(task["error"]["message"].startswith("outbound: "), task["error"])
        self.assertIn(words, task["error"]["message"])

    def private_addresses_are_refused_however_they_are_written(self):
        target = Target()
        server = self._server({"deny_private": True})
        hosts = ["127.0.0.1", "localhost", "LOCALHOST", "any.localhost", "[::1]",
                 "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "0.0.0.0", "0x7f000001",
                 "[64:ff9b::7f00:1]", "[2002:7f00:1::1]", "127.8.9.10"]
        for host in hosts:
            identity = server.add(target=f"http://{host}:{target.port}/x", body="b")
            self._expect_refused(server, identity, PRIVATE)
        for host in ["10.0.0.8", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
                     "[fd00::1]", "[fe80::1]"]:
            identity = server.add(target=f"http://{host}/latest/meta-data/", repeatable=False)
            self._expect_refused(server, identity, PRIVATE)
        self.assertEqual(target.connection_count, 0)

    def hosts_that_can_be_read_in_two_ways_are_refused_at_the_door(self):
        server = self._server({"deny_private": True})
        for host in ["2130706433", "0177.0.0.1", "127.1", "0x7f.1", "127.0.0.1.", "good@127.0.0.1",
                     "%6cocalhost", "ⓛocalhost"]:
            got = server.create(target=f"http://{host}/")
            self.assertEqual((got.status, got.json["field"]), (400, "target"), got)

    def the_targets_of_queues_are_held_to_it_too(self):
        target = Target()
        queue = {"targets": [{"name": "t", "url": target.url("/q")}]}
        server = self._server({"deny": ["127.0.0.0/8"]}, [{"name": "file", **queue}])
        self.assertEqual(server.call("PUT", "/v1/queues/made", queue).status, 201)
        for name in ("file", "made"):
            self._expect_refused(server, server.add(name), "127.0.0.1 is denied (outbound.deny)")
        self.assertEqual(target.connection_count, 0)

    def upstreams_of_the_gateway_may_be_private_and_nothing_else(self):
        target = Target()
        target.script("/v1/orders", answer(201, {}, b"done"))
        gateway = Gateway(self, [route(target, match="GET,POST /v1/orders")], queues=[{"name": "q"}],
                          outbound={"deny_private": True}, **{"pass": target.url("").rstrip("/")})
        gateway.start()
        self.assertEqual([gateway.send(key="k").status, gateway.send(method="GET", body=None).status,
                          gateway.send("/else").status], [201, 201, 200])
        self._expect_refused(gateway, gateway.add(target=target.url("/v1/orders")), PRIVATE)

    def a_kept_connection_to_a_private_upstream_is_not_lent_to_tasks(self):
        for threads in (1, 3):
            target = Target()
            upstream = f"http://localhost:{target.port}"
            gateway = Gateway(self, [{**route(target), "upstream": upstream}],
                              store=chosen("memory"), threads=threads, queues=[{"name": "q"}],
                              outbound={"deny_private": True}).start()
            self.assertEqual(gateway.send(key="k").status, 200)
            connections = target.connection_count
            self._expect_refused(gateway, gateway.add(target=upstream + "/secret"), PRIVATE)
            self.assertEqual(gateway.send(key="k2").status, 200)
            origin = gateway.add(target="http://10.0.0.8/", callback={"url": upstream + "/called"})
            self._expect_refused(gateway, origin, PRIVATE)
            callback = gateway.wait_line("task_failed_permanently", queue="_callbacks").fields["task"]
            self._expect_refused(gateway, callback, PRIVATE)
            self.assertEqual({one.path for one in target.seen()}, {"/v1/orders"})
            self.assertLessEqual(target.connection_count, connections + 1)

    def upstreams_of_the_gateway_are_held_to_other_rules(self):
        target = Target()
        gateway = Gateway(self, [route(target, match="GET,POST /v1/orders")],
                          outbound={"deny": ["127.0.0.0/8"]}).start()
        got = [gateway.send(key="k"), gateway.send(method="GET", body=None)]
        self.assertEqual([one.status for one in got], [502, 502])
        self.assertNotIn(b"127.0.0.1", got[0].body + got[1].body)  # callers are not told where it is
        self.assertIn("127.0.0.1", gateway.wait_line("pass_failed").text)
        self.assertEqual(target.connection_count, 0)

    def allow_by_name_lets_only_that_name_through(self):
        target = Target()
        server = self._server({"allow": ["LocalHost", "*.example.org"]})
        good = server.settled(server.add(target=f"http://localhost:{target.port}/x"))
        self.assertEqual(good["state"], "succeeded", good)
        for host in ["127.0.0.1", "example.org", "localhost.example.com"]:
            identity = server.add(target=f"http://{host}:{target.port}/x")
            self._expect_refused(server, identity, "is not allowed (outbound.allow)")
        self.assertEqual(len(target.seen()), 1)

    def allow_by_address_is_held_at_the_connection(self):
        target = Target()
        server = self._server({"allow": ["127.0.0.1"], "deny": ["denied.localhost"]})
        good = server.settled(server.add(target=f"http://some.localhost:{target.port}/x"))
        self.assertEqual(good["state"], "succeeded", good)
        identity = server.add(target=f"http://127.0.0.2:{target.port}/x")
        self._expect_refused(server, identity, "127.0.0.2 is not allowed")
        identity = server.add(target=f"http://Denied.localhost:{target.port}/x")
        self._expect_refused(server, identity, "Denied.localhost is denied")  # deny wins
        self.assertEqual(len(target.seen()), 1)

    def a_redirect_does_not_get_around_it(self):
        target = Target()
        server = self._server({"deny": ["127.0.0.2", "evil.localhost"], "redirects": 3})
        for place in [f"http://127.0.0.2:{target.port}/", f"http://0x7f000002:{target.port}/",
                      f"http://evil.localhost:{target.port}/", "http://[::ffff:127.0.0.2]/"]:
            url = target.script("/r", answer(307, {"Location": place}))
            task = server.settled(server.add(target=url, body="b"))
            self.assertEqual((task["state"], task["attempts"]), ("failed", 1))
            self.assertEqual(task["error"]["class"], "invalid")
            self.assertEqual(task["error"]["status"], 307)
            self.assertIn("not followed: outbound: ", task["error"]["message"])
            self.assertIn("denied (outbound.deny)", task["error"]["message"])
        self.assertEqual({one.path for one in target.seen()}, {"/r"})

    def a_redirect_that_may_be_followed_is(self):
        target = Target()
        server = self._server({"deny": ["127.0.0.2"], "redirects": 1})
        url = target.script("/r", answer(307, {"Location": "/there"}))
        task = server.settled(server.add(target=url, body="b",
                                         headers={"authorization": "Bearer x"}))
        self.assertEqual(task["state"], "succeeded", task)
        [there] = target.seen("/there")
        self.assertEqual((there.method, there.body), ("POST", b"b"))
        self.assertEqual(there.headers["authorization"], "Bearer x")
        url = target.script("/away", answer(308, {"Location":
                                                  f"http://localhost:{target.port}/other"}))
        task = server.settled(server.add(target=url, body="b",
                                         headers={"authorization": "Bearer x"}))
        self.assertEqual(task["state"], "succeeded", task)
        [other] = target.seen("/other")
        self.assertEqual(other.body, b"b")
        self.assertNotIn("authorization", other.headers)  # another origin

    def a_proxy_of_the_environment_is_not_asked(self):
        proxy, target = Target(), Target()
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            os.environ[name] = proxy.url()
        server = self._server({"deny_private": True})
        identity = server.add(target=target.url())
        self._expect_refused(server, identity, PRIVATE)
        self.assertEqual(proxy.connection_count, 0)

    def without_rules_everything_may_go(self):
        target = Target()
        server = self._server({})
        self.assertEqual(server.settled(server.add(target=target.url()))["state"], "succeeded")


if __name__ == "__main__":
    runner.main()
