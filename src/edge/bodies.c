/* SPDX-License-Identifier: MIT
 *
 * bodies -- see bodies.h.
 */
#include "edge/bodies.h"

#include <stdlib.h>

struct shared_body {
    struct bodies *owner;
    struct shared_body *next; /* in its bucket */
    struct task_id id;
    uint32_t holds;
    size_t len;
    char bytes[];
};

void bodies_init(struct bodies *bodies, size_t bytes_max)
{
    *bodies = (struct bodies){.bytes_max = bytes_max};
}

static size_t counted(size_t bytes)
{
    return bytes > BODIES_SMALL_BYTES ? bytes - BODIES_SMALL_BYTES : 0;
}

bool bodies_take(struct bodies *bodies, size_t before, size_t after)
{
    size_t more = counted(after) - counted(before);

    if (more == 0) {
        return true;
    }
    if (atomic_fetch_add_explicit(&bodies->bytes, more, memory_order_relaxed) + more <=
        bodies->bytes_max) {
        return true;
    }
    atomic_fetch_sub_explicit(&bodies->bytes, more, memory_order_relaxed);
    return false;
}

void bodies_give(struct bodies *bodies, size_t bytes)
{
    if (counted(bytes) > 0) {
        atomic_fetch_sub_explicit(&bodies->bytes, counted(bytes), memory_order_relaxed);
    }
}

static struct shared_body **bucket_of(struct bodies *bodies, struct task_id id)
{
    return &bodies->buckets[(uint64_t)(id.row ^ (int64_t)id.tail) % BODIES_BUCKETS];
}

/* An answer never changes, but a task that was sent on again has another one. */
static struct shared_body *find(struct bodies *bodies, struct task_id id, struct span body)
{
    struct shared_body *each = *bucket_of(bodies, id);

    while (each != NULL && (each->id.row != id.row || each->id.tail != id.tail ||
                            !span_equal(shared_body_span(each), body))) {
        each = each->next;
    }
    return each;
}

struct shared_body *bodies_share(struct bodies *bodies, struct task_id id, struct span body)
{
    struct shared_body *shared = find(bodies, id, body);

    if (shared != NULL) {
        shared->holds++;
        return shared;
    }
    if (!bodies_take(bodies, 0, body.len)) {
        return NULL;
    }
    shared = malloc(sizeof *shared + body.len);
    if (shared == NULL) {
        bodies_give(bodies, body.len);
        return NULL;
    }
    struct shared_body **bucket = bucket_of(bodies, id);
    *shared = (struct shared_body){
        .owner = bodies, .next = *bucket, .id = id, .holds = 1, .len = body.len};
    span_copy(shared->bytes, body);
    *bucket = shared;
    return shared;
}

struct span shared_body_span(const struct shared_body *body)
{
    return (struct span){.at = body->bytes, .len = body->len};
}

void shared_body_release(struct shared_body *body)
{
    if (body == NULL || --body->holds > 0) {
        return;
    }
    struct shared_body **link = bucket_of(body->owner, body->id);
    while (*link != body) {
        link = &(*link)->next;
    }
    *link = body->next;
    bodies_give(body->owner, body->len);
    free(body);
}

void shared_body_release_bytes(void *bytes)
{
    shared_body_release(
        (struct shared_body *)((char *)bytes - offsetof(struct shared_body, bytes)));
}
