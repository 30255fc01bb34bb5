/* SPDX-License-Identifier: MIT
 *
 * fleet -- several real engines, each with its own committer, on one simulated store that knows
 * nodes: claims, epochs, beats, duty, commits whose answer is lost. Time, chance, the network and
 * the targets are drawn from a seed, so a failure can be played again.
 *
 *   callers, operators, workers
 *        |            |
 *     node 0       node 1 …      engine --> committer --> face: its own epoch, slot and connection
 *        |            |                                     |
 *     targets: a ledger of every request            server: one store in memory, the node table
 *
 * A stopped node gets no turns: its commits, reads, beats and answers wait, and what it had leased
 * may go out once it goes on, if its deliverer's gate lets it. A crashed node starts anew, on the
 * same machine or on another one. A commit whose answer is lost is there or is not; its node finds
 * out when it has a connection again, after one step or long after every patience is over.
 */
#ifndef FLEET_H
#define FLEET_H

#include "engine/engine.h"
#include "store/committer.h"
#include "store/peers.h"
#include "store/store_memory_internal.h"

#include <daruma/dice.h>

#define FLEET_NODES_MAX    3
#define FLEET_WRITERS      2
#define FLEET_TASKS_MAX    64
#define FLEET_SUBS_MAX     240 /* submissions: of one task several */
#define FLEET_ACTS_MAX     200 /* what operators ask for */
#define FLEET_FLIGHTS_MAX  96
#define FLEET_LEASES_MAX   24
#define FLEET_ROUTES       3 /* hold, probe, retry */
#define FLEET_KEYS         9
#define FLEET_HOT_KEYS     4
#define FLEET_CALLS_MAX    240 /* of the gateway */
#define FLEET_REDRIVES_MAX 12
#define FLEET_DOUBTS_MAX   64    /* as the PostgreSQL store keeps */
#define FLEET_ROWS_MAX     16    /* of the node table */
#define FLEET_MOVED_MAX    8     /* rows in a word of a peer */
#define FLEET_QUEUES_MAX   64    /* numbers of queues */
#define FLEET_BOUND_MS     10000 /* within which every task has an owner again */

#define FLEET_PUSHED "pushed" /* of the file: a task brings its target */
#define FLEET_PULLED "pulled" /* of the file: for workers */
#define FLEET_MADE   "made"   /* made, changed and deleted by operators */

#define FLEET_SUBS  UINT64_C(1000000) /* exchanges of submissions, … */
#define FLEET_ACTS  UINT64_C(2000000) /* of operators, … */
#define FLEET_TAKES UINT64_C(3000000) /* of workers who want a lease, … */
#define FLEET_WORDS UINT64_C(4000000) /* of what they say of it, … */
#define FLEET_CALLS UINT64_C(5000000) /* and of callers of the gateway */

/* What the code is put to. Each is switched off where the code is known not to hold it yet. */
struct fleet_options {
    bool late_doubts;    /* a lost commit is found after its caller was answered */
    bool renewed_leases; /* what was leased under a lost lease is the engine's own to hold back */
    bool queue_targets;  /* whether a task may be repeated is its queue's word, which changes */
    bool empty_deletes;  /* queues are deleted on condition that they are empty */
    bool leftovers;      /* a deletion that was cut off by a crash is finished by a peer */
    bool stale_orphans;  /* what a beat told of a dead node may be old when it is acted upon */
    bool early_changes;  /* queues are changed between a node's start and its first beat */
    bool dropped_reads;  /* what was read of the queues after a change is lost on its way */
    bool raced_changes;  /* queues are changed by nodes that do not know of each other's changes */
    bool failed_waits;   /* a caller's wait ends while its node has no connection */
    bool shared_slots;   /* a node that was taken for dead shares its ids' slot with the next one */
    bool late_reads;     /* what is read is taken by the engine later */
    bool held_answers;   /* nodes hold kept answers in memory, and operators have keys forgotten */
    bool lost_turns;     /* a node's share falls to nothing, or rises, while attempts wait for it */
    bool bulk_redrives; /* operators redrive many letters at once, and cancel that at other nodes */
    bool many_hosts;    /* several hosts, one slow or silent, few places; nodes are told to stop */
};
extern struct fleet_options fleet_options;

