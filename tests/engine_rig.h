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
#define RIG_SENDS_MAX 64
#define RIG_START_MS  INT64_C(1800000000000)

/* What the target says to one request. */
struct rig_answer {
    int status; /* 0: no answer; then sent says how far it got */
    enum task_sent sent;
    int64_t hint_ms;
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
    engine_render_fn render; /* set before rig_open; its user is the rig */
    struct delivery *flights[RIG_SENDS_MAX];
    uint32_t flight_numbers[RIG_SENDS_MAX]; /* from 1, in the order of sending */
    size_t flight_count, flight_most;
    struct handover_link *reads;
    /* What was seen. */
    int64_t sent_at_ms[RIG_SENDS_MAX]; /* since RIG_START_MS */
    size_t sent_count;
    char last_headers[1024];
    enum reply_kind reply_kind;
    uint64_t reply_count;
    struct task_id id;
    struct life life; /* of the last task replied with */
    struct run_view run;
    char rendered[256]; /* of the last reply; "": nothing */
    struct error error;
    uint64_t queue_counts[TASK_STATE_COUNT];
    struct daruma_logger log;
    char log_text[65536];
};

/* A queue with the built-in policy of that name and one target. */
void rig_open(struct rig *rig, const char *policy);
void rig_close(struct rig *rig);
/* Another engine on the same store, as after a crash. Nothing may be in flight. */
void rig_restart(struct rig *rig);

void rig_submit(struct rig *rig, const char *key, const char *body, int64_t delay_ms,
                int64_t deadline_ms);
void rig_ask(struct rig *rig, enum ask_kind kind);
/* Makes a queue "r" with the rig's settings as they are now; what was replied. */
enum reply_kind rig_change(struct rig *rig);
void rig_submit_to(struct rig *rig, const char *queue);

/* The target answers the latest request that it has, and no other. */
void rig_answer_one(struct rig *rig, int status);

/* Commits, reads and delivers until nothing moves without time passing. */
void rig_settle(struct rig *rig);
/* Moves to each next tick in turn until nothing is left to do, or `limit_ms` has passed. */
void rig_run(struct rig *rig, int64_t limit_ms);
void rig_pass(struct rig *rig, int64_t ms);

#endif
