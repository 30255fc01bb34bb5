/* SPDX-License-Identifier: MIT
 *
 * fields -- see fields.h.
 */
#include "task/fields.h"

static bool has_byte(struct span span, char byte)
{
    return span.len > 0 && memchr(span.at, byte, span.len) != NULL;
}

int fields_add(struct buf *fields, struct span name, struct span value)
{
    if (name.len == 0 || has_byte(name, ':') || has_byte(name, '\n') || has_byte(value, '\n')) {
        return FAULT_INPUT;
    }
    size_t before = fields->len;
    int failed = buf_add(fields, name);
    failed = failed != 0 ? failed : buf_add(fields, SPAN(": "));
    failed = failed != 0 ? failed : buf_add(fields, value);
    failed = failed != 0 ? failed : buf_add(fields, SPAN("\n"));
    if (failed != 0) {
        fields->len = before;
    }
    return failed;
}

bool fields_next(struct span *rest, struct span *ret_name, struct span *ret_value)
{
    struct span line;

    if (rest->len == 0) {
        return false;
    }
    (void)span_cut(rest, '\n', &line); /* a missing last newline changes nothing */
    (void)span_cut(&line, ':', ret_name);
    *ret_value = span_from(line, span_starts(line, " ") ? 1 : 0);
    return true;
}

bool fields_find(struct span fields, const char *name, struct span *ret_value)
{
    struct span found, value;

    while (fields_next(&fields, &found, &value)) {
        if (span_is_nocase(found, name)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

bool fields_has(struct span fields, struct span name, struct span value)
{
    struct span found_name, found_value;

    while (fields_next(&fields, &found_name, &found_value)) {
        if (span_equal(found_name, name) && span_equal(found_value, value)) {
            return true;
        }
    }
    return false;
}

static bool is_token_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

bool fields_name_is_token(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!is_token_byte(name.at[i])) {
            return false;
        }
    }
    return name.len > 0;
}

bool fields_value_is_clean(struct span value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char byte = (unsigned char)value.at[i];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
            return false;
        }
    }
    return true;
}
