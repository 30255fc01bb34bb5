/* SPDX-License-Identifier: MIT
 *
 * callback -- what is told to whoever wanted to know how a task ended: the task as the API shows it,
 * with its response or its error, and without its request. See engine_callback_fn.
 */
#include "edge/edge.h"

#include "base/json_value.h"
#include "edge/render.h"
#include "task/fields.h"

#define BODY_BYTES_MAX (64u << 20)

/* The members of {"url", "on"}, which was checked when it was taken in. */
struct wish {
    struct span url;    /* as written, with its quotes */
    struct span events; /* likewise; empty: all */
};

static struct wish read_wish(struct span json)
{
    struct wish wish = {0};
    struct json_walk walk;
    struct span name, value;

    if (json_walk_begin(&walk, json, '{')) {
        while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
            if (json_name_is(name, SPAN("url"))) {
                wish.url = value;
            } else if (json_name_is(name, SPAN("on"))) {
                wish.events = value;
            }
        }
    }
    return wish;
}

static bool wants_event(struct span events, bool is_success)
{
    struct json_walk walk;
    struct span name, event;

    if (events.len == 0 || !json_walk_begin(&walk, events, '[')) {
        return true;
    }
    while (json_walk_next(&walk, &name, &event) == JSON_STEP_VALUE) {
        if (span_is(event, is_success ? "\"succeeded\"" : "\"failed\"")) {
            return true;
        }
    }
    return false;
}

static int render_body(const struct record *record, struct span queue, struct arena *arena,
                       struct span *ret_body)
{
    const struct render_task about = {.queue = queue, .parts = RENDER_LIFE | RENDER_BODIES};
    struct buf out;
    struct writer writer = {.out = &out};

    buf_init(&out, BODY_BYTES_MAX);
    render_task(&writer, record, &about);
    *ret_body = arena_copy(arena, buf_span(&out));
    buf_done(&out);
    return writer.failed != 0 || ret_body->at == NULL ? FAULT_MEMORY : 0;
}

bool edge_callback(void *user, const struct record *record, struct span queue, struct arena *arena,
                   struct submission *ret_submission)
{
    struct task_options options;
    struct submission told = {0};
    struct buf headers;

    (void)user;
    options_read(record->task.options, &options);
    struct wish wish = read_wish(options.callback);
    char *url = wish.url.len > 2 ? arena_alloc(arena, wish.url.len) : NULL;
    if (url == NULL || !json_value_text(wish.url, url, &told.target.len) ||
        !wants_event(wish.events, record->life.state == TASK_SUCCEEDED)) {
        return false;
    }
    told.target.at = url;
    buf_init(&headers, BODY_BYTES_MAX);
    int failed = fields_add(&headers, SPAN("content-type"), SPAN("application/json"));
    told.headers = arena_copy(arena, buf_span(&headers));
    told.labels = arena_copy(arena, record->task.labels);
    buf_done(&headers);
    failed = failed != 0 ? failed : render_body(record, queue, arena, &told.body);
    if (failed != 0 || told.headers.at == NULL || told.labels.at == NULL) {
        return false;
    }
    *ret_submission = told;
    return true;
}
