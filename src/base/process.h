/* SPDX-License-Identifier: MIT
 *
 * process -- a name for this process that no other process of any machine has had or will have, and
 * whether the one behind such a name is gone. "Gone" is said only of a process that ran where we run
 * (same boot of the same machine, same namespaces): there the kernel knows. Of all others, and where
 * the kernel does not tell, nobody knows from here.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>

#define PROCESS_NAME_MAX 256

/* Empty where the system does not say enough: then what it does not say is returned, a literal; else
 * NULL. */
const char *process_name(char ret_name[PROCESS_NAME_MAX + 1]);

/* True: it has ended, for certain. */
bool process_is_gone(const char *name);

#endif
