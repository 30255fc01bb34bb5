/* SPDX-License-Identifier: MIT
 *
 * engine -- the life of tasks: record, dispatch, settle, replay, recover. It knows time, chance,
 * storage and delivery only through what it is handed, has no thread and no lock, and never waits:
 * events come in, and what it wants of the world goes out through `struct engine_world`, after the
 * commit that it depends on (I1, I5).
 *
 *   engine_submit ----> commit: RECORD --> engine_committed --> reply; and when it may go out at
 *                                                               once, send (recorded as running)
 *   engine_tick -------> commit: LEASE --> engine_committed --> send
 *   engine_delivered --> commit: SETTLE -> engine_committed --> wake who waits; due again later
 *
 * All functions belong to the thread that runs the engine.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "deliver/deliver.h"
#include "store/store.h"
#include "task/options.h"
#include "task/queue.h"
#include "task/reach.h"
#include "task/route_answer.h"

#include <daruma/dice.h>
#include <daruma/log.h>

#define ENGINE_QUEUES_MAX     1000
#define ENGINE_UNSAVED_MAX    1000 /* outcomes that the store would not take; then no attempt starts */
#define ENGINE_LIST_LIMIT     100
#define ENGINE_LIST_LIMIT_MAX 1000
#define ENGINE_WAIT_MAX_MS    60000
#define ENGINE_RENDERED_MAX   (64u << 20)           /* bytes of one answer */
#define ENGINE_DUE_MAX_MS     INT64_C(315576000000) /* ten years: no task is due later */
#define ENGINE_PASSAGES_MAX   4096 /* requests that pass, under way at once; then 503 */
#define ENGINE_RETRY_AFTER_MS 1000 /* told to whoever is refused for want of room */

struct engine; /* opaque */

/* --- what comes in ----------------------------------------------------------------------------- */

/* How a caller of the gateway wants to wait (RFC 7240). Zeroed: as the route says. */
struct route_wish {
    bool is_async; /* told at once, or when its time is over, that it is under way */
    bool has_wait;
    int64_t wait_ms;
};

/* A request that is to be recorded. The arena, and with it every span, becomes the engine's. */
struct submission {
    uint64_t exchange; /* who asks: comes back in the reply */
    uint32_t index;    /* within a batch */
    struct arena *arena;
    struct span queue;
    struct span key;
    struct span method;  /* empty: the target's, or POST */
    struct span target;  /* empty: the queue's */
    struct span headers; /* task/fields.h */
    struct span labels;  /* likewise */
    struct span body;
    struct task_options options;
    int64_t due_at_ms; /* wall clock; 0: now (or after delay_ms) */
    int64_t delay_ms;
    int64_t deadline_ms;                /* from now; 0: none */
    bool is_article;                    /* only a queue with a fallback list takes it */
    const struct route_settings *route; /* it came through the gateway; NULL: it did not. The queue
                                         * and the deadline are the route's then */
    struct span scope;                  /* whose key it is */
    struct route_wish wish;
    bool has_fingerprint; /* made ahead of time: hashing a large body takes a while */
    unsigned char fingerprint[TASK_FINGERPRINT_BYTES];
};

/* What can be asked about, and done to, what is there. */
enum ask_kind {
    ASK_TASK,         /* one task, whole; wait_ms: until it is settled */
    ASK_LIST,         /* a page of a queue's tasks */
    ASK_RUN,          /* one task due now */
    ASK_CANCEL,       /* one waiting task */
    ASK_QUEUES,       /* every queue */
    ASK_QUEUE,        /* one queue, with counts; force: also one that has no tasks left */
    ASK_QUEUE_PUT,    /* create or change: settings */
    ASK_QUEUE_DELETE, /* force: also when it is not empty */
    ASK_QUEUE_PAUSE,
    ASK_QUEUE_RESUME,
    ASK_QUEUE_PURGE,    /* forget every task that is not under way */
    ASK_QUEUE_RUN,      /* every waiting task due now: a run */
    ASK_RUN_STATE,      /* how a run is getting on */
    ASK_LETTERS,        /* a page of dead letters, of one queue or of all */
    ASK_LETTER,         /* one dead letter, whole */
    ASK_REDRIVE,        /* one dead letter goes out again: edit */
    ASK_RESOLVE,        /* one dead letter is closed: note */
    ASK_REDRIVE_MANY,   /* every letter that the filter matches: rate_per_second, dry_run */
    ASK_REDRIVE_STATE,  /* how that is getting on: id.row */
    ASK_REDRIVE_CANCEL, /* no more of them */
    ASK_UNSETTLED,      /* a page of unsettled tasks, of one queue or of all */
    ASK_SETTLE,         /* an unsettled task is settled by a person: settlement, answer, note */
    ASK_AUDIT,          /* a page of what people did */
    ASK_LEASE,          /* tasks for a worker: lease_max, lease_ms, wait_ms */
    ASK_LEASE_SETTLE,   /* what came of them: words */
    ASK_POLL,           /* one request of the gateway, for its caller: REPLY_ROUTE */
    ASK_KEYS,           /* a page of a route's requests: key, scope; REPLY_KEYS */
    ASK_FORGET,         /* one request of the gateway, and its key with it */
};

