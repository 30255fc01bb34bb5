# SPDX-License-Identifier: MIT
"""Workers that pull, on the real server: batches, long polls, settling, workers that die or leave.
Requirements A6.1, A6.2; invariants I2, I6, I7.
"""
import datetime
import http.client
import json
import socket
import threading
import time
import unittest

import runner
from server import Server, on_each_store
from target import Target

FAST = {"name": "fast", "max_attempts": 3, "transient": {"backoff": "fixed", "base": "20ms"}}
LEASE_MS = 400
SLACK = 1.5  # seconds: the machine is busy with other tests


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Shop:
    """A server with the queue `jobs`, whose tasks wait for workers."""

    def __init__(self, test, store, **queue):
        queue = {"name": "jobs", "policy": "fast", **queue}
        self.server = Server(test, store, [queue], policies=[FAST]).start()

    def add(self, **task):
        return self.server.add("jobs", **task)

    def take(self, **wish):
        got = self.server.post("/v1/queues/jobs/leases", wish or None)
        if got.status != 200:
            raise AssertionError(f"no leases: {got}")
        return got.json["leases"]

    def settle(self, **words):
        got = self.server.post("/v1/leases:settle", words)
        if got.status != 200:
            raise AssertionError(f"not settled: {got}")
        return [row["result"] for row in got.json["results"]]

    def ack(self, lease, **more):
        return self.settle(acks=[{"lease": lease["lease"], **more}])[0]

    def retry(self, lease, **more):
        return self.settle(retries=[{"lease": lease["lease"], **more}])[0]

    def extend(self, lease, **more):
        return self.settle(extend=[{"lease": lease["lease"], **more}])[0]


