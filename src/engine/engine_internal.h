/* SPDX-License-Identifier: MIT
 *
 * engine -- inside src/engine only: the engine's own structs, and the steps that its files hand to
 * each other.
 */
#ifndef ENGINE_ENGINE_INTERNAL_H
#define ENGINE_ENGINE_INTERNAL_H

#include "base/siphash.h"
#include "engine/ages.h"
#include "engine/callers_internal.h"
#include "engine/engine.h"
#include "engine/gone_internal.h"
#include "engine/host_lists_internal.h"
#include "engine/host_tally_internal.h"
#include "engine/leftovers_internal.h"
#include "engine/nodes_internal.h"
#include "engine/retire_internal.h"
#include "engine/schedule.h"
#include "engine/stranded_internal.h"
#include "engine/sums_internal.h"
#include "store/restored.h"
#include "task/route_judge.h"

#define SLOT_MS        3600000 /* due times are kept in memory for this hour and the next */
#define WAITER_BUCKETS 1024
#define ARENA_MAX      (64u << 20)
/* Of a page, which ends long before (read.c): room for one task of a size that no door lets in, as one that SQL made
 * under an earlier version. Lists and walks have to get past it; a store has none above a gigabyte. */
#define LIST_ARENA_MAX   ((size_t)2 << 30)
#define NOBODY           0   /* an exchange that no caller has: the reply is dropped */
#define DISPATCH_AT_ONCE 256 /* leases asked for in one go, over all queues */
#define AHEAD_WINDOW_MS  10  /* what is answered in this time is leased ahead of its turn */
#define AHEAD_MAX        256 /* but no more than this */

/* What a running queue is looked for by, side by side: a thousand queues are looked through for each task. */
struct queue_mark {
    uint32_t number, hash;
};

/* Of the tasks that wait to be sent: a person's word first, then what is due, then what was redriven
 * in bulk. */
enum wait_kind { WAIT_FORCED = 0, WAIT_DUE, WAIT_LOW, WAIT_KINDS };

/* What is known of a host that was full: it answers, not yet, not at all. ONCE: not to be sent twice. */
enum put_off { PUT_OFF_HEARD = 0, PUT_OFF_NEW, PUT_OFF_FAILED, PUT_OFF_ONCE, PUT_OFF_KINDS };

