/* SPDX-License-Identifier: MIT
 *
 * store -- where tasks are kept: one table of verbs, several backends (memory, sqlite, json, and
 * later postgres). The contract is written at each member; tests/store_contract.c holds every
 * backend to it.
 *
 * Writes are operations. `apply` takes many: one transaction, one fsync, a result for each. Each
 * operation is conditional on what is stored at that moment, so two that compete have one winner
 * whoever sends them. A normal answer ("duplicate", "not waiting", "stale") is a result, never a
 * fault.
 *
 * Threads: apply and touch from one thread (the committer's); reads from one other thread at a time;
 * both at once. open, scan and close with no other thread about.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/arena.h"
#include "base/fault.h"
#include "base/handover.h"
#include "task/queue.h"
#include "task/task.h"

struct store;

/* --- operations ------------------------------------------------------------------------------ */

enum op_kind {
    OP_RECORD, /* a new task, in the state its life says. A row that another task has is a fault for
                * its batch; among nodes the task gets another row, which task.id then says */
    OP_LEASE,  /* WAITING -> RUNNING, counting the attempt (I5); of any task: see store_nodes. With
                * life.flags LIFE_FORCED only after RUN: NOT_DUE else, whatever its time */
    OP_SETTLE, /* RUNNING or UNSETTLED -> what the life says, for the holder of the fence (I2). Of a
                * RUNNING one with LIFE_OMITTED, only if the life that is brought has it as well */
    OP_CANCEL, /* WAITING -> CANCELLED */
    OP_RUN,    /* WAITING: due now, LIFE_FORCED */
    OP_PURGE,  /* forget a task that is neither RUNNING nor UNSETTLED */
    OP_QUEUE,  /* write a queue's row. One that drops the queue is alone in its batch */
    OP_EXTEND, /* RUNNING and LIFE_PULL: the lease is over later, for the holder of the fence */
    OP_EXPIRE, /* as SETTLE, if the lease is over by now: NOT_DUE when it was extended meanwhile; or
                 * of a WAITING task with that fence and round, class expired, if its deadline is over */
    OP_REDRIVE, /* DEAD -> WAITING in a new round, due now: attempts and classes from zero. The
                 * life brings deadline_at_ms and LIFE_LOW; with is_as_seen also fence and round,
                 * and then only that letter is meant, not one that died again later */
    OP_RESOLVE, /* DEAD -> FAILED, closed by a person; is_as_seen as REDRIVE */
    OP_IMPORT,  /* a whole task from another store, as it is: life, trail, answer, edit */
    OP_MEMO,    /* write or forget (empty value) a memo, on a condition, if there is one: see
                 * memo_condition; without a name: only its audit row */
    OP_BURY, /* settled -> GONE: only key, scope, fingerprint and life stay, and the key stays bound;
              * life.keep_until_ms is when it was to be kept until */
    OP_REVISE, /* WAITING -> what the life says, UNSETTLED or WAITING, if fence and round are as it says: of
                * a backup, in which things are not as they were left (store/restored_tasks.h) */
    OP_FIND, /* changes nothing: whose key task.queue, scope and key are, whatever its keeping time.
              * task.id is one that nobody has. DUPLICATE, or MISSING: nobody's */
};

enum op_result {
    RESULT_NONE = 0, /* not applied (yet) */
    RESULT_DONE,     /* recorded, leased, settled, cancelled, due, purged, written */
    /* RECORD: the key is bound to the same fingerprint; id and life are that one's. FIND: it is bound;
     * likewise. IMPORT: the row
     * is there already, whoever's it is. */
    RESULT_DUPLICATE,
    /* RECORD: the key is bound to another fingerprint (I3); id and life likewise. IMPORT: the key is
     * bound to another task, whatever its keeping time; id is that one's. */
    RESULT_CONFLICT,
    RESULT_GONE, /* RECORD: the key was bound to the same fingerprint, and what it came to is forgotten;
                  * id and life likewise */
    RESULT_NOT_WAITING, /* LEASE, CANCEL, RUN, REVISE: life is what was found; PURGE, BURY: it is busy */
    RESULT_NOT_DUE,   /* LEASE: due later, and no person has said RUN; EXPIRE: extended */
    RESULT_STALE,     /* SETTLE, EXTEND, EXPIRE: another fence, or it is settled already;
                         * REDRIVE with an epoch: that of a node that is gone; MEMO: its
                         * condition does not hold, and nothing was written */
    RESULT_NOT_DEAD,  /* REDRIVE, RESOLVE: life is what was found */
    RESULT_ANSWERED,  /* REDRIVE: a caller has this failure as the answer (I4) */
    RESULT_MISSING,   /* no such task; QUEUE: no such number, or that queue is dropped already */
    RESULT_NO_QUEUE,  /* RECORD, IMPORT, REDRIVE: the queue is dropped and takes no tasks */
    RESULT_NOT_EMPTY, /* QUEUE with only_if_empty: a task of it waits, runs or is unsettled */
};

