/* SPDX-License-Identifier: MIT
 *
 * arena -- memory that lives as long as one request or one attempt and is freed all at once. Born
 * with a ceiling. Belongs to one thread at a time and may be handed over.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/span.h"

struct arena; /* opaque */
struct room;

struct arena *arena_new(size_t max);  /* NULL: out of memory */
void arena_free(struct arena *arena); /* NULL is fine */

/* Zeroed, aligned for anything. NULL: past the ceiling or out of memory. */
void *arena_alloc(struct arena *arena, size_t size);

/* A copy, with a NUL after it that does not count. at is NULL when it could not be had. */
struct span arena_copy(struct arena *arena, struct span bytes);
struct span arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* From now on what is in it is overwritten before it is freed. */
void arena_hold_secrets(struct arena *arena);

/* So many bytes of it are counted in `room` (base/room.h), which outlives it, until arena_uncount or
 * arena_free gives them back. Once in its life. */
void arena_count(struct arena *arena, struct room *room, size_t bytes);
void arena_uncount(struct arena *arena);

/* A copy that was made by arena_copy is needed no longer: if it lies alone, as large ones do, its memory
 * goes back now. False: it stays, as does what is no copy of this arena. */
bool arena_drop(struct arena *arena, struct span copy);

size_t arena_used(const struct arena *arena);

#endif
