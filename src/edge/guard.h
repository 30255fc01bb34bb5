/* SPDX-License-Identifier: MIT
 *
 * guard -- what is refused before anything else is looked at. Shared inside edge/ only.
 *
 * libmicrohttpd 0.9.75 takes, even when told to be strict, what another server in front of us may
 * read differently: Content-Length beside Transfer-Encoding, two lengths, "Content-Length : 2" (which
 * it ignores, so that the body becomes the next request), folded headers, bare line feeds, NULs.
 * Whatever could be read in two ways gets 400 and the connection ends.
 */
#ifndef EDGE_GUARD_H
#define EDGE_GUARD_H

#include "edge/problem.h"

struct MHD_Connection;

/* What the headers say that matters. */
struct guard_view {
    uint64_t content_length; /* 0 without one */
    bool is_chunked;
    bool expects_continue;
    struct span key; /* Idempotency-Key; at NULL: none */
    int key_count;
    struct span content_type;                         /* likewise: the first one */
    bool has_preference;                              /* Prefer is given */
    int header_count;                                 /* guard_is_own_field included */
    bool leaves_room;                                 /* as guard_leaves_room, before trailers */
    struct span accept;                               /* likewise: the last one */
    struct span authorization;                        /* likewise */
    struct span host, origin, fetch_site, fetch_mode; /* likewise: see origin.h */
    bool is_of_two_origins;                           /* one of the last three is given twice */
    bool is_ahead;                                    /* fetched before it is wanted: likewise */
};

/* The request line as libmicrohttpd has cut it up, and the target as it came. */
struct guard_line {
    const char *method, *url, *version;
    struct span raw;
};

/* PROBLEM_NONE, or what is wrong; *ret_detail says it for people. */
enum problem guard_check(struct MHD_Connection *mhd, const struct guard_line *line,
                         struct guard_view *ret_view, const char **ret_detail);

/* Has the target, as libmicrohttpd shows it before it looks at it, more parameters than may be? */
bool guard_has_many_parameters(const char *target);
/* Keeps libmicrohttpd from looking at the parameters of a target that will be refused: of those that
 * find no room it makes a connection without an answer. From its callback for the target only. */
void guard_hide_parameters(const char *target);
/* Keeps libmicrohttpd from cutting up the request's cookies, which has no use here and takes memory for
 * each of them: with none left it closes the connection without an answer, or writes the answer's header
 * twice. From its callback for the target only: an empty field of that name comes before all others, and
 * is the one that it looks at. */
void guard_hide_cookies(struct MHD_Connection *mhd);
bool guard_is_own_field(const char *name); /* that one, which no caller has sent */

/* Whether the request, with the trailers that have come, leaves the room that an answer needs
 * (EDGE_REQUEST_BYTES). */
bool guard_leaves_room(struct MHD_Connection *mhd);

#endif
