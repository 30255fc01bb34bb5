# SPDX-License-Identifier: MIT
"""Document D on the real program: articles, limits, two providers, the queue between them."""
import json
import os
import unittest

import runner
from articles import FAST_POLICY, KEYS, Newsroom, article
from server import Server, chosen

DAY_MS = 86400000
WAITING = "/v1/queues/articles/tasks?state=waiting"


def legs(task):
    return [(row["attempt"], row["target"], row["class"], row["status"]) for row in task["trail"]]


class TheQueue(unittest.TestCase):
    def a_rate_limit_puts_the_article_into_the_queue(self):  # D1.1, D2.1
        news = Newsroom(self)
        news.openai.behave("rate_limit_bare")
        news.claude.behave("rate_limit_bare")
        task = news.waiting(news.add())
        self.assertEqual((task["state"], task["attempts"], task["next_wait_ms"]),
                         ("waiting", 1, 300000))
        self.assertEqual(task["error"]["class"], "rate_limited")
        self.assertEqual(legs(task), [(1, "openai", "rate_limited", 429),
                                      (1, "claude", "rate_limited", 429)])

    def exceeded_quota_puts_the_article_into_the_queue(self):  # D1.2
        news = Newsroom(self)
        news.openai.behave("quota")
        news.claude.behave("500")
        task = news.waiting(news.add())
        self.assertEqual(legs(task), [(1, "openai", "quota", 429), (1, "claude", "transient", 500)])
        self.assertEqual(task["next_wait_ms"], 300000)

    def a_limit_of_claude_puts_the_article_into_the_queue(self):  # D1.3
        news = Newsroom(self, queue={"fallback": ["claude"]})
        news.claude.behave("rate_limit_bare")
        task = news.waiting(news.add())
        self.assertEqual(legs(task), [(1, "claude", "rate_limited", 429)])
        self.assertEqual(news.openai.seen, [])

    def the_record_has_everything_that_the_document_names(self):  # D1.4
        news = Newsroom(self, store="json")
        news.openai.behave("quota")
        news.claude.behave("rate_limit_bare")
        task = news.waiting(news.add(7))
        self.assertEqual(task["labels"], {"article_id": "a-7"})
        kept = json.loads(task["request"]["body"])["article"]
        self.assertEqual(kept, article(7)["article"])  # id, title, content
        self.assertEqual(task["attempts"], 1)  # the count
        row = task["trail"][0]
        self.assertIn("insufficient_quota", row["message"])  # the reason
        self.assertRegex(row["ended_at"], r"^20\d\d-\d\d-\d\dT")  # the time
        listed = news.server.get("/v1/queues/articles/tasks?label.article_id=a-7").json["tasks"]
        self.assertEqual([one["id"] for one in listed], [task["id"]])
        with open(news.server.store_path(), encoding="utf-8") as file:
            self.assertIn("a-7", file.read())

    def each_wait_is_twice_the_last_and_the_sixth_failure_is_the_end(self):  # D2.2, D2.4, D3.3
        news = Newsroom(self, policy=FAST_POLICY)
        news.openai.behave("rate_limit_bare", "500", "quota", "500", "rate_limit_bare")
        news.claude.behave("overload", "rate_limit_bare", "500", "quota", "overload")
        task = news.settled()
        self.assertEqual((task["state"], task["attempts"]), ("failed", 6))
        waits = [row["wait_ms"] for row in task["trail"] if row["wait_ms"]]
        self.assertEqual(waits, [100, 200, 400, 800, 1600])
        self.assertEqual(len(task["trail"]), 12)  # a row for each provider
        line = news.server.wait_line("task_failed_permanently", task=task["id"])
        self.assertEqual((line.fields["level"], line.fields["attempts"]), ("warn", "6"))

    def waits_never_grow_past_a_day_by_the_policy(self):  # D2.3
        rule = {"backoff": "exponential", "base": "13h", "cap": "24h", "jitter": "none"}
        news = Newsroom(self, policy={"max_attempts": 9, "transient": rule})
        news.openai.behave("500")
        news.claude.behave("500")
        identity = news.add()
        waits = []
        for attempt in range(1, 5):
            waits.append(news.waiting(identity, attempt)["next_wait_ms"])
            news.server.post(f"/v1/tasks/{identity}:run")
        self.assertEqual(waits, [13 * 3600000, DAY_MS, DAY_MS, DAY_MS])

    def waits_never_grow_past_a_day_by_a_date_of_the_provider(self):  # D2.3
        news = Newsroom(self)
        news.openai.behave("quota")
        news.claude.behave("spend_limit")  # "regain access on 2099-09-01"
        task = news.waiting(news.add())
        self.assertEqual(task["next_wait_ms"], DAY_MS)
        self.assertEqual(task["trail"][1]["class"], "quota")
        self.assertIn("regain access on 2099-09-01", task["trail"][1]["message"])

    def the_queue_tells_how_it_is_doing(self):  # D3.1, D3.2, D3.4
        news = Newsroom(self)
        news.server.wait_line("queue_length", queue="articles", waiting=0)
        news.settled()
        news.server.wait_line("queue_empty", queue="articles")
        news.openai.behave("500")
        news.claude.behave("500")
        for number in (1, 2):
            news.waiting(news.add(number))
        news.openai.behave("ok")
        run = news.server.post("/v1/queues/articles:run")
        self.assertEqual((run.status, run.json["taken"]), (202, 2))
        news.server.wait_line("queue_length", queue="articles", waiting=2)
        line = news.server.wait_line("run_done", queue="articles", kind="manual")
        self.assertEqual([line.fields[name] for name in ("taken", "succeeded", "failed")],
                         ["2", "2", "0"])

    def retries_that_were_due_are_told_as_a_run(self):  # D3.2
        news = Newsroom(self, policy=FAST_POLICY)
        news.openai.behave("500", "ok")
        news.claude.behave("500")
        task = news.settled()
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 2))
        line = news.server.wait_line("run_done", queue="articles", kind="scheduled")
        self.assertEqual([line.fields[name] for name in ("taken", "succeeded", "failed")],
                         ["1", "1", "0"])

    def a_manual_run_takes_every_article_now(self):  # D4.1, D4.2, D4.3, D4.4
        news = Newsroom(self)
        news.openai.behave("rate_limit_reset")  # come back in 6 minutes: a gate
        news.claude.behave("spend_limit")
        ids = [news.add(0)]
        first = news.waiting(ids[0])
        self.assertEqual((first["attempts"], first["next_wait_ms"]), (1, 360000))
        ids += [news.add(number) for number in (1, 2)]
        while len(news.server.get(WAITING).json["tasks"]) < 3:
            pass  # the two are put off: no provider may be called
        news.openai.behave("500")
        news.claude.behave("500")
        self.assertEqual(news.server.post("/v1/queues/articles:run").json["taken"], 3)
        again = news.waiting(ids[0], attempts=2)  # gates and waits were ignored
        self.assertEqual((again["attempts"], again["next_wait_ms"]), (2, 600000))
        self.assertGreater(again["due_at"], first["due_at"])
        for identity in ids[1:]:
            self.assertEqual(news.waiting(identity)["attempts"], 1)
        news.openai.behave("ok")
        news.server.post("/v1/queues/articles:run")
        for identity in ids:
            self.assertEqual(news.server.settled(identity)["state"], "succeeded")
        self.assertEqual(news.server.get(WAITING).json["tasks"], [])  # what succeeded is out of the queue


