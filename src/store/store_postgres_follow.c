/* SPDX-License-Identifier: MIT
 *
 * store_postgres_follow -- which changes of queues this node knows. Each look (store_postgres_known.c)
 * sees the version of all queues; one that is new is read at once, by the thread that beats, and goes to
 * the engine with the beat. The engine makes its queues so and says that it has, by the serial that the
 * beat has carried; only then this node's row has the version, and peers who wait for that go on.
 *
 *   look: another version --> read --> beat --> engine: followed --> wish --> this node's row --> peers
 *
 * One set is under way at a time. What an engine that was far behind has not got goes with the next
 * beat that renews the lease. So does what is new to a node that joins anew: it has no right to send
 * before it knows. A new connection may be to another server, with other versions: nothing is known
 * until the engine has followed what was read there.
 */
#include "store/store_postgres_internal.h"

static bool is_followed(const struct store_postgres *postgres)
{
    return __atomic_load_n(&postgres->followed, __ATOMIC_ACQUIRE) == postgres->queues.serial;
}

static bool is_other(const struct store_postgres *postgres)
{
    return postgres->queues.seen != postgres->queues.version ||
           postgres->queues.connection != postgres->pulse.connections;
}

bool follow_is_wanted(const struct store_postgres *postgres)
{
    return is_other(postgres) && is_followed(postgres);
}

uint64_t follow_known(struct store_postgres *postgres)
{
    if (postgres->queues.connection != postgres->pulse.connections) {
        postgres->queues.known = 0;
    } else if (is_followed(postgres)) {
        postgres->queues.known = postgres->queues.version;
    }
    return postgres->queues.known;
}

/* The version is that of the very rows which are handed over. */
static int keep(struct cell cell, struct arena *arena, struct beat *ret_beat, struct error *err)
{
    struct queue_row row = {.number = (uint32_t)cell_int(cell, 0),
                            .paused = cell_int(cell, 3) != 0,
                            .dropped = cell_int(cell, 4) != 0,
                            .version = (uint64_t)cell_int(cell, 5),
                            .let_in = cell_let_in(cell, 6)};
    int failed = cell_copy(cell, 1, arena, &row.name, err);

    failed = failed != 0 ? failed : cell_copy(cell, 2, arena, &row.settings, err);
    if (failed == 0) {
        ret_beat->queues[ret_beat->queue_count++] = row;
        ret_beat->queues_version += row.version + 1;
    }
    return failed;
}

static int read(const PGresult *rows, struct arena *arena, struct beat *ret_beat, struct error *err)
{
    int count = PQntuples(rows), failed = 0;

    ret_beat->queues = arena_alloc(arena, ((size_t)count + 1) * sizeof *ret_beat->queues);
    if (ret_beat->queues == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the queues");
    }
    for (int i = 0; i < count && failed == 0; i++) {
        failed = keep((struct cell){rows, i}, arena, ret_beat, err);
    }
    return failed;
}

static void hand_over(struct store_postgres *postgres, struct beat *ret_beat)
{
    if (postgres->queues.version != ret_beat->queues_version ||
        postgres->queues.connection != postgres->pulse.connections) {
        postgres->queues.serial++;
        postgres->queues.version = ret_beat->queues_version;
        postgres->queues.connection = postgres->pulse.connections;
    }
    ret_beat->queues_serial = postgres->queues.serial;
}

int follow_hand(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
                struct error *err)
{
    struct step step = {.statement = STATEMENT_QUEUES};
    bool is_lost = ret_beat->is_fresh && (is_other(postgres) || !is_followed(postgres));

    if (!follow_is_wanted(postgres) && !is_lost) {
        return 0;
    }
    int failed = link_run(&postgres->pulse, &step, 1, err);
    if (failed == 0 && read(step.result, arena, ret_beat, NULL) == 0) {
        hand_over(postgres, ret_beat);
    } else { /* for want of memory: with a later beat. This one counts all the same */
        ret_beat->queues_version = ret_beat->queue_count = 0;
    }
    steps_clear(&step, 1);
    return failed;
}
