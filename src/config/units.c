/* SPDX-License-Identifier: MIT
 *
 * units -- see units_internal.h.
 */
#include "config/units_internal.h"

#include "base/json_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array)      (sizeof(array) / sizeof *(array))
#define NUMBER_DIGITS_MAX 17 /* enough for every double */
#define WHOLE_MAX         1e15

struct unit {
    const char *word;
    int64_t worth;
};

static const struct unit durations[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit sizes[] = {{"GiB", 1073741824}, {"MiB", 1048576}, {"KiB", 1024}, {"B", 1}};

const char *duration_format(int64_t ms, char ret_text[UNITS_TEXT_MAX])
{
    size_t len = 0;

    (void)snprintf(ret_text, UNITS_TEXT_MAX, "0s"); /* fits, as all below: 20 digits, 5 units */
    for (size_t i = 0; i < COUNT(durations); i++) {
        int64_t whole = ms / durations[i].worth;
        if (whole > 0) {
            len += (size_t)snprintf(ret_text + len, UNITS_TEXT_MAX - len, "%" PRId64 "%s", whole,
                                    durations[i].word);
            ms -= whole * durations[i].worth;
        }
    }
    return ret_text;
}

bool size_parse(struct span text, int64_t *ret_bytes)
{
    for (size_t i = 0; i < COUNT(sizes); i++) {
        size_t word_len = strlen(sizes[i].word);
        if (text.len <= word_len || !span_is(span_from(text, text.len - word_len), sizes[i].word)) {
            continue;
        }
        int64_t count;
        if (!span_to_int(span_until(text, text.len - word_len), &count) || count < 0 ||
            count > INT64_MAX / sizes[i].worth) {
            return false; /* "KiB" ends in "B" as well, but "64Ki" is no number either */
        }
        *ret_bytes = count * sizes[i].worth;
        return true;
    }
    return false;
}

const char *size_format(int64_t bytes, char ret_text[UNITS_TEXT_MAX])
{
    size_t i = 0;

    while (i + 1 < COUNT(sizes) && (bytes % sizes[i].worth != 0 || bytes == 0)) {
        i++;
    }
    (void)snprintf(ret_text, UNITS_TEXT_MAX, "%" PRId64 "%s", bytes / sizes[i].worth,
                   sizes[i].word); /* fits */
    return ret_text;
}

static bool is_number(struct span text)
{
    struct span rest = text, value;
    bool is_candidate =
        text.len > 0 && (text.at[0] == '-' || (text.at[0] >= '0' && text.at[0] <= '9'));

    return is_candidate && json_value_take(&rest, &value) && value.len == text.len;
}

bool number_parse(struct span text, double *ret_number)
{
    char digits[UNITS_TEXT_MAX];
    char *end;

    if (!is_number(text) || text.len >= sizeof digits) {
        return false;
    }
    (void)snprintf(digits, sizeof digits, "%.*s", SPAN_ARGS(text)); /* fits */
    double number = strtod(digits, &end);
    if (*end != '\0' || !isfinite(number)) { /* a decimal comma, set by somebody's locale */
        return false;
    }
    *ret_number = number;
    return true;
}

const char *number_format(double number, char ret_text[UNITS_TEXT_MAX])
{
    if (number > -WHOLE_MAX && number < WHOLE_MAX && number == (double)(int64_t)number) {
        (void)snprintf(ret_text, UNITS_TEXT_MAX, "%" PRId64, (int64_t)number); /* not 5e+02 */
        return ret_text;
    }
    char text[UNITS_TEXT_MAX] = ""; /* gcc 12 at -O3 takes ret_text for NULL here */
    for (int digits = 1; digits <= NUMBER_DIGITS_MAX; digits++) {
        double back;
        (void)snprintf(text, sizeof text, "%.*g", digits, number); /* fits */
        if (number_parse(span_of(text), &back) && back == number) {
            break;
        }
    }
    memcpy(ret_text, text, sizeof text);
    return ret_text;
}
