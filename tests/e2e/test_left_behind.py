# SPDX-License-Identifier: MIT
"""What a change of the configuration leaves behind in the store: queues, targets and providers that are
not in the file any more. The server starts, says so, keeps every task, and lets people carry it out
another way or end it.
"""
import json
import os
import subprocess
import unittest

import postgres
import runner
from gateway import QUICK, Gateway, route
from polling import until
from program import BIN
from server import Server, on_each_store
from target import Target, answer

LATER_MS = 600000
GONE = "http://127.0.0.1:9/never"


def names(server):
    return {one["name"]: one for one in server.get("/v1/queues").json["queues"]}


def ask(server, *arguments):
    """The command line: exit status, what it printed, what it complained of."""
    done = subprocess.run([BIN, *arguments, "--server", f"http://127.0.0.1:{server.port}"],
                          text=True, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


@on_each_store("sqlite", "json", "postgres")
class MissingQueue(unittest.TestCase):
    def _left(self, store, url=GONE, **task):
        """A server without the queue `orders` in which three tasks wait: it and their ids."""
        server = Server(self, store, [{"name": "orders", "targets": [{"name": "t", "url": url}]},
                                      {"name": "empty"}]).start()
        task = {"delay_ms": LATER_MS, **task}
        ids = [server.create("orders", key=f"k{i}", **task).json["id"] for i in range(3)]
        server.stop()
        server.configure(queues=[{"name": "bills", "targets": [{"name": "t", "url": url}]}])
        self.first = len(server.lines)
        return server.start(), ids

    def it_is_told_at_the_start_in_the_list_and_by_a_metric(self, store):
        server, _ = self._left(store)
        said = server.wait_line("queue_missing", self.first, queue="orders").fields
        self.assertEqual((said["waiting"], said["unsettled"], said["letters"]), ("3", "0", "0"))
        self.assertEqual(set(names(server)), {"orders", "bills"})  # one that is empty is not left
        orders = names(server)["orders"]
        self.assertEqual((orders["held_by"], orders["counts"]["waiting"]), ("missing", 3))
        metrics = server.get("/metrics").body.decode()
        self.assertIn('daruma_queue_missing{queue="orders"} 1', metrics)
        self.assertIn('daruma_queue_missing{queue="bills"} 0', metrics)
        self.assertIn('daruma_queue_tasks{queue="orders",state="waiting"} 3', metrics)
        status, out, _ = ask(server, "queues")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"orders +missing +0 +0 +3")

    def its_tasks_can_be_read_and_ended_but_not_run_and_none_comes_in(self, store):
        server, ids = self._left(store)
        listed = server.get("/v1/queues/orders/tasks").json["tasks"]
        self.assertEqual([one["id"] for one in listed], ids)
        self.assertEqual(server.get(f"/v1/tasks/{ids[0]}").json["queue"], "orders")
        for refused in (server.create("orders"), server.post(f"/v1/tasks/{ids[0]}:run"),
                        server.post("/v1/queues/orders:run"),
                        server.post("/v1/queues/orders/leases", {})):
            self.assertEqual((refused.status, refused.code), (409, "queue_missing"))
        batch = server.post("/v1/queues/orders/tasks:batch", [{}]).json["results"]
        self.assertEqual(batch[0]["error"]["code"], "queue_missing")
        self.assertEqual(server.get(f"/v1/tasks/{ids[0]}").json["state"], "waiting")
        self.assertEqual(server.post(f"/v1/tasks/{ids[0]}:cancel").status, 200)
        self.assertEqual(server.post("/v1/queues/orders:purge").status, 200)
        self.assertEqual(server.get("/v1/queues/orders").status, 404)  # nothing is left of it
        self.assertEqual(server.create("orders").code, "queue_unknown")

    def it_is_deleted_by_force(self, store):
        server, _ = self._left(store)
        status, _, said = ask(server, "queue", "delete", "orders")
        self.assertEqual(status, 1, said)
        status, out, said = ask(server, "queue", "delete", "orders", "--force")
        self.assertEqual((status, out), (0, "orders is deleted\n"), said)
        self.assertEqual(set(names(server)), {"bills"})

    def it_is_adopted_and_its_tasks_go_out_by_the_settings_of_another(self, store):
        target = Target()
        self.addCleanup(target.close)
        server, ids = self._left(store, target.url("/in"))
        status, _, said = ask(server, "queue", "adopt", "orders", "--like", "bills")
        self.assertEqual(status, 0, said)
        self.assertEqual(server.post("/v1/queues/orders:run").status, 202)
        for task in ids:
            self.assertEqual(server.settled(task)["state"], "succeeded")
        self.assertEqual(len(target.seen()), 3)
        self.assertIsNone(names(server)["orders"]["held_by"])
        again = server.create("orders", key="k1", delay_ms=LATER_MS)  # the key is still its own
        self.assertEqual((again.status, again.json["id"]), (200, ids[1]))

    def one_that_was_paused_is_told_to_be_paused_when_it_is_adopted(self, store):
        server, _ = self._left(store)
        server.post("/v1/queues/orders:pause")
        server.stop()
        status, said, why = ask(server.start(), "queue", "adopt", "orders", "--like", "bills")
        self.assertEqual(status, 0, why)
        self.assertTrue(names(server)["orders"]["paused"])
        self.assertIn("orders is still paused, and nothing of it is sent until: daruma queue resume orders\n", said)
        self.assertEqual(ask(server, "queue", "resume", "orders")[1], "orders goes on\n")

    def a_resume_while_the_file_lacks_it_does_not_say_that_it_goes_on(self, store):
        server, _ = self._left(store)
        server.post("/v1/queues/orders:pause")
        status, said, why = ask(server, "queue", "resume", "orders")
        self.assertEqual((status, why), (0, ""))
        self.assertRegex(said, "^orders is not paused, and nothing of it is sent all the same: .*; "
                               "'daruma queues' tells what to do\n$")

    def back_in_the_file_it_goes_on(self, store):
        server, ids = self._left(store)
        server.stop()
        server.configure(queues=[{"name": "orders"}, {"name": "bills"}])
        server.start()
        self.assertIsNone(names(server)["orders"]["held_by"])
        self.assertEqual(names(server)["orders"]["counts"]["waiting"], 3)
        self.assertEqual(server.post(f"/v1/tasks/{ids[0]}:run").status, 200)


