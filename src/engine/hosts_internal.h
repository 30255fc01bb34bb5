/* SPDX-License-Identifier: MIT
 *
 * hosts -- shared only by hosts.c and hosts_parked.c: a host of a queue as they see it.
 */
#ifndef ENGINE_HOSTS_INTERNAL_H
#define ENGINE_HOSTS_INTERNAL_H

#include "engine/engine_internal.h"

#define LOOK_BURST 1024 /* tasks that are leased in vain in a row at full speed */

enum host_list { LIST_NONE = 0, LIST_OPEN, LIST_HELD };

struct host {
    struct host *next;                              /* of its bucket */
    struct host *next_of_queue, *previous_of_queue; /* all of its queue */
    struct host *next_listed, *previous_listed;     /* open or held ones of its queue */
    struct attempt *first, **last;                  /* leased, in line for a place */
    struct queue *queue;
    struct schedule parked[WAIT_KINDS]; /* not leased: what is due and was given back */
    uint32_t in_flight, line_count;
    uint32_t wanted; /* leases of parked ones under way */
    enum host_list list;
    bool is_heard;      /* it gave an answer, and has not been silent since */
    bool has_failed;    /* it gave none */
    int64_t put_off_ms; /* among nodes, wall: the latest moment that a task was put off to */
    size_t bucket;
    size_t name_len;
    char name[];
};

/* hosts.c */
struct host *host_find(const struct engine *engine, const struct queue *queue, struct span url);
struct host *host_add(struct engine *engine, struct queue *queue, struct span url);
void host_drop_if_idle(struct engine *engine, struct host *host);
uint32_t host_max(const struct queue *queue);
bool host_line_has_room(const struct engine *engine, const struct host *host);
bool host_is_silent(const struct host *host);
bool hosts_silent_are_many(const struct queue *queue);

/* hosts_parked.c */
uint64_t host_parked(const struct host *host);
void host_unlist(struct host *host);
void host_put_on_list(struct host *host, enum host_list list);
void host_open(struct host *host); /* it may have room for one that is parked there */
void hosts_open_held(struct queue *queue);

#endif
