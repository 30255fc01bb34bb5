/* SPDX-License-Identifier: MIT
 *
 * store_postgres_internal -- shared by the files of the PostgreSQL store only; nobody else names its
 * driver.
 *
 *   store_postgres.c         open, close, the table of verbs
 *   store_postgres_link.c    a connection: connecting again, statements, what an error means
 *   store_postgres_schema.c  versions, how to change them; store_postgres_steps.c: their SQL;
 *                            store_postgres_older.c: what it asks of nodes of the release before
 *   store_postgres_sheet.c   parameters: a column of a batch is one array
 *   store_postgres_row.c     rows of results as structs
 *   store_postgres_bundle.c  what a batch needs while it is under way
 *   store_postgres_apply.c   a batch: look, decide by rules.c, write, commit
 *   store_postgres_keys.c    what a record does to keys
 *   store_postgres_queues.c  whether a queue takes a task or is dropped
 *   store_postgres_claim.c   leases of whatever is due, for many nodes at once
 *   store_postgres_write.c   what is written for each operation
 *   store_postgres_doubt.c   a commit whose answer was lost is looked up
 *   store_postgres_read.c    reads of tasks; store_postgres_list.c: pages and walks
 *   store_postgres_beat.c    this node and its peers
 *   store_postgres_word.c    what peers and the engine say to the thread that beats
 *   store_postgres_moved.c   what peers hear of the tasks that this node settles
 *   store_postgres_known.c   which node knows what was forgotten; store_postgres_forgotten.c: its SQL
 *   store_postgres_follow.c  which node knows how the queues were changed
 */
#ifndef STORE_STORE_POSTGRES_INTERNAL_H
#define STORE_STORE_POSTGRES_INTERNAL_H

#include "base/buf.h"
#include "store/number_set.h"
#include "store/peers.h"
#include "store/stage.h"
#include "store/store.h"
#include "store/store_postgres_sql.h"

#include <libpq-fe.h>
#include <pthread.h>

#define LOCK_WAIT_MS      50   /* for a row or a key that somebody else holds; then one by one */
#define PULSE_MS          5000 /* the longest statement of a beat */
#define CONNECT_SECONDS   "5"
#define SHEET_BYTES_MAX   ((size_t)512 << 20)
#define SHEET_COLUMNS_MAX 26
#define KEY_HASH_BYTES    16
#define LOOKUP_WAIT_MS    1000 /* for the server to come back after a commit without an answer */
#define CLAIMS_AT_ONCE    16   /* queues and lanes in one round trip */
#define CLAIM_MARKS_MAX   256
#define NOTIFY_EVERY_MS   50
#define DOUBTS_MAX        64
#define NUMBER_BITS       40 /* of a batch's number; above: its writer */

/* Locks that nodes take by number: the high bits say what for, the low ones which. */
#define LOCK_MIGRATE INT64_C(0x6461727500000001)
#define LOCK_DUTY    INT64_C(0x6461727500000002)
#define LOCK_QUEUES  INT64_C(0x6461727500000003)
#define LOCK_AUDIT   INT64_C(0x6461727500000004)
#define LOCK_NODES   INT64_C(0x6461727500000005)
#define LOCK_EPOCH   INT64_C(0x6461000000000000) /* + the epoch: shared by its batches */
#define LOCK_QUEUE                                                                                 \
    INT64_C(0x6461727600000000) /* + number % LOCK_QUEUE_COUNT: shared by whoever
                                                    brings a task into it, else whoever drops it */
#define LOCK_QUEUE_COUNT                                                                           \
    256 /* the server's room for locks is bounded; daruma.open_queue has it too */

/* A setting of a session that takes the locks of queues: "on". See store_postgres_older.c. */
#define SESSION_LOCKS "daruma.queue_locks"

#define CHANNEL_READY                                                                              \
    "daruma_ready" /* something is due now, and the node that says so has no room */
