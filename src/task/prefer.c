/* SPDX-License-Identifier: MIT
 *
 * prefer -- see prefer.h.
 */
#include "task/prefer.h"

#include <inttypes.h>
#include <stdio.h>

/* Up to the next comma that is not in quotes. */
static struct span next_preference(struct span *rest)
{
    bool is_quoted = false;
    size_t at = 0;

    for (; at < rest->len && (is_quoted || rest->at[at] != ','); at++) {
        if (is_quoted && rest->at[at] == '\\') {
            at++;
        } else if (rest->at[at] == '"') {
            is_quoted = !is_quoted;
        }
    }
    struct span preference = span_until(*rest, at);
    *rest = span_from(*rest, at + 1);
    return preference;
}

static struct span without_quotes(struct span value)
{
    bool is_quoted = value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"';

    return is_quoted ? span_until(span_from(value, 1), value.len - 2) : value;
}

static void read_one(struct prefer *prefer, struct span preference)
{
    struct span name, value;
    int64_t seconds;

    (void)span_cut(&preference, ';', &value); /* parameters: none that we know */
    (void)span_cut(&value, '=', &name);
    name = span_trim(name);
    value = without_quotes(span_trim(value));
    if (span_is_nocase(name, "respond-async")) {
        prefer->is_async = true;
    } else if (span_is_nocase(name, "wait") && !prefer->has_wait && value.len <= 9 &&
               span_to_int(value, &seconds) && seconds >= 0) {
        prefer->has_wait = true;
        prefer->wait_ms = (seconds < PREFER_WAIT_MAX_S ? seconds : PREFER_WAIT_MAX_S) * 1000;
    }
}

void prefer_read(struct prefer *prefer, struct span value)
{
    while (value.len > 0) {
        read_one(prefer, next_preference(&value));
    }
}

struct span prefer_applied(const struct prefer *prefer, char room[48])
{
    const char *async = prefer->is_async ? "respond-async" : "";

    if (!prefer->is_async && !prefer->has_wait) {
        return SPAN("");
    }
    int len = prefer->has_wait ? snprintf(room, 48, "%s%swait=%" PRId64, async,
                                          prefer->is_async ? ", " : "", prefer->wait_ms / 1000)
                               : snprintf(room, 48, "%s", async);

    return (struct span){.at = room, .len = (size_t)len}; /* fits */
}