/* A queue as it runs. */
struct queue {
    uint32_t number;  /* in the store: see queues_set_number */
    uint64_t version; /* of its row there, with nodes: what is older is not followed */
    size_t index;     /* among the engine's: lower once one before it is retired */
    uint64_t serial;  /* its own for good */
    struct span name;
    struct queue_settings settings;
    struct arena *arena;                /* owns name and settings */
    struct span stored;                 /* the settings as JSON; empty: the file's */
    struct schedule due;                /* what is due within the horizon */
    struct schedule forced;             /* due now by a person's word */
    struct schedule low;                /* redriven with many others: after all that is due */
    struct schedule pull;               /* for workers */
    struct schedule pull_forced;        /* likewise, due now by a person's word */
    struct lease_waiter *lease_waiters; /* workers that wait for something to be due, in line */
    uint64_t counts[TASK_STATE_COUNT], due_count; /* due of what waits, as last counted */
    int64_t waiting_due_ms; /* among nodes: when the first of what waits is due, as last counted */
    int64_t due_again_ms;   /* monotonic: until then due_count holds */
    struct ages letters;    /* dead letters, by when they failed; among nodes as last counted */
    uint32_t in_flight;     /* from the decision to lease until the answer */
    uint32_t sending;       /* of these, those whose turn it is: at most the concurrency */
    struct attempt *ready, **ready_last; /* leased ahead of their turn */
    uint32_t answered, answered_before;  /* in this AHEAD_WINDOW_MS, and in the one before */
    int64_t answered_window;
    uint32_t low_in_flight;
    uint32_t stopped;      /* targets that said they are gone: bits */
    uint32_t stopped_kept; /* of them, those whose memo is written */
    bool is_stop_doubted;  /* a peer may have let them in again: see targets_look */
    uint64_t let_in;       /* with nodes: under which number they are stopped, see targets.c */
    struct {
        enum outage_step { OUTAGE_NONE = 0, OUTAGE_DOWN, OUTAGE_RAMP } step;
        uint32_t failures;  /* in a row */
        uint32_t limit;     /* RAMP: attempts at once */
        int64_t since_ms;   /* wall */
        int64_t next_at_ms; /* DOWN, monotonic: the next trial */
        bool has_trial;     /* one is under way */
    } outage;
    struct {
        uint64_t taken, succeeded, failed, retrying, open;
    } burst;                   /* of retries that were due: D3.2 */
    uint32_t concurrency;      /* of the settings' the share of this node */
    uint32_t host_concurrency; /* likewise, while the settings have one */
    double rate, rate_burst;   /* likewise */
    uint32_t line_count;       /* leased, in the lines of their hosts */
    uint32_t beside_count;     /* of these, those that hold no place of the queue (waits_beside) */
    struct host *hosts;        /* at which something is under way or waits: see hosts.c */
    uint32_t host_count;
    uint32_t silent_count;                /* attempts at hosts that give no sign of life */
    int64_t chance_at_ms;                 /* monotonic: see host_has_chance */
    uint64_t parked_count, parked_forced; /* not leased, waiting for their hosts */
    struct host_list_ends open_hosts[WAIT_KINDS], held_hosts[WAIT_KINDS]; /* by what waits there */
    struct host_ages host_ages;                                           /* likewise */
    bool has_pick;          /* what hosts_pick said last */
    double look_tokens;     /* see hosts_may_look */
    int64_t look_at_ms;     /* monotonic */
    uint32_t keen_looks;    /* likewise: left before it slows down */
    int64_t noted_until_ms; /* among nodes, monotonic: so long tasks of a full host come round, */
    int64_t put_off_ms[PUT_OFF_KINDS]; /* and the latest of each kind is due then */
    struct {
        uint32_t hosts, places;
    } moved_at;       /* the limits that those in line know of */
    bool has_worked;  /* something of it was settled: it may be empty now */
    unsigned backlog; /* kinds of which more waits than was counted: see nodes.c */
    double tokens;    /* of the rate */
    int64_t tokens_at_ms;
    const struct route_settings *route; /* of the gateway; NULL: an ordinary queue */
    enum queue_hold hold;
    struct span hold_why; /* lives as long as the settings */
    struct stranded stranded;
    struct retirement retirement;
    bool in_file, paused, dropped;
    bool has_gone;      /* of what is noted in `gone` */
    bool is_going;      /* dispatch_ready is at it */
    bool is_retargeted; /* its targets were changed: what waits for a host may be for another one */
    struct queue_numbers numbers;
    struct sums_budget told[2]; /* lines of the log: info, warnings */
    int64_t empty_told_ms; /* monotonic: the last time that it was said to be empty; 0: never */
    bool empty_is_held;    /* it became so again too soon after that */
    bool is_hungry;        /* it waits for a place among all queues */
    struct queue *next_hungry;
};

/* An answer that is handed on as it comes: part of what it answers, so that none is without. */
struct stream {
    struct called called;      /* first. Without a caller the rest is dropped: in unread_streams */
    int64_t until_ms;          /* monotonic, unread: then it is ended; INT64_MAX: it has been */
    struct delivery *delivery; /* NULL: it has not begun, or is over */
    bool is_head_open, has_ended; /* its head is with the committer; and it has ended meanwhile */
};

