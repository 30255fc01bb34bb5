/* SPDX-License-Identifier: MIT
 *
 * sums -- inside src/engine only: lines of the log that come in storms. The first ones of a second are
 * written as they are; of the others those that are alike become one line with their count, when the
 * second is over. So an outage of a hundred thousand tasks is a few lines a second, and what else the
 * log has to say is not drowned or thrown away behind it.
 */
#ifndef ENGINE_SUMS_INTERNAL_H
#define ENGINE_SUMS_INTERNAL_H

#include "base/span.h"

#include <daruma/log.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUMS_EVERY_MS    1000
#define SUMS_QUEUE_MAX   10    /* lines a second and queue, of info; and as many of warnings */
#define SUMS_ALL_MAX     100   /* of all queues together, likewise */
#define SUMS_ROWS_MAX    64    /* kinds of lines that are told apart while they are summed up */
#define SUMS_NUMBERS_MAX 4     /* of a line that are summed up themselves */
#define SUMS_FIELDS_MAX  8     /* of a line, each of what is shared and what is its own */
#define SUMS_TEXT_MAX    384   /* bytes of the texts that are shared; longer ones are cut */
#define SUMS_EMPTY_MS    60000 /* between two lines that say that a queue is empty */

struct engine;
struct queue;

/* What may be written as it is. Zeroed: all of it. */
struct sums_budget {
    int64_t began_ms; /* monotonic */
    uint32_t count;
};

/* A number that lines which are alike do not share: in the line that stands for them it is the sum of
 * all, or that of the last one. */
struct sums_number {
    const char *name; /* a literal; NULL: none */
    uint64_t value;
    enum { SUMS_ADDED = 0, SUMS_LAST } how;
};

struct sums_line {
    const char *event; /* a literal */
    enum daruma_log_level level;
    struct sums_budget *budget; /* NULL: its queue's */
    uint32_t most;              /* of the budget, a second */
    struct queue *queue;        /* NULL: of none */
    /* What makes lines alike, but for their digits; then what only the single line has. */
    struct daruma_log_field shared[SUMS_FIELDS_MAX], own[SUMS_FIELDS_MAX];
    size_t shared_count, own_count;
    struct sums_number numbers[SUMS_NUMBERS_MAX]; /* written last */
};

/* Lines that are alike. */
struct sums_row {
    uint64_t hash, count;
    const char *event;
    enum daruma_log_level level;
    const struct queue *queue; /* lives as long as the engine */
    struct daruma_log_field shared[SUMS_FIELDS_MAX];
    size_t shared_count;
    struct sums_number numbers[SUMS_NUMBERS_MAX];
    char text[SUMS_TEXT_MAX]; /* what they point to */
};

struct sums {
    struct sums_budget all[2]; /* of queues: info, warnings */
    int64_t due_at_ms;         /* monotonic: when the rows are told; 0: there are none */
    int64_t empty_at_ms;       /* likewise: when the first queue may be said to be empty */
    size_t row_count;
    struct sums_row rows[SUMS_ROWS_MAX];
    uint64_t others[2]; /* lines for which there was no row: info, warnings */
};

/* Writes it, or counts it. */
void sums_log(struct engine *engine, const struct sums_line *line);
/* A run of retries begins: how much waits. What a person has asked for is said in any case. */
void sums_log_length(struct engine *engine, struct queue *queue, uint64_t waiting);
/* It has ended. */
struct sums_run {
    uint64_t taken, succeeded, failed;
    uint64_t retrying; /* of those that failed: wait for another attempt */
};
void sums_log_run(struct engine *engine, struct queue *queue, const struct sums_run *run);
/* The queue has become empty: says so now, or, if it still is by then, when SUMS_EMPTY_MS are over. */
void sums_log_empty(struct engine *engine, struct queue *queue);
void sums_tick(struct engine *engine);
int64_t sums_wait_ms(const struct engine *engine); /* INT64_MAX: nothing is held back */
void sums_flush(struct engine *engine);            /* all of it, now: the engine ends */

/* The host and port of a URL, without a user's name and password. */
struct span sums_host_of(struct span url);

#endif