/* A manual act, as it is kept: who did what to what. */
struct audit_row {
    int64_t number; /* given by the store, growing */
    int64_t at_ms;
    struct span who;          /* a token's name */
    struct span act;          /* run, cancel, redrive, resolve, settle, queue_put … */
    struct task_id task;      /* row 0: none */
    struct span subject;      /* the queue, or what else it was done to */
    int from_state, to_state; /* enum task_state; -1: none. Of a task: filled in by the store */
    struct span note;
};

/* Something that has to be known after a restart and is neither a task nor a queue: a bulk redrive
 * under way, a target that said it is gone. */
struct memo {
    struct span name;  /* 1 to STORE_MEMO_NAME_MAX bytes */
    struct span value; /* text */
};

/* When a MEMO is written: only while the memo `name`, this one or another, is there and has exactly that
 * value or, if none is given, a field `epoch` with one of those numbers: that of the node whose memo it is.
 * (A memo without the field has the epoch 0.) Several nodes write the same memos, and a write may be under
 * way for as long as its node is stopped: who has one is decided in the order of the commits. */
struct memo_condition {
    struct span name;
    struct span value;
    uint64_t epochs[2];
    bool is_forgotten; /* that memo is forgotten in the same commit */
};

#define STORE_MEMO_NAME_MAX 255
#define STORE_MEMO_OF_NODES                                                                        \
    "node-" /* how names begin of what nodes tell each other: not exported */
#define STORE_MEMO_LET_IN    STORE_MEMO_OF_NODES "let-in:" /* and a queue's name: see queue_row */
#define STORE_AUDIT_KEPT     100000 /* rows; json and memory keep STORE_AUDIT_KEPT_FEW */
#define STORE_AUDIT_KEPT_FEW 1000

/* A queue as it is stored. */
struct queue_row {
    uint32_t number; /* from 1, given by the store, never used again */
    struct span name;
    struct span settings; /* JSON in the shape of the configuration; empty: the file defines it */
    bool paused;
    bool dropped;        /* deleted: its number stays taken */
    uint32_t task_flags; /* LIFE_ONCE, LIFE_PULL: of its tasks, unless they say; kept by stores that
                            tasks get into behind our back, and shown by none */
    uint64_t version;    /* given by stores with nodes: raised by each change of the row */
    uint64_t let_in; /* likewise, where rows are read: the number in the memo STORE_MEMO_LET_IN of
                            its name, of the same moment; 0: there is none */
};

/* What a QUEUE leaves as it is, bits: others change queues too, and each change is about one thing. */
enum { QUEUE_KEEPS_PAUSED = 1, QUEUE_KEEPS_SETTINGS = 2 /* and task_flags */ };

/* One operation. The caller fills in what its kind asks for and keeps it alive until it is answered;
 * spans of the input live in `arena` or longer. Results are allocated in `arena`. */
struct op {
    struct handover_link link; /* for the committer; first */
    enum op_kind kind;
    int64_t now_ms;      /* wall clock: what "due" and "kept" are judged by */
    struct arena *arena; /* for results; may be NULL for kinds that give none */

