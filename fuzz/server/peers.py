# SPDX-License-Identifier: MIT
"""What stands behind the server: an upstream, target and provider in one, which answers a request by the
token in it: as it was told to, or else well. It reads strictly: what reaches it must be a request that
can be read in one way only.
"""
import collections
import re
import socket
import struct
import threading
import time

LINGER_NOT = struct.pack("ii", 1, 0)
HOLD_SECONDS = 2
PIECE_SECONDS = 0.002
REQUEST_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ (/[!-~]*) HTTP/1\.[01]")
FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\0-\x08\x0a-\x1f\x7f]*)")
TOKEN = re.compile(rb"[0-9a-f]{8}")
ARTICLE_TOKEN = re.compile(rb"tok=([0-9a-f]{8});")


class Wrong(Exception):
    """What came is no request."""


class Peer:
    """Listens on a port of its own. `answers` has by token what is to be said; `wrong` what came and was
    no request; `ledger` how often each path came."""

    def __init__(self):
        self.answers, self.wrong, self.ledger = {}, [], collections.Counter()
        self.lags = {}  # by token: how long after other answers of ours its request came on the connection
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
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
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(channel,), daemon=True).start()

    def _serve(self, channel):
        said_at = None
        with channel, channel.makefile("rb") as stream:
            try:
                while (got := self._read(stream)) is not None:
                    path, token = got
                    with self._lock:
                        self.ledger[path] += 1
                        if said_at is not None:
                            self.lags[token] = time.monotonic() - said_at
                    told = self.answers.get(token)
                    if told is None:
                        body = b"tok=%s;" % token if token else b"well"
                        channel.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + (
                            b"" if path.startswith(b"HEAD") else body))
                        continue
                    if not self._say(channel, told):
                        return
                    said_at = time.monotonic()
            except Wrong as wrong:
                self.wrong.append(repr(wrong))
            except OSError:
                pass  # the server has had enough

    @staticmethod
    def _say(channel, told):
        for number, piece in enumerate(told["pieces"]):
            if number > 0:
                time.sleep(PIECE_SECONDS)
            channel.sendall(piece)
        if told["end"] == "reset":
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        elif told["end"] == "hold":
            channel.settimeout(HOLD_SECONDS)
            channel.recv(1)
        return told["end"] == "keep"

    @staticmethod
    def _read(stream):
        """(method and path, token) of the next request; None when there is no more."""
        first = stream.readline(1 << 16)
        if not first:
            return None
        line = REQUEST_LINE.fullmatch(first[:-2])
        if line is None or not first.endswith(b"\r\n"):
            raise Wrong(first)
        fields = collections.defaultdict(list)
        while (text := stream.readline(1 << 17)) != b"\r\n":
            field = FIELD.fullmatch(text[:-2])
            if not text:
                return None  # cut
            if field is None or not text.endswith(b"\r\n"):
                raise Wrong(first, text)
            fields[field.group(1).lower()].append(field.group(2))
        lengths, codings = fields[b"content-length"], fields[b"transfer-encoding"]
        if len(lengths) > 1 or codings or len(fields[b"host"]) != 1 or (
                lengths and not lengths[0].isdigit()):
            raise Wrong(first, dict(fields))
        body = stream.read(int(lengths[0])) if lengths else b""
        article = ARTICLE_TOKEN.search(body)
        last = line.group(1).split(b"?")[0].rsplit(b"/", 1)[1]
        token = last if TOKEN.fullmatch(last) else article.group(1) if article else b""
        return b" ".join(first.split(b" ")[:2]), token
