/* SPDX-License-Identifier: MIT
 *
 * store_postgres_word -- what ends the wait of the thread that beats: a peer's word (NOTIFY), or
 * another thread of this node, which writes a byte into a pipe.
 */
#define _GNU_SOURCE /* pipe2 */
#include "store/store_postgres_internal.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#define NUDGES_MAX 64 /* bytes that are taken at once */

/* Without a pipe, as where no file can be opened, words of the engine wait for the next beat. */
void words_init(struct store_postgres *postgres)
{
    if (pipe2(postgres->nudges, O_NONBLOCK | O_CLOEXEC) != 0) {
        postgres->nudges[0] = postgres->nudges[1] = -1;
    }
}

void words_done(struct store_postgres *postgres)
{
    for (int i = 0; i < 2; i++) {
        if (postgres->nudges[i] >= 0) {
            (void)close(postgres->nudges[i]); /* nothing is lost with it */
        }
    }
}

int words_listen(struct link *link, struct error *err)
{
    return link_exec(
        link, "LISTEN " CHANNEL_READY "; LISTEN " CHANNEL_FORGOTTEN "; LISTEN " CHANNEL_MOVED, err);
}

void postgres_nudge(struct store *store, const struct node_wish *wish)
{
    struct store_postgres *postgres = (struct store_postgres *)store;

    __atomic_store_n(&postgres->asked, wish->asked, __ATOMIC_RELEASE);
    __atomic_store_n(&postgres->followed, wish->followed, __ATOMIC_RELEASE);
    __atomic_store_n(&postgres->awaits, wish->awaits, __ATOMIC_RELEASE);
    words_nudge(postgres);
}

void words_nudge(struct store_postgres *postgres)
{
    if (postgres->nudges[1] >= 0 && write(postgres->nudges[1], "", 1) < 0) {
        return; /* it is full: then the thread is on its way already */
    }
}

static void take_nudges(const struct store_postgres *postgres)
{
    char bytes[NUDGES_MAX];

    while (postgres->nudges[0] >= 0 &&
           read(postgres->nudges[0], bytes, sizeof bytes) == NUDGES_MAX) {
    }
}

/* A node that listens hears its own words, too. */
static unsigned take_word(struct store_postgres *postgres, const PGnotify *word)
{
    if (strcmp(word->relname, CHANNEL_READY) == 0) {
        return WORD_READY;
    }
    if (strcmp(word->relname, CHANNEL_FORGOTTEN) == 0) {
        return WORD_LOOK;
    }
    return word->be_pid == PQbackendPID(postgres->pulse.connection)
               ? 0
               : moved_hear(postgres, span_of(word->extra));
}

static unsigned take_words(struct store_postgres *postgres)
{
    unsigned words = 0;
    PGnotify *word;

    while ((word = PQnotifies(postgres->pulse.connection)) != NULL) {
        words |= take_word(postgres, word);
        PQfreemem(word);
    }
    return words;
}

/* Some came with the answer to a statement, and the socket says nothing of them any more. */
unsigned words_hear(struct store_postgres *postgres, int64_t wait_ms)
{
    PGconn *connection = postgres->pulse.connection;
    struct pollfd waiting[] = {{.fd = PQsocket(connection), .events = POLLIN},
                               {.fd = postgres->nudges[0], .events = POLLIN}};
    unsigned words = take_words(postgres);

    if (words == 0 && wait_ms > 0 && poll(waiting, 2, (int)wait_ms) < 0) {
        return 0; /* a signal: looked at once more */
    }
    take_nudges(postgres);
    (void)PQconsumeInput(connection); /* what fails here fails in the next statement too */
    return words | take_words(postgres);
}
