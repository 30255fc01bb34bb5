/* SPDX-License-Identifier: MIT
 *
 * store_postgres_look -- what else a beat tells: what waits in which queue, what a dead node left
 * running, whose lease is over; and the upkeep that one node does for all: partitions for the days to
 * come, those of days that nobody needs any more.
 */
#include "store/store_postgres_internal.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define MEASURE_MS           60000
#define UPKEEP_MS            60000
#define UPKEEP_WAITS_MAX     15 /* times that long, when it fails */
#define UPKEEP_FAILURES_TOLD 3  /* in a row; then again after so many */
#define UPKEEP_LEASE_SHARE   4  /* of the lease, the longest statement */
#define SET_MAX              64
#define REMAINS_AT_ONCE      1000
#define FOLD_BATCHES         500

/* --- what waits ------------------------------------------------------------------------------------ */

static uint32_t flags_of(int64_t lane)
{
    static const uint32_t flags[] = {[LANE_FORCED] = LIFE_FORCED,
                                     [LANE_DUE] = 0,
                                     [LANE_LOW] = LIFE_LOW,
                                     [LANE_PULL] = LIFE_PULL,
                                     [LANE_PULL_FORCED] = LIFE_PULL | LIFE_FORCED};

    return flags[lane];
}

static int read_hints(const PGresult *result, struct arena *arena, struct beat *ret_beat,
                      struct error *err)
{
    size_t count = (size_t)PQntuples(result);

    ret_beat->hints = arena_alloc(arena, (count + 1) * sizeof *ret_beat->hints);
    if (ret_beat->hints == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for what is due");
    }
    for (size_t i = 0; i < count; i++) {
        struct cell cell = {result, (int)i};
        ret_beat->hints[i] = (struct beat_hint){
            .queue = (uint32_t)cell_int(cell, 0),
            .flags = flags_of(cell_int(cell, 1)),
            .due_count = (uint32_t)cell_int(cell, 2),
            .next_ms = cell_is_null(cell, 3) ? INT64_MAX : cell_int(cell, 3),
        };
    }
    ret_beat->hint_count = count;
    return 0;
}

int postgres_look_hints(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
                        struct error *err)
{
    struct sheet most = {.is_plain = true};
    struct step step = {.statement = STATEMENT_HINTS, .sheet = &most};

    sheet_row(&most);
    sheet_int(&most, STORE_BEAT_DUE_MAX);
    int failed = link_run(&postgres->pulse, &step, 1, err);
    failed = failed != 0 ? failed : read_hints(step.result, arena, ret_beat, err);
    steps_clear(&step, 1);
    sheet_done(&most);
    return failed;
}

/* --- what nobody holds any more ---------------------------------------------------------------------- */

static int read_rows(const PGresult *result, struct arena *arena, int64_t **ret_rows,
                     size_t *ret_count, struct error *err)
{
    size_t count = (size_t)PQntuples(result);

    *ret_rows = arena_alloc(arena, (count + 1) * sizeof **ret_rows);
    if (*ret_rows == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for what is to be recovered");
    }
    for (size_t i = 0; i < count; i++) {
        (*ret_rows)[i] = cell_int((struct cell){result, (int)i}, 0);
    }
    *ret_count = count;
    return 0;
}

static int read_orphans(const PGresult *result, struct arena *arena, struct beat *ret_beat,
                        struct error *err)
{
    size_t count = (size_t)PQntuples(result);

    ret_beat->orphans = arena_alloc(arena, (count + 1) * sizeof *ret_beat->orphans);
    if (ret_beat->orphans == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for what is to be recovered");
    }
    for (size_t i = 0; i < count; i++) {
        struct cell cell = {result, (int)i};
        ret_beat->orphans[i] =
            (struct orphan){.row = cell_int(cell, 0), .epoch = (uint64_t)cell_int(cell, 1)};
    }
    ret_beat->orphan_count = count;
    return 0;
}

static void ask_overdue(struct sheet *sheet, int lane)
{
    sheet_row(sheet);
    sheet_int(sheet, STORE_BEAT_ROWS_MAX);
    sheet_int(sheet, lane);
}

int postgres_look_orphans(struct store_postgres *postgres, struct arena *arena,
                          struct beat *ret_beat, struct error *err)
{
    struct sheet most = {.is_plain = true}, leased = most, probed = most;
    struct step steps[] = {{.statement = STATEMENT_ORPHANS, .sheet = &most},
                           {.statement = STATEMENT_OVERDUE, .sheet = &leased},
                           {.statement = STATEMENT_OVERDUE, .sheet = &probed}};

