/* SPDX-License-Identifier: MIT
 *
 * driver -- uses a store in earnest for whoever wants to cut its power.
 *
 *   driver run SPEC SEED BATCHES   records, leases, settles, cancels and purges at random, some
 *                                  operations a batch, and tells of each batch before and after.
 *                                  Closes and opens now and then; ends by SIGKILL
 *   driver check SPEC              tells everything that is in the store
 *
 * What it tells, a line each, is `try WHAT HOW` for each operation of a batch, then `ack`, `refused`
 * (certainly not applied) or `doubt` (FAULT_UNKNOWN); `check` tells `is WHAT HOW`. WHAT is a task or a
 * queue, HOW all that matters about it, or `gone`. Exit status 3: the store could not be opened.
 */
#include "store/store.h"

#include <daruma/dice.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOW_MS        INT64_C(1800000000000)
#define TASKS_MAX     4096
#define TASKS_USUAL   60
#define BATCH_MAX     4
#define REOPEN_ONE_IN 8 /* a clean close in between: its last writes, too, may be cut */
#define BODY_MAX      3000
#define LONG_BODY_MAX 30000
#define ARENA_MAX     ((size_t)64 << 20)
#define NAME_MAX_LEN  32
#define STATUS_CLOSED 3
#define STATUS_ODD    4

static const struct store_keep keep = {.succeeded_ms = 1, .failed_ms = 1, .cancelled_ms = 1};

/* All that matters about a task. */
struct known {
    struct task_id id;
    struct life life;
    size_t trail_count;
    int status;
    uint64_t request; /* digest of key and body */
    uint64_t digest;  /* and of the answer */
    bool is_gone;
    bool is_busy; /* in the batch that is being made */
};

struct play {
    struct store *store;
    struct daruma_dice dice;
    struct id_maker ids;
    struct known tasks[TASKS_MAX];
    size_t count;
    uint32_t queue_round;
    bool has_doubt; /* a batch may be there or not: opening again would find out, unheard */
};

/* One operation and what the task will be after it. */
struct step {
    struct op op;
    struct known *task; /* NULL: a queue */
    struct known after;
    struct trail_row trail;
    struct answer answer;
    char text[NAME_MAX_LEN], name[NAME_MAX_LEN];
};

static uint64_t digest(struct span bytes, uint64_t hash)
{
    for (size_t i = 0; i < bytes.len; i++) {
        hash = (hash ^ (unsigned char)bytes.at[i]) * UINT64_C(0x100000001b3);
    }
    return hash ^ bytes.len;
}

static uint64_t roll(struct play *play, uint64_t sides)
{
    return daruma_dice_roll(&play->dice) % sides;
}

/* --- telling ------------------------------------------------------------------------------------- */

static void tell_task(const char *verb, const struct known *task)
{
    printf("%s task-%lld ", verb, (long long)task->id.row);
    if (task->is_gone) {
        printf("gone\n");
        return;
    }
    printf("%s fence=%llu attempts=%u trail=%zu status=%d digest=%016llx\n",
           task_state_text(task->life.state), (unsigned long long)task->life.fence,
           task->life.attempts, task->trail_count, task->status, (unsigned long long)task->digest);
}

static void tell_queue(const char *verb, const struct queue_row *queue)
{
    printf("%s queue-%.*s settings=%.*s\n", verb, SPAN_ARGS(queue->name),
           SPAN_ARGS(queue->settings));
}

/* --- what is there ------------------------------------------------------------------------------- */

static int add_known(void *user, const struct brief *brief)
{
    struct play *play = user;

    if (play->count == TASKS_MAX) {
        return FAULT_FULL;
    }
    play->tasks[play->count++].id = (struct task_id){.row = brief->row, .tail = ID_ANY_TAIL};
    return 0;
}

static void read_known(struct play *play, struct known *task)
{
    struct arena *arena = arena_new(ARENA_MAX);
    struct record record = {0};
    struct error err = {0};
    bool found = false;

    if (arena == NULL || store_read_task(play->store, task->id, READ_BODIES | READ_TRAIL, arena,
                                         &record, &found, &err) != 0) {
        fprintf(stderr, "driver: %s\n", err.text);
        exit(STATUS_ODD);
    }
    task->is_gone = !found;
    task->id = record.task.id;
    task->life = record.life;
    task->trail_count = record.trail_count;
    task->status = record.answer.status;
    task->request = digest(record.task.key, digest(record.task.body, 1));
    task->digest = digest(record.answer.body, task->request);
    arena_free(arena);
}

