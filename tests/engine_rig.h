/* SPDX-License-Identifier: MIT
 *
 * engine_rig -- the real engine on the real store in memory, with a clock that the test moves and a
 * target that answers by script: for tests that tell what happens, to the millisecond.
 */
#ifndef ENGINE_RIG_H
#define ENGINE_RIG_H

#include "engine/engine.h"
#include "store/committer.h"

#define RIG_QUEUE     "q"
#define RIG_SENDS_MAX 64 /* requests whose time is kept, unless the test wants more */
#define RIG_SEEN_MAX  64 /* of one reply */
#define RIG_EXCHANGES 32 /* whose latest reply is kept */
#define RIG_START_MS  INT64_C(1800000000000)

/* What the target says to one request. */
struct rig_answer {
    int status; /* 0: no answer; then sent says how far it got */
    enum task_sent sent;
    int64_t hint_ms;
};

/* The latest reply to one exchange. */
struct rig_reply {
    enum reply_kind kind;
    uint64_t count; /* how many it has had */
    size_t record_count;
    struct task_id ids[RIG_SEEN_MAX];
    struct life lives[RIG_SEEN_MAX];
    char body[64]; /* of the first record */
    size_t result_count;
    enum lease_result results[RIG_SEEN_MAX];
    struct redrive_view redrive;
    int64_t next_row;
    enum route_said said; /* REPLY_ROUTE */
    enum route_problem problem;
    int status;       /* of the answer */
    char audit[4096]; /* "who act from>to note", a line each */
};

struct rig {
    struct clock clock; /* first */
    int64_t now_ms;     /* both clocks, from RIG_START_MS */
    struct daruma_dice dice;
    struct store *store;
    struct committer *committer;
    struct engine *engine;
    struct queue_settings settings;
    struct span queue; /* that rig_ask asks about */
    bool force;
    struct rig_answer (*answer)(struct rig *rig, uint32_t attempt);
    void *answer_user;
    /* Set before rig_open, which leaves them as they are. */
    engine_render_fn render;            /* its user is the rig */
    engine_callback_fn callback;        /* likewise; then there is a queue for callbacks */
    void (*prepare)(struct rig *rig);   /* changes the settings */
    size_t sends_max;                   /* 0: RIG_SENDS_MAX */
    size_t reads_max;                   /* at once; 0: any */
    bool holds_reads;                   /* those that are asked for do not come back */
    uint32_t waiters_max;               /* of a gateway's duplicates; 0: any */
    uint32_t attempts_max;              /* over all queues; 0: any */
    uint32_t lists_max;                 /* and bulk commands; 0: any */
    size_t files_max;                   /* requests that the deliverer has room for; 0: any */
    uint64_t backlog_max;               /* 0: 1000 */
    int64_t keep_ms;                    /* 0: 1000 */
    const struct route_settings *route; /* NULL: there is no gateway */

    int64_t latency_ms; /* of the target; 0: it answers at once, the latest request first */
    struct delivery **flights;
    uint32_t *flight_numbers; /* from 1, in the order of sending */
    int64_t *flight_sent_ms;
    size_t flight_count, flight_most;
    struct handover_link *reads;
    size_t read_count;
    /* What was seen. */
    int64_t *sent_at_ms; /* since RIG_START_MS */
    size_t sent_count;
    size_t pull_count; /* pieces of answers that were asked for */
    struct delivery *last_pulled;
    size_t stop_count; /* deliveries that were to end */
    char last_headers[1024], last_url[256], last_body[256];
    enum reply_kind reply_kind;
    uint64_t reply_count;
    struct task_id id;
    struct life life; /* of the last task replied with */
    struct run_view run;
    char rendered[256]; /* of the last reply; "": nothing */
    struct error error;
    struct rig_reply replies[RIG_EXCHANGES]; /* by exchange */
    uint64_t queue_counts[TASK_STATE_COUNT];
    struct queue_view queue_told; /* of the last reply that told one */
    struct node_wish wish;        /* the latest */
    bool is_dead;                 /* nothing that is wanted happens any more */
    struct daruma_logger log;
    char log_text[65536];
};

/* A queue with the built-in policy of that name and one target. */
void rig_open(struct rig *rig, const char *policy);
void rig_close(struct rig *rig);
/* For a store that has nodes: it counts nothing. */
int rig_count_nothing(struct store *store, store_count_fn visit, void *user, struct error *err);
/* From here on the engine is one of several on its store. */
void rig_join(struct rig *rig);
/* What a node sees that has that place, counted from 0, among so many; a test may change it. */
struct beat rig_beat(const struct rig *rig, uint32_t place, uint32_t node_count);
void rig_be_one_of(struct rig *rig, uint32_t place, uint32_t node_count);
/* As after a kill: what the engine had in hand is gone, what was committed is there. */
void rig_restart(struct rig *rig);

void rig_submit(struct rig *rig, const char *key, const char *body, int64_t delay_ms,
                int64_t deadline_ms);
/* As given, but for the arena, the exchange (1) and the queue, if there is none. */
void rig_submit_as(struct rig *rig, const struct submission *wish);
void rig_ask(struct rig *rig, enum ask_kind kind);

/* The queues as they are in the store, for a beat; the arena is the caller's to free. */
#define RIG_QUEUES_MAX 16
struct rig_queues {
    struct queue_row rows[RIG_QUEUES_MAX];
    size_t count;
    struct arena *arena;
};
struct rig_queues rig_see_queues(struct rig *rig);

/* As given, all but the queue, if there is none; the reply to its exchange. */
const struct rig_reply *rig_full_ask(struct rig *rig, const struct ask *ask);
/* One task as it is stored. */
struct life rig_life(struct rig *rig, struct task_id id);
/* The trail, a line each: "attempt class status message wait". */
const char *rig_trail(struct rig *rig, struct task_id id);
/* Makes a queue "r" with the rig's settings as they are now; what was replied. */
enum reply_kind rig_change(struct rig *rig);
void rig_submit_to(struct rig *rig, const char *queue);

/* The target answers the latest request that it has, and no other. */
void rig_answer_one(struct rig *rig, int status);
void rig_cut_one(struct rig *rig); /* likewise: it breaks off */
/* The earliest request to that URL is answered; status 0: it did not get there. False: there is none. */
bool rig_answer_at(struct rig *rig, const char *url, int status);

/* Commits, reads and delivers until nothing moves without time passing. */
void rig_settle(struct rig *rig);
/* Moves to each next tick in turn until nothing is left to do, or `limit_ms` has passed. */
void rig_run(struct rig *rig, int64_t limit_ms);
void rig_pass(struct rig *rig, int64_t ms);
/* Lets that much time pass, from tick to tick. */
void rig_wait(struct rig *rig, int64_t ms);
/* Likewise, as in a busy server: something else happens every `turn_ms`, and each time the engine is
 * asked anew when it wants a tick. */
void rig_turn(struct rig *rig, int64_t ms, int64_t turn_ms);

#endif