enum fleet_told { FLEET_PENDING = 0, FLEET_DONE, FLEET_REFUSED, FLEET_UNKNOWN, FLEET_LOST };

/* One request to record a task, as its caller knows it. */
struct fleet_sub {
    uint32_t number; /* of the task */
    size_t node;
    enum fleet_told told;
    bool is_recorded; /* the task in the store came from this one */
    uint32_t queue;   /* that an operator was told to be there when it was sent; 0: none */
};

/* Many dead letters at once. */
struct fleet_redrive {
    uint64_t id;
    uint64_t letters;  /* redriven in its name, committed */
    bool is_told;      /* a caller has its id */
    bool is_told_over; /* and that it has ended */
    bool is_ended;     /* that is in the store, since ended_at_ms, as this: */
    int64_t ended_at_ms, ended_redriven, ended_skipped;
    char ended_state[16];
};

/* One thing that an operator asked for. */
struct fleet_act {
    enum ask_kind kind;
    size_t node;
    uint32_t number; /* of the task */
    enum fleet_told told;
    int64_t asked_at_ms; /* monotonic */
    bool is_committed;   /* its row of the audit trail is in the store */
    bool is_checked;     /* what was told can be compared with that */
    bool is_forced;
    uint32_t queue;      /* committed, of a queue: its number, */
    uint32_t resumes;    /* and how often it had been resumed by then */
    int64_t row;         /* ASK_FORGET: of the task */
    uint32_t call_first; /* ASK_FORGET, done: calls from this one on came after it was told */
};

/* A task, as the store, the targets and the callers know it. */
struct fleet_task {
    const char *queue;
    bool keyed, called;
    bool says; /* it says itself whether it may be repeated */
    bool once; /* and that it may not */
    int64_t deadline_ms;
    int64_t asked_at_ms, leased_at_ms;
    struct task_id id; /* row 0: not recorded */
    uint32_t queue_number;
    bool acknowledged, cancelled, purged;
    bool done_said, ack_said, was_run;
    bool has_word; /* a person wants it run, and no attempt has begun since */
    /* The ledger of its target. */
    uint32_t successes, attempt_seen;
    uint64_t fence_seen;
    bool in_doubt; /* a request that must not be repeated may have had its effect */
    /* As last seen. */
    bool ended;
    enum task_state end_state;
    uint32_t end_round, told_rounds; /* rounds of which a callback was recorded: bits */
    int64_t unowned_ms;              /* since when no node works on it; 0: one does */
    uint64_t unowned_step;           /* likewise */
    uint64_t redriven_by;            /* the latest of many at once that took it */
};

struct fleet_answer {
    int status;
    enum task_sent sent;
    int64_t hint_ms;
    bool leaves_doubt;
};

struct fleet_flight {
    struct delivery *delivery; /* NULL: free */
    size_t node;
    bool is_callback, is_on_wire, is_once;
    bool is_renewed; /* its lease is lost, and the node has another one by now */
    bool is_route, is_probe, is_streaming, is_pulled, is_stopped; /* of the gateway */
    unsigned pieces_left;
    uint32_t number; /* of the task, or of the key */
    uint64_t fence;
    int64_t at_ms; /* monotonic: it is connected, or its answer is there */
    const struct fleet_answer *answer;
};

/* A key of the gateway, as its upstream knows it. */
struct fleet_key {
    uint32_t effects;
    uint32_t misses; /* probes that found nothing since the latest request */
    bool in_doubt;
    uint64_t fence_seen; /* of the latest request, and its task */
    int64_t row_seen;
    int64_t streamed_row; /* of the answer that is written down as one that is handed on */
    int64_t kept_row;     /* of the answer that a caller was told; 0: none */
    uint64_t kept_hash;
};

