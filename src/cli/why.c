/* SPDX-License-Identifier: MIT
 *
 * why -- see why.h.
 */
#include "cli/why.h"

#include "base/fault.h"

#include <inttypes.h>
#include <stdio.h>

#define LINE_BYTES_MAX 65536

/* What the reason says beside "HTTP 503". */
static struct span without_status(struct span reason, int64_t status)
{
    char text[32];

    (void)snprintf(text, sizeof text, "HTTP %" PRId64, status); /* fits */
    struct span rest = span_from(reason, strlen(text));
    bool is_said = status != 0 && span_starts(reason, text) &&
                   (rest.len == 0 || rest.at[0] == ' ' || rest.at[0] == ':');
    while (is_said && rest.len > 0 && (rest.at[0] == ' ' || rest.at[0] == ':')) {
        rest = span_from(rest, 1);
    }
    return is_said ? rest : reason;
}

int why_write(const json_t *error, struct buf *out)
{
    struct span class = client_text(error, "class");
    int64_t status = client_number(error, "status");
    struct span reason = without_status(client_text(error, "message"), status);
    int failed = buf_add(out, class);

    if (failed == 0 && status != 0) {
        failed = buf_addf(out, " %" PRId64, status);
    }
    if (failed == 0 && reason.len > 0) {
        failed =
            buf_addf(out, "%s%.*s", class.len > 0 || status != 0 ? ": " : "", SPAN_ARGS(reason));
    }
    return failed;
}

struct span why_words(const json_t *task)
{
    const json_t *error = json_object_get(task, "error");
    const json_t *response = json_object_get(task, "response");
    struct span rest = client_text(response, "body"), line = SPAN("");
    int64_t status = client_number(error, "status");
    bool is_of_it = status != 0 && client_number(response, "status") == status;

    while (is_of_it && rest.len > 0 && line.len == 0) {
        (void)span_cut(&rest, '\n', &line); /* false: it was the last */
    }
    return span_until(line, WHY_WORDS_BYTES);
}

void why_put(const struct screen *screen, const json_t *task)
{
    const json_t *error = json_object_get(task, "error");
    struct span words = why_words(task);
    AUTO(buf_done) struct buf line;

    buf_init(&line, LINE_BYTES_MAX);
    if (!json_is_object(error) || why_write(error, &line) != 0) {
        return;
    }
    (void)screen_put(screen, buf_span(&line), SCREEN_UNCUT);
    if (words.len > 0) {
        (void)screen_put(screen, SPAN(": "), SCREEN_UNCUT);
        (void)screen_put(screen, words, SCREEN_UNCUT);
    }
}