#define CHANNEL_FORGOTTEN "daruma_forgotten" /* the number of that name in meta was raised */
/* Rows of tasks that peers may be waiting for, in decimal; MOVED_MANY: any; MOVED_LOOK: a node waits
 * for such words from now on. */
#define CHANNEL_MOVED "daruma_moved"
#define MOVED_MANY    "*"
#define MOVED_LOOK    "?"
#define MOVED_MAX     256 /* rows in one word, which the server wants to be less than 8000 bytes */

/* --- statements ------------------------------------------------------------------------------ */

enum statement {
#define STATEMENT_ENUM(name, parameters, sql) STATEMENT_##name,
    STATEMENT_MAP(STATEMENT_ENUM)
#undef STATEMENT_ENUM
        STATEMENT_COUNT
};

/* The parameters of one statement: a column each, as an array of as many values as there are rows;
 * or, when it is `plain`, one value each. The first failure is kept and told when it is run. */
struct column {
    struct buf bytes;
    uint32_t type; /* of PostgreSQL; 0: nothing was put yet */
    int32_t count;
    bool has_null;
};

struct sheet {
    struct column columns[SHEET_COLUMNS_MAX];
    size_t at; /* the column that the next value goes to */
    size_t rows;
    bool is_plain;
    int fault;
};

void sheet_row(struct sheet *sheet); /* begins a row */
void sheet_int(struct sheet *sheet, int64_t value);
void sheet_int_or_null(struct sheet *sheet, int64_t value); /* 0: NULL */
void sheet_bytes(struct sheet *sheet, struct span value);
void sheet_null_bytes(struct sheet *sheet);
void sheet_ids(struct sheet *sheet, const int64_t *rows, size_t count); /* plain: one bigint[] */
/* For the driver: what was put, binary. */
int sheet_parameters(struct sheet *sheet, const char *ret_values[], int ret_lengths[]);
void sheet_clear(struct sheet *sheet); /* no rows; memory kept */
void sheet_done(struct sheet *sheet);

/* --- connections ----------------------------------------------------------------------------- */

/* A connection that comes back: lost, it is tried again by the library's own backoff, and until then
 * whoever wants it is told at once. Belongs to one thread. */
struct link {
    const char *url; /* the store's: it may hold a password and is never shown */
    const char *setup;
    int64_t *reached_ms; /* atomic, monotonic: when any link of the store last got through */
    PGconn *connection;
    bool prepared[STATEMENT_COUNT];
    uint32_t failures;    /* in a row */
    int64_t failed_at_ms; /* monotonic: the last try */
    int64_t next_try_ms;  /* likewise */
    uint64_t connections; /* that were made: a number for each */
    bool is_row_taken;    /* what was run last failed because a life has that row already */
};

/* One statement of several that are sent together. */
struct step {
    enum statement statement;
    struct sheet *sheet; /* NULL: no parameters */
    PGresult *result;    /* for the caller to clear; NULL when the steps failed */
};

/* 0: it is up. Else FAULT_IO, at once when its next try is not yet due. */
int link_open(struct link *link, struct error *err);
void link_drop(struct link *link);
bool link_is_up(const struct link *link);
/* All steps in one go. A fault: no result is left, and the connection is out of any transaction, or
 * dropped. FAULT_UNKNOWN: it was lost, and what was sent may have been done. */
int link_run(struct link *link, struct step *steps, size_t count, struct error *err);
/* The same for reads: a connection that was lost meanwhile is made anew, once. FAULT_IO then. */
int link_read(struct link *link, struct step *steps, size_t count, struct error *err);
int link_exec(struct link *link, const char *sql, struct error *err); /* text without parameters */
/* The one number that a query gives; *ret_number is left alone when it gives none. */
int link_number(struct link *link, const char *sql, int64_t *ret_number, struct error *err);
int link_fault(const struct link *link, const PGresult *result, struct error *err);
void steps_clear(struct step *steps, size_t count);

/* --- rows ------------------------------------------------------------------------------------ */