/* What a person says of a task whose outcome nobody knew. */
enum settlement {
    SETTLEMENT_SUCCEEDED = 0,
    SETTLEMENT_FAILED,
    SETTLEMENT_NOT_DONE, /* it is sent again, and the attempt does not count */
};

/* What a worker says of a lease. */
enum lease_word_kind {
    LEASE_ACK = 0, /* done: answer */
    LEASE_RETRY,   /* failed: error_class, text, delay_ms */
    LEASE_EXTEND,  /* more time: lease_ms */
    LEASE_RETURN,  /* nobody has it: as if it had never been leased */
};

struct lease_word {
    enum lease_word_kind kind;
    struct span lease;           /* as it was given: comes back with the result */
    struct task_id id;           /* row 0: it is no lease of ours */
    uint64_t fence, epoch;       /* of the lease */
    const struct answer *answer; /* ACK; NULL: none */
    enum daruma_class error_class;
    struct span text;
    int64_t delay_ms; /* in place of the policy's wait; below 0: the policy's */
    int64_t lease_ms;
    bool is_forced; /* RETURN: by a person's word, which goes on holding */
};

#define ENGINE_LEASES_MAX       1000 /* in one ask */
#define ENGINE_LEASE_WORDS_MAX  1000
#define ENGINE_REDRIVE_RATE     50 /* letters a second, where none is given */
#define ENGINE_REDRIVE_RATE_MIN 0.001
#define ENGINE_REDRIVE_RATE_MAX 100000

struct ask {
    enum ask_kind kind;
    uint64_t exchange;
    struct span who;    /* for the audit trail: the name of a token */
    struct reach reach; /* what is out of it is not there; its names live as long as the engine */
    struct task_id id;
    struct span queue;
    struct span settings;       /* QUEUE_PUT: JSON */
    struct store_filter filter; /* LIST: states, after_row, limit, label; LETTERS, REDRIVE_MANY:
                                 * failed_class, failed_from_ms, failed_until_ms as well */
    struct span key, scope;     /* KEYS; empty: any */
    int64_t wait_ms;
    bool force;
    struct span note;
    struct edit edit; /* REDRIVE: parts, target, headers, body */
    enum settlement settlement;
    const struct answer *answer; /* SETTLE; NULL: none */
    struct audit_filter audit;
    double rate_per_second; /* REDRIVE_MANY; 0: ENGINE_REDRIVE_RATE */
    bool dry_run;
    size_t lease_max;
    int64_t lease_ms; /* 0: the queue's */
    const struct lease_word *words;
    size_t word_count;
};

/* --- what goes out ----------------------------------------------------------------------------- */

