/* SPDX-License-Identifier: MIT
 *
 * fleet_people -- those outside: callers who submit, operators who act on tasks and queues, workers
 * who pull. Each talks to any node at any moment, and remembers what it was told. See fleet.h.
 */
#include "fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SUBMISSION_MAX (1 << 16)
#define DEADLINE_MS    15000

/* --- queues that operators make ---------------------------------------------------------------------- */

/* "CONCURRENCY HOSTS TARGETS": a letter for each target, r: it may be repeated, o: once. */
int fleet_parse_queue(void *user, struct span json, struct span name, struct arena *arena,
                      struct queue_settings *ret_settings, struct error *err)
{
    static const char *const urls[] = {"http://one.invalid/", "http://two.invalid/"};
    static const char *const names[] = {"one", "two"};
    const struct fleet *fleet = user;
    struct span rest = json, concurrency, hosts;
    int64_t most = 0, host_most = 0;

    (void)arena;
    if (!span_cut(&rest, ' ', &concurrency) || !span_cut(&rest, ' ', &hosts) ||
        !span_to_int(concurrency, &most) || !span_to_int(hosts, &host_most)) {
        return fail(err, FAULT_INPUT, "simulated: these are no settings");
    }
    *ret_settings = (struct queue_settings){.name = name,
                                            .policy = fleet->settings[3].policy,
                                            .concurrency = (uint32_t)most,
                                            .host_concurrency = (uint32_t)host_most};
    for (size_t i = 0; i < rest.len && i < 2; i++) {
        ret_settings->targets[ret_settings->target_count++] =
            (struct target){.name = span_of(names[i]),
                            .url = span_of(urls[i]),
                            .timeout_ms = QUEUE_TIMEOUT_MS,
                            .repeatable = rest.at[i] == 'r'};
    }
    return 0;
}

/* --- callers ----------------------------------------------------------------------------------------- */

/* The number of a queue that this node has to know of: an operator was told that it is there. A node that
 * has lost its lease may not have heard of it. */
static uint32_t told_queue(const struct fleet *fleet, size_t node, const char *name)
{
    const struct rows *rows = &fleet->inner->rows;

    for (size_t i = 0; i < rows->queue_count; i++) {
        const struct queue_row *row = &rows->queues[i]->row;
        if (fleet->queues[row->number].is_told_made && span_is(row->name, name) &&
            fleet_has_lease(fleet, node)) {
            return row->number;
        }
    }
    return 0;
}

static void submit(struct fleet *fleet, size_t node, uint32_t number)
{
    struct fleet_task *task = &fleet->tasks[number];
    struct arena *arena = arena_new(SUBMISSION_MAX);
    uint32_t serial = fleet->sub_count++;
    struct submission submission = {
        .exchange = FLEET_SUBS + serial,
        .arena = arena,
        .queue = span_of(task->queue),
        .target =
            strcmp(task->queue, FLEET_PUSHED) == 0 ? fleet_target_of(fleet, number) : SPAN(""),
        .body = arena_printf(arena, "%" PRIu32 " %" PRIu32, number, serial),
        .key = task->keyed ? arena_printf(arena, "key-%" PRIu32, number) : SPAN(""),
        .options = {.has_repeatable = task->says,
                    .repeatable = !task->once,
                    .callback = task->called ? SPAN("{}") : SPAN("")},
        .delay_ms = fleet_roll(fleet, 4) == 0 ? (int64_t)fleet_roll(fleet, 6000) : 0,
        .deadline_ms = task->deadline_ms,
        .has_fingerprint = true,
        .fingerprint = {(unsigned char)(1 + number)},
    };

    fleet->subs[serial] = (struct fleet_sub){
        .number = number, .node = node, .queue = told_queue(fleet, node, task->queue)};
    engine_submit(fleet->nodes[node].engine, &submission);
}

static void submit_new(struct fleet *fleet, size_t node)
{
    static const char *const queues[] = {FLEET_PUSHED, FLEET_PUSHED, FLEET_PULLED, FLEET_MADE};
    const char *queue = queues[fleet_roll(fleet, 4)];
    bool is_made = strcmp(queue, FLEET_MADE) == 0;

    if (fleet->task_count == FLEET_TASKS_MAX) {
        return;
    }
    fleet->tasks[fleet->task_count] =
        (struct fleet_task){.queue = queue,
                            .asked_at_ms = fleet->mono_ms,
                            .keyed = !is_made && fleet_roll(fleet, 2) == 0,
                            .called = fleet_roll(fleet, 3) == 0,
                            .says = !is_made || !fleet_options.queue_targets,
                            .once = fleet_roll(fleet, 2) == 0,
                            .deadline_ms = fleet_roll(fleet, 5) == 0 ? DEADLINE_MS : 0};
    submit(fleet, node, fleet->task_count++);
}

