/* SPDX-License-Identifier: MIT
 *
 * store_postgres_beat -- this node among its peers. A row of `node` for each, with a counter that it
 * raises every second; nothing else is written for a lease, however many tasks it covers.
 *
 *   join ---> beat, beat, beat … ---> leave          (a clean end: its row is gone at once)
 *              |            '-- its own row is gone: peers took it for dead; it joins anew
 *              '-- a peer's counter stands still for the lease time --> that row is removed, under the
 *                  lock that the peer's own batches hold: none of them leases anything afterwards
 * Who joins removes at once what processes of the same machine have left that are provably gone.
 *
 * What a removed node was running is found through its batches and told to the node that has the duty
 * (an advisory lock of the session: it moves when that session ends, however it ends).
 */
#include "store/store_postgres_internal.h"
#include "store/store_postgres_schema.h"

#include "base/clock.h"
#include "base/process.h"

#include <daruma/version.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOST_MAX      64
#define NODE_MAX      (HOST_MAX + 32)
#define KNOWN_WAIT_MS 200 /* for the word of peers, in one beat */

/* --- joining and leaving ------------------------------------------------------------------------- */

static int put_node(struct link *link, struct step steps[4], struct error *err)
{
    struct sheet lock = {.is_plain = true}, node = {.is_plain = true};
    char host[HOST_MAX] = "?", name[NODE_MAX], process[PROCESS_NAME_MAX + 1];

    (void)gethostname(host, sizeof host - 1); /* a name for people: "?" will do */
    (void)snprintf(name, sizeof name, "%s:%ld", host, (long)getpid()); /* fits */
    (void)process_name(process); /* empty: peers wait for its lease; `serve` says so */
    sheet_row(&lock);
    sheet_int(&lock, LOCK_NODES);
    sheet_row(&node);
    sheet_bytes(&node, span_of(name));
    sheet_bytes(&node, span_of(process));
    sheet_int(&node, postgres_step_count);
    sheet_bytes(&node, span_of(daruma_version()));
    steps[1].sheet = &lock;
    steps[2].sheet = &node;
    int failed = link_run(link, steps, 4, err);
    sheet_done(&lock);
    sheet_done(&node);
    return failed;
}

static int drop_node(struct link *link, uint64_t epoch, int64_t beat, bool *ret_dropped,
                     struct error *err)
{
    struct sheet lock = {.is_plain = true}, node = {.is_plain = true};
    struct step steps[] = {{.statement = STATEMENT_BEGIN},
                           {.statement = STATEMENT_LOCK, .sheet = &lock},
                           {.statement = STATEMENT_NODE_DROP, .sheet = &node},
                           {.statement = STATEMENT_COMMIT}};

    sheet_row(&lock);
    sheet_int(&lock, LOCK_EPOCH + (int64_t)epoch);
    sheet_row(&node);
    sheet_int(&node, (int64_t)epoch);
    sheet_int(&node, beat);
    sheet_int(&node, LOCK_DUTY); /* one that hangs keeps its connection, and the duty with it */
    int failed = link_run(link, steps, 4, err);
    *ret_dropped = failed == 0 && PQntuples(steps[2].result) > 0;
    steps_clear(steps, 4);
    sheet_done(&lock);
    sheet_done(&node);
    return failed;
}

/* Who was killed on this machine and is started again need not wait until everybody believes that it
 * is dead: the kernel knows. Where it cannot be done now, the lease ends all the same. */
static void bury_predecessors(struct link *link)
{
    struct step step = {.statement = STATEMENT_PROCESSES};
    char name[PROCESS_NAME_MAX + 1];
    bool is_dropped;

    if (link_run(link, &step, 1, NULL) != 0) {
        return;
    }
    for (int i = 0; i < PQntuples(step.result) && link_is_up(link); i++) {
        struct span process = cell_span((struct cell){step.result, i}, 1);
        if (process.len > PROCESS_NAME_MAX) {
            continue;
        }
        span_copy(name, process);
        name[process.len] = '\0';
        if (process_is_gone(name)) {
            (void)drop_node(link, (uint64_t)cell_int((struct cell){step.result, i}, 0), -1,
                            &is_dropped, NULL);
        }
    }
    steps_clear(&step, 1);
}