@on_each_store("sqlite", "json", "memory", "postgres")
class Leases(unittest.TestCase):
    def what_a_worker_has_acked_is_called_back(self, store):
        target = Target()
        self.addCleanup(target.close)
        shop = Shop(self, store)
        tell = {"url": target.url("/told"), "on": ["succeeded", "failed"]}
        task = shop.add(body="x", callback=tell)
        self.assertEqual(shop.ack(shop.take()[0]), "settled")
        told = json.loads(target.wait_for(1, "/told")[0].body)
        shown = shop.server.task(task)
        self.assertEqual((told["id"], told["state"], told["response"]),
                         (task, "succeeded", shown["response"]))

    def a_worker_gets_what_the_background_message_has(self, store):  # A6.1
        shop = Shop(self, store, policy="llm_jobs")
        identity = shop.add(key="save-1", labels={"bookmark_id": "b-1"},
                            json={"bookmark_id": "b-1", "url": "https://example.org/"},
                            headers={"authorization": "Bearer worker-needs-it"})
        [lease] = shop.take()
        task = lease["task"]
        self.assertEqual((task["id"], task["labels"]["bookmark_id"]), (identity, "b-1"))
        self.assertEqual((task["attempts"], task["max_attempts"]), (1, 5))
        self.assertEqual((task["key"], task["state"]), ("save-1", "running"))
        self.assertEqual(json.loads(task["request"]["body"])["url"], "https://example.org/")
        self.assertEqual(task["request"]["headers"]["authorization"], "Bearer worker-needs-it")

    def batches_are_taken_and_acknowledged(self, store):  # A6.2
        shop = Shop(self, store)
        tasks = [shop.add(body=str(number)) for number in range(12)]
        leases = shop.take(max=10)
        self.assertEqual([one["task"]["id"] for one in leases], tasks[:10])
        done = shop.settle(acks=[{"lease": one["lease"]} for one in leases])
        self.assertEqual(done, ["settled"] * 10)
        self.assertEqual(len(shop.take(max=10)), 2)
        self.assertEqual(shop.take(max=10), [])
        self.assertEqual(shop.server.task(tasks[0])["state"], "succeeded")

    def what_a_person_runs_is_handed_out_though_the_queue_is_paused(self, store):  # D4
        shop = Shop(self, store)
        tasks = [shop.add(body=str(number)) for number in range(3)]
        shop.server.post("/v1/queues/jobs:pause")
        self.assertEqual(shop.take(max=10), [])
        self.assertEqual(shop.server.post(f"/v1/tasks/{tasks[1]}:run").status, 200)
        if store != "memory":
            shop.server.restart()
        [lease] = shop.take(max=10, wait_ms=5000)
        self.assertEqual(lease["task"]["id"], tasks[1])
        self.assertEqual(shop.ack(lease), "settled")
        self.assertEqual(shop.take(max=10), [])
        self.assertEqual(shop.server.post("/v1/queues/jobs:run").json["taken"], 2)
        self.assertEqual(len(shop.take(max=10, wait_ms=5000)), 2)

    def an_ack_can_bring_an_answer(self, store):
        shop = Shop(self, store)
        identity = shop.add(body="x")
        [lease] = shop.take()
        answer = {"status": 201, "headers": {"content-type": "text/plain"}, "body": "要約"}
        self.assertEqual(shop.ack(lease, response=answer), "settled")
        task = shop.server.task(identity)
        self.assertEqual(task["response"]["status"], 201)
        self.assertEqual(task["response"]["body"], "要約")
        self.assertEqual(shop.ack(lease), "stale")

    def failures_wait_2_to_the_attempt_times_60_s_up_to_the_limit(self, store):  # A6.2, A7
        shop = Shop(self, store, policy="llm_jobs")
        identity = shop.add(body="x", labels={"job_type": "llm_processing"})
        for wait_ms in (120000, 240000, 480000, 960000):
            [lease] = shop.take()
            said = shop.retry(lease, error={"class": "transient", "message": "the model is busy"})
            self.assertEqual(said, "waiting")
            task = shop.server.task(identity)
            self.assertEqual((task["state"], task["next_wait_ms"]), ("waiting", wait_ms))
            self.assertEqual(shop.take(), [])
            self.assertEqual(shop.server.post(f"/v1/tasks/{identity}:run").status, 200)
        [lease] = shop.take()
        self.assertEqual(shop.retry(lease, error={"message": "still busy"}), "settled")
        letter = shop.server.get(f"/v1/dead-letters/{identity}").json
        self.assertEqual((letter["status"], letter["retry_count"], letter["retryable"]),
                         ("failed", 5, True))
        self.assertEqual((letter["job_type"], letter["error"]["message"]),
                         ("llm_processing", "still busy"))
        self.assertEqual([row["wait_ms"] for row in letter["trail"]],
                         [120000, 240000, 480000, 960000, 0])

    def a_delay_replaces_the_wait_and_a_class_may_end_it(self, store):
        shop = Shop(self, store)
        identity = shop.add(body="x")
        [lease] = shop.take()
        self.assertEqual(shop.retry(lease, delay_ms=3600000), "waiting")
        self.assertEqual(shop.server.task(identity)["next_wait_ms"], 3600000)
        shop.server.post(f"/v1/tasks/{identity}:run")
        [lease] = shop.take()
        self.assertEqual(shop.retry(lease, error={"class": "invalid"}, delay_ms=5), "settled")
        self.assertEqual(shop.server.get(f"/v1/dead-letters/{identity}").json["retryable"], False)

    def results_come_in_order_and_a_lost_lease_harms_nobody(self, store):
        shop = Shop(self, store)
        for number in range(3):
            shop.add(body=str(number))
        first, second, third = shop.take(max=3)
        lost = {"lease": "01900000-0000-7000-8000-000000000000.1.1"}
        said = shop.settle(acks=[{"lease": first["lease"]}, {"lease": "rubbish"}],
                           retries=[lost, {"lease": second["lease"], "delay_ms": 0}],
                           extend=[{"lease": third["lease"], "lease_ms": 1000}, lost])
        self.assertEqual(said, ["settled", "stale", "stale", "waiting", "extended", "stale"])
        self.assertEqual(shop.settle(), [])
        self.assertEqual(shop.settle(acks=[], retries=None), [])

    def a_long_poll_is_answered_when_there_is_work_or_no_more_time(self, store):
        shop = Shop(self, store)
        began = time.monotonic()
        self.assertEqual(shop.take(wait_ms=150), [])
        self.assertGreaterEqual(time.monotonic() - began, 0.14)
        got = []
        worker = threading.Thread(target=lambda: got.extend(shop.take(wait_ms=20000)))
        worker.start()
        time.sleep(0.1)  # it should be waiting; the claim holds either way
        identity = shop.add(body="x")
        worker.join(SLACK)
        self.assertEqual([one["task"]["id"] for one in got], [identity])

    def sixteen_who_settle_one_lease_at_once_have_one_winner(self, store):  # I2
        shop = Shop(self, store)
        for round_number in range(3):
            identity = shop.add(body=str(round_number))
            [lease] = shop.take()
            start, said = threading.Barrier(16), []

            def say(number, lease=lease, start=start, said=said):
                connection = shop.server.connect()
                word = {"lease": lease["lease"]}
                body = {"acks": [word]} if number % 2 else {"retries": [{**word, "delay_ms": 9999999}]}
                start.wait()
                got = shop.server.post("/v1/leases:settle", body, connection=connection)
                said.append((number % 2, got.json["results"][0]["result"]))
                connection.close()

            clients = [threading.Thread(target=say, args=(number,)) for number in range(16)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            winners = [one for one in said if one[1] != "stale"]
            self.assertEqual((len(said), len(winners)), (16, 1))
            task = shop.server.task(identity)
            self.assertEqual(task["state"], "succeeded" if winners[0][0] else "waiting")
            self.assertEqual(len(task["trail"]), 1)

    def a_worker_that_dies_gives_its_tasks_back_within_its_lease(self, store):  # A6.2
        shop = Shop(self, store)
        tasks = {shop.add(body=str(number)) for number in range(3)}
        taken = time.monotonic()
        self.assertEqual(len(shop.take(max=3, lease_ms=LEASE_MS)), 3)  # and never heard of again
        back = {}
        while len(back) < 3:
            for one in shop.take(max=3, wait_ms=5000):
                back[one["task"]["id"]] = one
        took = time.monotonic() - taken
        self.assertEqual(set(back), tasks)
        self.assertGreaterEqual(took, LEASE_MS / 1000)
        self.assertLessEqual(took, LEASE_MS / 1000 + SLACK)
        for one in back.values():
            self.assertEqual(one["task"]["attempts"], 2)
            task = shop.server.task(one["task"]["id"])
            self.assertEqual((task["trail"][0]["message"], task["trail"][0]["class"]),
                             ("lease expired", "transient"))
            began, ended = (moment(task["trail"][0][name]) for name in ("started_at", "ended_at"))
            self.assertGreaterEqual(ended - began, LEASE_MS / 1000 - 0.001)
            self.assertEqual(shop.ack(one), "settled")

    def a_late_word_is_stale_and_changes_nothing(self, store):  # I2
        shop = Shop(self, store)
        identity = shop.add(body="x")
        [late] = shop.take(lease_ms=500)
        [second] = shop.take(wait_ms=5000)
        self.assertEqual(second["task"]["id"], identity)
        self.assertNotEqual(second["lease"], late["lease"])
        before = shop.server.task(identity)
        for say in (shop.ack, shop.retry, shop.extend):
            self.assertEqual(say(late), "stale")
        self.assertEqual(shop.server.task(identity), before)
        self.assertEqual(shop.ack(second), "settled")

    def a_lease_can_be_extended_and_is_no_longer_than_the_queues(self, store):
        shop = Shop(self, store, lease="1h")
        identity = shop.add(body="x")
        [lease] = shop.take(lease_ms=1000)
        end = time.monotonic() + 2.5
        while time.monotonic() < end:  # longer than twice its length
            self.assertEqual(shop.extend(lease, lease_ms=1000), "extended")
            time.sleep(0.05)
        self.assertEqual(shop.server.task(identity)["attempts"], 1)
        self.assertEqual(shop.ack(lease), "settled")
        shop.add(body="y")
        [long] = shop.take(lease_ms=43200000)
        task = shop.server.task(long["task"]["id"])
        self.assertLessEqual(long["lease_until"][:16], time.strftime(
            "%Y-%m-%dT%H:%M", time.gmtime(time.time() + 3660)))
        self.assertEqual(task["state"], "running")

    def a_long_poll_whose_client_has_gone_swallows_nothing(self, store):  # engineering 1.3
        shop = Shop(self, store)
        wish = json.dumps({"max": 5, "lease_ms": 30000, "wait_ms": 30000}).encode()
        request = (b"POST /v1/queues/jobs/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                   + str(len(wish)).encode() + b"\r\n\r\n" + wish)
        for number in range(6):
            gone = socket.create_connection(("127.0.0.1", shop.server.port))
            gone.sendall(request)
            if number % 2:
                self.assertEqual(shop.server.get("/healthz").status, 200)  # it has been read by now
            gone.shutdown(socket.SHUT_RDWR)
            gone.close()
            identity = shop.add(body="x")
            began = time.monotonic()
            [lease] = shop.take(wait_ms=20000)
            self.assertLessEqual(time.monotonic() - began, SLACK)
            self.assertEqual((lease["task"]["id"], lease["task"]["attempts"]), (identity, 1))
            self.assertEqual(shop.ack(lease), "settled")

    def a_worker_that_only_half_closes_is_told_of_nothing_that_is_not_its_own(self, store):
        shop = Shop(self, store)
        wish = json.dumps({"wait_ms": 20000}).encode()
        half = socket.create_connection(("127.0.0.1", shop.server.port))
        half.sendall(b"POST /v1/queues/jobs/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                     + str(len(wish)).encode() + b"\r\n\r\n" + wish)
        half.shutdown(socket.SHUT_WR)
        identity = shop.add(body="x")
        half.settimeout(20)
        got = http.client.HTTPResponse(half)
        try:
            got.begin()
            told = json.loads(got.read())["leases"]
        except http.client.RemoteDisconnected:  # its end was read with the request: it has left
            told = []
        half.close()
        leases = told or shop.take(wait_ms=5000)
        self.assertEqual([one["task"]["id"] for one in leases], [identity])
        self.assertEqual(shop.ack(leases[0]), "settled")

    def a_task_past_its_deadline_goes_to_nobody(self, store):  # I6
        shop = Shop(self, store)
        late = shop.add(body="x", deadline_ms=50)
        good = shop.add(body="y")
        time.sleep(0.06)
        self.assertEqual([one["task"]["id"] for one in shop.take(max=10)], [good])
        self.assertEqual(shop.server.settled(late)["state"], "failed")
        letter = shop.server.get(f"/v1/dead-letters/{late}")
        self.assertEqual((letter.status, letter.json["error"]["class"]), (200, "expired"))

    def a_queue_that_pushes_has_no_leases(self, store):
        target = Target()
        self.addCleanup(target.close)
        shop = Shop(self, store, targets=[{"name": "t", "url": target.url()}])
        got = shop.server.post("/v1/queues/jobs/leases")
        self.assertEqual((got.status, got.code), (409, "queue_pushed"))
        self.assertEqual(shop.server.post("/v1/queues/nowhere/leases").code, "queue_unknown")

    def bad_input_names_its_field_and_leaves_no_trace(self, store):  # I7
        shop = Shop(self, store)
        identity = shop.add(body="x")
        for body, field in ((b"[]", None), (b"{", None), (b'{"max":0}', "max"), (b'{"max":1001}', "max"),
                            (b'{"max":1.5}', "max"), (b'{"max":"1"}', "max"),
                            (b'{"lease_ms":99}', "lease_ms"), (b'{"lease_ms":43200001}', "lease_ms"),
                            (b'{"wait_ms":-1}', "wait_ms"), (b'{"wait_ms":60001}', "wait_ms"),
                            (b'{"what":1}', "what"), (b'{"max":1,"max":1}', "max"), (b"\xff", None)):
            got = shop.server.post("/v1/queues/jobs/leases", body)
            self.assertEqual((got.status, got.json.get("field")), (400, field), body)
        [lease] = shop.take()
        name = lease["lease"].encode()
        for body, field in ((b"[]", None), (b'{"acks":{}}', "acks"), (b'{"acks":[1]}', "acks[0]"),
                            (b'{"acks":[{}]}', "acks[0].lease"), (b'{"ack":[]}', "ack"),
                            (b'{"acks":[{"lease":"%s","delay_ms":1}]}' % name, "acks[0].delay_ms"),
                            (b'{"acks":[{"lease":"%s","response":[]}]}' % name, "acks[0].response"),
                            (b'{"acks":[{"lease":"%s","response":{"status":99}}]}' % name,
                             "acks[0].response.status"),
                            (b'{"acks":[{"lease":"%s","response":{"headers":{"a b":"c"}}}]}' % name,
                             "acks[0].response.headers.a b"),
                            (b'{"acks":[{"lease":"%s","response":{"body":"a","body_base64":"YQ=="}}]}'
                             % name, "acks[0].response.body_base64"),
                            (b'{"acks":[{"lease":"%s","response":{"body_base64":"?"}}]}' % name,
                             "acks[0].response.body_base64"),
                            (b'{"acks":[{"lease":"%s"}],"retries":[{"lease":"x","delay_ms":-1}]}' % name,
                             "retries[0].delay_ms"),
                            (b'{"retries":[{"lease":"%s","error":{"class":"odd"}}]}' % name,
                             "retries[0].error.class"),
                            (b'{"retries":[{"lease":"%s","error":"x"}]}' % name, "retries[0].error"),
                            (b'{"extend":[{"lease":"x"},{"lease":"%s","lease_ms":1}]}' % name,
                             "extend[1].lease_ms"),
                            (b'{"acks":[' + b",".join([b'{"lease":"%s"}' % name] * 1001) + b"]}",
                             "acks")):
            got = shop.server.post("/v1/leases:settle", body)
            self.assertEqual((got.status, got.json.get("field")), (400, field), body[:200])
        self.assertEqual(shop.server.task(identity)["state"], "running")
        self.assertEqual(shop.ack(lease), "settled")

    def what_a_worker_says_is_kept_as_text_whatever_it_is(self, store):
        shop = Shop(self, store)
        for message in ("a" * 254 + "é", "\u0000\n\"\\", "要" * 200, "x" * 5000, ""):
            identity = shop.add(body="x")
            [lease] = shop.take()
            self.assertEqual(shop.retry(lease, error={"class": "invalid", "message": message}), "settled")
            letter = shop.server.get(f"/v1/dead-letters/{identity}")
            self.assertEqual(letter.status, 200)
            told = letter.json["error"]["message"]
            self.assertEqual(told.replace("\ufffd", ""), message[:len(told.replace("\ufffd", ""))])


@on_each_store("sqlite", "json", "postgres")
class AcrossKills(unittest.TestCase):
    def a_lease_outlives_the_server_and_ends_when_it_should(self, store):  # engineering 1.9
        shop = Shop(self, store)
        kept, lost = shop.add(body="kept"), shop.add(body="lost")
        first, second = shop.take(max=2, lease_ms=3000)
        taken = time.monotonic()
        shop.server.restart()
        self.assertEqual(shop.take(max=5), [])
        self.assertEqual(shop.ack(first), "settled")
        self.assertEqual(shop.server.task(kept)["state"], "succeeded")
        [again] = shop.take(max=5, wait_ms=20000)
        self.assertEqual(again["task"]["id"], lost)
        self.assertGreaterEqual(time.monotonic() - taken, 2.9)
        self.assertEqual(shop.ack(second), "stale")
        self.assertEqual(shop.ack(again), "settled")

    def nothing_that_workers_were_told_is_lost_by_a_kill(self, store):  # I1
        shop = Shop(self, store)
        tasks = [shop.add(body=str(number)) for number in range(20)]
        leases = shop.take(max=20)
        for one in leases[:10]:
            self.assertEqual(shop.ack(one), "settled")
        for one in leases[10:15]:
            self.assertEqual(shop.retry(one, delay_ms=3600000), "waiting")
        shop.server.restart()
        states = [shop.server.task(identity)["state"] for identity in tasks]
        self.assertEqual(states, ["succeeded"] * 10 + ["waiting"] * 5 + ["running"] * 5)


if __name__ == "__main__":
    runner.main()