class TheFile(unittest.TestCase):
    def the_queue_lives_in_a_json_file_across_a_kill(self):  # D5.1, D5.2, D5.3, D5.4
        news = Newsroom(self, store="json")
        path = news.server.store_path()
        self.assertTrue(os.path.exists(path))  # made when missing
        news.openai.behave("quota")
        news.claude.behave("500")
        before = news.waiting(news.add())
        with open(path, encoding="utf-8") as file:
            self.assertIn(before["id"], file.read())  # written before anybody was told
        news.server.restart()  # kill -9
        after = news.server.task(before["id"])
        self.assertEqual({name: after[name] for name in after if name != "trail"},
                         {name: before[name] for name in before if name != "trail"})
        self.assertEqual(legs(after), legs(before))
        news.openai.behave("ok")
        news.server.post("/v1/queues/articles:run")
        self.assertEqual(news.server.settled(before["id"])["settled_by"], "openai")

    def an_article_in_flight_at_a_kill_is_tried_again(self):  # D5.2, I5
        news = Newsroom(self, store=chosen("json"), policy=FAST_POLICY)
        news.openai.behave("hang")
        identity = news.add()
        news.openai.wait_for(1)
        news.openai.behave("ok")
        news.server.restart()
        task = news.server.settled(identity)
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 2))
        self.assertEqual(task["trail"][0]["class"], "transient")


