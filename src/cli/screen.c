/* SPDX-License-Identifier: MIT
 *
 * screen -- see screen.h. wcwidth(3) knows the widths, in a locale that knows UTF-8; the one of the
 * user may not, so C.UTF-8 is asked first. Decoding is our own: bytes that are not UTF-8 must be
 * shown too.
 */
#define _XOPEN_SOURCE 700 /* wcwidth */

#include "cli/screen.h"

#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define ELLIPSIS    "\xe2\x80\xa6" /* U+2026 */
#define UTF8_MAX    4

/* --- the terminal ----------------------------------------------------------------------------- */

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value != NULL && value[0] != '\0';
}

static bool is_dumb(void)
{
    const char *term = getenv("TERM");

    return term == NULL || strcmp(term, "dumb") == 0;
}

static size_t terminal_width(int fd)
{
    struct winsize size = {0};
    const char *columns = getenv("COLUMNS");
    int64_t width = 0;

    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    if (columns != NULL && span_to_int(span_of(columns), &width) && width > 0 &&
        width <= SCREEN_WIDTH_MAX) {
        return (size_t)width;
    }
    return SCREEN_WIDTH;
}

struct screen screen_of(FILE *out)
{
    int fd = fileno(out);
    bool is_terminal = isatty(fd) == 1;

    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        (void)setlocale(LC_CTYPE, ""); /* the next best; without it widths are those of ASCII */
    }
    return (struct screen){.out = out,
                           .width = is_terminal ? terminal_width(fd) : 0,
                           .has_colour = is_terminal && !is_set("NO_COLOR") && !is_dumb()};
}

/* --- characters -------------------------------------------------------------------------------- */

/* One character as it is shown. */
struct shown {
    struct span bytes;
    size_t cells;
    size_t taken; /* bytes of the text that it stands for */
};

static const struct shown unshowable = {
    .bytes = {.at = REPLACEMENT, .len = sizeof REPLACEMENT - 1}, .cells = 1, .taken = 1};

/* Marks that are not seen but change how what follows is read: directions, and the line and
 * paragraph separators. */
static bool is_misleading(uint32_t code)
{
    return (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0x061c || code == 0xfeff;
}

static uint32_t decode(struct span character)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)character.at[0] & masks[character.len];

    for (size_t i = 1; i < character.len; i++) {
        code = code << 6 | ((unsigned char)character.at[i] & 0x3f);
    }
    return code;
}

/* Bytes of the well-formed character at the front; 0: there is none. */
static size_t character_len(struct span text)
{
    for (size_t len = 1; len <= UTF8_MAX && len <= text.len; len++) {
        if (span_is_utf8(span_until(text, len))) {
            return len;
        }
    }
    return 0;
}

/* `text` is not empty. */
static struct shown shown_front(struct span text)
{
    struct shown shown = unshowable;
    size_t len = character_len(text);

    if (len == 0) {
        return shown;
    }
    struct span character = span_until(text, len);
    uint32_t code = decode(character);
    int cells = code == 0 ? -1 : wcwidth((wchar_t)code); /* which takes a NUL for nothing at all */
    shown.taken = len;
    if (cells >= 0 && !is_misleading(code)) {
        shown.bytes = character;
        shown.cells = (size_t)cells;
    }
    return shown;
}

size_t screen_cells(struct span text)
{
    size_t cells = 0;

    while (text.len > 0) {
        struct shown shown = shown_front(text);
        cells += shown.cells;
        text = span_from(text, shown.taken);
    }
    return cells;
}

static size_t put_front(const struct screen *screen, struct span text, size_t cells_max)
{
    size_t cells = 0;

    while (text.len > 0) {
        struct shown shown = shown_front(text);
        if (shown.cells > cells_max - cells) {
            break;
        }
        (void)fwrite(shown.bytes.at, 1, shown.bytes.len, screen->out); /* see explain_finish */
        cells += shown.cells;
        text = span_from(text, shown.taken);
    }
    return cells;
}

size_t screen_put(const struct screen *screen, struct span text, size_t cells_max)
{
    if (cells_max == SCREEN_UNCUT || screen_cells(text) <= cells_max) {
        return put_front(screen, text, SCREEN_UNCUT);
    }
    if (cells_max == 0) {
        return 0;
    }
    size_t cells = put_front(screen, text, cells_max - 1);
    (void)fputs(ELLIPSIS, screen->out); /* see explain_finish */
    return cells + 1;
}

/* --- colour ------------------------------------------------------------------------------------- */

