/* SPDX-License-Identifier: MIT
 *
 * classify -- shared only among deliver/classify*.c: an error as a provider describes it.
 */
#ifndef DELIVER_CLASSIFY_INTERNAL_H
#define DELIVER_CLASSIFY_INTERNAL_H

#include "deliver/classify.h"

#define PROVIDER_WORD_MAX 64  /* bytes of a type or a code that are looked at */
#define PROVIDER_TEXT_MAX 480 /* likewise of the message */

/* Empty: not said. Each ends in NUL and holds none. */
struct provider_error {
    bool is_given;
    char type[PROVIDER_WORD_MAX + 1];
    char code[PROVIDER_WORD_MAX + 1];
    char detail[PROVIDER_WORD_MAX + 1]; /* details.error_code */
    char text[PROVIDER_TEXT_MAX + 1];
    int number; /* a code that is a number; 0: it is none */
};

/* {"error":{…}}, {"type":"error","error":{…}}, {"object":"error",…}, or any of them as an event of a
 * stream. False: there is none in it; *ret_error is empty. */
bool provider_error_read(struct span body, struct provider_error *ret_error);

/* Where `part`, which is in lower case, stands in the text, in any case of letters; NULL: nowhere. */
const char *provider_text_find(const char *text, const char *part);

/* classify_hint.c: the verdict's hint, once it has its class. */
void classify_hint(const struct classify_input *input, const struct provider_error *error,
                   struct verdict *verdict);

/* For a log line: control characters become blanks, and no character is cut in half at the end. */
void provider_error_clean(char *text);

#endif
