/* SPDX-License-Identifier: MIT
 *
 * loop_internal -- shared only inside loop/: what everything made on a loop has in common.
 *
 * libuv keeps a handle until its close callback has run, and its owner keeps a pointer to it until
 * he frees it; either may come first. So a part is freed by whoever is last.
 *
 *   live --- part_release ---> released --- on_closed ---> freed
 *     '----- loop_free ------> orphan (loop is NULL) --- part_release ---> freed
 */
#ifndef LOOP_LOOP_INTERNAL_H
#define LOOP_LOOP_INTERNAL_H

#include "loop/loop.h"

#include <stdbool.h>
#include <uv.h>

/* First in every struct that is made on a loop. */
struct part {
    struct loop *loop; /* NULL: the loop is gone, and libuv's handle with it */
    struct part *next, **at;
    uv_handle_t *handle;
    void (*leave)(struct part *part);   /* told before libuv closes the handle; NULL: no need */
    void (*dispose)(struct part *part); /* frees it; NULL: free() does */
    bool is_released;
};

struct loop {
    uv_loop_t uv;
    uv_async_t keeper;  /* keeps uv_run going while nothing else is there */
    struct part *parts; /* live ones */
    bool is_running;
    /* How long the machine had slept when libuv's clock showed slept_at. */
    uint64_t slept_at;
    int64_t slept_ms;
};

/* Ties a part to its loop once libuv has taken its handle. */
void part_join(struct part *part, struct loop *loop, uv_handle_t *handle);
void part_release(struct part *part); /* NULL is fine */
bool part_is_live(const struct part *part);

/* The fault for what libuv said. */
int loop_fail(struct error *err, int uv_status, const char *what);

#endif
