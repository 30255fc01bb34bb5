/* SPDX-License-Identifier: MIT
 *
 * store_postgres_beat -- this node among its peers.
 */
#include "store/store_postgres_internal.h"

#include <stdio.h>
#include <unistd.h>

#define HOST_MAX 64
#define NODE_MAX (HOST_MAX + 32)

static int put_node(struct link *link, struct step steps[4], struct error *err)
{
    struct sheet lock = {.is_plain = true}, node = {.is_plain = true};
    char host[HOST_MAX] = "?", name[NODE_MAX];

    (void)gethostname(host, sizeof host - 1); /* a name for people: "?" will do */
    (void)snprintf(name, sizeof name, "%s:%ld", host, (long)getpid()); /* fits */
    sheet_row(&lock);
    sheet_int(&lock, LOCK_NODES);
    sheet_row(&node);
    sheet_bytes(&node, span_of(name));
    steps[1].sheet = &lock;
    steps[2].sheet = &node;
    int failed = link_run(link, steps, 4, err);
    sheet_done(&lock);
    sheet_done(&node);
    return failed;
}

int postgres_join(struct store_postgres *postgres, struct link *link, struct error *err)
{
    struct step steps[] = {{.statement = STATEMENT_BEGIN},
                           {.statement = STATEMENT_LOCK},
                           {.statement = STATEMENT_NODE_PUT},
                           {.statement = STATEMENT_COMMIT}};
    int failed = put_node(link, steps, err);

    if (failed == 0) {
        struct cell cell = {steps[2].result, 0};
        uint64_t epoch = (uint64_t)cell_int(cell, 0);
        if (postgres->epoch_first == 0) {
            postgres->epoch_first = epoch;
            postgres->base.epoch = epoch;
        }
        __atomic_store_n(&postgres->slot, cell_int(cell, 1), __ATOMIC_RELEASE);
        __atomic_store_n(&postgres->epoch, epoch, __ATOMIC_RELEASE);
    }
    steps_clear(steps, 4);
    return failed;
}

void postgres_leave(struct store_postgres *postgres)
{
    struct sheet node = {.is_plain = true};
    struct step step = {.statement = STATEMENT_NODE_DROP, .sheet = &node};

    if (postgres->epoch == 0 || !link_is_up(&postgres->pulse)) {
        return; /* nobody is there to be told: peers find out */
    }
    sheet_row(&node);
    sheet_int(&node, (int64_t)postgres->epoch);
    sheet_int(&node, -1);
    (void)link_run(&postgres->pulse, &step, 1, NULL); /* as above */
    steps_clear(&step, 1);
    sheet_done(&node);
}
