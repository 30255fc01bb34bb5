/* SPDX-License-Identifier: MIT
 *
 * spool_flags -- see spool_flags.h.
 */
#include "cli/spool_flags.h"

#include "cli/cli.h"
#include "cli/screen.h"

#include <stdio.h>

int spool_flags_open(const char *given, struct spool **ret_spool, struct error *err)
{
    char usual[SPOOL_PATH_MAX];
    int failed = given == NULL ? spool_usual_folder(usual, err) : 0;

    return failed != 0 ? failed : spool_open(given != NULL ? given : usual, ret_spool, err);
}

int spool_flags_complain(const struct flags_form *form, const struct error *err)
{
    (void)fflush(stdout); /* so that the two do not mix */
    if (err->field[0] != '\0') {
        flags_complain(form, "%s: %s", err->field, err->text);
    } else {
        flags_complain(form, "%s", err->text);
    }
    return err->fault == FAULT_INPUT ? CLI_USAGE : CLI_FAILED;
}

void spool_flags_tell_strangers(const struct flags_form *form, const struct spool *spool,
                                const struct spool_list *list)
{
    const struct screen errors = screen_of(stderr);
    size_t named =
        list->stranger_count < SPOOL_STRANGERS_MAX ? list->stranger_count : SPOOL_STRANGERS_MAX;

    for (size_t i = 0; i < named; i++) {
        fprintf(stderr, "daruma %s: ", form->command);
        (void)screen_put(&errors, span_of(list->strangers[i]), SCREEN_UNCUT);
        fprintf(stderr, " in %s is no request: it is left alone\n", spool_folder(spool));
    }
    if (list->stranger_count > named) {
        flags_complain(form, "and %zu more", list->stranger_count - named);
    }
}
