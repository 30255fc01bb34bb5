# SPDX-License-Identifier: MIT
"""Clients that frame their requests in every way that can be read in two ways, that is too large, too
slow or cut: each form against the API and against the gateway. A form is refused, or it is exactly one
request; a request that hides in it is never carried out, and no caller gets its answer. The memory of the
server and the longest turn of its loop are held to a bound for each group.

In a form, LINE is `POST /path`, HEAD the fields that every request has (each ends with CR LF), BODY a whole
body, SIZE its length, HEX that as a chunk has it. HIDDEN is a whole request that must not be carried out.
"""
import re
import socket
import time
import unittest

import runner
from gateway import Gateway
from meter import Meter
from target import Target, answer

ANSWER_SECONDS = 10  # most of it is for a slow machine
QUIET_SECONDS = 0.15  # in which a server that says nothing has said all
CUT_SECONDS = 8
SLOW_SECONDS = 20
ONCE = {"name": "once", "max_attempts": 1}
BOUNDS = {"peak_mib": 16, "kept_mib": 8, "turn_seconds": 0.2}  # of a group of forms
HUGE = b"9" * 30
LONG = 70000

REFUSED = "refused"        # an error, at once; the connection ends
TAKEN = "taken"            # one request; the next one on the connection is answered
LAST = "taken, the last"   # one request; the connection ends behind it
SILENT = "silent"          # no answer: it is not a whole request yet; nothing is done when it is cut
ANSWERED = "answered"      # an error of this very request; the next one on the connection is answered
CLOSED = "closed"          # ended, with an error or without a word

W = b"LINE HTTP/1.1\r\nHEAD"           # a request line and its fields, as they should be
S = W + b"Content-Length: SIZE\r\n"    # and the length
C = W + b"Transfer-Encoding: chunked\r\n\r\n"
ONE = b"HEX\r\nBODY\r\n"               # the body as one chunk
END = b"0\r\n\r\n"

REQUEST_LINES = {
    "as it should be": (S + b"\r\nBODY", TAKEN),
    "empty lines before it": (b"\r\n\r\n" + S + b"\r\nBODY", TAKEN),
    "no version (HTTP/0.9)": (b"LINE\r\n\r\n", CLOSED),
    "no version, with fields": (b"LINE\r\nHEADContent-Length: SIZE\r\n\r\nBODY", REFUSED),
    "HTTP/0.9": (S.replace(b"HTTP/1.1", b"HTTP/0.9") + b"\r\nBODY", REFUSED),
    "HTTP/1.2": (S.replace(b"HTTP/1.1", b"HTTP/1.2") + b"\r\nBODY", REFUSED),
    "HTTP/2.0": (S.replace(b"HTTP/1.1", b"HTTP/2.0") + b"\r\nBODY", REFUSED),
    "HTTP/11": (S.replace(b"HTTP/1.1", b"HTTP/11") + b"\r\nBODY", REFUSED),
    "small http": (S.replace(b"HTTP/1.1", b"http/1.1") + b"\r\nBODY", REFUSED),
    "HTTP/1.0": (S.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\nBODY", LAST),
    "a blank behind the version": (S.replace(b"HTTP/1.1", b"HTTP/1.1 ") + b"\r\nBODY", REFUSED),
    "two blanks before the path": (S.replace(b"LINE", b"METHOD  PATH") + b"\r\nBODY", REFUSED),
    "two blanks before the version": (S.replace(b"LINE ", b"LINE  ") + b"\r\nBODY", CLOSED),
    "a tab in place of the blank": (S.replace(b"LINE", b"METHOD\tPATH") + b"\r\nBODY", REFUSED),
    "a fourth word": (S.replace(b"LINE", b"LINE x") + b"\r\nBODY", CLOSED),
    "a bare line feed at its end": (S.replace(b"1.1\r\n", b"1.1\n", 1) + b"\r\nBODY", REFUSED),
    "a bare carriage return in it": (S.replace(b"LINE", b"LINE\rx") + b"\r\nBODY", REFUSED),
    "a control character in the path": (S.replace(b"LINE", b"LINE\x01") + b"\r\nBODY", REFUSED),
    "a delete character in the path": (S.replace(b"LINE", b"LINE\x7f") + b"\r\nBODY", REFUSED),
    "a NUL in the method": (S.replace(b"LINE", b"PO\0ST PATH") + b"\r\nBODY", REFUSED),
    "a NUL in the path": (S.replace(b"LINE", b"LINE\0") + b"\r\nBODY", REFUSED),
    "a NUL in the version": (S.replace(b"1.1", b"1.1\0") + b"\r\nBODY", REFUSED),
    "a method that is no token": (S.replace(b"LINE", b"P(ST PATH") + b"\r\nBODY", REFUSED),
    "no method": (S.replace(b"LINE", b" PATH") + b"\r\nBODY", CLOSED),
    "a preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", REFUSED),
    "a greeting of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", CLOSED),
    "no words at all": (b"\x80\xff\xfe\r\n\r\n", CLOSED),
}

