/* SPDX-License-Identifier: MIT
 *
 * retry_uv -- asynchronous retries on a libuv loop. Header only, so that the library itself does
 * not need libuv: include it where uv.h is, link -luv yourself.
 *
 *     struct daruma_uv uv;
 *     daruma_uv_init(&uv, uv_default_loop());
 *     struct daruma_retry_options options = {.loop = &uv.loop};
 *     …
 *     daruma_uv_close(&uv, NULL);      // before the loop is closed; nothing may be pending
 *
 * The timer keeps the libuv loop alive only while an operation waits for it.
 */
#ifndef DARUMA_RETRY_UV_H
#define DARUMA_RETRY_UV_H

#include <uv.h>

#include <daruma/retry_async.h>

#ifdef __cplusplus
extern "C" {
#endif

struct daruma_uv {
    struct daruma_retry_loop loop;
    uv_timer_t timer;
};

static inline int64_t daruma_uv_now_ms(void *user)
{
    struct daruma_uv *uv = (struct daruma_uv *)user;

    uv_update_time(uv->timer.loop); /* libuv's clock stands still within a turn of its loop */
    return (int64_t)uv_now(uv->timer.loop);
}

static inline void daruma_uv_on_timer(uv_timer_t *timer)
{
    (void)daruma_retry_tick(&((struct daruma_uv *)timer->data)->loop);
}

static inline void daruma_uv_timer_set(void *user, uint64_t delay_ms)
{
    struct daruma_uv *uv = (struct daruma_uv *)user;

    uv_update_time(uv->timer.loop);
    /* Fails only for a closing timer; then there is nothing left to wake. */
    (void)uv_timer_start(&uv->timer, daruma_uv_on_timer, delay_ms, 0);
}

static inline void daruma_uv_timer_cancel(void *user)
{
    (void)uv_timer_stop(&((struct daruma_uv *)user)->timer); /* cannot fail */
}

static inline int daruma_uv_init(struct daruma_uv *uv, uv_loop_t *loop)
{
    static const struct daruma_loop_ops ops = {daruma_uv_now_ms, NULL, daruma_uv_timer_set,
                                               daruma_uv_timer_cancel};

    daruma_retry_loop_init(&uv->loop, &ops, uv);
    int failed = uv_timer_init(loop, &uv->timer);
    uv->timer.data = uv;
    return failed;
}

static inline void daruma_uv_close(struct daruma_uv *uv, uv_close_cb closed)
{
    uv_close((uv_handle_t *)&uv->timer, closed);
}

#ifdef __cplusplus
}
#endif
#endif
