# SPDX-License-Identifier: MIT
"""An upstream that does to its callers whatever bytes can do: a process of its own, so that a flood
costs the test that measures meanwhile nothing but a core.

    python3 hostile_upstream.py          prints its port; ends when its standard input does

/WAY/BEHAVIOUR/TOKEN does what BEHAVIOUR says. An answer that belongs to its request has the body
`own:TOKEN`; what was not asked for says POISON. GET /ledger tells how often each token came.
GET /lags, how long after an unasked-for answer a request came on the same connection, by token.
FLOODS never end by themselves, QUIET ones wait for the time-out of the gateway, STRAYS send what
was not asked for.
"""
import collections
import json
import select
import socket
import struct
import sys
import threading
import time
import zlib

POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"
BEHAVIOURS = {}
FLOODS, QUIET, STRAYS = set(), set(), set()
STRAYED = "strayed"
PIECE = 1 << 16
LINGER_NOT = struct.pack("ii", 1, 0)
HOLD_SECONDS = 20
DRIP_SECONDS = 0.01
ledger = collections.Counter()
lags = {}  # of requests that came on a connection behind unasked-for bytes: how long after them


class Request:
    def __init__(self, method, path):
        self.method, self.path = method, path
        parts = path.split("/")
        self.behaviour = parts[2] if len(parts) > 3 else ""
        self.token = parts[3] if len(parts) > 3 else ""
        self.own = f"own:{self.token}".encode()


def answer(body, *lines, status=b"200 OK"):
    head = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def chunked(*pieces, end=b"0\r\n\r\n", head=b"Transfer-Encoding: chunked\r\n"):
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body + end


def behaviour(*kinds):
    """A function of (channel, request); true keeps the connection, STRAYED too."""
    def enter(act):
        BEHAVIOURS[act.__name__] = act
        for kind in kinds:
            kind.add(act.__name__)
        return act
    return enter


def says(name, make, *kinds, keeps=True):
    """Writes what `make` makes of the request's own body."""
    def act(channel, request):
        channel.sendall(make(request.own))
        return STRAYED if STRAYS in kinds else keeps
    act.__name__ = name
    behaviour(*kinds)(act)


