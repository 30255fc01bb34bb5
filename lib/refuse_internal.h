/* SPDX-License-Identifier: MIT
 *
 * refuse -- inside lib/ only: the one way to say that an argument cannot be used.
 */
#ifndef DARUMA_REFUSE_INTERNAL_H
#define DARUMA_REFUSE_INTERNAL_H

#include <daruma/result.h>

#include <stddef.h>

/* The message is a literal that names the option: nothing here allocates. */
static inline int refuse(struct daruma_error *ret_error, const char *message)
{
    if (ret_error != NULL) {
        *ret_error = daruma_error_of(DARUMA_INVALID, message);
    }
    return DARUMA_INVALID;
}

#endif
