/* SPDX-License-Identifier: MIT
 *
 * reader -- see reader.h.
 */
#include "engine/reader.h"
#include "engine/engine_internal.h"

#include <pthread.h>
#include <stdlib.h>

struct reader {
    struct store *store;
    struct handover *incoming, *performed;
    reader_wake_fn wake;
    void *wake_user;
    pthread_t thread;
    bool has_thread;
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

static void *run(void *argument)
{
    struct reader *reader = argument;
    struct handover_link *link;

    while ((link = handover_take(reader->incoming, 1, -1)) != NULL) {
        read_perform((struct read *)link, reader->store);
        (void)handover_give(reader->performed, link); /* has room for all */
        reader->wake(reader->wake_user);
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
    return handover_give(reader->incoming, &read->link);
}

struct handover_link *reader_take(struct reader *reader)
{
    return handover_take(reader->performed, SIZE_MAX, 0);
}