@on_each_store("sqlite", "json", "postgres")
class LostTargets(unittest.TestCase):
    def what_waits_for_them_waits_on_until_they_are_back(self, store):
        target = Target()
        self.addCleanup(target.close)
        queue = {"name": "q", "targets": [{"name": "t", "url": target.url("/in")}]}
        server = Server(self, store, [queue]).start()
        server.post("/v1/queues/q:pause")
        ids = [server.create("q").json["id"] for _ in range(3)]
        server.stop()
        server.configure(queues=[{"name": "q"}])
        first = len(server.lines)
        server.start()
        server.post("/v1/queues/q:resume")
        held = server.wait_line("queue_held", first, queue="q").fields
        self.assertEqual(held["reason"], "targets")
        if store != "postgres":  # there as last counted
            self.assertEqual(int(held["waiting"]), len(ids))
        self.assertEqual(names(server)["q"]["held_by"], "targets")
        self.assertIn('daruma_queue_unusable{queue="q"} 1', server.get("/metrics").body.decode())
        until(lambda: all(server.task(task)["state"] == "waiting" for task in ids))
        self.assertEqual(server.post("/v1/queues/q:run").code, "queue_held")
        pulled = server.create("q").json["id"]  # of workers now
        leases = server.post("/v1/queues/q/leases", {}).json["leases"]
        self.assertEqual([one["task"]["id"] for one in leases], [pulled])
        server.stop()
        server.configure(queues=[queue])
        server.start()
        for task in ids:
            told = server.settled(task)
            self.assertEqual((told["state"], told["attempts"]), ("succeeded", 1))


    def the_queue_goes_on_once_they_have_ended(self, store):
        """Cancelled or purged: what names a target of its own is sent then, without a word of anybody."""
        target = Target()
        self.addCleanup(target.close)
        queues = [{"name": name, "targets": [{"name": "t", "url": target.url("/in")}]}
                  for name in ("cancelled", "purged")]
        server = Server(self, store, queues).start()
        ids = {}
        for queue in queues:
            server.post(f"/v1/queues/{queue['name']}:pause")
            ids[queue["name"]] = [server.add(queue["name"]) for _ in range(2)]
        server.stop()
        server.configure(queues=[{"name": queue["name"]} for queue in queues])
        first = len(server.lines)
        server.start()
        for name in ids:
            server.post(f"/v1/queues/{name}:resume")
            server.wait_line("queue_held", first, queue=name)
        until(lambda: not any(one["counts"]["running"] for one in names(server).values()))
        own = {"cancelled": server.add("cancelled", target=target.url("/own"))}
        self.assertEqual(server.post(f"/v1/tasks/{ids['cancelled'][0]}:cancel").status, 200)
        until(lambda: server.post(f"/v1/tasks/{ids['cancelled'][1]}:cancel").status == 200)
        self.assertEqual(server.post("/v1/queues/purged:purge").status, 200)
        own["purged"] = server.add("purged", target=target.url("/own"))
        for name, task in own.items():
            self.assertEqual(server.settled(task)["state"], "succeeded", name)
        self.assertEqual({one["held_by"] for one in names(server).values()}, {None})
        self.assertEqual([one.path for one in target.seen()], ["/own"] * 2)


