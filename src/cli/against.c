/* SPDX-License-Identifier: MIT
 *
 * against -- see against.h. The queues are read first, then every task once, in short form; only of
 * queues that have no targets some are read whole.
 */
#include "cli/against.h"

#include "base/auto.h"
#include "engine/engine.h"
#include "store/store.h"
#include "task/key_rules.h"

#include <stdlib.h>
#include <string.h>

#define READ_ARENA_MAX (64u << 20)

/* A queue of the store. */
struct known {
    uint32_t number;
    struct left left;      /* why NULL: nothing is wrong with it so far */
    bool has_no_targets;   /* what is sent from it names its own */
    size_t read, stranded; /* tasks that were looked at for that */
};

struct look {
    const struct config *config;
    struct store *store;
    struct arena *arena;
    struct known *queues;
    size_t count, room;
    struct error *err;
};

AUTO_POINTER(struct store, store_close)

static int no_memory(const struct look *look)
{
    return fail(look->err, FAULT_MEMORY, "no memory to look through the store");
}

static const struct queue_settings *file_queue(const struct config *config, struct span name)
{
    for (size_t i = 0; i < config->queue_count; i++) {
        if (span_equal(config->queues[i].name, name)) {
            return &config->queues[i];
        }
    }
    return NULL;
}

static const struct route_settings *route_of(const struct config *config, struct span name)
{
    for (size_t i = 0; i < config->route_count; i++) {
        if (span_equal(config->routes[i].name, name)) {
            return &config->routes[i];
        }
    }
    return NULL;
}

static bool has_no_targets(const struct queue_settings *settings)
{
    return settings->target_count == 0 && settings->fallback == NULL;
}

/* Does the configuration know it? */
static int judge(const struct look *look, const struct queue_row *row, struct known *known)
{
    const struct queue_settings *of_file = file_queue(look->config, row->name);
    struct queue_settings settings = {0};
    struct error error = {0};

    if (of_file != NULL) {
        known->has_no_targets = has_no_targets(of_file);
        return 0;
    }
    if (span_is(row->name, ENGINE_CALLBACK_QUEUE) || span_is(row->name, ENGINE_KEYS_QUEUE)) {
        return 0;
    }
    if (span_starts(row->name, ROUTE_QUEUE_PREFIX)) {
        known->left.name = span_from(known->left.name, strlen(ROUTE_QUEUE_PREFIX));
        known->left.is_route = true;
        known->left.why = route_of(look->config, known->left.name) != NULL ? NULL : "missing";
        return 0;
    }
    if (row->settings.len == 0) {
        known->left.why = "missing";
        return 0;
    }
    if (config_parse_queue(row->settings, row->name, look->config, look->arena, &settings,
                           &error) != 0) {
        known->left.why = "settings";
        known->left.detail = arena_copy(look->arena, span_of(error.text));
        return known->left.detail.at != NULL ? 0 : no_memory(look);
    }
    known->has_no_targets = has_no_targets(&settings);
    return 0;
}

static int note_queue(void *user, const struct queue_row *row)
{
    struct look *look = user;

    if (row->dropped) {
        return 0;
    }
    if (look->count == look->room) {
        size_t room = look->room == 0 ? 64 : 2 * look->room;
        struct known *grown = realloc(look->queues, room * sizeof *grown);
        if (grown == NULL) {
            return no_memory(look);
        }
        look->queues = grown;
        look->room = room;
    }
    struct known *known = &look->queues[look->count];
    *known =
        (struct known){.number = row->number, .left = {.name = arena_copy(look->arena, row->name)}};
    if (known->left.name.at == NULL) {
        return no_memory(look);
    }
    look->count++;
    return judge(look, row, known);
}

