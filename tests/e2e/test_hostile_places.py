# SPDX-License-Identifier: MIT
"""All places for connections (limits.connections) are taken, and a caller waits outside: what that costs,
which connection makes room, and for which caller."""
import contextlib
import os
import random
import re
import socket
import ssl
import subprocess
import threading
import time
import unittest

import runner
from gateway import Gateway, route
from server import CALL_SECONDS, Server
from target import Target, answer

HOST = b"Host: 127.0.0.1\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\n" + HOST
STALLING = b"POST /v1/queues/q/tasks HTTP/1.1\r\nContent-Length: 900000\r\n" + HOST + b" "
FLOWING = STALLING + b" " * 70000  # more than idle_time asks for
FLOWING_ORDER = FLOWING.replace(b"/v1/queues/q/tasks", b"/v1/orders")  # likewise, at the gateway
REFUSED = [FLOWING.replace(b"/v1/queues/q/tasks", b"/v1/none"),  # 404, and the rest is dropped
           FLOWING.replace(b"900000", b"2000000"),  # 413, likewise
           FLOWING.replace(HOST, b"Sec-Fetch-Site: cross-site\r\n" + HOST)]  # 403, likewise
ORDER = b"POST /v1/orders HTTP/1.1\r\nContent-Length: 0\r\n" + HOST
PLACES = 10
SEED = int(os.environ.get("DARUMA_SEED", "78"))
MANY = 40  # connections that cannot go: more than one look at them judges
STALLED = 20
GRACE_SECONDS = 1  # that each connection has between two requests
HEALTH_SECONDS = 5


def dial(port, text=b"", receive=None):
    client = socket.socket()
    if receive:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    client.settimeout(HEALTH_SECONDS)
    client.connect(("127.0.0.1", port))
    client.sendall(text)
    return client


def spent(server):
    """Seconds of processor time so far."""
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def hello_of(context):
    """The first bytes of a TLS handshake."""
    said = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said).do_handshake()
    return said.read()


def is_silent(client):
    client.settimeout(0)
    try:
        client.recv(1, socket.MSG_PEEK)
        return False
    except BlockingIOError:
        return True
    finally:
        client.settimeout(HEALTH_SECONDS)


def is_open(client):
    """What has come is thrown away."""
    client.setblocking(False)
    try:
        while client.recv(65536):
            pass
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        client.settimeout(HEALTH_SECONDS)


