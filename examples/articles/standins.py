# SPDX-License-Identifier: MIT
"""Stand-ins for the two AI providers: they answer in the providers' own forms, and fail when they
are told to. What they say is checked against the official clients (tests/e2e/test_sdk.py).

    openai, claude = StandIn("openai"), StandIn("anthropic")
    openai.behave("rate_limit", "ok")     # the next request is refused, then all goes well

By itself it is a program: `standins.py` starts one of each and prints where they listen; POST
/stand-in {"behave": ["quota"]} then tells one what to do. They run until standard input ends, so
give them one that stays open: `sleep 1000 | python3 standins.py &`. `--help` prints this.
"""
import hashlib
import http.server
import json
import sys
import threading

RETRY_SECONDS = 2


def openai_error(status, message, kind, code, **headers):
    return status, headers, {"error": {"message": message, "type": kind, "param": None,
                                       "code": code}}


def claude_error(status, kind, message, details=None, **headers):
    error = {"type": kind, "message": message}
    if details is not None:
        error["details"] = details
    return status, headers, {"type": "error", "error": error, "request_id": "req_stand_in"}


LIMITED = {"retry-after": str(RETRY_SECONDS)}
SPEND_TEXT = ("You have reached your specified API usage limits. You will regain access on "
              "2099-09-01 at 00:00 UTC.")

# What each can be told to do; the names are the same where both can do it.
OPENAI = {
    "rate_limit": lambda: openai_error(429, "Rate limit reached for requests", "requests",
                                       "rate_limit_exceeded", **LIMITED),
    "rate_limit_ms": lambda: openai_error(429, "Rate limit reached for tokens", "tokens",
                                          "rate_limit_exceeded", **{"retry-after-ms": "300"}),
    "rate_limit_reset": lambda: openai_error(
        429, "Rate limit reached for requests", "requests", "rate_limit_exceeded",
        **{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s",
           "x-ratelimit-remaining-tokens": "9000", "x-ratelimit-reset-tokens": "20ms"}),
    "rate_limit_bare": lambda: openai_error(429, "Rate limit reached for requests", "requests",
                                            "rate_limit_exceeded"),
    "slow_down": lambda: openai_error(429, "Slow down", "requests", "slow_down"),
    "quota": lambda: openai_error(
        429, "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota", "insufficient_quota"),
    "credit": lambda: openai_error(429, "Your credit balance is exhausted.", "insufficient_quota",
                                   "credit_balance_exhausted"),
    "spend_limit": lambda: openai_error(429, "The organization has reached its spend limit.",
                                        "billing", "organization_spend_limit_exceeded"),
    "project_spend_limit": lambda: openai_error(429, "The project has reached its spend limit.",
                                                "billing", "project_spend_limit_exceeded"),
    "usage_limit": lambda: openai_error(429, "The organization has reached its usage limit.",
                                        "billing", "organization_usage_limit_exceeded"),
    "overload": lambda: openai_error(503, "The server is overloaded.", "server_error",
                                     "server_is_overloaded"),
    "500": lambda: openai_error(500, "The server had an error.", "server_error", None),
    "502": lambda: (502, {}, "<html>bad gateway</html>"),
    "504": lambda: openai_error(504, "Gateway timeout", "server_error", None),
    "no_retry": lambda: openai_error(500, "Do not try this again.", "server_error", None,
                                     **{"x-should-retry": "false"}),
    "auth": lambda: openai_error(401, "Incorrect API key provided: sk-stand****in.",
                                 "invalid_request_error", "invalid_api_key"),
    "forbidden": lambda: openai_error(403, "Country, region, or territory not supported",
                                      "request_forbidden", "unsupported_country_region_territory"),
    "invalid": lambda: openai_error(
        400, "This model's maximum context length is 8192 tokens.", "invalid_request_error",
        "context_length_exceeded"),
    "404": lambda: openai_error(404, "The model does not exist.", "invalid_request_error",
                                "model_not_found"),
    "422": lambda: openai_error(422, "Unprocessable.", "invalid_request_error", None),
    "stream_error": lambda: (200, {"content-type": "text/event-stream"},
                             'data: {"error":{"message":"The server is overloaded.",'
                             '"type":"server_error","code":"server_is_overloaded"}}\n\n'),
    "error_in_200": lambda: (200, {}, {"error": {"message": "Rate limit reached",
                                                 "type": "requests", "param": None,
                                                 "code": "rate_limit_exceeded"}}),
}
CLAUDE = {
    "rate_limit": lambda: claude_error(
        429, "rate_limit_error", "This request would exceed your organization's rate limit.",
        **LIMITED),
    "rate_limit_reset": lambda: claude_error(
        429, "rate_limit_error", "This request would exceed your organization's rate limit.",
        **{"anthropic-ratelimit-requests-remaining": "0",
           "anthropic-ratelimit-requests-reset": "2099-01-01T00:00:00Z"}),
    "rate_limit_bare": lambda: claude_error(429, "rate_limit_error", "Too many requests."),
    "spend_limit": lambda: claude_error(429, "rate_limit_error", SPEND_TEXT,
                                        {"error_code": "enforced_spend_limit_reached"}),
    "quota": lambda: claude_error(400, "invalid_request_error",
                                  SPEND_TEXT.replace(" You will regain access on 2099-09-01 at "
                                                     "00:00 UTC.", "")),
    "spend_400": lambda: claude_error(400, "invalid_request_error", SPEND_TEXT),
    "credit": lambda: claude_error(400, "invalid_request_error",
                                   "Your credit balance is too low to access the Anthropic API."),
    "billing": lambda: claude_error(402, "billing_error", "There is an issue with your billing."),
    "overload": lambda: claude_error(529, "overloaded_error", "Overloaded"),
    "500": lambda: claude_error(500, "api_error", "Internal server error"),
    "504": lambda: claude_error(504, "timeout_error", "The request timed out."),
    "no_retry": lambda: claude_error(500, "api_error", "Do not try this again.",
                                     **{"x-should-retry": "false"}),
    "auth": lambda: claude_error(401, "authentication_error", "invalid x-api-key"),
    "forbidden": lambda: claude_error(403, "permission_error", "Not allowed."),
    "404": lambda: claude_error(404, "not_found_error", "model: no-such-model"),
    "413": lambda: claude_error(413, "request_too_large", "Request exceeds the maximum size."),
    "invalid": lambda: claude_error(400, "invalid_request_error",
                                    "messages.0.content: at least one character is required"),
    "stream_error": lambda: (200, {"content-type": "text/event-stream"},
                             'event: message_start\ndata: {"type":"message_start"}\n\n'
                             'event: error\ndata: {"type":"error","error":{"type":'
                             '"overloaded_error","message":"Overloaded"}}\n\n'),
}
ERRORS = {"openai": OPENAI, "anthropic": CLAUDE}
PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


