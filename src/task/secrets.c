/* SPDX-License-Identifier: MIT
 *
 * secrets -- see secrets.h.
 */
#include "task/secrets.h"

#include "task/fields.h"

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

static bool is_one_of(struct span text, const char *const *words)
{
    while (*words != NULL && !span_is(text, *words)) {
        words++;
    }
    return *words != NULL;
}

static bool contains_one_of(struct span text, const char *const *words)
{
    while (*words != NULL && !contains(text, *words)) {
        words++;
    }
    return *words != NULL;
}

static bool is_lower(char byte)
{
    return byte >= 'a' && byte <= 'z';
}

static bool is_upper(char byte)
{
    return byte >= 'A' && byte <= 'Z';
}

/* Does another word begin here? myAuth: my Auth; XAuth: X Auth; SAMLCode: SAML Code. */
static bool begins_word(struct span name, size_t at)
{
    char before = name.at[at - 1], byte = name.at[at];

    return is_upper(byte) && (is_lower(before) ||
                              (is_upper(before) && at + 1 < name.len && is_lower(name.at[at + 1])));
}

static bool is_letter(char byte)
{
    return is_lower(byte) || is_upper(byte);
}

/* Of a name that begins with a letter: how long its first word is. */
static size_t word_len(struct span name)
{
    size_t len = 1;

    while (len < name.len && is_letter(name.at[len]) && !begins_word(name, len)) {
        len++;
    }
    return len;
}

/* Takes the first word off. Words are letters, apart by anything else or by their case. False: there is
 * none any more. */
static bool next_word(struct span *name, struct span *ret_word)
{
    while (name->len > 0 && !is_letter(name->at[0])) {
        *name = span_from(*name, 1);
    }
    size_t len = name->len > 0 ? word_len(*name) : 0;
    *ret_word = span_until(*name, len);
    *name = span_from(*name, len);
    return len > 0;
}

/* Is one of the name's words one of `words`, or the last of them one of `last`? */
static bool has_word(struct span name, const char *const *words, const char *const *last)
{
    char plain[NAME_MAX_BYTES];
    struct span word;
    bool ends_so = false;

    while (next_word(&name, &word)) {
        word = plain_name(word, plain);
        if (is_one_of(word, words)) {
            return true;
        }
        ends_so = is_one_of(word, last);
    }
    return ends_so;
}

static bool ends_with(struct span text, const char *end)
{
    size_t len = strlen(end);

    return text.len >= len && span_is(span_from(text, text.len - len), end);
}

/* Names that end in "key" are keys to something, numbered ones too; but for those that only tell requests
 * apart, and for words that happen to end so. */
static bool is_key(struct span text)
{
    static const char *const plain[] = {"idempotencykey", "secwebsocketkey", NULL};
    static const char *const words[] = {"monkey", "turkey", "donkey",
                                        "hockey", "jockey", "whiskey"};

    while (text.len > 0 && text.at[text.len - 1] <= '9') {
        text.len--;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (ends_with(text, words[i])) {
            return false;
        }
    }
    return ends_with(text, "key") && !is_one_of(text, plain);
}

bool secrets_is_name(struct span name)
{
    static const char *const whole[] = {"code", "refresh", NULL}; /* of an authorization */
    static const char *const words[] = {"auth", "oauth", "sig", "pass", "pwd", "pw",
                                        "otp",  "totp",  "sid", "pin",  "psk", "mfa",
                                        "tok",  "jws",   "jwe", "cvv",  "cvc", NULL};
    static const char *const last[] = {"mac", "ticket", "cert", NULL}; /* X-Mac-Address is none */
    static const char *const parts[] = {"authorization",
                                        "authentication",
                                        "cookie",
                                        "token",
                                        "secret",
                                        "password",
                                        "passwd",
                                        "passphrase",
                                        "passcode",
                                        "signature",
                                        "credential",
                                        "apikey",
                                        "accesskey",
                                        "privatekey",
                                        "authkey",
                                        "session",
                                        "sessid",
                                        "jwt",
                                        "assertion",
                                        "csrf",
                                        "xsrf",
                                        "hmac",
                                        "bearer",
                                        "saml",
                                        "codeverifier",
                                        "2fa",
                                        "oidc",
                                        "clientcert",
                                        "macaroon",
                                        "dpop",
                                        NULL};
    char plain[NAME_MAX_BYTES];
    struct span text = plain_name(name, plain);

    return is_one_of(text, whole) || is_key(text) || contains_one_of(text, parts) ||
           has_word(name, words, last);
}