class Places(unittest.TestCase):
    def setUp(self):
        self.clients = []
        self.addCleanup(self._close_all)

    def _close_all(self):
        for client in self.clients:
            client.close()
        self.clients.clear()

    def _start(self, reply=None, threads=1, **limits):
        target = Target()
        self.addCleanup(target.close)
        target.script("/v1/orders", reply or answer(200))
        return Gateway(self, [route(target, key="optional", timeout="60s")], store="memory",
                       queues=[{"name": "q"}], threads=threads,
                       limits={"connections": PLACES, "waiters": PLACES - 1, **limits}).start()

    def _hold(self, port, text=b"", receive=None):
        client = dial(port, text, receive)
        self.clients.append(client)
        return client

    def _poll_of(self, server):
        """A request that waits for a minute: its connection cannot be sent away."""
        task = server.post("/v1/queues/q/tasks", {"json": {}}).json["id"]
        return f"GET /v1/tasks/{task}?wait_ms=60000 HTTP/1.1\r\n".encode() + HOST

    def _take_last_place(self, server, count=PLACES):
        """Once all the others are taken: a body that comes fast enough has it then."""
        client = server.connect()
        until = time.monotonic() + 20
        while True:
            text = server.call("GET", "/metrics?detail=total", connection=client).body.decode()
            if int(re.search(r"^daruma_http_connections (\d+)$", text, re.M).group(1)) == count:
                break
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        client.sock.sendall(FLOWING)
        self.clients.append(client.sock)

    def _assert_cheap(self, server):
        time.sleep(0.2)  # what was sent is seen
        before = spent(server)
        time.sleep(0.8)
        self.assertLess(spent(server) - before, 0.1)

    def _wait_at_the_api(self, threads):
        server = self._start(threads=threads)
        poll = self._poll_of(server)
        for _ in range(PLACES - 1):
            self._hold(server.port, poll)
        self._take_last_place(server)
        waiting = self._hold(server.port, HEALTH)
        self._assert_cheap(server)
        self.assertTrue(is_silent(waiting))
        self.clients[0].close()
        self.assertTrue(waiting.recv(12).endswith(b"200"))

    def a_caller_who_waits_at_the_api_costs_no_processor_time(self):
        self._wait_at_the_api(threads=1)
        self._close_all()
        self._wait_at_the_api(threads=2)

    def a_caller_who_waits_at_the_api_of_several_loops_costs_no_processor_time(self):
        self._wait_at_the_api(threads=3)

    def a_caller_who_waits_at_the_gateway_costs_no_processor_time(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def late(connection, request):
            go.wait(60)
            return answer(200)(connection, request)

        server = self._start(late, threads=2)
        for _ in range(PLACES - 1):  # all that the gateway's callers can have
            self._hold(server.gateway_port, ORDER)
        self._take_last_place(server)
        waiting = self._hold(server.gateway_port, ORDER)
        self._assert_cheap(server)
        self.assertTrue(is_silent(waiting))
        go.set()
        self.assertTrue(waiting.recv(12).endswith(b"200"))

    def no_connection_is_cut_for_a_caller_who_got_in(self):
        """A caller of the gateway has waited for a place of the api's loop, and has got it."""
        server = self._start(threads=2)
        poll = self._poll_of(server)
        for _ in range(PLACES - 1):
            self._hold(server.port, poll)
        self._take_last_place(server)
        waiting = dial(server.gateway_port, ORDER)
        time.sleep(0.3)  # the other loop is asked
        self._close_all()
        self.assertTrue(waiting.recv(12).endswith(b"200"))
        waiting.close()
        idle = [self._hold(server.port, HEALTH) for _ in range(PLACES)]
        for client in idle:
            self.assertTrue(client.recv(12).endswith(b"200"))
        time.sleep(GRACE_SECONDS + 0.1)
        idle[0].sendall(poll.replace(b"?wait_ms=60000", b""))  # the engine's reply wakes the loop
        self.assertTrue(idle[0].recv(12))
        time.sleep(0.1)
        self.assertEqual([is_open(client) for client in idle], [True] * PLACES)

    # --- many that cannot go, and behind them some that can ------------------------------------------

    def _assert_healthy(self, server):
        for _ in range(3):
            with contextlib.closing(server.connect(HEALTH_SECONDS)) as connection:
                self.assertEqual(server.call("GET", "/healthz", connection=connection).status, 200)

    def _hide_behind_bodies(self, threads):
        server = self._start(threads=threads, connections=MANY + STALLED)
        for _ in range(MANY):
            self._hold(server.port, FLOWING)
        time.sleep(0.2)
        for _ in range(STALLED):
            self._hold(server.port, STALLING)
        time.sleep(GRACE_SECONDS + 0.5)
        self._assert_healthy(server)
        self.assertTrue(all(is_open(client) for client in self.clients[:MANY]))

    def bodies_that_flow_do_not_hide_those_that_stall(self):
        self._hide_behind_bodies(threads=1)

    def bodies_that_flow_do_not_hide_those_that_stall_on_several_loops(self):
        self._hide_behind_bodies(threads=3)

    def _refuse_bodies(self, threads):
        """They come fast enough, and are only dropped: strangers hold no place with them."""
        server = self._start(threads=threads, connections=MANY + STALLED, body="1MiB")
        for _ in range(MANY):
            self._hold(server.port, FLOWING)
        for count in range(STALLED):
            port = server.gateway_port if count % 4 == 3 else server.port
            self._hold(port, REFUSED[count % len(REFUSED)])
        time.sleep(GRACE_SECONDS + 0.5)
        self._assert_healthy(server)
        self.assertTrue(all(is_open(client) for client in self.clients[:MANY]))

    def bodies_that_are_only_dropped_make_room(self):
        self._refuse_bodies(threads=1)

    def bodies_that_are_only_dropped_make_room_on_several_loops(self):
        self._refuse_bodies(threads=3)

    def _start_closed(self, threads):
        """An api whose callers need a token."""
        os.environ["OPS"] = "o" * 40
        return Server(self, "memory", threads=threads, limits={"connections": PLACES}, api={
            "listen": "127.0.0.1:0",
            "tokens": [{"name": "ops", "role": "admin", "token": "env:OPS"}]}).start()

    def _ask_on(self, text, threads):
        """Strangers who ask again before their second between two requests is over."""
        server = self._start_closed(threads)
        for _ in range(PLACES):
            self._hold(server.port)
        asking, on = list(self.clients), threading.Event()
        self.addCleanup(on.set)

        def ask():
            while not on.wait(0.2):
                for client in list(asking):
                    try:
                        client.sendall(text)
                        client.recv(65536)
                    except OSError:
                        asking.remove(client)

        asker = threading.Thread(target=ask)
        asker.start()
        time.sleep(2 * GRACE_SECONDS)
        try:
            self._assert_healthy(server)
        finally:
            on.set()
            asker.join()

    def strangers_who_ask_on_make_room(self):
        self._ask_on(b"GET /v1/queues HTTP/1.1\r\n" + HOST, threads=1)
        self._close_all()
        self._ask_on(HEALTH, threads=3)

    def strangers_who_do_not_take_their_refusals_make_room(self):
        server = self._start_closed(threads=1)
        for _ in range(PLACES):
            client = self._hold(server.port, receive=2304)
            client.settimeout(1)
            with contextlib.suppress(OSError):  # until neither end takes any more
                while True:
                    client.sendall((b"GET /v1/queues HTTP/1.1\r\n" + HOST) * 100)
        time.sleep(GRACE_SECONDS + 0.5)
        self._assert_healthy(server)

    def bodies_that_flow_at_the_gateway_do_not_hide_from_the_api_those_that_stall(self):
        """The gateway's loop is asked by the api's, and has to look at more than a few."""
        kept = 8
        server = self._start(threads=2, connections=kept * 8)
        for _ in range(MANY):
            self._hold(server.gateway_port, FLOWING_ORDER)
        time.sleep(0.2)
        for _ in range(kept * 7 - MANY):
            self._hold(server.gateway_port, STALLING)
        poll = self._poll_of(server)
        for _ in range(kept):
            self._hold(server.port, poll)
        time.sleep(GRACE_SECONDS + 0.5)
        self._assert_healthy(server)
        self.assertTrue(all(is_open(client) for client in self.clients[:MANY]))

    def answers_that_are_read_slowly_do_not_hide_bodies_that_stall(self):
        server = self._start(answer(200, {}, b"a" * (5 << 20)), connections=MANY + STALLED,
                             response="8MiB")
        self.assertEqual(server.send(key="k").status, 200)
        order = (b"POST /v1/orders HTTP/1.1\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n"
                 b"Content-Type: application/json\r\n" + HOST + b"{}")
        for _ in range(MANY):
            self._hold(server.gateway_port, order, receive=4096)
        self.clients[-1].settimeout(CALL_SECONDS)  # 40 long answers, and a sanitizer
        self.assertTrue(self.clients[-1].recv(12, socket.MSG_PEEK).endswith(b"200"))
        for _ in range(STALLED):
            self._hold(server.port, STALLING)
        time.sleep(GRACE_SECONDS + 0.5)
        self._assert_healthy(server)

    def _mix(self, threads):
        """Connections of all kinds at both doors, in any order; a few of them can go."""
        dice = random.Random(SEED + threads)
        server = self._start(threads=threads, connections=MANY + STALLED, waiters=STALLED)
        busy = [(server.port, FLOWING), (server.gateway_port, FLOWING_ORDER)]
        poll = (server.port, self._poll_of(server))
        texts = dice.choice(((b"", b"GET /heal", HEALTH), (STALLING,), (b"", STALLING)))
        free = [(port, text) for port in (server.port, server.gateway_port) for text in texts]
        count = dice.randint(1, 3)
        kinds = [poll] * dice.randint(0, STALLED // 2)
        while len(kinds) < MANY + STALLED - count:
            kinds.append(dice.choice(busy[:1 if kinds.count(busy[1]) >= MANY else 2]))
        dice.shuffle(kinds)
        for _ in range(count):
            kinds.insert(dice.randint(MANY, len(kinds)), dice.choice(free))
        for port, text in kinds:
            self._hold(port, text)
            time.sleep(dice.choice((0, 0.005)))
        time.sleep(GRACE_SECONDS + 0.5)
        for _ in range(count):  # each takes the place of one
            self.assertTrue(self._hold(server.port, HEALTH).recv(12).endswith(b"200"))

    def those_that_can_go_are_found_in_any_mixture(self):
        self._mix(threads=1)

    def those_that_can_go_are_found_in_any_mixture_on_two_loops(self):
        self._mix(threads=2)

    def those_that_can_go_are_found_in_any_mixture_on_three_loops(self):
        self._mix(threads=3)

    def handshakes_that_are_not_taken_hide_no_idle_connection_and_make_room(self):
        names = ",".join(f"DNS:name-{i}.example.com" for i in range(200))  # a long answer
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=x",
                        "-addext", "subjectAltName=" + names, "-keyout", "own.key", "-out",
                        "own.pem"], check=True, capture_output=True)
        server = Server(self, "memory", limits={"connections": MANY + STALLED},
                        api={"listen": "127.0.0.1:0", "tls": {"cert": "own.pem", "key": "own.key"}})
        server.tls = ssl.create_default_context()
        server.tls.check_hostname, server.tls.verify_mode = False, ssl.CERT_NONE
        server.start()
        hello = hello_of(server.tls)
        for _ in range(MANY):
            self._hold(server.port, hello, receive=1)
        time.sleep(0.2)
        for _ in range(STALLED):
            self._hold(server.port)
        time.sleep(GRACE_SECONDS + 0.5)
        self._assert_healthy(server)
        for _ in range(STALLED):  # in place of those that were idle
            self._hold(server.port, hello, receive=1)
        time.sleep(GRACE_SECONDS + 0.5)
        self._assert_healthy(server)


if __name__ == "__main__":
    runner.main()
