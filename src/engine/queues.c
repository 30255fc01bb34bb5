/* SPDX-License-Identifier: MIT
 *
 * queues -- the queues that the engine knows: those of the configuration, those that people made and
 * the store kept, and what is told of each. Tasks name their queue by its number, which the store
 * gives; a queue that is dropped keeps it for the tasks that are left (then: retire.c).
 */
#include "engine/hold_internal.h"
#include "base/plant.h"

#include <stdlib.h>

#define QUEUE_ARENA_MAX (1u << 20)
#define DUE_PER_MS      10000 /* due tasks: a count of so many holds for a millisecond more */

/* FNV-1a: who chooses names of queues can do worse than make them collide. */
static uint32_t hash_of(struct span name)
{
    uint32_t hash = UINT32_C(2166136261);

    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ (unsigned char)name.at[i]) * UINT32_C(16777619);
    }
    return hash;
}

struct queue *engine_find_queue(const struct engine *engine, struct span name)
{
    uint32_t hash = hash_of(name);

    for (size_t i = 0; i < engine->queue_count; i++) {
        struct queue *queue = engine->queue_marks[i].hash == hash ? engine->queues[i] : NULL;
        if (queue != NULL && !queue->dropped && span_equal(queue->name, name)) {
            return queue;
        }
    }
    return NULL;
}

struct queue *engine_queue_at(const struct engine *engine, uint32_t number)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        if (engine->queue_marks[i].number == number) {
            return engine->queues[i];
        }
    }
    return NULL;
}

void queues_set_number(struct engine *engine, struct queue *queue, uint32_t number)
{
    queue->number = number;
    engine->queue_marks[queue->index].number = number;
}

/* For one more that is made by a PUT. One that was dropped or is missing stays for the tasks that are
 * left, and does not count. What the file and the store define is always taken: a start does not fail
 * for it, and the file has its own limit. */
bool queues_have_room(const struct engine *engine)
{
    size_t living = 0;

    for (size_t i = 0; i < engine->queue_count; i++) {
        const struct queue *queue = engine->queues[i];
        living += !queue->dropped && queue->hold != QUEUE_HOLD_MISSING && queue->route == NULL &&
                  queue != engine->callbacks;
    }
    return living < ENGINE_QUEUES_MAX;
}

static struct queue *add_queue(struct engine *engine, struct span name)
{
    if (engine->queue_count == engine->queue_room) {
        size_t room = engine->queue_room == 0 ? 16 : 2 * engine->queue_room;
        struct queue **queues = realloc(engine->queues, room * sizeof *queues);
        engine->queues = queues != NULL ? queues : engine->queues;
        struct queue_mark *marks = realloc(engine->queue_marks, room * sizeof *marks);
        engine->queue_marks = marks != NULL ? marks : engine->queue_marks;
        if (queues == NULL || marks == NULL) {
            return NULL;
        }
        engine->queue_room = room;
    }
    struct queue *queue = calloc(1, sizeof *queue);
    if (queue != NULL) {
        queue->serial = ++engine->retired.serials;
        queue->index = engine->queue_count++;
        engine->queues[queue->index] = queue;
        engine->queue_marks[queue->index] = (struct queue_mark){.hash = hash_of(name)};
    }
    return queue;
}

static bool has_other_targets(const struct queue_settings *before, const struct queue_settings *now)
{
    bool is_other = before->target_count != now->target_count;

    for (size_t i = 0; i < now->target_count && !is_other; i++) {
        is_other = !span_equal(before->targets[i].url, now->targets[i].url);
    }
    return is_other;
}

/* Takes the arena, and settings that live in it. NULL: no memory; the arena is still the caller's. */
struct queue *engine_install_queue(struct engine *engine, struct span name, struct arena *arena,
                                   const struct queue_settings *settings)
{
    struct queue *queue = engine_find_queue(engine, name);

    if (queue != NULL) {
        queue->is_retargeted |= has_other_targets(&queue->settings, settings);
        arena_free(queue->arena);
    } else {
        queue = add_queue(engine, name);
        if (queue == NULL) {
            return NULL;
        }
    }
    queue->arena = arena;
    queue->settings = *settings;
    queue->name = settings->name;
    queue->stored = (struct span){0};
    queue->hold = QUEUE_HOLD_NONE;
    queue->hold_why = (struct span){0};
    nodes_share(engine, queue);
    return queue;
}