static int note_rules(struct look *look, struct span name, struct span was)
{
    const struct route_settings *route = route_of(look->config, name);
    struct buf rules, detail;

    if (route == NULL) {
        return 0;
    }
    buf_init(&rules, KEY_RULES_BYTES_MAX);
    buf_init(&detail, 3 * KEY_RULES_BYTES_MAX);
    int failed = key_rules_render(route, &rules);
    bool is_same = failed == 0 && span_equal(buf_span(&rules), was);
    failed = failed != 0 ? failed
                         : buf_addf(&detail, "was %.*s; is %.*s", SPAN_ARGS(was),
                                    SPAN_ARGS(buf_span(&rules)));
    for (size_t i = 0; failed == 0 && !is_same && i < look->count; i++) {
        struct left *left = &look->queues[i].left;
        if (left->is_route && span_equal(left->name, name)) {
            left->why = "route_keys";
            left->detail = arena_copy(look->arena, buf_span(&detail));
            failed = left->detail.at != NULL ? 0 : FAULT_MEMORY;
        }
    }
    buf_done(&rules);
    buf_done(&detail);
    return failed == 0 ? 0 : no_memory(look);
}

/* By which rules the keys of a route were written. */
static int note_memo(void *user, const struct memo *memo)
{
    return span_starts(memo->name, KEY_RULES_MEMO)
               ? note_rules(user, span_from(memo->name, strlen(KEY_RULES_MEMO)), memo->value)
               : 0;
}

/* One that is sent, of a queue without targets: does it name its own? */
static int read_target(struct look *look, struct known *known, const struct brief *brief)
{
    struct arena *arena = arena_new(READ_ARENA_MAX);
    struct record record;
    bool found = false;

    if (arena == NULL) {
        return no_memory(look);
    }
    known->read++;
    int failed = store_read_task(look->store, (struct task_id){brief->row, ID_ANY_TAIL}, 0, arena,
                                 &record, &found, look->err);
    bool has_own = failed == 0 && found &&
                   (record.task.target.len > 0 || (record.edit.parts & EDIT_TARGET) != 0);
    known->stranded += failed == 0 && found && !has_own;
    arena_free(arena);
    return failed;
}

static int note_task(void *user, const struct brief *brief)
{
    struct look *look = user;

    for (size_t i = 0; i < look->count; i++) {
        struct known *known = &look->queues[i];
        if (known->number != brief->queue) {
            continue;
        }
        known->left.counts[brief->state]++;
        bool is_sent = brief->state == TASK_WAITING && (brief->flags & LIFE_PULL) == 0;
        if (is_sent && known->has_no_targets && known->read < AGAINST_READ_MAX) {
            return read_target(look, known, brief);
        }
        return 0;
    }
    return 0;
}

static bool is_empty(const struct left *left)
{
    for (int state = 0; state < TASK_STATE_COUNT; state++) {
        if (left->counts[state] > 0) {
            return false;
        }
    }
    return true;
}

static int gather(struct look *look, struct left_list *ret_left)
{
    struct left_list list = {.at =
                                 arena_alloc(look->arena, (look->count + 1) * sizeof(struct left))};

    if (list.at == NULL) {
        return no_memory(look);
    }
    for (size_t i = 0; i < look->count; i++) {
        struct known *known = &look->queues[i];
        if (known->left.why == NULL && known->stranded > 0) {
            known->left.why = "targets";
        }
        bool is_needless = known->left.why == NULL ||
                           (strcmp(known->left.why, "settings") != 0 && is_empty(&known->left));
        if (!is_needless) {
            list.at[list.count++] = known->left;
        }
    }
    *ret_left = list;
    return 0;
}

int against_look(const struct config *config, struct span store, struct arena *arena,
                 struct left_list *ret_left, struct error *err)
{
    AUTO(store_close_p) struct store *opened = NULL;
    struct look look = {.config = config, .arena = arena, .err = err};
    int failed = store_open_to_read(store, &opened, err);

    look.store = opened;
    failed = failed != 0 ? failed : store_queues(opened, note_queue, &look, err);
    failed = failed != 0 ? failed : store_memos(opened, note_memo, &look, err);
    failed = failed != 0 ? failed : store_scan(opened, note_task, &look, err);
    failed = failed != 0 ? failed : gather(&look, ret_left);
    free(look.queues);
    return failed;
}
