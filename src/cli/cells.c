/* SPDX-License-Identifier: MIT
 *
 * cells -- see cells.h.
 */
#include "cli/cells.h"

#include "base/clock.h"
#include "cli/why.h"

#include <daruma/retry_after.h>

#include <inttypes.h>
#include <stdio.h>

#define CELL_BYTES_MAX 65536

static void age_text(int64_t ms, char ret_text[SCREEN_DURATION_MAX])
{
    ms = ms > 0 ? ms - ms % 1000 : 0;
    screen_duration(ms, ret_text);
    if (ms == 0) {
        (void)snprintf(ret_text, SCREEN_DURATION_MAX, "0s"); /* fits */
    }
}

void cells_add_age(struct table *rows, struct span time)
{
    char text[SCREEN_DURATION_MAX] = "";
    int64_t ms;

    if (daruma_rfc3339_parse(time.at, time.len, &ms)) {
        age_text(clock_wall_ms(&clock_real) - ms, text);
    }
    table_add(rows, span_of(text));
}

void cells_add_due(struct table *rows, const json_t *task)
{
    struct span due = client_text(task, "due_at");
    int64_t now_ms = clock_wall_ms(&clock_real), due_ms;
    char text[SCREEN_DURATION_MAX];

    if (!span_is(client_text(task, "state"), "waiting") ||
        !daruma_rfc3339_parse(due.at, due.len, &due_ms)) {
        table_add(rows, SPAN(""));
    } else if (due_ms <= now_ms) {
        table_add(rows, SPAN("now"));
    } else {
        age_text(due_ms - now_ms + 999, text);
        table_add(rows, span_of(text));
    }
}

void cells_add_tries(struct table *rows, const json_t *task)
{
    int64_t most = client_number(task, "max_attempts");
    char tries[48];

    (void)snprintf(tries, sizeof tries, most > 0 ? "%" PRId64 "/%" PRId64 : "%" PRId64,
                   client_number(task, "attempts"), most); /* fits */
    table_add(rows, span_of(tries));
}

void cells_add_request(struct table *rows, const json_t *task)
{
    const json_t *request = json_object_get(task, "request");
    struct span method = client_text(request, "method"), target = client_text(request, "target");
    AUTO(buf_done) struct buf line;

    buf_init(&line, CELL_BYTES_MAX);
    int failed = buf_addf(&line, "%.*s%s%.*s", SPAN_ARGS(method), target.len > 0 ? " " : "",
                          SPAN_ARGS(target));
    table_add(rows, failed == 0 ? buf_span(&line) : target);
}

void cells_add_labels(struct table *rows, const json_t *task)
{
    json_t *labels = json_object_get(task, "labels"), *value;
    const char *name;
    AUTO(buf_done) struct buf line;
    int failed = 0;

    buf_init(&line, CELL_BYTES_MAX);
    json_object_foreach(labels, name, value)
    {
        failed = failed != 0 ? failed
                             : buf_addf(&line, "%s%s=%s", line.len > 0 ? " " : "", name,
                                        json_is_string(value) ? json_string_value(value) : "");
    }
    table_add(rows, failed == 0 ? buf_span(&line) : SPAN("…"));
}

void cells_add_error(struct table *rows, const json_t *task)
{
    AUTO(buf_done) struct buf line;

    buf_init(&line, CELL_BYTES_MAX);
    int failed = why_write(json_object_get(task, "error"), &line);
    table_add(rows, failed == 0 ? buf_span(&line) : SPAN("…"));
}
