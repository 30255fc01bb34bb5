# SPDX-License-Identifier: MIT
"""Requests to the API: every call of docs/openapi.json, with bodies, queries, headers and framing that
are nearly right. An id in them is a stand-in of the same length, which `rig.py` replaces by a real one:
so the bytes are the seed's alone.
"""
import json
import pathlib
import urllib.parse

import mutate

DOCUMENT = json.loads((pathlib.Path(__file__).resolve().parents[2] / "docs/openapi.json").read_text())
CALLS = [(call["operationId"], method.upper(), path, call)
         for path, calls in DOCUMENT["paths"].items() for method, call in calls.items()]
QUEUES = ("q", "pull", "retry", "articles", "made", "doubt", "nobody", "_callbacks", "_route.spare",
          "x" * 64, "q", "pull")
STAND_IN_COUNT = 12
SAFE_TARGET = "http://127.0.0.1:9/x"
# By name of a query parameter: what is right.
VALUES = {"state": ("waiting", "failed", "succeeded", "unsettled"), "limit": ("1", "2", "1000"),
          "queue": ("q", "pull", "doubt"), "status": ("failed", "retrying", "resolved"),
          "class": ("transient", "invalid"), "since": ("2020-01-01T00:00:00Z",), "wait_ms": ("0", "20"),
          "until": ("2099-01-01T00:00:00Z",), "route": ("u", "spare"), "key": ("k1",), "force": ("true", "false"),
          "act": ("settle", "redrive", "cancel"), "who": ("admin",), "label.NAME": ("sync",)}
ROLES = ("admin", "operator", "producer", "worker", "viewer")


def token_of(role):
    return f"fuzz-{role}-" + "t" * 32


def stand_in(number):
    return f"00000000-0000-7000-8000-00000000{number:04d}"


def bodies(dice):
    """By operationId: what a well-behaved caller could say."""
    lease = stand_in(dice.randrange(STAND_IN_COUNT)) + dice.choice((".1.1", ".1.2", ".2.1", ""))
    task = {"target": SAFE_TARGET, "delay_ms": dice.choice((0, 1, 3600000)), "method": "PUT",
            "headers": {"X-One": "1", "Content-Type": "text/plain"}, "body": "hello",
            "key": f"k{dice.randrange(50)}", "labels": {"job_type": "sync", "b": "c"},
            "deadline_ms": 60000, "timeout_ms": 500, "repeatable": dice.one_in(2),
            "retry": {"max_attempts": 3, "transient": {"backoff": "fixed", "base": "10ms"}},
            "callback": {"url": SAFE_TARGET, "on": ["failed", "succeeded"]}}
    for name in list(task):
        if dice.one_in(3):
            del task[name]
    if dice.one_in(3):
        task.pop("body", None)
        task.update(dice.choice(({"json": {"row": [1, 2.5, None, "é"]}}, {"body_base64": "aGVsbG8="},
                                 {"article": {"id": "a", "title": "t", "content": "c"}},
                                 {"due_at": "2030-01-01T00:00:00Z"})))
    return {
        "createTask": task, "createTasks": [task, {"body": "x"}, {"json": 1, "key": "b"}],
        "takeLeases": {"max": dice.choice((1, 10)), "lease_ms": 1000, "wait_ms": dice.choice((0, 50))},
        "putQueue": {"policy": {"max_attempts": 3, "transient": {"backoff": "exponential", "base": "1s",
                                                                 "cap": "5m", "jitter": "full"}},
                     "targets": [{"name": "t", "url": SAFE_TARGET, "timeout": "1s",
                                  "headers": [{"name": "x-a", "value": "b"}]}],
                     "rate": {"per_second": 5, "burst": 2}, "concurrency": 2, "lease": "10s",
                     "outage": {"after_failures": 5, "try_every": "1s"}},
        "settleTask": {"outcome": "succeeded", "note": "seen",
                       "response": {"status": 201, "headers": {"x-a": "b"}, "body": "y"}},
        "redriveDeadLetter": {"json": {"row": 9}, "headers": {"X-A": "b"}, "target": SAFE_TARGET},
        "resolveDeadLetter": {"note": "by hand"},
        "redriveDeadLetters": {"filter": {"queue": "q", "class": "transient",
                                          "since": "2020-01-01T00:00:00Z"},
                               "dry_run": dice.one_in(2), "rate_per_second": 0.5, "limit": 3},
        "settleLeases": {"acks": [{"lease": lease, "response": {"status": 201, "body": "done"}}],
                         "retries": [{"lease": lease, "delay_ms": 5,
                                      "error": {"class": "invalid", "message": "no"}}],
                         "extend": [{"lease": lease, "lease_ms": 20000}]},
    }


