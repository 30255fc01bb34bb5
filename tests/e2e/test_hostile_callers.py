# SPDX-License-Identifier: MIT
"""What callers can cost: answers that they do not read, bodies that they do not end, places that they
keep. The memory of the server and the time of its health check are held to a bound meanwhile."""
import os
import re
import resource
import socket
import threading
import time
import unittest

import runner
from gateway import Gateway, route
from meter import Meter
from program import BIN
from target import Target, answer

MIB = 1 << 20
IS_SANITIZED = "asan" in BIN  # its memory is not what the program asks for
EVENTS = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
          b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
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


def endless(connection, _request):
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.send(b"ea60\r\n" + b"x" * 60000 + b"\r\n")


def going_on(connection, _request):
    """Begins to answer, and says no more until the caller has left."""
    connection.send(EVENTS)
    connection.is_left()
    return False


class Hasty:
    """An upstream that begins to answer before it has read more than the header."""

    def __init__(self):
        self._listener, self._held = socket.socket(), []
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            try:
                channel = self._listener.accept()[0]
                channel.recv(2048)
                channel.sendall(EVENTS)
            except OSError:
                return
            self._held.append(channel)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for channel in [self._listener, *self._held]:
            channel.close()


class Mute:
    """An upstream that takes every request and never says a word."""

    def __init__(self):
        self.listener, self.held = socket.create_server(("127.0.0.1", 0), backlog=4096), []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def url(self, path):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}{path}"

    def _run(self):
        while True:
            try:
                self.held.append(self.listener.accept()[0])
            except OSError:
                return

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for channel in [self.listener, *self.held]:
            channel.close()


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

    def _hold_unread(self, path, threads):
        """60 callers of endless answers who read none of it; then others, who do."""
        target, large = Target(), os.urandom(MIB)
        self.addCleanup(target.close)
        target.script("/v1/orders", endless)
        target.script("/else", endless)
        target.script("/v1/large", answer(200, {}, large))
        routes = [route(target, timeout="2s"), route(target, match="POST /v1/large")]
        server = Gateway(self, routes, threads=threads, **{"pass": target.url("").rstrip("/")},
                         limits={"bodies": "16MiB", "response": "8MiB", "body": "1MiB"}).start()
        before = resident(server)
        clients = [ask(server.gateway_port, path, key=f"k{i}", receive=4096) for i in range(60)]
        self.addCleanup(self._close_all, clients)
        time.sleep(3)  # what they have asked for comes
        if not IS_SANITIZED:
            self.assertLess(resident(server) - before, 64 * MIB)
        self.assertLessEqual(self._body_bytes(server), 12 * MIB)  # others have the rest
        self._assert_healthy(server)
        self.assertEqual(server.send("/v1/small", body=b"x" * MIB, key="s").status, 200)
        self.assertEqual(server.send("/v1/large", None, method="GET").body, large)
        self.assertEqual(server.send("/v1/large", key="l").body, large)
        self._close_all(clients)
        self._await(lambda: self._body_bytes(server) == 0)
        self.assertEqual(server.send("/v1/large", key="m").body, large)
        self.assertEqual(server.send("/v1/large", key="m").body, large)  # it was kept
        self.assertEqual(len([one for one in target.seen("/v1/large") if one.method == "POST"]), 2)

    def long_answers_that_callers_do_not_read_are_counted(self):
        self._hold_unread("/v1/orders", threads=1)

    def long_answers_that_are_passed_on_and_not_read_are_counted(self):
        self._hold_unread("/else", threads=2)

    def _leave(self, path, threads):
        """More callers than there are places ask for what takes long, and leave."""
        target, go = Target(), threading.Event()
        self.addCleanup(target.close)
        self.addCleanup(go.set)

        def late(connection, _request):
            go.wait(60)
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
            return True

        target.script("/v1/orders", late)
        target.script("/else", late)
        server = Gateway(self, [route(target, timeout="60s")], threads=threads,
                         **{"pass": target.url("").rstrip("/")}, limits={"connections": 40}).start()
        self.assertEqual(server.send("/fast").status, 200)
        self._close_all([ask(server.gateway_port, path, key=f"k{i}") for i in range(40)])
        began = time.monotonic()
        self.assertEqual(server.send("/fast").status, 200)
        self._await(lambda: self._connections(server) <= 2)
        self.assertLess(time.monotonic() - began, 15)
        return server, target, go

    def _connections(self, server):
        text = server.get("/metrics?detail=total").body.decode()
        return int(re.search(r"^daruma_http_connections (\d+)$", text, re.M).group(1))

    def callers_who_have_left_what_passes_keep_no_places(self):
        self._leave("/else", threads=1)

    def callers_who_have_left_a_recorded_request_keep_no_places_and_it_goes_on(self):
        server, target, go = self._leave("/v1/orders", threads=2)
        go.set()
        self._await(lambda: server.send(key="k0").status == 200)
        got = server.send(key="k0")
        self.assertEqual((got.status, got.body), (200, b"late"))
        self.assertLessEqual(len(target.seen("/v1/orders")), 40)
        self.assertEqual(got.headers["idempotency-replayed"], "true")

    def _leave_at_once(self, path, key, held):
        """Thousands who wait for what takes long close their connections in the same moment."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        count = min(3500, (most - 500) // 2)  # two for each, here as in the server
        mute = Mute()
        self.addCleanup(mute.close)
        server = Gateway(self, [route(mute, timeout="60s")], threads=1,
                         limits={"connections": count + 100}, **{"pass": mute.url("")}).start()
        clients = [ask(server.gateway_port, path, key.format(i)) for i in range(count)]
        self._await(lambda: len(mute.held) >= min(held, count))
        self._await(lambda: self._connections(server) >= count)
        with Meter(server) as meter:
            self._close_all(clients)
            self._await(lambda: self._connections(server) <= 3)
        meter.check(self, turn_seconds=0.15)

    def thousands_who_leave_what_passes_at_once_do_not_hold_the_loop(self):
        self._leave_at_once("/else", "k{}", 3500)

    def thousands_who_leave_recorded_requests_at_once_do_not_hold_the_loop(self):
        self._leave_at_once("/v1/orders", "k{}", 256)  # a host's places

    def thousands_who_leave_one_request_at_once_do_not_hold_the_loop(self):
        self._leave_at_once("/v1/orders", "k", 1)

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

    def _stream(self, path):
        """The request of an answer that is handed on is not kept beside it."""
        target = Target()
        self.addCleanup(target.close)
        target.script("/v1/orders", going_on)
        target.script("/else", going_on)
        server = Gateway(self, [route(target)], **{"pass": target.url("").rstrip("/")},
                         limits={"bodies": "16MiB", "body": "1MiB"}).start()
        before, clients = resident(server), []
        self.addCleanup(self._close_all, clients)
        for count in range(200):
            clients.append(ask(server.gateway_port, path, f"k{count}", MIB, b"x" * MIB))
            clients[-1].settimeout(20)
            self.assertTrue(clients[-1].recv(12).endswith(b"200"), count)
        self.assertEqual(self._body_bytes(server), 0)
        if not IS_SANITIZED:
            self.assertLess(resident(server) - before, 100 * MIB)
        self._assert_healthy(server)

    def bodies_of_requests_that_pass_are_not_kept_while_the_answer_goes_on(self):
        self._stream("/else")

    def bodies_that_were_recorded_are_not_kept_while_the_answer_goes_on(self):
        self._stream("/v1/orders")

    def bodies_that_an_upstream_does_not_take_count_while_the_answer_goes_on(self):
        hasty, target = Hasty(), Target()
        self.addCleanup(target.close)
        server = Gateway(self, [route(target)], **{"pass": hasty.url},
                         limits={"bodies": "24MiB", "body": "8MiB"}).start()
        self.addCleanup(hasty.close)
        clients, begun, size = [], 0, 8 * MIB  # the kernel holds less than that
        self.addCleanup(self._close_all, clients)
        for count in range(5):
            clients.append(ask(server.gateway_port, "/else", f"k{count}", size, b"x" * size))
            clients[-1].settimeout(20)
            begun += clients[-1].recv(12).endswith(b"200")
        self.assertEqual(begun, 3)
        self.assertEqual(self._body_bytes(server), 3 * (size - 16384))
        self._close_all(clients)
        self._await(lambda: self._body_bytes(server) == 0)

    def long_paths_cost_no_more_with_many_routes(self):
        target = Target()
        self.addCleanup(target.close)
        routes = [route(target, f"POST /v1/things{i}") for i in range(100)]
        server = Gateway(self, routes, **{"pass": target.url("").rstrip("/")}).start()
        with Meter(server) as meter:
            for path, status in (("/" + ":a" * 2000 + "/x", 200), ("/v1/" + ":a" * 2000, 200),
                                 ("/v1/" + "%3Aa" * 1000, 200), ("/v1" + ".a" * 2000 + "/x", 200),
                                 ("/v1" + ".a" * 2000 + "/things7", 400), ("/v1" + "%20" * 1300 + "a/x", 200)):
                for _ in range(20):
                    self.assertEqual(server.send(path).status, status, path[:20])
        meter.check(self, turn_seconds=0.2)

    def forms_of_odd_bytes_do_not_hold_the_loop(self):
        target = Target()
        self.addCleanup(target.close)
        server = Gateway(self, [route(target, "DELETE /v1/orders/*")], limits={"body": "16MiB"},
                         **{"pass": target.url("").rstrip("/")}).start()
        head = b"Content-Disposition: form-data; name="
        with Meter(server) as meter:
            for kind, start, again in (("multipart/form-data; boundary=b", head, b"="),
                                       ("multipart/form-data; boundary=b", head, b"=\\"),
                                       ("application/x-www-form-urlencoded", b"", b"&")):
                body = start + again * ((16 * MIB - len(start)) // len(again))
                self.assertEqual(server.send("/v1/orders/7", body, headers={"Content-Type": kind}).status, 200)
        meter.check(self, peak_mib=256, kept_mib=256, turn_seconds=0.15)

    def fingerprints_of_large_bodies_do_not_hold_the_loop(self):
        target = Target()
        self.addCleanup(target.close)
        orders = route(target, fingerprint=[f"f{i}.x" for i in range(16)])
        server = Gateway(self, [orders], limits={"body": "16MiB"}).start()
        with Meter(server) as meter:
            for key, piece in (("a", b'"f":1,'), ("b", rb'"\u0061":1,')):
                pieces = piece * ((16 * MIB - 100) // len(piece))
                body = b'{"f0":{"x":1},' + pieces + b'"z":1}'
                self.assertEqual(server.send(body=body, key=key).status, 200)
                again = server.send(body=body[:-2] + b"2}", key=key)  # by its fields the same
                self.assertEqual((again.status, again.headers["idempotency-replayed"]), (200, "true"))
                other = server.send(body=body.replace(b'"x":1', b'"x":2', 1), key=key)
                self.assertEqual((other.status, other.code), (409, "key_conflict"))
        self.assertEqual(len(target.seen("/v1/orders")), 2)
        meter.check(self, peak_mib=256, kept_mib=256, turn_seconds=0.1)


if __name__ == "__main__":
    runner.main()
