/* SPDX-License-Identifier: MIT
 *
 * store_postgres_look -- what else a beat tells: what waits in which queue, what a dead node left
 * running, whose lease is over; and the upkeep that one node does for all: partitions for the days to
 * come, those of days that nobody needs any more.
 */
#include "store/store_postgres_internal.h"

#define REMAINS_AT_ONCE 1000
#define FOLD_BATCHES    500

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
    failed = failed != 0 ? failed
                         : read_rows(steps[0].result, arena, &ret_beat->orphans,
                                     &ret_beat->orphan_count, err);
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

static int run_one(struct store_postgres *postgres, enum statement statement, struct error *err)
{
    struct sheet most = {.is_plain = true};
    struct step step = {.statement = statement, .sheet = &most};

    sheet_row(&most);
    sheet_int(&most, REMAINS_AT_ONCE);
    int failed = link_run(&postgres->pulse, &step, 1, err);
    steps_clear(&step, 1);
    sheet_done(&most);
    /* Somebody is in the way, or it takes too long: a node does not die of it. */
    return link_is_up(&postgres->pulse) ? 0 : failed;
}

int postgres_upkeep(struct store_postgres *postgres, struct error *err)
{
    static const enum statement duties[] = {STATEMENT_PARTITIONS_MAKE, STATEMENT_PARTITIONS_DROP,
                                            STATEMENT_REMAINS_DROP, STATEMENT_BATCH_OLD};
    int failed = 0;

    for (size_t i = 0; postgres->has_duty && failed == 0 && i < sizeof duties / sizeof *duties;
         i++) {
        failed = run_one(postgres, duties[i], err);
    }
    return failed;
}

/* --- counts ------------------------------------------------------------------------------------------ */

int postgres_counts(struct store *store, store_count_fn visit, void *user, struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    struct step step = {.statement = STATEMENT_COUNTS};
    int stopped = link_read(&postgres->reader, &step, 1, err);

    for (int i = 0; stopped == 0 && i < PQntuples(step.result); i++) {
        struct cell cell = {step.result, i};
        stopped = visit(user, (uint32_t)cell_int(cell, 0), (enum task_state)cell_int(cell, 1),
                        (uint64_t)cell_int(cell, 2));
    }
    steps_clear(&step, 1);
    return stopped;
}