class TheProviders(unittest.TestCase):
    def a_limited_openai_hands_over_to_claude(self):  # D6.1, D6.4
        for limit in ("rate_limit_bare", "quota"):
            with self.subTest(limit):
                news = Newsroom(self)
                news.openai.behave(limit)
                task = news.settled()
                answer = json.loads(task["response"]["body"])
                self.assertEqual((task["state"], task["attempts"], task["settled_by"]),
                                 ("succeeded", 1, "claude"))
                self.assertEqual(sorted(answer), ["model", "provider", "summary", "usage"])
                self.assertEqual((answer["provider"], answer["model"]), ("claude", "claude-test"))
                self.assertIn("記事 1", answer["summary"])
                self.assertEqual(answer["usage"], {"input_tokens": 110, "output_tokens": 25})
                line = news.server.wait_line("provider_succeeded", task=task["id"])
                self.assertEqual((line.fields["provider"], line.fields["attempt"]),
                                 ("claude", "1"))

    def a_failing_claude_hands_over_to_openai(self):  # D6.2, D6.4
        news = Newsroom(self, queue={"fallback": ["claude", "openai"]})
        news.claude.behave("overload")
        task = news.settled()
        self.assertEqual(task["settled_by"], "openai")
        self.assertEqual(legs(task), [(1, "claude", "transient", 529), (1, "openai", None, 200)])
        news.server.wait_line("provider_succeeded", task=task["id"], provider="openai")
        self.assertEqual(json.loads(task["response"]["body"])["model"], "gpt-test-2026-01-01")

    def both_failing_put_it_into_the_queue_as_one_attempt(self):  # D6.3
        news = Newsroom(self)
        news.openai.behave("hang")
        news.claude.behave("cut")
        news.server.configure(**{**news.server.config, "providers": [
            {**one, "timeout": "300ms"} for one in news.server.config["providers"]]})
        news.server.restart()
        task = news.waiting(news.add())
        self.assertEqual(task["attempts"], 1)
        self.assertEqual(legs(task), [(1, "openai", "transient", None),
                                      (1, "claude", "transient", None)])

    def an_article_that_one_refuses_is_offered_to_the_next(self):  # D6, the resolution
        for refusal in ("invalid", "404", "422"):
            with self.subTest(refusal):
                news = Newsroom(self)
                news.openai.behave(refusal)
                task = news.settled()
                self.assertEqual((task["state"], task["settled_by"], task["attempts"]),
                                 ("succeeded", "claude", 1))
                self.assertEqual(task["trail"][0]["class"], "invalid")

    def an_article_that_all_refuse_fails_at_once(self):  # D6, the resolution
        news = Newsroom(self)
        news.openai.behave("invalid")
        news.claude.behave("413")
        task = news.settled()
        self.assertEqual((task["state"], task["error"]["class"], task["attempts"]),
                         ("failed", "invalid", 1))
        self.assertEqual(legs(task), [(1, "openai", "invalid", 400), (1, "claude", "invalid", 413)])

    def an_article_that_one_refuses_waits_for_one_that_is_limited(self):  # D6, the resolution
        news = Newsroom(self)
        news.openai.behave("invalid")
        news.claude.behave("rate_limit_reset")
        first = news.waiting(news.add(1))
        self.assertEqual((first["state"], first["error"]["class"]), ("waiting", "rate_limited"))
        second = news.waiting(news.add(2))  # claude is not even asked
        self.assertEqual(legs(second), [(1, "openai", "invalid", 400),
                                        (1, "claude", "rate_limited", None)])
        self.assertIn("not asked", second["error"]["message"])
        self.assertEqual((second["state"], second["error"]["class"]), ("waiting", "rate_limited"))
        self.assertEqual(len(news.claude.seen), 1)

    def a_provider_that_cannot_work_is_told_once(self):
        news = Newsroom(self)
        news.openai.behave("404")
        for number in range(3):
            self.assertEqual(news.settled(number)["settled_by"], "claude")
        line = news.server.wait_line("provider_unusable", provider="openai")
        self.assertEqual([line.fields[name] for name in ("level", "reason", "status", "model")],
                         ["warn", "model", "404", "gpt-test"])
        self.assertEqual(news.server.said().count("provider_unusable"), 1)
        unusable = 'daruma_provider_unusable{provider="openai",reason="model"} '
        self.assertIn(unusable + "1\n", news.server.get("/metrics").body.decode())
        news.openai.behave("ok")
        news.settled(4)
        self.assertIn(unusable + "0\n", news.server.get("/metrics").body.decode())

    def an_answer_that_repeats_the_key_is_kept_nowhere(self):  # I10
        news = Newsroom(self, queue={"fallback": ["openai"]}, policy={**FAST_POLICY,
                                                                      "max_attempts": 1})
        news.openai.behave("echo")
        task = news.settled()
        self.assertEqual((task["state"], task["error"]["class"]), ("failed", "transient"))
        self.assertIn("repeats a secret", task["trail"][0]["message"])
        self.assertNotIn("openai-abc", json.dumps(task) + news.server.said())

    def a_provider_that_hangs_costs_few_articles_their_time(self):
        news = Newsroom(self, openai={"timeout": "100ms"})
        news.openai.behave("hang")
        for number in range(12):
            self.assertEqual(news.settled(number)["settled_by"], "claude")
        news.server.wait_line("provider_unusable", provider="openai", reason="silent")
        self.assertGreaterEqual(len(news.openai.seen), 5)
        self.assertLess(len(news.openai.seen), 9)  # a slow machine has time for trials

    def a_mended_article_is_another_request_to_the_provider(self):
        news = Newsroom(self, queue={"fallback": ["openai"]})
        news.openai.behave("invalid", "ok")
        identity = news.settled()["id"]
        shorter = article()
        shorter["article"]["content"] = "短い"
        self.assertEqual(news.server.post(f"/v1/dead-letters/{identity}:redrive",
                                          {"json": shorter}).status, 202)
        news.openai.wait_for(2)
        task = news.server.settled(identity)
        self.assertEqual((task["state"], task["settled_by"]), ("succeeded", "openai"))
        keys = [headers["Idempotency-Key"] for _path, headers, _request in news.openai.seen]
        self.assertEqual(keys, [f"{identity}-openai", f"{identity}~2-openai"])
        self.assertIn("短い", news.openai.seen[1][2]["messages"][1]["content"])

    def an_error_inside_a_200_is_an_error(self):
        news = Newsroom(self)
        news.openai.behave("stream_error")
        task = news.settled()
        self.assertEqual(task["settled_by"], "claude")
        self.assertEqual(legs(task)[0], (1, "openai", "transient", 200))

    def the_requests_are_as_the_providers_want_them(self):
        news = Newsroom(self, openai={"prompt": {"language": "en", "length": 50}},
                        claude={"prompt": {"system": "短く", "user": "{title}\n{content}"},
                                "max_tokens": 77, "version": "2023-01-01"})
        news.openai.behave("500")
        task = news.settled()
        path, headers, request = news.openai.seen[0]
        self.assertEqual(path, "/v1/chat/completions")
        self.assertEqual(headers["Authorization"], "Bearer " + KEYS["OPENAI_API_KEY"])
        self.assertEqual(headers["Idempotency-Key"], task["id"] + "-openai")
        self.assertEqual(sorted(request), ["max_completion_tokens", "messages", "model"])
        self.assertEqual([one["role"] for one in request["messages"]], ["system", "user"])
        self.assertIn("at most 50 words", request["messages"][0]["content"])
        self.assertIn(article()["article"]["content"], request["messages"][1]["content"])
        path, headers, request = news.claude.seen[0]
        self.assertEqual(path, "/v1/messages")
        self.assertEqual((headers["X-Api-Key" if "X-Api-Key" in headers else "x-api-key"],
                          headers["anthropic-version"]),
                         (KEYS["ANTHROPIC_API_KEY"], "2023-01-01"))
        self.assertEqual(headers["Idempotency-Key"], task["id"] + "-claude")
        given = article()["article"]
        self.assertEqual(request, {
            "model": "claude-test", "max_tokens": 77, "system": "短く",
            "messages": [{"role": "user", "content": f"{given['title']}\n{given['content']}"}]})

    def a_server_that_only_resembles_openai_can_be_asked(self):
        news = Newsroom(self, openai={"path": "/compatible/chat?version=1", "old": True})
        news.openai.path = "/compatible/chat?version=1"
        self.assertEqual(news.settled()["settled_by"], "openai")
        path, _headers, request = news.openai.seen[0]
        self.assertEqual(path, "/compatible/chat?version=1")
        self.assertEqual(sorted(request), ["max_tokens", "messages", "model"])

    def a_gated_provider_is_skipped_until_its_time(self):
        news = Newsroom(self)
        news.openai.behave("rate_limit_reset", "ok")  # x-ratelimit-reset-requests: 6m0s
        self.assertEqual(news.settled(1)["settled_by"], "claude")
        self.assertEqual(news.settled(2)["settled_by"], "claude")
        self.assertEqual(len(news.openai.seen), 1)
        text = news.server.get("/metrics").body.decode()
        self.assertRegex(text, r'daruma_provider_closed_seconds\{provider="openai"\} 3\d\d')

    def when_all_are_gated_nothing_is_called_and_nothing_counted(self):
        news = Newsroom(self)
        news.openai.behave("rate_limit_reset", "ok")
        news.claude.behave("spend_limit", "ok")
        self.assertEqual(news.waiting(news.add(1))["attempts"], 1)
        identity = news.add(2)
        task = news.server.task(identity, 1000)
        self.assertEqual((task["state"], task["attempts"], task["trail"]), ("waiting", 0, []))
        self.assertEqual((len(news.openai.seen), len(news.claude.seen)), (1, 1))
        news.server.post(f"/v1/tasks/{identity}:run")  # a person's word
        self.assertEqual(news.server.settled(identity)["settled_by"], "openai")

    def a_short_wait_is_waited_within_the_attempt(self):
        news = Newsroom(self, queue={"fallback": ["openai"]})
        news.openai.behave("rate_limit_ms", "ok")  # 300 ms
        news.waiting(news.add(1))
        task = news.settled(2)
        self.assertEqual((task["state"], task["attempts"]), ("succeeded", 1))

    def a_dead_key_is_set_aside_and_told(self):  # I10
        news = Newsroom(self, openai={"keys": ["env:OPENAI_API_KEY", "env:OPENAI_API_KEY_2"]})
        news.openai.behave("auth", "ok")
        task = news.settled(1)
        self.assertEqual(legs(task), [(1, "openai", "auth", 401), (1, "openai", None, 200)])
        line = news.server.wait_line("provider_key_dead", provider="openai")
        self.assertEqual(line.fields["level"], "warn")
        self.assertRegex(line.fields["fingerprint"], r"^[0-9a-f]{8}$")
        news.settled(2)
        used = [headers["Authorization"][-4:] for _path, headers, _body in news.openai.seen]
        self.assertEqual(used, ["0001", "0002", "0002"])
        metrics = news.server.get("/metrics").body.decode()
        self.assertIn('daruma_provider_keys{provider="openai",state="dead"} 1', metrics)
        told = news.server.said() + metrics + json.dumps(task)
        for key in KEYS.values():
            self.assertNotIn(key, told)

    def tokens_and_cost_are_counted(self):
        news = Newsroom(self, openai={"price": {"input": 2.5, "output": 10}})
        for number in range(2):
            news.settled(number)
        text = news.server.get("/metrics").body.decode()
        for line in ('daruma_provider_calls_total{provider="openai"} 2',
                     'daruma_provider_tokens_total{provider="openai",direction="in"} 200',
                     'daruma_provider_tokens_total{provider="openai",direction="out"} 40',
                     'daruma_provider_cost_total{provider="openai"} 0.0009',
                     'daruma_provider_failures_total{provider="claude",class="quota"} 0'):
            self.assertIn(line + "\n", text)


