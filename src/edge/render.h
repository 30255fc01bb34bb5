/* SPDX-License-Identifier: MIT
 *
 * render -- tasks and queues as the API shows them. Values of headers that carry secrets are never
 * shown (I10).
 */
#ifndef EDGE_RENDER_H
#define EDGE_RENDER_H

#include "edge/writer.h"
#include "engine/engine.h"

enum {
    RENDER_REQUEST = 1,  /* method, target, headers */
    RENDER_BODIES = 2,   /* of the request and of the response */
    RENDER_LIFE = 4,     /* response, error, trail */
    RENDER_ERROR = 8,    /* the error alone */
    RENDER_SECRETS = 16, /* headers as they are: for the worker that is to use them */
};

/* What a task does not know of itself. */
struct render_task {
    struct span queue;     /* its name; empty: not known */
    uint32_t attempts_max; /* 0: not known */
    unsigned parts;        /* RENDER_… */
    struct span rest;      /* what render_task_rest has written of them already; at NULL: nothing */
};

void render_task(struct writer *writer, const struct record *record,
                 const struct render_task *about);

/* The members of these parts, which need no render_task: the larger share of it. */
void render_task_rest(struct writer *writer, const struct record *record, unsigned parts);

/* A task as a dead letter: parts are RENDER_BODIES (payload, the edit's too) and RENDER_LIFE (tries, the
 * answer, the trail). */
void render_letter(struct writer *writer, const struct record *record,
                   const struct render_task *about);

/* `show` writes the settings; NULL: they are left out. */
typedef int (*render_settings_fn)(const struct queue_settings *settings, struct buf *out);
void render_queue(struct writer *writer, const struct queue_view *view, render_settings_fn show);

#endif