struct fleet_call {
    uint32_t key;
    size_t node;
    enum fleet_told told;
    bool is_there;    /* not answered yet, or not to its end */
    bool wants_more;  /* of a stream */
    bool is_recorded; /* it caused the task */
    bool is_async;    /* its caller asked for a 202 */
};

struct fleet_lease {
    bool is_used, is_settled;
    uint32_t number;
    struct task_id id;
    uint64_t fence, epoch, serial;
};

/* A batch whose commit was lost: what it came to, if it is there. */
struct fleet_doubt {
    uint64_t number; /* 0: free */
    bool is_known, is_committed;
    size_t spared_count; /* operations until whose answer its node keeps its connection */
    struct op *ops;      /* copies, with their results; behind them what they spawn */
    size_t count;
};

struct fleet_writer {
    struct store base; /* first */
    struct fleet_face *face;
    struct fleet_doubt doubts[FLEET_DOUBTS_MAX];
    uint64_t batch_last;
};

/* The store as one node has it. */
struct fleet_face {
    struct store base; /* first */
    struct fleet *fleet;
    size_t node;
    struct fleet_writer writers[FLEET_WRITERS];
    uint64_t epoch, epoch_first;
    int64_t slot;
    struct peers watched;
    int64_t beaten_at_ms;
    uint64_t session; /* of its pulse; 0: none */
    bool has_duty;
    size_t spared_count; /* lost commits whose callers must not be answered before they are known */
    /* As store_postgres_known.c has it. */
    bool is_nudged;
    uint64_t known, known_session;
    uint64_t asked, asking, wanted, told;
    bool awaits;
    /* As store_postgres_follow.c has it. */
    uint64_t followed, queues_seen, queues_serial, queues_version, queues_session, queues_known;
    uint64_t queues_wanted;
    int64_t moved[FLEET_MOVED_MAX]; /* what peers have said and its engine has not heard */
    size_t moved_count;
    bool has_moved_more;
};

struct fleet_beat {
    struct fleet_beat *next;
    struct arena *arena;
    struct beat beat;
};

struct fleet_node {
    struct fleet *fleet;
    size_t index;
    struct fleet_face *face; /* NULL: the process is not there */
    struct committer *committer;
    struct engine *engine;
    struct handover_link *reads, *performed; /* performed: not yet taken by its engine */
    struct fleet_beat *beats;                /* seen by its pulse, not yet taken by its engine */
    bool has_missed;                         /* a beat that renews its lease */
    uint64_t queues_seen;                    /* the version of the queues that it knows */
    uint64_t wishes;                         /* of its engine, granted or not */
    uint64_t attempts;                       /* of these, requests of attempts */
    bool is_dead;                            /* it dies: nothing it wants happens any more */
    bool is_gone;                            /* it never starts again */
    int64_t stopped_until_ms, down_until_ms, start_at_ms; /* monotonic */
    uint64_t epoch_before;                                /* of the process before */
    bool is_elsewhere;                                    /* which was on another machine */
    bool is_leaving;                                      /* it was told to stop */
    int64_t leave_until_ms;
};

struct fleet_row {
    uint64_t epoch; /* 0: free */
    int64_t slot, beat;
    uint64_t session;
    uint64_t forgotten; /* up to this number it replays nothing from memory that was forgotten */
    uint64_t queues;    /* up to this number it has followed changes of queues */
    bool awaits;        /* its callers wait for what others settle */
};

struct fleet_queue {
    bool is_dropped, is_paused, was_forced;
    uint32_t resumes;
    bool is_told_paused;    /* an operator was told so, and it was not resumed since */
    bool is_told_dropped;   /* likewise */
    bool is_told_made;      /* likewise, and it was not deleted since */
    bool said_paused;       /* by the latest act about that which is committed */
    char said_settings[16]; /* likewise; empty: none */
    int64_t dropped_at_ms, paused_at_ms;
};

struct fleet {
    struct clock clock; /* first */
    int64_t mono_ms, server_ahead_ms;
    struct daruma_dice dice;
    uint64_t seed, steps;
    size_t node_count;
    struct fleet_node nodes[FLEET_NODES_MAX];
    int64_t node_lease_ms;
    struct queue_settings settings[4];
    struct {
        bool has_hosts; /* tasks go to several, and one of them is slow, */
        bool is_silent; /* or gives no answer at all */
        uint32_t attempts_max;
    } limits;

