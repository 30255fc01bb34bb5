/* SPDX-License-Identifier: MIT
 *
 * bookmark -- see bookmark.h. The key of the original request goes to the model as well: a worker
 * that dies after the call and before the ack makes the same call again, and a model that knows the
 * key can answer from memory.
 */
#include "bookmark.h"

#include <stdbool.h>
#include <stdlib.h>

#define MODEL_TIMEOUT_MS 60000

bool bookmark_read(const json_t *task, struct bookmark *ret_bookmark, json_t **ret_body)
{
    const json_t *request = json_object_get(task, "request");
    const char *text = json_string_value(json_object_get(request, "body"));
    json_t *body = json_loads(text != NULL ? text : "", 0, NULL);
    struct bookmark bookmark = {
        .attempt = (uint32_t)json_integer_value(json_object_get(task, "attempts")),
        .max_attempts = (uint32_t)json_integer_value(json_object_get(task, "max_attempts")),
    };

    if (json_unpack(body, "{s:s, s:{s:s, s:s}}", "bookmark_id", &bookmark.bookmark_id,
                    "original_request", "url", &bookmark.original_request.url, "idempotency_key",
                    &bookmark.original_request.idempotency_key) != 0) {
        json_decref(body);
        return false;
    }
    *ret_bookmark = bookmark;
    *ret_body = body;
    return true;
}

int bookmark_summarize(struct caller *caller, const char *model_url,
                       const struct bookmark *bookmark, json_t **ret_summary,
                       struct daruma_error *ret_error)
{
    json_t *body =
        json_pack("{s:s, s:i, s:i, s:{s:s, s:s}}", "bookmark_id", bookmark->bookmark_id, "attempt",
                  (int)bookmark->attempt, "max_attempts", (int)bookmark->max_attempts,
                  "original_request", "url", bookmark->original_request.url, "idempotency_key",
                  bookmark->original_request.idempotency_key);
    char *text = json_dumps(body, JSON_COMPACT);
    int failed = caller_post(caller,
                             &(struct call){.url = model_url,
                                            .body = text != NULL ? text : "{}",
                                            .timeout_ms = MODEL_TIMEOUT_MS},
                             ret_summary, ret_error);

    free(text);
    json_decref(body);
    return failed;
}
