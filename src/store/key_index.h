/* SPDX-License-Identifier: MIT
 *
 * key_index -- which row a key is bound to, in memory. A unique index on random keys inside the
 * database costs two thirds of its speed (docs/decisions/0003-store.md), so it is kept here and
 * rebuilt at start from the hashes stored beside the rows.
 *
 * 256 tables of 16 bytes a slot, each growing alone: one big table would stop the store for a
 * second when it doubles at ten million keys. The hash has a secret, because keys come from outside.
 * It finds candidates only: different keys may share a hash, and the caller compares with the row.
 *
 * One thread at a time.
 */
#ifndef STORE_KEY_INDEX_H
#define STORE_KEY_INDEX_H

#include "base/siphash.h"

#define KEY_INDEX_TABLES 256

struct key_slot {
    uint64_t hash;
    int64_t row; /* 0: free */
};

struct key_table {
    struct key_slot *slots;
    size_t size, count; /* size is a power of two, or 0 */
};

/* Zeroed but for the secret is empty. */
struct key_index {
    unsigned char secret[SIPHASH_SECRET_BYTES];
    struct key_table tables[KEY_INDEX_TABLES];
};

/* Begins zeroed, with the hash that is looked for. */
struct key_cursor {
    uint64_t hash;
    size_t probed;
};

/* One change of a batch, so that it can be taken back. */
struct key_change {
    uint64_t hash;
    int64_t row;
    bool added;
};

/* What a batch has done to the index so far. Zeroed is empty. */
struct key_log {
    struct key_change *changes;
    size_t count, room;
};

void key_index_done(struct key_index *index);

/* Never 0: that stands for "not bound" wherever a hash is stored. */
uint64_t key_index_hash(const struct key_index *index, uint32_t queue, struct span scope,
                        struct span key);

/* 0 or FAULT_MEMORY: then nothing has changed. */
int key_index_add(struct key_index *index, uint64_t hash, int64_t row)
    __attribute__((warn_unused_result));
bool key_index_remove(struct key_index *index, uint64_t hash, int64_t row); /* was it there? */

/* The next row bound to a key of that hash, 0 at the end. The index must not change in between. */
int64_t key_index_next(const struct key_index *index, struct key_cursor *cursor);
size_t key_index_count(const struct key_index *index);

/* Makes room for that many changes; FAULT_MEMORY. Then only an addition can fail. */
int key_log_begin(struct key_log *log, size_t changes_max) __attribute__((warn_unused_result));
int key_log_add(struct key_log *log, struct key_index *index, uint64_t hash, int64_t row)
    __attribute__((warn_unused_result));
void key_log_remove(struct key_log *log, struct key_index *index, uint64_t hash, int64_t row);
void key_log_undo(struct key_log *log, struct key_index *index); /* cannot fail */
void key_log_done(struct key_log *log);

#endif
