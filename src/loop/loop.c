/* SPDX-License-Identifier: MIT
 *
 * loop -- the loop itself, the parts made on it, timers and hooks. See loop.h; wake-ups and signals
 * are in loop_wake.c, file descriptors in loop_watch.c.
 */
#include "loop/loop_internal.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct loop_timer {
    struct part part;
    uv_timer_t uv;
    loop_fn ring;
    void *user;
};

struct loop_hook {
    struct part part;
    enum loop_hook_kind kind;
    uv_idle_t idle;
    uv_prepare_t prepare;
    loop_fn run;
    void *user;
};

int loop_fail(struct error *err, int uv_status, const char *what)
{
    enum fault fault = uv_status == UV_ENOMEM ? FAULT_MEMORY : FAULT_SYSTEM;

    return fail(err, fault, "%s: %s", what, uv_strerror(uv_status));
}

static void part_dispose(struct part *part)
{
    if (part->dispose != NULL) {
        part->dispose(part);
    } else {
        free(part);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct part *part = handle->data;

    part->loop = NULL;
    if (part->is_released) {
        part_dispose(part);
    }
}

static void part_close(struct part *part)
{
    *part->at = part->next;
    if (part->next != NULL) {
        part->next->at = part->at;
    }
    if (part->leave != NULL) {
        part->leave(part);
    }
    uv_close(part->handle, on_closed);
}

void part_join(struct part *part, struct loop *loop, uv_handle_t *handle)
{
    *part = (struct part){.loop = loop, .next = loop->parts, .at = &loop->parts, .handle = handle};
    if (part->next != NULL) {
        part->next->at = &part->next;
    }
    loop->parts = part;
    handle->data = part;
}

void part_release(struct part *part)
{
    if (part == NULL) {
        return;
    }
    assert(!part->is_released);
    part->is_released = true;
    if (part->loop == NULL) {
        part_dispose(part);
    } else {
        part_close(part);
    }
}

bool part_is_live(const struct part *part)
{
    return part->loop != NULL && !part->is_released;
}

static void ignore_broken_pipes(void)
{
    struct sigaction now;

    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
        struct sigaction ignored = {.sa_handler = SIG_IGN};
        (void)sigaction(SIGPIPE, &ignored, NULL); /* cannot fail on a signal that exists */
    }
}

/* For the first loop libuv opens an epoll and then a pipe for its signals, and aborts where it gets no
 * pipe. */
static int check_descriptors(struct error *err)
{
    int probe[3] = {-1, -1, -1};
    int failed = 0;

    if (pipe(probe) != 0 || (probe[2] = dup(probe[0])) < 0) {
        failed = loop_fail(err, -errno, "event loop");
    }
    for (int i = 0; i < 3 && probe[i] >= 0; i++) {
        (void)close(probe[i]); /* nothing was written */
    }
    return failed;
}

int loop_new(struct loop **ret_loop, struct error *err)
{
    struct loop *loop = calloc(1, sizeof *loop);

    if (loop == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for an event loop");
    }
    int failed = check_descriptors(err);
    if (failed != 0) {
        free(loop);
        return failed;
    }
    int status = uv_loop_init(&loop->uv);
    if (status != 0) {
        free(loop);
        return loop_fail(err, status, "event loop");
    }
    status = uv_async_init(&loop->uv, &loop->keeper, NULL);
    if (status != 0) {
        (void)uv_loop_close(&loop->uv); /* nothing is on it */
        free(loop);
        return loop_fail(err, status, "event loop");
    }
    ignore_broken_pipes();
    *ret_loop = loop;
    return 0;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL) {
        return;
    }
    assert(!loop->is_running);
    for (struct part *part = loop->parts, *next; part != NULL; part = next) {
        next = part->next;
        part_close(part);
    }
    uv_close((uv_handle_t *)&loop->keeper, NULL);
    int left = uv_run(&loop->uv, UV_RUN_DEFAULT); /* only close callbacks are left to run */
    if (left != 0) {
        left = uv_run(&loop->uv, UV_RUN_DEFAULT); /* a stop was pending: it ended the first */
    }
    int busy = uv_loop_close(&loop->uv);
    assert(left == 0);
    assert(busy == 0);
    (void)left, (void)busy;
    free(loop);
}

