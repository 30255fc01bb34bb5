/* SPDX-License-Identifier: MIT
 *
 * fault -- see fault.h. A text that is too long is cut: an error about an error helps nobody.
 */
#include "base/fault.h"

#include <stddef.h>
#include <stdio.h>

static void describe(struct error *err, enum fault fault, const char *field, const char *format,
                     va_list arguments)
{
    err->fault = fault;
    (void)snprintf(err->field, sizeof err->field, "%s", field); /* cut when too long */
    (void)vsnprintf(err->text, sizeof err->text, format, arguments);
    err->reader = ERROR_BY_FAULT;
}

int fail(struct error *err, enum fault fault, const char *format, ...)
{
    if (err != NULL) {
        va_list arguments;
        va_start(arguments, format);
        describe(err, fault, "", format, arguments);
        va_end(arguments);
    }
    return fault;
}

int fail_field(struct error *err, enum fault fault, const char *field, const char *format, ...)
{
    if (err != NULL) {
        va_list arguments;
        va_start(arguments, format);
        describe(err, fault, field, format, arguments);
        va_end(arguments);
    }
    return fault;
}

int fail_told(struct error *err, enum fault fault, const char *format, ...)
{
    if (err != NULL) {
        va_list arguments;
        va_start(arguments, format);
        describe(err, fault, "", format, arguments);
        va_end(arguments);
        err->reader = ERROR_FOR_CALLER;
    }
    return fault;
}

int fail_inside(struct error *err, enum fault fault, const char *format, ...)
{
    if (err != NULL) {
        va_list arguments;
        va_start(arguments, format);
        describe(err, fault, "", format, arguments);
        va_end(arguments);
        err->reader = ERROR_FOR_OPERATOR;
    }
    return fault;
}

bool error_is_told(const struct error *err)
{
    bool is_theirs =
        err->fault == FAULT_INPUT || err->fault == FAULT_LIMIT || err->fault == FAULT_FULL;

    return err->text[0] != '\0' &&
           (err->reader == ERROR_FOR_CALLER || (err->reader == ERROR_BY_FAULT && is_theirs));
}

bool fault_is_passing(int fault)
{
    return fault == FAULT_BUSY || fault == FAULT_HELD;
}

const char *fault_code(int fault)
{
    switch (fault) {
#define CASE(name, value, code, text)                                                              \
    case value:                                                                                    \
        return code;
        FAULT_MAP(CASE)
#undef CASE
    default:
        return "internal";
    }
}

const char *fault_text(int fault)
{
    switch (fault) {
#define CASE(name, value, code, text)                                                              \
    case value:                                                                                    \
        return text;
        FAULT_MAP(CASE)
#undef CASE
    default:
        return "an unknown fault";
    }
}