/* A life as it is stored. */
struct life_row {
    struct task_id id;
    uint32_t queue;
    bool is_bound;
    unsigned char key_hash[KEY_HASH_BYTES];
    uint32_t trail_count;
    bool has_answer, has_edit;
    struct life life;
};

struct cell {
    const PGresult *result;
    int row;
};

int64_t cell_int(struct cell cell, int column);
struct span cell_span(struct cell cell, int column); /* lives as the result */
bool cell_is_null(struct cell cell, int column);
uint64_t cell_let_in(struct cell cell, int column); /* of a queue: 0: there is none */
/* From LIFE_COLUMNS, beginning at `first`. FAULT_CORRUPT for what nobody has written. */
int cell_life(struct cell cell, int first, struct life_row *ret_life, struct error *err);
/* From TASK_COLUMNS; copied to the arena. */
int cell_task(struct cell cell, int first, struct arena *arena, struct task *ret_task,
              struct error *err);
int cell_edit(struct cell cell, int first, struct arena *arena, struct edit *ret_edit,
              struct error *err);
int cell_trail(struct cell cell, int first, struct arena *arena, struct trail_row *ret_trail,
               struct error *err);
int cell_copy(struct cell cell, int column, struct arena *arena, struct span *ret_span,
              struct error *err);

void sheet_life(struct sheet *sheet, const struct life_row *row);     /* LIFE_COLUMNS */
void sheet_task(struct sheet *sheet, const struct task *task);        /* id, TASK_COLUMNS, body */
void sheet_trail(struct sheet *sheet, const struct trail_row *trail); /* TRAIL_COLUMNS */

/* --- the store ------------------------------------------------------------------------------- */

/* How far the due tasks of a queue have been claimed: claims go on from there, so that they do not
 * walk again and again over what was claimed already and cannot be vacuumed yet. */
struct claim_mark {
    uint32_t queue;
    int lane;
    int64_t due_ms, row;
    uint32_t claims; /* since the last sweep from the start */
    int64_t swept_at_ms;
    bool is_short; /* the last claim got less than it asked for */
};

/* A batch whose commit was not answered: what its operations have come to if it is there. */
struct doubt {
    int64_t number; /* of the batch; 0: none */
    uint64_t epoch;
    struct stage stage;          /* of the batch */
    size_t count;                /* operations of it */
    bool is_known, is_committed; /* it was looked up; it was found */
};

/* A connection that writes, and what its batches need. Belongs to the thread that applies with it. */
struct writer {
    struct store base; /* apply and touch only */
    struct store_postgres *postgres;
    struct link link;
    struct stage stage;
    struct bundle *bundle;           /* NULL: not used yet */
    struct doubt doubts[DOUBTS_MAX]; /* the latest ones */
    size_t doubt_next;
    int64_t first_number;    /* its batches are numbered from here, and no other writer's */
    int64_t batch_number;    /* the latest */
    int64_t answered_number; /* atomic: up to here every batch is known to be there or not */
    int64_t folded_number;   /* the beating thread's: batches up to here are one row */
    struct claim_mark marks[CLAIM_MARKS_MAX];
    size_t mark_count;
};

/* Rows of tasks that have moved. */
struct moved {
    int64_t rows[MOVED_MAX];
    size_t count;
    bool has_more; /* than there is room for */
};

struct store_postgres {
    struct store base;
    struct store_keep keep;
    char *url;
    uint64_t epoch;         /* atomic: the beat may have to take a new one */
    uint64_t epoch_first;   /* the first this process had */
    int64_t slot;           /* atomic: see id_maker */
    uint32_t peers;         /* atomic: live nodes but for this one */
    int64_t reached_ms;     /* atomic: see link */
    int64_t notified_at_ms; /* atomic */
    struct writer writers[STORE_WRITERS_MAX];

    /* What this node has settled and peers are to hear of: behind the lock. */
    pthread_mutex_t moved_lock;
    struct moved moved;
    int64_t moved_at_ms; /* the beating thread's, monotonic: when the last word was said */

    /* The reading thread's. */
    struct link reader;