    sheet_row(&most);
    sheet_int(&most, STORE_BEAT_ROWS_MAX);
    ask_overdue(&leased, LANE_LEASED);
    ask_overdue(&probed, LANE_PROBED);
    int failed = link_run(&postgres->pulse, steps, 3, err);
    failed = failed != 0 ? failed : read_orphans(steps[0].result, arena, ret_beat, err);
    failed = failed != 0 ? failed
                         : read_rows(steps[1].result, arena, &ret_beat->overdue,
                                     &ret_beat->overdue_count, err);
    failed = failed != 0 ? failed
                         : read_rows(steps[2].result, arena, &ret_beat->unprobed,
                                     &ret_beat->unprobed_count, err);
    steps_clear(steps, 3);
    sheet_done(&most);
    sheet_done(&leased);
    sheet_done(&probed);
    return failed;
}

/* --- upkeep ------------------------------------------------------------------------------------------ */

static int fold(struct store_postgres *postgres, struct writer *writer, struct error *err)
{
    int64_t number = __atomic_load_n(&writer->answered_number, __ATOMIC_ACQUIRE);
    struct sheet own = {.is_plain = true};
    struct step step = {.statement = STATEMENT_BATCH_FOLD, .sheet = &own};

    if (number - writer->folded_number < FOLD_BATCHES) {
        return 0;
    }
    sheet_row(&own);
    sheet_int(&own, (int64_t)postgres->epoch);
    sheet_int(&own, number);
    sheet_int(&own, writer->first_number);
    int failed = link_run(&postgres->pulse, &step, 1, err);
    writer->folded_number = failed == 0 ? number : writer->folded_number;
    steps_clear(&step, 1);
    sheet_done(&own);
    return link_is_up(&postgres->pulse) ? 0 : failed; /* the next beat tries again */
}

/* The marks of a writer's batches become one: what this node still holds through it. */
int postgres_fold(struct store_postgres *postgres, struct error *err)
{
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < STORE_WRITERS_MAX; i++) {
        failed = fold(postgres, &postgres->writers[i], err);
    }
    return failed;
}

static const enum statement duties[] = {STATEMENT_PARTITIONS_MAKE, STATEMENT_PARTITIONS_DROP,
                                        STATEMENT_REMAINS_DROP, STATEMENT_BATCH_OLD};

#define DUTY_COUNT (sizeof duties / sizeof *duties)

/* True: there is more, for the next beat. */
static bool note_remains(struct store_postgres *postgres, const PGresult *result)
{
    struct cell cell = {result, 0};

    postgres->upkeep.remains_row = cell_int(cell, 0);
    return cell_int(cell, 1) != 0;
}

static int run_duty(struct store_postgres *postgres, enum statement statement, bool *ret_has_more,
                    struct error *err)
{
    struct sheet page = {.is_plain = true};
    struct step step = {.statement = statement, .sheet = &page};

    sheet_row(&page);
    sheet_int(&page, postgres->upkeep.remains_row);
    sheet_int(&page, REMAINS_AT_ONCE);
    int failed = link_run(&postgres->pulse, &step, 1, err);
    *ret_has_more =
        failed == 0 && statement == STATEMENT_REMAINS_DROP && note_remains(postgres, step.result);
    steps_clear(&step, 1);
    sheet_done(&page);
    return failed;
}

static int set_time(struct link *link, int64_t most_ms, struct error *err)
{
    char sql[SET_MAX];

    (void)snprintf(sql, sizeof sql, "SET statement_timeout = %" PRId64, most_ms); /* fits */
    return link_exec(link, sql, err);
}

/* A statement that takes too long must not cost this node its lease. */
static int run_in_time(struct store_postgres *postgres, enum statement statement,
                       bool *ret_has_more, struct error *err)
{
    int64_t share_ms = postgres->base.node_lease_ms / UPKEEP_LEASE_SHARE;
    int failed = set_time(&postgres->pulse, share_ms < PULSE_MS ? share_ms : PULSE_MS, err);

    *ret_has_more = false;
    failed = failed != 0 ? failed : run_duty(postgres, statement, ret_has_more, err);
    int reset = link_is_up(&postgres->pulse) ? set_time(&postgres->pulse, PULSE_MS, NULL) : 0;
    return failed != 0 ? failed : reset;
}

/* The round is over. A session that is in the way for a moment is no news; one that stays there is. */
static int end_round(struct store_postgres *postgres, int64_t now_ms, struct arena *arena,
                     struct beat *ret_beat, struct error *err)
{
    struct upkeep *upkeep = &postgres->upkeep;
    struct span trouble = span_of(upkeep->trouble.text);

