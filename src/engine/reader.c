/* SPDX-License-Identifier: MIT
 *
 * reader -- see reader.h. What has come in is sorted into lines that only the thread itself sees, so
 * there is no lock but those of the two handovers.
 */
#include "engine/reader.h"
#include "engine/engine_internal.h"

#include <pthread.h>
#include <stdlib.h>

enum line_kind { LINE_SHORT, LINE_FRESH, LINE_BEGUN, LINE_COUNT };

struct line {
    struct read *first, *last;
};

struct reader {
    struct store *store;
    struct handover *incoming, *performed;
    reader_wake_fn wake;
    void *wake_user;
    pthread_t thread;
    bool has_thread;
    size_t given_count; /* and not taken back: the loop thread's */

    /* The reader's own thread's. */
    struct line lines[LINE_COUNT];
    size_t short_count;       /* performed since the last step of a long one */
    enum line_kind long_last; /* where that one was from */
    bool is_stopping;
};

struct reader *reader_new(struct store *store, reader_wake_fn wake, void *user)
{
    struct reader *reader = calloc(1, sizeof *reader);

    if (reader == NULL) {
        return NULL;
    }
    *reader = (struct reader){.store = store,
                              .incoming = handover_new(READER_WAITING_MAX),
                              .performed = handover_new(SIZE_MAX), /* takes all that came in */
                              .wake = wake,
                              .wake_user = user};
    if (reader->incoming == NULL || reader->performed == NULL) {
        reader_free(reader);
        return NULL;
    }
    return reader;
}

void reader_free(struct reader *reader)
{
    if (reader == NULL) {
        return;
    }
    handover_free(reader->incoming);
    handover_free(reader->performed);
    free(reader);
}

/* --- lines --------------------------------------------------------------------------------------- */

static void line_add(struct line *line, struct read *read)
{
    read->link.next = NULL;
    if (line->first == NULL) {
        line->first = read;
    } else {
        line->last->link.next = &read->link;
    }
    line->last = read;
}

static struct read *line_take(struct line *line)
{
    struct read *read = line->first;

    line->first = (struct read *)read->link.next;
    return read;
}

/* One that is not done stays the first of those that have begun. */
static void line_put_back(struct line *line, struct read *read)
{
    read->link.next = line->first != NULL ? &line->first->link : NULL;
    line->last = line->first != NULL ? line->last : read;
    line->first = read;
}

static bool has_any(const struct reader *reader, enum line_kind kind)
{
    return reader->lines[kind].first != NULL;
}

static bool has_long(const struct reader *reader)
{
    return has_any(reader, LINE_FRESH) || has_any(reader, LINE_BEGUN);
}

/* Everything that has come in. Waits for it while there is nothing else to do; false: there is
 * nothing, and nothing will come. */
static bool take_in(struct reader *reader)
{
    bool has_work = has_any(reader, LINE_SHORT) || has_long(reader);
    struct handover_link *link = handover_take(reader->incoming, SIZE_MAX, has_work ? 0 : -1);

    reader->is_stopping = handover_is_closed(reader->incoming);
    has_work |= link != NULL;
    while (link != NULL) {
        struct handover_link *next = link->next;
        struct read *read = (struct read *)link;
        line_add(&reader->lines[read_is_long(read) ? LINE_FRESH : LINE_SHORT], read);
        link = next;
    }
    return has_work;
}

static enum line_kind choose(struct reader *reader)
{
    if (has_any(reader, LINE_SHORT) &&
        (!has_long(reader) || reader->short_count < READER_SHORTS_MAX)) {
        reader->short_count++;
        return LINE_SHORT;
    }
    bool is_begun = has_any(reader, LINE_BEGUN) &&
                    (reader->long_last == LINE_FRESH || !has_any(reader, LINE_FRESH));
    reader->short_count = 0;
    reader->long_last = is_begun ? LINE_BEGUN : LINE_FRESH;
    return reader->long_last;
}

/* --- the thread ---------------------------------------------------------------------------------- */

static void *run(void *argument)
{
    struct reader *reader = argument;

    while (take_in(reader)) {
        enum line_kind kind = choose(reader);
        struct read *read = line_take(&reader->lines[kind]);
        if (reader->is_stopping) {
            read_cut(read);
        }
        if (read_step(read, reader->store)) {
            (void)handover_give(reader->performed, &read->link); /* has room for all */
            reader->wake(reader->wake_user);
        } else if (kind == LINE_BEGUN) {
            line_put_back(&reader->lines[LINE_BEGUN], read);
        } else {
            line_add(&reader->lines[LINE_BEGUN], read);
        }
    }
    return NULL;
}

int reader_start(struct reader *reader, struct error *err)
{
    if (pthread_create(&reader->thread, NULL, run, reader) != 0) {
        return fail(err, FAULT_SYSTEM, "no thread for reading could be had");
    }
    reader->has_thread = true;
    return 0;
}

void reader_stop(struct reader *reader)
{
    handover_close(reader->incoming);
    if (reader->has_thread) {
        (void)pthread_join(reader->thread, NULL); /* fails only for a thread that is not there */
        reader->has_thread = false;
    }
}

bool reader_give(struct reader *reader, struct read *read)
{
    bool is_given =
        reader->given_count < READER_WAITING_MAX && handover_give(reader->incoming, &read->link);

    reader->given_count += is_given;
    return is_given;
}

struct handover_link *reader_take(struct reader *reader, size_t most)
{
    struct handover_link *first = handover_take(reader->performed, most, 0);

    for (const struct handover_link *link = first; link != NULL; link = link->next) {
        reader->given_count--;
    }
    return first;
}
