/* SPDX-License-Identifier: MIT
 *
 * engine_rig -- see engine_rig.h.
 */
#include "engine_rig.h"
#include "store/store_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t rig_now(const struct clock *clock)
{
    return ((const struct rig *)clock)->now_ms;
}

static bool want_commit(void *user, struct op *op)
{
    struct rig *rig = user;

    return !rig->is_dead && committer_submit(rig->committer, op);
}

static bool want_read(void *user, struct read *read)
{
    struct rig *rig = user;
    struct handover_link *link = (struct handover_link *)read;

    if (rig->is_dead || (rig->reads_max > 0 && rig->read_count == rig->reads_max)) {
        return false;
    }
    rig->read_count++;
    link->next = rig->reads;
    rig->reads = link;
    return true;
}

static int want_send(void *user, struct delivery *delivery, struct error *err)
{
    struct rig *rig = user;

    if (rig->files_max > 0 && rig->flight_count == rig->files_max) {
        return fail(err, FAULT_MEMORY, "no room for a delivery");
    }
    snprintf(rig->last_headers, sizeof rig->last_headers, "%.*s", SPAN_ARGS(delivery->headers));
    snprintf(rig->last_url, sizeof rig->last_url, "%.*s", SPAN_ARGS(delivery->url));
    snprintf(rig->last_body, sizeof rig->last_body, "%.*s", SPAN_ARGS(delivery->body));
    if (rig->sent_count < rig->sends_max) {
        rig->sent_at_ms[rig->sent_count] = rig->now_ms - RIG_START_MS;
    }
    rig->sent_count++;
    if (rig->flight_count == rig->sends_max) {
        abort();
    }
    rig->flight_sent_ms[rig->flight_count] = rig->now_ms;
    rig->flight_numbers[rig->flight_count] = (uint32_t)rig->sent_count;
    rig->flights[rig->flight_count++] = delivery;
    if (rig->flight_count > rig->flight_most) {
        rig->flight_most = rig->flight_count;
    }
    return 0;
}

static void want_pull(void *user, struct delivery *delivery)
{
    struct rig *rig = user;

    rig->pull_count++;
    rig->last_pulled = delivery;
}

static void want_stop(void *user, struct delivery *delivery)
{
    (void)delivery;
    ((struct rig *)user)->stop_count++;
}

static void keep_audit(struct rig_reply *kept, const struct audit_row *row)
{
    size_t used = strlen(kept->audit);

    snprintf(kept->audit + used, sizeof kept->audit - used, "%.*s %.*s %.*s %d>%d %.*s\n",
             SPAN_ARGS(row->who), SPAN_ARGS(row->act), SPAN_ARGS(row->subject), row->from_state,
             row->to_state, SPAN_ARGS(row->note));
}

static void keep_reply(struct rig *rig, const struct reply *reply)
{
    struct rig_reply *kept = &rig->replies[reply->exchange % RIG_EXCHANGES];
    uint64_t count = kept->count;

    *kept = (struct rig_reply){.kind = reply->kind,
                               .count = count + 1,
                               .record_count = reply->record_count,
                               .result_count = reply->result_count,
                               .redrive = reply->redrive,
                               .next_row = reply->next_row};
    if (reply->route != NULL) {
        kept->said = reply->route->said;
        kept->problem = reply->route->problem;
        kept->status = reply->route->answer != NULL ? reply->route->answer->status : 0;
    }
    for (size_t i = 0; i < reply->record_count && i < RIG_SEEN_MAX; i++) {
        kept->ids[i] = reply->records[i].task.id;
        kept->lives[i] = reply->records[i].life;
    }
    if (reply->record_count > 0) {
        snprintf(kept->body, sizeof kept->body, "%.*s", SPAN_ARGS(reply->records[0].task.body));
    }
    for (size_t i = 0; i < reply->result_count && i < RIG_SEEN_MAX; i++) {
        kept->results[i] = reply->results[i].result;
    }
    for (size_t i = 0; i < reply->audit_count; i++) {
        keep_audit(kept, &reply->audits[i]);
    }
}