    /* The counting thread's: a count takes as long as there are tasks, and nothing else waits for it. */
    struct link counter;
    int64_t measured_at_ms; /* monotonic: when its size was last asked for; 0: never */

    /* The beating thread's. */
    struct link pulse;
    uint64_t pulse_connection; /* the one that listens and may have the duty */
    struct peers watched;
    int64_t beaten_at_ms; /* monotonic; 0: not yet */
    bool has_duty;
    int nudges[2];  /* a pipe: a byte in it ends a wait for words; -1: there is none */
    uint64_t asked; /* atomic: see struct node_wish, as the next two */
    uint64_t followed;
    int awaits;
    int is_awaited;     /* atomic: some peer awaits */
    struct moved heard; /* from peers, not told yet */
    int64_t idle_at_ms; /* monotonic: when a beat last ended without a word */
    struct {
        uint64_t version;    /* of meta, as last seen */
        uint64_t connection; /* by this one */
        uint64_t count;      /* of changes: what is published */
        bool is_off;         /* a node is there that says nothing to others of what it forgets */
        uint64_t written;    /* the version that this node's row has; valid in that epoch */
        bool awaits;         /* likewise */
        uint64_t epoch;
        uint64_t asked, wanted; /* told next, when all nodes have that version; 0: nothing is */
        uint64_t told;
    } forgotten;
    struct {
        uint64_t seen;       /* the version of all queues, as last seen */
        uint64_t serial;     /* of what the engine was given last */
        uint64_t version;    /* likewise: its version */
        uint64_t connection; /* likewise: it was read by this one */
        uint64_t known;      /* the version that the engine has followed; 0: none, or not known */
        uint64_t written;    /* the one that this node's row has */
        uint64_t wanted;     /* as forgotten.wanted */
    } queues;
    struct upkeep {
        int64_t next_ms;      /* monotonic: of the next round */
        size_t duty;          /* of this round, the next */
        bool has_failed;      /* one of this round has */
        struct error trouble; /* then: why */
        uint32_t failures;    /* rounds in a row */
        int64_t remains_row;  /* how far what purged tasks left has been looked for */
    } upkeep;
};

/* --- a batch --------------------------------------------------------------------------------- */

/* A record, and what became of its key. */
struct recording {
    const struct op *op;
    struct staged *staged;
    bool has_hash;     /* the key is bound to it, as far as this transaction goes */
    bool is_found;     /* it was bound to another one */
    bool has_no_queue; /* the queue is dropped: nothing of it stays */
    unsigned char hash[KEY_HASH_BYTES];
    struct life_row bound;
    unsigned char fingerprint[TASK_FINGERPRINT_BYTES]; /* of that one */
};

struct bundle {
    struct writer *writer;
    struct op **ops;
    size_t count;
    uint64_t epoch;
    bool is_alive;          /* no peer has taken this node for dead */
    struct life_row *lives; /* by id: those that operations are about */
    size_t life_count, life_room;
    struct recording *records; /* those that are born with settles last */
    size_t record_count, record_room;
    struct number_set queues;  /* that tasks are brought into: locked against being dropped */
    struct number_set dropped; /* of these, those that are dropped already */
    int64_t *held;             /* leased in this batch */
    size_t held_count, held_room;
    struct step *steps; /* of the round trip under way */
    size_t step_count, step_room;
    int64_t purged_row; /* the largest */
    bool has_due_now;   /* work for whoever has room */
    struct sheet sheets[STATEMENT_COUNT];
    struct sheet claims[CLAIMS_AT_ONCE];
};

/* store_postgres_apply.c */
int writer_apply(struct store *store, struct op *ops[], size_t count, struct error *err);

/* store_postgres_bundle.c */
struct bundle *bundle_new(void); /* NULL: out of memory */
void bundle_begin(struct bundle *bundle, struct writer *writer, struct op *ops[],
                  size_t count); /* as new */
