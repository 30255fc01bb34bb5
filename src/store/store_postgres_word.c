/* SPDX-License-Identifier: MIT
 *
 * store_postgres_word -- what ends the wait of the thread that beats: a peer's word (NOTIFY), or this
 * node's own engine, which writes a byte into a pipe.
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
    return link_exec(link, "LISTEN " CHANNEL_READY "; LISTEN " CHANNEL_FORGOTTEN, err);
}

void postgres_nudge(struct store *store, const struct node_wish *wish)
{
    struct store_postgres *postgres = (struct store_postgres *)store;

    __atomic_store_n(&postgres->asked, wish->asked, __ATOMIC_RELEASE);
    if (postgres->nudges[1] >= 0 && write(postgres->nudges[1], "", 1) < 0) {
        return; /* it is full: then the thread is on its way already */
    }
}

static unsigned take_nudges(const struct store_postgres *postgres)
{
    char bytes[NUDGES_MAX];

    return postgres->nudges[0] >= 0 && read(postgres->nudges[0], bytes, sizeof bytes) > 0
               ? WORD_NUDGE
               : 0;
}

static unsigned take_words(const struct store_postgres *postgres)
{
    unsigned words = take_nudges(postgres);
    PGnotify *word;

    while ((word = PQnotifies(postgres->pulse.connection)) != NULL) {
        bool is_forgotten = strcmp(word->relname, CHANNEL_FORGOTTEN) == 0;
        words |= is_forgotten ? WORD_FORGOTTEN : WORD_READY;
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
    (void)PQconsumeInput(connection); /* what fails here fails in the next statement too */
    return words | take_words(postgres);
}
