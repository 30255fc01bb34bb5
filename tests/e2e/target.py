# SPDX-License-Identifier: MIT
"""A target that misbehaves by script, on raw sockets, and remembers every request it has seen.

    target = Target()
    target.script("/sync", answer(503), answer(503), answer(200))   # the last one goes on
    target.wait_for(3)

What is done with a request is a function of (connection, request): answer, hold, read_then_reset,
slow_headers and so on make them. A connection that is to die before anything is read is asked for
by cut_connections. The ledger holds what was read whole, whatever was answered.
"""
import collections
import contextlib
import email.utils
import socket
import struct
import threading
import time

WAIT_SECONDS = 20
PIECE_SECONDS = 0.02
LINGER_NOT = struct.pack("ii", 1, 0)


class Request:
    """One request as it was read, and when: `at` is time.monotonic(), `wall` time.time()."""

    def __init__(self, method, path, headers, body, connection):
        self.at, self.wall = time.monotonic(), time.time()
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.connection = connection  # the number of the connection it came by, from 1
        self.task = headers.get("x-daruma-task")
        self.attempt = int(headers.get("x-daruma-attempt", "0"))
        self.key = headers.get("idempotency-key")


class Connection:
    """Reads requests; `reset` says goodbye the hard way."""

    def __init__(self, channel, number):
        self.channel, self.number, self.held = channel, number, b""

    def read_request(self):
        """The next request, or None when there is no more."""
        while b"\r\n\r\n" not in self.held:
            if not self._more():
                return None
        head, self.held = self.held.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _version = first.split(" ", 2)
        headers = {}
        for line in lines:
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        while len(self.held) < length:
            if not self._more():
                return None
        body, self.held = self.held[:length], self.held[length:]
        return Request(method, path, headers, body, self.number)

    def _more(self):
        piece = self.channel.recv(65536)
        self.held += piece
        return len(piece) > 0

    def send(self, piece):
        self.channel.sendall(piece)

    def is_left(self):
        """Waits until the other side closes; false when it says something instead."""
        return self.channel.recv(1) == b""

    def reset(self):
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self.channel.close()


# --- what can be done with a request: true keeps the connection -----------------------------

def head_of(status, headers, length):
    lines = [f"HTTP/1.1 {status} Said So"] + [f"{name}: {value}" for name, value in headers.items()]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def answer(status, headers=None, body=b""):
    def act(connection, _request):
        connection.send(head_of(status, headers or {}, len(body)) + body)
        return True
    return act


def echo(connection, request):
    """200 with the request's own body."""
    return answer(200, {"Content-Type": "application/octet-stream"}, request.body)(connection,
                                                                                   request)


def not_before_seconds(status, seconds):
    return answer(status, {"Retry-After": seconds})


def not_before_date(status, seconds):
    """Retry-After as a date that far ahead, beside the Date it is to be measured from."""
    def act(connection, request):
        now = int(time.time())
        said = {"Date": email.utils.formatdate(now, usegmt=True),
                "Retry-After": email.utils.formatdate(now + seconds, usegmt=True)}
        return answer(status, said)(connection, request)
    return act


def read_then_reset(connection, _request):
    connection.reset()
    return False


def read_then_close(_connection, _request):
    return False


def dribble(pieces):
    """Sends piece after piece, slowly, until the other side has had enough."""
    def act(connection, _request):
        try:
            for piece in pieces:
                connection.send(piece)
                connection.channel.settimeout(PIECE_SECONDS)
                try:
                    if connection.is_left():
                        return False
                except TimeoutError:
                    pass
        except OSError:  # it has left: that is what a slow one is for
            return False
        return False
    return act


def slow_headers():
    def pieces():
        yield b"HTTP/1.1 200 Said So\r\n"
        while True:
            yield b"X-Slow: yes\r\n"
    return dribble(pieces())


def slow_body():
    def pieces():
        yield head_of(200, {}, 1 << 30)
        while True:
            yield b"x"
    return dribble(pieces())


def silence(connection, _request):
    """Says nothing until the other side has had enough."""
    connection.is_left()
    return False


def truncated(status=200, body=b"only half of what was prom"):
    def act(connection, _request):
        connection.send(head_of(status, {}, len(body) * 2) + body)
        return False
    return act


def raw(*pieces, keeps=True):
    """Exactly these bytes; then the connection is closed, unless it is kept."""
    def act(connection, _request):
        for piece in pieces:
            connection.send(piece)
        return keeps
    return act


