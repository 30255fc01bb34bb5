/* SPDX-License-Identifier: MIT
 *
 * dispatch -- from due to sent. The schedule says what to try next; the store says whether it is so:
 * an attempt begins with a committed lease that counts it (I5), and exactly one of lease and cancel
 * wins.
 *
 *   dispatch_queue --lease--> store --DONE--> dispatch_leased --> dispatch_send --> deliverer
 *                                     else: the slot is free again
 */
#include "engine/engine_internal.h"
#include "base/plant.h"
#include "task/fallback.h"
#include "task/fields.h"
#include "task/url.h"

#include <inttypes.h>
#include <stdio.h>

static bool may_begin(const struct engine *engine, const struct queue *queue)
{
    return !engine->is_draining && !queue->dropped && engine->stats.unsaved < ENGINE_UNSAVED_MAX &&
           !nodes_lease_is_over(engine);
}

/* For a task that has just come in: is there a slot, and nothing that holds the queue? */
bool dispatch_has_slot(const struct engine *engine, const struct queue *queue)
{
    return may_begin(engine, queue) && queue->outage.step != OUTAGE_DOWN &&
           !targets_are_gone(queue) && queue->in_flight < outage_limit(queue);
}

/* What was leased before a crash counts as sent: only what may be seen twice is leased ahead. And
 * nothing is where there is a rate: what had its token earlier would go out in a wave. */
static bool may_lease(const struct engine *engine, const struct queue *queue, bool is_once)
{
    bool may_be_ahead =
        !is_once && queue->outage.step == OUTAGE_NONE && queue->settings.rate_per_second <= 0;
    uint32_t most = outage_limit(queue) + (may_be_ahead ? flow_ahead_max(engine, queue) : 0);

    return may_begin(engine, queue) && queue->in_flight < most && queue->concurrency > 0;
}

/* What the schedule says may go, and what kind of attempt that is. */
struct candidate {
    struct schedule *from;
    struct schedule_entry entry;
};

/* Of the tasks that wait: which of them it is one of. */
static uint32_t kind_of(const struct attempt *attempt)
{
    return attempt->is_forced ? LIFE_FORCED : attempt->is_low ? LIFE_LOW : 0;
}

static bool lease(struct engine *engine, struct queue *queue, const struct candidate *candidate)
{
    struct arena *arena = arena_new(ARENA_MAX);
    struct attempt *attempt = arena == NULL ? NULL : attempt_new(engine, queue, arena);

    if (attempt == NULL) {
        arena_free(arena);
        return false;
    }
    attempt->op.kind = OP_LEASE;
    attempt->op.ticket = TICKET_ATTEMPT;
    attempt->op.now_ms = engine_now_ms(engine);
    attempt->op.task.id = (struct task_id){.row = candidate->entry.row, .tail = ID_ANY_TAIL};
    attempt->op.epoch = engine->store->epoch;
    attempt->op.wants_request = true;
    attempt->op.is_patient = true;
    attempt->op.targets = targets_round(queue);
    attempt->is_forced = candidate->from == &queue->forced;
    attempt->is_low = candidate->from == &queue->low;
    attempt->is_trial = !attempt->is_forced && queue->outage.step == OUTAGE_DOWN;
    if (nodes_are_many(engine)) {
        nodes_ask(queue, kind_of(attempt), &attempt->op);
    }
    attempt_take_slot(engine, attempt);
    if (!engine->options.world.commit(engine->options.world.user, &attempt->op)) {
        flow_give_token_back(queue);
        attempt_free(engine, attempt);
        return false;
    }
    return true;
}

/* Of what was redriven with many others, no more than half of the queue is under way. */
static bool has_low_slot(const struct queue *queue)
{
    return queue->low_in_flight * 2 < queue->concurrency || queue->low_in_flight == 0;
}