enum reply_kind {
    REPLY_CREATED,     /* record: the new task, without its request */
    REPLY_DUPLICATE,   /* record: the task that the key belongs to, as it is now */
    REPLY_CONFLICT,    /* the key belongs to another request */
    REPLY_TASK,        /* record */
    REPLY_LIST,        /* records, record_count, next_row */
    REPLY_NOT_WAITING, /* record.life: what it is instead */
    REPLY_UNKNOWN_TASK,
    REPLY_UNKNOWN_QUEUE,
    REPLY_QUEUE_DELETED, /* that of a task which is to be sent again: nothing can send it */
    REPLY_QUEUE,         /* queues[0]; is_new */
    REPLY_QUEUES,        /* queues, queue_count */
    REPLY_QUEUE_IN_FILE, /* the configuration file defines it */
    REPLY_QUEUE_NOT_EMPTY,
    REPLY_QUEUE_MISSING, /* no configuration defines it any more: it takes and sends nothing */
    REPLY_QUEUE_HELD,    /* the configuration lacks something that it needs: likewise */
    REPLY_DELETED,
    REPLY_RUN, /* run */
    REPLY_UNKNOWN_RUN,
    REPLY_LETTER,        /* record, whole: a dead letter, unless its flags say it never was */
    REPLY_LETTERS,       /* as LIST; with the latest row of the trail */
    REPLY_UNSETTLED,     /* likewise */
    REPLY_NOT_DEAD,      /* record.life: what it is instead */
    REPLY_ANSWERED,      /* a caller has this failure as the answer */
    REPLY_RESERVED,      /* the queue is the server's own */
    REPLY_NOT_UNSETTLED, /* record.life: what it is instead */
    REPLY_REDRIVE,       /* redrive */
    REPLY_UNKNOWN_REDRIVE,
    REPLY_AUDIT,         /* audits, audit_count, next_row */
    REPLY_LEASES,        /* records, record_count: life.fence and life.epoch are the lease */
    REPLY_LEASE_RESULTS, /* results, result_count, in the order of the words */
    REPLY_PUSHED,        /* the queue has targets: nothing in it waits for a worker */
    REPLY_KEYS,          /* records, record_count, next_row */
    REPLY_BUSY,          /* record.life: it has not ended */
    REPLY_ROUTE,         /* route: to a caller of the gateway */
    REPLY_FAULT,         /* error */
};

enum route_said {
    ROUTE_SAID_ANSWER,   /* the kept answer */
    ROUTE_SAID_UNKEPT,   /* the upstream's own answer, which nobody gets again */
    ROUTE_SAID_PROGRESS, /* 202 */
    ROUTE_SAID_REFUSAL,  /* problem, status */
    ROUTE_SAID_STREAM,   /* the head of an answer that follows piece by piece: see engine_more */
    ROUTE_SAID_PIECE,    /* answer->body */
    ROUTE_SAID_END,      /* that was all of it */
    ROUTE_SAID_CUT,      /* it was cut off */
};

struct route_reply {
    enum route_said said;
    const struct route_settings *route; /* NULL: passed through without one */
    struct task_id id;                  /* row 0: none */
    struct span scope;                  /* of the task: who may see it */
    const struct answer *answer;
    bool is_first;         /* to the caller who caused it */
    bool is_unknown;       /* PROGRESS: of an unsettled task */
    enum task_state state; /* PROGRESS */
    int64_t length;        /* STREAM: of all its pieces; 0: not known */
    bool is_omitted;       /* ANSWER: its body was not kept. REFUSAL: of an answer that is kept */
    enum route_problem problem;
    int status; /* of the problem; 0: its own */
    struct span detail;
};

/* What the configuration lacks for a queue to be worked: see engine/hold_internal.h. */
enum queue_hold {
    QUEUE_HOLD_NONE = 0,
    QUEUE_HOLD_MISSING,  /* the queue itself */
    QUEUE_HOLD_SETTINGS, /* what its stored settings name */
    QUEUE_HOLD_TARGETS,  /* targets for tasks that are sent to them */
};

/* What an attempt came to: a class of failure, or one of these. */
enum { OUTCOME_SUCCEEDED = DARUMA_CLASS_COUNT, OUTCOME_UNSETTLED, OUTCOME_COUNT };
enum task_end { END_SUCCEEDED, END_FAILED, END_CANCELLED, END_COUNT };

/* Counted since start, of one queue on this node. */
struct queue_numbers {
    uint64_t recorded;
    uint64_t attempts[OUTCOME_COUNT];
    uint64_t ended[END_COUNT][2]; /* by attempts of its last round: at most one, more */
    uint64_t letters_entered, letters_redriven, letters_closed; /* redriven: with success */
    uint64_t lives, lives_ms; /* how many ended, and from recorded to ended in all */
    uint64_t late_count, late_ms, attempt_count, attempt_ms;
    struct recent lateness, attempt;
};

/* What holds back the due tasks of a queue: bits of queue_view.held. */
enum held_by {
    HOLD_PAUSED,
    HOLD_OUTAGE,      /* the target keeps failing: trials only, or a ramp */
    HOLD_GONE,        /* every target said 410 */
    HOLD_RATE,        /* `rate` */
    HOLD_HOST,        /* some wait for their hosts, leased or not */
    HOLD_CONCURRENCY, /* as many as may be are under way */
    HOLD_ATTEMPTS,    /* `limits.attempts`: it waits for its turn among the queues */
    HOLD_STORE,       /* the store does not take outcomes */
    HOLD_MISSING,     /* the configuration does not have what it needs: queue_view.hold */
    HOLD_COUNT
};

