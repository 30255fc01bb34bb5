/* SPDX-License-Identifier: MIT
 *
 * sim_check -- the invariants, as those outside can see them: what callers were told, what the
 * target has in its ledger, and what is committed.
 */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_ARENA_MAX (1 << 20)

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list arguments;

    if (sim->failure[0] != '\0') {
        return; /* the first one counts */
    }
    va_start(arguments, format);
    (void)vsnprintf(sim->failure, sizeof sim->failure, format, arguments);
    va_end(arguments);
}

bool sim_read(struct sim *sim, struct task_id id, struct arena *arena, struct record *ret_record)
{
    struct error err;
    bool found = false;

    return store_read_task(sim_store_inner(sim->store), id, READ_BODIES | READ_TRAIL, arena,
                           ret_record, &found, &err) == 0 &&
           found;
}

/* I1: whoever was told "created" can rely on it. */
void sim_check_created(struct sim *sim, uint32_t number)
{
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    struct record record;

    if (!sim_read(sim, sim->tasks[number].id, arena, &record)) {
        sim_fail(sim, "I1: task %u was acknowledged and is not committed", number);
    }
    arena_free(arena);
}

/* Before the first byte goes out: the lease is committed and counts it (I5), it is due and not over
 * its deadline (I6), nobody else is at it (I2), and a target that must not see it twice does not. */
void sim_check_sent(struct sim *sim, uint32_t number)
{
    struct sim_task *task = &sim->tasks[number];
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    struct record record;
    bool found = sim_read(sim, task->id, arena, &record);

    if (!found || record.life.state != TASK_RUNNING) {
        sim_fail(sim, "I5: task %u goes out without a committed lease", number);
    } else if (record.life.attempts_all <= task->attempt_seen) {
        sim_fail(sim, "I5: task %u goes out as attempt %u, after attempt %u", number,
                 record.life.attempts_all, task->attempt_seen);
    } else if (record.life.due_at_ms > sim->wall_max_ms) {
        /* Due is judged by the lease, and the clock may have been set back since. */
        sim_fail(sim, "I6: task %u goes out %lld ms early", number,
                 (long long)(record.life.due_at_ms - sim->wall_max_ms));
    }
    if (task->deadline_at_ms != 0 && sim->wall_ms >= task->deadline_at_ms) {
        sim_fail(sim, "I6: task %u goes out after its deadline", number);
    }
    if (task->in_flight) {
        sim_fail(sim, "I2: task %u is in flight twice", number);
    }
    if (task->sends >= SIM_ATTEMPTS_MAX) {
        sim_fail(sim, "I6: task %u goes out for the %u. time, the policy allows %d", number,
                 task->sends + 1, SIM_ATTEMPTS_MAX);
    }
    if (task->once && task->in_doubt) {
        sim_fail(sim, "I5: task %u is repeated although its last request is in doubt", number);
    }
    task->fence_seen = found ? record.life.fence : 0;
    task->attempt_seen = found ? record.life.attempts_all : 0;
    arena_free(arena);
}

static void check_end(struct sim *sim, uint32_t number, const struct record *record)
{
    struct sim_task *task = &sim->tasks[number];
    enum task_state state = record->life.state;

    if (task->ended && state != task->end_state) {
        sim_fail(sim, "I4: task %u was %s and is %s", number, task_state_text(task->end_state),
                 task_state_text(state));
    }
    if (state == TASK_SUCCEEDED && (task->successes == 0 || record->answer.status != 200)) {
        sim_fail(sim, "I4: task %u succeeded without the target's word", number);
    }
    task->ended = task_is_settled(state);
    task->end_state = state;
}

static void check_task(struct sim *sim, uint32_t number)
{
    struct sim_task *task = &sim->tasks[number];
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    struct record record;

    if (task->told == SIM_CREATED) {
        if (!sim_read(sim, task->id, arena, &record)) {
            sim_fail(sim, "I1: task %u was acknowledged and is gone", number);
        } else {
            check_end(sim, number, &record);
            if (record.life.attempts > SIM_ATTEMPTS_MAX) {
                sim_fail(sim, "I6: task %u has %u attempts", number, record.life.attempts);
            }
        }
    }
    arena_free(arena);
}

void sim_check_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->task_count && sim->failure[0] == '\0'; i++) {
        check_task(sim, i);
    }
}

/* I7: what was refused left no trace. Bodies are the numbers of the submissions. */
static int check_trace(void *user, const struct brief *brief)
{
    struct sim *sim = user;
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    struct record record;
    struct task_id id = {.row = brief->row, .tail = ID_ANY_TAIL};
    int64_t number = -1;

    if (!sim_read(sim, id, arena, &record) || !span_to_int(record.task.body, &number) ||
        number < 0 || number >= sim->task_count) {
        sim_fail(sim, "I7: a task that nobody asked for");
    } else if (sim->tasks[number].told == SIM_REFUSED) {
        sim_fail(sim, "I7: task %lld was refused and is there", (long long)number);
    } else if (!task_is_settled(record.life.state) && record.life.state != TASK_UNSETTLED) {
        sim_fail(sim, "task %lld is still %s when all is calm (due in %lld ms)", (long long)number,
                 task_state_text(record.life.state),
                 (long long)(record.life.due_at_ms - sim->wall_ms));
    }
    arena_free(arena);
    return 0;
}

void sim_check_calm(struct sim *sim)
{
    struct error err;

    sim_check_all(sim);
    (void)!store_scan(sim_store_inner(sim->store), check_trace, sim, &err); /* cannot fail */
}