/* The file's settings live as long as the configuration: only the name is copied. */
int engine_add_queue(struct engine *engine, const struct queue_settings *settings,
                     struct error *err)
{
    struct arena *arena = arena_new(QUEUE_ARENA_MAX);
    struct queue_settings own = *settings;

    if (arena != NULL) {
        own.name = arena_copy(arena, settings->name);
    }
    struct queue *queue = arena == NULL || own.name.at == NULL
                              ? NULL
                              : engine_install_queue(engine, own.name, arena, &own);
    if (queue == NULL) {
        arena_free(arena);
        return fail(err, FAULT_MEMORY, "no memory for the queues");
    }
    queue->in_file = true;
    return 0;
}

/* A queue that the store knows: the file's gets its number, another is made from its settings. */
struct known_queues {
    struct engine *engine;
    struct error *err;
};

/* Its settings were good once, and are not now: a secret is gone from the environment. */
static int refuse_queue(struct span name, int failed, struct error *err)
{
    struct error found = {0};

    if (err != NULL) {
        found = *err;
    }
    return fail_field(err, (enum fault)failed, found.field, "queue %.*s: %s%s%s", SPAN_ARGS(name),
                      found.field, found.field[0] != '\0' ? ": " : "", found.text);
}

/* From its settings as they are stored; in the place of the one of that name. */
static struct queue *make_queue(struct engine *engine, const struct queue_row *row,
                                struct error *err)
{
    struct arena *arena = arena_new(QUEUE_ARENA_MAX);
    struct queue_settings settings = {0};
    struct queue *queue = NULL;
    struct span text = arena == NULL ? (struct span){0} : arena_copy(arena, row->settings);
    struct span name = arena == NULL ? (struct span){0} : arena_copy(arena, row->name);
    int failed = text.at == NULL || name.at == NULL
                     ? fail(err, FAULT_MEMORY, "no memory for the queues")
                     : engine->options.parse_queue(engine->options.parse_user, text, name, arena,
                                                   &settings, err);

    if (failed == 0) {
        queue = engine_install_queue(engine, name, arena, &settings);
        failed = queue == NULL ? fail(err, FAULT_MEMORY, "no memory for the queues") : 0;
    }
    if (failed != 0) {
        arena_free(arena);
        (void)refuse_queue(row->name, failed, err); /* NULL says it */
        return NULL;
    }
    queue->stored = text;
    return queue;
}

/* One that this configuration's file does not have. What cannot be worked with is held, with all that is
 * in it: it does not keep the others from being worked. */
static int define_queue(struct engine *engine, const struct queue_row *row, struct error *err)
{
    struct error error = {0};

    if (row->settings.len == 0) { /* was in the file once: its tasks wait until it is again */
        return hold_missing(engine, row, err);
    }
    struct queue *queue = make_queue(engine, row, &error);
    if (queue == NULL && error.fault == FAULT_MEMORY) {
        return fail(err, FAULT_MEMORY, "%s", error.text);
    }
    if (queue == NULL) {
        return hold_settings(engine, row, span_of(error.text), err);
    }
    queues_set_number(engine, queue, row->number);
    queue->version = row->version;
    queue->let_in = row->let_in;
    queue->paused = row->paused;
    return 0;
}

static int restore_queue(void *user, const struct queue_row *row)
{
    struct known_queues *known = user;
    struct queue *queue = engine_find_queue(known->engine, row->name);

    if (row->dropped) {
        return leftovers_dropped(known->engine, row->number) == 0
                   ? 0
                   : fail(known->err, FAULT_MEMORY, "no memory for the queues");
    }
    if (queue == NULL) {
        return define_queue(known->engine, row, known->err);
    }
    queues_set_number(known->engine, queue, row->number);
    queue->version = row->version;
    queue->let_in = row->let_in;
    queue->paused = row->paused;
    return 0;
}

/* The store has it as deleted, by this node or by another. */
void queues_drop(struct engine *engine, struct queue *queue)
{
    if (queue->dropped) {
        return;
    }
    queue->dropped = true;
    targets_back(engine, queue); /* another queue of this name begins anew */
    leftovers_note(engine, queue->number);
    leftovers_tick(engine);
}