size_t screen_put_coloured(const struct screen *screen, enum screen_colour colour, struct span text,
                           size_t cells_max)
{
    static const char *const codes[] = {
        [SCREEN_PLAIN] = "",   [SCREEN_BOLD] = "1",    [SCREEN_DIM] = "2",  [SCREEN_RED] = "31",
        [SCREEN_GREEN] = "32", [SCREEN_YELLOW] = "33", [SCREEN_CYAN] = "36"};

    if (!screen->has_colour || colour == SCREEN_PLAIN) {
        return screen_put(screen, text, cells_max);
    }
    fprintf(screen->out, "\033[%sm", codes[colour]);
    size_t cells = screen_put(screen, text, cells_max);
    fprintf(screen->out, "\033[0m");
    return cells;
}

enum screen_colour screen_state_colour(struct span state)
{
    static const struct {
        const char *word;
        enum screen_colour colour;
    } states[] = {{"succeeded", SCREEN_GREEN},  {"failed", SCREEN_RED},
                  {"unsettled", SCREEN_YELLOW}, {"running", SCREEN_CYAN},
                  {"cancelled", SCREEN_DIM},    {"paused", SCREEN_YELLOW},
                  {"outage", SCREEN_RED},       {"stopped", SCREEN_RED}};

    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        if (span_is(state, states[i].word)) {
            return states[i].colour;
        }
    }
    return SCREEN_PLAIN;
}

/* --- JSON --------------------------------------------------------------------------------------- */

/* Bytes to the next character that could move the cursor or turn text around: DEL, the C1 control
 * characters, and what is misleading. All else that is dangerous is escaped in JSON anyway. */
static size_t harmless_len(struct span json, size_t *ret_taken, uint32_t *ret_code)
{
    static const char leads[] = "\x7f\xc2\xd8\xe2\xef"; /* of their UTF-8 */

    for (size_t at = 0; at < json.len; at++) {
        bool is_lead = (unsigned char)json.at[at] >= 0x7f && strchr(leads, json.at[at]) != NULL;
        size_t len = is_lead ? character_len(span_from(json, at)) : 0;
        uint32_t code = len > 0 ? decode(span_until(span_from(json, at), len)) : 0;
        if ((code >= 0x7f && code < 0xa0) || is_misleading(code)) {
            *ret_taken = len;
            *ret_code = code;
            return at;
        }
    }
    *ret_taken = 0;
    return json.len;
}

/* Escaped also where it is no terminal: a pager or a file gets to one later, and to programs it is the
 * same value. */
void screen_put_json_part(struct span json)
{
    size_t taken = 1;
    uint32_t code = 0;

    while (taken > 0) {
        size_t len = harmless_len(json, &taken, &code);
        (void)fwrite(json.at, 1, len, stdout); /* see explain_finish */
        if (taken > 0) {
            printf("\\u%04" PRIx32, code);
        }
        json = span_from(json, len + taken);
    }
}

void screen_put_json(struct span document)
{
    screen_put_json_part(document);
    (void)putchar('\n'); /* see explain_finish */
}

/* --- durations --------------------------------------------------------------------------------- */

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS   (60 * MINUTE_MS)
#define DAY_MS    (24 * HOUR_MS)

/* 1.5s, without zeros at its end. */
static void seconds(int64_t ms, char ret_text[SCREEN_DURATION_MAX])
{
    int length = snprintf(ret_text, SCREEN_DURATION_MAX, "%" PRId64 ".%03d", ms / SECOND_MS,
                          (int)(ms % SECOND_MS)); /* fits */

    while (ret_text[length - 1] == '0') {
        length--;
    }
    if (ret_text[length - 1] == '.') {
        length--;
    }
    ret_text[length] = 's';
    ret_text[length + 1] = '\0';
}

static void two_units(int64_t large, const char *large_unit, int64_t small, const char *small_unit,
                      char ret_text[SCREEN_DURATION_MAX])
{
    if (small == 0) {
        (void)snprintf(ret_text, SCREEN_DURATION_MAX, "%" PRId64 "%s", large, large_unit);
    } else {
        (void)snprintf(ret_text, SCREEN_DURATION_MAX, "%" PRId64 "%s%" PRId64 "%s", large,
                       large_unit, small, small_unit); /* fits */
    }
}

void screen_duration(int64_t ms, char ret_text[SCREEN_DURATION_MAX])
{
    if (ms < 0) {
        ms = 0;
    }
    if (ms < SECOND_MS) {
        (void)snprintf(ret_text, SCREEN_DURATION_MAX, "%" PRId64 "ms", ms); /* fits */
    } else if (ms < MINUTE_MS) {
        seconds(ms, ret_text);
    } else if (ms < HOUR_MS) {
        two_units(ms / MINUTE_MS, "m", ms % MINUTE_MS / SECOND_MS, "s", ret_text);
    } else if (ms < DAY_MS) {
        two_units(ms / HOUR_MS, "h", ms % HOUR_MS / MINUTE_MS, "m", ret_text);
    } else {
        two_units(ms / DAY_MS, "d", ms % DAY_MS / HOUR_MS, "h", ret_text);
    }
}
