/* SPDX-License-Identifier: MIT
 *
 * destination -- see destination.h.
 */
#include "cli/destination.h"

#include "task/task.h"

#include <stdio.h>

#define PATH_BYTES 256

enum destination destination_of(struct client *client, struct span queue)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    char path[PATH_BYTES];

    if (!task_queue_name_is_valid(queue)) { /* it goes into a path */
        return DESTINATION_UNKNOWN;
    }
    (void)snprintf(path, sizeof path, "/v1/queues/%.*s", SPAN_ARGS(queue)); /* fits: a valid name */
    if (!client_look(client, &(struct client_request){.method = "GET", .path = span_of(path)},
                     &answer)) {
        return DESTINATION_UNKNOWN;
    }
    const json_t *settings = json_object_get(answer.document, "settings");
    const json_t *targets = json_object_get(settings, "targets");
    if (!json_is_array(targets)) {
        return DESTINATION_UNKNOWN;
    }
    if (json_array_size(json_object_get(settings, "fallback")) > 0) {
        return DESTINATION_PROVIDERS;
    }
    return json_array_size(targets) > 0 ? DESTINATION_TARGETS : DESTINATION_WORKERS;
}

enum destination destination_otherwise(struct client *client, const json_t *task)
{
    bool has_target = client_text(json_object_get(task, "request"), "target").len > 0;

    return has_target ? DESTINATION_UNKNOWN : destination_of(client, client_text(task, "queue"));
}
