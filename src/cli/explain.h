/* SPDX-License-Identifier: MIT
 *
 * explain -- what went wrong with a call, said to people on stderr: one line that says it, and one
 * that says what to do next where there is something to do. Each returns how the program ends.
 *
 * What a server says is shown as screen.h shows things; where it names a field, the flag that sets
 * it is named.
 */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include "cli/client.h"

/* An answer that is not what was asked for: a problem, or something else than a daruma server. */
int explain_answer(const struct flags_form *form, const struct flags *flags,
                   const struct client_request *request, const struct client_answer *answer);

/* No answer came. */
int explain_silence(const struct flags_form *form, const struct flags *flags,
                    const struct client_request *request, const struct client_answer *answer);

/* An answer that no daruma server gives. */
int explain_stranger(const struct flags_form *form, const struct flags *flags,
                     const struct client_answer *answer);

/* Out of memory, or over a limit of ours. */
int explain_fault(const struct flags_form *form, int fault);

/* At the end of every command: exit_code, or CLI_FAILED when stdout did not take all of it. */
int explain_finish(const struct flags_form *form, int exit_code);

#endif
