/* SPDX-License-Identifier: MIT
 *
 * An hour of virtual time: ten thousand articles, both providers limited, the real engine on the
 * store in memory. No provider is called while it has said not to be, but for one probe each time its
 * moment has come; afterwards the calls ramp up; no article is summarised twice.
 */
#include "harness.h"

#include "engine/engine.h"
#include "newsroom.h"
#include "store/committer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS     3600000
#define SAY_MS      600000 /* each refusal: come back in ten minutes */
#define CALL_MS     1000   /* a call takes so long */
#define CONCURRENCY 64
#define LOG_MAX     200000

struct hour {
    struct newsroom room;
    struct store *store;
    struct committer *committer;
    struct engine *engine;
    struct handover_link *reads;
    uint32_t articles, recorded;
    unsigned char *summarised;             /* by article */
    int64_t shut_until_ms[ROOM_PROVIDERS]; /* as the provider has said it, since it was heard */
    int probing[ROOM_PROVIDERS];
    uint32_t called_while_shut, probes, successes;
    uint32_t after_ms[8]; /* calls in each quarter of a second after the first success */
    int64_t first_success_ms;
};

static struct hour hour;

static bool want_commit(void *user, struct op *op)
{
    return committer_submit(((struct hour *)user)->committer, op);
}

static bool want_read(void *user, struct read *read)
{
    struct handover_link *link = (struct handover_link *)read;

    link->next = ((struct hour *)user)->reads;
    ((struct hour *)user)->reads = link;
    return true;
}

static int want_send(void *user, struct delivery *delivery, struct error *err)
{
    return deliver_send(((struct hour *)user)->room.deliver, delivery, err);
}

static void want_reply(void *user, const struct reply *reply)
{
    ((struct hour *)user)->recorded += reply->kind == REPLY_CREATED;
}

/* The article's number is in its body, which the request repeats. */
static void note_summary(const struct delivery *delivery)
{
    char text[200];
    snprintf(text, sizeof text, "%.*s", SPAN_ARGS(delivery->body));
    const char *at = strstr(text, "number ");
    uint32_t number = at != NULL ? (uint32_t)strtoul(at + 7, NULL, 10) : UINT32_MAX;

    assert_true(number < hour.articles);
    hour.summarised[number]++;
    hour.successes++;
    if (hour.first_success_ms == 0) {
        hour.first_success_ms = hour.room.now_ms;
    }
}

static void on_done(void *user, struct delivery *delivery)
{
    (void)user;
    if (delivery->outcome.status == 200) {
        note_summary(delivery);
    }
    engine_delivered(hour.engine, delivery);
}

static struct room_answer answer(struct newsroom *room, int provider)
{
    int64_t now_ms = room->now_ms, since_ms = now_ms - hour.first_success_ms;

    if (now_ms < hour.shut_until_ms[provider]) {
        hour.called_while_shut++;
    }
    if (hour.first_success_ms != 0 && since_ms < 8 * 250) {
        hour.after_ms[since_ms / 250]++;
    }
    if (now_ms - ROOM_START_MS >= HOUR_MS) {
        return (struct room_answer){.status = 200, .takes_ms = CALL_MS};
    }
    if (hour.shut_until_ms[provider] != 0) {
        hour.probes++;
    }
    return (struct room_answer){
        .status = 429,
        .body = "{\"error\":{\"type\":\"rate_limit_error\",\"code\":\"rate_limit_exceeded\"}}",
        .hint_ms = SAY_MS,
        .takes_ms = CALL_MS};
}

/* What the provider has said is known from the moment at which its answer is there. */
static void note_answers(void)
{
    for (size_t i = 0; i < hour.room.call_count; i++) {
        const struct room_call *call = &hour.room.calls[i];
        if (call->ends_at_ms <= hour.room.now_ms && call->answer.status == 429) {
            hour.shut_until_ms[call->provider] = hour.room.now_ms + SAY_MS;
        }
    }
}

static bool move(void)
{
    (void)committer_step(hour.committer, 0); /* we look ourselves whether there is more */
    struct op *op = committer_take(hour.committer);
    bool moved = op != NULL || hour.reads != NULL;

    while (op != NULL) {
        struct op *next = (struct op *)op->link.next;
        engine_committed(hour.engine, op);
        op = next;
    }
    while (hour.reads != NULL) {
        struct handover_link *link = hour.reads;
        hour.reads = link->next;
        read_perform((struct read *)link, hour.store);
        engine_read(hour.engine, (struct read *)link);
    }
    return moved;
}

static void no_wake(void *user)
{
    (void)user;
}