int postgres_join(struct store_postgres *postgres, struct link *link, struct error *err)
{
    struct step steps[] = {{.statement = STATEMENT_BEGIN},
                           {.statement = STATEMENT_LOCK},
                           {.statement = STATEMENT_NODE_PUT},
                           {.statement = STATEMENT_COMMIT}};
    bury_predecessors(link);
    int failed = put_node(link, steps, err);

    if (failed == 0) {
        struct cell cell = {steps[2].result, 0};
        uint64_t epoch = (uint64_t)cell_int(cell, 0);
        __atomic_store_n(&postgres->slot, cell_int(cell, 1), __ATOMIC_RELEASE);
        __atomic_store_n(&postgres->epoch, epoch, __ATOMIC_RELEASE);
        postgres->watched = (struct peers){0}; /* peers have not seen this name yet */
        if (postgres->epoch_first == 0) {
            postgres->epoch_first = postgres->base.epoch = epoch;
            postgres->base.slot = postgres->slot;
        }
    }
    steps_clear(steps, 4);
    return failed == FAULT_INPUT ? fail(err, FAULT_LIMIT, "at most 63 nodes can share a database")
                                 : failed;
}

void postgres_leave(struct store_postgres *postgres)
{
    bool is_dropped;

    if (postgres->epoch != 0 && link_is_up(&postgres->pulse)) {
        /* Nobody is there to be told: peers find out. */
        (void)drop_node(&postgres->pulse, postgres->epoch, -1, &is_dropped, NULL);
    }
}

/* --- listening ----------------------------------------------------------------------------------- */

/* A new connection listens anew, and has no duty yet. */
static int open_pulse(struct store_postgres *postgres, struct error *err)
{
    struct link *link = &postgres->pulse;
    int failed = link_open(link, err);

    if (failed != 0 || link->connections == postgres->pulse_connection) {
        return failed;
    }
    postgres->has_duty = false;
    failed = words_listen(link, err);
    if (failed == 0) {
        postgres->pulse_connection = link->connections;
    }
    return failed;
}

/* --- beating ------------------------------------------------------------------------------------- */

static size_t read_peers(const PGresult *result, struct peer ret_seen[PEERS_MAX])
{
    size_t count = 0;

    for (int i = 0; i < PQntuples(result) && count < PEERS_MAX; i++) {
        struct cell cell = {result, i};
        ret_seen[count++] =
            (struct peer){.epoch = (uint64_t)cell_int(cell, 0), .beat = cell_int(cell, 1)};
    }
    return count;
}

static int note_peers(struct store_postgres *postgres, const PGresult *result, struct arena *arena,
                      struct beat *ret_beat, struct error *err)
{
    struct peer seen[PEERS_MAX];
    size_t count = read_peers(result, seen);
    int64_t lease_ms = postgres->base.node_lease_ms;

    ret_beat->live = arena_alloc(arena, PEERS_MAX * sizeof *ret_beat->live);
    if (ret_beat->live == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a look around");
    }
    for (size_t i = 0; i < count; i++) {
        ret_beat->live[ret_beat->live_count++] = seen[i].epoch;
    }

    peers_look(&postgres->watched, seen, count, ret_beat->begun_ms, lease_ms / 2);
    ret_beat->node_count = (uint32_t)count;
    ret_beat->place = 0;
    for (size_t i = 0; i < count; i++) {
        ret_beat->place += seen[i].epoch < postgres->epoch;
    }
    ret_beat->has_settled_in = peers_have_seen_us(&postgres->watched, postgres->epoch);
    __atomic_store_n(&postgres->peers, count > 0 ? (uint32_t)count - 1 : 0, __ATOMIC_RELAXED);
    return 0;
}

