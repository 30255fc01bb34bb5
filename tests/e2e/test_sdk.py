# SPDX-License-Identifier: MIT
"""The official clients `openai` and `@anthropic-ai/sdk` against the stand-ins of examples/articles:
each form of success and error is read there as what daruma takes it for, so that what the other tests
say about the stand-ins holds for the providers. And daruma asks as the clients do."""
import unittest

import npm
import runner
from articles import FAST_POLICY, KEYS, Newsroom, article

SCRIPT = """
const OpenAI = require("openai"), Anthropic = require("@anthropic-ai/sdk");
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const say = [{role: "system", content: "S"}, {role: "user", content: "U"}];
const openai = new OpenAI({apiKey: given.openai_key, baseURL: given.openai + "/v1", maxRetries: 0});
const claude = new Anthropic({apiKey: given.claude_key, baseURL: given.claude, maxRetries: 0});

async function tell(url, behave) {
    await fetch(url + "/stand-in", {method: "POST", body: JSON.stringify({behave: [behave]})});
}
function ask(kind, stream) {
    return kind === "openai"
        ? openai.chat.completions.create({model: "m", messages: say, max_completion_tokens: 9,
                                          ...(stream && {stream})})
        : claude.messages.create({model: "m", max_tokens: 9, system: "S", messages: say.slice(1),
                                  ...(stream && {stream})});
}
async function run([kind, behave]) {
    await tell(given[kind === "openai" ? "openai" : "claude"], behave);
    try {
        const answer = await ask(kind, behave === "stream_error");
        if (behave === "stream_error") {
            for await (const _ of answer);
        }
        return {answer};
    } catch (error) {
        const body = kind === "openai" ? error.error : error.error?.error;
        return {name: error.constructor.name, status: error.status ?? null,
                code: error.code ?? body?.details?.error_code ?? null,
                type: body?.type ?? null, message: body?.message ?? null,
                retry_after: error.headers?.get?.("retry-after") ?? null,
                request_id: error.requestID ?? null};
    }
}
(async () => {
    const results = [];
    for (const one of given.cases) {
        results.push(await run(one));
    }
    console.log(JSON.stringify(results));
})();
"""

# What it is told to do; the client's error, status, type and code; daruma's class.
CASES = {
    "openai": {
        "rate_limit": ("RateLimitError", 429, "requests", "rate_limit_exceeded", "rate_limited"),
        "rate_limit_ms": ("RateLimitError", 429, "tokens", "rate_limit_exceeded", "rate_limited"),
        "rate_limit_reset": ("RateLimitError", 429, "requests", "rate_limit_exceeded",
                             "rate_limited"),
        "rate_limit_bare": ("RateLimitError", 429, "requests", "rate_limit_exceeded",
                            "rate_limited"),
        "slow_down": ("RateLimitError", 429, "requests", "slow_down", "rate_limited"),
        "quota": ("RateLimitError", 429, "insufficient_quota", "insufficient_quota", "quota"),
        "credit": ("RateLimitError", 429, "insufficient_quota", "credit_balance_exhausted",
                   "quota"),
        "spend_limit": ("RateLimitError", 429, "billing", "organization_spend_limit_exceeded",
                        "quota"),
        "project_spend_limit": ("RateLimitError", 429, "billing", "project_spend_limit_exceeded",
                                "quota"),
        "usage_limit": ("RateLimitError", 429, "billing", "organization_usage_limit_exceeded",
                        "quota"),
        "overload": ("InternalServerError", 503, "server_error", "server_is_overloaded",
                     "transient"),
        "500": ("InternalServerError", 500, "server_error", None, "transient"),
        "502": ("InternalServerError", 502, None, None, "transient"),
        "504": ("InternalServerError", 504, "server_error", None, "transient"),
        "no_retry": ("InternalServerError", 500, "server_error", None, "invalid"),
        "auth": ("AuthenticationError", 401, "invalid_request_error", "invalid_api_key", "auth"),
        "forbidden": ("PermissionDeniedError", 403, "request_forbidden",
                      "unsupported_country_region_territory", "auth"),
        "invalid": ("BadRequestError", 400, "invalid_request_error", "context_length_exceeded",
                    "invalid"),
        "404": ("NotFoundError", 404, "invalid_request_error", "model_not_found", "invalid"),
        "422": ("UnprocessableEntityError", 422, "invalid_request_error", None, "invalid"),
        "stream_error": ("APIError", None, "server_error", "server_is_overloaded", "transient"),
    },
    "anthropic": {
        "rate_limit": ("RateLimitError", 429, "rate_limit_error", None, "rate_limited"),
        "rate_limit_reset": ("RateLimitError", 429, "rate_limit_error", None, "rate_limited"),
        "rate_limit_bare": ("RateLimitError", 429, "rate_limit_error", None, "rate_limited"),
        "spend_limit": ("RateLimitError", 429, "rate_limit_error",
                        "enforced_spend_limit_reached", "quota"),
        "quota": ("BadRequestError", 400, "invalid_request_error", None, "quota"),
        "spend_400": ("BadRequestError", 400, "invalid_request_error", None, "quota"),
        "credit": ("BadRequestError", 400, "invalid_request_error", None, "quota"),
        "billing": ("APIError", 402, "billing_error", None, "quota"),
        "overload": ("InternalServerError", 529, "overloaded_error", None, "transient"),
        "500": ("InternalServerError", 500, "api_error", None, "transient"),
        "504": ("InternalServerError", 504, "timeout_error", None, "transient"),
        "no_retry": ("InternalServerError", 500, "api_error", None, "invalid"),
        "auth": ("AuthenticationError", 401, "authentication_error", None, "auth"),
        "forbidden": ("PermissionDeniedError", 403, "permission_error", None, "auth"),
        "404": ("NotFoundError", 404, "not_found_error", None, "invalid"),
        "413": ("APIError", 413, "request_too_large", None, "invalid"),
        "invalid": ("BadRequestError", 400, "invalid_request_error", None, "invalid"),
        "stream_error": ("APIError", None, "overloaded_error", None, "transient"),
    },
}
LIST = [(kind, behave) for kind, cases in CASES.items() for behave in cases]


