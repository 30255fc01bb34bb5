/* SPDX-License-Identifier: MIT
 *
 * store_postgres_moved -- callers may wait at one node for a task that another one settles. While some
 * peer says so (node.awaits), this node tells the rows of what it has settled, by NOTIFY:
 *
 *   writers: committed --> noted --> nudge --> the beating thread says it, a word for all of a while
 *
 * Not in the commit itself: a word there would take the server's lock for words until the commit is on
 * the disk, and all who say something would commit one after the other. A transaction of a word alone
 * waits for no disk. What is lost of it, as when a node dies in between, those who wait see for
 * themselves a little later.
 */
#include "store/store_postgres_internal.h"

#include "base/clock.h"

#include <stdio.h>

#define SAY_EVERY_MS 5
#define ROW_TEXT_MAX 24
#define TEXT_MAX     ((size_t)MOVED_MAX * ROW_TEXT_MAX)

static void add(struct moved *moved, int64_t row)
{
    if (moved->count < MOVED_MAX) {
        moved->rows[moved->count++] = row;
    } else {
        moved->has_more = true;
    }
}

static bool is_empty(const struct moved *moved)
{
    return moved->count == 0 && !moved->has_more;
}

/* --- saying -------------------------------------------------------------------------------------- */

/* Is it what a caller may have waited for? One that is tried again later is not. */
static bool has_moved(const struct op *op)
{
    bool is_settle = op->kind == OP_SETTLE || op->kind == OP_EXPIRE;

    return op->result == RESULT_DONE &&
           (op->kind == OP_CANCEL || op->kind == OP_PURGE ||
            (is_settle && op->life.state != TASK_WAITING && op->life.state != TASK_RUNNING));
}

void moved_note(struct store_postgres *postgres, struct op *ops[], size_t count)
{
    bool is_new = false;

    if (__atomic_load_n(&postgres->is_awaited, __ATOMIC_ACQUIRE) == 0) {
        return;
    }
    (void)pthread_mutex_lock(&postgres->moved_lock); /* fails only for one that is held already */
    for (size_t i = 0; i < count; i++) {
        if (has_moved(ops[i])) {
            is_new = true;
            add(&postgres->moved, ops[i]->task.id.row);
        }
    }
    (void)pthread_mutex_unlock(&postgres->moved_lock); /* likewise */
    if (is_new) {
        words_nudge(postgres);
    }
}

int64_t moved_wait_ms(struct store_postgres *postgres)
{
    int64_t since_ms = clock_mono_ms(&clock_real) - postgres->moved_at_ms;

    (void)pthread_mutex_lock(&postgres->moved_lock); /* as above */
    bool has_none = is_empty(&postgres->moved);
    (void)pthread_mutex_unlock(&postgres->moved_lock); /* as above */
    return has_none ? INT64_MAX : since_ms >= SAY_EVERY_MS ? 0 : SAY_EVERY_MS - since_ms;
}

static void take(struct store_postgres *postgres, struct moved *ret_moved)
{
    (void)pthread_mutex_lock(&postgres->moved_lock); /* as above */
    *ret_moved = postgres->moved;
    postgres->moved.count = 0;
    postgres->moved.has_more = false;
    (void)pthread_mutex_unlock(&postgres->moved_lock); /* as above */
}

static struct span text_of(const struct moved *moved, char text[TEXT_MAX])
{
    size_t len = 0;

    if (moved->has_more) {
        return SPAN(MOVED_MANY);
    }
    for (size_t i = 0; i < moved->count; i++) {
        len += (size_t)snprintf(text + len, ROW_TEXT_MAX, "%lld ", (long long)moved->rows[i]);
    }
    return (struct span){.at = text, .len = len};
}

int moved_say(struct store_postgres *postgres, struct error *err)
{
    struct sheet sheet = {.is_plain = true};
    struct step step = {.statement = STATEMENT_MOVED, .sheet = &sheet};
    char text[TEXT_MAX];
    struct moved moved;

    if (moved_wait_ms(postgres) != 0) {
        return 0;
    }
    take(postgres, &moved);
    sheet_row(&sheet);
    sheet_bytes(&sheet, text_of(&moved, text));
    int failed = link_run(&postgres->pulse, &step, 1, err);
    postgres->moved_at_ms = clock_mono_ms(&clock_real);
    steps_clear(&step, 1);
    sheet_done(&sheet);
    return failed;
}

/* --- hearing ------------------------------------------------------------------------------------- */

unsigned moved_hear(struct store_postgres *postgres, struct span text)
{
    struct span rest = text, front;
    int64_t row;

    if (span_is(text, MOVED_LOOK)) {
        return WORD_LOOK;
    }
    if (__atomic_load_n(&postgres->awaits, __ATOMIC_ACQUIRE) == 0) {
        return 0; /* a word to others */
    }
    postgres->heard.has_more |= span_is(text, MOVED_MANY);
    while (span_cut(&rest, ' ', &front)) {
        if (span_to_int(front, &row)) {
            add(&postgres->heard, row);
        }
    }
    return WORD_MOVED;
}

int moved_tell(struct store_postgres *postgres, struct arena *arena, struct beat *ret_beat,
               struct error *err)
{
    struct moved *heard = &postgres->heard;

    if (is_empty(heard)) {
        return 0;
    }
    ret_beat->moved = arena_alloc(arena, (heard->count + 1) * sizeof *ret_beat->moved);
    if (ret_beat->moved == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for what peers say");
    }
    for (size_t i = 0; i < heard->count; i++) {
        ret_beat->moved[i] = heard->rows[i];
    }
    ret_beat->moved_count = heard->count;
    ret_beat->has_moved_more = heard->has_more;
    heard->count = 0;
    heard->has_more = false;
    return 0;
}
