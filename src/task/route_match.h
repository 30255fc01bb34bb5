/* SPDX-License-Identifier: MIT
 *
 * route_match -- which route a request belongs to, by its raw target. What an upstream might read
 * as another path than we do is refused, so that nothing slips past a keyed route: dot segments,
 * empty segments (both also before a semicolon, escaped or not), escaped slashes, escapes of what needs none.
 */
#ifndef TASK_ROUTE_MATCH_H
#define TASK_ROUTE_MATCH_H

#include "task/route.h"

#define ROUTE_TARGET_SEGMENTS_MAX 64

/* A request's target, taken apart; looks into the text that it was made from. */
struct route_target {
    struct span whole; /* path and query, as it is sent on */
    struct span path;
    struct span segments[ROUTE_TARGET_SEGMENTS_MAX]; /* escapes and all */
    size_t segment_count;
    bool ends_with_slash; /* and is not only a slash */
};

/* NULL and *ret_target, or what is wrong with it. http://host/path is read as /path. */
const char *route_target_parse(struct span raw, struct route_target *ret_target);

/* Without small letters, which some upstreams read as large ones. */
bool route_method_is_plain(struct span method);

/* NULL and *ret_pattern, whose spans look into `text`; or what is wrong with it. */
const char *route_pattern_parse(struct span text, struct route_pattern *ret_pattern);

bool route_has_method(const struct route_pattern *pattern, struct span method);

enum route_found {
    ROUTE_FOUND,
    ROUTE_FOUND_NOWHERE,
    ROUTE_FOUND_METHOD, /* the path is a route's, the method is not */
    ROUTE_FOUND_SLASH,  /* it would be a route's but for the slash at its end */
};

/* The first route that matches, and its number in *ret_index. */
enum route_found route_find(const struct route_settings *routes, size_t count, struct span method,
                            const struct route_target *target, size_t *ret_index);

/* Would it be the request of a route before that one, were it not for escapes, which its upstream may take
 * off, or for the slash at its end, if the route it belongs to takes either? Then one key could be used there
 * and here. */
bool route_is_behind(const struct route_settings *routes, size_t index, struct span method,
                     const struct route_target *target);

/* What stands in the target for {name} of the pattern. */
bool route_parameter(const struct route_pattern *pattern, const struct route_target *target,
                     struct span name, struct span *ret_value);

#endif