def by_the_clients(news, cases):
    npm.install()
    return npm.node(SCRIPT, {"openai": news.openai.url, "claude": news.claude.url, "cases": cases,
                             "openai_key": KEYS["OPENAI_API_KEY"],
                             "claude_key": KEYS["ANTHROPIC_API_KEY"]})


def lower(headers):
    return {name.lower(): value for name, value in headers.items()}


class OfficialClients(unittest.TestCase):
    def every_error_is_read_as_daruma_takes_it(self):
        news = Newsroom(self)
        from standins import ERRORS
        told = {(kind, name) for kind in ERRORS for name in ERRORS[kind]}
        self.assertEqual(told - set(LIST), {("openai", "error_in_200")})  # no client looks there
        for (kind, behave), got in zip(LIST, by_the_clients(news, LIST)):
            name, status, type_, code, _class = CASES[kind][behave]
            self.assertEqual((got.get("name"), got.get("status"), got.get("type"),
                              got.get("code")), (name, status, type_, code), (kind, behave, got))
            if behave == "rate_limit":
                self.assertEqual(got["retry_after"], "2")

    def daruma_takes_every_error_for_what_it_is(self):
        policy = {**FAST_POLICY, "max_attempts": 1}
        news = Newsroom(self, policy=policy)
        one = {"openai": news.openai, "anthropic": news.claude}
        for kind, name in (("openai", "openai"), ("anthropic", "claude")):
            for number, (behave, expected) in enumerate(CASES[kind].items()):
                queue = f"{name}-{number}"  # gates and dead keys must not hold the next one
                news.server.call("PUT", f"/v1/queues/{queue}",
                                 {"policy": policy, "fallback": [name]})
                one[kind].behave(behave)
                identity = news.server.add(queue, **article(number), delay_ms=3600000)
                news.server.post(f"/v1/tasks/{identity}:run")
                row = news.server.settled(identity)["trail"][-1]
                self.assertEqual((row["target"], row["class"]), (name, expected[4]),
                                 (kind, behave, row))

    def successes_are_read_alike_and_daruma_asks_as_the_clients_do(self):
        news = Newsroom(self, queue={"fallback": ["openai"]},
                        openai={"prompt": {"system": "S", "user": "U{content}"}, "max_tokens": 9},
                        claude={"prompt": {"system": "S", "user": "U{content}"}, "max_tokens": 9})
        news.server.call("PUT", "/v1/queues/second", {"fallback": ["claude"]})
        first, second = by_the_clients(news, [("openai", "ok"), ("anthropic", "ok")])
        self.assertIn("openai says: U", first["answer"]["choices"][0]["message"]["content"])
        self.assertEqual(first["answer"]["usage"]["prompt_tokens"], 100)
        self.assertEqual("".join(block["text"] for block in second["answer"]["content"])[:13],
                         "claude says: ")
        self.assertEqual(second["answer"]["usage"]["output_tokens"], 25)
        news.server.settled(news.server.add("articles", **article()))
        news.server.settled(news.server.add("second", **article()))
        for standin, secrets in ((news.openai, ("authorization",)),
                                 (news.claude, ("x-api-key", "anthropic-version"))):
            (path, headers, request), (our_path, our_headers, ours) = standin.seen
            self.assertEqual(our_path, path)
            for name in (*secrets, "content-type"):
                self.assertEqual(lower(our_headers)[name], lower(headers)[name])
            self.assertEqual(sorted(ours), sorted(request))
            self.assertEqual([sorted(one) for one in ours["messages"]],
                             [sorted(one) for one in request["messages"]])
            self.assertEqual([one["role"] for one in ours["messages"]],
                             [one["role"] for one in request["messages"]])


if __name__ == "__main__":
    runner.main()