void loop_run(struct loop *loop)
{
    assert(!loop->is_running);
    loop->is_running = true;
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT); /* the keeper is always left */
    loop->is_running = false;
}

void loop_stop(struct loop *loop)
{
    uv_stop(&loop->uv);
}

/* The sleep is read again when libuv's clock has moved: a request asks for the time several times. */
int64_t loop_now_ms(struct loop *loop)
{
    uint64_t now = uv_now(&loop->uv);

    if (now != loop->slept_at) {
        loop->slept_at = now;
        loop->slept_ms = clock_slept_ms();
    }
    return (int64_t)now + loop->slept_ms;
}

int loop_timer_new(struct loop *loop, loop_fn ring, void *user, struct loop_timer **ret_timer,
                   struct error *err)
{
    struct loop_timer *timer = calloc(1, sizeof *timer);

    if (timer == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a timer");
    }
    (void)uv_timer_init(&loop->uv, &timer->uv); /* cannot fail */
    part_join(&timer->part, loop, (uv_handle_t *)&timer->uv);
    timer->ring = ring;
    timer->user = user;
    *ret_timer = timer;
    return 0;
}

static void on_timer(uv_timer_t *uv)
{
    struct loop_timer *timer = uv->data;

    timer->ring(timer->user);
}

void loop_timer_set(struct loop_timer *timer, int64_t at_ms)
{
    if (!part_is_live(&timer->part)) {
        return;
    }
    /* libuv adds its idea of now, so that stale or not it cancels out. */
    int64_t now_ms = loop_now_ms(timer->part.loop);
    (void)uv_timer_start(&timer->uv, on_timer, at_ms > now_ms ? (uint64_t)(at_ms - now_ms) : 0, 0);
}

void loop_timer_cancel(struct loop_timer *timer)
{
    if (part_is_live(&timer->part)) {
        (void)uv_timer_stop(&timer->uv); /* cannot fail */
    }
}

void loop_timer_free(struct loop_timer *timer)
{
    part_release(timer != NULL ? &timer->part : NULL);
}

int loop_hook_new(struct loop *loop, enum loop_hook_kind kind, loop_fn run, void *user,
                  struct loop_hook **ret_hook, struct error *err)
{
    struct loop_hook *hook = calloc(1, sizeof *hook);

    if (hook == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a hook");
    }
    hook->kind = kind;
    hook->run = run;
    hook->user = user;
    if (kind == LOOP_HOOK_IDLE) { /* neither init can fail */
        (void)uv_idle_init(&loop->uv, &hook->idle);
        part_join(&hook->part, loop, (uv_handle_t *)&hook->idle);
    } else {
        (void)uv_prepare_init(&loop->uv, &hook->prepare);
        part_join(&hook->part, loop, (uv_handle_t *)&hook->prepare);
    }
    *ret_hook = hook;
    return 0;
}

static void on_idle(uv_idle_t *uv)
{
    struct loop_hook *hook = uv->data;

    hook->run(hook->user);
}

static void on_prepare(uv_prepare_t *uv)
{
    struct loop_hook *hook = uv->data;

    hook->run(hook->user);
}

void loop_hook_on(struct loop_hook *hook)
{
    if (!part_is_live(&hook->part)) {
        return;
    }
    if (hook->kind == LOOP_HOOK_IDLE) { /* starting what is started changes nothing */
        (void)uv_idle_start(&hook->idle, on_idle);
    } else {
        (void)uv_prepare_start(&hook->prepare, on_prepare);
    }
}

void loop_hook_off(struct loop_hook *hook)
{
    if (!part_is_live(&hook->part)) {
        return;
    }
    if (hook->kind == LOOP_HOOK_IDLE) {
        (void)uv_idle_stop(&hook->idle);
    } else {
        (void)uv_prepare_stop(&hook->prepare);
    }
}

void loop_hook_free(struct loop_hook *hook)
{
    part_release(hook != NULL ? &hook->part : NULL);
}