/* One attempt: from the slot that is taken for it to the commit of its outcome. */
struct attempt {
    struct op op; /* first: RECORD or LEASE, then SETTLE */
    struct delivery delivery;
    struct queue *queue;
    struct arena *arena;
    struct task task;
    struct life life;
    struct trail_row trail;
    struct answer answer;
    struct span target_name;
    struct attempt *next, *previous; /* all there are */
    struct attempt *next_for_host;   /* who waits for the same host */
    struct host *host;               /* that it has a place at, or waits for, or is leased for */
    struct attempt *next_ready;      /* who waits for a turn of the queue */
    uint64_t exchange;               /* RECORD: who is to be told */
    uint32_t index;
    bool holds_slot, holds_turn, holds_host;
    bool waits_beside; /* in its host's line, without a place of the queue */
    bool is_within;    /* its queue had a place for it, or leased it ahead of its turn */
    bool is_look;      /* leased though it may be for a host that is full */
    bool is_recalled;  /* leased because its host has room, */
    bool has_chance;   /* or though silent hosts have all that they may have */
    bool is_at_silent; /* counted in silent_count */
    bool is_parked;    /* its host is full: it goes back, and is noted with it */
    bool is_unsent;    /* the server stops: it goes back as it was */
    bool repeatable;   /* as the lease says */
    bool is_misjudged; /* and the target does not agree */
    bool is_forced;    /* by a person's word */
    bool is_trial;     /* of a target that is down */
    bool is_spared;    /* the target was down or being let in: a failure does not count */
    bool is_low;
    bool is_retry;              /* belongs to the queue's burst */
    bool is_returned;           /* it was not sent after all */
    bool is_ours;               /* it ended on our side: nothing was learnt of the target */
    struct route_wish wish;     /* RECORD, of the gateway: how the caller waits */
    struct answer unkept;       /* of the gateway: as it came, for the callers present */
    enum route_verdict verdict; /* likewise */
    struct judgement streamed;  /* is_streaming: what it will end as */
    bool is_streaming;          /* its answer is handed on as it comes */
    struct stream stream;       /* likewise: to whom */
    uint32_t key_round;         /* of the edit that goes out; 0: as it was recorded */
    int target_index;           /* of the queue's targets; -1: the task's own */
    uint64_t stamp;             /* when its SETTLE was offered: see kept_stamp */
    uint32_t busy_count;        /* RECORD: how often another session had its key */
    int64_t again_at_ms;        /* monotonic: when it is offered to the store again */
};

/* Somebody waits for a task to be settled. */
struct waiter {
    struct waiter *next, **at; /* of those whose tasks' rows share a bucket */
    struct called called;      /* its caller, until he has left */
    uint64_t exchange;
    struct task_id id;
    struct reach reach; /* of the caller who waits */
    int64_t until_ms;   /* monotonic */
    bool is_looked_at;  /* its read is one of inspect_look_again */
    bool is_reading;    /* a read is under way */
    bool is_woken;      /* it was settled meanwhile: what is being read may be old */
    bool is_late;       /* its time is over: answered with what is read next */
    bool is_gone;       /* the caller has left: no answer is given */
    bool is_attended;   /* while the server stops: an attempt here will bring the answer */

    /* A caller of the gateway. */
    const struct route_settings *route; /* NULL: a long poll of the task API */
    bool is_first;                      /* it caused the task */
    bool is_async;                      /* 202 when its time is over, whatever the route says */
    bool is_delivered;                  /* the answer is there, but not yet on disk */
};

enum read_kind {
    READ_TASK,
    READ_LIST,
    READ_KEYS,
    READ_DUE,
    READ_AUDIT,
    READ_COUNTS,
    READ_MEMOS,
    READ_FATES
};

/* A look into the store, for the reader's thread. */
struct read {
    struct handover_link link; /* first */
    enum read_kind kind;
    struct task_id id;
    unsigned wants;
    uint64_t stamp; /* when it was asked for: see kept_stamp */
    struct store_filter filter;
    struct audit_filter audit;
    struct reach reach; /* TASK, AUDIT: of the caller who asks */
    int64_t from_ms, until_ms;
    uint64_t epoch; /* TASK, of a dead node: whose; MEMOS: the serial of the queues then */
    struct arena *arena;

    size_t slice_count; /* LIST, KEYS, AUDIT: that have been looked at */
    int is_cut;         /* atomic: see read_cut */
    int fault;
    struct error error;
    struct record *records;
    size_t record_count, record_room;
    int64_t next_row;
    struct brief *briefs;
    size_t brief_count, brief_room;
    struct audit_row *audits;
    size_t audit_count;
    struct state_count *counts;
    size_t count_count, count_room;
    struct memo *memos;
    size_t memo_count, memo_room;
    uint64_t *live; /* MEMOS: the epochs of all nodes, and then the newest ever seen */
    size_t live_count;
    int64_t *rows;      /* FATES: of which tasks, */
    struct fate *fates; /* and what was found of each, in the same places */
    size_t row_count;