class LostTargetsAmongNodes(unittest.TestCase):
    def a_task_that_another_node_cancels_holds_no_queue(self):
        target = Target()
        self.addCleanup(target.close)
        url = postgres.shared().url(postgres.shared().new())
        queue = {"name": "q", "targets": [{"name": "t", "url": target.url("/in")}]}
        server = Server(self, url, [queue]).start()
        server.post("/v1/queues/q:pause")
        stranded = server.add("q")
        server.stop()
        server.configure(queues=[{"name": "q"}])
        nodes = [server, Server(self, url, [{"name": "q"}])]
        for node in nodes:
            node.start()
        nodes[0].post("/v1/queues/q:resume")
        until(lambda: any(names(one)["q"]["held_by"] == "targets" for one in nodes))
        held = [names(one)["q"]["held_by"] == "targets" for one in nodes]
        other = nodes[held.index(True) ^ 1]
        until(lambda: other.post(f"/v1/tasks/{stranded}:cancel").status == 200)
        until(lambda: {names(one)["q"]["held_by"] for one in nodes} == {None})


def check(server, *more):
    """`daruma check` of its file against its store: exit status and what it prints."""
    done = subprocess.run([BIN, "check", "-c", server.path, "--against", server.store, *more],
                          text=True, capture_output=True, check=False, timeout=60,
                          env={**os.environ, **server.environment})
    return done.returncode, done.stdout + done.stderr


