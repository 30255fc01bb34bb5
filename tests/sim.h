/* SPDX-License-Identifier: MIT
 *
 * sim -- the real engine, the real committer and the real store in memory, in a world where time,
 * chance, the disk, the target and crashes are ours. Every step is drawn from a seed, so a failure
 * can be played again.
 *
 *   submit, ask --> engine --> committer --> sim_store (fails as a disk does) --> store in memory
 *   people, workers    |  ^
 *                      v  | outcomes: 2xx, refusals, errors, cuts, time-outs, late ones
 *                    target: a ledger of all it has seen
 *
 * A crash drops the engine and the committer with all they had in hand; what the store had committed
 * stays; a batch whose commit failed last may or may not turn up.
 */
#ifndef SIM_H
#define SIM_H

#include "engine/engine.h"
#include "store/committer.h"

#include <daruma/dice.h>

#define SIM_WRITERS      3
#define SIM_TASKS_MAX    200
#define SIM_FLIGHTS_MAX  64
#define SIM_LEASES_MAX   64
#define SIM_ATTEMPTS_MAX 4 /* of the policy that the simulated queues have */
#define SIM_DEADLINE_MS  20000
#define SIM_QUEUE        "simulated"
#define SIM_PULLED       "pulled"
#define SIM_TELL_URL     "http://tell.invalid/"
#define SIM_ASIDE        300000 /* exchanges of what is asked and not looked at further */
#define SIM_TAKES        400000 /* … of workers that want a lease */
#define SIM_WORDS        500000 /* … of what they say of lease number n */
#define SIM_CALLERS      UINT64_C(1000000000) /* … of callers of the gateway */

#define SIM_ROUTE_COUNT   3 /* hold, probe, retry */
#define SIM_KEYS_MAX      12
#define SIM_CALLERS_MAX   48
#define SIM_MISSES        2 /* that a probe wants */
#define SIM_TOMBSTONES_MS 8000
#define SIM_PROBED        ROUTE_QUEUE_PREFIX "probe"
#define SIM_UPSTREAM_URL  "http://upstream.invalid"

/* What the caller of a submission has been told. */
enum sim_told { SIM_UNTOLD = 0, SIM_CREATED, SIM_REFUSED, SIM_UNKNOWN, SIM_CALLER_LOST };

/* One request, as those outside know it. */
struct sim_task {
    enum sim_told told;
    uint32_t pending;  /* submissions of it that are not answered yet */
    struct task_id id; /* once created */
    bool once;         /* its target must not see it twice */
    bool keyed;
    bool pulled; /* by workers: it has no target */
    bool called; /* somebody wants to know how it ends */
    int64_t deadline_at_ms;
    /* What people and workers have asked for, whether they were answered or not. */
    bool redrive_asked, resolve_asked, done_said, not_done_said, ack_said;
    /* The target's own ledger. */
    uint32_t sends;
    uint32_t successes;
    bool in_flight;
    bool in_doubt; /* the last request may have had an effect and no answer was recorded */
    bool ended;    /* seen settled: never changes again (I4) */
    enum task_state end_state;
    uint32_t end_round;
    uint32_t round_seen;   /* of the latest request: sends are counted by rounds */
    uint64_t fence_seen;   /* of the latest attempt */
    uint32_t attempt_seen; /* its number */
    uint64_t zombie_fence; /* of an attempt whose process is dead, but perhaps only hangs */
};

/* What a worker holds, as it thinks. */
struct sim_lease {
    bool is_used;
    uint32_t number;
    struct task_id id;
    uint64_t fence, epoch;
    uint64_t serial; /* of all leases, from 1: slots are used again */
    bool is_settled; /* it was told that its word counted: no other word may count */
};

/* What comes of a request. */
struct sim_answer {
    int status;
    enum task_sent sent;
    int64_t hint_ms;
    bool leaves_doubt; /* an effect is possible, for all that the answer says */
};

enum sim_flight_kind {
    SIM_FLIGHT_TASK = 0,
    SIM_FLIGHT_CALLBACK,
    SIM_FLIGHT_ROUTE,
    SIM_FLIGHT_PROBE
};

/* One delivery under way. */
struct sim_flight {
    struct delivery *delivery; /* NULL: free */
    enum sim_flight_kind kind;
    uint32_t number;    /* of the task, or of the key; of a callback it means nothing */
    int64_t back_at_ms; /* monotonic */
    const struct sim_answer *answer; /* of the gateway: it is known from the start what it does */
    bool is_streaming, is_pulled, is_stopped;
    unsigned pieces_left;
};

/* A key of the gateway, as its callers and the upstream know it. */
struct sim_key {
    const struct route_settings *route;
    struct task_id id; /* of the latest task that went out; row 0: none has */
    bool is_used;
    bool has_people;   /* who settle and forget it */
    unsigned variants; /* bits: the requests that it was used for */
    bool forget_asked, not_done_said;
    uint32_t attempt_seen;
    int64_t streamed; /* the row of which the head of a stream was told */
    /* The upstream's own ledger. */
    uint32_t effects;
    uint32_t misses; /* probes that found nothing since the latest request */
    bool in_flight, in_doubt;
    struct {
        int64_t row, until_ms;
        uint64_t digest;
        int status;
        enum task_state state;
    } kept; /* the answer that is on disk; row 0: none yet */
};

