/* SPDX-License-Identifier: MIT
 *
 * problem -- see problem.h.
 */
#include "edge/problem.h"

#include "engine/engine.h"

#include <stdio.h>

#define TYPE_PREFIX "urn:daruma:problem:"
#define TYPE_MAX    64

static const struct {
    int status;
    const char *code;
    const char *title;
} rows[] = {
#define ROW(name, number, word, text) [PROBLEM_##name] = {number, word, text},
    PROBLEM_MAP(ROW)
#undef ROW
};

int problem_status(enum problem problem)
{
    return rows[problem].status;
}

enum problem problem_of_fault(int fault)
{
    switch (fault) {
    case FAULT_INPUT:
        return PROBLEM_INVALID;
    case FAULT_LIMIT:
        return PROBLEM_TOO_LARGE;
    case FAULT_MEMORY:
    case FAULT_FULL:
    case FAULT_HELD:
        return PROBLEM_OVERLOADED;
    case FAULT_IO:
    case FAULT_LOST:
        return PROBLEM_STORE_UNAVAILABLE;
    case FAULT_UNKNOWN:
        return PROBLEM_STORE_UNKNOWN;
    case FAULT_CORRUPT:
        return PROBLEM_CORRUPT;
    case FAULT_CLOSING:
        return PROBLEM_DRAINING;
    case FAULT_BUSY:
        return PROBLEM_KEY_IN_PROGRESS;
    default:
        return PROBLEM_INTERNAL;
    }
}

struct span problem_detail(const struct error *err)
{
    return span_of(error_is_told(err) ? err->text : fault_text(err->fault));
}

int problem_retry_after_s(enum problem problem)
{
    if (problem_status(problem) != 503 || problem == PROBLEM_STORE_UNKNOWN) {
        return 0;
    }
    return (ENGINE_RETRY_AFTER_MS + 999) / 1000;
}

void problem_write(struct writer *writer, enum problem problem, struct span detail,
                   struct span field)
{
    char type[TYPE_MAX];

    (void)snprintf(type, sizeof type, TYPE_PREFIX "%s", rows[problem].code); /* fits */
    write_open(writer, '{');
    write_named_text(writer, "type", span_of(type));
    write_named_text(writer, "title", span_of(rows[problem].title));
    write_named_int(writer, "status", rows[problem].status);
    write_named_text(writer, "detail", detail.len > 0 ? detail : span_of(rows[problem].title));
    write_named_text(writer, "code", span_of(rows[problem].code));
    if (field.len > 0) {
        write_named_text(writer, "field", field);
    }
    write_close(writer, '}');
}
