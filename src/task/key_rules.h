/* SPDX-License-Identifier: MIT
 *
 * key_rules -- by what a route tells whose key it is and what it was used for, as one line of text: kept with
 * a store, so that a route which goes by other rules later is noticed. With another scope its keys are not
 * found any more; with another fingerprint the same request is taken for another one.
 */
#ifndef TASK_KEY_RULES_H
#define TASK_KEY_RULES_H

#include "base/buf.h"
#include "task/route.h"

#define KEY_RULES_MEMO      "route-keys:" /* and the route's name: the name of the memo that has them */
#define KEY_RULES_BYTES_MAX 8192

int key_rules_render(const struct route_settings *route, struct buf *out)
    __attribute__((warn_unused_result));

#endif