    struct task task; /* RECORD: what to record. Others: task.id, see id_matches */
    struct life
        life; /* RECORD, SETTLE: the life to write. SETTLE compares life.fence and life.round
                         stays; fence, epoch, attempts and attempts_all are not taken from it,
                         and LIFE_EDITED, once set, stays */
    const struct trail_row *trail; /* SETTLE, EXPIRE, IMPORT, REVISE: appended, in this order */
    size_t trail_count;
    /* SETTLE, IMPORT: written; NULL: none. A store that has no room for all of it may leave out body
     * and headers of a SETTLE: then life.flags has LIFE_OMITTED afterwards */
    const struct answer *answer;
    const struct edit *edit; /* REDRIVE, RESOLVE, IMPORT: stands from now on; NULL: as it was */
    const struct audit_row *audit; /* any kind: kept with it when the result is DONE */
    struct op *spawn; /* SETTLE, EXPIRE: a RECORD that is born with it, when the result is DONE; its
                       * own result is in it. Not looked at otherwise */
    const struct task
        *lean;        /* RECORD that is spawned: what a store may record in place of `task` when
                              * it has no room for that, the same but for its body; NULL: nothing */
    struct memo memo; /* MEMO */
    const struct memo_condition *only_while; /* MEMO; NULL: in any case */
    uint64_t epoch;                          /* LEASE: whose lease it is */
    struct target_round targets; /* LEASE: of the queue, for LIFE_TARGETS; count 0: none */
    int64_t lease_until_ms;      /* LEASE of a pull task, EXTEND: when the lease is over; else 0 */
    int64_t lease_ms;            /* LEASE of a pull task: how long that is from now; else 0 */
    bool is_as_seen;             /* REDRIVE, RESOLVE: see there */
    bool uncounts;          /* SETTLE: the attempt is given back, it was no attempt at the task */
    bool is_unbegun;        /* and it was not even begun: its number is free again */
    bool reruns;            /* RECORD: a key past its keeping time is free, also of LIFE_ROUTE */
    bool releases_key;      /* SETTLE: the key is free from now on; IMPORT: it is not bound */
    struct queue_row queue; /* QUEUE: the row to write. Number 0: the one of that name that is not
                             * dropped, else a new one; a number that is not there, or whose
                             * queue is dropped: MISSING. DONE: number, paused and version are the row's */
    unsigned keeps;         /* QUEUE, of a row that is there: QUEUE_KEEPS_… */
    bool only_if_empty;     /* QUEUE that drops: else NOT_EMPTY, see rules_is_open */
    bool wants_request;     /* LEASE: task is to be filled in with the whole request */
    /* For the committer, when the commit is in doubt and the store does not come back. */
    bool
        is_patient; /* no caller waits for it: it is held, and applied again, until it is answered */
    bool is_kept;   /* a caller waits, and what is stored may be this process's to carry out: it is
                      * held until it is known whether it is there, and not applied again then */
    int is_unknown; /* atomic. is_kept, and it has been held for so long that the caller ought to be
                      * told that its fate is unknown. Set while the committer still has it */

    enum op_result result;
    int fault; /* when result is NONE: why; see apply */
    struct error error;
    /* Results. Whatever task was found: task.id (its tail too) and task.queue. RECORD, LEASE, CANCEL,
     * RUN, EXTEND, REDRIVE, RESOLVE, REVISE: life as it is now; PURGE: as it was. LEASE that wants the request: the whole task, and the edit. QUEUE: queue.number. */
    struct edit edited;        /* LEASE; parts 0: none */
    enum task_state was_state; /* of the task found, before */

    uint64_t ticket; /* the caller's own; never looked at */
    void *user;      /* likewise */
    uint64_t mark;   /* the store's own: 0 when it is submitted, left alone until it is answered */
};

/* --- reads ----------------------------------------------------------------------------------- */

/* What read_task fills in. Spans live in the arena that was given. */
struct record {
    struct task task;
    struct life life;
    struct answer answer;    /* status 0: none */
    struct edit edit;        /* parts 0 and an empty note: none */
    struct trail_row *trail; /* oldest first */
    size_t trail_count;
    bool is_bound; /* it has a key, and the key is still its own */
};

enum {
    READ_BODIES = 1, /* the request's body, the edit's and the answer's; else they are empty */
    READ_TRAIL = 2,
    READ_LATEST = 4, /* of the trail only the newest row */
};

/* The short form of a task that schedules and scans are made of. */
struct brief {
    int64_t row;
    int64_t due_at_ms;
    uint64_t epoch;
    uint32_t queue;
    uint32_t flags;
    enum task_state state;
    int64_t failed_at_ms; /* scan, of DEAD: as in the life; else it may be 0 */
};