TARGETS = {
    "absolute": (S.replace(b"LINE", b"METHOD http://localhostPATH") + b"\r\nBODY", TAKEN),
    "absolute, of https": (S.replace(b"LINE", b"METHOD https://localhostPATH") + b"\r\nBODY", TAKEN),
    "authority": (b"CONNECT localhost:80 HTTP/1.1\r\nHEAD\r\nHIDDEN", REFUSED),
    "authority, of a path": (b"CONNECT PATH HTTP/1.1\r\nHEAD\r\nHIDDEN", REFUSED),
    "an asterisk": (b"METHOD * HTTP/1.1\r\nHEADContent-Length: SIZE\r\n\r\nBODY", ANSWERED),
    "an asterisk of OPTIONS": (b"OPTIONS * HTTP/1.1\r\nHEAD\r\n", ANSWERED),
    "no slash before it": (b"METHOD v1 HTTP/1.1\r\nHEADContent-Length: SIZE\r\n\r\nBODY", ANSWERED),
    "a lone per cent sign": (S.replace(b"LINE", b"LINE%") + b"\r\nBODY", ANSWERED),
    "bad hex": (S.replace(b"LINE", b"LINE%zz") + b"\r\nBODY", ANSWERED),
    "an escaped NUL": (S.replace(b"LINE", b"LINE%00") + b"\r\nBODY", ANSWERED),
    "an escaped line end": (S.replace(b"LINE", b"LINE%0d%0aX:1") + b"\r\nBODY", ANSWERED),
    "an escaped slash": (S.replace(b"LINE", b"LINE%2Fx") + b"\r\nBODY", ANSWERED),
    "dots": (S.replace(b"LINE", b"METHOD /x/..PATH") + b"\r\nBODY", ANSWERED),
    "escaped dots": (S.replace(b"LINE", b"METHOD /x/%2e%2ePATH") + b"\r\nBODY", ANSWERED),
    "bytes that are no UTF-8": (S.replace(b"LINE", b"LINE\xff\xfe") + b"\r\nBODY", ANSWERED),
    "a fragment": (S.replace(b"LINE", b"LINE#x") + b"\r\nBODY", ANSWERED),
    "too long": (S.replace(b"LINE", b"LINE" + b"a" * 6000) + b"\r\nBODY", CLOSED),
    "very long": (S.replace(b"LINE", b"LINE" + b"a" * LONG) + b"\r\nBODY", CLOSED),
}