static void open_all(struct queue_settings *settings)
{
    const struct store_keep keep = {INT64_C(1) << 40, INT64_C(1) << 40, INT64_C(1) << 40, 0};
    struct error err = {0};

    room_open(&hour.room);
    hour.room.answer = answer;
    hour.room.done = on_done;
    hour.room.settings[ROOM_OPENAI].key_count = 1;
    *settings = (struct queue_settings){.name = SPAN("articles"),
                                        .fallback = &hour.room.fallback,
                                        .concurrency = CONCURRENCY,
                                        .host_concurrency = CONCURRENCY};
    assert_int_equal(daruma_policy_create(daruma_policy_named("articles"), &settings->policy, NULL),
                     0);
    assert_int_equal(store_open(SPAN("memory"), &keep, &hour.store, &err), 0);
    hour.committer = committer_new(hour.store, &hour.room.clock, no_wake, NULL);
    hour.engine = engine_new(&(struct engine_options){.clock = &hour.room.clock,
                                                      .dice = &hour.room.dice,
                                                      .world = {.commit = want_commit,
                                                                .read = want_read,
                                                                .send = want_send,
                                                                .reply = want_reply,
                                                                .user = &hour},
                                                      .keep = keep,
                                                      .response_max = 100000,
                                                      .backlog_max = 100000},
                             &err);
    assert_int_equal(engine_add_queue(hour.engine, settings, &err), 0);
    assert_int_equal(engine_open(hour.engine, hour.store, &err), 0);
}

static void submit_all(void)
{
    for (uint32_t i = 0; i < hour.articles; i++) {
        struct arena *arena = arena_new(1 << 16);
        engine_submit(
            hour.engine,
            &(struct submission){
                .exchange = 1,
                .arena = arena,
                .queue = SPAN("articles"),
                .body = arena_printf(
                    arena, "{\"article\":{\"id\":%u,\"title\":\"t\",\"content\":\"number %u \"}}",
                    i, i)});
        while (i % 256 == 255 && move()) {
        }
    }
    while (move()) {
    }
}

static uint64_t open_count(void)
{
    struct queue_view view;

    engine_queue_view(hour.engine, 0, &view);
    return view.counts[TASK_WAITING] + view.counts[TASK_RUNNING];
}

static void run_until_empty(int64_t limit_ms)
{
    while (open_count() > 0 && hour.room.now_ms - ROOM_START_MS < limit_ms) {
        int64_t tick_ms = engine_next_tick_ms(hour.engine);
        int64_t next_ms = tick_ms == INT64_MAX ? INT64_MAX : hour.room.now_ms + tick_ms;
        int64_t room_ms = room_next_ms(&hour.room);
        next_ms = room_ms < next_ms ? room_ms : next_ms;
        hour.room.now_ms = next_ms > hour.room.now_ms ? next_ms : hour.room.now_ms;
        note_answers();
        room_happen(&hour.room);
        engine_tick(hour.engine);
        while (move()) {
        }
    }
}

static void both_limited_for_an_hour(void **state)
{
    struct queue_settings settings;
    struct engine_stats stats;

    (void)state;
    hour.articles = (uint32_t)harness_size("DARUMA_ARTICLES", 10000);
    hour.summarised = calloc(hour.articles, 1);
    open_all(&settings);
    submit_all();
    assert_int_equal(hour.recorded, hour.articles);
    run_until_empty(INT64_C(24) * HOUR_MS);
    engine_stats(hour.engine, &stats);
    print_message(
        "%u articles: %zu calls of openai, %zu of claude, %u probes, all done after %lld s\n",
        hour.articles, hour.room.called[0], hour.room.called[1], hour.probes,
        (long long)(hour.room.now_ms - ROOM_START_MS) / 1000);
    print_message("calls in the first quarters of a second: %u %u %u %u %u %u %u %u\n",
                  hour.after_ms[0], hour.after_ms[1], hour.after_ms[2], hour.after_ms[3],
                  hour.after_ms[4], hour.after_ms[5], hour.after_ms[6], hour.after_ms[7]);
    assert_int_equal(hour.called_while_shut, 0);
    assert_true(hour.probes <= 2 * (HOUR_MS / SAY_MS)); /* one for each opening of each */
    assert_int_equal(open_count(), 0);
    assert_int_equal(stats.failed, 0);
    assert_int_equal(hour.successes, hour.articles);
    for (uint32_t i = 0; i < hour.articles; i++) {
        assert_int_equal(hour.summarised[i], 1);
    }
    uint32_t first_second =
        hour.after_ms[0] + hour.after_ms[1] + hour.after_ms[2] +
        hour.after_ms[3]; /* of both: 1, then 2 in all, while none is answered */
    assert_true(first_second >= 1 && first_second <= 16);
    engine_free(hour.engine);
    committer_free(hour.committer);
    store_close(hour.store);
    room_close(&hour.room);
    free(hour.summarised);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_limited_for_an_hour)};

    return HARNESS_RUN(argc, argv, tests);
}
