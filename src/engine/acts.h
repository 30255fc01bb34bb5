/* SPDX-License-Identifier: MIT
 *
 * acts -- the names of what people do by hand, as the audit trail has them. They are told to who asks
 * for one that there is not, and each that is kept has to be here.
 */
#ifndef ENGINE_ACTS_H
#define ENGINE_ACTS_H

#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

#define ACTS_MAP(X)                                                                                \
    X("run")                                                                                       \
    X("cancel")                                                                                    \
    X("redrive")                                                                                   \
    X("redrive_edited")                                                                            \
    X("redrive_many")                                                                              \
    X("redrive_cancel")                                                                            \
    X("resolve")                                                                                   \
    X("settle_succeeded")                                                                          \
    X("settle_failed")                                                                             \
    X("settle_not_done")                                                                           \
    X("forget")                                                                                    \
    X("queue_put")                                                                                 \
    X("queue_delete")                                                                              \
    X("queue_pause")                                                                               \
    X("queue_resume")                                                                              \
    X("queue_run")                                                                                 \
    X("queue_purge")

static inline bool acts_has(struct span name)
{
#define ACTS_NAME(name) name,
    static const char *const names[] = {ACTS_MAP(ACTS_NAME)};
#undef ACTS_NAME

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (span_is(name, names[i])) {
            return true;
        }
    }
    return false;
}

#endif
