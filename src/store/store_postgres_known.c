/* SPDX-License-Identifier: MIT
 *
 * store_postgres_known -- which node knows what was forgotten (store_postgres_forgotten.c), and which
 * queues were changed (store_postgres_follow.c). Each beat, and each word of a peer or of the engine, is
 * a look at the number in meta, at the version of the queues and at all nodes:
 *
 *   look --> published (store.forgotten) --> this node's row has the number --> peers see that
 *      '--> every node's row has both numbers that were there after the engine asked --> told
 *
 * In this order: from the moment that a peer can see it, nothing older is given from memory here. A
 * beat whose row is gone renews no lease, and one that renews it has looked after that; so who finds
 * no row of a node knows that its lease is over, and that the next one begins with a look. A new
 * connection may be to another server: what is held is as good as forgotten.
 *
 * The same look says whether callers wait at some node for what others settle (store_postgres_moved.c),
 * and the same row that they wait here.
 */
#include "store/store_postgres_internal.h"

uint64_t known_asked(const struct store_postgres *postgres)
{
    return __atomic_load_n(&postgres->asked, __ATOMIC_ACQUIRE);
}

static bool awaits(const struct store_postgres *postgres)
{
    return __atomic_load_n(&postgres->awaits, __ATOMIC_ACQUIRE) != 0;
}

bool known_is_wanted(struct store_postgres *postgres)
{
    return postgres->forgotten.asked != 0 || known_asked(postgres) > postgres->forgotten.told ||
           postgres->forgotten.awaits != awaits(postgres) ||
           postgres->queues.written != follow_known(postgres);
}

/* A node of an earlier version tells its callers that a key is forgotten without waiting for others:
 * while there is one, nothing is given from memory. */
static void publish(struct store_postgres *postgres, uint64_t version, bool is_off)
{
    bool is_new = postgres->forgotten.version != version ||
                  postgres->forgotten.connection != postgres->pulse.connections ||
                  postgres->forgotten.is_off != is_off;

    if (!is_new) {
        return;
    }
    if (postgres->forgotten.connection != postgres->pulse.connections) {
        postgres->forgotten.asked = 0; /* of another server's number: asked anew */
    }
    postgres->forgotten.version = version;
    postgres->forgotten.connection = postgres->pulse.connections;
    postgres->forgotten.is_off = is_off;
    postgres->forgotten.count++;
    __atomic_store_n(&postgres->base.forgotten, is_off ? 0 : postgres->forgotten.count,
                     __ATOMIC_RELEASE);
}

static int write_row(struct store_postgres *postgres, struct error *err)
{
    struct sheet own = {.is_plain = true};
    struct step step = {.statement = STATEMENT_KNOWN, .sheet = &own};
    bool is_new = postgres->forgotten.epoch != postgres->epoch;
    bool is_awaiting = awaits(postgres);
    bool is_first = is_awaiting && (is_new || !postgres->forgotten.awaits);
    uint64_t queues = follow_known(postgres);

    if (postgres->forgotten.written == postgres->forgotten.version && !is_new &&
        postgres->forgotten.awaits == is_awaiting && postgres->queues.written == queues) {
        return 0;
    }
    sheet_row(&own);
    sheet_int(&own, (int64_t)postgres->epoch);
    sheet_int(&own, (int64_t)postgres->forgotten.version);
    sheet_int(&own, (int64_t)queues);
    sheet_int(&own, is_awaiting);
    sheet_int(&own, is_first);
    int failed = link_run(&postgres->pulse, &step, 1, err);
    steps_clear(&step, 1);
    sheet_done(&own);
    if (failed == 0) {
        postgres->forgotten.written = postgres->forgotten.version;
        postgres->forgotten.epoch = postgres->epoch;
        postgres->forgotten.awaits = is_awaiting;
        postgres->queues.written = queues;
    }
    return failed;
}

/* Does some peer want to hear of what this node settles? */
static void note_awaited(struct store_postgres *postgres, const PGresult *peers)
{
    bool is_awaited = false;

    for (int i = 0; i < PQntuples(peers); i++) {
        struct cell cell = {peers, i};
        is_awaited |= (uint64_t)cell_int(cell, 0) != postgres->epoch && cell_int(cell, 3) != 0;
    }
    __atomic_store_n(&postgres->is_awaited, is_awaited, __ATOMIC_RELEASE);
}

static bool has_elder(const PGresult *peers)
{
    for (int i = 0; i < PQntuples(peers); i++) {
        if (cell_is_null((struct cell){peers, i}, 2)) {
            return true;
        }
    }
    return false;
}

/* NULL: a node of an earlier version, which says nothing of it. */
static bool lacks(struct cell cell, int column, uint64_t wanted)
{
    return !cell_is_null(cell, column) && (uint64_t)cell_int(cell, column) < wanted;
}

static bool all_know(const struct store_postgres *postgres, const PGresult *peers)
{
    for (int i = 0; i < PQntuples(peers); i++) {
        struct cell cell = {peers, i};
        bool is_own = (uint64_t)cell_int(cell, 0) == postgres->epoch;
        if (!is_own && (lacks(cell, 2, postgres->forgotten.wanted) ||
                        lacks(cell, 4, postgres->queues.wanted))) {
            return false;
        }
    }
    return true;
}

/* Peers are to look at once. Not in the commit that they have to know of: see store_postgres_moved.c. */
static int say_look(struct store_postgres *postgres, struct error *err)
{
    struct step step = {.statement = STATEMENT_LOOK};
    int failed = link_run(&postgres->pulse, &step, 1, err);

    steps_clear(&step, 1);
    return failed;
}

/* One question at a time: others that come meanwhile are the next one. */
static int tell(struct store_postgres *postgres, uint64_t asked, const PGresult *peers,
                struct error *err)
{
    bool is_new = postgres->forgotten.asked == 0 && asked > postgres->forgotten.told;

    if (is_new) {
        postgres->forgotten.asked = asked;
        postgres->forgotten.wanted = postgres->forgotten.version;
        postgres->queues.wanted = postgres->queues.seen;
    }
    if (postgres->forgotten.asked != 0 && all_know(postgres, peers)) {
        postgres->forgotten.told = postgres->forgotten.asked;
        postgres->forgotten.asked = 0;
        return 0;
    }
    return is_new ? say_look(postgres, err) : 0;
}

int known_note(struct store_postgres *postgres, const struct look *look, struct error *err)
{
    if (PQntuples(look->forgotten) == 0) {
        return fail(err, FAULT_CORRUPT, "postgres: meta has no number for what was forgotten");
    }
    publish(postgres, (uint64_t)cell_int((struct cell){look->forgotten, 0}, 0),
            has_elder(look->peers));
    postgres->queues.seen = (uint64_t)cell_int((struct cell){look->queues, 0}, 0);
    int failed = tell(postgres, look->asked, look->peers, err);
    note_awaited(postgres, look->peers);
    return failed != 0 ? failed : write_row(postgres, err);
}

int known_look(struct store_postgres *postgres, struct error *err)
{
    struct step steps[] = {{.statement = STATEMENT_FORGOTTEN},
                           {.statement = STATEMENT_QUEUES_VERSION},
                           {.statement = STATEMENT_PEERS}};
    struct look look = {.asked = known_asked(postgres)};
    int failed = link_run(&postgres->pulse, steps, 3, err);

    look.forgotten = steps[0].result;
    look.queues = steps[1].result;
    look.peers = steps[2].result;
    failed = failed != 0 ? failed : known_note(postgres, &look, err);
    steps_clear(steps, 3);
    return failed;
}
