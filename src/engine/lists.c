/* SPDX-License-Identifier: MIT
 *
 * lists -- what callers may have looked through at the same time: options.lists_max lists, and as many
 * bulk commands (purge, run, the counting of a redrive). Each takes the reader's time, a list that
 * matches little for as long as thousands of tasks are looked at. Above the bound a caller is refused
 * at once, and not kept in a line of minutes. One caller has three quarters of them at most, so that
 * a single token does not keep out all others. What the engine reads for itself is not counted.
 *
 * Redrives and runs last for as long as their tasks do, so how many of them are live has limits of its own
 * (redrive.c, runs.c). A token that is limited to queues has a part of them at most.
 */
#include "engine/lists_internal.h"
#include "engine/reach_internal.h"
#include "engine/redrive_internal.h"

static bool has_room(const struct engine *engine, struct span who)
{
    size_t max = engine->options.lists_max, count = 0, own = 0;

    for (const struct read *each = engine->lists; each != NULL; each = each->next_list) {
        count++;
        own += span_equal(each->who, who);
    }
    return max == 0 || (count < max && own < max - max / 4);
}

bool lists_start(struct engine *engine, struct read *read, struct span who)
{
    read->who = arena_copy(read->arena, who);
    if (read->who.at == NULL || !has_room(engine, who)) {
        inspect_drop(read);
        return false;
    }
    if (!inspect_start(engine, read)) {
        return false;
    }
    read->next_list = engine->lists;
    engine->lists = read;
    return true;
}

static void refuse(struct engine *engine, uint64_t exchange, const char *text)
{
    struct error error = {0};

    (void)fail_told(&error, FAULT_FULL, "%s", text); /* the reply carries it */
    engine_reply_fault(engine, exchange, 0, &error);
}

void lists_refuse(struct engine *engine, uint64_t exchange)
{
    refuse(engine, exchange,
           "too many lists are being read (limits.lists): send this one again later");
}

void lists_refuse_bulk(struct engine *engine, uint64_t exchange)
{
    refuse(engine, exchange,
           "too many bulk commands are under way (limits.lists): send this one again later");
}

void lists_end(struct engine *engine, struct read *read)
{
    for (struct read **link = &engine->lists; *link != NULL; link = &(*link)->next_list) {
        if (*link == read) {
            *link = read->next_list;
            return;
        }
    }
}

bool lists_leave(struct engine *engine, uint64_t exchange)
{
    for (struct read *each = engine->lists; each != NULL; each = each->next_list) {
        if (each->exchange == exchange) {
            read_cut(each);
            return true;
        }
    }
    return false;
}

bool lists_may_walk(const struct engine *engine)
{
    size_t max = engine->options.lists_max;

    return max == 0 || walk_count(engine) + redrive_counting(engine) < max;
}

bool lists_may_last(const struct ask *ask, const struct lists_live *live)
{
    bool is_own_full = !reach_is_whole(&ask->reach) && live->own >= LISTS_LIMITED(live->max);

    return live->all < live->max && !is_own_full;
}

bool lists_is_his(const char *kept, struct span who)
{
    return span_equal(span_of(kept), span_until(who, LISTS_WHO_MAX));
}
