/* SPDX-License-Identifier: MIT
 *
 * loop_watch -- file descriptors. See loop.h.
 *
 * Each uv_poll_start is two system calls, whatever changes, and libcurl changes its wishes twice
 * for each request on a connection that it keeps. So a descriptor stays armed for more than is
 * wished, until an event comes that nobody wants: then it is armed again for just the wishes. Only
 * "writable" is dropped at once, because it holds nearly always.
 */
#include "loop/loop_internal.h"

#include <stdlib.h>

struct loop_watch {
    struct part part;
    uv_poll_t uv;
    loop_watch_fn ready;
    void *user;
    unsigned wishes;
    unsigned armed;
};

static void on_poll(uv_poll_t *uv, int status, int events);

static int arm(struct loop_watch *watch, unsigned events)
{
    int wanted = ((events & LOOP_READABLE) != 0 ? UV_READABLE : 0) |
                 ((events & LOOP_WRITABLE) != 0 ? UV_WRITABLE : 0);

    int status = uv_poll_start(&watch->uv, wanted, on_poll); /* for nothing at all: stops */
    watch->armed = status == 0 ? events : 0;
    return status;
}

static unsigned events_of(int uv_status, int uv_events)
{
    if (uv_status != 0) {
        return LOOP_READABLE | LOOP_WRITABLE; /* whatever the owner tries will tell him why */
    }
    return ((uv_events & UV_READABLE) != 0 ? LOOP_READABLE : 0) |
           ((uv_events & UV_WRITABLE) != 0 ? LOOP_WRITABLE : 0);
}

static void on_poll(uv_poll_t *uv, int status, int uv_events)
{
    struct loop_watch *watch = uv->data;
    unsigned events = events_of(status, uv_events);

    if (status != 0) {
        watch->armed = 0; /* libuv has stopped it */
    } else if ((events & ~watch->wishes) != 0) {
        (void)arm(watch, watch->wishes); /* less than before cannot fail */
    }
    if ((events & watch->wishes) != 0) {
        watch->ready(watch->user, events & watch->wishes);
    }
    if (part_is_live(&watch->part) && watch->armed == 0 && watch->wishes != 0) {
        (void)arm(watch, watch->wishes); /* it was armed before: the descriptor is ours */
    }
}

int loop_watch_new(struct loop *loop, int fd, loop_watch_fn ready, void *user,
                   struct loop_watch **ret_watch, struct error *err)
{
    struct loop_watch *watch = calloc(1, sizeof *watch);

    if (watch == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a watch");
    }
    int status = uv_poll_init(&loop->uv, &watch->uv, fd);
    if (status != 0) {
        free(watch);
        return loop_fail(err, status, "watch");
    }
    part_join(&watch->part, loop, (uv_handle_t *)&watch->uv);
    watch->ready = ready;
    watch->user = user;
    *ret_watch = watch;
    return 0;
}

int loop_watch_set(struct loop_watch *watch, unsigned wishes)
{
    bool is_short = (wishes & ~watch->armed) != 0;
    bool would_spin = wishes != 0 && (watch->armed & ~wishes & LOOP_WRITABLE) != 0;

    watch->wishes = wishes;
    if (!part_is_live(&watch->part) || (!is_short && !would_spin)) {
        return 0;
    }
    return arm(watch, wishes) == 0 ? 0 : FAULT_SYSTEM;
}

void loop_watch_free(struct loop_watch *watch)
{
    part_release(watch != NULL ? &watch->part : NULL);
}