    engine_render_fn render; /* NULL: the reply is made of the records */
    void *render_user;
    struct queue_view queue; /* for render: the one that is listed */
    struct buf rendered;

    /* What the engine does with it. */
    void (*then)(struct engine *engine, struct read *read);
    uint64_t exchange;
    uint32_t index;
    enum reply_kind reply;
    struct waiter *waiter;
    struct walk *walk;
    struct run *run;
    struct errand *errand;
    struct redrive *redrive;
    struct lease_settle *settle;
    size_t word;
    const struct ask *ask;  /* what is asked afterwards */
    bool is_acted;          /* what it shows has been done */
    struct read *next_list; /* see lists.c */
    struct span who;        /* likewise: whose list it is */
};

/* An operation without an attempt: cancel, run, purge, queues. */
struct errand {
    struct op op; /* first */
    void (*then)(struct engine *engine, struct errand *errand);
    struct arena *arena;
    struct queue *queue;
    struct walk *walk;
    struct run *run;
    enum ask_kind ask;
    uint64_t exchange;
    struct errand *next;   /* changes of queues: in line */
    struct errand *change; /* that waits for this one */
    size_t open;           /* of a change: those that it waits for */
    bool has_cleared;      /* likewise: the memos of the queue's targets are gone */
    uint64_t let_in;       /* likewise: the number that was written for it */
    bool force;

    /* What a person, or a worker, has to say. */
    struct audit_row audit;
    struct memo_condition only_while; /* of a MEMO that has one */
    struct edit edit;
    bool is_edited; /* by this very act: `edit` has what stands from before as well */
    struct answer answer;
    struct trail_row trail;
    enum settlement settlement;
    size_t limit;   /* FIND: of the page that shows it */
    uint64_t stamp; /* when it was offered: see kept_stamp */
    struct redrive *redrive;
    struct lease_grant *grant;
    struct lease_settle *settle;
    size_t word;
};

/* A worker that waits for something to be due. */
struct lease_waiter {
    struct lease_waiter *next;
    uint64_t exchange;
    size_t max;
    int64_t lease_ms;
    int64_t until_ms; /* monotonic */
};

/* What op->ticket says, so that engine_committed knows whose it is. */
enum { TICKET_RECORD = 1, TICKET_ATTEMPT, TICKET_ERRAND };

/* What delivery->ticket says, likewise. */
enum { DELIVERY_ATTEMPT = 0, DELIVERY_PROBE, DELIVERY_PASSAGE };

