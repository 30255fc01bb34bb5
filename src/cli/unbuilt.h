/* SPDX-License-Identifier: MIT
 *
 * unbuilt -- settings that are understood but that nothing obeys yet. A server that took a token list
 * and asked nobody for a token would be worse than one that does not start.
 */
#ifndef CLI_UNBUILT_H
#define CLI_UNBUILT_H

#include "config/config.h"

/* FAULT_INPUT, naming the key, when the configuration asks for something that is not there. */
int unbuilt_refuse(const struct config *config, struct error *err)
    __attribute__((warn_unused_result));

#endif
