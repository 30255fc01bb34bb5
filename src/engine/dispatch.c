/* SPDX-License-Identifier: MIT
 *
 * dispatch -- from due to sent. The schedule says what to try next; the store says whether it is so:
 * an attempt begins with a committed lease that counts it (I5), and exactly one of lease and cancel
 * wins.
 *
 *   dispatch_queue --lease--> store --DONE--> dispatch_leased --> dispatch_send --> hosts_enter
 *                                     else: the slot is free again                    |
 *                                                        deliverer <-- dispatch_go <--'  or later
 */
#include "engine/hold_internal.h"
#include "base/plant.h"

#include <stdio.h>

static bool may_begin(const struct engine *engine, const struct queue *queue)
{
    return !engine->is_draining && !queue->dropped && queue->hold == QUEUE_HOLD_NONE &&
           engine->stats.unsaved < ENGINE_UNSAVED_MAX && !nodes_lease_is_over(engine) &&
           !places_rest(engine);
}

/* Who waits for a host has no place of the queue. */
uint32_t dispatch_places_taken(const struct queue *queue)
{
    return queue->in_flight - queue->beside_count;
}

/* For a task that has just come in: is there a slot, and nothing that holds the queue? */
bool dispatch_has_slot(const struct engine *engine, const struct queue *queue)
{
    return may_begin(engine, queue) && queue->outage.step != OUTAGE_DOWN &&
           !targets_are_gone(queue) && dispatch_places_taken(queue) < outage_limit(queue) &&
           places_may_take(engine, queue);
}

/* What was leased before a crash counts as sent: only what may be seen twice is leased ahead. And
 * nothing is where there is a rate: what had its token earlier would go out in a wave. Attempts at silent
 * hosts hold places, but what is leased ahead is for the others: leases are asked for as early as if
 * there were none. */
static bool may_lease(const struct engine *engine, const struct queue *queue, bool is_once)
{
    bool may_be_ahead =
        !is_once && queue->outage.step == OUTAGE_NONE && queue->settings.rate_per_second <= 0;
    uint32_t ahead = may_be_ahead ? flow_ahead_max(engine, queue) : 0;
    uint32_t most = outage_limit(queue) + (ahead > 0 ? ahead + queue->silent_count : 0);

    return may_begin(engine, queue) && queue->concurrency > 0 &&
           dispatch_places_taken(queue) < most;
}

/* What the schedule says may go, and what kind of attempt that is. */
struct candidate {
    struct schedule *from; /* NULL: it was parked at a host */
    struct host_pick pick;
    struct schedule_entry entry;
    enum wait_kind kind;
};

/* Which of the tasks that wait it is leased from, as the store has it: nodes ask for one kind at a time. */
static uint32_t wait_flags_of(const struct attempt *attempt)
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
    attempt->is_forced = candidate->kind == WAIT_FORCED;
    attempt->is_low = candidate->kind == WAIT_LOW;
    attempt->is_trial = !attempt->is_forced && queue->outage.step == OUTAGE_DOWN;
    if (nodes_are_many(engine)) {
        nodes_ask(queue, wait_flags_of(attempt), &attempt->op);
    }
    if (candidate->from != NULL && !attempt->is_forced) {
        hosts_look(engine, attempt);
    }
    attempt_take_slot(engine, attempt);
    if (!engine->options.world.commit(engine->options.world.user, &attempt->op)) {
        hosts_unleased(engine, attempt);
        flow_give_token_back(queue);
        attempt_free(engine, attempt);
        return false;
    }
    if (candidate->from == NULL) {
        hosts_take(engine, attempt, &candidate->pick);
    } else {
        schedule_pop(candidate->from);
    }
    return true;
}

/* Of what was redriven with many others, no more than half of the queue is under way. */
static bool has_low_slot(const struct queue *queue)
{
    return queue->low_in_flight * 2 < queue->concurrency || queue->low_in_flight == 0;
}