def floods(name, head, piece):
    """Writes `head`, and then pieces for as long as they are taken."""
    def act(channel, _request):
        channel.sendall(head)
        many = piece * max(1, PIECE // len(piece))
        while True:
            channel.sendall(many)
    act.__name__ = name
    behaviour(FLOODS)(act)


def drips(name, make):
    def act(channel, request):
        for byte in make(request.own):
            channel.sendall(bytes([byte]))
            time.sleep(DRIP_SECONDS)
        return hold(channel)
    act.__name__ = name
    behaviour(QUIET)(act)


def later(name, make, *steps):
    """An answer, and behind it each (seconds, bytes), unless the next request is there by then:
    what comes behind that one cannot be told from its answer."""
    def act(channel, request):
        kept = True
        channel.sendall(make(request.own))
        for seconds, piece in steps:
            if select.select([channel], [], [], seconds)[0]:
                break
            channel.sendall(piece)
            kept = STRAYED
        return kept
    act.__name__ = name
    behaviour(STRAYS)(act)


def hold(channel):
    """Until the other side leaves, whatever it says."""
    channel.settimeout(HOLD_SECONDS)
    while channel.recv(PIECE):
        pass
    return False


def reset(channel):
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
    return False


# --- well behaved ---------------------------------------------------------------------------------
says("own", answer)
says("own_chunked", lambda own: chunked(own[:1], own[1:]))
says("own_closing", lambda own: answer(own, b"Connection: close"), keeps=False)
says("own_unframed", lambda own: b"HTTP/1.1 200 OK\r\n\r\n" + own, keeps=False)
says("own_in_http_1_0", lambda own: b"HTTP/1.0 200 OK\r\n\r\n" + own, keeps=False)
says("own_in_no_coding", lambda own: answer(own, b"Transfer-Encoding: identity"))
says("interim_answers", lambda own: b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n"
     b"Link: </x>\r\n\r\n" + answer(own))
says("few_trailers", lambda own: chunked(own, end=b"0\r\nA: b\r\nC: d\r\n\r\n"))
says("short_chunk_extension", lambda own: chunked(end=b"%x;a=b;c\r\n%s\r\n0;x\r\n\r\n"
                                                  % (len(own), own)))

# --- status lines ---------------------------------------------------------------------------------
for _status in (b"000 No", b"099 No", b"999 No", b"2000 No", b"20 No", b"-200 No", b"2x0 No", b"",
                b"200", b" 200 OK", b"200\tOK", b"20\x000 OK", b"199 No", b"600 No"):
    says("status_" + "".join(f"{byte:02x}" for byte in _status),
         lambda own, status=_status: answer(own, status=status), keeps=False)
says("huge_reason", lambda own: answer(own, status=b"200 " + b"r" * 90000))
floods("endless_reason", b"HTTP/1.1 200 ", b"r" * PIECE)
says("garbage_before_status", lambda own: b"garbage\r\n" + answer(own), keeps=False)
says("blank_lines_before_status", lambda own: b"\r\n\r\n" + answer(own), keeps=False)
floods("endless_garbage", b"", b"garbage\r\n")
says("http_0_9", lambda own: own, keeps=False)
says("http_2_in_text", lambda own: b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", keeps=False)
says("http_3_in_text", lambda own: b"HTTP/3 200\r\ncontent-length: 0\r\n\r\n", keeps=False)
says("http_7", lambda own: b"HTTP/7.1 200 OK\r\nContent-Length: 0\r\n\r\n", keeps=False)
says("http_2_preface", lambda own: b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" * 3, keeps=False)
says("tls_on_a_plain_port", lambda own: b"\x15\x03\x01\x00\x02\x02\x46", keeps=False)
says("another_protocol", lambda own: b"SSH-2.0-OpenSSH_9.2\r\n", keeps=False)
says("nothing_but_nul", lambda own: b"\0" * 100, keeps=False)

# --- interim answers ------------------------------------------------------------------------------
floods("endless_continue", b"", b"HTTP/1.1 100 Continue\r\n\r\n")
floods("endless_hints", b"", b"HTTP/1.1 103 Early Hints\r\nLink: </" + b"x" * 400 + b">\r\n\r\n")
says("only_processing", lambda own: b"HTTP/1.1 102 Processing\r\n\r\n", keeps=False)
says("switching_protocols", lambda own: b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nxxxx",
     keeps=False)
says("switching_and_an_answer", lambda own: b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"
     + answer(own), keeps=False)
says("interim_with_a_length", lambda own: b"HTTP/1.1 103 Hints\r\nContent-Length: 5\r\n\r\nHTTP/"
     + answer(own), keeps=False)

# --- header fields --------------------------------------------------------------------------------
floods("endless_header", b"HTTP/1.1 200 OK\r\n", b"X-Endless: " + b"v" * 80 + b"\r\n")
floods("endless_header_line", b"HTTP/1.1 200 OK\r\nX-Endless: ", b"v" * PIECE)
floods("endless_header_name", b"HTTP/1.1 200 OK\r\n", b"X" * PIECE)
floods("endless_folded_lines", b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n", b" more\r\n")
floods("endless_blank_folds", b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n", b" \r\n")
says("long_header_line", lambda own: answer(own, b"X-Long: " + b"v" * 60000))
says("too_long_header_line", lambda own: answer(own, b"X-Long: " + b"v" * 1000000), keeps=False)
says("ten_thousand_fields", lambda own: answer(own, *(b"%x:" % n for n in range(10500))))
says("many_cookies", lambda own: answer(own, *(b"Set-Cookie: c%d=v" % n for n in range(500))))
says("many_tokens_of_connection", lambda own: answer(
    own, b"Connection: " + b",".join([b"a"] * 16000), *([b"b:"] * 6000)))
says("connection_names_framing", lambda own: answer(own, b"Connection: content-length, content-type"))
says("bare_line_feeds", lambda own: b"HTTP/1.1 200 OK\nContent-Length: %d\n\n%s" % (len(own), own))
says("bare_carriage_returns", lambda own: b"HTTP/1.1 200 OK\rContent-Length: 3\r\rabc", keeps=False)
says("nul_in_a_field", lambda own: answer(own, b"X-Nul: a\0b"))
says("nul_in_a_name", lambda own: answer(own, b"X-\0Nul: a"))
says("folded_field", lambda own: answer(own, b"X-Folded: a\r\n b\r\n\tc"))
says("fold_first", lambda own: b"HTTP/1.1 200 OK\r\n folded: first\r\nContent-Length: %d\r\n\r\n%s"
     % (len(own), own))
says("blank_in_a_name", lambda own: answer(own, b"Bad Name: x", b"Blank : y"))
says("empty_name", lambda own: answer(own, b": nothing"))
says("no_colon", lambda own: answer(own, b"no colon here"))
says("high_bytes", lambda own: answer(own, b"X-High: \xff\xfe\x80", b"\xff\xfe: x"))
says("odd_hints", lambda own: answer(own, b"Retry-After: 999999999999999999999", b"Date: never",
                                     b"X-RateLimit-Reset: -1"))
says("upgrade_offered", lambda own: answer(own, b"Upgrade: h2c", b"Connection: Upgrade"))
says("other_service_offered", lambda own: answer(own, b'Alt-Svc: h3=":1"; persist=1'))

# --- lengths --------------------------------------------------------------------------------------
for _name, _length in {"negative": b"-1", "huge": b"9223372036854775807", "overflow":
                       b"18446744073709551620", "list": b"5, 5", "plus": b"+5", "hex": b"0x5",
                       "blank": b"", "words": b"five", "tail": b"5x", "float": b"5.0",
                       "vast": b"9" * 400}.items():
    says("length_" + _name, lambda own, length=_length:
         b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\n" + own, keeps=False)
says("length_twice_the_same", lambda own: answer(own, b"Content-Length: %d" % len(own)))
says("length_twice_different", lambda own: answer(own, b"Content-Length: 3"), keeps=False)
says("length_too_large", lambda own: b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + own,
     keeps=False)
says("length_too_small", lambda own: b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + own + POISON,
     STRAYS)
says("length_zero_and_a_body", lambda own: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + POISON,
     STRAYS)


@behaviour(QUIET)
def length_too_large_and_silence(channel, request):
    channel.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + request.own)
    return hold(channel)


# --- transfer codings -----------------------------------------------------------------------------
says("coding_and_length", lambda own: chunked(
    own, head=b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n"))
says("length_and_coding", lambda own: chunked(
    own, head=b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"))
for _name, _coding in {"unknown": b"foo", "twice": b"chunked, chunked", "gzip": b"gzip, chunked",
                       "large": b"CHUNKED", "blank": b"", "identity": b"identity",
                       "chunked_first": b"chunked, foo"}.items():
    says("coding_" + _name, lambda own, coding=_coding:
         chunked(own, head=b"Transfer-Encoding: " + coding + b"\r\n"), keeps=False)
for _name, _chunk in {
        "size_huge": b"FFFFFFFFFFFFFFFFF\r\nabc", "size_negative": b"-1\r\nabc",
        "size_overflow": b"10000000000000003\r\nabc\r\n0\r\n\r\n", "size_prefixed": b"0x3\r\nabc\r\n",
        "size_blank": b"\r\nabc\r\n0\r\n\r\n", "size_words": b"zz\r\nabc",
        "size_zeros": b"0" * 15 + b"3\r\nabc\r\n0\r\n\r\n", "size_many_zeros": b"0" * 5000 + b"3\r\n",
        "without_line_end": b"3\r\nabcdef0\r\n\r\n", "bare_line_feeds": b"3\nabc\n0\n\n",
        "cut_within": b"9\r\nabc", "cut_between": b"3\r\nabc\r\n", "cut_within_size": b"3",
        "cut_within_trailers": b"3\r\nabc\r\n0\r\nA: b\r\n", "nul": b"3\0\r\nabc\r\n0\r\n\r\n"}.items():
    says("chunk_" + _name, lambda own, chunk=_chunk: chunked(end=chunk), keeps=False)
floods("endless_chunk_extension", chunked(end=b"1;"), b"y" * PIECE)
floods("endless_chunk_size", chunked(end=b""), b"0" * PIECE)
floods("a_byte_for_each_long_extension", chunked(end=b""), b"1;" + b"y" * 16000 + b"\r\nx\r\n")
floods("endless_trailers", chunked(b"x", end=b"0\r\n"), b"X-000001: " + b"v" * 80 + b"\r\n")
floods("endless_trailer_line", chunked(b"x", end=b"0\r\nX: "), b"v" * PIECE)
floods("endless_short_trailers", chunked(b"x", end=b"0\r\n"), b"a:\r\n")

# --- bodies ---------------------------------------------------------------------------------------
floods("endless_body", b"HTTP/1.1 200 OK\r\n\r\n", b"b" * PIECE)
floods("endless_chunks", chunked(end=b""), b"1000\r\n" + b"b" * 4096 + b"\r\n")
floods("endless_short_chunks", chunked(end=b""), b"1\r\nx\r\n")
floods("endless_events", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
       b"data: " + b"e" * 1000 + b"\n\n")
floods("endless_events_of_framing", chunked(
    end=b"", head=b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"),
       b"1;" + b"y" * 16000 + b"\r\nx\r\n")
says("events_cut_at_once", lambda own: chunked(
    head=b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", end=b"9\r\n"),
     keeps=False)
says("events_of_no_chunks", lambda own: chunked(
    head=b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", end=b"zz\r\n"),
     keeps=False)
says("long_answer_cut", lambda own: b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n"
     + b"l" * 2000000, keeps=False)
says("bomb", lambda own: answer(zlib.compress(b"\0" * (50 << 20), 9),
                                b"Content-Encoding: deflate"))
says("no_content_and_a_body", lambda own: b"HTTP/1.1 204 No Content\r\n\r\n" + POISON, STRAYS)
says("not_modified_and_a_body", lambda own: b"HTTP/1.1 304 Not\r\nContent-Length: 43\r\n\r\n"
     + POISON, STRAYS)
says("reset_content_and_a_body", lambda own: answer(own, status=b"205 Reset"))

# --- answers that were not asked for  ------------------------------------------------------------
says("two_answers", lambda own: answer(own) + POISON, STRAYS)
says("ten_answers", lambda own: answer(own) + POISON * 10, STRAYS)
says("two_chunked_answers", lambda own: chunked(own) + POISON, STRAYS)
says("no_content_and_an_answer", lambda own: b"HTTP/1.1 204 No\r\n\r\n" + POISON, STRAYS)
says("split_answer", lambda own: answer(own, b"Location: /x\r\nContent-Length: 0\r\n\r\n"
                                        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"),
     STRAYS)
says("close_and_an_answer", lambda own: answer(own, b"Connection: close") + POISON, STRAYS)
later("second_answer_at_once", answer, (0, POISON))
later("second_answer_after_1_ms", answer, (0.001, POISON))
later("second_answer_after_5_ms", answer, (0.005, POISON))
later("second_answer_after_20_ms", answer, (0.02, POISON))
later("second_answer_after_150_ms", answer, (0.15, POISON))
later("second_answer_in_parts", answer, (0.005, POISON[:20]), (0.05, POISON[20:]))
later("answer_behind_no_content", lambda own: b"HTTP/1.1 204 No\r\n\r\n", (0.01, POISON))
later("answer_behind_chunks", chunked, (0.01, POISON))
later("interim_answer_behind", answer, (0.01, b"HTTP/1.1 100 Continue\r\n\r\n"))
later("line_ends_behind", answer, (0.01, b"\r\n\r\n"))
later("a_byte_behind", answer, (0.01, b"H"))
later("answers_behind", answer, *([(0.01, POISON)] * 5))
later("a_megabyte_behind", answer, (0.01, b"P" * (1 << 20)))


@behaviour(STRAYS)
def two_answers_cut_anywhere(channel, request):
    """The second one begins in the segment of the first and ends in another."""
    both, at = answer(request.own) + POISON, len(answer(request.own)) + len(request.token) % 40
    channel.sendall(both[:at])
    if not select.select([channel], [], [], 0.01)[0]:
        channel.sendall(both[at:])
    return STRAYED


# --- ends -----------------------------------------------------------------------------------------
for _at in (0, 5, 12, 17, 30, 45):
    says(f"cut_after_{_at}_bytes", lambda own, at=_at: answer(own)[:at], keeps=False)


@behaviour()
def reset_before_the_answer(channel, _request):
    return reset(channel)


@behaviour()
def reset_within_the_answer(channel, request):
    channel.sendall(answer(request.own)[:-1])
    return reset(channel)


@behaviour(QUIET)
def silence(channel, _request):
    return hold(channel)


@behaviour(QUIET)
def half_a_status_line_and_silence(channel, _request):
    channel.sendall(b"HTTP/1.1 2")
    return hold(channel)


drips("header_drips", lambda own: b"HTTP/1.1 200 OK\r\n" + b"X-Slow: v\r\n" * 1000)
drips("body_drips", lambda own: answer(b"b" * 10000))
drips("extension_drips", lambda own: chunked(end=b"1;" + b"y" * 10000))
drips("comments_drip", lambda own: b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
      + b":\n" * 5000)

# --- redirects ------------------------------------------------------------------------------------
for _name, _place in {"long": b"/" + b"x" * 60000, "to_a_file": b"file:///etc/passwd",
                      "to_gopher": b"gopher://127.0.0.1:1/_x", "with_a_password":
                      b"http://u:p@127.0.0.1:1/", "nowhere": b"http://127.0.0.1:1/", "empty": b"",
                      "with_nul": b"/a\0b", "to_no_url": b"http://[::1", "to_script":
                      b"javascript:alert(1)", "to_itself": b""}.items():
    says("redirect_" + _name, lambda own, place=_place:
         answer(own, b"Location: " + place, status=b"307 Elsewhere"))


@behaviour()
def redirect_round(channel, request):
    channel.sendall(answer(b"", b"Location: " + request.path.encode(), status=b"307 Elsewhere"))
    return True


# --- the server -----------------------------------------------------------------------------------

def read_request(stream):
    first = stream.readline(PIECE)
    if not first.endswith(b"\n"):
        return None
    length = 0
    while (line := stream.readline(PIECE)).strip():
        name, value = line.split(b":", 1)
        length = int(value) if name.lower() == b"content-length" else length
    stream.read(length)
    method, path, _version = first.decode("latin-1").split(" ")
    return Request(method, path)


def serve(channel):
    stream, strayed_at = channel.makefile("rb"), None
    try:
        while (request := read_request(stream)) is not None:
            if request.path == "/ledger":
                channel.sendall(answer(json.dumps(ledger).encode()))
                continue
            if request.path == "/lags":
                channel.sendall(answer(json.dumps(lags).encode()))
                continue
            ledger[request.token] += 1
            if strayed_at is not None:
                lags[request.token] = time.monotonic() - strayed_at
            kept = BEHAVIOURS[request.behaviour](channel, request)
            if not kept:
                break
            strayed_at = time.monotonic() if kept == STRAYED else strayed_at
    except (OSError, ValueError):
        pass  # whoever asked has had enough
    stream.close()
    channel.close()


def accept(listener):
    while True:
        channel, _address = listener.accept()
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(channel,), daemon=True).start()


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