static int tell_queue_row(void *user, const struct queue_row *queue)
{
    tell_queue(user, queue);
    return 0;
}

/* The store is as it was left, or it is not opened at all. */
static void open_store(struct play *play, const char *spec)
{
    struct error err = {0};
    int failed = store_open(span_of(spec), &keep, &play->store, &err);

    if (failed != 0) {
        printf("closed %s: %s\n", fault_code(failed), err.text);
        fflush(stdout);
        _exit(STATUS_CLOSED);
    }
    printf("open %llu\n", (unsigned long long)play->store->epoch);
    play->ids.last_row = play->store->last_row;
    play->ids.dice = &play->dice;
}

static void learn(struct play *play)
{
    struct error err = {0};

    if (store_scan(play->store, add_known, play, &err) != 0) {
        fprintf(stderr, "driver: %s\n", err.text);
        exit(STATUS_ODD);
    }
    for (size_t i = 0; i < play->count; i++) {
        read_known(play, &play->tasks[i]);
    }
}

/* --- making a batch ------------------------------------------------------------------------------ */

static struct span random_body(struct play *play, struct arena *arena)
{
    size_t len = roll(play, roll(play, 10) == 0 ? LONG_BODY_MAX : BODY_MAX);
    char *bytes = arena_alloc(arena, len + 1);
    bool is_text = roll(play, 2) == 0;

    for (size_t i = 0; bytes != NULL && i < len; i++) {
        bytes[i] = is_text ? (char)('a' + roll(play, 26)) : (char)roll(play, 256);
    }
    return (struct span){.at = bytes, .len = bytes != NULL ? len : 0};
}

static void make_record(struct play *play, struct step *step, struct arena *arena)
{
    struct task_id id = id_make(&play->ids, NOW_MS);
    int len = snprintf(step->name, sizeof step->name, "k%lld", (long long)id.row);

    step->task = &play->tasks[play->count++];
    *step->task = (struct known){.id = id, .is_gone = true};
    step->op = (struct op){.kind = OP_RECORD,
                           .now_ms = NOW_MS,
                           .task = {.id = id,
                                    .queue = 1,
                                    .key = {.at = step->name, .len = (size_t)len},
                                    .body = random_body(play, arena)},
                           .life = {.state = TASK_WAITING, .due_at_ms = NOW_MS}};
    uint64_t request = digest(step->op.task.key, digest(step->op.task.body, 1));
    step->after =
        (struct known){.id = id, .life = step->op.life, .request = request, .digest = request};
}

/* To one of several ends, or back to waiting. */
static void make_settle(struct play *play, struct step *step)
{
    static const enum task_state ends[] = {TASK_WAITING, TASK_SUCCEEDED, TASK_DEAD, TASK_UNSETTLED};

    step->op.kind = OP_SETTLE;
    step->op.life = step->task->life;
    step->op.life.state = ends[roll(play, 4)];
    step->trail = (struct trail_row){.attempt = step->task->life.attempts, .status = 500};
    step->op.trail = &step->trail;
    step->op.trail_count = 1;
    step->after.life = step->op.life;
    step->after.trail_count++;
}

static void make_change(struct play *play, struct step *step)
{
    step->op = (struct op){.now_ms = NOW_MS, .task.id = step->task->id, .epoch = 1};
    step->after = *step->task;
    switch (step->task->life.state) {
    case TASK_WAITING:
        step->op.kind = roll(play, 8) == 0 ? OP_CANCEL : OP_LEASE;
        if (step->op.kind == OP_CANCEL) {
            step->after.life.state = TASK_CANCELLED;
        } else {
            step->after.life.state = TASK_RUNNING;
            step->after.life.fence++;
            step->after.life.attempts++;
        }
        break;
    case TASK_RUNNING:
    case TASK_UNSETTLED:
        make_settle(play, step);
        break;
    case TASK_SUCCEEDED:
    case TASK_FAILED:
    case TASK_DEAD:
    case TASK_CANCELLED:
    case TASK_STATE_COUNT:
    default:
        step->op.kind = OP_PURGE;
        step->after.is_gone = true;
        break;
    }
}

/* The end of a task, with an answer whose bytes nobody can guess from the rest. */
static void add_answer(struct play *play, struct step *step)
{
    if (step->op.kind != OP_SETTLE || step->op.life.state != TASK_SUCCEEDED) {
        return;
    }
    int len = snprintf(step->text, sizeof step->text, "answer %llu",
                       (unsigned long long)roll(play, 1000000));
    step->answer = (struct answer){.status = 200, .body = {.at = step->text, .len = (size_t)len}};
    step->op.answer = &step->answer;
    step->after.status = 200;
    step->after.digest = digest(step->answer.body, step->task->request);
}