static bool is_held(const struct engine *engine, const struct queue *queue)
{
    return queue->paused || targets_are_gone(queue) || outage_holds(engine, queue);
}

/* When what a person wants run may go; INT64_MAX: there is none. At once, but among nodes it may have been
 * put off. */
static int64_t forced_due_ms(const struct engine *engine, const struct queue *queue)
{
    struct schedule_entry first;

    return !schedule_first(&queue->forced, &first) ? INT64_MAX
           : nodes_are_many(engine)                ? first.due_ms
                                                   : INT64_MIN;
}

/* The next that may go of the queue's own schedules: a person's word first, then what is due, then what
 * was redriven in bulk. Its host is not known. */
static bool next_of_queue(const struct engine *engine, struct queue *queue, int64_t now_ms,
                          struct candidate *ret_next)
{
    *ret_next = (struct candidate){.from = &queue->forced, .kind = WAIT_FORCED};
    if (forced_due_ms(engine, queue) <= now_ms) {
        return schedule_first(&queue->forced, &ret_next->entry);
    }
    if (is_held(engine, queue) || !hosts_may_look(engine, queue)) {
        return false;
    }
    *ret_next = (struct candidate){.from = &queue->due, .kind = WAIT_DUE};
    if (schedule_first(&queue->due, &ret_next->entry) && ret_next->entry.due_ms <= now_ms) {
        return true;
    }
    *ret_next = (struct candidate){.from = &queue->low, .kind = WAIT_LOW};
    return has_low_slot(queue) && schedule_first(&queue->low, &ret_next->entry) &&
           ret_next->entry.due_ms <= now_ms;
}

static enum wait_kind last_kind(const struct engine *engine, const struct queue *queue)
{
    return is_held(engine, queue) ? WAIT_FORCED : !has_low_slot(queue) ? WAIT_DUE : WAIT_LOW;
}

static bool next_of_hosts(struct engine *engine, struct queue *queue, struct candidate *ret_next)
{
    enum wait_kind last = last_kind(engine, queue);

    *ret_next = (struct candidate){0};
    if (!hosts_pick(engine, queue, last, &ret_next->pick)) {
        return false;
    }
    ret_next->entry = ret_next->pick.entry;
    ret_next->kind = ret_next->pick.kind;
    return true;
}

static bool is_before(const struct candidate *one, const struct candidate *other)
{
    return one->kind != other->kind ? one->kind < other->kind
                                    : one->entry.due_ms <= other->entry.due_ms;
}

/* Of both: what has waited for its host goes before what became due later. */
static bool next_candidate(struct engine *engine, struct queue *queue, int64_t now_ms,
                           struct candidate *ret_next)
{
    struct candidate parked;
    bool has_parked = next_of_hosts(engine, queue, &parked);
    bool has_own = next_of_queue(engine, queue, now_ms, ret_next);

    if (has_parked && (!has_own || is_before(&parked, ret_next))) {
        *ret_next = parked;
    }
    return has_parked || has_own;
}

/* Up to so many leases. */
void dispatch_some(struct engine *engine, struct queue *queue, int most)
{
    int64_t now_ms = engine_now_ms(engine);
    bool has_once = targets_round(queue).once != 0;

    for (int i = 0; i < most; i++) {
        struct candidate next;
        if (!next_candidate(engine, queue, now_ms, &next) ||
            !may_lease(engine, queue, next.entry.is_once || next.kind == WAIT_LOW || has_once) ||
            !flow_has_token(engine, queue)) {
            return;
        }
        if (!places_may_take(engine, queue)) {
            places_want(engine, queue);
            return;
        }
        if (!lease(engine, queue, &next)) {
            break;
        }
    }
    if (engine->places.served == queue) {
        places_want(engine, queue); /* behind the others */
    } else {
        engine->has_more_to_do =
            true; /* cut short, by count or for want of memory: the next tick */
    }
}

