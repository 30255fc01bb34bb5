# SPDX-License-Identifier: MIT
"""Clients that want to hurt: while they try, a well-behaved one is served, every time.

Each attack runs against a server with small limits, and `Neighbour` calls it all the while, on a new
connection each time; a single call that is refused, cut or slower than SLOWEST_SECONDS fails the test.
"""
import socket
import threading
import time
import unittest

import runner
from server import Server

SLOWEST_SECONDS = 10  # of one call of the neighbour; most of it is for a slow machine
TASK = b'{"target":"http://127.0.0.1:9/x","delay_ms":3600000}'
CREATE = b"POST /v1/queues/q/tasks HTTP/1.1\r\nHost: localhost\r\n"


def attacked(test, **limits):
    return Server(test, queues=[{"name": "q"}], limits=limits).start()


def dial(server):
    return socket.create_connection(("127.0.0.1", server.port), SLOWEST_SECONDS)


def is_closed(client):
    """Has the server ended it? Reads what came before."""
    client.settimeout(0.01)
    try:
        while client.recv(65536):
            pass
        return True
    except TimeoutError:
        return False
    except OSError:
        return True


def await_close(client):
    """What it said until it closed."""
    client.settimeout(SLOWEST_SECONDS)
    said = b""
    try:
        while piece := client.recv(65536):
            said += piece
    except ConnectionError:
        pass
    return said


def push(client, data):
    """Sends until it is sent or the server has had enough: false."""
    try:
        client.sendall(data)
        return True
    except OSError:
        return False


class Neighbour:
    """Creates tasks and looks at them, on a new connection each time, until the block ends."""

    def __init__(self, test, server):
        self.test, self.server, self.served, self.wrong = test, server, 0, None
        self._is_over = threading.Event()
        self._served = threading.Condition()
        self._thread = threading.Thread(target=self._live)

    def _live(self):
        while not self._is_over.is_set():
            try:
                connection = self.server.connect(SLOWEST_SECONDS)
                made = self.server.call("POST", "/v1/queues/q/tasks", TASK, connection=connection)
                seen = self.server.get(made.headers["location"], connection=connection)
                connection.close()
                if (made.status, seen.status) != (201, 200):
                    raise AssertionError(f"{made} {seen}")
            except Exception as wrong:  # whatever it is, the test says so
                self.wrong = wrong
            with self._served:
                self.served += 1
                self._served.notify_all()
            if self.wrong is not None:
                return

    def wait(self, count):
        """Until it was served so many times more."""
        with self._served:
            until = self.served + count
            self._served.wait_for(lambda: self.served >= until or self.wrong is not None, 40)
        self.test.assertIsNone(self.wrong, repr(self.wrong))

    def __enter__(self):
        self._thread.start()
        self.wait(1)
        return self

    def __exit__(self, *_error):
        self._is_over.set()
        self._thread.join()
        self.test.assertIsNone(self.wrong, repr(self.wrong))


class Connections(unittest.TestCase):
    def idle_ones_up_to_the_limit_make_room_the_longest_first(self):
        server = attacked(self, connections=20)
        idle = [dial(server) for _ in range(20)]
        for client in idle:  # one after the other: each is idle for less than the one before
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(b"200 OK", client.recv(4096))
        late = dial(server)
        late.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertIn(b"200 OK", late.recv(4096))
        if server.config.get("threads", 1) == 1:  # with more, each loop has its own longest
            self.assertEqual([is_closed(client) for client in idle], [True] + [False] * 19)
        else:
            self.assertEqual(sum(is_closed(client) for client in idle), 1)
        with Neighbour(self, server) as neighbour:
            neighbour.wait(30)

    def ones_that_never_say_a_word_do_not_keep_others_out(self):
        server = attacked(self, connections=20, header_time="30s")
        silent = [dial(server) for _ in range(60)]  # two thirds of them wait at the door
        with Neighbour(self, server) as neighbour:
            neighbour.wait(20)
        self.assertGreater(sum(is_closed(client) for client in silent), 0)

    def a_flood_of_them_does_not_keep_others_out(self):
        server = attacked(self, connections=100)
        with Neighbour(self, server) as neighbour:
            for _ in range(20):
                flood = [dial(server) for _ in range(100)]
                for client in flood:
                    client.close()
            neighbour.wait(3)


