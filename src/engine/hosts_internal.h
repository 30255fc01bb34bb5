/* SPDX-License-Identifier: MIT
 *
 * hosts -- shared only by hosts*.c and host_*.c: a host of a queue as they see it.
 */
#ifndef ENGINE_HOSTS_INTERNAL_H
#define ENGINE_HOSTS_INTERNAL_H

#include "engine/engine_internal.h"

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
    enum wait_kind listed_kind; /* the most urgent of what is parked, when it was put there */
    bool is_heard;              /* it gave an answer, and has not been silent since */
    bool has_failed;            /* it gave none */
    bool has_answered;          /* lately, with an error that is tried again */
    int64_t oldest_ms;          /* when the longest-due of what is parked was due: host_ages.c */
    size_t age;                 /* its place there, counted from 1; 0: nothing is parked */
    uint64_t hash;              /* of its name and queue */
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
bool hosts_have_chance(const struct engine *engine, const struct queue *queue);
bool host_has_chance(const struct engine *engine, const struct host *host);
void hosts_use_chance(const struct engine *engine, struct queue *queue);
/* Would a new task for it have to wait, because silent hosts have all that they may have? */
bool hosts_are_held(const struct engine *engine, const struct queue *queue, struct span url);

/* host_table.c: all hosts by queue and name. host_table_add: zeroed but for these; NULL: no memory. */
struct host *host_table_find(const struct engine *engine, const struct queue *queue,
                             struct span name);
uint64_t host_table_hash(const struct engine *engine, const struct queue *queue, struct span name);
struct host *host_table_add(struct engine *engine, struct queue *queue, struct span name);
void host_table_drop(struct engine *engine, struct host *host); /* does not free it */
void host_table_done(struct engine *engine);

/* host_memory.c: hosts that gave no answer, or answered with an error, for HOST_MEMORY_MS; by host->hash. */
enum host_fate { HOST_UNKNOWN = 0, HOST_FAILED, HOST_ANSWERED };
#define HOST_MEMORY_MS  600000
#define HOST_MEMORY_MAX 8192 /* hosts, of all queues; 16 bytes each */
enum host_fate host_memory_of(const struct engine *engine, uint64_t hash);
void host_memory_note(struct engine *engine, const struct host *host, enum host_fate fate);
void host_memory_heard(struct engine *engine, const struct host *host); /* and all is well */
void host_memory_done(struct engine *engine);

/* host_ages.c: the hosts of a queue by what has been parked for the longest time. */
bool host_ages_reserve(struct queue *queue, const struct host *host)
    __attribute__((warn_unused_result));  /* before something is parked; false: no memory */
void host_ages_update(struct host *host); /* after something was parked there or taken */
void host_ages_done(struct queue *queue);

/* hosts_parked.c */
uint64_t host_parked(const struct host *host);
void host_unlist(struct host *host);
void host_put_on_list(struct host *host, enum host_list list);
void host_open(struct host *host); /* it may have room for one that is parked there */
void hosts_open_held(struct queue *queue);
void hosts_open_one_held(
    struct queue *queue); /* that something urgent is parked at, if there is one */
void hosts_found(struct attempt *attempt, enum host_entry entry);

#endif