/* When the first of what the queue's schedules have is due; INT64_MAX: there is none. */
static int64_t first_due_ms(const struct engine *engine, const struct queue *queue)
{
    struct schedule_entry due, low;
    bool has_due = schedule_first(&queue->due, &due);
    bool has_low = has_low_slot(queue) && schedule_first(&queue->low, &low);
    int64_t next_ms = has_due ? due.due_ms : INT64_MAX;
    int64_t now_ms = engine_now_ms(engine);

    next_ms = has_low && low.due_ms < next_ms ? low.due_ms : next_ms;
    return next_ms <= now_ms ? now_ms + hosts_look_wait_ms(engine, queue) : next_ms;
}

/* When something may go that no person wants run; INT64_MAX: not before something else happens. */
static int64_t unforced_next_ms(const struct engine *engine, const struct queue *queue,
                                int64_t earliest_ms)
{
    int64_t now_ms = engine_now_ms(engine);

    if (queue->paused || targets_are_gone(queue) || queue->outage.has_trial) {
        return INT64_MAX;
    }
    int64_t next_ms = queue->has_pick ? now_ms : first_due_ms(engine, queue);
    int64_t chance_ms = hosts_chance_ms(engine, queue, last_kind(engine, queue));
    next_ms = chance_ms < next_ms ? chance_ms : next_ms;
    if (next_ms != INT64_MAX && queue->outage.step == OUTAGE_DOWN) {
        int64_t trial_ms = now_ms + queue->outage.next_at_ms - clock_mono_ms(engine->options.clock);
        earliest_ms = trial_ms > earliest_ms ? trial_ms : earliest_ms;
    }
    return next_ms > earliest_ms ? next_ms : earliest_ms;
}

/* When a queue could begin something, in wall time; INT64_MAX: not before something else happens. */
int64_t dispatch_next_ms(const struct engine *engine, const struct queue *queue)
{
    int64_t rest_ms = places_rest_ms(engine);
    int64_t earliest_ms = engine_now_ms(engine) + rest_ms;

    if ((rest_ms == 0 && (!may_begin(engine, queue) || queue->is_hungry)) ||
        dispatch_places_taken(queue) >= outage_limit(queue)) {
        return INT64_MAX;
    }
    earliest_ms += flow_token_wait_ms(engine, queue);
    int64_t forced_ms = forced_due_ms(engine, queue); /* nothing but the rate holds these */
    if (forced_ms <= earliest_ms) {
        return earliest_ms;
    }
    int64_t next_ms = unforced_next_ms(engine, queue, earliest_ms);
    return forced_ms < next_ms ? forced_ms : next_ms;
}

/* What cannot even begin is an outcome like any other. */
void dispatch_cannot_begin(struct engine *engine, struct attempt *attempt, const char *why)
{
    attempt->is_ours = true;
    attempt->delivery.outcome = (struct outcome){.error_class = DARUMA_CLASS_TRANSIENT};
    (void)snprintf(attempt->delivery.message, sizeof attempt->delivery.message, "%s",
                   why); /* cut if long */
    settle_outcome(engine, attempt);
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
    hosts_move(engine, queue);
    if (queue->ready != NULL && queue->concurrency == 0) {
        give_back_share(engine, queue);
    } else if (queue->ready != NULL) {
        dispatch_ready(engine, queue);
    }
}

