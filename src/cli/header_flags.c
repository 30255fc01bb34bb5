/* SPDX-License-Identifier: MIT
 *
 * header_flags -- see header_flags.h.
 */
#include "cli/header_flags.h"

#include "base/auto.h"
#include "cli/given.h"
#include "task/fields.h"

#include <ctype.h>

#define FLAG             "--header"
#define FIELDS_BYTES_MAX (512u << 10)
#define FILE_BYTES_MAX   (512u << 10)

void header_flags_init(struct header_flags *headers, header_flags_fn may_give)
{
    *headers = (struct header_flags){.may_give = may_give};
    buf_init(&headers->fields, FIELDS_BYTES_MAX);
}

void header_flags_done(struct header_flags *headers)
{
    buf_done(&headers->fields);
}

static bool is_same_name(struct span one, struct span other)
{
    bool is_same = one.len == other.len;

    for (size_t i = 0; is_same && i < one.len; i++) {
        is_same = tolower((unsigned char)one.at[i]) == tolower((unsigned char)other.at[i]);
    }
    return is_same;
}

bool header_flags_has(const struct header_flags *headers, struct span wanted)
{
    struct span rest = buf_span(&headers->fields), name, value;

    while (fields_next(&rest, &name, &value)) {
        if (is_same_name(name, wanted)) {
            return true;
        }
    }
    return false;
}

static bool take_line(struct header_flags *headers, struct span line)
{
    struct span name;

    if (headers->count == HEADER_FLAGS_MAX || !span_cut(&line, ':', &name)) {
        return false;
    }
    struct span value = span_trim(line);
    bool is_good = fields_name_is_token(name) && fields_value_is_clean(value) &&
                   span_is_utf8(value) && !header_flags_has(headers, name) &&
                   (headers->may_give == NULL || headers->may_give(name));
    headers->count++;
    return is_good && fields_add(&headers->fields, name, value) == 0;
}

bool header_flags_take(struct header_flags *headers, const char *value)
{
    if (value[0] != '@') {
        return take_line(headers, span_of(value));
    }
    if (headers->file_count == HEADER_FLAGS_MAX || value[1] == '\0' || strcmp(value, "@-") == 0) {
        return false; /* standard input is for the body */
    }
    headers->files[headers->file_count++] = value;
    return true;
}

static int read_file(struct header_flags *headers, const char *file, struct error *err)
{
    AUTO(buf_done) struct buf text;
    struct span rest, line;

    buf_init(&text, FILE_BYTES_MAX);
    int failed = given_read(file, FLAG, &text, err);
    if (failed != 0) {
        return failed;
    }
    rest = buf_span(&text);
    for (size_t number = 1; rest.len > 0; number++) {
        (void)span_cut(&rest, '\n', &line); /* the last one may have no end */
        if (line.len > 0 && line.at[line.len - 1] == '\r') {
            line.len--;
        }
        if (span_trim(line).len > 0 && !take_line(headers, line)) {
            return fail_field(err, FAULT_INPUT, FLAG, "line %zu of %.100s: expected %s", number,
                              file + 1, "'Name: value', each name once");
        }
    }
    return 0;
}

int header_flags_read(struct header_flags *headers, struct error *err)
{
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < headers->file_count; i++) {
        failed = read_file(headers, headers->files[i], err);
    }
    return failed;
}
