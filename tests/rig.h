/* SPDX-License-Identifier: MIT
 *
 * rig -- what tests of deliveries over HTTP share: a loop, the deliverer on it, a target, and a
 * clock that stands still. Deliveries are counted as they come back, and it is an error if one does
 * from inside send or cancel.
 */
#ifndef RIG_H
#define RIG_H

#include "deliver/http.h"
#include "loop/loop.h"
#include "target.h"

#define RIG_WALL_MS    INT64_C(1800000000000) /* Fri, 15 Jan 2027 08:00:00 GMT */
#define RIG_MONO_MS    INT64_C(5000)
#define RIG_TIMEOUT_MS 20000 /* far longer than anything takes */
#define RIG_SHORT_MS   40    /* of a delivery that is to time out, sent or not */
#define RIG_SENT_MS    500   /* of one that is to be sent before: however busy the machine is */
#define RIG_BODY_MAX   (2 * 1024 * 1024)
#define RIG_URL_MAX    128

struct rig {
    struct clock clock;
    int64_t wall_ms, mono_ms;
    int64_t mono_step_ms; /* how far it goes on each time it is asked */
    struct loop *loop;
    struct deliver *deliver;
    struct target *target;       /* NULL: none */
    struct http_options options; /* may be filled in before rig_open */
    char url[RIG_URL_MAX];       /* of the target */
    size_t done_count, wanted_count;
    bool is_inside; /* of send or cancel */
    struct delivery *last;
    void (*on_done)(struct rig *rig, struct delivery *delivery); /* NULL: nothing more */
};

/* NULL: no target. */
void rig_open(struct rig *rig, const struct target_plan *plan);
/* A target with one script for every connection. */
void rig_open_script(struct rig *rig, const struct target_step *steps, size_t count);

#define RIG_OPEN(rig, steps) rig_open_script((rig), (steps), sizeof(steps) / sizeof *(steps))

/* Closes the deliverer and ends the target; what it saw can be asked until rig_close. */
void rig_end(struct rig *rig);
void rig_close(struct rig *rig);

/* To the target, not repeatable, without headers or body. */
struct delivery rig_delivery(struct rig *rig, const char *method);

void rig_send(struct rig *rig, struct delivery *delivery);
void rig_cancel(struct rig *rig, struct delivery *delivery);
void rig_wait(struct rig *rig, size_t count); /* until that many more have come back */
void rig_carry_out(struct rig *rig, struct delivery *delivery); /* send, and wait for it */

/* How far it got and why in words; without an answer it is transient, and nothing came with it. */
void rig_expect(const struct delivery *delivery, enum task_sent sent, const char *message);

#endif
