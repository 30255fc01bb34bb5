# SPDX-License-Identifier: MIT
"""The gateway as a test sees it: a server with one route or more in front of a scripted upstream,
and callers that send requests with keys.
"""
import http.client
import threading

from server import CALL_SECONDS, Answer, Server, chosen
from target import Target

QUICK = {"name": "quick", "max_attempts": 3, "transient": {"backoff": "fixed", "base": "20ms"}}


def route(target, match="POST /v1/orders", **more):
    """A route to the target. Waits are short, since tests wait for them."""
    return {"match": match, "upstream": target.url("").rstrip("/"), "scope": "global",
            "policy": "quick", **more}


class Gateway(Server):
    """`routes` are what route() makes."""

    def __init__(self, test=None, routes=(), store=chosen("sqlite"), **more):
        self.gateway_port = None
        super().__init__(test, store, gateway={"listen": "127.0.0.1:0"}, routes=list(routes),
                         policies=[QUICK], **more)

    def start(self):
        first = len(self.lines)
        super().start()
        ready = self.wait_line("gateway_ready", first)
        self.gateway_port = int(ready.fields["gateway"].rsplit(":", 1)[1])
        return self

    def caller(self, seconds=CALL_SECONDS):
        return http.client.HTTPConnection("127.0.0.1", self.gateway_port, timeout=seconds)

    def send(self, path="/v1/orders", body=b"{}", key=None, method="POST", headers=None,
             connection=None):
        """One request through the gateway; `pairs` of the answer are its headers as they came."""
        own = connection or self.caller()
        said = {"Content-Type": "application/json", **(headers or {})}
        if key is not None:
            said["Idempotency-Key"] = key
        try:
            own.request(method, path, body, said)
            got = own.getresponse()
            answer = Answer(got.status, {name.lower(): value for name, value in got.getheaders()},
                            got.read())
            answer.pairs = got.getheaders()
            return answer
        finally:
            if connection is None:
                own.close()

    def begin(self, **more):
        """The same in a thread: .answer once it is joined."""
        return Sending(self, more)


class Sending(threading.Thread):
    def __init__(self, gateway, more):
        super().__init__(daemon=True)
        self.gateway, self.more, self.answer = gateway, more, None
        self.start()

    def run(self):
        self.answer = self.gateway.send(**self.more)

    def end(self):
        self.join(CALL_SECONDS)
        if self.answer is None:
            raise AssertionError("no answer came")
        return self.answer


def setup(test, *routes, match="POST /v1/orders", server=None, **more):
    """An upstream and a gateway in front of it: one route, unless they are given as functions of the
    upstream."""
    target = Target()
    test.addCleanup(target.close)
    made = [one(target) for one in routes] or [route(target, match, **more)]
    return Gateway(test, made, **(server or {})).start(), target