/* Numbers are never used again: of two queues of one name that with the lower one was deleted. */
bool queues_is_old(const struct queue *queue, const struct queue_row *row)
{
    return queue != NULL &&
           (row->number < queue->number ||
            (row->number == queue->number && (queue->dropped || row->version < queue->version)));
}

/* Another node has changed it, perhaps: make it so here. What was read before this node has written a
 * change of its own, and comes after that, changes nothing. */
void engine_follow_queue(struct engine *engine, const struct queue_row *row)
{
    struct queue *queue =
        row->dropped ? engine_queue_at(engine, row->number) : engine_find_queue(engine, row->name);
    struct error error = {0};

    if (row->dropped) {
        if (queue != NULL) {
            queues_drop(engine, queue);
        } else {
            (void)leftovers_dropped(engine, row->number); /* no memory: until they are read again */
        }
        return;
    }
    if (queues_is_old(queue != NULL ? queue : engine_queue_at(engine, row->number), row)) {
        return;
    }
    /* One that has come into a peer's file has no settings any more: here it goes on as it is. */
    bool is_other = queue != NULL && !queue->in_file && row->settings.len > 0 &&
                    !span_equal(queue->stored, row->settings);
    if (is_other) { /* as if it had been changed here: its targets may be others now */
        targets_back(engine, queue);
        outage_forget(queue);
    }
    if (queue == NULL || is_other) {
        if (define_queue(engine, row, &error) != 0) { /* no memory: when they are read again */
            DARUMA_LOG(engine->options.log, DARUMA_LOG_ERROR, "queue_refused",
                       daruma_log_text("error", error.text));
            return;
        }
        queue = engine_find_queue(engine, row->name);
        hold_log(engine, queue);
    }
    if (queue != NULL) {
        targets_hear(queue, row->let_in);
        if (queue->version != row->version) {
            targets_doubt(queue);
        }
        queues_set_number(engine, queue, row->number);
        queue->version = row->version;
        PLANT(PAUSE_UNHEARD, return )
        queue->paused = row->paused;
    }
}

/* What a task is that goes to the queue without saying more. */
uint32_t engine_task_flags(const struct queue_settings *settings)
{
    bool has_target = settings->target_count > 0 || settings->fallback != NULL;
    bool is_once = settings->target_count > 0 && !settings->targets[0].repeatable;

    return (has_target ? 0u : LIFE_PULL) | (is_once ? LIFE_ONCE : 0u);
}

/* The file's queues that the store does not know yet get their numbers; others that use the store
 * are told what they are. */
static int number_queues(struct engine *engine, struct store *store, struct error *err)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        struct queue *queue = engine->queues[i];
        struct op op = {.kind = OP_QUEUE,
                        .keeps = QUEUE_KEEPS_PAUSED,
                        .queue = {.name = queue->name,
                                  .settings = queue->stored,
                                  .paused = queue->paused,
                                  .task_flags = engine_task_flags(&queue->settings)}};
        struct op *ops[] = {&op};
        if (queue->number != 0 && (store->nodes == NULL || !queue->in_file)) {
            continue;
        }
        int failed = store_apply_patiently(store, ops, 1, err);
        if (failed != 0) {
            return failed;
        }
        queues_set_number(engine, queue, op.queue.number);
        queue->version = op.queue.version;
        queue->paused = op.queue.paused;
    }
    return 0;
}

int queues_open(struct engine *engine, struct store *store, struct error *err)
{
    struct known_queues known = {.engine = engine, .err = err};
    int failed = store_queues(store, restore_queue, &known, err);

    return failed != 0 ? failed : number_queues(engine, store, err);
}

static void queue_free(struct queue *queue)
{
    schedule_done(&queue->due);
    schedule_done(&queue->forced);
    schedule_done(&queue->low);
    schedule_done(&queue->pull);
    schedule_done(&queue->pull_forced);
    ages_done(&queue->letters);
    arena_free(queue->arena);
    free(queue);
}

void queues_free_all(struct engine *engine)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        queue_free(engine->queues[i]);
    }
    while (engine->retired.first != NULL) {
        struct queue *next = engine->retired.first->retirement.next;
        queue_free(engine->retired.first);
        engine->retired.first = next;
    }
    free(engine->queues);
    free(engine->queue_marks);
}

