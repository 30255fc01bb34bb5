/* SPDX-License-Identifier: MIT
 *
 * given -- see given.h.
 */
#include "cli/given.h"

#include <errno.h>
#include <stdio.h>

#define READ_BYTES 65536

static int read_stream(FILE *file, const char *flag, const char *name, struct buf *bytes,
                       struct error *err)
{
    char piece[READ_BYTES];
    size_t len;

    while ((len = fread(piece, 1, sizeof piece, file)) > 0) {
        int failed = buf_add(bytes, (struct span){.at = piece, .len = len});
        if (failed == FAULT_LIMIT) {
            return fail_field(err, FAULT_LIMIT, flag, "%s has more than %u bytes", name,
                              GIVEN_BYTES_MAX);
        }
        if (failed != 0) {
            return fail_field(err, FAULT_MEMORY, flag, "no memory for %s", name);
        }
    }
    return ferror(file) == 0
               ? 0
               : fail_field(err, FAULT_IO, flag, "cannot read %s: %s", name, strerror(errno));
}

static int read_file(const char *path, const char *flag, struct buf *bytes, struct error *err)
{
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        return fail_field(err, FAULT_IO, flag, "cannot read %s: %s", path, strerror(errno));
    }
    int failed = read_stream(file, flag, path, bytes, err);
    (void)fclose(file); /* only read */
    return failed;
}

int given_read(const char *value, const char *flag, struct buf *bytes, struct error *err)
{
    if (strcmp(value, "-") == 0 || strcmp(value, "@-") == 0) {
        return read_stream(stdin, flag, "standard input", bytes, err);
    }
    if (value[0] == '@') {
        return read_file(value + 1, flag, bytes, err);
    }
    int failed = buf_add(bytes, span_of(value));
    return failed == 0 ? 0 : fail_field(err, (enum fault)failed, flag, "it is too large");
}