/* Somebody who waits for an answer of the gateway. */
struct sim_caller {
    bool is_there;
    bool has_left; /* whether he is still answered is nobody's business */
    bool is_poll;
    bool is_async;   /* he asked for a 202 */
    bool wants_more; /* of a stream */
    uint64_t exchange;
    uint32_t number;
    unsigned variant;
};

struct sim {
    struct clock clock; /* first */
    int64_t wall_ms, mono_ms;
    int64_t wall_max_ms; /* the latest that the wall clock has ever shown */
    struct daruma_dice dice;
    uint64_t seed;
    struct store *store; /* sim_store over the store of sim_place */
    struct committer *committer;
    struct engine *engine;
    struct queue_settings settings[3]; /* pushed, pulled, callbacks */
    uint32_t attempts_max;             /* over all queues; 0: any */
    bool has_outages;                  /* the pushed queue notices them */
    bool has_stepped_back;             /* the wall clock */
    bool has_bulk;                     /* any letter may be redriven at any time */
    int64_t redrive;                   /* the latest of many letters; 0: none */
    struct sim_lease leases[SIM_LEASES_MAX];
    uint64_t lease_last;
    struct sim_task tasks[SIM_TASKS_MAX];
    uint32_t task_count;
    struct sim_flight flights[SIM_FLIGHTS_MAX];
    struct route_settings routes[SIM_ROUTE_COUNT];
    struct sim_key keys[SIM_KEYS_MAX];
    uint32_t key_count;
    struct sim_caller callers[SIM_CALLERS_MAX];
    uint64_t caller_last, answer_last;
    struct handover_link *reads; /* asked for, not yet performed */
    bool is_crashing;            /* the process is dead: nothing it wants happens any more */
    bool is_calm;                /* no more faults: everything has to come to its end */
    uint64_t crashes, faults, steps;
    uint64_t wishes;                   /* of the engine, granted or not */
    uint64_t attempts;                 /* of these, requests of attempts */
    uint64_t commits, commits_checked; /* what is committed changes by these, and by crashes */
    struct {
        uint64_t sent, leased, expired_leases, redriven, resolved, callbacks, outages;
        uint64_t routed, replayed, probes, released, streams, conflicts, expired_keys;
    } seen;            /* by all processes: what the simulation has been about */
    char failure[512]; /* empty: every invariant holds */
};

/* Runs one seed. True: it held. Otherwise sim->failure says what did not. */
bool sim_run(struct sim *sim, uint64_t seed, uint32_t steps);

/* Where it runs: in memory, or on a real store that `prepare` makes anew for each seed. There a
 * commit is refused or done, and a crash is a process that opens the store again: what becomes of a
 * commit without an answer is the store's own business, and tested with it. */
struct sim_place {
    const char *spec;
    void (*prepare)(void); /* NULL: nothing is needed */
    unsigned check_every;  /* commits between two looks at all tasks */
};
extern struct sim_place sim_place;

/* sim_store.c: the disk. */
struct store *sim_store_open(struct sim *sim); /* NULL: sim->failure says why */
/* What a restart finds: the committed state, or that and the batch in doubt. Closes the old one. */
struct store *sim_store_crash(struct store *store);
struct store *sim_store_inner(struct store *store);

/* A process can die between any two things it does. */
bool sim_is_dead(struct sim *sim);

/* sim_target.c */
void sim_target_set_up(struct sim *sim); /* targets of the queue, and how much they may get */
struct span sim_target_of(const struct sim *sim, uint32_t number); /* its own; empty: the queue's */
int sim_send(void *user, struct delivery *delivery, struct error *err);
void sim_deliver(struct sim *sim); /* what is due to come back by now */

/* sim_people.c: operators and workers. */
void sim_operate(struct sim *sim);
void sim_work(struct sim *sim);
void sim_leased(struct sim *sim, const struct reply *reply);
void sim_worded(struct sim *sim, uint64_t lease, const struct reply *reply);

/* sim_gateway.c: callers with keys. */
void sim_gateway_set_up(struct sim *sim, const struct daruma_policy *policy);
void sim_gateway_call(struct sim *sim);
void sim_gateway_read_on(struct sim *sim);
bool sim_gateway_is_quiet(const struct sim *sim); /* nobody waits for an answer */
void sim_gateway_told(struct sim *sim, const struct reply *reply);
void sim_gateway_crash(struct sim *sim);

/* sim_upstream.c: what is behind the gateway, and what holds for keys. */
void sim_upstream_send(struct sim *sim, struct sim_flight *flight, struct delivery *delivery);
void sim_upstream_back(struct sim *sim, struct sim_flight *flight);
void sim_upstream_pull(void *user, struct delivery *delivery);
void sim_upstream_stop(void *user, struct delivery *delivery);
uint64_t sim_digest(const struct answer *answer); /* of headers and body */
void sim_check_keys(struct sim *sim);
void sim_check_keys_calm(struct sim *sim);

/* sim_check.c: the invariants. */
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_check_sent(struct sim *sim, uint32_t number);
void sim_check_created(struct sim *sim, uint32_t number);
void sim_check_leased(struct sim *sim, uint32_t number, const struct record *told);
void sim_check_all(struct sim *sim);  /* after each step */
void sim_check_ends(struct sim *sim); /* callbacks and acts, now and then */
void sim_check_calm(struct sim *sim); /* at the end */
void sim_check_redrive(struct sim *sim, const struct redrive_view *view); /* as it was told */
bool sim_read(struct sim *sim, struct task_id id, struct arena *arena, struct record *ret_record);

uint64_t sim_roll(struct sim *sim, uint64_t sides); /* 0 … sides-1 */

#endif
