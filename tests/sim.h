/* SPDX-License-Identifier: MIT
 *
 * sim -- the real engine, the real committer and the real store in memory, in a world where time,
 * chance, the disk, the target and crashes are ours. Every step is drawn from a seed, so a failure
 * can be played again.
 *
 *   submit, ask --> engine --> committer --> sim_store (fails as a disk does) --> store in memory
 *                     |  ^
 *                     v  | outcomes: 2xx, refusals, errors, cuts, time-outs, late ones
 *                   target: a ledger of all it has seen
 *
 * A crash drops the engine and the committer with all they had in hand; what the store had committed
 * stays; a batch whose commit failed last may or may not turn up.
 */
#ifndef SIM_H
#define SIM_H

#include "engine/engine.h"
#include "store/committer.h"

#include <daruma/dice.h>

#define SIM_TASKS_MAX    200
#define SIM_FLIGHTS_MAX  64
#define SIM_ATTEMPTS_MAX 4 /* of the policy that the simulated queue has */

/* What the caller of a submission has been told. */
enum sim_told { SIM_UNTOLD = 0, SIM_CREATED, SIM_REFUSED, SIM_UNKNOWN, SIM_CALLER_LOST };

/* One request, as those outside know it. */
struct sim_task {
    enum sim_told told;
    uint32_t pending;  /* submissions of it that are not answered yet */
    struct task_id id; /* once created */
    bool once;         /* its target must not see it twice */
    bool keyed;
    int64_t deadline_at_ms;
    /* The target's own ledger. */
    uint32_t sends;
    uint32_t successes;
    bool in_flight;
    bool in_doubt; /* the last request may have had an effect and no answer was recorded */
    bool ended;    /* seen settled: never changes again (I4) */
    enum task_state end_state;
    uint64_t fence_seen;   /* of the latest attempt */
    uint32_t attempt_seen; /* its number */
    uint64_t zombie_fence; /* of an attempt whose process is dead, but perhaps only hangs */
};

/* One delivery under way. */
struct sim_flight {
    struct delivery *delivery; /* NULL: free */
    uint32_t number;
    int64_t back_at_ms; /* monotonic */
};

struct sim {
    struct clock clock; /* first */
    int64_t wall_ms, mono_ms;
    int64_t wall_max_ms; /* the latest that the wall clock has ever shown */
    struct daruma_dice dice;
    uint64_t seed;
    struct store *store; /* sim_store over a store in memory */
    struct committer *committer;
    struct engine *engine;
    struct queue_settings settings;
    struct sim_task tasks[SIM_TASKS_MAX];
    uint32_t task_count;
    struct sim_flight flights[SIM_FLIGHTS_MAX];
    struct handover_link *reads; /* asked for, not yet performed */
    bool is_crashing;            /* the process is dead: nothing it wants happens any more */
    bool is_calm;                /* no more faults: everything has to come to its end */
    uint64_t crashes, faults, steps;
    char failure[512]; /* empty: every invariant holds */
};

/* Runs one seed. True: it held. Otherwise sim->failure says what did not. */
bool sim_run(struct sim *sim, uint64_t seed, uint32_t steps);

/* sim_store.c: the disk. */
struct store *sim_store_new(struct store *inner, struct sim *sim);
/* What a restart finds: the committed state, or that and the batch in doubt. Closes the old one. */
struct store *sim_store_crash(struct store *store);
struct store *sim_store_inner(struct store *store);

/* sim_check.c: the invariants. */
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_check_sent(struct sim *sim, uint32_t number);
void sim_check_created(struct sim *sim, uint32_t number);
void sim_check_all(struct sim *sim);  /* after each step */
void sim_check_calm(struct sim *sim); /* at the end */
bool sim_read(struct sim *sim, struct task_id id, struct arena *arena, struct record *ret_record);

uint64_t sim_roll(struct sim *sim, uint64_t sides); /* 0 … sides-1 */

#endif