/* The next that may go: a person's word first, then what is due, then what was redriven in bulk. */
static bool next_candidate(const struct engine *engine, struct queue *queue, int64_t now_ms,
                           struct candidate *ret_next)
{
    ret_next->from = &queue->forced;
    if (schedule_first(&queue->forced, &ret_next->entry)) {
        return true;
    }
    if (queue->paused || targets_are_gone(queue) || outage_holds(engine, queue)) {
        return false;
    }
    ret_next->from = &queue->due;
    if (schedule_first(&queue->due, &ret_next->entry) && ret_next->entry.due_ms <= now_ms) {
        return true;
    }
    ret_next->from = &queue->low;
    return has_low_slot(queue) && schedule_first(&queue->low, &ret_next->entry) &&
           ret_next->entry.due_ms <= now_ms;
}

void dispatch_queue(struct engine *engine, struct queue *queue)
{
    int64_t now_ms = engine_now_ms(engine);
    bool has_once = targets_round(queue).once != 0;

    leases_serve(engine, queue);
    for (int i = 0; i < DISPATCH_AT_ONCE; i++) {
        struct candidate next;
        if (!next_candidate(engine, queue, now_ms, &next) ||
            !may_lease(engine, queue, next.entry.is_once || next.from == &queue->low || has_once) ||
            !flow_has_token(engine, queue)) {
            return;
        }
        if (!lease(engine, queue, &next)) {
            break;
        }
        schedule_pop(next.from);
    }
    engine->has_more_to_do = true; /* cut short, by count or for want of memory: the next tick */
}

/* When a queue could begin something, in wall time; INT64_MAX: not before something else happens. */
int64_t dispatch_next_ms(const struct engine *engine, const struct queue *queue)
{
    int64_t now_ms = engine_now_ms(engine), earliest_ms = now_ms;
    struct schedule_entry due, low;

    if (!may_begin(engine, queue) || queue->in_flight >= outage_limit(queue)) {
        return INT64_MAX;
    }
    if (queue->forced.count > 0) { /* nothing but the rate holds these */
        return now_ms + flow_token_wait_ms(engine, queue);
    }
    if (queue->paused || targets_are_gone(queue) || queue->outage.has_trial) {
        return INT64_MAX;
    }
    bool has_due = schedule_first(&queue->due, &due);
    bool has_low = has_low_slot(queue) && schedule_first(&queue->low, &low);
    if (!has_due && !has_low) {
        return INT64_MAX;
    }
    int64_t next_ms = has_due ? due.due_ms : INT64_MAX;
    if (has_low && low.due_ms < next_ms) {
        next_ms = low.due_ms;
    }
    earliest_ms += flow_token_wait_ms(engine, queue);
    if (queue->outage.step == OUTAGE_DOWN) {
        int64_t trial_ms = now_ms + queue->outage.next_at_ms - clock_mono_ms(engine->options.clock);
        earliest_ms = trial_ms > earliest_ms ? trial_ms : earliest_ms;
    }
    return next_ms > earliest_ms ? next_ms : earliest_ms;
}

/* --- what goes out ------------------------------------------------------------------------------ */

/* The target's headers, but for those that the task has itself; then the task's own. */
static int add_headers(struct buf *headers, struct span from, struct span unless)
{
    struct span name, value, other;
    int failed = 0;

    while (failed == 0 && fields_next(&from, &name, &value)) {
        char text[256];
        (void)snprintf(text, sizeof text, "%.*s", SPAN_ARGS(name)); /* names are short */
        if (!fields_find(unless, text, &other)) {
            failed = fields_add(headers, name, value);
        }
    }
    return failed;
}

/* What a person has changed stands for the request's own. */
static void apply_edit(struct attempt *attempt)
{
    const struct edit *edit = &attempt->op.edited;

    if ((edit->parts & EDIT_TARGET) != 0) {
        attempt->task.target = edit->target;
    }
    if ((edit->parts & EDIT_HEADERS) != 0) {
        attempt->task.headers = edit->headers;
    }
    if ((edit->parts & EDIT_BODY) != 0) {
        attempt->task.body = edit->body;
    }
    attempt->key_round = (edit->parts & (EDIT_TARGET | EDIT_BODY)) != 0 ? edit->round : 0;
}

