/* SPDX-License-Identifier: MIT
 *
 * reach -- see reach.h.
 */
#include "task/reach.h"

#include "task/task.h"

bool reach_is_whole(const struct reach *reach)
{
    return reach->queue_count == 0 && !reach->hides_own;
}

bool reach_is_own(struct span queue)
{
    return span_starts(queue, REACH_OWN_PREFIX);
}

static bool is_open(struct span pattern)
{
    return pattern.len > 0 && pattern.at[pattern.len - 1] == '*';
}

static bool matches(struct span pattern, struct span queue)
{
    if (!is_open(pattern)) {
        return span_equal(pattern, queue);
    }
    struct span front = span_until(pattern, pattern.len - 1);
    return queue.len >= front.len && span_equal(span_until(queue, front.len), front) &&
           (front.len > 0 || !reach_is_own(queue));
}

bool reach_has(const struct reach *reach, struct span queue)
{
    bool is_named = reach->queue_count == 0;

    for (size_t i = 0; !is_named && i < reach->queue_count; i++) {
        is_named = matches(reach->queues[i], queue);
    }
    return is_named && !(reach->hides_own && reach_is_own(queue));
}

bool reach_pattern_is_valid(struct span pattern)
{
    struct span front = is_open(pattern) ? span_until(pattern, pattern.len - 1) : pattern;

    return task_queue_name_is_valid(front) || (front.len == 0 && pattern.len > 0);
}