    upkeep->failures = upkeep->has_failed ? upkeep->failures + 1 : 0;
    upkeep->next_ms = now_ms + UPKEEP_MS;
    if (upkeep->failures > 1) { /* it makes others wait each time: less and less often */
        uint32_t times = upkeep->failures < UPKEEP_WAITS_MAX ? upkeep->failures : UPKEEP_WAITS_MAX;
        upkeep->next_ms = now_ms + UPKEEP_MS * times;
    }
    upkeep->duty = 0;
    upkeep->has_failed = false;
    if (upkeep->failures == 0 || upkeep->failures % UPKEEP_FAILURES_TOLD != 0) {
        return 0;
    }
    ret_beat->upkeep_trouble = arena_copy(arena, trouble);
    return ret_beat->upkeep_trouble.at != NULL
               ? 0
               : fail(err, FAULT_MEMORY, "no memory for what stands in the way");
}

/* One duty a beat. What fails does not keep the others from being done. */
int postgres_upkeep(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
                    struct error *err)
{
    struct upkeep *upkeep = &postgres->upkeep;
    int64_t now_ms = clock_mono_ms(&clock_real);
    struct error trouble = {0};
    bool has_more;

    if (!postgres->has_duty || now_ms < upkeep->next_ms) {
        return 0;
    }
    int failed = run_in_time(postgres, duties[upkeep->duty], &has_more, &trouble);
    if (!link_is_up(&postgres->pulse)) {
        return fail(err, FAULT_IO, "%s", trouble.text);
    }
    if (failed != 0 && !upkeep->has_failed) {
        upkeep->trouble = trouble;
        upkeep->has_failed = true;
    }
    upkeep->duty += !has_more;
    return upkeep->duty < DUTY_COUNT ? 0 : end_round(postgres, now_ms, arena, ret_beat, err);
}

/* --- counts and size ------------------------------------------------------------------------------------------ */

/* A look at each file of each table: seldom, and where no other read waits. What cannot be told now, because a
 * partition is being made or dropped, is told later. */
static void measure(struct store_postgres *postgres)
{
    struct step step = {.statement = STATEMENT_SIZE};
    int64_t now_ms = clock_mono_ms(&clock_real);

    if (postgres->measured_at_ms != 0 && now_ms - postgres->measured_at_ms < MEASURE_MS) {
        return;
    }
    postgres->measured_at_ms = now_ms;
    if (link_read(&postgres->counter, &step, 1, NULL) == 0) {
        int64_t bytes = cell_int((struct cell){step.result, 0}, 0);
        __atomic_store_n(&postgres->base.bytes, bytes, __ATOMIC_RELAXED);
    }
    steps_clear(&step, 1);
}

int postgres_counts(struct store *store, store_count_fn visit, void *user, struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    struct step step = {.statement = STATEMENT_COUNTS};
    int stopped = link_read(&postgres->counter, &step, 1, err);

    for (int i = 0; stopped == 0 && i < PQntuples(step.result); i++) {
        struct cell cell = {step.result, i};
        const struct state_count count = {.queue = (uint32_t)cell_int(cell, 0),
                                          .state = (enum task_state)cell_int(cell, 1),
                                          .count = (uint64_t)cell_int(cell, 2),
                                          .oldest_ms = cell_int(cell, 3),
                                          .due_count = (uint64_t)cell_int(cell, 4)};
        stopped = visit(user, &count);
    }
    steps_clear(&step, 1);
    if (stopped == 0) {
        measure(postgres);
    }
    return stopped;
}

int postgres_fates(struct store *store, const struct fate_question *question, store_fate_fn visit,
                   void *user, struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    struct sheet rows = {0};
    struct step step = {.statement = STATEMENT_FATES, .sheet = &rows};

    for (size_t i = 0; i < question->count; i++) {
        sheet_row(&rows);
        sheet_int(&rows, question->rows[i]);
    }
    int stopped = question->count == 0 ? 0 : link_read(&postgres->reader, &step, 1, err);
    int found = stopped == 0 && question->count > 0 ? PQntuples(step.result) : 0;
    for (int i = 0; stopped == 0 && i < found; i++) {
        struct cell cell = {step.result, i};
        const struct fate fate = {.is_found = true,
                                  .state = (enum task_state)cell_int(cell, 1),
                                  .attempts = (uint32_t)cell_int(cell, 2),
                                  .round = (uint32_t)cell_int(cell, 3)};
        stopped = visit(user, (size_t)cell_int(cell, 0) - 1, &fate);
    }
    steps_clear(&step, 1);
    sheet_done(&rows);
    return stopped;
}
