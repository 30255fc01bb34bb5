/* SPDX-License-Identifier: MIT
 *
 * header_flags -- the headers of a request as --header gives them: 'Name: value', or @FILE with such a
 * line for each, for values that the list of processes must not show. Files are read after all flags are,
 * so that what is wrong with one can be said.
 */
#ifndef CLI_HEADER_FLAGS_H
#define CLI_HEADER_FLAGS_H

#include "base/buf.h"
#include "base/fault.h"

#define HEADER_FLAGS_MAX   64 /* headers, and files of them */
#define HEADER_FLAGS_VALUE "'N: V'|@FILE"
#define HEADER_FLAGS_EXPECTED                                                                      \
    "up to 64 times 'Name: value' in UTF-8, or @FILE with such lines, each name once and without " \
    "control characters"

/* May a header of this name be given? */
typedef bool (*header_flags_fn)(struct span name);

struct header_flags {
    struct buf fields; /* as fields.h has them */
    size_t count;
    const char *files[HEADER_FLAGS_MAX];
    size_t file_count;
    header_flags_fn may_give; /* NULL: every one */
};

void header_flags_init(struct header_flags *headers, header_flags_fn may_give);
void header_flags_done(struct header_flags *headers);

/* A value of --header. False: refused. */
bool header_flags_take(struct header_flags *headers, const char *value);

/* What is in the files. FAULT_IO: one cannot be read; FAULT_INPUT: a line is no header, which is named by
 * its number alone; FAULT_MEMORY; err->field is the flag. */
int header_flags_read(struct header_flags *headers, struct error *err)
    __attribute__((warn_unused_result));

/* Is a header of this name there, in any case of letters? */
bool header_flags_has(const struct header_flags *headers, struct span name);

#endif