@on_each_store("sqlite", "json", "postgres")
class RenamedRoute(unittest.TestCase):
    def the_keys_of_a_route_whose_match_was_edited_are_told_and_its_name_keeps_them(self, store):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target)], store).start()
        self.assertEqual(gateway.send(key="k").status, 200)
        gateway.stop()
        routes = [route(target, "POST,PUT /v1/orders")]
        gateway.configure(gateway={"listen": "127.0.0.1:0"}, routes=routes, policies=[QUICK])
        status, said = check(gateway)
        self.assertEqual(status, 1)
        self.assertRegex(said, r"left behind: route POST-v1-orders \(missing\): .* 1 kept: .*name")
        first = len(gateway.lines)
        gateway.start()
        told = gateway.wait_line("route_missing", first, route="POST-v1-orders")
        self.assertEqual(told.fields["keys"], "1")
        _, listed, _ = ask(gateway, "queues")
        self.assertIn("write into it name: POST-v1-orders;", listed)
        self.assertIn("daruma queue purge _route.POST-v1-orders forgets its keys", listed)
        self.assertNotIn("adopt", listed)
        gateway.stop()
        routes[0]["name"] = "POST-v1-orders"
        gateway.configure(gateway={"listen": "127.0.0.1:0"}, routes=routes, policies=[QUICK])
        self.assertEqual(check(gateway)[0], 0)
        first = len(gateway.lines)
        gateway.start()
        self.assertNotIn("route_missing", gateway.said(first))
        self.assertEqual(gateway.send(key="k").headers["idempotency-replayed"], "true")
        self.assertEqual(len(target.seen()), 1)

    def a_route_whose_keys_mean_something_else_is_told(self, store):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target, scope="header:X-Api-Key")], store).start()
        self.assertEqual(gateway.send(key="k", headers={"X-Api-Key": "a"}).status, 200)
        gateway.stop()
        for change in ({"scope": "global"}, {"scope": "header:X-Api-Key", "fingerprint": "off"}):
            gateway.configure(gateway={"listen": "127.0.0.1:0"}, policies=[QUICK],
                              routes=[route(target, **change)])
            status, said = check(gateway)
            self.assertEqual(status, 1)
            self.assertRegex(said, r"left behind: route POST-v1-orders \(route_keys\): .* 1 kept: .*was scope ")
        self.assertEqual(json.loads(check(gateway, "--json")[1])["left_behind"][0]["why"], "route_keys")
        first = len(gateway.lines)
        gateway.start()
        gateway.wait_line("route_keys_changed", first, route="POST-v1-orders")
        self.assertRegex(gateway.said(first), 'was=".*fingerprint body" is=".*fingerprint off"')
        gateway.stop()
        gateway.start()  # it is told once: what is from now on is another matter
        self.assertEqual(gateway.said(first).count("route_keys_changed"), 1)
        self.assertEqual(check(gateway)[0], 0)

    def what_it_left_is_ended_by_the_name_of_its_queue(self, store):
        target = Target()
        self.addCleanup(target.close)
        gateway = Gateway(self, [route(target)], store).start()
        self.assertEqual(gateway.send(key="k").status, 200)
        gateway.stop()
        gateway.configure(gateway={"listen": "127.0.0.1:0"}, policies=[QUICK],
                          routes=[route(target, name="other")])
        gateway.start()
        self.assertEqual(names(gateway)["_route.POST-v1-orders"]["held_by"], "missing")
        status, _, said = ask(gateway, "queue", "purge", "_route.POST-v1-orders")
        self.assertEqual(status, 0, said)
        self.assertNotIn("_route.POST-v1-orders", names(gateway))


@on_each_store("sqlite", "json", "postgres")
class Check(unittest.TestCase):
    def it_tells_all_that_would_be_left_behind_and_changes_nothing(self, store):
        targets = [{"name": "t", "url": GONE}]
        server = Server(self, store, [{"name": "gone", "targets": targets},
                                      {"name": "bare", "targets": targets},
                                      {"name": "empty"}, {"name": "same", "targets": targets}],
                        providers=[PROVIDER])
        server.environment["OPENAI_KEY"] = "sk-test"
        server.start()
        server.call("PUT", "/v1/queues/art", {"fallback": ["openai"]})
        for queue in ("gone", "gone", "bare", "same"):
            server.add(queue, delay_ms=LATER_MS)
        server.add("bare", target=GONE, delay_ms=LATER_MS)
        self.assertEqual(check(server)[0], 0)  # beside the server that has it open
        server.configure(queues=[{"name": "bare"}, {"name": "same", "targets": targets}])
        for _ in range(2):
            status, said = check(server, "--json")
            self.assertEqual(status, 1, said)
            left = {one["queue"]: one for one in json.loads(said)["left_behind"]}
            self.assertEqual({name: one["why"] for name, one in left.items()},
                             {"gone": "missing", "bare": "targets", "art": "settings"})
            self.assertEqual(left["gone"]["waiting"], 2)
            self.assertIn("openai", left["art"]["detail"])
        self.assertRegex(check(server)[1], r"left behind: queue gone \(missing\): 2 waiting, ")
        self.assertEqual(names(server)["gone"]["counts"]["waiting"], 2)


PROVIDER = {"name": "openai", "kind": "openai", "model": "m", "keys": ["env:OPENAI_KEY"],
            "url": "http://127.0.0.1:9/v1"}


@on_each_store("sqlite", "json", "postgres")
class LostProvider(unittest.TestCase):
    def the_server_starts_with_the_queue_that_needs_it_held(self, store):
        server = Server(self, store, [{"name": "q"}], providers=[PROVIDER])
        server.environment["OPENAI_KEY"] = "sk-test"
        server.start()
        put = server.call("PUT", "/v1/queues/art", {"fallback": ["openai"]})
        self.assertEqual(put.status, 201, put)
        server.stop()
        server.configure(queues=[{"name": "q"}])
        first = len(server.lines)
        server.start()
        held = server.wait_line("queue_held", first, queue="art")
        self.assertEqual(held.fields["reason"], "settings")
        self.assertIn("openai", held.text)
        self.assertEqual(names(server)["art"]["held_by"], "settings")
        self.assertEqual(server.create("art").code, "queue_held")
        self.assertEqual(server.create("q").status, 201)
        put = server.call("PUT", "/v1/queues/art", {})  # it can be changed through the server
        self.assertEqual((put.status, put.json["held_by"]), (200, None))


