/* SPDX-License-Identifier: MIT
 *
 * sim_people -- those who act on tasks from outside: operators who redrive, close and settle, and
 * workers who lease tasks, forget them, settle them twice or too late. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- operators --------------------------------------------------------------------------------------- */

/* A task that is there; NULL: none. */
static struct sim_task *any_task(struct sim *sim)
{
    struct sim_task *task =
        sim->task_count == 0 ? NULL : &sim->tasks[sim_roll(sim, sim->task_count)];

    return task != NULL && task->told == SIM_CREATED ? task : NULL;
}

static void act_on_one(struct sim *sim)
{
    static const enum ask_kind kinds[] = {ASK_REDRIVE, ASK_REDRIVE, ASK_RESOLVE, ASK_SETTLE};
    struct sim_task *task = any_task(sim);
    struct ask ask = {.exchange = SIM_ASIDE,
                      .who = SPAN("simulated"),
                      .kind = kinds[sim_roll(sim, 4)],
                      .settlement = (enum settlement)sim_roll(sim, 3)};

    if (task == NULL) {
        return;
    }
    ask.id = task->id;
    task->redrive_asked |= ask.kind == ASK_REDRIVE;
    task->resolve_asked |= ask.kind == ASK_RESOLVE && sim_roll(sim, 3) != 0;
    if (ask.kind == ASK_RESOLVE && !task->resolve_asked) {
        return; /* closing is the end of it: not too often */
    }
    task->done_said |= ask.kind == ASK_SETTLE && ask.settlement == SETTLEMENT_SUCCEEDED;
    task->not_done_said |= ask.kind == ASK_SETTLE && ask.settlement == SETTLEMENT_NOT_DONE;
    engine_ask(sim->engine, &ask);
}

static void act_on_many(struct sim *sim)
{
    struct ask ask = {.kind = ASK_REDRIVE_MANY,
                      .exchange = SIM_ASIDE,
                      .who = SPAN("simulated"),
                      .queue = sim_roll(sim, 2) == 0 ? SPAN(SIM_QUEUE) : SPAN(""),
                      .rate_per_second = (double)(1 + sim_roll(sim, 20)),
                      .dry_run = sim_roll(sim, 4) == 0};

    if (sim->redrive != 0 && sim_roll(sim, 2) == 0) {
        ask.kind = sim_roll(sim, 2) == 0 ? ASK_REDRIVE_STATE : ASK_REDRIVE_CANCEL;
        ask.id.row = sim->redrive;
    } else {
        sim->has_bulk |= !ask.dry_run;
    }
    engine_ask(sim->engine, &ask);
}

void sim_operate(struct sim *sim)
{
    if (sim_roll(sim, 8) == 0) {
        act_on_many(sim);
    } else {
        for (int i = 0; i < 4; i++) {
            act_on_one(sim);
        }
    }
}

/* --- workers ----------------------------------------------------------------------------------------- */

static struct sim_lease *free_lease(struct sim *sim)
{
    for (size_t i = 0; i < SIM_LEASES_MAX; i++) {
        if (!sim->leases[i].is_used) {
            return &sim->leases[i];
        }
    }
    return &sim->leases[sim_roll(sim, SIM_LEASES_MAX)]; /* a worker that is never heard of again */
}

/* Two may hold the same task, one after the other, but never by the same lease. */
static bool is_held(const struct sim *sim, uint32_t number, uint64_t fence)
{
    for (size_t i = 0; i < SIM_LEASES_MAX; i++) {
        const struct sim_lease *lease = &sim->leases[i];
        if (lease->is_used && lease->number == number && lease->fence == fence) {
            return true;
        }
    }
    return false;
}