def flood(head, piece):
    """These bytes, and then the piece, as fast as it is read, until the other side has had enough."""
    def act(connection, _request):
        connection.send(head)
        with contextlib.suppress(OSError):  # it has left: that is what a flood is for
            while True:
                connection.send(piece)
        return False
    return act


HEAD_OF_FLOOD = b"HTTP/1.1 200 OK\r\n"
CHUNKS_OF_FLOOD = HEAD_OF_FLOOD + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOODS = {  # what is no body, without end; in short lines there are more of them
    "headers": (HEAD_OF_FLOOD, b"X-Long: y\r\n" * 1000),
    "interim answers": (b"", b"HTTP/1.1 103 Early\r\n\r\n" * 1000),
    "trailers": (CHUNKS_OF_FLOOD + b"2\r\n{}\r\n0\r\n", b"X-Long: " + b"y" * 1000 + b"\r\n"),
    "short trailers": (CHUNKS_OF_FLOOD + b"2\r\n{}\r\n0\r\n", b"a:\r\n" * 1000),
    "a chunk's extension": (CHUNKS_OF_FLOOD + b"2;x=", b"y" * 10000),
}


def cut_answer(piece):
    """Some of an answer, and then a reset in the middle of it."""
    def act(connection, _request):
        connection.send(piece)
        time.sleep(PIECE_SECONDS)  # else the reset overtakes it
        connection.reset()
        return False
    return act


def hold(event, then=None):
    """Keeps the request until the event, or until the other side is gone."""
    def act(connection, request):
        connection.channel.settimeout(PIECE_SECONDS)
        while not event.is_set():
            try:
                if connection.is_left():
                    return False
            except TimeoutError:
                continue
            except OSError:
                return False
        connection.channel.settimeout(None)
        return (then or answer(200))(connection, request)
    return act


# --- the target ------------------------------------------------------------------------------

class Target:
    """Listens on a free port of its own; one that is not up has the port and refuses everybody until
    begin(). `choose`, if given, is asked for each request."""

    def __init__(self, choose=None, is_up=True):
        self.ledger = []
        self.connection_count = 0
        self._choose = choose
        self._counts = collections.Counter()  # of requests, by path
        self._bodies = set()
        self._scripts = {}
        self._cuts = 0
        self._changed = threading.Condition()
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        if is_up:
            self.begin()

    def begin(self):
        self._listener.listen(512)
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.port}{path}"

    def script(self, path, *acts):
        self._scripts[path] = list(acts)
        return self.url(path)

    def cut_connections(self, count):
        """That many connections from now on are reset when there is something to read, unread."""
        with self._changed:
            self._cuts += count

    def seen(self, path=None):
        with self._changed:
            return [one for one in self.ledger if path is None or one.path == path]

    def wait_for(self, count, path=None):
        """Until that many requests were seen; then all of them."""
        self._wait(lambda: (len(self.ledger) if path is None else self._counts[path]) >= count)
        return self.seen(path)

    def wait_for_body(self, body):
        """Until a request with that body was seen."""
        self._wait(lambda: body in self._bodies)

    def _wait(self, is_there):
        with self._changed:
            if not self._changed.wait_for(is_there, WAIT_SECONDS):
                raise AssertionError(f"not seen among {[one.path for one in self.ledger[-20:]]}")

    def close(self):
        """From here on nobody listens: an accept that waits would keep the door open."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # shut already
        self._listener.close()

    def _accept(self):
        while True:
            try:
                channel, _address = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self.connection_count += 1
                connection = Connection(channel, self.connection_count)
                is_cut = self._cuts > 0
                self._cuts -= is_cut
                self._changed.notify_all()
            serve = self._cut if is_cut else self._serve
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    @staticmethod
    def _cut(connection):
        connection.channel.recv(1, socket.MSG_PEEK)
        connection.reset()

    def _serve(self, connection):
        channel = connection.channel
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                request = connection.read_request()
                if request is None or not self._take(request)(connection, request):
                    break
        except OSError:
            pass  # the other side has left or was killed: nobody to answer
        channel.close()

    def _take(self, request):
        """Into the ledger, and what is to be done with it."""
        with self._changed:
            before = self._counts[request.path]
            self._counts[request.path] += 1
            self._bodies.add(request.body)
            self.ledger.append(request)
            self._changed.notify_all()
            acts = self._scripts.get(request.path)
        if acts is not None:
            return acts[min(before, len(acts) - 1)]
        return self._choose(request) if self._choose is not None else answer(200)