void fleet_submit(struct fleet *fleet, size_t node)
{
    uint32_t number = fleet->task_count == 0 ? 0 : (uint32_t)fleet_roll(fleet, fleet->task_count);

    if (fleet->sub_count == FLEET_SUBS_MAX) {
        return;
    }
    if (fleet->task_count == 0 || fleet_roll(fleet, 3) != 0) {
        for (uint64_t i = fleet_roll(fleet, 4); i < 4 && fleet->sub_count < FLEET_SUBS_MAX; i++) {
            submit_new(fleet, node);
        }
    } else if (fleet->tasks[number].keyed) {
        submit(fleet, node, number); /* sent again */
    }
}

static enum fleet_told fault_told(const struct reply *reply)
{
    return reply->error.fault == FAULT_UNKNOWN ? FLEET_UNKNOWN : FLEET_REFUSED;
}

static void sub_replied(struct fleet *fleet, uint32_t serial, const struct reply *reply)
{
    struct fleet_sub *sub = &fleet->subs[serial];
    struct fleet_task *task = &fleet->tasks[sub->number];
    bool is_there = reply->kind == REPLY_CREATED || reply->kind == REPLY_DUPLICATE;

    fleet_trace(fleet, "submission %u of task %u is told %d '%s'", serial, sub->number,
                (int)reply->kind, fault_code(reply->error.fault));
    if (sub->told != FLEET_PENDING) {
        fleet_fail(fleet, "submission %u is answered twice", serial);
    }
    sub->told = is_there ? FLEET_DONE : fault_told(reply);
    fleet->seen.unknown += sub->told == FLEET_UNKNOWN;
    if (reply->kind == REPLY_UNKNOWN_QUEUE && sub->queue != 0 &&
        !fleet->queues[sub->queue].is_dropped) {
        fleet_fail(fleet, "node %zu does not know queue %u, which was told as made", sub->node,
                   sub->queue);
    } else if (reply->kind == REPLY_CONFLICT) {
        fleet_fail(fleet, "I3: task %u conflicts with itself", sub->number);
    } else if (is_there && (task->id.row == 0 || task->id.row != reply->records[0].task.id.row)) {
        fleet_fail(fleet, "I1: task %u is acknowledged and is not recorded", sub->number);
    } else if (reply->kind == REPLY_CREATED && !sub->is_recorded) {
        fleet_fail(fleet, "I3: submission %u of task %u did not create it", serial, sub->number);
    } else if (sub->told == FLEET_REFUSED && sub->is_recorded) {
        fleet_fail(fleet, "I7: submission %u of task %u is told '%s' and is recorded", serial,
                   sub->number, fault_code(reply->error.fault));
    }
    task->acknowledged |= is_there;
}

/* --- operators --------------------------------------------------------------------------------------- */

static bool is_purge(const struct fleet_act *act)
{
    return act->kind == ASK_QUEUE_PURGE || (act->kind == ASK_QUEUE_DELETE && act->is_forced);
}

void fleet_ask(struct fleet *fleet, size_t node, struct ask *ask, uint32_t number)
{
    char who[16];
    uint32_t serial = fleet->act_count;
    bool is_walk = ask->kind == ASK_QUEUE_RUN || ask->kind == ASK_QUEUE_PURGE ||
                   ask->kind == ASK_REDRIVE_STATE ||
                   ask->kind == ASK_REDRIVE_CANCEL; /* one that has ended needs no act */

    if (serial == FLEET_ACTS_MAX) {
        return;
    }
    fleet->act_count++;
    fleet->seen.acts++;
    (void)snprintf(who, sizeof who, "%" PRIu32, serial);
    ask->exchange = FLEET_ACTS + serial;
    ask->who = span_of(who);
    fleet->acts[serial] = (struct fleet_act){.kind = ask->kind,
                                             .node = node,
                                             .number = number,
                                             .row = ask->id.row,
                                             .asked_at_ms = fleet->mono_ms,
                                             .is_checked = !is_walk,
                                             .is_forced = ask->force};
    fleet->purge_pending += is_purge(&fleet->acts[serial]);
    engine_ask(fleet->nodes[node].engine, ask);
}