/* Return non-zero to stop; the reader passes it up. */
typedef int (*store_brief_fn)(void *user, const struct brief *brief);
typedef int (*store_record_fn)(void *user, const struct record *record);
typedef int (*store_queue_fn)(void *user, const struct queue_row *queue);
typedef int (*store_audit_fn)(void *user, const struct audit_row *row);
typedef int (*store_memo_fn)(void *user, const struct memo *memo);

#define STORE_ALL_STATES    ((1u << TASK_STATE_COUNT) - 1)
#define STORE_LIST_SCAN_MAX 20000 /* rows looked at for one page; a short page goes on with next */

/* `scan_max` of a filter: so many rows are looked at, for those who have others to serve in between.
 * 0, or more than that: STORE_LIST_SCAN_MAX. */

struct store_filter {
    uint32_t queue;    /* 0: all */
    unsigned states;   /* bits, 1 << state */
    int64_t after_row; /* only rows above this */
    size_t limit;
    size_t
        bytes_max; /* the page ends with the record that takes the arena so far beyond what was in
                       * it; 0: no bound. One record is shown, however large it is */
    const int64_t *queues; /* only tasks of one of these; NULL: of any */
    size_t queue_count;
    struct span key, scope;                  /* empty: any */
    struct span label_name, label_value;     /* empty name: any */
    uint32_t flags;                          /* of the life: all of these are set */
    uint32_t failed_class;                   /* as in the life; 0: any */
    int64_t failed_from_ms, failed_until_ms; /* LIFE_LETTER: from <= failed_at < until; 0: any */
    int64_t deadline_until_ms; /* has a deadline, before this; 0: any. With WAITING alone */
    int64_t deadline_from_ms;  /* with it: earlier ones are not wanted, and may come all the same */
    unsigned wants;            /* READ_LATEST or 0 */
    size_t scan_max; /* a way that finds what is wanted without looking at others has none */
};

struct audit_filter {
    int64_t after_number; /* only rows above this */
    size_t limit;
    int64_t task_row;              /* 0: any */
    struct span who, act, subject; /* empty: any */
    int64_t from_ms, until_ms;     /* from <= at < until; 0: any */
    size_t scan_max;               /* a store whose acts are looked through in no time has none */
};

/* --- the table ------------------------------------------------------------------------------- */

/* How long what has ended is kept: the window in which a key is still bound. Milliseconds. */
struct store_keep {
    int64_t succeeded_ms, failed_ms, cancelled_ms;
    int64_t tombstones_ms; /* LIFE_ROUTE: from then on, how long its key is still known */
};

struct store_options {
    struct span location; /* what stands behind the colon in `store:` */
    struct store_keep keep;
    bool is_reader; /* see store_open_to_read */
    bool is_import; /* see store_open_to_import */
};

struct store_ops {
    const char *name; /* as in the configuration: memory, json, sqlite */

    /* One transaction for all of them, in order; an operation sees what those before it did. At most
     * one operation of a batch touches any task or key, and a QUEUE that drops is alone in it (the
     * committer sees to both), so a backend may group them. A lease of whatever is due (see
     * store_nodes) is about no task yet: the backend sees to it that such a lease is never given a task
     * that another operation of the batch is about. Whether a queue takes a task or is dropped is
     * decided here, in one order for all who use the store.
     * Returns 0 when it is on stable storage: every op has a result. FAULT_UNKNOWN: the
     * commit itself failed and may or may not be found after a restart, unless a later commit
     * succeeds, after which it certainly is not there. Any other fault: certainly nothing happened;
     * FAULT_FULL when it is for want of room, FAULT_LOST when the store cannot be used any more. On a
     * fault every result is NONE, and what memory the store keeps beside the file is as before. */
    int (*apply)(struct store *store, struct op *ops[], size_t count, struct error *err);

    /* A commit that changes nothing anyone can see. Faults as apply. */
    int (*touch)(struct store *store, struct error *err);

    /* After a touch that worked: an operation whose batch had ended in FAULT_UNKNOWN. True: the batch
     * was committed after all, and the operation has its results. False: it certainly is not there,
     * which is so on every store whose failed commits do not outlive the next one that works. */
    bool (*recall)(struct store *store, struct op *op);

    /* 0 and *ret_found (see id_matches); the record is complete but for what `wants` leaves out. */
    int (*read_task)(struct store *store, struct task_id id, unsigned wants, struct arena *arena,
                     struct record *ret_record, bool *ret_found, struct error *err);

