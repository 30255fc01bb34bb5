/* SPDX-License-Identifier: MIT
 *
 * given -- what stands behind a flag that takes bytes: TEXT itself, @FILE for what is in a file, - or
 * @- for standard input.
 */
#ifndef CLI_GIVEN_H
#define CLI_GIVEN_H

#include "base/buf.h"
#include "base/fault.h"

#define GIVEN_BYTES_MAX (64u << 20)

/* Adds to `bytes`, whose ceiling is GIVEN_BYTES_MAX. FAULT_IO: a file cannot be read; FAULT_LIMIT: it
 * is too large; FAULT_MEMORY; err->field is the flag. */
int given_read(const char *value, const char *flag, struct buf *bytes, struct error *err)
    __attribute__((warn_unused_result));

#endif