struct engine {
    struct engine_options options;
    struct store *store; /* for its epoch only, once open */
    struct id_maker ids;
    struct queue **queues; /* those that were dropped too, until they are retired */
    struct queue_mark *queue_marks;
    size_t queue_count, queue_room;
    struct attempt *attempts;
    struct waiter *waiters[WAITER_BUCKETS];
    struct callers waiting; /* the same, by exchange */
    size_t waiter_count, waiter_read_count;
    size_t away_count;                   /* of them, those whose task another node may have */
    size_t waiter_bucket, looking_count; /* among nodes: who is looked at next, how many are */
    struct host_table hosts;
    struct host_memory *host_memory; /* which of them failed lately; NULL: none */
    unsigned char hosts_secret[SIPHASH_SECRET_BYTES];
    struct {
        uint32_t now;                /* attempts at once over all queues, as it is allowed now */
        uint32_t busy_queues;        /* that something is under way of */
        uint64_t beside_count;       /* of all queues: in line for a host, without a place */
        struct queue *first, *last;  /* that wait for a place */
        uint32_t hungry_count;       /* of them */
        struct queue *served;        /* whose turn it is */
        int64_t rest_until_ms;       /* monotonic: until then nothing is sent */
        int64_t rest_ms, grow_at_ms; /* the last rest; monotonic: when more are allowed again */
        int64_t logged_ms;           /* monotonic; 0: never */
        uint64_t short_count;        /* since then */
    } places;                        /* see places.c */
    int64_t waiter_next_ms, stop_look_ms; /* monotonic: of inspect_tick; while it stops */
    int64_t horizon_ms;                   /* wall: what is due before this is in the schedules */
    uint64_t waiting_count;               /* in all queues */
    size_t dispatch_from;                 /* the queue that is looked at first: in turn */
    struct engine_stats stats;
    struct sums sums; /* of the log */
    struct host_tallies host_tallies;
    struct sums_budget fault_told, pass_told;
    uint64_t leases_wanted;  /* LEASE operations under way */
    struct attempt *unsaved; /* settles that the committer had no room for */
    struct attempt *busy;    /* records whose key another session has: see record_tick */
    struct errand *changes;  /* of queues, in line; the first one is under way */
    struct read *lists;      /* that callers wait for */
    struct walk *walks;
    struct run *runs;
    struct redrive *redrives;
    struct redrive_stop *redrive_stops; /* of redrives that peers have: callers who wait */
    bool is_reading_stops;
    struct queue *callbacks;    /* the queue that they go to; NULL: none */
    struct schedule leases;     /* of workers: when each is over */
    struct lease_grant *grants; /* asks of workers that are being answered */
    struct schedule probes;     /* unsettled tasks that are asked about: a hint, as all schedules */
    struct probe *probing;      /* probes under way */
    size_t probe_count;
    struct passage *passages; /* requests that are passed on, */
    struct callers passing;   /* the same, by exchange */
    size_t passage_count;
    size_t route_waiter_count;     /* duplicates that wait */
    struct cache *cache;           /* kept answers; NULL: none */
    struct forgotten *forgotten;   /* what peers may not know yet: forget.c */
    struct callers streams;        /* answers that are handed on, by exchange */
    struct called *unread_streams; /* those that no caller reads any more */
    struct {
        int64_t after_row;   /* where it goes on */
        int64_t next_at_ms;  /* monotonic */
        int64_t began_at_ms; /* likewise: of this round */
        size_t pending;      /* its read or operations under way */
        int64_t paged_at_ms; /* monotonic: the latest page */
        uint64_t live_seen;  /* records and attempts until then */
        int64_t tell_at_ms;  /* monotonic: before this nothing is said of ids that are ahead */
    } janitor;
    struct leftovers leftovers;
    struct gone gone;
    struct stranded_looks stranded;
    struct retired retired;
    struct {
        int64_t after_row;  /* where it goes on */
        int64_t next_at_ms; /* monotonic */
        size_t pending;     /* its read or operations under way */
        bool are_there;     /* some task has or may have one */
        int64_t from_ms;    /* of the sweep under way: deadlines before this are not asked for */
        int64_t begun_ms;   /* wall: when it began */
        int64_t swept_ms;   /* wall: the last one that ended began then */
        int64_t full_at_ms; /* monotonic: then one of all of them */
    } deadlines;
    struct nodes nodes;
    struct restored restored; /* of the store */
    bool is_half_restored;
    bool is_draining;
    bool is_loading;     /* a READ_DUE is under way */
    bool has_more_to_do; /* a round of dispatching was cut short */
};

/* engine.c */
int64_t engine_now_ms(const struct engine *engine);
struct queue *engine_find_queue(const struct engine *engine, struct span name);
struct queue *engine_queue_at(const struct engine *engine, uint32_t number);
struct queue *engine_install_queue(struct engine *engine, struct span name, struct arena *arena,
                                   const struct queue_settings *settings);
/* A task is there, is gone, or has moved from that state to what its life says. */
void engine_count_in(struct engine *engine, struct queue *queue, const struct life *life);
void engine_count_out(struct engine *engine, struct queue *queue, const struct life *life);
void engine_count_move(struct engine *engine, struct queue *queue, enum task_state from,
                       const struct life *life);
void engine_schedule(struct engine *engine, struct queue *queue, const struct life *life,
                     int64_t row);
uint32_t engine_task_flags(const struct queue_settings *settings);
struct schedule *engine_schedule_of(struct queue *queue, uint32_t flags);
void engine_follow_queue(struct engine *engine, const struct queue_row *row);
void engine_reply(struct engine *engine, const struct reply *reply);
void engine_log_fault(struct engine *engine, const char *what, int fault,
                      const struct error *error);
