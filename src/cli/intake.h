/* SPDX-License-Identifier: MIT
 *
 * intake -- what an answer may cost that is neither its body nor kept, for the commands that ask
 * somebody: header lines, interim answers and trailers, which libcurl keeps in memory without a limit,
 * and chunk sizes with their extensions, which it reads for as long as they come. The limits are those
 * of a delivery (HTTP_ANSWER_LINES_MAX and what stands beside it in deliver/http.h).
 *
 * The owner's callbacks count: each header line and each piece of the body as they come.
 */
#ifndef CLI_INTAKE_H
#define CLI_INTAKE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

enum intake_excess { INTAKE_FITS = 0, INTAKE_LINES, INTAKE_FRAMING };

/* Zeroed before a transfer. */
struct intake {
    size_t line_bytes, line_count; /* of headers and trailers */
    size_t body_bytes;             /* without its framing */
    size_t read_bytes;             /* behind the header, as it came */
    enum intake_excess excess;
};

/* Has the transfer ended when too much of it is framing. The intake lives as long as the transfer. */
CURLcode intake_watch(CURL *easy, struct intake *intake);

/* False: the callback ends the transfer, with a return of 0. */
bool intake_line(struct intake *intake, size_t bytes);
void intake_body(struct intake *intake, size_t bytes);

/* In words; NULL: the transfer was not ended for it. */
const char *intake_excess_text(const struct intake *intake);

#endif
