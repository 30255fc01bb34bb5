/* SPDX-License-Identifier: MIT
 *
 * route_like -- requests that are not a route's by their letters, and that an upstream may read as
 * one all the same. Where everything else is passed on, such a request would go around the route:
 * without its key, unrecorded.
 *
 *   /V1/Orders                        frameworks that compare paths without case
 *   /v1/orders;x=1  /v1;a/orders      servlets drop what follows a semicolon
 *   /v1/orders.  /v1/orders%20        file systems that drop dots and blanks at the end
 *   /v1/orders.json  /v1.json/orders  formats behind a segment, also several of them
 *   /v1/orders::$DATA                 a file system's streams
 *   /v1/order%C5%BF                   letters that are an ASCII letter in another case
 *   /v1/orders%3F  /v1/orders%23      what is decoded before it is taken apart
 */
#ifndef TASK_ROUTE_LIKE_H
#define TASK_ROUTE_LIKE_H

#include "task/route_match.h"

/* Some route's path, read as loosely as upstreams do; `method` "" stands for any. */
bool route_is_like(const struct route_settings *routes, size_t count, struct span method,
                   const struct route_target *target);

/* Does the request ask to be taken for one of another method: by a header, however its words are joined
 * (X-HTTP-Method-Override, X_HTTP_Method), or by `_method` in its query? */
bool route_renames_method(struct span headers, const struct route_target *target);

#endif