void engine_reply_fault(struct engine *engine, uint64_t exchange, uint32_t index,
                        const struct error *error);
int engine_policy(const struct engine *engine, const struct queue *queue, const struct task *task,
                  struct arena *arena, struct daruma_policy *ret_policy);

/* letters.c */
void letters_ask(struct engine *engine, const struct ask *ask);

/* leases.c */
void leases_ask(struct engine *engine, const struct ask *ask);
void leases_serve(struct engine *engine, struct queue *queue);
void leases_tick(struct engine *engine);
int64_t leases_next_ms(const struct engine *engine);
bool leases_leave(struct engine *engine, uint64_t exchange);
bool leases_note(struct engine *engine, int64_t until_ms, int64_t row);
void leases_watch(struct engine *engine, const struct op *op);
void leases_free_all(struct engine *engine);

/* lease_words.c */
void lease_words_ask(struct engine *engine, const struct ask *ask);
bool lease_expire(struct engine *engine, int64_t row);
void lease_bury(struct engine *engine, const struct op *leased);
void lease_return(struct engine *engine, const struct op *leased);

/* callback.c */
struct op *callback_make(struct engine *engine, const struct record *record, struct arena *arena);
void callback_born(struct engine *engine, const struct op *op);

/* route.c: what is special about a queue of the gateway */
void route_settle_judge(struct engine *engine, struct attempt *attempt,
                        struct judgement *ret_judgement);
int route_settle_answer(struct attempt *attempt);
/* Its header is too long for any caller: what is said in place of it is the same each time. */
struct route_untold {
    const struct route_settings *route;
    struct task_id id; /* row 0: none */
    struct span scope;
    int status; /* the upstream's */
    bool is_first, is_kept;
    bool is_free; /* its key is: another request with it is a new one */
};
bool route_is_untold(const struct record *record); /* it has an answer */
void route_say_untold(struct engine *engine, uint64_t exchange, const struct route_untold *untold);
void route_settled_by_hand(const struct queue *queue, struct life *life, int64_t now_ms);

/* replay.c: what callers of the gateway are told */
void replay_recorded(struct engine *engine, struct attempt *attempt);
void replay_found(struct engine *engine, struct attempt *attempt);
void replay_settled(struct engine *engine, struct attempt *attempt);
/* The log says it once: when the answer is written down. */
void replay_note_untold(struct engine *engine, struct queue *queue, const struct record *record);
void replay_ask(struct engine *engine, const struct ask *ask);
bool replay_is_over(const struct waiter *waiter, const struct record *record);
/* `stamp`: kept_stamp before the record was read or written. */
void replay_tell(struct engine *engine, const struct waiter *waiter, const struct record *record,
                 uint64_t stamp);
void replay_missing(struct engine *engine, uint64_t exchange);
void replay_stop(struct engine *engine, uint64_t exchange); /* recorded, and the server stops */

/* probe.c */
void probe_note(struct engine *engine, const struct life *life, int64_t row);
void probe_tick(struct engine *engine);
int64_t probe_next_ms(const struct engine *engine);
void probe_delivered(struct engine *engine, struct delivery *delivery);
void probe_free_all(struct engine *engine);

/* stream.c */
bool stream_is_untold(const struct delivery *delivery); /* an answer's header is too long */
void stream_passage(struct engine *engine, struct stream *stream, struct delivery *delivery,
                    uint64_t exchange, const struct route_settings *route);
void stream_head_written(struct engine *engine, struct attempt *attempt);
void stream_judge(struct engine *engine, struct attempt *attempt, struct judgement *ret_judgement);
void stream_end(struct engine *engine, struct delivery *delivery);
bool stream_leave(struct engine *engine, uint64_t exchange);
void stream_tick(struct engine *engine);             /* those that no caller reads come to an end */
int64_t stream_next_ms(const struct engine *engine); /* monotonic: INT64_MAX: there is none */
/* pass.c */
void pass_streamed(struct engine *engine, struct delivery *delivery);
bool pass_dismiss(struct engine *engine, uint64_t exchange); /* false: nothing passes for it */
struct stream *pass_stream(struct delivery *delivery);       /* of a passage's delivery */
struct arena *pass_arena(struct delivery *delivery);         /* likewise */
void pass_delivered(struct engine *engine, struct delivery *delivery);
void pass_free_all(struct engine *engine);

