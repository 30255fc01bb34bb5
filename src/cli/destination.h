/* SPDX-License-Identifier: MIT
 *
 * destination -- where a task without a target of its own goes: its queue says, and a queue that has
 * neither targets nor providers leaves it to workers. People who forgot --target are told so, where the
 * task would else only wait.
 */
#ifndef CLI_DESTINATION_H
#define CLI_DESTINATION_H

#include "cli/client.h"

enum destination {
    DESTINATION_UNKNOWN, /* the queue cannot be looked at */
    DESTINATION_TARGETS,
    DESTINATION_PROVIDERS,
    DESTINATION_WORKERS,
};

/* One look at the queue, silent whatever comes of it. The name is a valid one, or nothing is asked. */
enum destination destination_of(struct client *client, struct span queue);

/* The same for a task or a dead letter: unknown, and nothing is asked, where it has a target. */
enum destination destination_otherwise(struct client *client, const json_t *task);

#endif