struct queue_view {
    uint32_t number; /* as in struct task */
    struct span name;
    const struct queue_settings *settings; /* NULL: not at hand (engine_render_fn), or not known */
    uint32_t attempts_max;                 /* of a task that says nothing else; 0: not known */
    uint64_t counts[TASK_STATE_COUNT];
    uint64_t due_count; /* waiting tasks whose time has come; see queues.c for how old it may be */
    int64_t oldest_due_ms; /* for how long the longest-due of them has been due; 0: none is */
    int64_t
        oldest_letter_ms; /* for how long the oldest open dead letter has been one; 0: none is */
    uint32_t in_flight;
    uint64_t host_waiting; /* tasks whose host has no place for them: in its line, or parked */
    bool paused, in_file;
    int64_t outage_since_ms; /* wall clock; 0: none */
    uint32_t stopped;        /* targets that said they are gone: bits */
    enum queue_hold hold;
    struct span hold_why; /* in words, while it is held */
    bool is_shown;        /* false: it was deleted, or nothing defines it and nothing is in it */
    uint32_t held;        /* 1 << enum held_by */
    int64_t held_ms;      /* until OUTAGE lets a trial go out, or RATE the next; 0: not known */
    const struct queue_numbers *numbers;
    double lateness_p99_ms, attempt_p99_ms; /* of late; below 0: there were none */
};

struct run_view {
    uint64_t id;
    struct span queue;
    uint64_t taken, succeeded, pending;
    uint64_t failed;              /* did not succeed at this attempt; of these */
    uint64_t retrying, unsettled; /* wait for another one, and are in doubt */
};

/* Many dead letters that are sent again. */
struct redrive_view {
    uint64_t id;       /* 0: a dry run */
    const char *state; /* counting, running, done, cancelled */
    uint64_t matched, redriven, skipped;
    double rate_per_second;
    int64_t started_at_ms;
};

enum lease_result { LEASE_SETTLED = 0, LEASE_WAITING, LEASE_EXTENDED, LEASE_STALE };

struct lease_answer {
    struct span lease;
    enum lease_result result;
};

/* Everything in it is the engine's, and gone when the reply function returns. */
struct reply {
    enum reply_kind kind;
    uint64_t exchange;
    uint32_t index;
    const struct record *records;
    size_t record_count;
    int64_t next_row; /* 0: no more */
    /* With records: the queues that they may be in, of which only number, name, settings and
     * attempts_max are told. */
    const struct queue_view *queues;
    size_t queue_count;
    struct run_view run;
    struct redrive_view redrive;
    const struct audit_row *audits;
    size_t audit_count;
    const struct lease_answer *results;
    size_t result_count;
    struct buf *rendered; /* what engine_render_fn made of it, to be taken; NULL: nothing */
    const struct route_reply *route;
    struct error error;
    bool is_new;
};

/* Makes bytes of what was read: the engine itself knows no format, and whoever replies need not do it
 * on the engine's thread. Called on the reader's thread with REPLY_LIST, REPLY_TASK or
 * REPLY_DUPLICATE, and with the queue only for LIST, and of that only name and attempts_max. Bytes
 * that it adds come back in the reply. 0, or a fault: then the reply is that fault. */
typedef int (*engine_render_fn)(void *user, const struct reply *reply, struct buf *out);

/* A look into the store, done on the reader's thread, step by step. */
struct read;
/* True: it is done. Else it goes on with the next step, and others may be served before. */
bool read_step(struct read *read, struct store *store);
void read_perform(struct read *read, struct store *store); /* all steps */
bool read_is_count(const struct read *read); /* among nodes: of all tasks, see store_nodes */
bool read_is_long(const struct read *read);  /* lists, and what else others should not wait for */
/* A list ends with its next step: a page that is short, and says where it goes on. Any thread. */
void read_cut(struct read *read);