void dispatch_queue(struct engine *engine, struct queue *queue)
{
    bool is_off = queue->paused || queue->dropped;

    PLANT(PAUSED_LINE_LEFT, is_off = is_off && queue->dropped)
    if (queue->is_retargeted) {
        give_back_retargeted(engine, queue);
    }
    if (is_off && (queue->ready != NULL || queue->line_count > 0)) {
        give_back_due(engine, queue);
    }
    leases_serve(engine, queue);
    dispatch_some(engine, queue, DISPATCH_AT_ONCE);
    places_serve(engine);
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

/* Goes out now, or as soon as another attempt at its host has ended; or goes back. A node without a share
 * has no place at any host: were it to wait for its turn, it would go without one when there is a share. */
static void enter_host(struct engine *engine, struct attempt *attempt)
{
    if (attempt->queue->concurrency == 0) {
        give_back_unshared(engine, attempt);
        return;
    }
    enum host_entry entry = hosts_enter(engine, attempt);
    if (entry == HOST_FREE) {
        dispatch_go(engine, attempt);
    } else if (entry == HOST_NO_ROOM) {
        give_back_parked(engine, attempt);
    }
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
    if (give_back_is_due(engine, attempt)) {
        give_back_unsent(engine, attempt);
        return;
    }
    if (hosts_are_over(attempt)) { /* the limit became smaller while it waited for its turn */
        hosts_step_back(attempt);
        enter_host(engine, attempt);
        return;
    }
    if (!attempt->holds_turn && !flow_take_turn(attempt)) {
        return;
    }
    if (judge_is_expired(&attempt->life, now_ms)) {
        PLANT(LATE_COUNTED, numbers_begun(engine, attempt->queue, 0))
        give_back(engine, attempt, "the deadline passed before it could be sent");
        return;
    }
    attempt->delivery.started_at_ms = attempt->delivery.ended_at_ms = now_ms;
    attempt->delivery.is_short = false;
    attempt->delivery.is_unnamed = attempt->delivery.is_unvouched = false;
    numbers_begun(engine, attempt->queue, now_ms - attempt->life.due_at_ms);
    int failed = engine->options.world.send(engine->options.world.user, &attempt->delivery, &error);
    const char *why = error.text[0] != '\0' ? error.text : fault_text(failed);
    if (failed == FAULT_MEMORY) { /* nothing of the target's */
        attempt->delivery.is_short = true;
        give_back(engine, attempt, why);
    } else if (failed != 0) { /* as the task or its queue has it, it cannot be sent */
        dispatch_cannot_begin(engine, attempt, why);
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

/* The lease is committed. */
void dispatch_send(struct engine *engine, struct attempt *attempt)
{
    int failed = outgoing_fill(engine, attempt);

    if (failed != 0) {
        attempt->delivery.started_at_ms = attempt->delivery.ended_at_ms = engine_now_ms(engine);
        dispatch_cannot_begin(engine, attempt, fault_text(failed));
    } else if (give_back_is_stopped(engine, attempt)) {
        give_back_unsent(engine, attempt);
    } else if (hold_is_stranded(engine, attempt)) {
        give_back(engine, attempt, "the queue has no targets any more: not sent");
    } else if (attempt->is_misjudged) {
        judge_anew(engine, attempt);
    } else {
        enter_host(engine, attempt);
    }
}

/* D3.2: retries that are due together are a run. */
static void begin_burst(struct engine *engine, struct attempt *attempt)
{
    struct queue *queue = attempt->queue;

    if (attempt->life.attempts < 2 || attempt->is_forced) {
        return;
    }
    if (queue->burst.open == 0 && queue->burst.taken == 0) {
        sums_log_length(engine, queue, queue->counts[TASK_WAITING] + 1);
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
        nodes_answered(engine, queue, wait_flags_of(attempt), is_leased);
    }
    if (is_leased) {
        attempt->task = attempt->op.task;
        attempt->life = attempt->op.life;
        engine_count_move(engine, queue, TASK_WAITING, &attempt->life);
        begin_burst(engine, attempt);
        dispatch_send(engine, attempt);
        return;
    }
    hosts_unleased(engine, attempt);
    flow_give_token_back(queue);
    /* Cancelled, purged or taken: it is not for this schedule any more. Due later: a person has put it
     * off and scheduled it anew, or the clock was set back while it waited for its host. A fault leaves
     * the task as it is on disk; the next start finds it. */
    if (attempt->op.fault == 0 && attempt->op.result == RESULT_NOT_DUE && !nodes_are_many(engine) &&
        !PLANT_HERE(CLOCK_FORGOTTEN)) {
        engine_schedule(engine, queue, &attempt->op.life, attempt->op.task.id.row);
    }
    attempt_free(engine, attempt);
    dispatch_queue(engine, queue);
}
