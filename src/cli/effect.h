/* SPDX-License-Identifier: MIT
 *
 * effect -- for the commands that change something: what they did is what their exit status tells, and
 * not whether standard output took the report of it. A script that believes a status of 1 does the same
 * thing again; where the first time has worked, that is twice. Commands whose output is the result
 * (lists, `show`, `key`, `export` to standard output) end by explain_finish instead.
 */
#ifndef CLI_EFFECT_H
#define CLI_EFFECT_H

#include "cli/flags.h"

/* Before anything is changed. From here on a reader that has gone (SIGPIPE), or a file that may not
 * grow (SIGXFSZ), is a failed write and not the end of the program. */
void effect_begin(void);

/* At the end: exit_code as it is. Output that was lost is said on standard error. */
int effect_finish(const struct flags_form *form, int exit_code);

#endif
