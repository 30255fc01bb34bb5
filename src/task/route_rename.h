/* SPDX-License-Identifier: MIT
 *
 * route_rename -- requests that ask to be taken for one of another method than their own. An upstream that
 * follows would carry out on a route's path what no key holds for.
 *
 * It is known by what some upstream reads, so by more than any one of them reads. Each look takes time by the
 * length of what is looked at: no byte is come back to more than a few times, whatever it is.
 */
#ifndef TASK_ROUTE_RENAME_H
#define TASK_ROUTE_RENAME_H

#include "task/route_match.h"

/* By a header, however its words are joined (X-HTTP-Method-Override, X_HTTP_Method); or in the query by
 * `_method`, in whatever form some upstream reads it (_method[]), or by such a header's whole name. A query is
 * also what is behind an escaped question mark in the path. */
bool route_renames_method(struct span headers, const struct route_target *target);

/* Likewise by either name in the body, where that is a form by its Content-Type, or may be one for want of it:
 * a field of application/x-www-form-urlencoded, or a part's name in multipart/, by Content-Disposition or
 * Content-ID. A part's name in pieces (name*0=, RFC 2231) or encoded words (=?...?=, RFC 2047) is taken for one,
 * whatever it says. Bodies of any other kind (JSON) are not looked at. */
bool route_form_renames_method(struct span headers, struct span body);

#endif