static int add_name(struct buf *names, struct span name)
{
    int failed = names->len > 0 ? buf_add(names, SPAN(", ")) : 0;

    for (size_t i = 0; failed == 0 && i < name.len; i++) {
        char byte = name.at[i];
        byte = is_upper(byte) ? (char)(byte - 'A' + 'a') : byte;
        failed = buf_add(names, (struct span){.at = &byte, .len = 1});
    }
    return failed;
}

int secrets_split_fields(struct span fields, struct buf *rest, struct buf *names)
{
    struct span name, value;
    int failed = 0;

    while (failed == 0 && fields_next(&fields, &name, &value)) {
        failed = secrets_is_name(name) ? add_name(names, name) : fields_add(rest, name, value);
    }
    return failed;
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

/* Escaped bytes count as what they stand for: a URL within a URL has parameters, too. */
static char byte_at(struct span text, size_t at, size_t *ret_len)
{
    *ret_len = 1;
    if (text.at[at] == '%' && at + 2 < text.len && hex_value(text.at[at + 1]) >= 0 &&
        hex_value(text.at[at + 2]) >= 0) {
        *ret_len = 3;
        return (char)(hex_value(text.at[at + 1]) * 16 + hex_value(text.at[at + 2]));
    }
    return text.at[at];
}

/* %61pi_key is api_key, too. */
static struct span unescaped(struct span name, char ret_text[NAME_MAX_BYTES])
{
    size_t count = 0, len;

    for (size_t i = 0; i < name.len && count < NAME_MAX_BYTES; i += len) {
        ret_text[count++] = byte_at(name, i, &len);
    }
    return (struct span){.at = ret_text, .len = count};
}

static bool names_secret(struct span part, size_t from, size_t to)
{
    char text[NAME_MAX_BYTES];

    return secrets_is_name(unescaped(span_from(span_until(part, to), from), text));
}

/* Where the value of the first secret begins; part.len: there is none. Targets disagree about what parts
 * parameters: to one `a=1;token=x` is two of them, to another one whose value has a `;` in it. So
 * a name is looked for by either reading. */
static size_t find_secret(struct span part)
{
    bool has_equals = false; /* since the latest mark */
    bool has_plain = false;  /* one that is not escaped, in all of it */
    size_t name = 0, len;

    for (size_t i = 0; i < part.len; i += len) {
        char byte = byte_at(part, i, &len);
        if (byte == ';' || byte == '&' || byte == '?' || byte == '#') {
            name = i + len;
            has_equals = false;
        } else if (byte == '=') {
            bool is_first_plain = len == 1 && !has_plain;
            if ((!has_equals && names_secret(part, name, i)) ||
                (is_first_plain && names_secret(part, 0, i))) {
                return i + len;
            }
            has_equals = true;
            has_plain = has_plain || len == 1;
        }
    }
    return part.len;
}

/* A secret goes on to the end of its part: where it ends before that is what targets disagree about. */
static int add_part(struct buf *out, struct span part)
{
    size_t at = find_secret(part);
    int failed = buf_add(out, span_until(part, at));

    return failed == 0 && at < part.len ? buf_add(out, SPAN(SECRETS_HIDDEN)) : failed;
}

static int add_parts(struct buf *out, struct span text, char separator)
{
    struct span part;
    int failed = 0;
    bool has_more = true;

    while (failed == 0 && has_more) {
        has_more = span_cut(&text, separator, &part);
        failed = add_part(out, part);
        if (failed == 0 && has_more) {
            failed = buf_add(out, (struct span){.at = &separator, .len = 1});
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
    size_t query = find_any(url, "?#");
    failed = failed != 0 ? failed : add_parts(out, span_until(url, query), '/');
    failed = failed != 0 ? failed : add_parts(out, span_from(url, query), '&');
    if (failed != 0) {
        out->len = before;
    }
    return failed;
}