FIELDS = {
    "a blank before the colon": (W + b"Content-Length : SIZE\r\n\r\nBODY", REFUSED),
    "a tab before the colon": (W + b"Content-Length\t: SIZE\r\n\r\nBODY", REFUSED),
    "a folded length": (W + b"X: 1\r\n Content-Length: SIZE\r\n\r\nBODY", REFUSED),
    "a fold as the first line": (b"LINE HTTP/1.1\r\n X: 1\r\nHEAD\r\n", REFUSED),
    "a fold of nothing": (S + b"X: a\r\n \r\n\r\nBODY", REFUSED),
    "a bare line feed": (S + b"X: a\n\r\nBODY", REFUSED),
    "a bare line feed, a field behind it": (W + b"X: a\nContent-Length: SIZE\r\n\r\nBODY", REFUSED),
    "a bare line feed as the end": (S + b"\nBODY", REFUSED),
    "a bare carriage return": (S + b"X: a\rb\r\n\r\nBODY", REFUSED),
    "a NUL in a value": (S + b"X: a\0b\r\n\r\nBODY", REFUSED),
    "a NUL in the last value": (W + b"Content-Length: SIZE\0\r\n\r\nBODY", REFUSED),
    "NULs before a hidden field": (S + b"X: a\0\0\0\0Transfer-Encoding: chunked\r\n\r\nBODY", REFUSED),
    "a NUL in a name": (S + b"X\0Y: a\r\n\r\nBODY", REFUSED),
    "a control character": (S + b"X: a\x01b\r\n\r\nBODY", REFUSED),
    "no colon": (S + b"no colon\r\n\r\nBODY", REFUSED),
    "no name": (S + b": x\r\n\r\nBODY", REFUSED),
    "a name that is no token": (S + b"X(Y): x\r\n\r\nBODY", REFUSED),
    "a name of high bytes": (S + b"X\xe9: x\r\n\r\nBODY", REFUSED),
    "no value": (S + b"X:\r\nY: \r\n\r\nBODY", TAKEN),
    "a value of high bytes": (S + b"X: \xc3\xa9\r\n\r\nBODY", TAKEN),
    "blanks around a value": (S + b"X: \t a \t \r\n\r\nBODY", TAKEN),
    "two hosts": (S + b"Host: other\r\n\r\nBODY", REFUSED),
    "no host": (S.replace(b"HEAD", b"BARE") + b"\r\nBODY", REFUSED),
    "two authorizations": (S + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\nBODY", REFUSED),
    "very many": (S + b"X: y\r\n" * 20000 + b"\r\nBODY", CLOSED),
    "very many names": (S + b"".join(b"X%d: y\r\n" % n for n in range(5000)) + b"\r\nBODY", CLOSED),
    "a very long value": (S + b"X: " + b"y" * LONG + b"\r\n\r\nBODY", CLOSED),
    "a very long name": (S + b"X" * LONG + b": y\r\n\r\nBODY", CLOSED),
    "very many cookies": (S + b"Cookie: " + b"a=b; " * 10000 + b"\r\n\r\nBODY", CLOSED),
    "very many parameters": (S.replace(b"LINE", b"LINE?" + b"a&" * 1900) + b"\r\nBODY", CLOSED),
}

LENGTHS = {
    "twice the same": (S + b"Content-Length: SIZE\r\n\r\nBODY", REFUSED),
    "twice, different": (S + b"Content-Length: 0\r\n\r\nBODY", REFUSED),
    "a list": (W + b"Content-Length: SIZE, SIZE\r\n\r\nBODY", REFUSED),
    "a plus": (W + b"Content-Length: +SIZE\r\n\r\nBODY", REFUSED),
    "negative": (W + b"Content-Length: -1\r\n\r\nBODY", REFUSED),
    "hex": (W + b"Content-Length: 0xHEX\r\n\r\nBODY", REFUSED),
    "empty": (W + b"Content-Length:\r\n\r\nBODY", REFUSED),
    "words": (W + b"Content-Length: many\r\n\r\nBODY", REFUSED),
    "a tail": (W + b"Content-Length: SIZEx\r\n\r\nBODY", REFUSED),
    "a fraction": (W + b"Content-Length: SIZE.0\r\n\r\nBODY", REFUSED),
    "a blank within": (W + b"Content-Length: 1 2\r\n\r\nBODY", REFUSED),
    "more than 64 bits": (W + b"Content-Length: " + HUGE + b"\r\n\r\nBODY", CLOSED),
    "as many as 63 bits have": (W + b"Content-Length: 9223372036854775807\r\n\r\nBODY", REFUSED),
    "over the limit": (W + b"Content-Length: 1000000\r\n\r\nBODY", REFUSED),
    "with leading zeros": (W + b"Content-Length: 000SIZE\r\n\r\nBODY", TAKEN),
    "named with an underscore": (S + b"Content_Length: 0\r\n\r\nBODY", TAKEN),
}

CODINGS = {
    "chunked": (C + ONE + END, LAST),
    "chunked in capitals": (C.replace(b"chunked", b"CHUNKED") + ONE + END, LAST),
    "and a length": (S + b"Transfer-Encoding: chunked\r\n\r\n" + ONE + END, REFUSED),
    "before a length": (C[:-2] + b"Content-Length: SIZE\r\n\r\n" + ONE + END, REFUSED),
    "and a length that hides a request": (
        W + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + END + b"HIDDEN", REFUSED),
    "twice": (C[:-2] + b"Transfer-Encoding: chunked\r\n\r\n" + ONE + END, REFUSED),
    "twice, the other is none": (C[:-2] + b"Transfer-Encoding: identity\r\n\r\n" + ONE + END, REFUSED),
    "a list": (C.replace(b"chunked", b"gzip, chunked") + ONE + END, REFUSED),
    "a list that ends otherwise": (C.replace(b"chunked", b"chunked, gzip") + ONE + END, REFUSED),
    "a list with nothing in it": (C.replace(b"chunked", b"chunked,") + ONE + END, REFUSED),
    "identity": (C.replace(b"chunked", b"identity") + ONE + END, REFUSED),
    "unknown": (C.replace(b"chunked", b"xchunked") + ONE + END, REFUSED),
    "quoted": (C.replace(b"chunked", b"\"chunked\"") + ONE + END, REFUSED),
    "a parameter": (C.replace(b"chunked", b"chunked;q=1") + ONE + END, REFUSED),
    "a vertical tab before it": (C.replace(b" chunked", b"\x0bchunked") + ONE + END, REFUSED),
    "a tab before it": (C.replace(b" chunked", b"\tchunked") + ONE + END, LAST),
    "a NUL behind it": (C.replace(b"chunked", b"chunked\0") + ONE + END, REFUSED),
    "empty": (C.replace(b"chunked", b"") + ONE + END, REFUSED),
    "a blank before the colon": (C.replace(b"Encoding:", b"Encoding :") + ONE + END, REFUSED),
    "folded": (C.replace(b" chunked", b"\r\n chunked") + ONE + END, REFUSED),
    "in HTTP/1.0": (C.replace(b"HTTP/1.1", b"HTTP/1.0") + ONE + END, REFUSED),
    "named with an underscore": (S + b"Transfer_Encoding: chunked\r\n\r\nBODY", TAKEN),
}

CHUNKS = {
    "one for each byte": (C + b"BYTES" + END, LAST),
    "an extension": (C + b"HEX;a=b\r\nBODY\r\n" + END, LAST),
    "leading zeros": (C + b"0000HEX\r\nBODY\r\n" + END, LAST),
    "trailers": (C + ONE + b"0\r\nX-T: a\r\n\r\n", LAST),
    "trailers that are framing": (C + ONE + b"0\r\nContent-Length: 5\r\n\r\n", LAST),
    "a negative size": (C + b"-1\r\nBODY\r\n" + END, CLOSED),
    "a size with 0x": (C + b"0xHEX\r\nBODY\r\n" + END, CLOSED),
    "a size with a plus": (C + b"+HEX\r\nBODY\r\n" + END, CLOSED),
    "a size of words": (C + b"zz\r\nBODY\r\n" + END, CLOSED),
    "no size": (C + b"\r\nBODY\r\n" + END, CLOSED),
    "a blank behind the size": (C + b"HEX \r\nBODY\r\n" + END, CLOSED),
    "a size of more than 64 bits": (C + b"1" + b"0" * 16 + b"\r\nBODY\r\n" + END, CLOSED),
    "a size that wraps round to the right one": (C + b"1" + b"0" * 13 + b"HEX3\r\nBODY\r\n" + END, CLOSED),
    "a very long size": (C + b"0" * LONG + b"\r\n\r\n", CLOSED),
    "a very long extension": (C + b"HEX;" + b"a" * LONG + b"\r\nBODY\r\n" + END, CLOSED),
    "very many trailers": (C + ONE + b"0\r\n" + b"X: y\r\n" * 20000 + b"\r\n", CLOSED),
    "no line end behind the data": (C + b"HEX\r\nBODYx" + END, CLOSED),
    "data behind the last one": (C + ONE + END + b"HIDDEN", LAST),
    "a bare line feed behind the size, and a hidden request": (
        C + b"HEX;\nBODY\r\n" + END + b"HIDDEN", LAST),
    "a NUL behind the size": (C + b"HEX\0\r\nBODY\r\n" + END, CLOSED),
    "over the limit": (C + (b"10000\r\n" + b"x" * 0x10000 + b"\r\n") * 6 + END, CLOSED),
    "a size over the limit": (C + b"fffffff\r\nBODY", SILENT),  # until more of it comes than is read
}

EXPECTATIONS = {
    "100-continue, and the body with it": (S + b"Expect: 100-continue\r\n\r\nBODY", TAKEN),
    "another": (S + b"Expect: 200-ok\r\n\r\nBODY", REFUSED),
    "an empty one": (S + b"Expect:\r\n\r\nBODY", REFUSED),
    "two": (S + b"Expect: 100-continue\r\nExpect: x\r\n\r\nBODY", REFUSED),
    "an upgrade to h2c": (S + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                          b"HTTP2-Settings: AAMAAABk\r\n\r\nBODY", TAKEN),
    "an upgrade to a web socket": (S + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nBODY", TAKEN),
    "close": (S + b"Connection: close\r\n\r\nBODY", LAST),
    "close, and a hidden request": (S + b"Connection: close\r\n\r\nBODYHIDDEN", LAST),
    "that the length is of the connection": (S + b"Connection: content-length\r\n\r\nBODY", TAKEN),
    "keep-alive in HTTP/1.0": (S.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Connection: keep-alive\r\n\r\nBODY",
                               TAKEN),
}

CUTS = {
    "nothing": (b"", SILENT),
    "half a method": (b"PO", SILENT),
    "half a line": (b"LINE HTT", SILENT),
    "a line": (b"LINE HTTP/1.1\r\n", SILENT),
    "half a field": (W + b"Content-Le", SILENT),
    "fields without their end": (S, SILENT),
    "half the end of the fields": (S + b"\r", SILENT),
    "no body": (S + b"\r\n", SILENT),
    "half a body": (S + b"\r\nHALF", SILENT),
    "no chunk": (C, SILENT),
    "half a size": (C + b"1", SILENT),
    "half a chunk": (C + b"HEX\r\nHALF", SILENT),
    "no last chunk": (C + ONE, SILENT),
    "half the last chunk": (C + ONE + b"0\r\n", SILENT),
    "half a trailer": (C + ONE + b"0\r\nX-T", SILENT),
}

GROUPS = {"request_lines": REQUEST_LINES, "targets": TARGETS, "fields": FIELDS, "lengths": LENGTHS,
          "codings": CODINGS, "chunks": CHUNKS, "expectations": EXPECTATIONS, "cuts": CUTS}


class Door:
    """One of the two that a client can come by: what a request to it is, and what it has done."""

    def __init__(self, rig, port, path):
        self.rig, self.port, self.path = rig, port, path

    def fill(self, form, token):
        body = self.body(token)
        hidden = b"POST " + self.path.replace(b"TOKEN", b"hidden") + (
            b" HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: hidden\r\nContent-Length: %d\r\n\r\n%s" % (
                len(self.body(b"hidden")), self.body(b"hidden")))
        bare = b"Idempotency-Key: " + token + b"\r\n"
        for word, text in ((b"LINE", b"METHOD PATH"), (b"METHOD", b"POST"),
                           (b"PATH", self.path.replace(b"TOKEN", token)), (b"HEAD", b"Host: localhost\r\nBARE"),
                           (b"BARE", bare), (b"SIZE", b"%d" % len(body)), (b"HEX", b"%x" % len(body)),
                           (b"BYTES", b"".join(b"1\r\n%c\r\n" % byte for byte in body)),
                           (b"HALF", body[:len(body) // 2]), (b"BODY", body), (b"HIDDEN", hidden)):
            form = form.replace(word, text)
        return form


class Api(Door):
    @staticmethod
    def body(token):
        return b'{"body":"x","delay_ms":3600000,"labels":{"token":"%s"}}' % token

    def done(self, token):
        """How many tasks the token has made."""
        got = self.rig.server.get("/v1/queues/q/tasks?label.token=" + token.decode())
        return len(got.json["tasks"])

    @staticmethod
    def is_own(reply, _token):
        return reply.startswith(b"HTTP/1.1 201") or reply.startswith(b"HTTP/1.0 201")


class Routed(Door):
    @staticmethod
    def body(token):
        return b'{"token":"%s"}' % token

    def done(self, token):
        """How many requests with the token have reached the upstream."""
        return sum(one.path.endswith("/" + token.decode()) for one in self.rig.target.seen())

    @staticmethod
    def is_own(reply, token):
        return b" 200 " in reply[:14] and reply.endswith(b"own:" + token)


class Rig:
    def __init__(self, test):
        self.target = Target(lambda request: answer(
            200, {}, b"own:" + request.path.rsplit("/", 1)[1].encode()))
        test.addCleanup(self.target.close)
        routes = [{"match": "POST /u/*", "upstream": self.target.url("").rstrip("/"), "scope": "global",
                   "policy": "once"}]
        self.server = Gateway(test, routes, queues=[{"name": "q"}],
                              limits={"body": "64KiB", "header_time": "2s", "idle_time": "2s"})
        self.server.configure(**{**self.server.config, "policies": [ONCE]})
        self.server.start()
        self.doors = {"api": Api(self, self.server.port, b"/v1/queues/q/tasks"),
                      "gateway": Routed(self, self.server.gateway_port, b"/u/TOKEN")}


class Talk:
    """One connection: the form, then a request that is well formed, and what came of both."""

    def __init__(self, door, form, token):
        self.door, self.token, self.is_closed, self.got = door, token, False, b""
        self.client = socket.create_connection(("127.0.0.1", door.port), ANSWER_SECONDS)
        self._write(door.fill(form, token))

    def _write(self, data):
        try:
            self.client.sendall(data)
        except OSError:
            pass  # it had enough: what it said is still to be read

    def read(self, seconds, count=1):
        """Until there are that many answers, or its end. The answers, without the interim ones."""
        deadline = time.monotonic() + seconds
        while len(self.replies()) < count and not self.is_closed:
            self.client.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                piece = self.client.recv(1 << 16)
                self.got += piece
                self.is_closed = not piece
            except TimeoutError:
                break
            except OSError:
                self.is_closed = True
        return self.replies()

    def replies(self):
        """The whole answers so far; what libmicrohttpd says itself has its fields twice, and is the last."""
        found, rest = [], self.got
        while b"\r\n\r\n" in rest:
            head, rest = rest.split(b"\r\n\r\n", 1)
            length = re.search(rb"(?mi)^content-length: *(\d+)", head)
            size = int(length.group(1)) if length else 0
            if len(rest) < size:
                break
            if not re.match(rb"HTTP/1.1 1", head):
                found.append(head + b"\r\n\r\n" + rest[:size])
            rest = rest[size:]
        return found

    def follow(self, next_token):
        """A well-formed request behind it: its answer, or None when the connection has ended."""
        before = len(self.replies())
        self._write(self.door.fill(S + b"\r\nBODY", next_token))
        replies = self.read(ANSWER_SECONDS, before + 1)
        return replies[before] if len(replies) > before else None

    def drip(self):
        """One byte more, and what came meanwhile."""
        if not self.is_closed:
            self._write(b"a")
            self.read(0.001, 9)

    def close(self):
        self.client.close()


class Forms(unittest.TestCase):
    def _check(self, group):
        rig, wrong = Rig(self), []
        with Meter(rig.server) as meter:
            for kind, door in rig.doors.items():
                for number, (name, (form, wanted)) in enumerate(GROUPS[group].items()):
                    try:
                        self._check_form(door, form, wanted, b"%s-%d" % (kind.encode(), number))
                    except AssertionError as one:
                        wrong.append(f"{kind}: {name}: {one}")
                wrong += ["a hidden request was carried out"] * door.done(b"hidden")
        self.assertFalse(wrong, "\n".join(wrong))
        meter.check(self, **BOUNDS)

    def _check_form(self, door, form, wanted, token):
        if wanted in (REFUSED, CLOSED, LAST):
            form += b"HIDDEN"  # in the same write: the next request, unless the connection ends here
        talk, behind = Talk(door, form, token), token + b"-behind"
        self.addCleanup(talk.close)
        if wanted == SILENT:
            self.assertEqual((talk.read(QUIET_SECONDS), talk.is_closed), ([], False))
            talk.close()
        else:
            replies = talk.read(ANSWER_SECONDS)
            next_one = talk.follow(behind)
            getattr(self, "_check_" + wanted.split(",")[0])(door, talk, replies, next_one, behind)
            self._check_end(talk, wanted)
        self.assertEqual(door.done(token), wanted in (TAKEN, LAST))
        if wanted in (TAKEN, LAST):
            self.assertTrue(door.is_own(talk.replies()[0], token), talk.got)

    def _check_refused(self, door, talk, replies, next_one, behind):
        self.assertEqual(len(replies), 1, talk.got)
        self.assertRegex(replies[0], rb"^HTTP/1\.[01] (400|404|405|413|414|417|431|501|505) ")
        self._check_closed(door, talk, replies, next_one, behind)

    def _check_closed(self, door, talk, replies, next_one, behind):
        self.assertNotRegex(talk.got, rb"HTTP/1\.[01] [23]")
        self.assertEqual(door.done(behind), 0)

    def _check_taken(self, door, talk, _replies, next_one, behind):
        if next_one is not None:
            self.assertTrue(door.is_own(next_one, behind), talk.got)
            self.assertEqual(door.done(behind), 1)

    def _check_answered(self, door, talk, replies, next_one, behind):
        self.assertRegex(replies[0], rb"^HTTP/1\.[01] 4\d\d ")
        if next_one is not None:
            self.assertTrue(door.is_own(next_one, behind), talk.got)

    def _check_end(self, talk, wanted):
        if wanted in (TAKEN, ANSWERED):
            self.assertFalse(talk.is_closed, talk.got)
        else:
            talk.read(CUT_SECONDS, 9)
            self.assertTrue(talk.is_closed, talk.got)

    def request_lines_are_exact(self):
        self._check("request_lines")

    def targets_are_read_in_one_way(self):
        self._check("targets")

    def fields_are_exact(self):
        self._check("fields")

    def lengths_are_one_number(self):
        self._check("lengths")

    def codings_are_chunked_or_refused(self):
        self._check("codings")

    def chunks_are_exact_and_the_last_of_their_connection(self):
        self._check("chunks")

    def expectations_and_upgrades_hide_nothing(self):
        self._check("expectations")

    def requests_that_are_cut_do_nothing(self):
        self._check("cuts")

    def what_comes_byte_by_byte_is_cut_in_its_time(self):
        rig, talks = Rig(self), []
        with Meter(rig.server) as meter:
            for kind, door in rig.doors.items():
                for number, form in enumerate((b"LINE HTTP/1.1\r\nHEADX: ", S + b"\r\n", C + b"HEX;",
                                               C + b"HEX\r\n", C + ONE + b"0\r\nX: ")):
                    talks.append(Talk(door, form.replace(b"SIZE", b"9000").replace(b"HEX", b"ff00"),
                                      b"%s-%d" % (kind.encode(), number)))
            deadline = time.monotonic() + SLOW_SECONDS
            while not all(talk.is_closed for talk in talks) and time.monotonic() < deadline:
                for talk in talks:
                    talk.drip()
                time.sleep(0.02)
        self.assertEqual([talk.token for talk in talks if not talk.is_closed], [])
        for talk in talks:
            talk.close()
            self.assertNotRegex(talk.got, rb"HTTP/1\.[01] [23]")
            self.assertEqual(talk.door.done(talk.token), 0)
        meter.check(self, **BOUNDS)

    def what_is_well_formed_is_taken_byte_by_byte(self):
        rig = Rig(self)
        for kind, door in rig.doors.items():
            for number, form in enumerate((S + b"\r\nBODY", C + b"BYTES" + END)):
                token = b"%s-%d" % (kind.encode(), number)
                talk = Talk(door, b"", token)
                for byte in door.fill(form, token):
                    talk.client.sendall(bytes([byte]))
                self.assertTrue(door.is_own(talk.read(ANSWER_SECONDS)[0], token), talk.got)
                self.assertEqual(door.done(token), 1)
                talk.close()

    def there_are_at_least_sixty_forms(self):
        self.assertGreaterEqual(sum(len(group) for group in GROUPS.values()), 60)


if __name__ == "__main__":
    runner.main()