static void make_queue(struct play *play, struct step *step)
{
    int len = snprintf(step->text, sizeof step->text, "%u-%llu", ++play->queue_round,
                       (unsigned long long)roll(play, 1000000));

    step->task = NULL;
    step->op = (struct op){
        .kind = OP_QUEUE,
        .queue = {.name = SPAN("articles"), .settings = {.at = step->text, .len = (size_t)len}}};
}

static struct known *pick(struct play *play)
{
    for (int tries = 0; tries < 20 && play->count > 0; tries++) {
        struct known *task = &play->tasks[roll(play, play->count)];
        if (!task->is_gone && !task->is_busy) {
            return task;
        }
    }
    return NULL;
}

static size_t live_count(const struct play *play)
{
    size_t live = 0;

    for (size_t i = 0; i < play->count; i++) {
        live += !play->tasks[i].is_gone;
    }
    return live;
}

static void make_step(struct play *play, struct step *step, struct arena *arena)
{
    bool may_record = play->count < TASKS_MAX && live_count(play) < TASKS_USUAL;
    struct known *task = pick(play);

    if (task == NULL || (may_record && roll(play, 3) == 0)) {
        make_record(play, step, arena);
    } else {
        step->task = task;
        make_change(play, step);
        add_answer(play, step);
    }
    step->task->is_busy = true;
}

/* --- playing ------------------------------------------------------------------------------------- */

static void tell_step(const struct step *step)
{
    if (step->task != NULL) {
        tell_task("try", &step->after);
    } else {
        tell_queue("try", &step->op.queue);
    }
}

static void finish_step(const struct step *step, int failed)
{
    if (failed == 0 && step->op.result != RESULT_DONE) {
        printf("odd result %d of kind %d\n", (int)step->op.result, (int)step->op.kind);
        fflush(stdout);
        _exit(STATUS_ODD);
    }
    if (step->task != NULL) {
        if (failed == 0) {
            *step->task = step->after;
        }
        step->task->is_busy = false;
    }
}

static void play_batch(struct play *play)
{
    struct step steps[BATCH_MAX] = {0};
    struct op *ops[BATCH_MAX];
    struct arena *arena = arena_new(ARENA_MAX);
    struct error err = {0};
    size_t count = 1 + roll(play, BATCH_MAX);

    if (arena == NULL) {
        exit(STATUS_ODD);
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 && roll(play, 4) == 0) {
            make_queue(play, &steps[i]);
        } else {
            make_step(play, &steps[i], arena);
        }
        ops[i] = &steps[i].op;
        tell_step(&steps[i]);
    }
    fflush(stdout);
    int failed = store_apply(play->store, ops, count, &err);
    for (size_t i = 0; i < count; i++) {
        finish_step(&steps[i], failed);
    }
    const char *verdict = failed == 0 ? "ack" : failed == FAULT_UNKNOWN ? "doubt" : "refused";
    printf("%s %s\n", verdict, err.text);
    fflush(stdout);
    arena_free(arena);
    play->has_doubt = failed == FAULT_UNKNOWN || (failed != 0 && play->has_doubt);
}

static int check(struct play *play)
{
    static char verb[] = "is";

    for (size_t i = 0; i < play->count; i++) {
        tell_task(verb, &play->tasks[i]);
    }
    int failed = store_queues(play->store, tell_queue_row, verb, NULL);
    store_close(play->store);
    return failed;
}

static void play_on(struct play *play, const char *spec, unsigned long long batches)
{
    for (; batches > 0; batches--) {
        play_batch(play);
        if (roll(play, REOPEN_ONE_IN) == 0 && !play->has_doubt) {
            store_close(play->store);
            open_store(play, spec);
        }
    }
}

int main(int argc, char **argv)
{
    static struct play play;
    bool is_check = argc == 3 && strcmp(argv[1], "check") == 0;

    if (!is_check && (argc != 5 || strcmp(argv[1], "run") != 0)) {
        fprintf(stderr, "usage: driver run SPEC SEED BATCHES | driver check SPEC\n");
        return 2;
    }
    play.dice = daruma_dice_seed(is_check ? 0 : strtoull(argv[3], NULL, 10));
    open_store(&play, argv[2]);
    learn(&play);
    if (is_check) {
        return check(&play);
    }
    play_on(&play, argv[2], strtoull(argv[4], NULL, 10));
    (void)kill(getpid(), SIGKILL);
    return STATUS_ODD;
}
