# SPDX-License-Identifier: MIT
"""`daruma summarize`: articles from files, summaries as they come; D1, D6 by the command line."""
import contextlib
import json
import os
import pty
import subprocess
import unittest

import runner
from articles import FAST_POLICY, Newsroom
from program import BIN


def run(news, *arguments, given=b""):
    """(exit status, stdout, stderr) of a whole run."""
    done = subprocess.run([BIN, "summarize", *arguments], input=given, check=False,
                          env={**os.environ, "DARUMA_URL": f"http://127.0.0.1:{news.server.port}"},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


def given_to(standin):
    return [request["messages"][-1]["content"] for _path, _headers, request in standin.seen]


class Summarize(unittest.TestCase):
    def texts_and_json_lines_become_summaries(self):
        news = Newsroom(self, openai={"prompt": {"user": "[{id}] <{title}>\n{content}"}})
        files = [write("first.md", "---\ntitle: \"前書き\"\ntags: [a]\n---\n\n本文です。\n"),
                 write("second.md", "\n# A heading \n\nThe text.\n"),
                 write("third.txt", "Just a line.\nAnd more.\n"),
                 write("more.jsonl", '{"id": 7, "title": "t\\u3042", "content": "c\\ud83c\\udf8c"}\n'
                                     '\n{"article":{"id":"x","title":"","content":"c2"}}\n')]
        status, out, err = run(news, *files)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(sorted(given_to(news.openai)), sorted([
            "[first] <前書き>\n\n本文です。\n", "[second] <A heading>\n\nThe text.\n",
            "[third] <Just a line.>\nJust a line.\nAnd more.\n", "[7] <tあ>\nc🎌", "[x] <>\nc2"]))
        for line in ("前書き (first, openai)\n", "A heading (second, openai)\n",
                     "tあ (7, openai)\n", "x (x, openai)\n"):
            self.assertIn(line, out)
        self.assertEqual(out.count("openai says: "), 5)

    def no_control_character_of_a_title_is_shown_as_it_is(self):
        news = Newsroom(self)
        name = write("a.jsonl", '{"id": 1, "title": "a\\u0000b\\u001bc", "content": "c"}\n')
        status, out, _err = run(news, name)
        self.assertEqual(status, 0)
        self.assertIn("a\ufffdb\ufffdc (1, openai)\n", out)
        self.assertNotIn("\0", out)

    def standard_input_and_json_lines_out(self):
        news = Newsroom(self)
        news.openai.behave("quota")
        status, out, _err = run(news, "-", "--json", given="# 題\n\n本文".encode())
        self.assertEqual(status, 0)
        row = json.loads(out)
        self.assertEqual((row["article_id"], row["state"], row["provider"], row["error"]),
                         ("stdin", "succeeded", "claude", None))
        self.assertIn("claude says:", row["summary"])
        self.assertEqual(row["usage"]["input_tokens"], 110)
        self.assertEqual(news.server.task(row["task"])["labels"], {"article_id": "stdin"})
        status, out, _err = run(news, "-", "--json", given=b'{"id":1,"title":"t","content":"c"}')
        self.assertEqual((status, json.loads(out)["article_id"]), (0, "1"))

    def the_same_article_again_is_not_paid_for_again(self):
        news = Newsroom(self)
        name = write("a.md", "# T\n\ntext\n")
        first, again = run(news, name), run(news, name)
        self.assertEqual(first, again)
        self.assertEqual(len(news.openai.seen), 1)
        self.assertEqual(run(news, name, "--anew")[0], 0)
        self.assertEqual(len(news.openai.seen), 2)

    def what_must_wait_is_told_and_not_waited_for(self):  # D1, D2.1
        news = Newsroom(self)
        news.openai.behave("rate_limit_bare", "ok")
        news.claude.behave("500", "ok")
        files = [write(f"{number}.txt", f"text {number}") for number in range(2)]
        status, out, err = run(news, *files)
        self.assertEqual(status, 1)
        self.assertRegex(err, r"^[01]: waiting: transient: .*; the next try 5m later "
                              r"\(daruma show [0-9a-f-]{36}\)\n$")
        self.assertEqual(out.count("says: "), 1)

    def it_can_wait_for_what_is_tried_again(self):
        news = Newsroom(self, policy=FAST_POLICY)
        news.openai.behave("500", "500", "ok")
        news.claude.behave("500")
        status, out, err = run(news, write("a.txt", "text"), "--wait", "30s")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("a (a, openai)\n" if "text (a" not in out else "text (a, openai)\n", out)

    def a_failure_is_told_with_its_reason(self):
        news = Newsroom(self, queue={"fallback": ["openai"]})
        news.openai.behave("invalid")
        status, out, err = run(news, write("a.txt", "text"), "--json")
        self.assertEqual((status, json.loads(out)["state"]), (1, "failed"))
        self.assertIn("a: failed: invalid: HTTP 400 context_length_exceeded", err)

    def no_wait_only_records(self):
        news = Newsroom(self)
        news.openai.behave("hang")
        status, out, _err = run(news, write("a.txt", "text"), "--no-wait")
        self.assertEqual(status, 0)
        self.assertEqual(news.server.task(out.split()[0])["labels"], {"article_id": "a"})

    def mistakes_are_told_with_their_place(self):
        news = Newsroom(self)
        write("bad.jsonl", '{"id":1,"title":"t","content":"c"}\n{"id":1,"title":"t"}\n')
        with open("bytes.txt", "wb") as file:
            file.write(b"\xff\xfe")
        for arguments, code, text in (
                ((), 2, "no FILE given"),
                (("missing.md",), 1, "cannot read missing.md: No such file"),
                (("bad.jsonl",), 1, "bad.jsonl:2: article.content: expected"),
                ((write("bad.json", "{\n}"),), 1, "bad.json:1: not a JSON object on one line"),
                (("bytes.txt",), 1, "bytes.txt is not UTF-8 text"),
                ((write("empty.md", "---\ntitle: x\n---\n \n"),), 1, "empty.md has nothing in it"),
                ((write("ok.txt", "text"), "--queue", "nowhere"), 1, "There is no such queue")):
            status, out, err = run(news, *arguments)
            self.assertEqual((status, out), (code, ""), err)
            self.assertIn(text, err)
        self.assertEqual(news.openai.seen, [])  # nothing was recorded of a list with a mistake

    def a_terminal_sees_how_far_it_has_got(self):
        news = Newsroom(self)
        name = write("a.txt", "text")
        pid, screen = pty.fork()
        if pid == 0:
            os.execve(BIN, [BIN, "summarize", name], {
                "TERM": "xterm", "DARUMA_URL": f"http://127.0.0.1:{news.server.port}"})
        seen = b""
        with contextlib.suppress(OSError):
            while piece := os.read(screen, 65536):
                seen += piece
        os.close(screen)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertIn(b"1 of 1 recorded, ", seen)
        self.assertIn(b"openai says: ", seen)


if __name__ == "__main__":
    runner.main()