/* Room for one more; false: out of memory. */
bool bundle_has_room(void **array, size_t *room, size_t count, size_t size);
void bundle_free(struct bundle *bundle);
int bundle_step(struct bundle *bundle, enum statement statement, struct sheet *sheet);
int bundle_run(struct bundle *bundle, struct error *err); /* all steps; their results stay */
void bundle_clear_steps(struct bundle *bundle);
const PGresult *bundle_result(const struct bundle *bundle,
                              enum statement statement);                     /* NULL: none */
struct sheet *bundle_plain(struct bundle *bundle, enum statement statement); /* emptied */
const struct life_row *bundle_life(const struct bundle *bundle, int64_t row);
/* A lease in the name of an epoch that was this process's and is no more would be nobody's (I2). */
bool bundle_is_outlived(const struct bundle *bundle, uint64_t epoch);

/* store_postgres_keys.c: of records that have a key. */
int bundle_keys_ask(struct bundle *bundle, struct recording *records,
                    size_t count); /* adds steps */
int bundle_keys_read(struct bundle *bundle, struct recording *records, size_t count,
                     struct error *err);
/* Keys whose keeping time is over go to the new task: a round trip, if there are any. */
int bundle_keys_take(struct bundle *bundle, struct recording *records, size_t count,
                     struct error *err);
void bundle_keys_put_row(struct sheet *sheet, const struct task *task);

/* store_postgres_queues.c */
int bundle_queues_note(struct bundle *bundle, const struct op *op); /* before bundle_queues_ask */
/* Adds the steps that take the batch's shared locks and see whether its node and queues are there. */
int bundle_queues_ask(struct bundle *bundle);
int bundle_queues_read(struct bundle *bundle, struct error *err);
/* The queues of redrives are known once their lives are: a round trip, if there are any. */
int bundle_queues_redrive(struct bundle *bundle, struct error *err);
bool bundle_is_dropped(const struct bundle *bundle, uint32_t queue);
int bundle_queues_write(struct bundle *bundle, struct error *err); /* every QUEUE of the batch */

/* store_postgres_write.c: what an operation that is DONE leaves behind. */
int bundle_write_record(struct bundle *bundle, const struct op *op, const unsigned char *hash,
                        struct staged *staged);
int bundle_write_change(struct bundle *bundle, const struct op *op, const struct life_row *was,
                        const struct life *life);
int bundle_write_hold(struct bundle *bundle, int64_t row);
void bundle_write_key_drop(struct bundle *bundle, const unsigned char *hash, int64_t row);
void bundle_write_audit(struct bundle *bundle, const struct op *op, const struct staged *staged);
int bundle_write_steps(struct bundle *bundle); /* all of it, in order, and the commit */

/* store_postgres_claim.c */
int bundle_claim(struct bundle *bundle, struct error *err);

/* store_postgres_doubt.c */
/* The batch's commit was not answered. 0: it is there after all; FAULT_IO: it is not; FAULT_UNKNOWN:
 * the server did not come back in time to be asked. */
int doubt_settle(struct bundle *bundle, struct error *err);
/* Looks up what is still in doubt. 0: nothing is any more. */
int doubt_look(struct writer *writer, struct error *err);
/* True: it was in a batch that is there, and now has its result. */
bool doubt_publish(struct writer *writer, struct op *op);
void doubt_done(struct writer *writer);

/* store_postgres_renew.c: gives records whose rows are taken others; how many that were. */
int renew_rows(struct writer *writer, struct op *ops[], size_t count, size_t *ret_renewed,
               struct error *err);

/* Lanes of `ready`. Numbers are stored. */
enum {
    LANE_NONE = -1,
    LANE_FORCED = 0,
    LANE_DUE,
    LANE_LOW,
    LANE_PULL,
    LANE_LEASED, /* not claimed: a worker has it, until its lease is over */
    LANE_PROBED, /* likewise: in doubt, until somebody asks the target */
    LANE_PULL_FORCED
};

/* The lane that a life stands in. */
int postgres_lane(const struct life *life);