def summary_of(kind, request):
    """A summary that tells what it is of: the beginning of what the user said."""
    said = request["messages"][-1]["content"]
    mark = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{kind} says: {said[:40]} [{mark}]"


def openai_answer(request):
    return {"id": "chatcmpl-stand-in", "object": "chat.completion", "created": 1700000000,
            "model": request["model"] + "-2026-01-01",
            "choices": [{"index": 0, "finish_reason": "stop", "logprobs": None,
                         "message": {"role": "assistant", "refusal": None,
                                     "content": summary_of("openai", request)}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}}


def claude_answer(request):
    text = summary_of("claude", request)
    return {"id": "msg_stand_in", "type": "message", "role": "assistant",
            "model": request["model"],
            "content": [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}],
            "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 110, "output_tokens": 25}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments):
        """Silent: whoever wants to know looks at `seen`."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if self.path == "/stand-in":
            self.server.owner.behave(*json.loads(body)["behave"])
            self._say(200, {}, {})
            return
        self.server.owner.answer(self, body)

    def _say(self, status, headers, body):
        text = body if isinstance(body, str) else json.dumps(body)
        data = text.encode()
        self.send_response(status)
        given = {"content-type": "application/json", "request-id": "req_stand_in", **headers}
        for name, value in given.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request, client_address):
        """A client that has left is no news."""


class StandIn:
    """One provider on a free port. `seen` has (path, headers, request) of each call."""

    def __init__(self, kind):
        self.kind, self.path, self.seen = kind, PATHS[kind], []
        self.release = threading.Event()  # lets what hangs go
        self._script, self._lock = ["ok"], threading.Condition()
        self._listener = Listener(("127.0.0.1", 0), Handler)
        self._listener.owner = self
        self.url = f"http://127.0.0.1:{self._listener.server_port}"
        threading.Thread(target=self._listener.serve_forever, daemon=True).start()

    def behave(self, *script):
        """One after the other; the last one goes on."""
        for name in script:
            if name not in ("ok", "hang", "cut", "echo") and name not in ERRORS[self.kind]:
                raise ValueError(f"{self.kind} cannot {name}")
        with self._lock:
            self._script = list(script)

    def wait_for(self, count, seconds=20):
        with self._lock:
            if not self._lock.wait_for(lambda: len(self.seen) >= count, seconds):
                raise AssertionError(f"{self.kind} was called {len(self.seen)} times, not {count}")

    def close(self):
        self.release.set()
        self._listener.shutdown()
        self._listener.server_close()

    def answer(self, handler, body):
        request = json.loads(body)
        with self._lock:
            self.seen.append((handler.path, dict(handler.headers.items()), request))
            name = self._script.pop(0) if len(self._script) > 1 else self._script[0]
            self._lock.notify_all()
        if name == "hang":
            self.release.wait()
            handler.close_connection = True
        elif name == "cut":
            handler.close_connection = True
        elif handler.path != self.path:
            handler._say(404, {}, {"error": {"message": "no such path"}})
        elif name == "echo":  # a proxy that shows what it was sent, the key too
            handler._say(200, {}, openai_answer({**request, "messages": [
                {"content": str(handler.headers.get("authorization"))}]}))
        elif name == "ok":
            made = openai_answer if self.kind == "openai" else claude_answer
            handler._say(200, {}, made(request))
        else:
            handler._say(*ERRORS[self.kind][name]())


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return
    standins = [StandIn("openai"), StandIn("anthropic")]
    print(json.dumps({one.kind: one.url for one in standins}), flush=True)
    sys.stdin.read()  # until whoever started it is gone


if __name__ == "__main__":
    main()
