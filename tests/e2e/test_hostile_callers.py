# SPDX-License-Identifier: MIT
"""What callers can cost: answers that they do not read, bodies that they do not end, places that they
keep. The memory of the server and the time of its health check are held to a bound meanwhile."""
import os
import re
import socket
import time
import unittest

import runner
from gateway import Gateway, route
from program import BIN
from target import Target, answer

MIB = 1 << 20
IS_SANITIZED = "asan" in BIN  # its memory is not what the program asks for
HEALTH_SECONDS = 5            # most of it is for a slow machine


def resident(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))


def spent(server):
    """Seconds of processor time so far."""
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def count_open(clients):
    """Those that the server has not ended; nothing is read from them."""
    still = 0
    for client in clients:
        try:
            client.send(b"x", socket.MSG_DONTWAIT)
            still += 1
        except OSError:
            pass
    return still


def ask(port, path="/v1/orders", key="k", length=2, body=b"{}", receive=None):
    client = socket.socket()
    if receive:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    client.settimeout(HEALTH_SECONDS)
    client.connect(("127.0.0.1", port))
    client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {key}\r\n"
                   "Content-Type: application/json\r\n"
                   f"Content-Length: {length}\r\n\r\n".encode() + body)
    return client


class Callers(unittest.TestCase):
    def _start(self, reply=None, **limits):
        target = Target()
        self.addCleanup(target.close)
        if reply is not None:
            target.script("/v1/orders", reply)
        return Gateway(self, [route(target)], limits=limits).start()

    def _assert_healthy(self, server):
        began = time.monotonic()
        self.assertEqual(server.get("/healthz").status, 200)
        self.assertLess(time.monotonic() - began, HEALTH_SECONDS)

    def _await(self, is_so):
        until = time.monotonic() + 20
        while not is_so():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)

    def _body_bytes(self, server):
        text = server.get("/metrics").body.decode()
        return int(re.search(r"^daruma_http_body_bytes (\d+)$", text, re.M).group(1))

    def _close_all(self, clients):
        for client in clients:
            client.close()

    def duplicates_share_an_answer_that_they_do_not_read_and_are_cut(self):
        server = self._start(answer(200, {}, b"a" * (16 * MIB)), idle_time="2s", response="16MiB")
        self.assertEqual(len(server.send(key="k").body), 16 * MIB)
        before = resident(server)
        clients = [ask(server.gateway_port, receive=4096) for _ in range(40)]
        self.addCleanup(self._close_all, clients)
        time.sleep(1)
        grown = resident(server) - before
        if not IS_SANITIZED:
            self.assertLess(grown, 64 * MIB)
        self._assert_healthy(server)
        self._await(lambda: count_open(clients) == 0)
        self.assertEqual(len(server.send(key="k").body), 16 * MIB)

    def an_answer_that_is_read_slowly_but_steadily_is_whole(self):
        server = self._start(answer(200, {}, b"a" * (4 * MIB)), idle_time="1s", response="16MiB")
        client = ask(server.gateway_port, receive=65536)
        self.addCleanup(client.close)
        began, got = time.monotonic(), 0
        while got < 4 * MIB:  # three seconds in all: several looks at its progress
            piece = client.recv(65536)
            self.assertTrue(piece, f"cut after {got} bytes")
            got += len(piece)
            time.sleep(max(0, began + got / (4 * MIB) * 3 - time.monotonic()))

    def slow_bodies_on_the_gateway_leave_places_for_the_api(self):
        server = self._start(connections=40, idle_time="60s")
        clients = [ask(server.gateway_port, length=1000, body=b"x") for _ in range(80)]
        self.addCleanup(self._close_all, clients)
        for _ in range(10):
            self._assert_healthy(server)
        self.assertEqual(server.send(key="a").status, 200)  # slow ones make room after a second

    def slow_bodies_on_the_api_make_room_for_its_health_check(self):
        server = self._start(connections=40, idle_time="60s")
        clients = [ask(server.port, "/v1/queues/q/tasks", length=1000, body=b"x")
                   for _ in range(80)]
        self.addCleanup(self._close_all, clients)
        for _ in range(10):
            self._assert_healthy(server)

    def framing_that_fills_a_connection_s_memory_costs_no_processor_time(self):
        server = self._start(idle_time="60s", header_time="60s")
        for port in (server.port, server.gateway_port):
            for head in (b"POST /v1/queues/w/tasks HTTP/1.1\r\nHost: localhost\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n2;" + b"a" * 100000,
                         b"GET /healthz?" + b"&" * 100000,
                         b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 100000):
                client = socket.create_connection(("127.0.0.1", port), HEALTH_SECONDS)
                try:
                    client.sendall(head)
                    client.settimeout(0.3)
                    client.recv(4096)
                except OSError:
                    pass  # it may be cut while it is still being sent, or say nothing
                client.close()
        before = spent(server)
        time.sleep(1)
        self.assertLess(spent(server) - before, 0.3)
        self._assert_healthy(server)

    def a_connection_that_one_caller_has_authenticated_is_not_another_s(self):
        """NTLM and Negotiate are about a connection: what comes next on it is taken for the same user."""
        def act(connection, request):
            asked = request.path.rsplit("/", 1)[1]
            said = {"asks": {"WWW-Authenticate": "Basic realm=x, NTLM TlRMTVNT"},
                    "asks-nego": {"WWW-Authenticate": "negotiate"},
                    "persists": {"Persistent-Auth": "true"}}.get(asked, {})
            return answer(401 if "asks" in asked else 200, said)(connection, request)
        target = Target(lambda _request: act)
        self.addCleanup(target.close)
        server = Gateway(self, [route(target)], **{"pass": target.url("")}).start()
        def connection_of(path, headers=None):
            server.send(path, None, method="GET", headers=headers)
            return target.seen(path)[-1].connection
        self.assertEqual(connection_of("/a"), connection_of("/b", {"Authorization": "Bearer x"}))
        for path, headers in (("/c", {"Authorization": "NTLM TlRMTVNT"}),
                              ("/d", {"Authorization": "Negotiate YII="}),
                              ("/e", {"authorization": "ntlm x"}),
                              ("/asks", None), ("/asks-nego", None), ("/persists", None)):
            used = connection_of(path, headers)
            self.assertNotEqual(connection_of("/after" + path[1:]), used, path)
        self.assertEqual(connection_of("/x"), connection_of("/y"))  # others are used as before
        server.send("/f", None, method="GET", headers={"Proxy-Authorization": "NTLM x"})
        self.assertNotIn("proxy-authorization", target.seen("/f")[-1].headers)

    def bodies_have_a_limit_all_together(self):
        server = self._start(bodies="8MiB", body="1MiB", idle_time="60s")
        before = resident(server)
        large = b"x" * (MIB - 1)
        clients = [ask(server.gateway_port, key=f"c{i}", length=MIB, body=large)
                   for i in range(8)]
        self.addCleanup(self._close_all, clients)
        self._await(lambda: self._body_bytes(server) == 8 * (MIB - 1 - 16384))
        refused = server.send(body=b"x" * MIB, key="d")
        self.assertEqual((refused.status, refused.code), (503, "overloaded"))
        self.assertIn("retry-after", refused.headers)
        self.assertEqual(server.send(key="small").status, 200)
        if not IS_SANITIZED:
            self.assertLess(resident(server) - before, 32 * MIB)
        self._close_all(clients)
        self._await(lambda: self._body_bytes(server) == 0)
        self.assertEqual(server.send(body=b"x" * MIB, key="e").status, 200)


if __name__ == "__main__":
    runner.main()
