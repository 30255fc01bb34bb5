# SPDX-License-Identifier: MIT
"""The real server, what stands behind it, and what has to hold whatever they are sent.

A `Rig` is one life of the server with one configuration, which the seed chooses: store, threads, tokens,
and whether it is started again. `play` does one input; `check` is what is asked after each batch; `end` stops it.
"""
import concurrent.futures
import json
import pathlib
import re
import socket
import sys
import tempfile
import time

import answer_side
import api_side
from peers import LINGER_NOT, Peer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/e2e"))
import server as served  # noqa: E402  (its folder is only known by now)

STORES = (served.CHOSEN,) * 2 if served.CHOSEN else ("sqlite", "json")
THREADS = (1, 3)
PROVIDERS = 8  # of each kind: one that says "come back tomorrow" is not asked again in this life
ANSWER_SECONDS = 20  # for a request that is well formed; most of it is for a slow machine
QUIET_SECONDS = 0.25  # how long one waits for an answer to something that may be no request
HEALTH_SECONDS = 10
RACE_SECONDS = 0.05  # in which bytes that were not asked for cannot be told from an answer
ATTEMPT = "400ms"
TOGETHER = 3
REFUSALS = (413, 414, 417, 431)  # the "default" of docs/openapi.json
REPORTS = re.compile(r"Sanitizer|runtime error:|Assertion|assert.*failed|==\d+==|stack-protector|SUMMARY:")
MARK = re.compile(rb"tok=([0-9a-f]{8});")
STAND_IN = re.compile(rb"00000000-0000-7000-8000-00000000(\d{4})")
ONCE = {"name": "once", "max_attempts": 1}
TWICE = {"name": "twice", "max_attempts": 2, "transient": {"backoff": "fixed", "base": "10ms"}}
PATHS = {"keyed": "u", "together": "u", "passed": "u", "head": "u", "settled": "s", "probed": "p", "repeated": "r"}


class Finding(Exception):
    """Something that must hold does not."""


class Reply:
    """One answer; `is_whole` is false when its end did not come."""

    def __init__(self, status, fields, body, is_whole):
        self.status, self.fields, self.body, self.is_whole = status, fields, body, is_whole

    def __repr__(self):
        return f"{self.status} {self.fields} {self.body[:300]!r}{'' if self.is_whole else ' cut'}"


class Channel:
    """A client's connection, on raw bytes."""

    def __init__(self, port):
        self.socket, self.held, self.got = socket.create_connection(("127.0.0.1", port), 10), b"", b""
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, pieces):
        """False when the server ended it meanwhile."""
        try:
            for number, piece in enumerate(pieces):
                if number > 0:
                    time.sleep(0.001)
                self.socket.sendall(piece)
            return True
        except OSError:
            return False

    def _more(self, deadline):
        self.socket.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            piece = self.socket.recv(1 << 16)
        except OSError:
            return False
        self.held, self.got = self.held + piece, self.got + piece
        return len(piece) > 0

    def _until(self, mark, deadline):
        while mark not in self.held:
            if not self._more(deadline):
                return None
        part, self.held = self.held.split(mark, 1)
        return part

    def _take(self, count, deadline):
        while len(self.held) < count and self._more(deadline):
            pass
        part, self.held = self.held[:count], self.held[count:]
        return part, len(part) == count

    def read(self, seconds, is_head=False):
        """The next answer that is no interim one; None when none came."""
        deadline = time.monotonic() + seconds
        while (head := self._until(b"\r\n\r\n", deadline)) is not None:
            first, *lines = head.split(b"\r\n")
            line = re.fullmatch(rb"HTTP/1\.[01] ([1-9]\d\d)( .*)?", first)
            fields = {}
            for text in lines:
                name, colon, value = text.partition(b":")
                if not colon or not name or b" " in name:
                    raise Finding(f"the server sent {head!r}")
                fields.setdefault(name.decode("latin-1").lower(), value.strip().decode("latin-1"))
            if line is None:
                raise Finding(f"the server sent {head!r}")
            status = int(line.group(1))
            if status >= 200:
                deadline = max(deadline, time.monotonic() + 5)
                return Reply(status, fields, *self._body(status, fields, is_head, deadline))
        return None

    def _body(self, status, fields, is_head, deadline):
        if is_head or status in (204, 304):
            return b"", True
        if "chunked" in fields.get("transfer-encoding", ""):
            body = b""
            while (size := self._until(b"\r\n", deadline)) is not None:
                part, is_whole = self._take(int(size, 16) + 2, deadline)
                body += part[:-2]
                if not is_whole or int(size, 16) == 0:
                    return body, is_whole
            return body, False
        if "content-length" in fields:
            return self._take(int(fields["content-length"]), deadline)
        while self._more(deadline):
            pass
        body, self.held = self.held, b""
        return body, True

    def rest(self, seconds):
        """What else comes in that time."""
        deadline = time.monotonic() + seconds
        while self._more(deadline):
            pass

    def close(self, way="close"):
        if way == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self.socket.close()


