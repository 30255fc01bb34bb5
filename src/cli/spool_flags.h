/* SPDX-License-Identifier: MIT
 *
 * spool_flags -- what the commands that use a spool have in common: which one is meant, and how what
 * is wrong with it is said. These functions speak, as those of client.h do.
 */
#ifndef CLI_SPOOL_FLAGS_H
#define CLI_SPOOL_FLAGS_H

#include "cli/flags.h"
#include "cli/spool.h"

#define SPOOL_FLAG_EXPECTED "a folder"
#define SPOOL_FLAG_HELP     "the folder they wait in (~/.local/state/daruma/spool)"

/* The one that is given, or the usual one. */
int spool_flags_open(const char *given, struct spool **ret_spool, struct error *err)
    __attribute__((warn_unused_result));

/* Says what is wrong; how the program ends. */
int spool_flags_complain(const struct flags_form *form, const struct error *err);

/* Says what is in the folder that is not ours. */
void spool_flags_tell_strangers(const struct flags_form *form, const struct spool *spool,
                                const struct spool_list *list);

#endif