/* The key that the target sees: the task's own, or its id; with the round of the latest edit, since
 * a target that knows the first request under that key would refuse or replay. */
static int add_key(struct buf *headers, const struct attempt *attempt, struct span id)
{
    char key[TASK_KEY_MAX + 16];
    struct span plain = attempt->task.key.len > 0 ? attempt->task.key : id;

    if (attempt->key_round == 0) {
        return fields_add(headers, SPAN("Idempotency-Key"), plain);
    }
    (void)snprintf(key, sizeof key, "%.*s~%" PRIu32, SPAN_ARGS(plain),
                   attempt->key_round + 1); /* fits */
    return fields_add(headers, SPAN("Idempotency-Key"), span_of(key));
}

static void put_hex(char *to, uint32_t value)
{
    for (int i = 0; i < 8; i++) {
        to[i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15];
    }
}

/* W3C trace context: where the caller has none, the task's id is the trace. */
static int add_trace(struct buf *headers, const struct attempt *attempt, const char *id)
{
    char trace[] = "00-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-SSSSSSSSSSSSSSSS-01";
    char *to = trace + 3;
    struct span given;

    if (fields_find(attempt->task.headers, "traceparent", &given)) {
        return 0;
    }
    for (const char *at = id; *at != '\0' && *to == 'T'; at++) {
        if (*at != '-') {
            *to++ = *at;
        }
    }
    put_hex(to + 1, (uint32_t)attempt->task.id.row | 1);
    put_hex(to + 9, attempt->life.attempts_all);
    return fields_add(headers, SPAN("traceparent"), span_of(trace));
}

static int add_own_headers(struct buf *headers, const struct attempt *attempt)
{
    char id[ID_TEXT_LEN + 1], number[16];
    struct span given;
    int failed = 0;

    id_format(attempt->task.id, id);
    (void)snprintf(number, sizeof number, "%" PRIu32, attempt->life.attempts_all); /* fits */
    if (attempt->queue->route != NULL) { /* the key is among the task's own, by the route's name */
        failed = add_trace(headers, attempt, id);
    } else if (!fields_find(attempt->task.headers, "Idempotency-Key", &given)) {
        failed = add_key(headers, attempt, span_of(id));
    }
    failed = failed != 0 ? failed : fields_add(headers, SPAN("X-Daruma-Task"), span_of(id));
    return failed != 0 ? failed : fields_add(headers, SPAN("X-Daruma-Attempt"), span_of(number));
}

/* Spans of the settings are copied: a queue may be changed while its attempts are under way. */
static int fill_headers(struct attempt *attempt, const struct target *target)
{
    struct buf headers;

    buf_init(&headers, ARENA_MAX);
    int failed = add_headers(&headers, target->headers, attempt->task.headers);
    failed = failed != 0 ? failed : buf_add(&headers, attempt->task.headers);
    failed = failed != 0 ? failed : add_own_headers(&headers, attempt);
    attempt->delivery.headers = arena_copy(attempt->arena, buf_span(&headers));
    buf_done(&headers);
    return failed != 0 || attempt->delivery.headers.at == NULL ? FAULT_MEMORY : 0;
}

static struct span first_given(struct span one, struct span other, struct span usual)
{
    return one.len > 0 ? one : other.len > 0 ? other : usual;
}

/* With the round of the latest edit, as the key has it: providers make their keys from it. */
static struct span id_text(const struct attempt *attempt)
{
    char text[ID_TEXT_LEN + 1];

    id_format(attempt->task.id, text);
    return attempt->key_round == 0
               ? arena_copy(attempt->arena, span_of(text))
               : arena_printf(attempt->arena, "%s~%" PRIu32, text, attempt->key_round + 1);
}

/* A copy, for the same reason. The providers have their own time-outs, unless the task says how long
 * an attempt may take. */
