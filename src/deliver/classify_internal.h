/* SPDX-License-Identifier: MIT
 *
 * classify -- shared only among deliver/classify*.c: an error as a provider describes it.
 */
#ifndef DELIVER_CLASSIFY_INTERNAL_H
#define DELIVER_CLASSIFY_INTERNAL_H

#include "base/span.h"

#define PROVIDER_WORD_MAX         64  /* bytes of a type or a code that are looked at */
#define PROVIDER_TEXT_MAX         480 /* likewise of the message */
#define PROVIDER_SECRET_SHOWN_MAX 12  /* a message with so many bytes of the key is not passed on */

/* Empty: not said. Each ends in NUL and holds none. */
struct provider_error {
    char type[PROVIDER_WORD_MAX + 1];
    char code[PROVIDER_WORD_MAX + 1];
    char detail[PROVIDER_WORD_MAX + 1]; /* details.error_code */
    char text[PROVIDER_TEXT_MAX + 1];
};

/* {"error":{…}}, {"type":"error","error":{…}}, or either as an event of a stream. False: there is
 * none in it; *ret_error is empty. */
bool provider_error_read(struct span body, struct provider_error *ret_error);

/* For a log line: control characters become blanks, and no character is cut in half at the end. */
void provider_error_clean(char *text);

#endif
