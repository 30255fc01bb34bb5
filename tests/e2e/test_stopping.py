# SPDX-License-Identifier: MIT
"""People stop a queue, or delete it: from the moment that they are told so nothing more is sent, also of
what had been leased and waited for its turn; and what is in doubt then is told as it is."""
import http.client
import threading
import time
import unittest

import runner
from gateway import setup
from server import Server, on_each_store
from target import Target, answer, read_then_close

TASKS = 20
STEP_SECONDS = 0.05


def slowly(connection, request):
    time.sleep(STEP_SECONDS)
    answer(200)(connection, request)


@on_each_store("sqlite", "postgres")
class Stopping(unittest.TestCase):
    def _begin(self, store):
        """A queue of which many are leased and one at a time is sent."""
        target = Target()
        self.addCleanup(target.close)
        target.script("/t", slowly)
        server = Server(self, store, [{"name": "q"}]).start()
        made = server.call("PUT", "/v1/queues/tmp", {"concurrency": 64, "host_concurrency": 1})
        self.assertEqual(made.status, 201)
        for _ in range(TASKS):
            server.add("tmp", target=target.url("/t"))
        self._await(lambda: len(target.seen()) >= 3)
        return server, target

    def _await(self, is_so):
        end = time.monotonic() + 30
        while not is_so():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def after_a_pause_nothing_more_is_sent_and_nothing_is_lost(self, store):
        server, target = self._begin(store)
        self.assertEqual(server.post("/v1/queues/tmp:pause").status, 200)
        seen = len(target.seen())
        time.sleep(STEP_SECONDS * 8)
        self.assertLessEqual(len(target.seen()), seen + 1)  # one may have been on its way
        self.assertEqual(server.post("/v1/queues/tmp:resume").status, 200)
        self._await(lambda: len(target.seen()) == TASKS)

    def after_a_forced_deletion_nothing_more_is_sent(self, store):
        server, target = self._begin(store)
        self.assertEqual(server.call("DELETE", "/v1/queues/tmp?force=true").status, 204)
        seen = len(target.seen())
        time.sleep(STEP_SECONDS * 8)
        self.assertLessEqual(len(target.seen()), seen + 1)
        self.assertLess(len(target.seen()), TASKS)

    def what_is_in_doubt_outlives_its_queue_and_cannot_be_sent_again(self, store):
        target = Target()
        self.addCleanup(target.close)
        target.script("/t", read_then_close)
        server = Server(self, store, [{"name": "q"}]).start()
        self.assertEqual(server.call("PUT", "/v1/queues/tmp", {}).status, 201)
        made = server.add("tmp", target=target.url("/t"), repeatable=False)
        self._await(lambda: server.task(made)["state"] == "unsettled")
        self.assertEqual(server.call("DELETE", "/v1/queues/tmp?force=true").status, 204)
        self.assertEqual(server.task(made)["state"], "unsettled")
        got = server.post(f"/v1/tasks/{made}:settle", {"outcome": "not_done"})
        self.assertEqual((got.status, got.code), (409, "queue_deleted"))
        got = server.post(f"/v1/tasks/{made}:settle", {"outcome": "succeeded"})
        self.assertEqual(got.status, 200)


CALLERS, STOPS, LOAD_SECONDS, STOP_SECONDS = 12, 6, 0.6, 5


class Load(unittest.TestCase):
    """Callers of the gateway send as fast as they can while the server is stopped, again and again."""

    def _call(self, gateway, name, is_over, said):
        number = 0
        while not is_over.is_set():
            number += 1
            try:
                got = gateway.send(key=f"{name}-{number}")
                said.append(got.code if got.status >= 400 else "")
            except (OSError, http.client.HTTPException):
                is_over.wait(0.02)

    def a_stop_under_load_leaves_no_caller_waiting(self):
        gateway, target = setup(self)
        target.script("/v1/orders", slowly)
        for stop in range(STOPS):
            is_over, said = threading.Event(), []
            callers = [threading.Thread(target=self._call, args=(gateway, f"{stop}-{each}", is_over, said))
                       for each in range(CALLERS)]
            for caller in callers:
                caller.start()
            time.sleep(LOAD_SECONDS)
            began = time.monotonic()
            gateway.stop()
            self.assertLess(time.monotonic() - began, STOP_SECONDS)
            is_over.set()
            for caller in callers:
                caller.join()
            self.assertIn("", said)
            self.assertNotIn("store_unknown", said)
            gateway.start()


if __name__ == "__main__":
    runner.main()