    /* The server. */
    struct store_memory *inner;
    struct id_maker ids; /* of those that the server gives out itself */
    struct fleet_row rows[FLEET_ROWS_MAX];
    uint64_t epoch_last, session_last, duty_session, queues_version, forgotten;
    int64_t server_down_until_ms;
    struct fleet_queue queues[FLEET_QUEUES_MAX];

    struct fleet_task tasks[FLEET_TASKS_MAX];
    uint32_t task_count;
    struct fleet_sub subs[FLEET_SUBS_MAX];
    uint32_t sub_count;
    struct fleet_act acts[FLEET_ACTS_MAX];
    uint32_t act_count;
    bool has_redrives;
    struct fleet_redrive redrives[FLEET_REDRIVES_MAX];
    uint32_t redrive_count, redrives_asked;
    struct fleet_flight flights[FLEET_FLIGHTS_MAX];
    struct fleet_lease leases[FLEET_LEASES_MAX];
    uint64_t lease_last;
    bool has_gateway;
    struct route_settings routes[FLEET_ROUTES];
    struct fleet_key keys[FLEET_KEYS];
    struct fleet_call calls[FLEET_CALLS_MAX];
    uint32_t call_count, hot_key;
    uint64_t answer_last;
    int64_t purge_asked_ms; /* the latest purge or forced deletion of it was answered */
    uint32_t purge_pending; /* likewise: not answered yet */
    bool is_calm, is_traced;
    int64_t calm_at_ms;
    uint64_t commits, commits_checked;
    struct {
        uint64_t sent, late, crashes, stops, outages, lost_there, lost_gone, dropped_nodes, claims;
        uint64_t recorded, unknown, acts, leases, calls, routed, streams, held, forgotten, words;
        uint64_t leaving, redriven;
        int64_t calm_ms; /* until everything had come to its end */
    } seen;
    char failure[512]; /* empty: every invariant holds */
};

/* Runs one seed. True: it held. Otherwise fleet->failure says what did not. */
bool fleet_run(struct fleet *fleet, uint64_t seed, uint32_t steps);

uint64_t fleet_roll(struct fleet *fleet, uint64_t sides); /* 0 … sides-1 */
int64_t fleet_server_ms(const struct fleet *fleet);
bool fleet_is_up(const struct fleet *fleet, size_t node); /* it reaches the server */
bool fleet_is_running(const struct fleet *fleet, size_t node);
bool fleet_has_lease(const struct fleet *fleet, size_t node); /* as its engine knows */

/* fleet_server.c: the node table, beats, duty. */
bool fleet_epoch_is_live(const struct fleet *fleet, uint64_t epoch);
void fleet_join(struct fleet *fleet, struct fleet_face *face);
/* A node has no turns for a while; a node, or all of them, cannot reach the store for a while. */
void fleet_suspend(struct fleet_node *node);
void fleet_cut_off(struct fleet_node *node);
void fleet_end_session(struct fleet *fleet, struct fleet_face *face);
bool fleet_drop_row(struct fleet *fleet, uint64_t epoch, int64_t beat);
void fleet_renew_row(struct fleet *fleet, struct op *op); /* of a RECORD, if another task has it */
void fleet_note_commit(struct fleet *fleet, size_t node, const struct op *op);
void fleet_nudge(void *user, const struct node_wish *wish);
extern const struct store_nodes fleet_nodes_ops;

/* fleet_redrives.c: many dead letters at once. */
void fleet_redrive(struct fleet *fleet, size_t node);
void fleet_redrive_told(struct fleet *fleet, const struct fleet_act *act,
                        const struct reply *reply);
void fleet_redrive_applied(struct fleet *fleet, struct fleet_task *task, const struct op *op);
bool fleet_has_redrives(const struct fleet *fleet); /* that are under way */
void fleet_check_ends(struct fleet *fleet);         /* after each step */
void fleet_check_redrives(struct fleet *fleet);     /* at the end */