static int raise_beat(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
                      struct error *err)
{
    struct sheet own = {.is_plain = true}, duty = {.is_plain = true};
    struct step steps[] = {{.statement = STATEMENT_BEAT, .sheet = &own},
                           {.statement = STATEMENT_PEERS},
                           {.statement = STATEMENT_QUEUES_VERSION},
                           {.statement = STATEMENT_FORGOTTEN},
                           {.statement = STATEMENT_DUTY, .sheet = &duty}};
    size_t count = postgres->has_duty ? 4 : 5;
    struct look look = {.asked = known_asked(postgres)};

    sheet_row(&own);
    sheet_int(&own, (int64_t)postgres->epoch);
    sheet_row(&duty);
    sheet_int(&duty, LOCK_DUTY);
    ret_beat->begun_ms = clock_mono_ms(&clock_real);
    int failed = link_run(&postgres->pulse, steps, count, err);
    ret_beat->seen_ms = clock_mono_ms(&clock_real);
    bool is_there = failed == 0 && PQntuples(steps[0].result) > 0;
    if (is_there) {
        ret_beat->is_fresh = true;
        ret_beat->server_ms = cell_int((struct cell){steps[0].result, 0}, 0);
        postgres->has_duty =
            postgres->has_duty || cell_int((struct cell){steps[4].result, 0}, 0) != 0;
        failed = note_peers(postgres, steps[1].result, arena, ret_beat, err);
        look.peers = steps[1].result;
        look.queues = steps[2].result;
        look.forgotten = steps[3].result;
        failed = failed != 0 ? failed : known_note(postgres, &look, err);
    }
    steps_clear(steps, count);
    sheet_done(&own);
    sheet_done(&duty);
    /* Taken for dead: what it held is others' to recover. The next beat is in another name. */
    return failed != 0 || is_there ? failed : postgres_join(postgres, &postgres->pulse, err);
}

static void forget_peer(const struct store_postgres *postgres, uint64_t epoch,
                        struct beat *ret_beat)
{
    size_t count = 0;

    for (size_t i = 0; i < ret_beat->live_count; i++) {
        if (ret_beat->live[i] != epoch) {
            ret_beat->live[count++] = ret_beat->live[i];
        }
    }
    ret_beat->live_count = count;
    ret_beat->node_count--;
    ret_beat->place -= epoch < postgres->epoch;
}

static int bury_dead(struct store_postgres *postgres, struct beat *ret_beat, struct error *err)
{
    const struct peer *dead = peers_dead(&postgres->watched, postgres->epoch, ret_beat->begun_ms,
                                         postgres->base.node_lease_ms);
    bool is_dropped = false;

    if (dead == NULL) {
        return 0;
    }
    int failed = drop_node(&postgres->pulse, dead->epoch, dead->beat, &is_dropped, err);
    ret_beat->has_lost_peer = is_dropped;
    if (is_dropped) {
        forget_peer(postgres, dead->epoch, ret_beat);
    }
    return fault_is_passing(failed) ? 0 : failed; /* a batch of it is still ending: the next beat */
}

static int64_t beat_every_ms(const struct store_postgres *postgres)
{
    int64_t tenth_ms = postgres->base.node_lease_ms / 10;

    return tenth_ms < STORE_BEAT_MS ? tenth_ms : STORE_BEAT_MS;
}

static bool is_time(const struct store_postgres *postgres)
{
    return postgres->beaten_at_ms == 0 ||
           clock_mono_ms(&clock_real) - postgres->beaten_at_ms >= beat_every_ms(postgres);
}

/* What a beat does besides, once this node's counter is raised. */
static int look_fresh(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
                      struct error *err)
{
    int failed = bury_dead(postgres, ret_beat, err);

    if (failed == 0 && postgres->has_duty) {
        failed = postgres_look_orphans(postgres, arena, ret_beat, err);
    }
    failed = failed != 0 ? failed : postgres_fold(postgres, err);
    return failed != 0 ? failed : postgres_upkeep(postgres, arena, ret_beat, err);
}

/* Every second, or as soon as a peer or the engine has something to say. */
static int look(struct store_postgres *postgres, unsigned words, struct arena *arena,
                struct beat *ret_beat, struct error *err)
{
    int failed = 0;

