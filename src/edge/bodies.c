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

void bodies_init(struct bodies *bodies, struct room *room, size_t bytes_max)
{
    *bodies = (struct bodies){.room = room != NULL ? room : &bodies->own};
    room_init(&bodies->own, bytes_max);
}

bool bodies_take(struct bodies *bodies, size_t before, size_t after)
{
    return room_take(bodies->room, before, after);
}

void bodies_give(struct bodies *bodies, size_t bytes)
{
    room_give(bodies->room, bytes);
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