/* What the engine wants done. Each function notes it down and returns: none may call the engine. */
struct engine_world {
    /* Later engine_committed. False: no room; the operation was not taken. */
    bool (*commit)(void *user, struct op *op);
    /* Later engine_read. False: no room. */
    bool (*read)(void *user, struct read *read);
    /* Later engine_delivered. Non-zero: it could not even begin, nothing was sent. */
    int (*send)(void *user, struct delivery *delivery, struct error *err);
    void (*reply)(void *user, const struct reply *reply);
    void *user;
    /* Of a delivery that is handed on as it comes: the next piece; and no more of it, later
     * engine_delivered. */
    void (*pull)(void *user, struct delivery *delivery);
    void (*stop)(void *user, struct delivery *delivery);
    /* With nodes: the next beat begins at once and says this. May be called for nothing. */
    void (*nudge)(void *user, const struct node_wish *wish);
};

/* --- the engine -------------------------------------------------------------------------------- */

/* Settings written as JSON, into settings that live in the arena. The configuration's own parser. */
typedef int (*engine_parse_queue_fn)(void *user, struct span json, struct span name,
                                     struct arena *arena, struct queue_settings *ret_settings,
                                     struct error *err);
typedef int (*engine_parse_policy_fn)(void *user, struct span json, struct arena *arena,
                                      struct daruma_policy *ret_policy, struct error *err);

/* What is to be told about a task that has ended, by its `callback`: a submission whose spans are in
 * the arena. False: nothing. */
typedef bool (*engine_callback_fn)(void *user, const struct record *record, struct span queue,
                                   struct arena *arena, struct submission *ret_submission);

/* The queue that callbacks are delivered by; the server's own unless the file has one. */
#define ENGINE_CALLBACK_QUEUE "_callbacks"
#define ENGINE_KEYS_QUEUE     "_keys" /* of daruma.claim_key in SQL: no caller of the api sees it */

struct engine_options {
    const struct clock *clock;
    struct daruma_dice *dice; /* NULL: the thread's own */
    struct engine_world world;
    const struct daruma_logger *log; /* NULL: silent */
    engine_parse_queue_fn parse_queue;
    engine_parse_policy_fn parse_policy;
    void *parse_user;
    engine_callback_fn callback; /* NULL: nobody is called back */
    void *callback_user;
    engine_render_fn render; /* NULL: nothing is rendered ahead of the reply */
    void *render_user;
    struct store_keep keep;
    size_t response_max;
    uint64_t backlog_max;  /* waiting tasks in all */
    size_t replay_bytes;   /* of kept answers held in memory; 0: none */
    uint32_t waiters_max;  /* duplicates that wait for an answer; 0: no limit */
    uint32_t attempts_max; /* at once, over all queues; 0: no limit */
    uint32_t lists_max;    /* that callers wait for, and as many bulk commands; 0: no limit */
};

struct engine *engine_new(const struct engine_options *options, struct error *err);
void engine_free(struct engine *engine); /* NULL is fine; nothing is under way any more */

/* Start, in this order, before any event: the file's queues, then what the store holds. engine_open
 * recovers what an earlier process left running (I5, I8) and fills the schedule. */
int engine_add_queue(struct engine *engine, const struct queue_settings *settings,
                     struct error *err) __attribute__((warn_unused_result));
/* A route's tasks are in a queue of its own (ROUTE_QUEUE_PREFIX). The settings outlive the engine. */
int engine_add_route(struct engine *engine, const struct route_settings *route, struct error *err)
    __attribute__((warn_unused_result));
int engine_open(struct engine *engine, struct store *store, struct error *err)
    __attribute__((warn_unused_result));

/* Events. */
void engine_submit(struct engine *engine, const struct submission *submission);
void engine_ask(struct engine *engine, const struct ask *ask);
/* Replies at once if a kept answer is at hand; false: it has to be submitted. Of the submission only
 * exchange, route, queue, scope, key and fingerprint are looked at, and nothing is kept. */
bool engine_replay(struct engine *engine, const struct submission *submission);
/* Passed on to its target as it is: not recorded, never sent twice. Answered by REPLY_ROUTE. */
void engine_pass(struct engine *engine, const struct submission *submission);
/* The caller is gone: stop waiting. One who waits for a list is answered soon with part of it. */
void engine_leave(struct engine *engine, uint64_t exchange);
/* The caller has closed its side, and is answered soon: what only passes is ended, and of what is
 * recorded, which goes on, it is told how things are. More than once does no harm. */
