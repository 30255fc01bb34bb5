/* SPDX-License-Identifier: MIT
 *
 * articles -- articles through one provider: the whole deliverer (article read, request written, key,
 * gate, HTTP, answer classified and read, result written) without store and engine, so many at once.
 * libcurl's multi interface alone (bench/server/multi.c) is its limit. Prints the seconds it took.
 *
 *     articles --url http://127.0.0.1:9000 --count 100000 --at-once 64
 */
#include "../bench.h"

#include "deliver/http.h"
#include "deliver/providers.h"
#include "loop/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE_MAX  1024
#define RESPONSE_MAX 1048576
#define CONTENT_LEN  300 /* the request then has some 400 bytes, as multi's have */

static struct {
    struct loop *loop;
    struct loop_timer *timer;
    struct providers *providers;
    struct delivery deliveries[AT_ONCE_MAX];
    struct fallback fallback;
    char article[CONTENT_LEN + 100];
    uint64_t left, done, count;
} bench;

static void send_one(struct delivery *delivery)
{
    *delivery = (struct delivery){.body = span_of(bench.article),
                                  .response_max = RESPONSE_MAX,
                                  .repeatable = true,
                                  .fallback = &bench.fallback,
                                  .task_id_text = SPAN("0198c0de-0000-7000-8000-00000000000a")};
    if (deliver_send(providers_deliver(bench.providers), delivery, NULL) != 0) {
        bench_give_up("the deliverer takes no delivery");
    }
}

static void on_done(void *user, struct delivery *delivery)
{
    (void)user;
    if (delivery->outcome.status != 200 || delivery->response_body.len == 0) {
        bench_give_up(delivery->message);
    }
    delivery_done(delivery);
    if (++bench.done == bench.count) {
        loop_stop(bench.loop);
    } else if (bench.left > 0) {
        bench.left--;
        send_one(delivery);
    }
}

static void on_timer(void *user)
{
    (void)user;
    providers_tick(bench.providers);
}

static void wake_at(void *user, int64_t at_ms)
{
    (void)user;
    loop_timer_set(bench.timer, at_ms);
}

int main(int argc, char **argv)
{
    const char *url = bench_word(argc, argv, "--url");
    uint64_t at_once = bench_number(argc, argv, "--at-once", 64);
    struct provider_settings settings = {.name = SPAN("openai"),
                                         .model = SPAN("gpt-bench"),
                                         .keys = {SPAN("sk-bench")},
                                         .key_count = 1,
                                         .user = SPAN("{content}"),
                                         .headers = SPAN(""),
                                         .max_tokens = PROVIDER_MAX_TOKENS,
                                         .timeout_ms = PROVIDER_TIMEOUT_MS};
    const struct providers_options options = {
        .providers = &settings, .provider_count = 1, .wake_at = wake_at};
    struct deliver *inner;
    char content[CONTENT_LEN + 1];

    bench.count = bench_number(argc, argv, "--count", 100000);
    if (url == NULL || at_once == 0 || at_once > AT_ONCE_MAX || bench.count < at_once) {
        bench_give_up("--url, --count and --at-once");
    }
    memset(content, 'x', CONTENT_LEN);
    content[CONTENT_LEN] = '\0';
    snprintf(bench.article, sizeof bench.article,
             "{\"article\":{\"id\":\"1\",\"title\":\"t\",\"content\":\"%s\"}}", content);
    settings.url = span_of(url);
    bench.fallback = (struct fallback){.providers = {&settings}, .provider_count = 1};
    if (loop_new(&bench.loop, NULL) != 0 ||
        loop_timer_new(bench.loop, on_timer, NULL, &bench.timer, NULL) != 0 ||
        providers_open(&options, on_done, NULL, &bench.providers, NULL) != 0 ||
        http_deliver_open(NULL, bench.loop, providers_delivered, bench.providers, &inner, NULL) !=
            0) {
        bench_give_up("the deliverer does not start");
    }
    providers_set_inner(bench.providers, inner);
    bench.left = bench.count - at_once;
    int64_t began_ns = bench_now_ns();
    for (uint64_t i = 0; i < at_once; i++) {
        send_one(&bench.deliveries[i]);
    }
    loop_run(bench.loop);
    printf("%.6f\n", (double)(bench_now_ns() - began_ns) / 1e9);
    deliver_close(providers_deliver(bench.providers));
    loop_timer_free(bench.timer);
    loop_free(bench.loop);
    return 0;
}
