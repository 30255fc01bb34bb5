/* SPDX-License-Identifier: MIT
 *
 * intake -- see intake.h. Of framing libcurl's callbacks show nothing, but its log has every read of a
 * body before it is taken apart. A log cannot end a transfer; the callback that asks how it goes can,
 * and is called after a few reads.
 */
#include "cli/intake.h"

#include "deliver/http.h"

#define WORDS(number)       #number
#define WORDS_OF_MAX(limit) WORDS(limit)

_Static_assert(HTTP_ANSWER_LINES_MAX == 256 << 10, "said in intake_excess_text");
_Static_assert(HTTP_ANSWER_FRAMING_MAX == 256 << 10, "likewise");

/* Chunks may be as short as a byte, and a chunk may be signed. */
static bool is_over_framed(const struct intake *intake)
{
    return intake->read_bytes > intake->line_bytes + intake->body_bytes + HTTP_ANSWER_FRAMING_MAX +
                                    intake->body_bytes * HTTP_ANSWER_FRAMING_TIMES;
}

static int count_read(CURL *easy, curl_infotype kind, char *bytes, size_t len, void *user)
{
    struct intake *intake = user;

    (void)easy, (void)bytes;
    intake->read_bytes += kind == CURLINFO_DATA_IN ? len : 0;
    return 0;
}

static int look(void *user, curl_off_t down, curl_off_t down_now, curl_off_t up, curl_off_t up_now)
{
    struct intake *intake = user;

    (void)down, (void)down_now, (void)up, (void)up_now;
    if (intake->excess == INTAKE_FITS && is_over_framed(intake)) {
        intake->excess = INTAKE_FRAMING;
    }
    return intake->excess != INTAKE_FITS; /* 1 ends it */
}

#define SET(option, value) (code = code != CURLE_OK ? code : curl_easy_setopt(easy, option, value))

CURLcode intake_watch(CURL *easy, struct intake *intake)
{
    CURLcode code = CURLE_OK;

    SET(CURLOPT_DEBUGFUNCTION, count_read);
    SET(CURLOPT_DEBUGDATA, intake);
    SET(CURLOPT_VERBOSE, 1L);
    SET(CURLOPT_XFERINFOFUNCTION, look);
    SET(CURLOPT_XFERINFODATA, intake);
    SET(CURLOPT_NOPROGRESS, 0L);
    return code;
}

bool intake_line(struct intake *intake, size_t bytes)
{
    intake->line_bytes += bytes;
    intake->line_count++;
    if (intake->line_bytes > HTTP_ANSWER_LINES_MAX ||
        intake->line_count > HTTP_ANSWER_LINE_COUNT_MAX) {
        intake->excess = INTAKE_LINES;
    }
    return intake->excess == INTAKE_FITS;
}

void intake_body(struct intake *intake, size_t bytes)
{
    intake->body_bytes += bytes;
}

const char *intake_excess_text(const struct intake *intake)
{
    switch (intake->excess) {
    case INTAKE_LINES:
        return "the answer has over 256 KiB or " WORDS_OF_MAX(
            HTTP_ANSWER_LINE_COUNT_MAX) " lines of headers and trailers";
    case INTAKE_FRAMING:
        return "over 256 KiB of the answer are no part of it, but chunk sizes and extensions";
    case INTAKE_FITS:
    default:
        return NULL;
    }
}