/* --- what is told of them ------------------------------------------------------------------------ */

size_t engine_queue_count(const struct engine *engine)
{
    return engine->queue_count;
}

/* As the schedules have it: one that has moved on meanwhile counts until it is looked at (gone.c). Among nodes
 * a schedule says when to look, not what is there: the store's count tells. */
int64_t queue_first_due_ms(const struct engine *engine, const struct queue *queue)
{
    const struct schedule *all[] = {&queue->due, &queue->forced, &queue->low, &queue->pull,
                                    &queue->pull_forced};
    int64_t first_ms = hosts_oldest_due_ms(queue);
    struct schedule_entry first;

    if (nodes_are_many(engine)) {
        return queue->waiting_due_ms;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (schedule_first(all[i], &first) && first.due_ms < first_ms) {
            first_ms = first.due_ms;
        }
    }
    return first_ms;
}

static int64_t oldest_due_ms(const struct engine *engine, const struct queue *queue)
{
    int64_t now_ms = engine_now_ms(engine), first_ms = queue_first_due_ms(engine, queue);

    return queue->counts[TASK_WAITING] > 0 && first_ms < now_ms ? now_ms - first_ms : 0;
}

/* A dead letter that failed ahead of the clock, before that was set back, is not old. */
static int64_t oldest_letter_ms(const struct engine *engine, const struct queue *queue)
{
    int64_t oldest_ms = queue->counts[TASK_DEAD] > 0 ? ages_oldest_ms(&queue->letters) : 0;
    int64_t now_ms = engine_now_ms(engine);

    return oldest_ms > 0 && oldest_ms < now_ms ? now_ms - oldest_ms : 0;
}

void queues_due_counted(struct engine *engine, const struct read *read)
{
    if (read->kind != READ_COUNTS || read->fault != 0) {
        return;
    }
    for (size_t i = 0; i < engine->queue_count; i++) {
        engine->queues[i]->due_count = 0;
    }
    for (size_t i = 0; i < read->count_count; i++) {
        struct queue *queue = engine_queue_at(engine, read->counts[i].queue);
        if (queue != NULL && read->counts[i].state == TASK_WAITING) {
            queue->due_count = read->counts[i].due_count;
        }
    }
}

/* What waits for its host was due before. The schedules may hold what has moved on meanwhile, but no more than
 * waits can be due. Each of those that are due is looked at: the more there are the more seldom. */
static uint64_t due_count(const struct engine *engine, struct queue *queue)
{
    const struct schedule *all[] = {&queue->due, &queue->forced, &queue->low, &queue->pull,
                                    &queue->pull_forced};
    int64_t mono_ms = clock_mono_ms(engine->options.clock);
    uint64_t waiting = queue->counts[TASK_WAITING];

    if (!nodes_are_many(engine) && mono_ms >= queue->due_again_ms) {
        queue->due_count = queue->parked_count;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            queue->due_count += schedule_due_count(all[i], engine_now_ms(engine), SIZE_MAX);
        }
        queue->due_again_ms = mono_ms + (int64_t)(queue->due_count / DUE_PER_MS);
    }
    return queue->due_count < waiting ? queue->due_count : waiting;
}

void engine_queue_view(const struct engine *engine, size_t index, struct queue_view *ret_view)
{
    struct queue *queue = engine->queues[index];

    *ret_view = (struct queue_view){
        .number = queue->number,
        .name = queue->name,
        .settings = hold_is_shut(queue) ? NULL : &queue->settings,
        .attempts_max = queue->settings.policy.attempts_max,
        .oldest_due_ms = oldest_due_ms(engine, queue),
        .oldest_letter_ms = oldest_letter_ms(engine, queue),
        .in_flight = queue->in_flight,
        .host_waiting = queue->beside_count + queue->parked_count,
        .paused = queue->paused,
        .in_file = queue->in_file,
        .outage_since_ms = queue->outage.since_ms,
        .stopped = queue->stopped,
        .hold = queue->hold,
        .hold_why = queue->hold_why,
        .is_shown = hold_is_shown(queue),
    };
    for (int i = 0; i < TASK_STATE_COUNT; i++) {
        ret_view->counts[i] = queue->counts[i];
    }
    ret_view->due_count = due_count(engine, queue);
    numbers_view(engine, queue, ret_view);
}
