# SPDX-License-Identifier: MIT
"""Callers of the gateway: keys of every form, bodies in chunks or not, several requests at once, requests
that are cut. The upstream answers each with its own token; `rig.py` looks who got which.
"""
import mutate

ROUTES = ("u", "s", "p", "r")
KEYS = (b"", b"\"quoted\"", b"\"", b"a b", b"a,b", b"\xff", b"k" * 255, b"k" * 256, b"\"a\\\"b\"", b"\x01",
        b"%20", b"\"a\", \"b\"", b"k\tk", b";x=1", b":YWJj:", b"?1")
METHODS = (b"POST", b"POST", b"POST", b"PUT", b"PATCH", b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"post",
           b"TRACE", b"CONNECT", b"PRI", b"X")
QUERIES = (b"_method=POST", b"%5Fmethod=POST", b"_%6dethod=DELETE", b"x=1;_method=POST", b"+_METHOD=POST",
           b".method=POST", b"%u005fmethod=POST", b"_method%00", b"%5", b"_metho%6", b"%u00", b"+", b";&=")
EXTRA = (b"Prefer: respond-async", b"Prefer: wait=0", b"Prefer: wait=99999999999", b"Prefer: ,;=",
         b"Connection: close", b"Connection: keep-alive, x-a", b"Connection: idempotency-key", b"X-A: b",
         b"X-Forwarded-For: 1.2.3.4", b"X_Daruma_Task: 1", b"Content_Length: 1", b"Upgrade: h2c",
         b"Expect: 100-continue", b"Expect: 200", b"TE: trailers", b"Trailer: X-T", b"Range: bytes=0-1",
         b"Cookie: session=1", b"traceparent: 00-x-y-00", b"X-HTTP-Method-Override: DELETE",
         b"Content-Encoding: gzip", b"If-None-Match: *", b"Accept-Encoding: gzip", b"Via: 1.1 x",
         b"Content-Type: application/json", b"Authorization: Bearer other", b"Proxy-Connection: close")


def _one(dice, token):
    method = dice.choice(METHODS)
    path = b"/%s/%s" % (dice.choice(ROUTES).encode(), token.encode())
    if dice.one_in(8):
        path = mutate.mutate_bytes(dice, path, 1)
    if method in (b"GET", b"HEAD", b"OPTIONS") and dice.one_in(4):  # of others the rig counts paths
        path += b"?" + dice.choice(QUERIES)
    body = mutate.render(mutate.mutate_json(dice, {"a": {"b": 1}, "c": [1, "x"], "token": token}))
    head = [b"%s %s HTTP/1.%d" % (method, path, not dice.one_in(15)), b"Host: gateway"]
    if not dice.one_in(10):
        head.append(b"Authorization: Bearer " + token.encode())
    if not dice.one_in(6):
        key = token.encode() if not dice.one_in(4) else dice.choice(KEYS)
        head.append(b"Idempotency-Key: " + (b"\"" + key + b"\"" if dice.one_in(3) else key))
    head += [one for one in EXTRA if dice.one_in(18)]
    if method in (b"GET", b"HEAD", b"OPTIONS") and not dice.one_in(5):
        body = b""
    elif dice.one_in(3):
        head.append(b"Transfer-Encoding: chunked")
        body = mutate.chunk(dice, body)
    elif dice.one_in(30):
        body = b"x" * dice.choice((5000, 70000, 300000))
        head.append(b"Content-Length: %d" % len(body))
    else:
        head.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def make(dice):
    token = dice.hex()
    whole = _one(dice, token)
    is_plain = False
    if dice.one_in(3):
        whole = mutate.mutate_bytes(dice, whole)
    elif dice.one_in(6):
        whole = b"".join([whole] + [_one(dice, token) for _ in range(dice.randrange(4))])
    elif dice.one_in(6):  # the same request, and a second one that hides in its body
        hidden = b"POST /u/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" % token.encode()
        whole = mutate.mutate_bytes(dice, whole + hidden, 1)
    end = "read"
    if dice.one_in(12):
        whole, end = whole[:dice.randrange(len(whole) + 1)], dice.choice(("read", "close", "reset"))
    elif dice.one_in(12):  # leaves before it is answered
        end = dice.choice(("close", "reset"))
    return {"side": "gateway", "token": token, "is_plain": is_plain, "end": end,
            "pieces": mutate.cut_up(dice, whole)}
