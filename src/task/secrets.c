/* SPDX-License-Identifier: MIT
 *
 * secrets -- see secrets.h.
 */
#include "task/secrets.h"

#define NAME_MAX_BYTES 128 /* a longer name is looked at that far */

/* Letters in lower case; what joins words is left out: X-Api-Key, api_key and apiKey are one. */
static struct span plain_name(struct span name, char ret_plain[NAME_MAX_BYTES])
{
    size_t len = 0;

    for (size_t i = 0; i < name.len && len < NAME_MAX_BYTES; i++) {
        char byte = name.at[i];
        if (byte >= 'A' && byte <= 'Z') {
            ret_plain[len++] = (char)(byte - 'A' + 'a');
        } else if ((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9')) {
            ret_plain[len++] = byte;
        }
    }
    return (struct span){.at = ret_plain, .len = len};
}

static bool contains(struct span text, const char *word)
{
    for (; text.len > 0; text = span_from(text, 1)) {
        if (span_starts(text, word)) {
            return true;
        }
    }
    return false;
}

bool secrets_is_name(struct span name)
{
    static const char *const whole[] = {"key", "sig", "auth", "pass", "pwd"};
    static const char *const parts[] = {"authorization", "cookie",     "token",      "secret",
                                        "password",      "passwd",     "apikey",     "accesskey",
                                        "signature",     "credential", "privatekey", "authkey"};
    char plain[NAME_MAX_BYTES];
    struct span text = plain_name(name, plain);

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (span_is(text, whole[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (contains(text, parts[i])) {
            return true;
        }
    }
    return false;
}

/* --- URLs ---------------------------------------------------------------------------------------- */

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* %61pi_key is api_key, too. */
static struct span unescaped(struct span name, char ret_text[NAME_MAX_BYTES])
{
    size_t len = 0;

    for (size_t i = 0; i < name.len && len < NAME_MAX_BYTES; i++) {
        char byte = name.at[i];
        if (byte == '%' && i + 2 < name.len && hex_value(name.at[i + 1]) >= 0 &&
            hex_value(name.at[i + 2]) >= 0) {
            byte = (char)(hex_value(name.at[i + 1]) * 16 + hex_value(name.at[i + 2]));
            i += 2;
        }
        ret_text[len++] = byte;
    }
    return (struct span){.at = ret_text, .len = len};
}

static int add_parameter(struct buf *out, struct span parameter)
{
    char text[NAME_MAX_BYTES];
    struct span value = parameter, name;
    bool has_value = span_cut(&value, '=', &name);

    if (!has_value || value.len == 0 || !secrets_is_name(unescaped(name, text))) {
        return buf_add(out, parameter);
    }
    int failed = buf_add(out, name);
    return failed != 0 ? failed : buf_add(out, SPAN("=" SECRETS_HIDDEN));
}

static int add_query(struct buf *out, struct span query)
{
    struct span parameter;
    int failed = 0;
    bool has_more = true;

    while (failed == 0 && has_more) {
        has_more = span_cut(&query, '&', &parameter);
        failed = add_parameter(out, parameter);
        if (failed == 0 && has_more) {
            failed = buf_add(out, SPAN("&"));
        }
    }
    return failed;
}

/* Up to the path, without what stands before the last @. */
static int add_authority(struct buf *out, struct span authority)
{
    size_t at = authority.len;

    while (at > 0 && authority.at[at - 1] != '@') {
        at--;
    }
    int failed = at > 0 ? buf_add(out, SPAN(SECRETS_HIDDEN "@")) : 0;
    return failed != 0 ? failed : buf_add(out, span_from(authority, at));
}

static size_t find_any(struct span text, const char *bytes)
{
    size_t at = 0;

    while (at < text.len && (text.at[at] == '\0' || strchr(bytes, text.at[at]) == NULL)) {
        at++;
    }
    return at;
}

int secrets_add_url(struct buf *out, struct span url)
{
    size_t before = out->len, colon = find_any(url, ":/?#"), authority = 0;
    int failed = 0;

    if (span_starts(span_from(url, colon), "://")) {
        authority = colon + strlen("://");
    } else if (span_starts(url, "//")) {
        authority = strlen("//");
    }
    if (authority > 0) {
        failed = buf_add(out, span_until(url, authority));
        url = span_from(url, authority);
        size_t end = find_any(url, "/?#");
        failed = failed != 0 ? failed : add_authority(out, span_until(url, end));
        url = span_from(url, end);
    }
    size_t query = find_any(url, "?");
    failed = failed != 0 ? failed : buf_add(out, span_until(url, query));
    if (failed == 0 && query < url.len) {
        failed = buf_add(out, SPAN("?"));
        failed = failed != 0 ? failed : add_query(out, span_from(url, query + 1));
    }
    if (failed != 0) {
        out->len = before;
    }
    return failed;
}
