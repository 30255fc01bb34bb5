/* SPDX-License-Identifier: MIT
 *
 * arena -- a list of blocks, each at least BLOCK_BYTES. Large pieces get a block of their own, so
 * that a body of a megabyte costs a megabyte.
 */
#include "base/arena.h"

#include "base/room.h"

#include <stdarg.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_BYTES 2000
#define ALIGN       alignof(max_align_t)

struct block {
    struct block *next;
    size_t used, size;
    alignas(max_align_t) char bytes[];
};

struct arena {
    struct block *blocks; /* the one that is being filled first */
    size_t max, used;
    bool holds_secrets;
    struct room *room; /* NULL: it is counted nowhere */
    size_t counted;
};

struct arena *arena_new(size_t max)
{
    struct arena *arena = calloc(1, sizeof *arena);

    if (arena != NULL) {
        arena->max = max;
    }
    return arena;
}

void arena_hold_secrets(struct arena *arena)
{
    arena->holds_secrets = true;
}

/* Through a volatile pointer, or the compiler sees that nobody reads it again. */
static void wipe(struct block *block)
{
    for (volatile char *byte = block->bytes; byte < block->bytes + block->used; byte++) {
        *byte = 0;
    }
}

static void free_block(const struct arena *arena, struct block *block)
{
    if (arena->holds_secrets) {
        wipe(block);
    }
    free(block);
}

void arena_free(struct arena *arena)
{
    if (arena == NULL) {
        return;
    }
    for (struct block *block = arena->blocks; block != NULL;) {
        struct block *next = block->next;
        free_block(arena, block);
        block = next;
    }
    arena_uncount(arena);
    free(arena);
}

void arena_count(struct arena *arena, struct room *room, size_t bytes)
{
    arena->room = room;
    arena->counted = bytes;
}

void arena_uncount(struct arena *arena)
{
    room_give(arena->room, arena->counted);
    arena->room = NULL;
    arena->counted = 0;
}

static size_t rounded_up(size_t size)
{
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

/* A block that is as large as the copy was made for it alone. */
bool arena_drop(struct arena *arena, struct span copy)
{
    for (struct block **link = &arena->blocks; *link != NULL; link = &(*link)->next) {
        struct block *block = *link;
        if (block->bytes == copy.at && block->size == rounded_up(copy.len + 1)) {
            *link = block->next;
            arena->used -= copy.len + 1;
            free_block(arena, block);
            return true;
        }
    }
    return false;
}

static struct block *add_block(struct arena *arena, size_t size)
{
    bool is_large = size > BLOCK_BYTES / 2;
    struct block *first = arena->blocks;
    struct block *block = malloc(sizeof *block + (is_large ? size : BLOCK_BYTES));

    if (block == NULL) {
        return NULL;
    }
    *block = (struct block){.size = is_large ? size : BLOCK_BYTES};
    if (is_large && first != NULL) { /* the block in use keeps its place at the front */
        block->next = first->next;
        first->next = block;
    } else {
        block->next = first;
        arena->blocks = block;
    }
    return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > arena->max - arena->used) {
        return NULL;
    }
    size_t rounded = rounded_up(size);
    struct block *block = arena->blocks;
    if (block == NULL || rounded > block->size - block->used) {
        block = add_block(arena, rounded);
    }
    if (block == NULL) {
        return NULL;
    }
    void *piece = block->bytes + block->used;
    block->used += rounded;
    arena->used += size;
    return memset(piece, 0, size);
}

struct span arena_copy(struct arena *arena, struct span bytes)
{
    char *copy = arena_alloc(arena, bytes.len + 1);

    if (copy != NULL) {
        span_copy(copy, bytes);
    }
    return (struct span){.at = copy, .len = copy != NULL ? bytes.len : 0};
}

struct span arena_printf(struct arena *arena, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int len = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = len < 0 ? NULL : arena_alloc(arena, (size_t)len + 1);
    if (text == NULL) {
        return (struct span){0};
    }
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)len + 1, format, arguments); /* fits */
    va_end(arguments);
    return (struct span){.at = text, .len = (size_t)len};
}

size_t arena_used(const struct arena *arena)
{
    return arena->used;
}