static void act_told(struct fleet *fleet, struct fleet_act *act, enum fleet_told told)
{
    act->told = told;
    if (is_purge(act)) {
        fleet->purge_pending--;
        fleet->purge_asked_ms = fleet->mono_ms;
    }
}

static void act_on_task(struct fleet *fleet, size_t node)
{
    static const enum ask_kind kinds[] = {ASK_RUN,    ASK_RUN,     ASK_CANCEL,
                                          ASK_SETTLE, ASK_REDRIVE, ASK_RESOLVE};
    uint32_t number = (uint32_t)fleet_roll(fleet, fleet->task_count);
    struct fleet_task *task = &fleet->tasks[number];
    struct ask act = {.kind = kinds[fleet_roll(fleet, 6)],
                      .id = task->id,
                      .settlement = (enum settlement)fleet_roll(fleet, 3)};

    if (task->id.row == 0 || (act.kind == ASK_RESOLVE && fleet_roll(fleet, 3) != 0)) {
        return;
    }
    task->done_said |= act.kind == ASK_SETTLE && act.settlement == SETTLEMENT_SUCCEEDED;
    fleet_ask(fleet, node, &act, number);
}

/* Settings are drawn anew each time. */
static void put_queue(struct fleet *fleet, size_t node)
{
    static const char *const settings[] = {"4 1 r", "3 3 o", "4 2 ro", "5 1 or", "1 1 rr", "2 1 o"};
    size_t count = fleet_options.lost_turns ? 6 : 4; /* of them those with a share for each node */
    struct ask act = {.kind = ASK_QUEUE_PUT,
                      .queue = SPAN(FLEET_MADE),
                      .settings = span_of(settings[fleet_roll(fleet, count)])};

    fleet_ask(fleet, node, &act, 0);
}

static void delete_queue(struct fleet *fleet, size_t node)
{
    struct ask act = {.kind = ASK_QUEUE_DELETE,
                      .queue = SPAN(FLEET_MADE),
                      .force = !fleet_options.empty_deletes || fleet_roll(fleet, 2) == 0};

    fleet_ask(fleet, node, &act, 0);
}

/* What a key came to. */
static void forget_key(struct fleet *fleet, size_t node)
{
    uint32_t number = (uint32_t)fleet_roll(fleet, FLEET_HOT_KEYS);

    for (int i = 0; i < FLEET_HOT_KEYS && fleet->keys[number].kept_row == 0; i++) {
        number = (number + 1) % FLEET_HOT_KEYS;
    }
    struct ask act = {.kind = ASK_FORGET,
                      .id = {.row = fleet->keys[number].kept_row, .tail = ID_ANY_TAIL}};
    if (act.id.row != 0) {
        fleet_ask(fleet, node, &act, number);
    }
}

/* Does this node know of every change, and is no other under way? */
static bool may_change(const struct fleet *fleet, size_t node)
{
    for (uint32_t i = 0; i < fleet->act_count; i++) {
        if (fleet->acts[i].told == FLEET_PENDING && fleet->acts[i].kind >= ASK_QUEUE_PUT &&
            fleet->acts[i].kind <= ASK_QUEUE_PURGE) {
            return fleet_options.raced_changes;
        }
    }
    return fleet_options.raced_changes || fleet->nodes[node].queues_seen == fleet->queues_version;
}

static void act_on_queue(struct fleet *fleet, size_t node)
{
    static const enum ask_kind kinds[] = {ASK_QUEUE_PAUSE, ASK_QUEUE_RESUME, ASK_QUEUE_RESUME,
                                          ASK_QUEUE_RUN};
    struct ask act = {.kind = kinds[fleet_roll(fleet, 4)],
                      .queue = fleet_roll(fleet, 2) == 0 ? SPAN(FLEET_PUSHED) : SPAN(FLEET_MADE)};
    uint64_t roll = fleet_roll(fleet, 24);

    if (!may_change(fleet, node)) {
        return;
    }
    if (roll < 8) {
        put_queue(fleet, node);
    } else if (roll == 8) {
        delete_queue(fleet, node);
    } else if (roll == 9) {
        act = (struct ask){.kind = ASK_QUEUE_PURGE, .queue = SPAN(FLEET_MADE)};
        fleet_ask(fleet, node, &act, 0);
    } else {
        fleet_ask(fleet, node, &act, 0);
    }
}