    /* A page in order of creation, without bodies and trails. *ret_next: the row to go on after, 0
     * when there is no more. Looks at `scan_max` rows at most. The records handed over live in
     * `arena`; those that the filter does not want leave nothing there. */
    int (*list)(struct store *store, const struct store_filter *filter, struct arena *arena,
                store_record_fn visit, void *user, int64_t *ret_next, struct error *err);

    /* Every WAITING task with from_ms <= due < until_ms, in any order. Committed state. */
    int (*due)(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
               void *user, struct error *err);

    /* Every task there is, by row. At start, before anything else runs. */
    int (*scan)(struct store *store, store_brief_fn visit, void *user, struct error *err);

    int (*queues)(struct store *store, store_queue_fn visit, void *user, struct error *err);

    /* A page of what people did, oldest first. *ret_next as list. What is beyond the number of rows
     * kept goes, oldest first. */
    int (*audit)(struct store *store, const struct audit_filter *filter, struct arena *arena,
                 store_audit_fn visit, void *user, int64_t *ret_next, struct error *err);

    /* Every memo. At start, before anything else runs. */
    int (*memos)(struct store *store, store_memo_fn visit, void *user, struct error *err);

    /* Bytes that the store may still grow by; INT64_MAX when nothing bounds it. */
    int64_t (*room_bytes)(struct store *store);

    void (*close)(struct store *store);
};

/* --- many nodes on one store ----------------------------------------------------------------- */

#define STORE_NODE_LEASE_MS 10000
#define STORE_WRITERS       2 /* of a store that can have several */
#define STORE_WRITERS_MAX   8
#define STORE_BEAT_MS       1000 /* between two beats, or a tenth of the lease if that is less */
#define STORE_BEAT_DUE_MAX  512  /* due tasks that are counted for one queue and kind */
#define STORE_BEAT_ROWS_MAX 256  /* orphans and overdue ones that are told at once */

/* Tasks of one queue that wait: for whom, how many are due, when the next one is. */
struct beat_hint {
    uint32_t queue;
    uint32_t flags;     /* of their lives: LIFE_FORCED, LIFE_LOW, LIFE_PULL or 0 */
    uint32_t due_count; /* at most STORE_BEAT_DUE_MAX */
    int64_t next_ms;    /* INT64_MAX: nothing waits for a later moment */
};

/* A task that runs under the epoch of a node that is gone. By the time that it is looked at, another
 * node may have recovered it and be running it: then the epoch is another one. */
struct orphan {
    int64_t row;
    uint64_t epoch;
};

/* What a node sees when it looks around. Arrays live in the arena that was given. */
struct beat {
    bool is_fresh;       /* this node's own counter was raised: the rest is set as well */
    uint64_t epoch;      /* to lease in: another one after peers took this node for dead */
    int64_t slot;        /* of the ids that it may make, see id_maker */
    int64_t begun_ms;    /* monotonic: its lease runs from here */
    int64_t server_ms;   /* what the server's clock said */
    int64_t seen_ms;     /* monotonic: when that was here. Later than it was said, never earlier */
    uint32_t node_count; /* live ones, this one included */
    uint32_t place;      /* of this one among them, from 0 */
    bool has_settled_in; /* every peer has seen this node: it may take its share */
    bool has_duty;       /* of all nodes this one purges, redrives and recovers */
    bool has_lost_peer;  /* one was taken for dead */
    /* All queues, dropped ones too, when they are not what the engine has followed: it makes its own
     * so and gives the serial back (see struct node_wish). 0: there is nothing new. A beat that raises
     * the counter in another epoch never lacks what is new. */
    uint64_t queues_serial;
    struct queue_row *queues;
    size_t queue_count;
    uint64_t queues_version; /* the sum of them */
    struct beat_hint *hints;
    size_t hint_count;
    struct orphan *orphans; /* running, and their node is gone */
    size_t orphan_count;
    int64_t *overdue; /* leased by workers, and the lease is over */
    size_t overdue_count;
    int64_t *unprobed; /* unsettled, and the target should have been asked */
    size_t unprobed_count;
    uint64_t *live; /* the epochs of all nodes */
    size_t live_count;
    uint64_t told; /* see struct node_wish */
    /* Rows of tasks that came to an end, or into doubt, or are gone, as peers have said: see awaits.
     * Some are not said, and some that are said this node has done itself. */
    int64_t *moved;
    size_t moved_count;
    bool has_moved_more; /* and others */
    bool is_word;        /* it ends before its time for what it says: there was one a moment ago */
    struct span
        upkeep_trouble; /* what keeps failing of what this node does for all; at NULL: nothing */
};

