# SPDX-License-Identifier: MIT
"""Answers of upstreams, targets and AI providers: status lines, header fields, chunks, trailers, interim
answers and event streams that are nearly right, cut anywhere, written in pieces.

An answer says the token of its request in the form `tok=TOKEN;`, so that one in wrong hands is known.
"""
import json
import pathlib
import sys

import mutate

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/articles"))
import standins  # noqa: E402  (its folder is only known by now)

WAYS = ("keyed", "keyed", "together", "together", "passed", "head", "settled", "probed", "repeated", "task", "task",
        "retried", "callback")
STATUSES = (b"200 OK",) * 6 + (b"201 Created", b"202 Accepted", b"204 No Content", b"205 Reset",
                               b"206 Part", b"301 Moved", b"303 See", b"304 Not Modified", b"307 Elsewhere",
                               b"400 Bad", b"401 Who", b"404 No", b"408 Late", b"409 No", b"410 Gone",
                               b"425 Early", b"429 Slow", b"500 Oh", b"502 Oh", b"503 Busy", b"504 Late",
                               b"529 Busy", b"599 X", b"999 X", b"100 Continue", b"101 Switching", b"000 X",
                               b"20 X", b"2000 X", b"200", b"")
FIELDS = (b"Retry-After: 0", b"Retry-After: 999999999999", b"Retry-After: Wed, 21 Oct 2099 07:28:00 GMT",
          b"Retry-After: x", b"Date: never", b"Connection: close", b"Connection: keep-alive, content-type",
          b"Set-Cookie: a=b", b"Location: /u/x", b"Location: http://127.0.0.1:1/", b"Location: file:///x",
          b"WWW-Authenticate: Basic", b"Content-Type: application/json", b"X-A: 1", b"X-A: 2",
          b"X-Folded: a\r\n b", b"Bad Name: x", b": x", b"no colon", b"X-Nul: a\0b", b"X-High: \xff",
          b"Content-Encoding: gzip", b"Trailer: X-T", b"Keep-Alive: timeout=0", b"Alt-Svc: h3=\":1\"",
          b"X-RateLimit-Reset: -1", b"X-Long: " + b"v" * 20000, b"Vary: *", b"ETag: \"x\"",
          b"Idempotency-Replayed: true", b"X-Daruma-Task: 1", b"Upgrade: h2c", b"x-should-retry: false",
          b"retry-after-ms: 5", b"x-ratelimit-reset-requests: 1ms", b"x-ratelimit-remaining-requests: 0",
          b"anthropic-ratelimit-requests-reset: 2099-01-01T00:00:00Z")
LENGTHS = (b"-1", b"0", b"1", b"+5", b"5, 5", b"0x5", b"", b"x", b"9223372036854775807",
           b"18446744073709551620", b"9" * 400)
EVENT_HEAD = b"Content-Type: text/event-stream"


def _frame(dice, status, fields, body):
    """As a whole answer, in one of the ways to say where it ends."""
    head = [b"HTTP/1.%d " % (not dice.one_in(15)) + status, *fields]
    way = dice.randrange(10)
    if way < 5:
        head.append(b"Content-Length: %d" % len(body))
    elif way < 8:
        head.append(b"Transfer-Encoding: " + (b"chunked" if not dice.one_in(8) else dice.choice(
            (b"gzip, chunked", b"foo", b"CHUNKED", b"chunked, chunked", b"identity"))))
        body = mutate.chunk(dice, body)
    elif way == 8:
        head.append(b"Content-Length: " + dice.choice(LENGTHS))
    rest = head[1:]
    dice.shuffle(rest)
    return b"\r\n".join([head[0], *rest]) + b"\r\n\r\n" + body


def _interim(dice):
    return dice.choice((b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
                        b"HTTP/1.1 102 Processing\r\n\r\n")) * dice.choice((1, 1, 2, 60))


def _events(dice, token):
    events = [b"data: {\"tok\":\"tok=%s;\",\"n\":%d}\n\n" % (token, number)
              for number in range(dice.choice((0, 1, 3, 40)))]
    events.insert(dice.randrange(len(events) + 1), dice.choice(
        (b": comment\n\n", b"event: error\ndata: x\n\n", b"data: [DONE]\n\n", b"id: 1\nretry: 5\n\n", b"\n")))
    return b"".join(events)


def _finish(dice, whole):
    """[pieces], and what happens to the connection behind them."""
    if dice.one_in(4):
        whole = mutate.mutate_bytes(dice, whole)
    if dice.one_in(8):
        whole = whole[:dice.randrange(len(whole) + 1)]
    if dice.one_in(25):
        whole += b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nSTRAY"
    return mutate.cut_up(dice, whole), dice.choice(("keep", "keep", "keep", "close", "close", "reset", "hold"))


def make_upstream(dice):
    token = dice.hex()
    body, fields = b"tok=%s;" % token.encode(), [one for one in FIELDS if dice.one_in(25)]
    if dice.one_in(4):
        body, fields = _events(dice, token.encode()), [*fields, EVENT_HEAD]
    elif dice.one_in(6):
        body += b"b" * dice.choice((5000, 70000, 300000))
    whole = _frame(dice, dice.choice(STATUSES), fields, body)
    whole = _interim(dice) + whole if dice.one_in(10) else whole
    pieces, end = _finish(dice, whole)
    return {"side": "upstream", "way": dice.choice(WAYS), "token": token, "pieces": pieces, "end": end}


def _provider_answer(dice, kind, token):
    """(status, fields, body)"""
    request = {"model": "m", "messages": [{"content": f"tok={token};"}]}
    if dice.one_in(2):
        made = standins.openai_answer(request) if kind == "openai" else standins.claude_answer(request)
        return b"200 OK", [], mutate.render(mutate.mutate_json(dice, made))
    names = sorted(standins.ERRORS[kind])
    calm = [name for name in names if not any(word in name for word in ("limit", "quota", "credit", "spend",
                                                                        "auth", "billing", "forbidden"))]
    status, headers, made = standins.ERRORS[kind][dice.choice(names if dice.one_in(3) else calm)]()
    fields = [f"{name}: {value}".encode() for name, value in headers.items()]
    if isinstance(made, str):
        return b"%d X" % status, fields, made.encode()
    return b"%d X" % status, fields, mutate.render(mutate.mutate_json(dice, made))


def make_provider(dice):
    token, kind = dice.hex(), dice.choice(("openai", "anthropic"))
    status, fields, body = _provider_answer(dice, kind, token)
    if dice.one_in(6):
        body = b"".join(b"data: %s\n\n" % piece for piece in (body, b"[DONE]"))
        fields = [*fields, EVENT_HEAD]
    fields = [*fields, *(one for one in FIELDS if dice.one_in(60))]
    pieces, end = _finish(dice, _frame(dice, status, fields, body))
    return {"side": "provider", "kind": kind, "token": token, "pieces": pieces, "end": end}


def article(token):
    return {"article": {"id": token, "title": f"tok={token};", "content": json.dumps("本文")}}