/* fleet_store.c: batches, claims, lost commits. */
struct fleet_face *fleet_face_open(struct fleet *fleet, size_t node);
bool fleet_face_awaits(const struct fleet_face *face, int64_t row);
int fleet_lane(const struct life *life);

/* fleet_people.c: callers, operators and workers. */
void fleet_submit(struct fleet *fleet, size_t node);
void fleet_operate(struct fleet *fleet, size_t node);
void fleet_work(struct fleet *fleet, size_t node);
/* What an operator asks of a node; the number is for the trace. */
void fleet_ask(struct fleet *fleet, size_t node, struct ask *ask, uint32_t number);
void fleet_replied(struct fleet *fleet, const struct reply *reply);
void fleet_forget_callers(struct fleet *fleet, size_t node);
int fleet_parse_queue(void *user, struct span json, struct span name, struct arena *arena,
                      struct queue_settings *ret_settings, struct error *err);

/* fleet_target.c */
int fleet_send(void *user, struct delivery *delivery, struct error *err);
void fleet_deliver(struct fleet *fleet, size_t node);

const struct attempt *fleet_attempt_of(const struct delivery *delivery); /* of no probe */

/* fleet_hosts.c: where tasks go, how much may be under way, nodes that are told to stop. */
void fleet_hosts_set_up(struct fleet *fleet);
struct span fleet_target_of(const struct fleet *fleet, uint32_t number); /* empty: the queue's */
bool fleet_host_is_silent(const struct fleet *fleet, const struct delivery *delivery);
int64_t fleet_host_takes_ms(struct fleet *fleet, const struct delivery *delivery);
void fleet_check_room(struct fleet *fleet, const struct fleet_flight *flight); /* it begins */
void fleet_check_lines(struct fleet *fleet, size_t node);
void fleet_stop_node(struct fleet_node *node);
bool fleet_has_left(struct fleet_node *node);

/* fleet_gateway.c: callers with keys, and the upstream. */
void fleet_gateway_set_up(struct fleet *fleet);
void fleet_call(struct fleet *fleet, size_t node);
void fleet_read_on(struct fleet *fleet, size_t node);
void fleet_call_applied(struct fleet *fleet, const struct op *op);
void fleet_call_replied(struct fleet *fleet, uint32_t serial, const struct reply *reply);
void fleet_key_forgotten(struct fleet *fleet, int64_t row); /* that is committed, as the next one */
void fleet_key_streamed(struct fleet *fleet, int64_t row);
bool fleet_is_gateway(const struct delivery *delivery);
bool fleet_gateway_begin(struct fleet_flight *flight);
void fleet_gateway_sent(struct fleet *fleet, struct fleet_flight *flight);
void fleet_gateway_back(struct fleet *fleet, struct fleet_flight *flight);
void fleet_pull(void *user, struct delivery *delivery);
void fleet_stop(void *user, struct delivery *delivery);
bool fleet_has_callers(const struct fleet *fleet);

/* fleet_check.c: the invariants. */
void fleet_act_told(struct fleet *fleet, const struct fleet_act *act);
void fleet_check_begun(struct fleet *fleet, size_t node, const struct delivery *delivery,
                       uint32_t number);
void fleet_fail(struct fleet *fleet, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* With DARUMA_SIM_TRACE set: what happens, line by line. */
void fleet_trace(const struct fleet *fleet, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fleet_applied(struct fleet *fleet, size_t node, const struct op *op); /* it is committed */
void fleet_check_sent(struct fleet *fleet, struct fleet_flight *flight);
void fleet_check(struct fleet *fleet);      /* after each step */
bool fleet_is_over(struct fleet *fleet);    /* nothing is left to be done */
void fleet_check_calm(struct fleet *fleet); /* at the end */
const struct version *fleet_version(const struct fleet *fleet, int64_t row); /* NULL: not there */
struct fleet_task *fleet_task_of(struct fleet *fleet, struct task_id id);

#endif
