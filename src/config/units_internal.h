/* SPDX-License-Identifier: MIT
 *
 * units -- inside config/ only: durations and sizes as they are written. Reading durations is
 * daruma_duration_parse.
 */
#ifndef CONFIG_UNITS_INTERNAL_H
#define CONFIG_UNITS_INTERNAL_H

#include "base/span.h"

#define UNITS_TEXT_MAX 48

/* Exact, in whole units from large to small: 10s, 1m30s, 3d, 250ms, 0s. ms is not negative. */
const char *duration_format(int64_t ms, char ret_text[UNITS_TEXT_MAX]);

/* 512B 64KiB 1MiB 2GiB. */
bool size_parse(struct span text, int64_t *ret_bytes);
const char *size_format(int64_t bytes,
                        char ret_text[UNITS_TEXT_MAX]); /* the largest that is exact */

/* A number of JSON's grammar; false when it is none or too large for a double. */
bool number_parse(struct span text, double *ret_number);
const char *number_format(double number, char ret_text[UNITS_TEXT_MAX]); /* shortest exact */

#endif