class TheDoor(unittest.TestCase):
    def an_article_can_be_posted_as_it_is(self):
        news = Newsroom(self)
        given = news.server.post("/v1/queues/articles/tasks", {**article(3), "key": "k3"})
        self.assertEqual(given.status, 201)
        self.assertEqual(given.json["labels"], {"article_id": "a-3"})
        task = news.server.settled(given.json["id"])
        self.assertEqual((task["state"], json.loads(task["request"]["body"])),
                         ("succeeded", article(3)))
        again = news.server.post("/v1/queues/articles/tasks", {"json": article(3), "key": "k3"})
        self.assertEqual(again.status, 409)  # other bytes: the blanks between them

    def what_is_no_article_is_refused_by_name(self):
        news = Newsroom(self)
        whole = article()["article"]
        for body, field in (
                ({"json": {}}, "article"), ({"body": "text"}, "article"), ({}, "article"),
                ({"json": {"article": {**whole, "id": ""}}}, "article.id"),
                ({"json": {"article": {**whole, "id": True}}}, "article.id"),
                ({"json": {"article": {**whole, "title": 1}}}, "article.title"),
                ({"article": {"id": "1", "title": "t"}}, "article.content"),
                ({"article": {**whole, "url": "x"}}, "article.url"),
                ({"json": {**article(), "more": 1}}, "article"),
                ({**article(), "target": "http://127.0.0.1:1/"}, "target"),
                ({**article(), "repeatable": False}, "repeatable"),
                ({**article(), "headers": {"x-a": "b"}}, "headers")):
            got = news.server.post("/v1/queues/articles/tasks", body)
            self.assertEqual((got.status, got.code, got.json.get("field")),
                             (400, "invalid_request", field), body)
        self.assertEqual(news.openai.seen, [])

    def a_queue_made_by_put_may_name_providers_of_the_file(self):
        news = Newsroom(self, store="sqlite")
        made = news.server.call("PUT", "/v1/queues/more", {
            "policy": "articles", "fallback": ["claude"], "order": "sticky", "wait_under": "1s"})
        self.assertEqual(made.status, 201)
        shown = news.server.get("/v1/queues/more").json["settings"]
        self.assertEqual((shown["fallback"], shown["order"], shown["wait_under"]),
                         (["claude"], "sticky", "1s"))
        news.server.restart()
        identity = news.server.add("more", **article())
        self.assertEqual(news.server.settled(identity)["settled_by"], "claude")
        wrong = news.server.call("PUT", "/v1/queues/wrong", {"fallback": ["nobody"]})
        self.assertEqual((wrong.status, wrong.json["field"]), (400, "fallback[0]"))

    def an_article_belongs_into_a_queue_with_providers(self):
        server = Server(self, queues=[{"name": "q"}]).start()
        got = server.post("/v1/queues/q/tasks", article())
        self.assertEqual((got.status, got.json["field"]), (400, "article"))


if __name__ == "__main__":
    runner.main()
