/* SPDX-License-Identifier: MIT
 *
 * fuzz_spooled -- a file as it may be found in a spool. What must hold for any input: it is refused
 * with a reason, or what comes out can be sent as it is, and is written and read again as the same.
 */
#include "cli/spooled.h"
#include "task/fields.h"
#include "task/save_key.h"
#include "task/task.h"
#include "task/url.h"

#include <stdio.h>
#include <stdlib.h>

#define ARENA_BYTES ((size_t)8 << 20)
#define FILE_BYTES  ((size_t)80 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

#define HOLDS(claim) holds((claim), #claim)

static void check_headers(struct span fields)
{
    struct span name, value;
    size_t count = 0;

    while (fields_next(&fields, &name, &value)) {
        HOLDS(fields_name_is_token(name) && fields_value_is_clean(value));
        HOLDS(!spooled_header_is_ours(name));
        count++;
    }
    HOLDS(count <= SPOOLED_HEADERS_MAX);
}

static void check_taken(const struct spooled *request, struct span file)
{
    struct buf place;

    HOLDS(url_refuse(request->url) == NULL);
    HOLDS(task_key_is_valid(request->key));
    HOLDS(fields_name_is_token(request->method) && request->method.len <= SAVE_METHOD_MAX);
    HOLDS(fields_value_is_clean(request->last_error));
    HOLDS(request->attempts >= 0 && request->timeout_ms > 0);
    HOLDS(request->body.len < file.len &&
          request->body.at + request->body.len == file.at + file.len);
    check_headers(request->headers);
    buf_init(&place, FILE_BYTES);
    HOLDS(spooled_place(request->url, &place) == 0 && place.len > 0);
    buf_done(&place);
}

static void check_again(const struct spooled *request)
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct spooled again;
    struct error err = {0};
    struct buf file;

    buf_init(&file, FILE_BYTES);
    HOLDS(spooled_write(request, &file, &err) == 0);
    HOLDS(spooled_parse(buf_span(&file), arena, &again, &err) == 0);
    HOLDS(span_equal(again.url, request->url) && span_equal(again.key, request->key));
    HOLDS(span_equal(again.headers, request->headers) && span_equal(again.body, request->body));
    HOLDS(span_equal(again.last_error, request->last_error));
    HOLDS(again.state == request->state && again.attempts == request->attempts);
    buf_done(&file);
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    struct span file = {.at = (const char *)input, .len = length};
    struct arena *arena = arena_new(ARENA_BYTES);
    struct spooled request;
    struct error err = {0};
    int failed = spooled_parse(file, arena, &request, &err);

    if (failed == 0) {
        check_taken(&request, file);
        check_again(&request);
    } else {
        HOLDS(failed == FAULT_CORRUPT && err.fault == failed && err.text[0] != '\0');
    }
    arena_free(arena);
    return 0;
}