static int fill_fallback(struct attempt *attempt, const struct task_options *options)
{
    struct fallback *fallback = arena_alloc(attempt->arena, sizeof *fallback);

    if (fallback == NULL) {
        return FAULT_MEMORY;
    }
    *fallback = *attempt->queue->settings.fallback;
    attempt->delivery.fallback = fallback;
    attempt->delivery.timeout_ms = options->timeout_ms;
    return 0;
}

/* The target whose settings the attempt takes. A task may name a URL of its own: to another origin goes
 * nothing that was set up for the queue's target, as with redirects. Callbacks are signed wherever they
 * go: that is what the signature is for. */
static struct target settings_of(const struct engine *engine, const struct attempt *attempt,
                                 const struct target *chosen)
{
    struct span own = attempt->task.target;
    struct target target =
        chosen != NULL ? *chosen
                       : (struct target){.timeout_ms = QUEUE_TIMEOUT_MS, .repeatable = true};

    bool has_secrets = target.headers.len > 0 || target.ca.len > 0 || target.sign_count > 0;
    bool is_ours = own.len == 0 || attempt->queue->route != NULL; /* the configuration's own word */

    if (!has_secrets || is_ours || url_is_same_origin(own, target.url)) {
        return target;
    }
    target.headers = target.ca = SPAN("");
    target.sign_count = attempt->queue == engine->callbacks ? target.sign_count : 0;
    return target;
}

/* Does the URL begin with that one, of the configuration, and go on with a path? */
static bool is_below(struct span url, struct span upstream)
{
    while (upstream.len > 0 && upstream.at[upstream.len - 1] == '/') {
        upstream.len--;
    }
    return url.len > upstream.len && span_equal(span_until(url, upstream.len), upstream) &&
           (url.at[upstream.len] == '/' || url.at[upstream.len] == '?');
}

static int fill_delivery(const struct engine *engine, struct attempt *attempt)
{
    uint32_t turn = attempt->life.attempts_all > 0 ? attempt->life.attempts_all - 1 : 0;
    const struct target target = settings_of(
        engine, attempt,
        targets_choose(attempt->queue, attempt->task.target, turn, &attempt->target_index));
    struct task_options options;
    struct delivery *out = &attempt->delivery;
    struct arena *arena = attempt->arena;

    options_read(attempt->task.options, &options);
    attempt->repeatable = (attempt->life.flags & LIFE_ONCE) == 0;
    attempt->is_misjudged =
        attempt->repeatable && !(options.has_repeatable ? options.repeatable : target.repeatable);
    attempt->target_name =
        arena_copy(arena, target.name.len > 0 && attempt->task.target.len == 0
                              ? target.name
                              : first_given(attempt->task.target, target.url, SPAN("")));
    out->url = arena_copy(arena, first_given(attempt->task.target, target.url, SPAN("")));
    out->method = arena_copy(arena, first_given(attempt->task.method, target.method, SPAN("POST")));
    out->ca = arena_copy(arena, target.ca);
    out->body = attempt->task.body;
    out->timeout_ms = options.timeout_ms != 0 ? options.timeout_ms : target.timeout_ms;
    out->response_max = engine->options.response_max;
    out->repeatable = attempt->repeatable;
    if (attempt->queue->settings.fallback != NULL && fill_fallback(attempt, &options) != 0) {
        return FAULT_MEMORY;
    }
    out->task_id_text = id_text(attempt);
    out->is_forced = attempt->is_forced;
    out->is_proxied = attempt->queue->route != NULL;
    out->is_upstream = out->is_proxied && is_below(out->url, attempt->queue->route->upstream);
    if (attempt->life.deadline_at_ms != 0) {
        out->send_until_ms = clock_mono_ms(engine->options.clock) +
                             (attempt->life.deadline_at_ms - engine_now_ms(engine));
    }
    nodes_bind(engine, &attempt->life, out);
    if (out->url.at == NULL || out->method.at == NULL || out->task_id_text.at == NULL ||
        attempt->target_name.at == NULL || delivery_sign(out, &target, arena) != 0) {
        return FAULT_MEMORY;
    }
    return fill_headers(attempt, &target);
}