def _target(dice, call, path):
    """(the request target, whether it is surely the path of the call)"""
    is_plain = True
    for name in ("queue", "id", "run", "redrive"):
        value = {"queue": dice.choice(QUEUES), "id": stand_in(dice.randrange(STAND_IN_COUNT)),
                 "run": str(dice.randrange(4)), "redrive": str(dice.randrange(4))}[name]
        if "{" + name + "}" in path and dice.one_in(8):
            value = urllib.parse.quote(mutate.mutate_bytes(dice, value.encode(), 1), safe="")[:300]
            is_plain = False
        path = path.replace("{" + name + "}", value)
    names = [one["name"] for one in call.get("parameters", []) if one.get("in") == "query"]
    query = []
    for name in names:
        if dice.one_in(3):
            value = dice.choice(("1", "0", "failed", "waiting", "q", "u", stand_in(1), "2020-01-01T00:00:00Z",
                                 "transient", "5", "1001", "true", *mutate.TEXTS))
            if name == "wait_ms":
                value = dice.choice(("0", "20", "x", "-1", "99999999999"))
            elif name in VALUES and not dice.one_in(3):
                value = dice.choice(VALUES[name])
            query.append(name.replace("NAME", "a") + "=" + urllib.parse.quote(
                value.encode("utf-8", "surrogatepass")))
    if dice.one_in(30):
        query.append("x=1")
    path += "?" + "&".join(query) if query else ""
    if dice.one_in(12):
        path, is_plain = mutate.mutate_bytes(dice, path.encode(), 1).decode("latin-1"), False
    return path.encode("latin-1"), is_plain


def make(dice):
    operation, method, path, call = dice.choice(CALLS)
    target, is_plain = _target(dice, call, path)
    body = bodies(dice).get(operation)
    data = b"" if body is None else mutate.render(mutate.mutate_json(dice, body))
    if data and dice.one_in(8):
        data = mutate.mutate_bytes(dice, data)
    head = [b"%s %s HTTP/1.1" % (method.encode(), target), b"Host: 127.0.0.1"]
    if not dice.one_in(20):  # heeded where there are tokens
        role = "admin" if not dice.one_in(4) else dice.choice(ROLES)
        head.append(b"Authorization: Bearer " + token_of(role).encode())
    if operation == "createTask" and dice.one_in(5):
        head.append(b"Idempotency-Key: " + dice.choice((b"k1", b"", b"\xe9", b"a b", b"k" * 300)))
        is_plain = is_plain and head[-1].endswith(b"k1")
    head += [one for one in (b"Content-Type: application/json", b"Accept: */*", b"Expect: 100-continue",
                             b"Connection: close", b"Cookie: a=b; c", b"Range: bytes=0-5") if dice.one_in(6)]
    if data or dice.one_in(4):
        if dice.one_in(3):
            head.append(b"Transfer-Encoding: chunked")
            data = mutate.chunk(dice, data)
        else:
            head.append(b"Content-Length: %d" % len(data))
    whole = b"\r\n".join(head) + b"\r\n\r\n" + data
    if dice.one_in(4):  # framing
        whole, is_plain = mutate.mutate_bytes(dice, whole), False
    elif dice.one_in(12):  # pipelined
        whole, is_plain = whole + whole + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", False
    end = "read"
    if dice.one_in(15):
        whole, is_plain = whole[:dice.randrange(len(whole) + 1)], False
        end = dice.choice(("read", "close", "reset"))
    elif dice.one_in(15):  # leaves before it is answered
        end = dice.choice(("close", "reset"))
    return {"side": "api", "operation": operation, "is_plain": is_plain, "end": end,
            "method": method, "pieces": mutate.cut_up(dice, whole)}
