/* SPDX-License-Identifier: MIT
 *
 * path -- the request's target as it came over the wire, taken apart: path segments, the verb
 * behind the last colon, query parameters. libmicrohttpd's own view of it is unescaped as a whole, so
 * that %2F and / become the same; here each segment is decoded by itself.
 */
#ifndef EDGE_PATH_H
#define EDGE_PATH_H

#include "base/span.h"

#define PATH_BYTES_MAX      4096
#define PATH_SEGMENTS_MAX   8
#define PATH_PARAMETERS_MAX 16

struct parameter {
    struct span name, value;
};

struct path {
    struct span segments[PATH_SEGMENTS_MAX]; /* decoded; the last one without its verb */
    size_t segment_count;
    struct span verb; /* run, of /v1/tasks/1:run; empty: none */
    struct parameter parameters[PATH_PARAMETERS_MAX];
    size_t parameter_count;
};

enum path_result {
    PATH_OK,
    PATH_BAD,     /* not a path, an escape that is none, a NUL, a dot segment */
    PATH_NOWHERE, /* well formed, but no path of ours looks like it */
};

/* Decodes in place: the spans point into `raw`. */
enum path_result path_parse(char *raw, struct path *ret_path);

/* By name; false: not given. */
bool path_find(const struct path *path, const char *name, struct span *ret_value);

#endif