/* What cannot even begin is an outcome like any other. */
static void cannot_begin(struct engine *engine, struct attempt *attempt, const char *why)
{
    attempt->is_ours = true;
    attempt->delivery.outcome = (struct outcome){.error_class = DARUMA_CLASS_TRANSIENT};
    (void)snprintf(attempt->delivery.message, sizeof attempt->delivery.message, "%s",
                   why); /* cut if long */
    settle_outcome(engine, attempt);
}

/* As if it had not been leased. */
static void give_back(struct engine *engine, struct attempt *attempt, const char *why)
{
    attempt->delivery.is_uncounted = true;
    attempt->delivery.started_at_ms = attempt->delivery.ended_at_ms = engine_now_ms(engine);
    cannot_begin(engine, attempt, why);
}

static void give_back_held(struct engine *engine, struct attempt *attempt)
{
    attempt->is_returned = true;
    give_back(engine, attempt, "the target is down: not tried");
}

static void give_back_unshared(struct engine *engine, struct attempt *attempt)
{
    give_back(engine, attempt, "this node has no share of the queue: not sent");
}

typedef void (*give_back_fn)(struct engine *engine, struct attempt *attempt);

/* Those that wait for their turn go back. */
static void return_line(struct engine *engine, struct queue *queue, give_back_fn give)
{
    struct attempt *attempt = queue->ready, *next;
    bool was_going = queue->is_going;

    queue->ready = NULL;
    queue->is_going = true; /* one after the other, not each within the one before */
    for (; attempt != NULL; attempt = next) {
        next = attempt->next_ready;
        give(engine, attempt);
    }
    queue->is_going = was_going;
}

/* The target has gone down. */
void dispatch_return_ready(struct engine *engine, struct queue *queue)
{
    return_line(engine, queue, give_back_held);
}

/* Those whose turn it is. One that ends at once frees a turn for the next: that one is found here,
 * not further down the stack. */
void dispatch_ready(struct engine *engine, struct queue *queue)
{
    struct attempt *next;

    if (queue->is_going) {
        return;
    }
    queue->is_going = true;
    while ((next = flow_next_ready(queue)) != NULL) {
        dispatch_go(engine, next);
    }
    queue->is_going = false;
}

/* A node's share of a queue changes while leased tasks wait for a turn or for a host: one that rises
 * lets them go, and where there is none left they go back for other nodes. */
static void move_line(struct engine *engine, struct queue *queue)
{
    PLANT(LINE_LEFT, return )
    flow_move_hosts(engine, queue);
    if (queue->ready != NULL && queue->concurrency == 0) {
        return_line(engine, queue, give_back_unshared);
    } else if (queue->ready != NULL) {
        dispatch_ready(engine, queue);
    }
}

void dispatch_queues(struct engine *engine)
{
    engine->has_more_to_do = false;
    for (size_t i = 0; i < engine->queue_count; i++) {
        size_t at = (engine->dispatch_from + i) % engine->queue_count;
        move_line(engine, engine->queues[at]);
        dispatch_queue(engine, engine->queues[at]);
    }
    engine->dispatch_from++; /* so that no queue is always last */
}

/* It was leased, and then the target went down. */
static bool is_too_late(const struct attempt *attempt)
{
    return attempt->queue->outage.step == OUTAGE_DOWN && !attempt->is_trial && !attempt->is_forced;
}

/* It was leased and waited for its turn or its host, and then people stopped the queue: once they were
 * told so, nothing more is sent. What a person wants run is sent from a paused queue, too. */
static bool is_stopped(const struct attempt *attempt)
{
    const struct queue *queue = attempt->queue;

    return queue->dropped || (queue->paused && !attempt->is_forced);
}

