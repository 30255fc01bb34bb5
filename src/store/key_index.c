/* SPDX-License-Identifier: MIT
 *
 * key_index -- see key_index.h. Open addressing with linear probing; what is removed is closed up
 * by moving later slots back, so that there are no tombstones to sweep and taking a removal back
 * always finds room.
 */
#include "store/key_index.h"

#include "base/fault.h"

#include <assert.h>
#include <stdlib.h>

#define TABLE_SIZE_MIN 16
#define LOAD_NUMERATOR 3 /* a table is at most three quarters full */
#define LOAD_DIVISOR   4
#define HEAD_BYTES     8

static struct key_table *table_of(const struct key_index *index, uint64_t hash)
{
    return (struct key_table *)&index->tables[hash >> 56]; /* the lower bits choose the slot */
}

void key_index_done(struct key_index *index)
{
    if (index == NULL) {
        return;
    }
    for (size_t i = 0; i < KEY_INDEX_TABLES; i++) {
        free(index->tables[i].slots);
        index->tables[i] = (struct key_table){0};
    }
}

uint64_t key_index_hash(const struct key_index *index, uint32_t queue, struct span scope,
                        struct span key)
{
    char head[HEAD_BYTES]; /* the length too: ("ab", "c") and ("a", "bc") are not the same */
    struct siphash hash;

    for (int i = 0; i < HEAD_BYTES / 2; i++) { /* the same bytes on every machine: it is stored */
        head[i] = (char)(queue >> 8 * i);
        head[HEAD_BYTES / 2 + i] = (char)((uint32_t)scope.len >> 8 * i);
    }
    siphash_begin(&hash, index->secret);
    siphash_add(&hash, (struct span){.at = head, .len = sizeof head});
    siphash_add(&hash, scope);
    siphash_add(&hash, key);
    uint64_t value = siphash_end(&hash);
    return value != 0 ? value : 1;
}

/* There is room. */
static void put(struct key_table *table, uint64_t hash, int64_t row)
{
    size_t mask = table->size - 1, at = hash & mask;

    while (table->slots[at].row != 0) {
        at = (at + 1) & mask;
    }
    table->slots[at] = (struct key_slot){.hash = hash, .row = row};
    table->count++;
}

static int grow(struct key_table *table)
{
    size_t size = table->size == 0 ? TABLE_SIZE_MIN : table->size * 2;
    struct key_table larger = {.slots = calloc(size, sizeof *larger.slots), .size = size};

    if (larger.slots == NULL) {
        return FAULT_MEMORY;
    }
    for (size_t i = 0; i < table->size; i++) {
        if (table->slots[i].row != 0) {
            put(&larger, table->slots[i].hash, table->slots[i].row);
        }
    }
    free(table->slots);
    *table = larger;
    return 0;
}

int key_index_add(struct key_index *index, uint64_t hash, int64_t row)
{
    struct key_table *table = table_of(index, hash);

    assert(hash != 0);
    assert(row != 0);
    if ((table->count + 1) * LOAD_DIVISOR > table->size * LOAD_NUMERATOR && grow(table) != 0) {
        return FAULT_MEMORY;
    }
    put(table, hash, row);
    return 0;
}

/* Moves back what could not stand in its own place because of the slot that is now free. */
static void close_up(struct key_table *table, size_t hole)
{
    size_t mask = table->size - 1;

    for (size_t at = (hole + 1) & mask; table->slots[at].row != 0; at = (at + 1) & mask) {
        size_t home = table->slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            table->slots[hole] = table->slots[at];
            hole = at;
        }
    }
    table->slots[hole] = (struct key_slot){0};
}

bool key_index_remove(struct key_index *index, uint64_t hash, int64_t row)
{
    struct key_table *table = table_of(index, hash);

    if (table->size == 0) {
        return false;
    }
    size_t mask = table->size - 1;
    for (size_t at = hash & mask; table->slots[at].row != 0; at = (at + 1) & mask) {
        if (table->slots[at].hash == hash && table->slots[at].row == row) {
            close_up(table, at);
            table->count--;
            return true;
        }
    }
    return false;
}

int64_t key_index_next(const struct key_index *index, struct key_cursor *cursor)
{
    const struct key_table *table = table_of(index, cursor->hash);

    while (cursor->probed < table->size) {
        size_t at = (cursor->hash + cursor->probed) & (table->size - 1);
        cursor->probed++;
        if (table->slots[at].row == 0) {
            return 0;
        }
        if (table->slots[at].hash == cursor->hash) {
            return table->slots[at].row;
        }
    }
    return 0;
}

size_t key_index_count(const struct key_index *index)
{
    size_t count = 0;

    for (size_t i = 0; i < KEY_INDEX_TABLES; i++) {
        count += index->tables[i].count;
    }
    return count;
}

int key_log_begin(struct key_log *log, size_t changes_max)
{
    log->count = 0;
    if (log->room >= changes_max) {
        return 0;
    }
    struct key_change *changes = realloc(log->changes, changes_max * sizeof *changes);
    if (changes == NULL) {
        return FAULT_MEMORY;
    }
    log->changes = changes;
    log->room = changes_max;
    return 0;
}

static void note(struct key_log *log, struct key_change change)
{
    assert(log->count < log->room);
    log->changes[log->count++] = change;
}

int key_log_add(struct key_log *log, struct key_index *index, uint64_t hash, int64_t row)
{
    int failed = key_index_add(index, hash, row);

    if (failed == 0) {
        note(log, (struct key_change){.hash = hash, .row = row, .added = true});
    }
    return failed;
}

void key_log_remove(struct key_log *log, struct key_index *index, uint64_t hash, int64_t row)
{
    if (key_index_remove(index, hash, row)) {
        note(log, (struct key_change){.hash = hash, .row = row});
    }
}

void key_log_undo(struct key_log *log, struct key_index *index)
{
    while (log->count > 0) {
        const struct key_change *change = &log->changes[--log->count];
        if (change->added) {
            (void)key_index_remove(index, change->hash, change->row); /* it is there */
        } else {
            put(table_of(index, change->hash), change->hash, change->row); /* it has been there */
        }
    }
}

void key_log_done(struct key_log *log)
{
    free(log->changes);
    *log = (struct key_log){0};
}
