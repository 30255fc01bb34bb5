/* SPDX-License-Identifier: MIT
 *
 * sim_check -- the invariants, as those outside can see them: what callers were told, what the
 * target has in its ledger, and what is committed.
 */
#include "sim.h"

#include "engine/ages.h"

#include <stdarg.h>
#include <inttypes.h>
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

/* A first round has the deadline that its caller gave; a later one that of its redrive. */
static bool is_over(const struct sim *sim, const struct sim_task *task, const struct life *life)
{
    int64_t deadline_ms = life->round == 0 ? task->deadline_at_ms : life->deadline_at_ms;

    return deadline_ms != 0 && sim->wall_ms >= deadline_ms;
}

/* What a worker is told it has: a committed lease that counts it (I5), in time (I6). It may be over
 * already: the store was slow, and the clock was set. Then the worker's words are stale. */
void sim_check_leased(struct sim *sim, uint32_t number, const struct record *told)
{
    struct sim_task *task = &sim->tasks[number];
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    struct record record;

    if (!sim_read(sim, told->task.id, arena, &record) || record.life.fence < told->life.fence) {
        sim_fail(sim, "I5: task %u is leased without a committed lease", number);
    } else if (told->life.attempts_all <= task->attempt_seen) {
        sim_fail(sim, "I5: task %u is leased as attempt %u, after attempt %u", number,
                 told->life.attempts_all, task->attempt_seen);
    } else if (is_over(sim, task, &told->life)) {
        sim_fail(sim, "I6: task %u is leased after its deadline", number);
    } else if (told->life.attempts > SIM_ATTEMPTS_MAX) {
        sim_fail(sim, "I6: task %u is leased for the %u. time", number, told->life.attempts);
    } else {
        task->attempt_seen = told->life.attempts_all;
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
    if (found && record.life.round != task->round_seen) { /* a new round, by a person's word */
        task->round_seen = record.life.round;
        task->sends = 0;
        task->in_doubt = false;
    }
    if (found && is_over(sim, task, &record.life)) {
        sim_fail(sim, "I6: task %u goes out after its deadline", number);
    }
    if (task->in_flight) {
        sim_fail(sim, "I2: task %u is in flight twice", number);
    }
    if (task->sends >= SIM_ATTEMPTS_MAX && !task->not_done_said && !sim->has_outages) {
        sim_fail(sim, "I6: task %u goes out for the %u. time, the policy allows %d", number,
                 task->sends + 1, SIM_ATTEMPTS_MAX);
    }
    if (task->once && task->in_doubt && !task->not_done_said) {
        sim_fail(sim, "I5: task %u is repeated although its last request is in doubt", number);
    }
    task->fence_seen = found ? record.life.fence : 0;
    task->attempt_seen = found ? record.life.attempts_all : 0;
    arena_free(arena);
}

/* I4: an end is final, but for a dead letter, which a person may send again or close. */
static bool may_change(const struct sim *sim, const struct sim_task *task, const struct life *life)
{
    if (task->end_state != TASK_DEAD) {
        return false;
    }
    if (life->round == task->end_round) {
        return life->state == TASK_FAILED && task->resolve_asked && life->resolved_at_ms != 0;
    }
    return life->round > task->end_round && (task->redrive_asked || sim->has_bulk);
}

/* Who said that it was done: the target, a worker or a person. */
static bool was_done(const struct sim_task *task, const struct record *record)
{
    return (task->pulled ? task->ack_said : task->successes > 0 && record->answer.status == 200) ||
           task->done_said;
}

static void check_end(struct sim *sim, uint32_t number, const struct record *record)
{
    struct sim_task *task = &sim->tasks[number];
    enum task_state state = record->life.state;

    if (task->ended && (state != task->end_state || record->life.round != task->end_round) &&
        !may_change(sim, task, &record->life)) {
        sim_fail(sim, "I4: task %u was %s and is %s", number, task_state_text(task->end_state),
                 task_state_text(state));
    }
    if (state == TASK_SUCCEEDED && !was_done(task, record)) {
        sim_fail(sim, "I4: task %u succeeded without anybody's word", number);
    }
    if (state == TASK_UNSETTLED && (task->pulled || !task->once)) {
        sim_fail(sim, "task %u is unsettled and may be repeated", number);
    }
    task->ended = task_is_settled(state);
    task->end_state = state;
    task->end_round = record->life.round;
}

static void check_task(struct sim *sim, uint32_t number, struct arena *arena)
{
    struct sim_task *task = &sim->tasks[number];
    struct record record;
    struct error err;
    bool found = false;

    if (task->told != SIM_CREATED) {
        return;
    }
    if (store_read_task(sim_store_inner(sim->store), task->id, 0, arena, &record, &found, &err) !=
            0 ||
        !found) {
        sim_fail(sim, "I1: task %u was acknowledged and is gone", number);
        return;
    }
    check_end(sim, number, &record);
    if (record.life.attempts > SIM_ATTEMPTS_MAX) {
        sim_fail(sim, "I6: task %u has %u attempts", number, record.life.attempts);
    }
}

void sim_check_all(struct sim *sim)
{
    if (sim->commits == sim->commits_checked && !sim->is_calm) {
        return;
    }
    uint64_t looks = sim->commits / sim_place.check_every;
    bool is_due = looks != sim->commits_checked / sim_place.check_every || sim->is_calm;
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    sim->commits_checked = sim->commits;
    for (uint32_t i = 0; is_due && i < sim->task_count && sim->failure[0] == '\0'; i++) {
        check_task(sim, i, arena);
    }
    arena_free(arena);
    sim_check_keys(sim);
}

/* --- callbacks --------------------------------------------------------------------------------------- */

#define ROUNDS_MAX 32

/* Which rounds of which task have been told, and which have ended. */
struct told_rounds {
    struct sim *sim;
    uint32_t told[SIM_TASKS_MAX], ended[SIM_TASKS_MAX]; /* bits */
};

/* "cb NUMBER ROUND STATE". */
static void note_callback(struct told_rounds *rounds, struct span body)
{
    struct span rest = span_from(body, 3), number_text, round_text;
    int64_t number = -1, round = -1;

    (void)span_cut(&rest, ' ', &number_text);
    (void)span_cut(&rest, ' ', &round_text);
    if (!span_to_int(number_text, &number) || number >= rounds->sim->task_count ||
        !span_to_int(round_text, &round) || round >= ROUNDS_MAX) {
        sim_fail(rounds->sim, "a callback about nothing: %.*s", SPAN_ARGS(body));
        return;
    }
    if ((rounds->told[number] >> round & 1) != 0) {
        sim_fail(rounds->sim, "round %d of task %d is told twice", (int)round, (int)number);
    }
    rounds->told[number] |= UINT32_C(1) << round;
}

static void note_ended(struct told_rounds *rounds, const struct record *record)
{
    const struct life *life = &record->life;
    bool is_over = task_is_settled(life->state) && life->state != TASK_CANCELLED;
    int64_t number = -1;

    if (span_to_int(record->task.body, &number) && number >= 0 &&
        number < rounds->sim->task_count && rounds->sim->tasks[number].called) {
        /* Every round before this one has ended, as a dead letter. */
        rounds->ended[number] =
            (UINT32_C(1) << life->round) - 1 + (is_over ? UINT32_C(1) << life->round : 0);
    }
}

static int note_task(void *user, const struct brief *brief)
{
    struct told_rounds *rounds = user;
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    struct task_id id = {.row = brief->row, .tail = ID_ANY_TAIL};
    struct record record;

    if (sim_read(rounds->sim, id, arena, &record)) {
        if (span_is(span_until(record.task.body, 3), "cb ")) {
            note_callback(rounds, record.task.body);
        } else {
            note_ended(rounds, &record);
        }
    }
    arena_free(arena);
    return 0;
}

/* I1, I8: a callback is recorded exactly when the end is that it tells of. */
static void check_callbacks(struct sim *sim)
{
    static struct told_rounds rounds; /* large */
    struct error err;

    memset(&rounds, 0, sizeof rounds);
    rounds.sim = sim;
    (void)!store_scan(sim_store_inner(sim->store), note_task, &rounds, &err); /* cannot fail */
    for (uint32_t i = 0; i < sim->task_count; i++) {
        if (rounds.told[i] != rounds.ended[i]) {
            sim_fail(sim, "task %u: rounds %x have ended, %x were told", i, rounds.ended[i],
                     rounds.told[i]);
        }
    }
}

/* --- acts -------------------------------------------------------------------------------------------- */

#define ACTS_MAX 1000

struct acts {
    struct sim *sim;
    size_t count;
    struct {
        int64_t task;
        char note[40];
    } redriven[ACTS_MAX];
};

struct told_redrive {
    char note[40];
    uint64_t acts;
};

/* No letter is taken twice by one redrive of many: its note is the number of the redrive. */
static int note_act(void *user, const struct audit_row *row)
{
    struct acts *acts = user;

    if (!span_is(row->act, "redrive") || row->note.len == 0 || acts->count == ACTS_MAX) {
        return 0;
    }
    for (size_t i = 0; i < acts->count; i++) {
        if (acts->redriven[i].task == row->task.row && span_is(row->note, acts->redriven[i].note)) {
            sim_fail(acts->sim, "%.*s took the letter of task %lld twice", SPAN_ARGS(row->note),
                     (long long)row->task.row);
        }
    }
    acts->redriven[acts->count].task = row->task.row;
    (void)snprintf(acts->redriven[acts->count++].note, sizeof acts->redriven->note, "%.*s",
                   SPAN_ARGS(row->note));
    return 0;
}

static void check_acts(struct sim *sim)
{
    static struct acts acts; /* large */
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    const struct audit_filter filter = {.limit = ACTS_MAX};
    struct error err;
    int64_t next;

    acts.sim = sim;
    acts.count = 0;
    (void)!store_audit(sim_store_inner(sim->store), &filter, arena, note_act, &acts, &next,
                       &err); /* cannot fail */
    arena_free(arena);
}

static int count_act(void *user, const struct audit_row *row)
{
    struct told_redrive *told = user;

    told->acts += span_is(row->act, "redrive") && span_is(row->note, told->note);
    return 0;
}

/* E6: of a redrive no more is told than it did, whatever came in between. */
void sim_check_redrive(struct sim *sim, const struct redrive_view *view)
{
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    const struct audit_filter filter = {.limit = ACTS_MAX};
    struct told_redrive told = {0};
    struct error err;
    int64_t next;

    (void)snprintf(told.note, sizeof told.note, "redrive %" PRIu64, view->id);
    (void)!store_audit(sim_store_inner(sim->store), &filter, arena, count_act, &told, &next,
                       &err); /* cannot fail */
    arena_free(arena);
    if (view->redriven > told.acts) {
        sim_fail(sim, "redrive %" PRIu64 " says that it sent %" PRIu64 ", and it was %" PRIu64,
                 view->id, view->redriven, told.acts);
    }
}

void sim_check_ends(struct sim *sim)
{
    check_callbacks(sim);
    if (!sim->has_stepped_back) { /* by the clock, what dies later died before */
        check_acts(sim);
    }
}

/* --- how old the oldest dead letter is ------------------------------------------------------------- */

struct oldest {
    uint32_t queue;
    int64_t failed_at_ms; /* 0: none */
};

static int note_letter(void *user, const struct brief *brief)
{
    struct oldest *oldest = user;

    if (brief->state == TASK_DEAD && brief->queue == oldest->queue &&
        (oldest->failed_at_ms == 0 || brief->failed_at_ms < oldest->failed_at_ms)) {
        oldest->failed_at_ms = brief->failed_at_ms;
    }
    return 0;
}

/* What is kept up to date is what a look at every task finds: one that came in the same slot, and no
 * later. A clock that was set back may have letters ahead of it, which are told to have no age. */
static bool is_right(const struct sim *sim, const struct oldest *oldest, int64_t told_ms)
{
    int64_t told_at_ms = sim->wall_ms - told_ms;

    if (oldest->failed_at_ms == 0 || told_ms == 0) {
        return told_ms == 0 && (oldest->failed_at_ms == 0 || oldest->failed_at_ms >= sim->wall_ms);
    }
    return told_at_ms <= oldest->failed_at_ms &&
           told_at_ms / AGES_SLOT_MS == oldest->failed_at_ms / AGES_SLOT_MS;
}

static void check_letters(struct sim *sim)
{
    struct queue_view view;
    struct error err;

    for (size_t i = 0; i < engine_queue_count(sim->engine); i++) {
        engine_queue_view(sim->engine, i, &view);
        struct oldest oldest = {.queue = view.number};
        (void)!store_scan(sim_store_inner(sim->store), note_letter, &oldest, &err); /* cannot */
        if (!is_right(sim, &oldest, view.oldest_letter_ms)) {
            sim_fail(sim, "the oldest dead letter is told to be %lld ms old, and is %lld",
                     (long long)view.oldest_letter_ms,
                     (long long)(sim->wall_ms - oldest.failed_at_ms));
        }
    }
}

/* --- at the end -------------------------------------------------------------------------------------- */

/* I7: what was refused left no trace. Bodies are the numbers of the submissions. */
static int check_trace(void *user, const struct brief *brief)
{
    struct sim *sim = user;
    struct arena *arena = arena_new(CHECK_ARENA_MAX);
    struct record record;
    struct task_id id = {.row = brief->row, .tail = ID_ANY_TAIL};
    int64_t number = -1;

    bool found = sim_read(sim, id, arena, &record);
    bool is_callback = found && (span_is(span_until(record.task.body, 3), "cb ") ||
                                 (record.life.flags & LIFE_ROUTE) != 0); /* see sim_upstream.c */
    if (!found || (!is_callback && (!span_to_int(record.task.body, &number) || number < 0 ||
                                    number >= sim->task_count))) {
        sim_fail(sim, "I7: a task that nobody asked for");
    } else if (!is_callback && sim->tasks[number].told == SIM_REFUSED) {
        sim_fail(sim, "I7: task %lld was refused and is there", (long long)number);
    } else if (!task_is_settled(record.life.state) && record.life.state != TASK_UNSETTLED &&
               record.life.state != TASK_GONE) {
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
    sim_check_ends(sim);
    sim_check_keys_calm(sim);
    check_letters(sim);
    (void)!store_scan(sim_store_inner(sim->store), check_trace, sim, &err); /* cannot fail */
}