/* Goes out now, or when it is its turn. */
void dispatch_go(struct engine *engine, struct attempt *attempt)
{
    struct error error = {0};
    int64_t now_ms = engine_now_ms(engine);

    /* A node that was stopped for longer than its lease: other nodes may have the task by now. This
     * one knows that it was not sent and says so; the fence decides whether that still counts (I2). */
    if (!delivery_has_right(&attempt->delivery, clock_mono_ms(engine->options.clock))) {
        give_back(engine, attempt, "this node's lease is over: not sent");
        return;
    }
    if (is_too_late(attempt)) {
        give_back_held(engine, attempt);
        return;
    }
    if (is_stopped(attempt)) {
        give_back(engine, attempt, "the queue was paused or deleted meanwhile: not sent");
        return;
    }
    if (!attempt->holds_turn && !flow_take_turn(attempt)) {
        return;
    }
    attempt->delivery.started_at_ms = attempt->delivery.ended_at_ms = now_ms;
    engine->stats.attempts++;
    histogram_add(&engine->stats.lateness, now_ms - attempt->life.due_at_ms);
    if (judge_is_expired(&attempt->life, now_ms)) {
        cannot_begin(engine, attempt, "the deadline passed before it could be sent");
        return;
    }
    int failed = engine->options.world.send(engine->options.world.user, &attempt->delivery, &error);
    if (failed != 0) {
        cannot_begin(engine, attempt, error.text[0] != '\0' ? error.text : fault_text(failed));
    }
}

/* The target must not see it twice, and the lease says that it may: the queue was changed meanwhile,
 * a person has edited the target, or the task was imported with a life that does not say what its
 * options do. What a crash would make of it is already written, so it has to be leased anew; by the
 * turn of the queue's targets, unless the task speaks for itself. */
static void judge_anew(struct engine *engine, struct attempt *attempt)
{
    struct task_options options;

    options_read(attempt->task.options, &options);
    if (attempt->target_index >= 0 && !options.has_repeatable) {
        attempt->life.flags |= LIFE_TARGETS;
    } else {
        attempt->life.flags = (attempt->life.flags & ~(uint32_t)LIFE_TARGETS) | LIFE_ONCE;
    }
    give_back(engine, attempt, "the target must not be asked twice: leased anew");
}

/* The lease is committed. Goes out now, or as soon as another attempt at its host has ended. */
void dispatch_send(struct engine *engine, struct attempt *attempt)
{
    apply_edit(attempt);
    int failed = fill_delivery(engine, attempt);

    if (failed != 0) {
        attempt->delivery.started_at_ms = attempt->delivery.ended_at_ms = engine_now_ms(engine);
        cannot_begin(engine, attempt, fault_text(failed));
    } else if (attempt->is_misjudged) {
        judge_anew(engine, attempt);
    } else if (flow_enter_host(engine, attempt)) {
        dispatch_go(engine, attempt);
    }
}

/* D3.2: retries that are due together are a run. */
static void begin_burst(const struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;

    if (attempt->life.attempts < 2 || attempt->is_forced) {
        return;
    }
    if (queue->burst.open == 0 && queue->burst.taken == 0) {
        DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "queue_length",
                   daruma_log_bytes("queue", queue->name.at, queue->name.len),
                   daruma_log_uint("waiting", queue->counts[TASK_WAITING] + 1));
    }
    attempt->is_retry = true;
    queue->burst.taken++;
    queue->burst.open++;
}

/* The LEASE is answered. */
void dispatch_leased(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    bool is_leased = attempt->op.fault == 0 && attempt->op.result == RESULT_DONE;

    if (nodes_are_many(engine)) {
        nodes_answered(engine, queue, kind_of(attempt), is_leased);
    }
    if (is_leased) {
        attempt->task = attempt->op.task;
        attempt->life = attempt->op.life;
        engine_count_move(engine, queue, TASK_WAITING, TASK_RUNNING);
        begin_burst(engine, attempt);
        dispatch_send(engine, attempt);
        return;
    }
    flow_give_token_back(queue);
    /* Cancelled, purged, taken, or due later: whoever did that has scheduled it anew. A fault leaves
     * the task as it is on disk; the next start finds it. */
    attempt_free(engine, attempt);
    dispatch_queue(engine, queue);
}