void fleet_operate(struct fleet *fleet, size_t node)
{
    if (fleet->has_redrives && fleet_roll(fleet, 4) == 0) {
        fleet_redrive(fleet, node);
    } else if (fleet_options.held_answers && fleet_roll(fleet, 3) == 0) {
        forget_key(fleet, node);
    } else if (fleet->task_count == 0 || fleet_roll(fleet, 4) == 0) {
        act_on_queue(fleet, node);
    } else {
        for (int i = 0; i < 3; i++) {
            act_on_task(fleet, node);
        }
    }
}

static bool is_done(enum reply_kind kind)
{
    return kind == REPLY_TASK || kind == REPLY_LETTER || kind == REPLY_QUEUE ||
           kind == REPLY_DELETED || kind == REPLY_RUN || kind == REPLY_REDRIVE;
}

static void act_replied(struct fleet *fleet, uint32_t serial, const struct reply *reply)
{
    struct fleet_act *act = &fleet->acts[serial];

    fleet_trace(fleet, "act %u (%d) on task %u is told %d '%s'", serial, (int)act->kind,
                act->number, (int)reply->kind, fault_code(reply->error.fault));
    if (act->told != FLEET_PENDING) {
        fleet_fail(fleet, "operator %u is answered twice", serial);
    }
    act_told(fleet, act, is_done(reply->kind) ? FLEET_DONE : fault_told(reply));
    fleet_act_told(fleet, act);
    fleet_redrive_told(fleet, act, reply);
    act->call_first = fleet->call_count;
    if (act->kind == ASK_FORGET && act->told == FLEET_DONE) {
        fleet->seen.forgotten++;
        fleet->hot_key = act->number; /* asked for by all */
    }
    if (!act->is_checked) {
        return;
    }
    /* What was done to a task that is gone by now is told as not found. */
    bool is_gone = reply->kind == REPLY_UNKNOWN_TASK;
    if (act->told == FLEET_DONE && !act->is_committed) {
        fleet_fail(fleet, "I1: act %u (%d) is told as done and is not committed", serial,
                   (int)act->kind);
    } else if (act->told == FLEET_REFUSED && act->is_committed && !is_gone) {
        fleet_fail(fleet, "I7: act %u (%d) is told '%s' (%d) and is committed", serial,
                   (int)act->kind, fault_code(reply->error.fault), (int)reply->kind);
    }
}

/* --- workers ----------------------------------------------------------------------------------------- */

static void leased(struct fleet *fleet, const struct record *record)
{
    struct fleet_task *task = fleet_task_of(fleet, record->task.id);
    const struct version *version = fleet_version(fleet, record->task.id.row);
    struct fleet_lease *place = NULL;

    if (task == NULL || version == NULL || version->life.fence < record->life.fence) {
        fleet_fail(fleet, "I5: a worker has a lease that is not committed");
        return;
    }
    for (size_t i = 0; i < FLEET_LEASES_MAX; i++) {
        struct fleet_lease *lease = &fleet->leases[i];
        if (lease->is_used && lease->id.row == record->task.id.row &&
            lease->fence == record->life.fence) {
            fleet_fail(fleet, "I2: one lease of task %d is given twice",
                       (int)(task - fleet->tasks));
        }
        place = lease->is_used ? place : lease;
    }
    place = place != NULL ? place : &fleet->leases[fleet_roll(fleet, FLEET_LEASES_MAX)];
    *place = (struct fleet_lease){.is_used = true,
                                  .number = (uint32_t)(task - fleet->tasks),
                                  .id = record->task.id,
                                  .fence = record->life.fence,
                                  .epoch = record->life.epoch,
                                  .serial = ++fleet->lease_last};
    fleet->seen.leases++;
}

