/* SPDX-License-Identifier: MIT
 *
 * loop_wake -- what comes from outside the loop's thread: wake-ups and signals. See loop.h.
 *
 * A waker may be woken while its loop is being freed, so there is a lock between the two. It is held
 * across one write to a non-blocking descriptor of libuv's, which does not wait.
 */
#include "loop/loop_internal.h"

#include <pthread.h>
#include <stdlib.h>

struct loop_waker {
    struct part part;
    uv_async_t uv;
    loop_fn woken;
    void *user;
    pthread_mutex_t lock;
    bool is_open; /* under lock: libuv still has the handle */
};

struct loop_signal {
    struct part part;
    uv_signal_t uv;
    loop_signal_fn caught;
    void *user;
};

static void on_wake(uv_async_t *uv)
{
    struct loop_waker *waker = uv->data;

    waker->woken(waker->user);
}

static void waker_leave(struct part *part)
{
    struct loop_waker *waker = (struct loop_waker *)part;

    pthread_mutex_lock(&waker->lock);
    waker->is_open = false;
    pthread_mutex_unlock(&waker->lock);
}

static void waker_dispose(struct part *part)
{
    struct loop_waker *waker = (struct loop_waker *)part;

    (void)pthread_mutex_destroy(&waker->lock); /* nobody wakes it any more, by contract */
    free(waker);
}

int loop_waker_new(struct loop *loop, loop_fn woken, void *user, struct loop_waker **ret_waker,
                   struct error *err)
{
    struct loop_waker *waker = calloc(1, sizeof *waker);

    if (waker == NULL || pthread_mutex_init(&waker->lock, NULL) != 0) {
        free(waker);
        return fail(err, FAULT_MEMORY, "no memory for a waker");
    }
    int status = uv_async_init(&loop->uv, &waker->uv, on_wake);
    if (status != 0) {
        waker_dispose(&waker->part);
        return loop_fail(err, status, "waker");
    }
    part_join(&waker->part, loop, (uv_handle_t *)&waker->uv);
    waker->part.leave = waker_leave;
    waker->part.dispose = waker_dispose;
    waker->woken = woken;
    waker->user = user;
    waker->is_open = true;
    *ret_waker = waker;
    return 0;
}

void loop_wake(struct loop_waker *waker)
{
    pthread_mutex_lock(&waker->lock);
    if (waker->is_open) {
        (void)uv_async_send(&waker->uv); /* fails only for what is no waker */
    }
    pthread_mutex_unlock(&waker->lock);
}

void loop_waker_free(struct loop_waker *waker)
{
    part_release(waker != NULL ? &waker->part : NULL);
}

static void on_signal(uv_signal_t *uv, int number)
{
    struct loop_signal *caught = uv->data;

    caught->caught(caught->user, number);
}

int loop_signal_new(struct loop *loop, int number, loop_signal_fn caught, void *user,
                    struct loop_signal **ret_signal, struct error *err)
{
    struct loop_signal *made = calloc(1, sizeof *made);

    if (made == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a signal");
    }
    int status = uv_signal_init(&loop->uv, &made->uv);
    if (status != 0) {
        free(made);
        return loop_fail(err, status, "signal");
    }
    part_join(&made->part, loop, (uv_handle_t *)&made->uv);
    made->caught = caught;
    made->user = user;
    status = uv_signal_start(&made->uv, on_signal, number);
    if (status != 0) {
        part_release(&made->part);
        return loop_fail(err, status, "signal");
    }
    *ret_signal = made;
    return 0;
}

void loop_signal_free(struct loop_signal *signal)
{
    part_release(signal != NULL ? &signal->part : NULL);
}