/* What this node's engine wants its peers to know, or of them. */
struct node_wish {
    /* It counts up. A beat tells the same number once every node knows what was forgotten (see struct
     * store) and which queues were changed before it was asked for, or is gone. */
    uint64_t asked;
    /* The latest serial whose queues this node's engine has followed. */
    uint64_t followed;
    /* Callers wait here for tasks that peers may settle: they are to say so when they do. */
    bool awaits;
};

/* How many tasks of a queue are in a state. */
struct state_count {
    uint32_t queue;
    enum task_state state;
    uint64_t count;
    /* Of DEAD: when the one failed that has been so for the longest time. Of WAITING: when the first
     * one is due. 0 for the others. */
    int64_t oldest_ms;
    uint64_t due_count; /* of WAITING: whose time has come, by the server's clock */
};

typedef int (*store_count_fn)(void *user, const struct state_count *count);

/* Where a task is in its life: enough to see whether it has come to an outcome since it was last seen. */
struct fate {
    bool is_found;
    enum task_state state;
    uint32_t attempts, round; /* as in the life */
};

/* Of which tasks. */
struct fate_question {
    const int64_t *rows;
    size_t count;
};

/* `index`: the place of the task's row in the question. */
typedef int (*store_fate_fn)(void *user, size_t index, const struct fate *fate);

/* What a store that others use at the same time can do besides. There is no OP_LEASE by row then but
 * for those who know the row: task.id.row 0 asks for whatever is due in task.queue, of the kind that
 * life.flags says (as in a hint), by the server's clock. MISSING: nothing is. */
struct store_nodes {
    /* Waits up to wait_ms for a peer's word, then looks around; raises this node's counter when it is
     * time. From a thread of its own. A fault: nothing is known, and the lease goes on running out. */
    int (*beat)(struct store *store, int64_t wait_ms, struct arena *arena, struct beat *ret_beat,
                struct error *err);
    /* How many tasks there are, by queue and state: looks at all of them. Beside the other reads, from
     * a thread of its own. */
    int (*counts)(struct store *store, store_count_fn visit, void *user, struct error *err);
    /* What has become of these tasks, in any order; those that are gone are left out. Likewise. */
    int (*fates)(struct store *store, const struct fate_question *question, store_fate_fn visit,
                 void *user, struct error *err);
    /* From any thread, without waiting: a beat that waits ends, and the next one looks at the wish. */
    void (*nudge)(struct store *store, const struct node_wish *wish);
};

/* First in every backend's own struct. */
struct store {
    const struct store_ops *ops;
    const struct store_nodes *nodes; /* NULL: this process is alone with it */
    uint64_t epoch;   /* raised durably by each open: a lease of an earlier epoch is nobody's */
    int64_t last_row; /* atomic: the largest row there ever was, as far as is stored */
    int64_t slot;     /* with nodes: of the ids that this one may make */
    int64_t node_lease_ms; /* with nodes: may be changed before the first beat */
    /* With nodes, atomic: another number each time that a key may have been forgotten before its keeping
     * time was over, by any node, or by other means. It is changed by a beat, before peers can see that
     * this node knows, and before that beat renews the node's lease. 0: it is not known. */
    uint64_t forgotten;
    /* With nodes, atomic: bytes that it takes on the disk of its server, as of a minute ago at most
     * while it is counted (see counts). 0: not known. */
    int64_t bytes;
    /* Those that can be applied to and touched at the same time, each by one thread: only these two
     * verbs are theirs. 0: the store itself is the only one. May be lowered, or raised to
     * STORE_WRITERS_MAX, before anybody uses them. */
    size_t writer_count;
    struct store *writers[STORE_WRITERS_MAX];
    bool is_reader; /* see store_open_to_read */
};

/* Opens what `spec` names: memory | json:PATH | sqlite:PATH. Creates what is missing, refuses what
 * is damaged or already open, and never overwrites it. */