static void say(struct fleet *fleet, size_t node, size_t at)
{
    const struct fleet_lease *lease = &fleet->leases[at];
    enum lease_word_kind kind = (enum lease_word_kind)fleet_roll(fleet, 4);
    const struct lease_word word = {.kind = kind,
                                    .lease = SPAN("lease"),
                                    .text = SPAN("simulated"),
                                    .id = lease->id,
                                    .fence = lease->fence,
                                    .epoch = lease->epoch,
                                    .delay_ms = 300,
                                    .lease_ms = 500 + (int64_t)fleet_roll(fleet, 4000)};
    uint64_t number = at + FLEET_LEASES_MAX * ((uint64_t)kind + 4 * lease->serial);

    fleet->tasks[lease->number].ack_said |= kind == LEASE_ACK;
    engine_ask(fleet->nodes[node].engine, &(struct ask){.kind = ASK_LEASE_SETTLE,
                                                        .exchange = FLEET_WORDS + number,
                                                        .words = &word,
                                                        .word_count = 1});
}

void fleet_work(struct fleet *fleet, size_t node)
{
    size_t at = (size_t)fleet_roll(fleet, FLEET_LEASES_MAX);

    if (fleet_roll(fleet, 2) == 0) {
        struct ask take = {.kind = ASK_LEASE,
                           .exchange = FLEET_TAKES,
                           .queue = SPAN(FLEET_PULLED),
                           .lease_max = 1 + (size_t)fleet_roll(fleet, 3),
                           .lease_ms = 500 + (int64_t)fleet_roll(fleet, 5000),
                           .wait_ms = (int64_t)fleet_roll(fleet, 2000)};
        engine_ask(fleet->nodes[node].engine, &take);
        return;
    }
    for (size_t i = 0; i < FLEET_LEASES_MAX; i++, at = (at + 1) % FLEET_LEASES_MAX) {
        if (fleet->leases[at].is_used) {
            say(fleet, node, at);
            fleet->leases[at].is_used =
                fleet_roll(fleet, 3) != 0; /* else it is not heard of again */
            return;
        }
    }
}

static void worded(struct fleet *fleet, uint64_t number, const struct reply *reply)
{
    struct fleet_lease *lease = &fleet->leases[number % FLEET_LEASES_MAX];
    uint64_t kind = number / FLEET_LEASES_MAX % 4, serial = number / FLEET_LEASES_MAX / 4;

    if (reply->kind != REPLY_LEASE_RESULTS || reply->results[0].result == LEASE_STALE ||
        reply->results[0].result == LEASE_EXTENDED || serial != lease->serial) {
        return;
    }
    const struct version *version = fleet_version(fleet, lease->id.row);
    if (lease->is_settled) {
        fleet_fail(fleet, "I2: a lease of task %u is settled twice", lease->number);
    } else if (kind == LEASE_ACK && (version == NULL || version->life.state != TASK_SUCCEEDED ||
                                     version->life.fence != lease->fence)) {
        fleet_fail(fleet, "I1: an ack of task %u is acknowledged and not committed", lease->number);
    }
    lease->is_settled = true;
}

/* --- replies ----------------------------------------------------------------------------------------- */

void fleet_replied(struct fleet *fleet, const struct reply *reply)
{
    if (reply->exchange >= FLEET_CALLS) {
        fleet_call_replied(fleet, (uint32_t)(reply->exchange - FLEET_CALLS), reply);
    } else if (reply->exchange >= FLEET_WORDS) {
        worded(fleet, reply->exchange - FLEET_WORDS, reply);
    } else if (reply->exchange >= FLEET_TAKES) {
        for (size_t i = 0; reply->kind == REPLY_LEASES && i < reply->record_count; i++) {
            leased(fleet, &reply->records[i]);
        }
    } else if (reply->exchange >= FLEET_ACTS) {
        act_replied(fleet, (uint32_t)(reply->exchange - FLEET_ACTS), reply);
    } else if (reply->exchange >= FLEET_SUBS) {
        sub_replied(fleet, (uint32_t)(reply->exchange - FLEET_SUBS), reply);
    }
}

void fleet_forget_callers(struct fleet *fleet, size_t node)
{
    for (uint32_t i = 0; i < fleet->sub_count; i++) {
        struct fleet_sub *sub = &fleet->subs[i];
        sub->told = sub->node == node && sub->told == FLEET_PENDING ? FLEET_LOST : sub->told;
    }
    for (uint32_t i = 0; i < fleet->call_count; i++) {
        struct fleet_call *call = &fleet->calls[i];
        call->is_there &= call->node != node;
        call->wants_more &= call->node != node;
    }
    for (uint32_t i = 0; i < fleet->act_count; i++) {
        struct fleet_act *act = &fleet->acts[i];
        if (act->node == node && act->told == FLEET_PENDING) {
            act_told(fleet, act, FLEET_LOST);
        }
    }
}
