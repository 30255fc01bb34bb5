/* SPDX-License-Identifier: MIT
 *
 * fields -- a list of names and values in one span, as it is stored: headers, labels. Each is
 * "name: value\n". Names hold no ':' and neither holds '\n', which fields_add refuses; so the form
 * is readable and needs no escapes.
 */
#ifndef TASK_FIELDS_H
#define TASK_FIELDS_H

#include "base/buf.h"
#include "base/fault.h"

/* FAULT_INPUT for a name or value that cannot be written so. */
int fields_add(struct buf *fields, struct span name, struct span value)
    __attribute__((warn_unused_result));

/* One that needs no look: fields_next has given it, or the name is a token and the value is clean (see
 * below). FAULT_INPUT for an empty name. */
int fields_copy(struct buf *fields, struct span name, struct span value)
    __attribute__((warn_unused_result));

/* Takes the first one off; false at the end. Names in order, also the same one twice. */
bool fields_next(struct span *rest, struct span *ret_name, struct span *ret_value);

/* The first of that name, in any case of letters. */
bool fields_find(struct span fields, const char *name, struct span *ret_value);
bool fields_has(struct span fields, struct span name, struct span value); /* exactly */

/* RFC 9110: a header name is a token; a value has no control characters but the tab. */
bool fields_name_is_token(struct span name);
bool fields_value_is_clean(struct span value);

#endif
