/* SPDX-License-Identifier: MIT
 *
 * screen -- how text gets to people. What comes from a server may hold anything: control characters
 * and marks that turn text around are shown as �, so that it can neither move the cursor nor look
 * like something else. Widths are counted in the cells of a terminal: a Japanese character has two.
 *
 * On a terminal there is colour, unless NO_COLOR is set or TERM is dumb; elsewhere never. Text is
 * UTF-8 whatever the locale. Calls belong to one thread.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "base/span.h"

#include <stdio.h>

#define SCREEN_WIDTH        80 /* of a terminal that does not say */
#define SCREEN_WIDTH_MAX    10000
#define SCREEN_UNCUT        SIZE_MAX
#define SCREEN_DURATION_MAX 32

enum screen_colour {
    SCREEN_PLAIN = 0,
    SCREEN_BOLD,
    SCREEN_DIM,
    SCREEN_RED,
    SCREEN_GREEN,
    SCREEN_YELLOW,
    SCREEN_CYAN
};

struct screen {
    FILE *out;
    size_t width; /* in cells; 0: not a terminal, nothing is cut */
    bool has_colour;
};

struct screen screen_of(FILE *out);

size_t screen_cells(struct span text); /* as it is shown */

/* Shows the text, cut with … to `cells_max`; returns how many cells it took. */
size_t screen_put(const struct screen *screen, struct span text, size_t cells_max);
size_t screen_put_coloured(const struct screen *screen, enum screen_colour colour, struct span text,
                           size_t cells_max);

enum screen_colour screen_state_colour(struct span state);

/* A JSON document on stdout as it is, with a line's end; but what could move the cursor or turn text
 * around is escaped, as JSON has it. */
void screen_put_json(struct span document);
void screen_put_json_part(struct span json); /* without the line's end */

/* 250ms 1.5s 4m59s 3h12m 5d3h: exact below a minute, two units above. Negative is 0. */
void screen_duration(int64_t ms, char ret_text[SCREEN_DURATION_MAX]);

#endif
