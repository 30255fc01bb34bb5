/* SPDX-License-Identifier: MIT
 *
 * leases -- a worker's side of POST /v1/queues/Q/leases and POST /v1/leases:settle: taking a batch
 * with a long poll, saying what came of each, and a thread that asks for more time while they are
 * being worked on.
 */
#ifndef EXAMPLE_LEASES_H
#define EXAMPLE_LEASES_H

#include "call.h"

#include <pthread.h>
#include <stdbool.h>

#define LEASES_MAX 100 /* in a batch */

struct leases_options {
    const char *server; /* http://127.0.0.1:8700 */
    const char *queue;
    const char *token;            /* NULL: none */
    struct daruma_cancel *cancel; /* set: no more is taken */
    const struct daruma_logger *log;
    int64_t lease_ms, wait_ms;
    int max; /* at most this many at once */
};

/* The fields are the module's own. */
struct leases {
    struct leases_options options;
    struct caller caller, heart; /* the second one is the thread's */
    pthread_t thread;
    pthread_mutex_t lock; /* guards held, held_count and is_over */
    pthread_cond_t wake;
    char *held[LEASES_MAX]; /* taken and not yet settled */
    size_t held_count;
    bool is_over, has_thread;
};

/* -1: no memory, or no thread. `leases` stays where it is until leases_close. */
int leases_open(struct leases *leases, const struct leases_options *options);
void leases_close(struct leases *leases);

/* Waits until something is due, or wait_ms: a list of {"lease", "task"}, which may be empty. */
int leases_take(struct leases *leases, json_t **ret_list, struct daruma_error *ret_error);

/* How one of them ended. ret_result is what the server made of it: settled, waiting or stale. */
int leases_ack(struct leases *leases, const char *lease, json_t *response, char ret_result[16],
               struct daruma_error *ret_error);
int leases_retry(struct leases *leases, const char *lease, int64_t delay_ms,
                 const struct daruma_error *why, char ret_result[16],
                 struct daruma_error *ret_error);

#endif