static void want_reply(void *user, const struct reply *reply)
{
    struct rig *rig = user;

    if (rig->is_dead) {
        return;
    }
    keep_reply(rig, reply);
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
        rig->queue_told = reply->queues[0];
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

static void want_nudge(void *user, const struct node_wish *wish)
{
    ((struct rig *)user)->wish = *wish;
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

static void start_engine(struct rig *rig)
{
    struct error err = {0};
    const struct engine_options options = {
        .clock = &rig->clock,
        .dice = &rig->dice,
        .world = {.commit = want_commit,
                  .read = want_read,
                  .send = want_send,
                  .pull = want_pull,
                  .stop = want_stop,
                  .nudge = want_nudge,
                  .reply = want_reply,
                  .user = rig},
        .log = &rig->log,
        .parse_queue = parse_queue,
        .parse_policy = parse_policy,
        .parse_user = rig,
        .render = rig->render,
        .render_user = rig,
        .callback = rig->callback,
        .callback_user = rig,
        .keep = {.succeeded_ms = rig->keep_ms,
                 .failed_ms = rig->keep_ms,
                 .cancelled_ms = rig->keep_ms},
        .response_max = 1000,
        .backlog_max = rig->backlog_max,
        .waiters_max = rig->waiters_max,
        .attempts_max = rig->attempts_max,
        .lists_max = rig->lists_max,
        .replay_bytes = rig->route != NULL ? 1 << 16 : 0,
    };
    struct queue_settings callbacks = rig->settings;

    callbacks.name = SPAN(ENGINE_CALLBACK_QUEUE);
    callbacks.target_count = 0;
    rig->engine = engine_new(&options, &err);
    int failed = engine_add_queue(rig->engine, &rig->settings, &err);
    if (failed == 0 && rig->callback != NULL) {
        failed = engine_add_queue(rig->engine, &callbacks, &err);
    }
    if (failed == 0 && rig->route != NULL) {
        failed = engine_add_route(rig->engine, rig->route, &err);
    }
    /* As in the server: nothing can be committed before it is open. */
    if (failed != 0 || engine_open(rig->engine, rig->store, &err) != 0) {
        fprintf(stderr, "rig: %s\n", err.text);
        abort();
    }
    rig->committer = committer_new(rig->store, &rig->clock, no_wake, NULL);
}

static void set_up(struct rig *rig, const char *policy)
{
    rig->settings = (struct queue_settings){
        .name = SPAN(RIG_QUEUE),
        .target_count = 1,
        .targets = {{.name = SPAN("t"),
                     .url = SPAN("http://127.0.0.1:1/"),
                     .timeout_ms = QUEUE_TIMEOUT_MS,
                     .repeatable = true}},
        .concurrency = QUEUE_CONCURRENCY,
        .lease_ms = QUEUE_LEASE_MS,
    };
    if (daruma_policy_create(daruma_policy_named(policy), &rig->settings.policy, NULL) != 0) {
        abort();
    }
    if (rig->prepare != NULL) {
        rig->prepare(rig);
    }
}

void rig_open(struct rig *rig, const char *policy)
{
    struct error err = {0};

    *rig = (struct rig){.clock = {rig_now, rig_now},
                        .now_ms = RIG_START_MS,
                        .answer = rig->answer,
                        .render = rig->render,
                        .callback = rig->callback,
                        .prepare = rig->prepare,
                        .route = rig->route,
                        .reads_max = rig->reads_max,
                        .waiters_max = rig->waiters_max,
                        .attempts_max = rig->attempts_max,
                        .lists_max = rig->lists_max,
                        .files_max = rig->files_max,
                        .sends_max = rig->sends_max != 0 ? rig->sends_max : RIG_SENDS_MAX,
                        .backlog_max = rig->backlog_max != 0 ? rig->backlog_max : 1000,
                        .keep_ms = rig->keep_ms != 0 ? rig->keep_ms : 1000};
    const struct store_keep keep = {rig->keep_ms, rig->keep_ms, rig->keep_ms, 0};
    rig->dice = daruma_dice_seed(1);
    rig->queue = SPAN(RIG_QUEUE);
    rig->log = (struct daruma_logger){.sink = keep_line, .sink_user = rig};
    rig->flights = calloc(rig->sends_max, sizeof(struct delivery *));
    rig->flight_numbers = calloc(rig->sends_max, sizeof *rig->flight_numbers);
    rig->flight_sent_ms = calloc(rig->sends_max, sizeof *rig->flight_sent_ms);
    rig->sent_at_ms = calloc(rig->sends_max, sizeof *rig->sent_at_ms);
    if (store_open(SPAN("memory"), &keep, &rig->store, &err) != 0) {
        fprintf(stderr, "rig: %s\n", err.text);
        abort();
    }
    set_up(rig, policy);
    start_engine(rig);
}

/* What was asked for comes back with a fault, and nobody is told. */
static void stop_engine(struct rig *rig)
{
    committer_abandon(rig->committer);
    for (struct op *op = committer_take(rig->committer); op != NULL;) {
        struct op *next = (struct op *)op->link.next;
        op->fault = FAULT_CLOSING;
        engine_committed(rig->engine, op);
        op = next;
    }
    rig->read_count = 0;
    while (rig->reads != NULL) {
        struct handover_link *link = rig->reads;
        rig->reads = link->next;
        engine_read(rig->engine, (struct read *)link);
    }
    engine_free(rig->engine);
    committer_free(rig->committer);
    rig->flight_count = 0;
}

void rig_restart(struct rig *rig)
{
    rig->is_dead = true;
    stop_engine(rig);
    rig->is_dead = false;
    struct store *found = store_memory_clone(rig->store);
    store_close(rig->store);
    rig->store = found;
    start_engine(rig);
}

void rig_close(struct rig *rig)
{
    rig->is_dead = true;
    stop_engine(rig);
    store_close(rig->store);
    free(rig->flights);
    free(rig->flight_numbers);
    free(rig->flight_sent_ms);
    free(rig->sent_at_ms);
}

void rig_submit_as(struct rig *rig, const struct submission *wish)
{
    struct submission whole = *wish;

    whole.exchange = 1;
    whole.arena = arena_new(1 << 20);
    whole.queue = wish->queue.len > 0 ? wish->queue : SPAN(RIG_QUEUE);
    whole.key = arena_copy(whole.arena, wish->key);
    whole.body = arena_copy(whole.arena, wish->body);
    whole.headers = arena_copy(whole.arena, wish->headers);
    engine_submit(rig->engine, &whole);
    rig_settle(rig);
}

const struct rig_reply *rig_full_ask(struct rig *rig, const struct ask *ask)
{
    struct ask whole = *ask;

    whole.queue = ask->queue.len > 0 ? ask->queue : rig->queue;
    engine_ask(rig->engine, &whole);
    rig_settle(rig);
    return &rig->replies[ask->exchange % RIG_EXCHANGES];
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
    engine_doubts(rig->engine);
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
    struct handover_link *link = rig->holds_reads ? NULL : rig->reads;
    bool moved = link != NULL;

    if (!moved) {
        return false;
    }
    rig->reads = NULL;
    rig->read_count = 0;
    while (link != NULL) {
        struct handover_link *next = link->next;
        read_perform((struct read *)link, rig->store);
        engine_read(rig->engine, (struct read *)link);
        link = next;
    }
    return moved;
}

static void answer_at(struct rig *rig, size_t at, struct rig_answer answer)
{
    struct delivery *delivery = rig->flights[at];
    size_t behind = --rig->flight_count - at;

    memmove(&rig->flights[at], &rig->flights[at + 1], behind * sizeof(struct delivery *));
    memmove(&rig->flight_numbers[at], &rig->flight_numbers[at + 1],
            behind * sizeof *rig->flight_numbers);
    memmove(&rig->flight_sent_ms[at], &rig->flight_sent_ms[at + 1],
            behind * sizeof *rig->flight_sent_ms);
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
    size_t at = rig->latency_ms > 0 ? 0 : rig->flight_count - 1;

    if (rig->flight_count == 0 || rig->answer == NULL ||
        rig->flight_sent_ms[at] + rig->latency_ms > rig->now_ms) {
        return false;
    }
    answer_at(rig, at, rig->answer(rig, rig->flight_numbers[at]));
    return true;
}

void rig_answer_one(struct rig *rig, int status)
{
    answer_at(rig, rig->flight_count - 1, (struct rig_answer){.status = status});
    rig_settle(rig);
}

void rig_cut_one(struct rig *rig)
{
    answer_at(rig, rig->flight_count - 1, (struct rig_answer){.sent = TASK_SENT_MAYBE});
    rig_settle(rig);
}

bool rig_answer_at(struct rig *rig, const char *url, int status)
{
    for (size_t at = 0; at < rig->flight_count; at++) {
        if (span_is(rig->flights[at]->url, url)) {
            answer_at(rig, at,
                      (struct rig_answer){.status = status,
                                          .sent = status == 0 ? TASK_SENT_NO : TASK_SENT_YES});
            rig_settle(rig);
            return true;
        }
    }
    return false;
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

/* Until the engine wants a tick, or the target answers. */
static int64_t next_ms(const struct rig *rig)
{
    int64_t wait_ms = engine_next_tick_ms(rig->engine);

    if (rig->flight_count > 0 && rig->latency_ms > 0 && rig->answer != NULL) {
        int64_t back_ms = rig->flight_sent_ms[0] + rig->latency_ms - rig->now_ms;
        wait_ms = back_ms < wait_ms ? back_ms : wait_ms;
    }
    return wait_ms;
}

void rig_wait(struct rig *rig, int64_t ms)
{
    int64_t until_ms = rig->now_ms + ms;

    rig_settle(rig);
    while (rig->now_ms < until_ms) {
        int64_t wait_ms = next_ms(rig), left_ms = until_ms - rig->now_ms;
        wait_ms = wait_ms < 1 ? 1 : wait_ms;
        rig_pass(rig, wait_ms < left_ms ? wait_ms : left_ms);
    }
}

void rig_turn(struct rig *rig, int64_t ms, int64_t turn_ms)
{
    for (int64_t left_ms = ms; left_ms > 0; left_ms -= turn_ms) {
        bool is_wanted = next_ms(rig) <= turn_ms;
        rig->now_ms += turn_ms;
        if (is_wanted) {
            engine_tick(rig->engine);
        }
        rig_settle(rig);
    }
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
        int64_t wait_ms = next_ms(rig);
        if (open_count == 0 || rig->now_ms + wait_ms > until_ms) {
            return;
        }
        rig_pass(rig, wait_ms);
    }
}