def route(peer, name, **more):
    return {"match": f"POST,PUT,PATCH,DELETE,GET,HEAD /{name}/*", "name": name, "upstream": peer.url,
            "scope": "global", "timeout": ATTEMPT, "in_progress": "wait", "wait": "5s", "policy": "once",
            "not_sent": "release", **more}


class Rig:
    def __init__(self, seed):
        self.seed, self.folder = seed, tempfile.TemporaryDirectory(prefix="daruma-fuzz-")
        self.store, self.threads, self.has_tokens = STORES[seed % 2], THREADS[seed // 2 % 2], seed // 4 % 2
        self.upstream, self.honest = Peer(), Peer()
        self.tasks, self.played, self.round, self.kept = [], 0, 0, {}
        self.tokens = set()  # of all inputs so far: a damaged token belongs to no caller
        (pathlib.Path(self.folder.name) / "var").mkdir()
        self.server = served.Server(None, self.store, folder=self.folder.name, **self._settings())
        self._start()
        self.pool = self._fill()
        made = self._api("POST", "/v1/queues/control/tasks", {"body": "control", "delay_ms": 3600000})
        self.control = json.loads(made.body)["id"]
        self.control_body = self._api("GET", f"/v1/tasks/{self.control}").body

    # --- the server -------------------------------------------------------------------------

    def _settings(self):
        providers = [{"name": f"{kind}{number}", "kind": kind, "url": self.upstream.url, "model": "m",
                      "keys": ["env:FUZZ_KEY"], "timeout": ATTEMPT}
                     for kind in ("openai", "anthropic") for number in range(PROVIDERS)]
        quick = {"policy": "twice", "wait_under": "10ms"}
        queues = [{"name": "q", "policy": "once"}, {"name": "retry", "policy": "twice"}, {"name": "pull"},
                  {"name": "doubt", "policy": "once"}, {"name": "control"},
                  {"name": "work", "policy": "once"}, {"name": "again", "policy": "twice"},
                  {"name": "articles", "fallback": ["openai0"], "policy": "twice"},
                  *({"name": f"articles{number}", "fallback": [f"openai{number}"], **quick}
                    for number in range(PROVIDERS)),
                  *({"name": f"stories{number}", "fallback": [f"anthropic{number}"], **quick}
                    for number in range(PROVIDERS)), {"name": "_callbacks", "policy": "twice"}]
        probe = {"request": "GET /by/{key}", "every": "1s", "misses": 1, "settle_after": "1s", "status": 201}
        tokens = [{"name": role, "role": role, "token": f"env:FUZZ_{role.upper()}"} for role in api_side.ROLES]
        return {**({"api": {"listen": "127.0.0.1:0", "tokens": tokens}} if self.has_tokens else {}),
                "threads": self.threads, "queues": queues, "providers": providers,
                "policies": [ONCE, TWICE], "gateway": {"listen": "127.0.0.1:0"},
                "outbound": {"redirects": 2}, "limits": {"header_time": "2s", "idle_time": "5s",
                                                         "body": "256KiB", "response": "64KiB"},
                "routes": [route(self.upstream, "u"),
                           route(self.upstream, "s", scope="header:authorization", key="optional",
                                 replay="settled", fingerprint=["a.b"], in_progress="accepted"),
                           route(self.upstream, "p", ambiguous="probe", probe=probe, strict=True,
                                 in_progress="conflict"),
                           route(self.upstream, "r", ambiguous="retry", repeatable=True, policy="twice",
                                 derive=True, replay="success"),
                           route(self.honest, "spare"),
                           route(self.honest, "control", timeout="30s")],
                "pass": self.upstream.url}

    def _start(self):
        first = len(self.server.lines)
        self.server.environment = {"FUZZ_KEY": "sk-fuzz-abcdefghijklmnop", **{
            f"FUZZ_{role.upper()}": api_side.token_of(role) for role in api_side.ROLES}}
        self.server.start()
        ready = self.server.wait_line("gateway_ready", first)
        self.ports = {"api": self.server.port,
                      "gateway": int(ready.fields["gateway"].rsplit(":", 1)[1])}

    def _api(self, method, path, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        head = (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n"
                f"Authorization: Bearer {api_side.token_of('admin')}\r\n\r\n")
        reply = self._ask("api", head.encode() + data)
        if reply.status >= 300 or not reply.is_whole:
            raise Finding(f"{method} {path}: {reply}")
        return reply

    def _ask(self, port, whole, is_head=False):
        """A well-formed request gets an answer."""
        channel = Channel(self.ports[port])
        try:
            channel.write([whole])
            reply = channel.read(ANSWER_SECONDS, is_head)
        finally:
            channel.close()
        if reply is None:
            raise Finding(f"no answer to {whole[:300]!r}")
        return reply

    def _fill(self):
        """Tasks of each kind, for requests to be about. What was done to their queues is undone."""
        for queue in ("q", "pull", "doubt"):
            self._api("POST", f"/v1/queues/{queue}:resume")
        made, refused = [], {"side": "upstream", "pieces": [b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"],
                             "end": "close"}
        self.upstream.answers.update({b"bad0bad0": refused, b"c0c0c0c0": {**refused, "pieces": []}})
        for queue, body in (("q", {"target": api_side.SAFE_TARGET, "delay_ms": 3600000}),
                            ("q", {"target": self.upstream.url + "/t/bad0bad0"}),
                            ("q", {"target": self.upstream.url + "/t/600d600d"}),
                            ("pull", {"body": "x"}), ("pull", {"body": "y"}),
                            ("doubt", {"target": self.upstream.url + "/t/c0c0c0c0", "repeatable": False})):
            for _ in range(2):
                made.append(json.loads(self._api("POST", f"/v1/queues/{queue}/tasks", body).body)["id"])
        self._api("POST", "/v1/queues/pull/leases", {"max": 2, "lease_ms": 30000})
        for one in made[2:6] + made[10:]:
            self._api("GET", f"/v1/tasks/{one}?wait_ms=1000")
        return [one.encode() for one in made]

    # --- inputs -----------------------------------------------------------------------------

    def play(self, told):
        """Does one input; raises a Finding."""
        self.tokens.add(told.get("token", "").encode())
        {"api": self._play_raw, "gateway": self._play_raw, "upstream": self._play_upstream,
         "provider": self._play_provider}[told["side"]](told)
        self.played += 1

    def _play_raw(self, told):
        pieces = [STAND_IN.sub(lambda found: self.pool[int(found.group(1)) % len(self.pool)], piece)
                  for piece in told["pieces"]]
        channel = Channel(self.ports[told["side"]])
        try:
            channel.write(pieces)
            if told["end"] == "read":
                self._read_raw(told, channel, b"".join(pieces))
        finally:
            channel.close(told["end"])

    def _read_raw(self, told, channel, sent):
        if b"HEAD" in sent or b"head" in sent:  # how long its answers are is not known here
            channel.rest(QUIET_SECONDS)
        elif told["is_plain"]:
            reply = channel.read(ANSWER_SECONDS)
            if reply is None or not reply.is_whole:
                raise Finding(f"{told['operation']}: no whole answer: {reply}")
            known = {call[0]: call[3]["responses"] for call in api_side.CALLS}[told["operation"]]
            if str(reply.status) not in known and reply.status not in REFUSALS:
                raise Finding(f"{told['operation']}: {reply} is not in docs/openapi.json")
        else:
            for _ in range(8):
                reply = channel.read(QUIET_SECONDS)
                if reply is None or not reply.is_whole:
                    break
        self._check_raw(told, channel.got, sent)

    def _check_raw(self, told, got, sent):
        if b'"code":"internal"' in got or b'"code": "internal"' in got or (
                told["side"] == "api" and re.search(rb"(?m)^HTTP/1\.1 500", got)):
            raise Finding(f"an internal error: {got[:500]!r}")
        for text in told.get("never", ()):
            if text.encode("latin-1") in got:
                raise Finding(f"{text!r} in {got[:500]!r}")
        for token in MARK.findall(got) if told["side"] == "gateway" else ():
            if token in self.tokens and token not in sent and not self._has_raced(sent):
                raise Finding(f"the answer of another request: {got[:500]!r}")

    def _others(self, body, token):
        """The tokens of other requests in it."""
        return [one for one in MARK.findall(body) if one != token.encode() and one in self.tokens]

    def _has_raced(self, sent):
        """Did a request of it go out just behind bytes that the upstream was not asked for?"""
        return any(token in sent and lag < RACE_SECONDS for token, lag in self.upstream.lags.items() if token)

    def _play_upstream(self, told):
        token, way = told["token"], told["way"]
        self.upstream.answers[token.encode()] = told
        url = f"{self.upstream.url}/t/{token}"
        if way in PATHS:
            self._play_gateway(told, token, way)
        elif way == "callback":
            self._create("work", token, {"target": f"{self.honest.url}/t/{token}", "callback": {"url": url}})
        else:
            self._create("again" if way == "retried" else "work", token, {"target": url, "timeout_ms": 400})

    def _play_gateway(self, told, token, way):
        method = {"passed": "GET", "head": "HEAD"}.get(way, "POST")
        body = b'{"a":{"b":1}}' if method == "POST" else b""
        key = f'"{token}"' if way == "probed" else token
        head = f"{method} /{PATHS[way]}/{token} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n" + (
            f"Idempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n" if body else "") + "\r\n"
        if way == "together":
            self._play_together(told, token, head.encode() + body)
            return
        first = self._ask("gateway", head.encode() + body, method == "HEAD")
        self._check_gateway(told, token, first)
        if "idempotent-replayed" in first.fields or "idempotency-replayed" in first.fields:
            raise Finding(f"{way}: the first answer is no replay: {first}")
        if body and first.is_whole and first.status != 202 and way != "repeated":
            again = self._ask("gateway", head.encode() + body)
            self._check_gateway(told, token, again)
            if again.fields.get("idempotent-replayed") == "true" and again.fields.get(
                    "idempotency-replayed") == "true" and first.status < 500 and (
                        first.status, first.body) != (again.status, again.body):
                raise Finding(f"{way}: first {first}, then {again}")

    def _play_together(self, told, token, whole):
        """Several with one key at once: those that get the kept answer get the same one, and at most one
        of them is the first."""
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
            replies = list(pool.map(lambda _: self._ask("gateway", whole), range(TOGETHER)))
        for reply in replies:
            self._check_gateway(told, token, reply)
        kept = {(reply.status, reply.body) for reply in replies
                if reply.fields.get("idempotency-replayed") == "true" and reply.is_whole}
        if len(kept) > 1:
            raise Finding(f"together: {replies}")

    def _check_gateway(self, told, token, reply):
        if b'"code":"internal"' in reply.body:
            raise Finding(f"an internal error: {reply}")
        others = self._others(reply.body, token)
        if (others or b"STRAY" in reply.body and b"STRAY" not in b"".join(told["pieces"])) and \
                self.upstream.lags.get(token.encode(), 1) >= RACE_SECONDS:
            raise Finding(f"{token}: the answer of another request: {reply}")

    def _create(self, queue, token, body):
        made = self._api("POST", f"/v1/queues/{queue}/tasks", body)
        self.tasks.append((json.loads(made.body)["id"], queue, token))

    def _play_provider(self, told):
        token, number = told["token"], int(told["token"], 16) % PROVIDERS
        self.upstream.answers[token.encode()] = told
        queue = f"articles{number}" if told["kind"] == "openai" else f"stories{number}"
        self._create(queue, token, {"json": answer_side.article(token)})

    # --- what has to hold -------------------------------------------------------------------

    def check(self):
        """After each batch."""
        self._check_said()
        began = time.monotonic()
        self._api("GET", "/healthz")
        if time.monotonic() - began > HEALTH_SECONDS:
            raise Finding(f"/healthz took {time.monotonic() - began:.1f} s")
        self._check_control()
        self._check_tasks()
        self.pool = self._fill()  # anew: what is done to tasks ends most of them
        if self.upstream.wrong or self.honest.wrong:
            raise Finding(f"what reached the upstream is no request: {self.upstream.wrong}")
        twice = {path: count for path, count in self.upstream.ledger.items()
                 if count > 1 and path.startswith(b"POST /u/")}
        if any(path[-8:] in self.upstream.answers for path in twice):
            raise Finding(f"sent twice: {twice}")

    def _check_said(self):
        if self.server.process is None or self.server.process.poll() is not None:
            time.sleep(0.5)  # until it has said why
            raise Finding("the server has ended:\n" + self.server.said(-80))
        for line in self.server.lines:
            if REPORTS.search(line.text) or "event=" not in line.text:
                raise Finding("it said:\n" + self.server.said(-80))

    def _check_control(self):
        """A new key gets its own answer, and every key that was used before the one it got then."""
        self.round += 1
        self._control(f"{self.seed & 0xffff:04x}{self.round:04x}", is_new=True)
        for token in list(self.kept)[:3]:
            self._control(token)
        seen = self._api("GET", f"/v1/tasks/{self.control}").body
        if seen != self.control_body:
            raise Finding(f"the task that no input is about: {seen!r}, before {self.control_body!r}")

    def _control(self, token, is_new=False):
        whole = (f"POST /control/{token} HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {token}\r\n"
                 "Content-Length: 2\r\n\r\n{}").encode()
        got = self._ask("gateway", whole)
        replayed = got.fields.get("idempotent-replayed") == "true"
        if (got.status, got.body, replayed) != (200, f"tok={token};".encode(), not is_new):
            raise Finding(f"control {token}: {got}")
        told = {name: value for name, value in got.fields.items() if "replayed" not in name and name != "date"}
        if self.kept.setdefault(token, (told, got.body)) != (told, got.body) or self.honest.ledger[
                f"POST /control/{token}".encode()] != 1:
            raise Finding(f"control {token}: {got}, {self.honest.ledger}")

    def _check_tasks(self):
        """Each task comes to an end, or waits for a moment that it knows."""
        for identity, queue, token in self.tasks:
            task = json.loads(self._api("GET", f"/v1/tasks/{identity}?wait_ms=100").body)
            if task["state"] == "running" or (task["state"] == "waiting" and queue == "work"):
                task = json.loads(self._api("GET", f"/v1/tasks/{identity}?wait_ms=15000").body)
            if task["state"] == "running" or (task["state"] == "waiting" and queue == "work"):
                raise Finding(f"it does not end: {task}")
            body = ((task.get("response") or {}).get("body") or "").encode("utf-8", "replace")
            others = self._others(body, token)
            if others and self.upstream.lags.get(token.encode(), 1) >= RACE_SECONDS:
                raise Finding(f"{token}: the answer of another request: {task}")
            if task["state"] == "succeeded" and queue[:2] in ("ar", "st") and \
                    not json.loads(body)["summary"]:
                raise Finding(f"succeeded without a summary: {task}")
        self.tasks = []

    def end(self):
        """Stopped in good order; started again on what it left, and asked once more."""
        self._check_said()
        self._stop()
        if self.seed % 3 == 0:
            self._start()
            for token in list(self.kept)[:3]:
                self._control(token)
            self._stop()

    def _stop(self):
        first = len(self.server.lines)
        self.server.signal()
        self.server.wait_line("stopping", first)
        self.server.signal()  # and a second one, which cuts what is under way
        status = self.server.end()
        self._check_lines()
        if status != 0:
            raise Finding(f"it stopped with status {status}:\n" + self.server.said(-80))

    def _check_lines(self):
        for line in self.server.lines:
            if REPORTS.search(line.text):
                raise Finding("it said:\n" + self.server.said(-80))

    def close(self):
        self.server.kill()
        self.upstream.close()
        self.honest.close()
        self.folder.cleanup()