class Slow(unittest.TestCase):
    def headers_that_drip_are_cut_in_their_time(self):  # slowloris, trap 3
        server = attacked(self, connections=50, header_time="2s")
        drips = [dial(server) for _ in range(40)]
        for client in drips:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        began = time.monotonic()
        pushed = 0
        with Neighbour(self, server) as neighbour:
            while time.monotonic() < began + 3:
                if time.monotonic() > began + pushed * 0.05:  # a byte each: nowhere near a limit
                    pushed += sum(push(client, b"X") for client in drips) > 0
                neighbour.wait(1)
        self.assertTrue(all(is_closed(client) for client in drips))

    def bodies_that_drip_are_cut(self):
        server = attacked(self, connections=50, idle_time="1s")
        drips = [dial(server) for _ in range(40)]
        for client in drips:
            client.sendall(CREATE + b"Content-Length: 500000\r\n\r\n")
        began = time.monotonic()
        with Neighbour(self, server) as neighbour:
            while time.monotonic() < began + 2.5:
                for client in drips:
                    push(client, b" ")
                neighbour.wait(1)
        self.assertTrue(all(is_closed(client) for client in drips))

    def answers_that_nobody_reads_are_cut(self):
        server = attacked(self, connections=50, idle_time="1s")
        for _ in range(30):
            server.call("POST", "/v1/queues/q/tasks", TASK[:-1] + b',"body":"' + b"x" * 200000 + b'"}')
        path = server.get("/v1/queues/q/tasks").json["tasks"][0]["id"]
        deaf = [dial(server) for _ in range(20)]
        for client in deaf:  # more than fits into anybody's buffers
            push(client, (b"GET /v1/tasks/%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode()) * 100)
        with Neighbour(self, server) as neighbour:
            began = time.monotonic()
            while time.monotonic() < began + 2.5:
                neighbour.wait(1)
        for client in deaf:
            await_close(client)  # it comes to an end


class Large(unittest.TestCase):
    def header_bombs_end_the_connection_only(self):
        server = attacked(self)
        bombs = (b"GET /healthz HTTP/1.1\r\n" + b"X-a: b\r\n" * 100000,
                 b"GET /healthz HTTP/1.1\r\nX-a: " + b"b" * 1000000,
                 b"GET /" + b"a" * 1000000 + b" HTTP/1.1\r\n\r\n",
                 b"A" * 1000000,
                 b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"".join(
                     b"X-%d: b\r\n" % number for number in range(50000)) + b"\r\n")
        with Neighbour(self, server) as neighbour:
            for bomb in bombs:
                for _ in range(5):
                    with dial(server) as client:
                        push(client, bomb)
                        said = await_close(client)
                        self.assertNotIn(b"HTTP/1.1 2", said)
            neighbour.wait(2)

    def chunks_without_end_are_cut_and_cost_no_memory(self):
        server = attacked(self, body="64KiB")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        before = self._memory(server)
        with Neighbour(self, server) as neighbour:
            endless = [dial(server) for _ in range(20)]
            for client in endless:
                client.sendall(CREATE + b"Transfer-Encoding: chunked\r\n\r\n")
            for client in endless:
                sent = 0
                while push(client, chunk) and sent < 1000:
                    sent += 1
                self.assertLess(sent, 1000)  # 8 times the limit, and what is on its way
            neighbour.wait(2)
        self.assertLess(self._memory(server), before + 100000)
        self.assertEqual(server.get("/healthz").status, 200)

    def chunks_that_are_a_byte_each_are_cut(self):
        server = attacked(self, body="64KiB", idle_time="1s")
        with Neighbour(self, server) as neighbour:
            client = dial(server)
            client.sendall(CREATE + b"Transfer-Encoding: chunked\r\n\r\n")
            began = time.monotonic()
            while push(client, b"1\r\nx\r\n") and time.monotonic() < began + 20:
                neighbour.wait(1)
            self.assertTrue(is_closed(client))

    def a_pipeline_of_thousands_is_served_in_its_turn(self):
        server = attacked(self)
        with Neighbour(self, server) as neighbour:
            clients = [dial(server) for _ in range(10)]
            for client in clients:
                threading.Thread(target=push, args=(
                    client, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5000)).start()
            neighbour.wait(3)
            for client in clients:
                got = b""
                client.settimeout(SLOWEST_SECONDS * 4)
                while got.count(b"HTTP/1.1 200 OK") < 5000:
                    piece = client.recv(1 << 20)
                    self.assertTrue(piece)
                    got += piece
                client.close()

    @staticmethod
    def _memory(server):
        """In KiB."""
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


if __name__ == "__main__":
    runner.main()