int postgres_schema_open(struct link *link, int64_t wanted, struct error *err);
int postgres_schema_check(struct link *link, struct error *err); /* changes nothing */

int postgres_read_task(struct store *store, struct task_id id, unsigned wants, struct arena *arena,
                       struct record *ret_record, bool *ret_found, struct error *err);
int postgres_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                  store_record_fn visit, void *user, int64_t *ret_next, struct error *err);
int postgres_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
                 void *user, struct error *err);
int postgres_scan(struct store *store, store_brief_fn visit, void *user, struct error *err);
int postgres_queues(struct store *store, store_queue_fn visit, void *user, struct error *err);
int postgres_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                   store_audit_fn visit, void *user, int64_t *ret_next, struct error *err);
int postgres_memos(struct store *store, store_memo_fn visit, void *user, struct error *err);

/* store_postgres_beat.c */
int postgres_join(struct store_postgres *postgres, struct link *link, struct error *err);
void postgres_leave(struct store_postgres *postgres);
int postgres_beat(struct store *store, int64_t wait_ms, struct arena *arena, struct beat *ret_beat,
                  struct error *err);
int postgres_counts(struct store *store, store_count_fn visit, void *user, struct error *err);
int postgres_fates(struct store *store, const struct fate_question *question, store_fate_fn visit,
                   void *user, struct error *err);
/* store_postgres_word.c. Words that were heard: bits. LOOK: at what was forgotten, and at the nodes. */
enum { WORD_READY = 1, WORD_LOOK = 2, WORD_MOVED = 4 };
void words_init(struct store_postgres *postgres);
void words_done(struct store_postgres *postgres);
int words_listen(struct link *link, struct error *err); /* a new connection */
void postgres_nudge(struct store *store, const struct node_wish *wish);
/* 0: none in time, or a nudge, whose wish says what it is about. */
unsigned words_hear(struct store_postgres *postgres, int64_t wait_ms);
void words_nudge(struct store_postgres *postgres);

/* store_postgres_moved.c: what peers hear of the tasks that this node settles. */
void moved_note(struct store_postgres *postgres, struct op *ops[], size_t count); /* committed */
int64_t
moved_wait_ms(struct store_postgres *postgres); /* until something may be said; or INT64_MAX */
int moved_say(struct store_postgres *postgres, struct error *err); /* if it is time */
unsigned moved_hear(struct store_postgres *postgres, struct span text);
int moved_tell(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
               struct error *err);

/* store_postgres_known.c: what was forgotten, as this node and its peers know. */
uint64_t known_asked(const struct store_postgres *postgres); /* before anything is read */
/* A look at meta (FORGOTTEN), the queues (QUEUES_VERSION) and the nodes (PEERS). */
struct look {
    uint64_t asked; /* known_asked, before it */
    const PGresult *forgotten, *queues, *peers;
};
/* What was forgotten is published, and this node's row says what it knows. */
int known_note(struct store_postgres *postgres, const struct look *look, struct error *err);
int known_look(struct store_postgres *postgres, struct error *err); /* that look, alone */
/* The engine wants something of peers, or of their rows, that is not there yet. */
bool known_is_wanted(struct store_postgres *postgres);

/* store_postgres_follow.c: changes of queues, as this node's engine knows them. */
bool follow_is_wanted(const struct store_postgres *postgres); /* there is something to hand over */
uint64_t follow_known(struct store_postgres *postgres); /* the version that peers may rely on */
/* The queues go with the beat, if they are wanted. A fault: the connection is lost. */
int follow_hand(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
                struct error *err);

/* store_postgres_look.c: what else a beat tells. */
int postgres_look_hints(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
                        struct error *err);
int postgres_look_orphans(struct store_postgres *postgres, struct arena *arena,
                          struct beat *ret_beat, struct error *err);
int postgres_fold(struct store_postgres *postgres, struct error *err);
/* When it is time, and this node has the duty. A fault: the connection is lost. */
int postgres_upkeep(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
                    struct error *err);

#endif