@on_each_store("sqlite", "json", "postgres")
class LostSecret(unittest.TestCase):
    def a_letter_stays_one_while_nothing_can_send_it(self, store):
        target = Target()
        self.addCleanup(target.close)
        target.script("/in", answer(400), answer(400), answer(200))
        server = Server(self, store, [{"name": "q"}])
        server.environment["LEFT_SECRET"] = "a-signing-secret-of-24-b"
        server.start()
        put = server.call("PUT", "/v1/queues/made", {"targets": [
            {"name": "t", "url": target.url("/in"), "sign": ["env:LEFT_SECRET"]}]})
        self.assertEqual(put.status, 201, put)
        ids = [server.add("made", body=word) for word in "ab"]
        self.assertEqual({server.settled(one)["state"] for one in ids}, {"failed"})
        server.stop()
        secret = server.environment.pop("LEFT_SECRET")
        server.start()
        for path, body in ((f"/v1/dead-letters/{ids[0]}:redrive", {}),
                           (f"/v1/dead-letters/{ids[0]}:redrive", {"body": "c"}),
                           ("/v1/dead-letters:redrive", {"filter": {"queue": "made"}})):
            got = server.post(path, body)
            self.assertEqual((got.status, got.code), (409, "queue_held"), path)
        told = server.post("/v1/dead-letters:redrive", {}).json  # of all queues: this one's stay
        path = f"/v1/redrives/{told['redrive']}"
        until(lambda: server.get(path).json["state"] == "done")
        self.assertEqual(server.get(path).json["skipped"], 2)
        self.assertEqual([server.task(one)["state"] for one in ids], ["failed", "failed"])
        server.stop()
        server.environment["LEFT_SECRET"] = secret
        server.start()
        self.assertEqual(server.post(f"/v1/dead-letters/{ids[0]}:redrive", {}).status, 202)
        self.assertEqual(server.settled(ids[0])["state"], "succeeded")


class Like(unittest.TestCase):
    def it_stands_alone_and_names_a_queue_of_the_file(self):
        server = Server(self, "sqlite", [{"name": "q"}]).start()
        self.assertEqual(server.call("PUT", "/v1/queues/made", {}).status, 201)
        for settings in ({"like": "gone"}, {"like": "made"}, {"like": ["q"]}, {"like": 1},
                         {"like": "q", "concurrency": 2}):
            got = server.call("PUT", "/v1/queues/other", settings)
            self.assertEqual((got.status, got.json.get("field")), (400, "like"), settings)
        got = server.call("PUT", "/v1/queues/_route.other", {"like": "q"})
        self.assertEqual((got.status, got.code), (403, "queue_reserved"))
        self.assertEqual(server.call("PUT", "/v1/queues/other", {"like": "q"}).status, 201)


class Start(unittest.TestCase):
    def a_file_of_a_thousand_queues_is_checked_and_served(self):
        server = Server(self, "sqlite", [{"name": f"q{i}"} for i in range(1000)])
        done = subprocess.run([BIN, "check", "-c", server.path], text=True, capture_output=True,
                              check=False)
        self.assertIn("1000 queues", done.stdout)
        server.start()
        self.assertEqual(server.wait_line("ready").fields["queues"], "1000")

    def a_store_that_is_made_is_told_once(self):
        for store in ("sqlite", "json"):
            server = Server(self, store, [{"name": "q"}]).start()
            made = server.wait_line("store_created").fields
            self.assertEqual(made["path"], server.store_path())
            self.assertEqual(server.wait_line("ready").fields["path"], server.store_path())
            server.stop()
            first = len(server.lines)
            server.start()
            self.assertNotIn("store_created", server.said(first))
            server.stop()


if __name__ == "__main__":
    runner.main()