/* attempt.c */
struct attempt *attempt_new(struct engine *engine, struct queue *queue, struct arena *arena);
void attempt_free(struct engine *engine, struct attempt *attempt);
void attempt_take_slot(struct engine *engine, struct attempt *attempt);
void attempt_free_slot(struct engine *engine, struct attempt *attempt);

/* record.c */
void record_committed(struct engine *engine, struct attempt *attempt);
void record_tick(struct engine *engine);
int64_t record_wait_ms(const struct engine *engine); /* until it has something to do */

/* settle.c */
void settle_outcome(struct engine *engine, struct attempt *attempt);
void settle_tick(struct engine *engine);
void settle_committed(struct engine *engine, struct attempt *attempt);
void settle_follow(struct engine *engine, struct queue *queue, struct task_id id,
                   const struct op *op);
/* Why a task is where it is, as far as the log may tell: nothing of what a request or a worker said. */
struct settle_cause {
    uint32_t attempts;
    struct span host; /* of the target; empty: none was asked */
    int status;       /* 0: no answer came */
    struct span reason;
};
void settle_log(struct engine *engine, struct queue *queue, struct task_id id,
                const struct life *life, const struct settle_cause *cause);
void settle_log_empty(struct engine *engine, struct queue *queue);

/* numbers.c: what is counted, for metrics. No locks and no texts: these are on the way of every task. */
void numbers_request(struct engine *engine, const struct submission *in);
void numbers_key(struct engine *engine, const struct attempt *attempt);
void numbers_begun(struct engine *engine, struct queue *queue, int64_t late_ms);
void numbers_answered(struct engine *engine, const struct attempt *attempt);
void numbers_attempt(struct engine *engine, struct queue *queue, const struct op *op);
void numbers_ended(struct engine *engine, struct queue *queue, const struct op *op);
void numbers_closed(struct engine *engine, struct queue *queue, const struct life *life);
void numbers_view(const struct engine *engine, const struct queue *queue,
                  struct queue_view *ret_view);

/* manage.c */
void manage_ask(struct engine *engine, const struct ask *ask);
void manage_move(struct engine *engine, const struct ask *ask); /* RUN or CANCEL of one task */
void manage_free(struct engine *engine);
void manage_cleared(struct engine *engine, struct errand *change); /* see targets_clear */
/* Of a queue that was changed, made or looked at. */
void manage_reply_queue(struct engine *engine, const struct queue *queue, uint64_t exchange,
                        bool is_new);
void audit_fill(struct errand *errand, const struct ask *ask, const char *act);
struct errand *errand_new(struct engine *engine, enum op_kind kind);
void errand_free(struct errand *errand);
bool errand_start(struct engine *engine, struct errand *errand);

/* queues.c */
/* When the first of those that wait is due; INT64_MAX: none is known. */
int64_t queue_first_due_ms(const struct engine *engine, const struct queue *queue);
void queues_set_number(struct engine *engine, struct queue *queue, uint32_t number);
/* Is the row older than what this engine has of the queue? NULL: a queue that it does not have. */
bool queues_is_old(const struct queue *queue, const struct queue_row *row);
void queues_drop(struct engine *engine, struct queue *queue); /* the store has it as deleted */
bool queues_have_room(const struct engine *engine);
int queues_open(struct engine *engine, struct store *store, struct error *err);
void queues_free_all(struct engine *engine);

/* janitor.c */
void janitor_tick(struct engine *engine);
int64_t janitor_pause_ms(struct engine *engine, int64_t began_at_ms);

/* recover.c */
void recover_judge(struct engine *engine, struct op *op, struct trail_row *trail,
                   const struct record *record, struct arena *arena);
int recover_open(struct engine *engine, struct store *store, struct error *err);
void recover_load_due(struct engine *engine);

#include "engine/deadlines_internal.h"
#include "engine/flow_internal.h"
#include "engine/inspect_internal.h"
#include "engine/redrive_steps_internal.h"
#include "engine/runs_internal.h"
#include "engine/walk_internal.h"

#endif
