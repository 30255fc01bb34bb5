# SPDX-License-Identifier: MIT
"""What the tests of AI providers share: stand-ins for both, and a server with an article queue."""
import os
import sys

from server import Server, chosen

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples",
                       "articles")
sys.path.insert(0, EXAMPLE)
from standins import StandIn  # noqa: E402  (its folder is only known by now)

KEYS = {"OPENAI_API_KEY": "sk-openai-abcdefghijklmnop-0001",
        "OPENAI_API_KEY_2": "sk-openai-abcdefghijklmnop-0002",
        "ANTHROPIC_API_KEY": "sk-ant-abcdefghijklmnop-0001"}
FAST = {"backoff": "exponential", "base": "100ms", "cap": "24h", "jitter": "none"}
FAST_POLICY = {"max_attempts": 6, "transient": FAST, "rate_limited": FAST, "quota": FAST}


class Newsroom:
    """Both stand-ins and a server whose queue `articles` goes through them."""

    def __init__(self, test, store=chosen("memory"), policy="articles", queue=None, openai=None,
                 claude=None):
        os.environ.update(KEYS)
        self.openai, self.claude = StandIn("openai"), StandIn("anthropic")
        test.addCleanup(self.openai.close)
        test.addCleanup(self.claude.close)
        providers = [
            {"name": "openai", "kind": "openai", "url": self.openai.url, "model": "gpt-test",
             "keys": ["env:OPENAI_API_KEY"], "timeout": "5s", **(openai or {})},
            {"name": "claude", "kind": "anthropic", "url": self.claude.url, "model": "claude-test",
             "keys": ["env:ANTHROPIC_API_KEY"], "timeout": "5s", **(claude or {})}]
        self.server = Server(test, store=store, providers=providers, queues=[
            {"name": "articles", "policy": policy, "fallback": ["openai", "claude"],
             **(queue or {})}])
        self.server.start()

    def add(self, number=1, **more):
        return self.server.add("articles", json=article(number), **more)

    def settled(self, number=1, **more):
        return self.server.settled(self.add(number, **more))

    def waiting(self, identity, attempts=1):
        """The task once it waits again after that many attempts."""
        self.server.wait_line("task_retry", task=identity, attempt=attempts)
        return self.server.task(identity)


def article(number=1):
    return {"article": {"id": f"a-{number}", "title": f"記事 {number}",
                        "content": f"本文 {number}: いろは\n\"引用\" \\ 🎌"}}
