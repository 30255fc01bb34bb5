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
 *   /v1/order%C5%BF                   letters that are ASCII letters in another case
 *   /v1/orders%3Abatch                escapes of what needs none, which decode to the same
 *   /v1/orders%3Fa/b  /v1/orders/%23  what is decoded before it is taken apart
 *   /v1/orders/%20  /v1/%C2%A0orders  blanks around a segment, or nothing but blanks
 *   /v1/%256frders                    what is decoded twice, or three times
 */
#ifndef TASK_ROUTE_LIKE_H
#define TASK_ROUTE_LIKE_H

#include "task/route_match.h"

enum route_like {
    ROUTE_LIKE_NONE = 0,
    ROUTE_LIKE_PATH,   /* some route's path, of other methods only */
    ROUTE_LIKE_METHOD, /* some route's path and method */
};

/* Whose path the target may be, read as loosely as upstreams do; any route's where a dot segment is hidden
 * in it. Takes time by the length of the target and of the routes' paths, not by one times the other. */
enum route_like route_like_find(const struct route_settings *routes, size_t count,
                                struct span method, const struct route_target *target);

#endif
