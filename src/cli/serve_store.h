/* SPDX-License-Identifier: MIT
 *
 * serve_store -- the store that a configuration names, opened.
 */
#ifndef CLI_SERVE_STORE_H
#define CLI_SERVE_STORE_H

#include "config/config.h"
#include "store/store.h"

#include <daruma/log.h>

/* Says in the log if there was none and it was made. */
int serve_store_open(const struct config *config, const struct daruma_logger *log,
                     struct store **ret_store, struct error *err)
    __attribute__((warn_unused_result));

#endif
