/* SPDX-License-Identifier: MIT
 *
 * effect -- see effect.h.
 */
#include "cli/effect.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

void effect_begin(void)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignored, NULL); /* neither can fail on a signal that exists */
    (void)sigaction(SIGXFSZ, &ignored, NULL);
}

int effect_finish(const struct flags_form *form, int exit_code)
{
    bool is_lost = ferror(stdout) != 0;

    if (fflush(stdout) != 0 || is_lost) {
        flags_complain(form, "cannot write the output%s%s; the exit status tells what was done",
                       is_lost ? "" : ": ", is_lost ? "" : strerror(errno));
    }
    return exit_code;
}
