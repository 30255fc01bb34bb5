/* SPDX-License-Identifier: MIT
 *
 * nodes_read -- on the reader's thread: what others may have changed, read again.
 */
#include "engine/engine_internal.h"

#include <string.h>

#define ROOM_FIRST 16

/* Room for one more in an array of the arena; NULL: there is none. */
static void *with_room(struct read *read, void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room) {
        return array;
    }
    size_t larger = *room == 0 ? ROOM_FIRST : *room * 2;
    void *grown = arena_alloc(read->arena, larger * size);
    if (grown != NULL && count > 0) {
        memcpy(grown, array, count * size);
    }
    *room = grown != NULL ? larger : *room;
    return grown;
}

static int keep_count(void *user, const struct state_count *count)
{
    struct read *read = user;
    struct state_count *counts =
        with_room(read, read->counts, read->count_count, &read->count_room, sizeof *read->counts);

    if (counts == NULL) {
        return fail(&read->error, FAULT_MEMORY, "no memory for the counts");
    }
    read->counts = counts;
    read->counts[read->count_count++] = *count;
    return 0;
}

static int keep_memo(void *user, const struct memo *memo)
{
    struct read *read = user;
    struct memo *memos =
        with_room(read, read->memos, read->memo_count, &read->memo_room, sizeof *read->memos);
    const struct memo copy = {.name = arena_copy(read->arena, memo->name),
                              .value = arena_copy(read->arena, memo->value)};

    if (memos == NULL || copy.name.at == NULL || copy.value.at == NULL) {
        return fail(&read->error, FAULT_MEMORY, "no memory for the memos");
    }
    read->memos = memos;
    read->memos[read->memo_count++] = copy;
    return 0;
}

int nodes_read_memos(struct read *read, struct store *store)
{
    return store_memos(store, keep_memo, read, &read->error);
}

int nodes_read_counts(struct read *read, struct store *store)
{
    return store_counts(store, keep_count, read, &read->error);
}

static int keep_fate(void *user, size_t index, const struct fate *fate)
{
    struct read *read = user;

    read->fates[index] = *fate;
    return 0;
}

/* What is not found stays as it is set here. */
int nodes_read_fates(struct read *read, struct store *store)
{
    read->fates = arena_alloc(read->arena, read->row_count * sizeof *read->fates);
    if (read->fates == NULL) {
        return fail(&read->error, FAULT_MEMORY, "no memory for what came of the tasks");
    }
    for (size_t i = 0; i < read->row_count; i++) {
        read->fates[i] = (struct fate){0};
    }
    return store_fates(store, &(struct fate_question){read->rows, read->row_count}, keep_fate, read,
                       &read->error);
}