    if (is_time(postgres)) {
        failed = raise_beat(postgres, arena, ret_beat, err);
        postgres->beaten_at_ms = failed == 0 && ret_beat->is_fresh ? ret_beat->begun_ms : 0;
    }
    if (failed == 0 && ret_beat->is_fresh) {
        failed = look_fresh(postgres, arena, ret_beat, err);
    }
    ret_beat->has_duty = postgres->has_duty;
    bool is_news = (words & WORD_READY) != 0 || ret_beat->is_fresh;
    return failed != 0 || !is_news ? failed : postgres_look_hints(postgres, arena, ret_beat, err);
}

/* Until there is something to do, or the time is over; what peers want to hear is said meanwhile. */
static int listen(struct store_postgres *postgres, int64_t wait_ms, unsigned *ret_words,
                  struct error *err)
{
    int64_t until_ms = clock_mono_ms(&clock_real) + wait_ms, left_ms = wait_ms;
    unsigned words = 0;
    int failed = 0;

    do {
        int64_t say_ms = moved_wait_ms(postgres);
        words |= words_hear(postgres, say_ms < left_ms ? say_ms : left_ms);
        failed = moved_say(postgres, err);
        left_ms = until_ms - clock_mono_ms(&clock_real);
    } while (failed == 0 && words == 0 && left_ms > 0 && !known_is_wanted(postgres));
    *ret_words = words;
    return failed;
}

/* What cannot wait for the next beat is looked at now. If a caller of this node waits for the word of
 * its peers, who were told a moment ago, it is looked at again and again. */
static int know(struct store_postgres *postgres, unsigned *words, struct error *err)
{
    int64_t until_ms = clock_mono_ms(&clock_real) + KNOWN_WAIT_MS, wait_ms = 1;
    bool is_wanted = (*words & WORD_LOOK) != 0 || known_is_wanted(postgres);
    int failed = 0;

    while (failed == 0 && is_wanted && !is_time(postgres)) {
        failed = known_look(postgres, err);
        is_wanted = known_is_wanted(postgres) && !follow_is_wanted(postgres) &&
                    clock_mono_ms(&clock_real) + wait_ms < until_ms;
        if (failed == 0 && is_wanted) {
            *words |= words_hear(postgres, wait_ms);
            failed = moved_say(postgres, err);
            wait_ms *= 2;
        }
    }
    return failed;
}

/* A beat that only brings a word is no reason for the engine to look at everything: but once in a
 * while each of them is, however many words there are. */
static bool is_word(struct store_postgres *postgres, unsigned words, int64_t wait_ms)
{
    int64_t now_ms = clock_mono_ms(&clock_real);

    if (words != 0 && now_ms - postgres->idle_at_ms < wait_ms) {
        return true;
    }
    postgres->idle_at_ms = now_ms;
    return false;
}

int postgres_beat(struct store *store, int64_t wait_ms, struct arena *arena, struct beat *ret_beat,
                  struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    struct beat beat = {0};
    int failed = open_pulse(postgres, err);

    if (failed == 0) {
        int64_t left_ms =
            postgres->beaten_at_ms + beat_every_ms(postgres) - clock_mono_ms(&clock_real);
        bool is_soon = is_time(postgres) || known_is_wanted(postgres);
        unsigned words = 0;
        failed = listen(postgres, is_soon ? 0 : left_ms < wait_ms ? left_ms : wait_ms, &words, err);
        failed = failed != 0 ? failed : know(postgres, &words, err);
        failed = failed != 0 ? failed : look(postgres, words, arena, &beat, err);
        failed = failed != 0 ? failed : follow_hand(postgres, arena, &beat, err);
        failed = failed != 0 ? failed : moved_tell(postgres, arena, &beat, err);
        beat.is_word = failed == 0 && !beat.is_fresh && is_word(postgres, words, wait_ms);
    }
    if (failed != 0) {
        postgres->beaten_at_ms = 0;
        return failed == FAULT_UNKNOWN ? FAULT_IO : failed;
    }
    beat.told = postgres->forgotten.told;
    beat.epoch = postgres->epoch;
    beat.slot = postgres->slot;
    *ret_beat = beat;
    return 0;
}
