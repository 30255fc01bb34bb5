/* SPDX-License-Identifier: MIT
 *
 * engine_rig -- see engine_rig.h.
 */
#include "engine_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t rig_now(const struct clock *clock)
{
    return ((const struct rig *)clock)->now_ms;
}

static bool want_commit(void *user, struct op *op)
{
    return committer_submit(((struct rig *)user)->committer, op);
}

static bool want_read(void *user, struct read *read)
{
    struct rig *rig = user;
    struct handover_link *link = (struct handover_link *)read;

    link->next = rig->reads;
    rig->reads = link;
    return true;
}

static int want_send(void *user, struct delivery *delivery, struct error *err)
{
    struct rig *rig = user;

    (void)err;
    snprintf(rig->last_headers, sizeof rig->last_headers, "%.*s", SPAN_ARGS(delivery->headers));
    if (rig->sent_count < RIG_SENDS_MAX) {
        rig->sent_at_ms[rig->sent_count] = rig->now_ms - RIG_START_MS;
    }
    rig->sent_count++;
    rig->flight_numbers[rig->flight_count] = (uint32_t)rig->sent_count;
    rig->flights[rig->flight_count++] = delivery;
    if (rig->flight_count > rig->flight_most) {
        rig->flight_most = rig->flight_count;
    }
    return 0;
}

static void want_reply(void *user, const struct reply *reply)
{
    struct rig *rig = user;

    rig->reply_kind = reply->kind;
    rig->reply_count++;
    rig->error = reply->error;
    rig->run = reply->run;
    snprintf(rig->rendered, sizeof rig->rendered, "%.*s",
             SPAN_ARGS(reply->rendered != NULL ? buf_span(reply->rendered) : SPAN("")));
    if (reply->record_count > 0) {
        rig->id = reply->records[0].task.id;
        rig->life = reply->records[0].life;
    }
    if (reply->queue_count > 0) {
        memcpy(rig->queue_counts, reply->queues[0].counts, sizeof rig->queue_counts);
    }
}

static void keep_line(void *user, enum daruma_log_level level, const char *line, size_t length)
{
    struct rig *rig = user;
    size_t used = strlen(rig->log_text);

    (void)level;
    if (used + length + 2 < sizeof rig->log_text) {
        memcpy(rig->log_text + used, line, length);
        memcpy(rig->log_text + used + length, "\n", 2);
    }
}

static int parse_queue(void *user, struct span json, struct span name, struct arena *arena,
                       struct queue_settings *ret_settings, struct error *err)
{
    struct rig *rig = user;

    (void)json, (void)arena, (void)err;
    *ret_settings = rig->settings;
    ret_settings->name = name;
    return 0;
}

static int parse_policy(void *user, struct span json, struct arena *arena,
                        struct daruma_policy *ret_policy, struct error *err)
{
    (void)user, (void)json, (void)arena, (void)err;
    return daruma_policy_create(&(struct daruma_policy_options){.max_attempts = 2}, ret_policy,
                                NULL);
}

static void no_wake(void *user)
{
    (void)user;
}

static const struct store_keep keep = {1000, 1000, 1000};

static void start(struct rig *rig)
{
    struct error err = {0};
    const struct engine_options options = {
        .clock = &rig->clock,
        .dice = &rig->dice,
        .world = {want_commit, want_read, want_send, want_reply, rig},
        .log = &rig->log,
        .parse_queue = parse_queue,
        .parse_policy = parse_policy,
        .parse_user = rig,
        .render = rig->render,
        .render_user = rig,
        .keep = keep,
        .response_max = 1000,
        .backlog_max = 1000,
    };
    rig->committer = committer_new(rig->store, &rig->clock, no_wake, NULL);
    rig->engine = engine_new(&options, &err);
    if (engine_add_queue(rig->engine, &rig->settings, &err) != 0 ||
        engine_open(rig->engine, rig->store, &err) != 0) {
        fprintf(stderr, "rig: %s\n", err.text);
        abort();
    }
}

void rig_open(struct rig *rig, const char *policy)
{
    struct error err = {0};

    *rig = (struct rig){.clock = {rig_now, rig_now},
                        .now_ms = RIG_START_MS,
                        .answer = rig->answer,
                        .render = rig->render};
    rig->dice = daruma_dice_seed(1);
    rig->queue = SPAN(RIG_QUEUE);
    rig->log = (struct daruma_logger){.sink = keep_line, .sink_user = rig};
    rig->settings = (struct queue_settings){
        .name = SPAN(RIG_QUEUE),
        .target_count = 1,
        .targets = {{.name = SPAN("t"),
                     .url = SPAN("http://127.0.0.1:1/"),
                     .timeout_ms = QUEUE_TIMEOUT_MS,
                     .repeatable = true}},
        .concurrency = QUEUE_CONCURRENCY,
    };
    if (daruma_policy_create(daruma_policy_named(policy), &rig->settings.policy, NULL) != 0 ||
        store_open(SPAN("memory"), &keep, &rig->store, &err) != 0) {
        fprintf(stderr, "rig: %s\n", err.text);
        abort();
    }
    start(rig);
}