void sim_leased(struct sim *sim, const struct reply *reply)
{
    for (size_t i = 0; reply->kind == REPLY_LEASES && i < reply->record_count; i++) {
        const struct record *record = &reply->records[i];
        int64_t number = -1;
        if (!span_to_int(record->task.body, &number) || number < 0 || number >= sim->task_count ||
            !sim->tasks[number].pulled) {
            sim_fail(sim, "a lease that nobody asked for");
            return;
        }
        sim->tasks[number].id = record->task.id; /* its caller may have crashed with us */
        if (is_held(sim, (uint32_t)number, record->life.fence)) {
            sim_fail(sim, "I2: one lease of task %d is given twice", (int)number);
        }
        sim_check_leased(sim, (uint32_t)number, record);
        *free_lease(sim) = (struct sim_lease){.is_used = true,
                                              .number = (uint32_t)number,
                                              .id = record->task.id,
                                              .fence = record->life.fence,
                                              .epoch = record->life.epoch,
                                              .serial = ++sim->lease_last};
    }
}

/* The number of the lease, and what was said of it. */
void sim_worded(struct sim *sim, uint64_t word, const struct reply *reply)
{
    struct sim_lease *lease = &sim->leases[word % SIM_LEASES_MAX];
    uint64_t serial = word / SIM_LEASES_MAX / 4;
    struct arena *arena;
    struct record record;

    if (reply->kind != REPLY_LEASE_RESULTS || reply->results[0].result == LEASE_STALE ||
        reply->results[0].result == LEASE_EXTENDED || serial != lease->serial) {
        return;
    }
    if (lease->is_settled) {
        sim_fail(sim, "I2: a lease of task %u is settled twice", lease->number);
    }
    lease->is_settled = true;
    arena = arena_new(1 << 16);
    if (word / SIM_LEASES_MAX % 4 == LEASE_ACK &&
        (!sim_read(sim, lease->id, arena, &record) || record.life.state != TASK_SUCCEEDED ||
         record.life.fence != lease->fence)) {
        sim_fail(sim, "I1: an ack of task %u was acknowledged and is not committed", lease->number);
    }
    arena_free(arena);
}

static void say(struct sim *sim, size_t at)
{
    const struct sim_lease *lease = &sim->leases[at];
    enum lease_word_kind kind = (enum lease_word_kind)sim_roll(sim, 4);
    const struct lease_word word = {.kind = kind,
                                    .lease = SPAN("lease"),
                                    .text = SPAN("simulated"),
                                    .id = lease->id,
                                    .fence = lease->fence,
                                    .epoch = lease->epoch,
                                    .delay_ms = sim_roll(sim, 2) == 0 ? -1 : 500,
                                    .lease_ms = 500 + (int64_t)sim_roll(sim, 4000)};

    sim->tasks[lease->number].ack_said |= kind == LEASE_ACK;
    engine_ask(sim->engine,
               &(struct ask){.kind = ASK_LEASE_SETTLE,
                             .exchange = SIM_WORDS + at +
                                         SIM_LEASES_MAX * ((uint64_t)kind + 4 * lease->serial),
                             .words = &word,
                             .word_count = 1});
}

void sim_work(struct sim *sim)
{
    size_t at = (size_t)sim_roll(sim, SIM_LEASES_MAX);
    uint64_t exchange = SIM_TAKES + sim_roll(sim, 1000);

    if (sim_roll(sim, 3) == 0) {
        engine_ask(sim->engine, &(struct ask){.kind = ASK_LEASE,
                                              .exchange = exchange,
                                              .queue = SPAN(SIM_PULLED),
                                              .lease_max = 1 + (size_t)sim_roll(sim, 4),
                                              .lease_ms = 500 + (int64_t)sim_roll(sim, 5000),
                                              .wait_ms = (int64_t)sim_roll(sim, 2000)});
        if (sim_roll(sim, 8) == 0) {
            engine_leave(sim->engine, exchange);
        }
        return;
    }
    for (size_t i = 0; i < SIM_LEASES_MAX; i++, at = (at + 1) % SIM_LEASES_MAX) {
        if (sim->leases[at].is_used) {
            say(sim, at);
            if (sim_roll(sim, 2) == 0) {
                say(sim, at); /* at once, by somebody else */
            }
            sim->leases[at].is_used = sim_roll(sim, 3) != 0; /* else nobody speaks of it again */
            return;
        }
    }
}