int store_open(struct span spec, const struct store_keep *keep, struct store **ret_store,
               struct error *err) __attribute__((warn_unused_result));
/* The same to look at it only, also beside a server that has it open: nothing is created, changed or
 * locked, no peer is joined, and apply and touch refuse. What is read is as it was at the moment of
 * each page. */
int store_open_to_read(struct span spec, struct store **ret_store, struct error *err)
    __attribute__((warn_unused_result));
/* To write with OP_IMPORT, OP_QUEUE, OP_MEMO and OP_ACT only, for a program that takes no part in the
 * work: among nodes it is none, and what it imports as running is nobody's. */
int store_open_to_import(struct span spec, struct store **ret_store, struct error *err)
    __attribute__((warn_unused_result));
void store_close(struct store *store); /* NULL is fine */

/* Bytes of a store on the disk. */
struct store_sizes {
    int64_t before, after;
};

/* Writes it anew as small as it can be. Nobody may have it open. FAULT_INPUT: it is of a kind that has
 * nothing to gain. On a fault it is as it was. */
int store_compact(struct span spec, struct store_sizes *ret_sizes, struct error *err)
    __attribute__((warn_unused_result));

int store_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
    __attribute__((warn_unused_result));
/* For those who have no committer and nobody waiting, as at start: a step is taken again while what it
 * needs is held by another session (FAULT_BUSY, FAULT_HELD), seconds long. */
int store_in_turn(int (*step)(void *user, struct error *err), void *user, struct error *err)
    __attribute__((warn_unused_result));
/* store_apply, in turn. */
int store_apply_patiently(struct store *store, struct op *ops[], size_t count, struct error *err)
    __attribute__((warn_unused_result));
int store_touch(struct store *store, struct error *err) __attribute__((warn_unused_result));
bool store_recall(struct store *store, struct op *op) __attribute__((warn_unused_result));
size_t store_writer_count(const struct store *store); /* 1 or more */
struct store *store_writer(struct store *store, size_t index);
int store_read_task(struct store *store, struct task_id id, unsigned wants, struct arena *arena,
                    struct record *ret_record, bool *ret_found, struct error *err)
    __attribute__((warn_unused_result));
int store_list(struct store *store, const struct store_filter *filter, struct arena *arena,
               store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
    __attribute__((warn_unused_result));
int store_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
              void *user, struct error *err) __attribute__((warn_unused_result));
int store_scan(struct store *store, store_brief_fn visit, void *user, struct error *err)
    __attribute__((warn_unused_result));
int store_queues(struct store *store, store_queue_fn visit, void *user, struct error *err)
    __attribute__((warn_unused_result));
int store_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                store_audit_fn visit, void *user, int64_t *ret_next, struct error *err)
    __attribute__((warn_unused_result));
int store_memos(struct store *store, store_memo_fn visit, void *user, struct error *err)
    __attribute__((warn_unused_result));
int64_t store_room_bytes(struct store *store);
int store_beat(struct store *store, int64_t wait_ms, struct arena *arena, struct beat *ret_beat,
               struct error *err) __attribute__((warn_unused_result));
int store_counts(struct store *store, store_count_fn visit, void *user, struct error *err)
    __attribute__((warn_unused_result));
int store_fates(struct store *store, const struct fate_question *question, store_fate_fn visit,
                void *user, struct error *err) __attribute__((warn_unused_result));
void store_nudge(struct store *store, const struct node_wish *wish);

/* For the backends: `recall` of one whose failed commits are never found later. */
bool store_recalls_nothing(struct store *store, struct op *op);

/* For the backends: the largest row, after a batch that was committed. */
void store_note_rows(struct store *store, struct op *ops[], size_t count);

/* The backends; each opens with store_options. One line in the table of store.c each. */
int store_memory_open(const struct store_options *options, struct store **ret_store,
                      struct error *err);
int store_json_open(const struct store_options *options, struct store **ret_store,
                    struct error *err);
int store_sqlite_open(const struct store_options *options, struct store **ret_store,
                      struct error *err);
int store_sqlite_compact(struct span location, struct store_sizes *ret_sizes, struct error *err);
int store_postgres_open(const struct store_options *options, struct store **ret_store,
                        struct error *err);

#endif