void rig_restart(struct rig *rig)
{
    engine_free(rig->engine);
    committer_free(rig->committer);
    start(rig);
}

void rig_close(struct rig *rig)
{
    engine_free(rig->engine);
    committer_free(rig->committer);
    store_close(rig->store);
}

void rig_submit(struct rig *rig, const char *key, const char *body, int64_t delay_ms,
                int64_t deadline_ms)
{
    struct arena *arena = arena_new(1 << 20);

    engine_submit(rig->engine, &(struct submission){.exchange = 1,
                                                    .arena = arena,
                                                    .queue = SPAN(RIG_QUEUE),
                                                    .key = arena_copy(arena, span_of(key)),
                                                    .body = arena_copy(arena, span_of(body)),
                                                    .delay_ms = delay_ms,
                                                    .deadline_ms = deadline_ms});
    rig_settle(rig);
}

void rig_ask(struct rig *rig, enum ask_kind kind)
{
    engine_ask(
        rig->engine,
        &(struct ask){
            .kind = kind, .exchange = 2, .id = rig->id, .queue = rig->queue, .force = rig->force});
    rig_settle(rig);
}

enum reply_kind rig_change(struct rig *rig)
{
    engine_ask(rig->engine, &(struct ask){.kind = ASK_QUEUE_PUT,
                                          .exchange = 3,
                                          .queue = SPAN("r"),
                                          .settings = SPAN("{}")});
    rig_settle(rig);
    return rig->reply_kind;
}

void rig_submit_to(struct rig *rig, const char *queue)
{
    struct arena *arena = arena_new(1 << 16);

    engine_submit(rig->engine, &(struct submission){.exchange = 1,
                                                    .arena = arena,
                                                    .queue = arena_copy(arena, span_of(queue))});
    rig_settle(rig);
}

static bool commit(struct rig *rig)
{
    (void)committer_step(rig->committer, 0); /* says whether more is to come; we look ourselves */
    struct op *op = committer_take(rig->committer);
    bool moved = op != NULL;

    while (op != NULL) {
        struct op *next = (struct op *)op->link.next;
        engine_committed(rig->engine, op);
        op = next;
    }
    return moved;
}

static bool perform_reads(struct rig *rig)
{
    struct handover_link *link = rig->reads;
    bool moved = link != NULL;

    rig->reads = NULL;
    while (link != NULL) {
        struct handover_link *next = link->next;
        read_perform((struct read *)link, rig->store);
        engine_read(rig->engine, (struct read *)link);
        link = next;
    }
    return moved;
}

static void answer_last(struct rig *rig, struct rig_answer answer)
{
    struct delivery *delivery = rig->flights[--rig->flight_count];

    delivery->outcome = (struct outcome){.status = answer.status,
                                         .sent = answer.status != 0 ? TASK_SENT_YES : answer.sent,
                                         .hint_ms = answer.hint_ms,
                                         .has_hint = answer.hint_ms > 0};
    delivery->ended_at_ms = rig->now_ms;
    (void)daruma_class_of_status(answer.status, &delivery->outcome.error_class); /* 2xx: unused */
    engine_delivered(rig->engine, delivery);
}

static bool deliver(struct rig *rig)
{
    if (rig->flight_count == 0 || rig->answer == NULL) {
        return false;
    }
    answer_last(rig, rig->answer(rig, rig->flight_numbers[rig->flight_count - 1]));
    return true;
}

void rig_answer_one(struct rig *rig, int status)
{
    answer_last(rig, (struct rig_answer){.status = status});
    rig_settle(rig);
}

void rig_settle(struct rig *rig)
{
    while (commit(rig) || perform_reads(rig) || deliver(rig)) {
    }
}

void rig_pass(struct rig *rig, int64_t ms)
{
    rig->now_ms += ms;
    engine_tick(rig->engine);
    rig_settle(rig);
}

void rig_run(struct rig *rig, int64_t limit_ms)
{
    int64_t until_ms = rig->now_ms + limit_ms;
    struct queue_view view;

    for (;;) {
        rig_settle(rig);
        uint64_t open_count = 0;
        for (size_t i = 0; i < engine_queue_count(rig->engine); i++) {
            engine_queue_view(rig->engine, i, &view);
            open_count += view.counts[TASK_WAITING] + view.counts[TASK_RUNNING];
        }
        int64_t wait_ms = engine_next_tick_ms(rig->engine);
        if (open_count == 0 || rig->now_ms + wait_ms > until_ms) {
            return;
        }
        rig_pass(rig, wait_ms);
    }
}