void engine_dismiss(struct engine *engine, uint64_t exchange);
void engine_committed(struct engine *engine, struct op *op);
/* committer_unknowns has grown: callers of records that are in doubt for too long are told. */
void engine_doubts(struct engine *engine);
void engine_read(struct engine *engine, struct read *read);
void engine_delivered(struct engine *engine, struct delivery *delivery);
/* Of an answer that is handed on: its head (at NULL), or a piece. */
void engine_streamed(struct engine *engine, struct delivery *delivery, struct span bytes);
/* The caller has sent what he was given of a stream. */
void engine_more(struct engine *engine, uint64_t exchange);
void engine_tick(struct engine *engine); /* time has passed */
/* With nodes: what was seen. Until the first one, nothing is sent. */
void engine_beat(struct engine *engine, const struct beat *beat);

/* Milliseconds until a tick is wanted; INT64_MAX: none. */
int64_t engine_next_tick_ms(const struct engine *engine);

/* No more submissions, no more attempts; what is in flight goes on. */
void engine_drain(struct engine *engine);
bool engine_is_drained(const struct engine *engine); /* nothing in flight, nothing unsaved */

enum engine_door { BY_API, BY_GATEWAY, BY_COUNT };
/* What became of a request with a key, by what its key was found to be. */
enum key_answer {
    KEY_FIRST,
    KEY_REPLAYED,    /* its task has ended */
    KEY_IN_PROGRESS, /* it has not */
    KEY_UNKNOWN,     /* it is unsettled */
    KEY_CONFLICT,    /* it belongs to another request */
    KEY_EXPIRED,     /* its answer is forgotten */
    KEY_ANSWER_COUNT
};
enum manual_retry { MANUAL_RUN, MANUAL_REDRIVE, MANUAL_EDITED, MANUAL_NOT_DONE, MANUAL_COUNT };

/* Counters since start, for metrics and logs. */
struct engine_stats {
    uint64_t requests[BY_COUNT][2]; /* without a key, with one */
    uint64_t key_answers[BY_COUNT][KEY_ANSWER_COUNT];
    uint64_t manual[MANUAL_COUNT];
    uint32_t nodes; /* live ones, this one too */
    bool has_duty;
    int64_t store_bytes; /* of a store that several nodes share; 0: not known */
    uint64_t recorded, duplicates, conflicts, refused;
    uint64_t attempts, succeeded, retried, failed, unsettled, stale;
    uint64_t recovered_waiting, recovered_unsettled, purged;
    uint64_t leased, expired_leases, redriven, resolved, callbacks, callbacks_lost, outages;
    uint64_t replayed, released, probes, late_answers; /* of the gateway */
    uint64_t replayed_held;                            /* of these, from memory */
    uint64_t peer_words; /* tasks that callers waited for here, and a peer said that they moved */
    uint64_t route_waiters; /* duplicates that wait now */
    uint64_t in_flight, unsaved, scheduled;
    uint64_t short_attempts;   /* that could not begin for want of this machine's own */
    uint64_t unnamed_attempts; /* of these, because too many names were looked up */
    uint64_t attempts_now; /* as many may be under way at once, over all queues; 0: any number */
    struct histogram lateness; /* from due to the lease that begins the attempt */
    struct histogram attempt;  /* from the first step outward to the answer */
    struct histogram waits;    /* chosen before a retry: histogram_waits_ms */
    struct histogram lives;    /* from recorded to ended: histogram_lives_ms */
    struct histogram open;     /* of dead letters, until they were closed: histogram_days_ms */
};
void engine_stats(const struct engine *engine, struct engine_stats *ret_stats);
size_t engine_queue_count(const struct engine *engine);

/* A host that failed, of late and as seen by one queue. */
struct host_view {
    struct span queue, host;
    uint64_t attempts, failures; /* attempts: from its first failure on */
    int status;                  /* of the latest failure, like all below; 0: no answer */
    const char *error_class;     /* NULL: none */
    struct span reason;
    int64_t failed_at_ms; /* wall clock */
};
#define ENGINE_HOSTS_SHOWN 10
/* Those with the most failures in the last 5 to 10 minutes, most first, of the queues within reach; how
 * many they are. What they point to is the engine's, until the next event. */
size_t engine_hosts(const struct engine *engine, const struct reach *reach, struct host_view *views,
                    size_t max);
void engine_queue_view(const struct engine *engine, size_t index, struct queue_view *ret_view);

#endif
