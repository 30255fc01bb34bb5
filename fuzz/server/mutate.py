# SPDX-License-Identifier: MIT
"""Mutation of bytes, of JSON values and of HTTP framing, by dice that a seed throws. The same seed
makes the same inputs, whatever the machine and the clock do.
"""
import json
import random

TOKENS = (b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"%", b"%00", b"%2F", b"..", b"//", b";",
          b",", b"\"", b"\\", b"{", b"[", b"chunked", b"Content-Length: 5\r\n", b"\xff", b"\xc3\x28",
          b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.1", b"0\r\n\r\n",
          b"-1", b"0x10", b"18446744073709551616", b"9223372036854775807", b"\x7f", b"\x1b[31m",
          b"data: ", b"event: error\n", b"\n\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"null")
NUMBERS = (0, -1, 1, 2, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63,
           2**64, -2**63, 1e308, 1e-400, 0.5, -0.0)
TEXTS = ("", " ", "a" * 256, "a" * 5000, "\0", "\u0000x", "\x7f", "é", "🎌" * 20, "../..", "_callbacks",
         "_route.spare", "env:HOME", "file:/etc/passwd", "http://127.0.0.1:1/", "ftp://x/", "https://[::1",
         "http://u:p@x/", "x\r\nX-Injected: 1", "null", "true", "1", "2024-01-01T00:00:00Z",
         "9999-99-99T99:99:99Z", "10s", "-1s", "999999999999d", "1e5", "*", "%", "\ud800")
RAWS = ("1e999", "-", "01", "+1", "NaN", "\"\\ud800\"", "\"\\u0000\"", "\"\xff\"", "[1,]", "{\"a\":1,}",
        "{\"a\":1,\"a\":2}", "\"\\x\"", "tru", "\"a\nb\"", "[" * 2000, "{\"a\":" * 600, "1" * 400,
        "\"\\u00e9\"", "//", "1 2", "")


class Dice(random.Random):
    """`one_in(n)` is true once in n throws."""

    def one_in(self, count):
        return self.randrange(count) == 0

    def hex(self, digits=8):
        return "".join(self.choice("0123456789abcdef") for _ in range(digits))


def mutate_bytes(dice, data, times=None):
    """The data with a few small injuries."""
    data = bytearray(data)
    for _ in range(1 + dice.randrange(3) if times is None else times):
        at = dice.randrange(len(data) + 1)
        way = dice.randrange(8)
        if way == 0 and data:
            data[at % len(data)] ^= 1 << dice.randrange(8)
        elif way == 1:
            data[at:at] = dice.choice(TOKENS)
        elif way == 2:
            del data[at:at + 1 + dice.randrange(8)]
        elif way == 3:
            data[at:at] = data[at:at + 1 + dice.randrange(40)] * (1 + dice.randrange(3))
        elif way == 4:
            data[at:at + 1 + dice.randrange(4)] = dice.choice(TOKENS)
        elif way == 5:
            data[at:at] = bytes(dice.randrange(256) for _ in range(1 + dice.randrange(6)))
        elif way == 6 and dice.one_in(4):
            del data[at:]
        elif way == 7 and dice.one_in(6):
            data[at:at] = dice.choice((b"a", b"\0", b" ", b"\r\n", b"&", b"x: y\r\n")) * dice.choice(
                (100, 1000, 9000, 40000))
    return bytes(data)


class Raw:
    """Text that is to stand in the JSON as it is."""

    def __init__(self, text):
        self.text = text


def nasty(dice, value):
    """A value in place of this one."""
    way = dice.randrange(9)
    if way == 0:
        return dice.choice(NUMBERS)
    if way in (1, 2):
        return dice.choice(TEXTS)
    if way == 3:
        return dice.choice((None, True, False, [], {}))
    if way == 4:
        return Raw(dice.choice(RAWS))
    if way == 5:
        return [value] * dice.choice((1, 2, 17, 300))
    if way == 6:
        return {dice.choice(TEXTS): value, "url": value}
    if way == 7 and isinstance(value, str):
        return value + dice.choice(TEXTS)
    if way == 8 and isinstance(value, (int, float)):
        return -value
    return {f"k{number}": value for number in range(dice.choice((1, 20, 70)))}


def _places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from _places(one, (*path, key))


def mutate_json(dice, value, times=None):
    """A copy of the value with some of its parts replaced, removed or added."""
    value = json.loads(json.dumps(value))
    for _ in range(dice.choice((0, 0, 1, 1, 2, 3)) if times is None else times):
        path = dice.choice(list(_places(value)))
        if not path:
            value = nasty(dice, value) if dice.one_in(4) else value
            if not isinstance(value, (dict, list)) or not value:
                break
            continue
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        way = dice.randrange(6)
        if way == 0:
            del holder[path[-1]]
        elif way == 1 and isinstance(holder, dict):
            holder[dice.choice(TEXTS)] = holder.pop(path[-1])
        elif way == 2 and isinstance(holder, dict):
            holder[dice.choice(("key", "labels", "retry", "status", "x", "lease", "error"))] = nasty(
                dice, holder[path[-1]])
        else:
            holder[path[-1]] = nasty(dice, holder[path[-1]])
        if any(isinstance(one, Raw) for one in _values(value)):
            break  # a copy of it cannot be made
    return value


def _values(value):
    yield value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in items:
        yield from _values(one)


def render(value):
    """As JSON, raw parts as they are; latin-1 carries bytes that are no UTF-8."""
    raws = []

    def stand_in(one):
        raws.append(one.text)
        return f"@RAW{len(raws) - 1}@"
    text = json.dumps(value, default=stand_in, ensure_ascii=False)
    data = text.encode("utf-8", "surrogatepass")
    for number, raw in enumerate(raws):
        data = data.replace(b'"@RAW%d@"' % number, raw.encode("latin-1"))
    return data


def chunk(dice, body):
    """The body in chunks of any size, most of them well formed."""
    out, at = b"", 0
    while at < len(body):
        size = min(len(body) - at, dice.choice((1, 2, 7, 100, 4096, len(body))))
        extension = dice.choice((b"", b"", b"", b";a=b", b";" + b"y" * 50))
        out += b"%x%s\r\n%s\r\n" % (size, extension, body[at:at + size])
        at += size
    return out + b"0\r\n" + dice.choice((b"", b"", b"", b"X-Trailer: t\r\n")) + b"\r\n"


def cut_up(dice, data):
    """In pieces, as they are to be written: mostly one."""
    if not data or not dice.one_in(4):
        return [data]
    cuts = sorted(dice.randrange(len(data)) for _ in range(dice.choice((1, 1, 2, 5))))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)]) if b > a]
