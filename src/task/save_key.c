/* SPDX-License-Identifier: MIT
 *
 * save_key -- see save_key.h.
 */
#include "task/save_key.h"

#include "base/auto.h"
#include "task/url.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

#define UUID_BYTES     16
#define NAME_BYTES_MAX (3 * URL_BYTES_MAX + SAVE_CLIENT_MAX + 256)
#define SHA256_BYTES   32

static const unsigned char name_space[UUID_BYTES] = {
    0xe0, 0x1b, 0x6f, 0xfb, 0x1f, 0x60, 0x5a, 0x68, 0x97, 0x9b, 0xf8, 0xa5, 0xf9, 0xb5, 0x82, 0xd2};

/* --- the URL ------------------------------------------------------------------------------------ */

/* Without the fragment; behind the host, what is not ASCII as %XX. */
static int add_escaped(struct span url, struct buf *out)
{
    size_t slashes = 0;
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < url.len && url.at[i] != '#'; i++) {
        unsigned char byte = (unsigned char)url.at[i];
        slashes += byte == '/' || byte == '?';
        failed = byte > 0x7f && slashes > 2 ? buf_addf(out, "%%%02X", byte)
                                            : buf_add(out, span_until(span_from(url, i), 1));
    }
    return failed;
}

static void make_small(char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        at[i] = (char)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] - 'A' + 'a' : at[i]);
    }
}

static bool is_default_port(struct span scheme, uint16_t port)
{
    return port == (span_is_nocase(scheme, "https") ? 443 : 80);
}

/* `url` is one that url_refuse has nothing against. */
static int add_normalised(struct span url, struct buf *out)
{
    struct span rest = url, scheme, host, port;
    uint16_t number = 0;
    bool is_bracketed;
    size_t end = 0, from = out->len;

    (void)span_cut(&rest, ':', &scheme); /* it is there */
    rest = span_from(rest, 2);
    while (end < rest.len && rest.at[end] != '/' && rest.at[end] != '?') {
        end++;
    }
    (void)url_split_port(span_until(rest, end), &host, &is_bracketed, &port); /* it can be */
    int failed = buf_addf(out, is_bracketed ? "%.*s://[%.*s]" : "%.*s://%.*s", SPAN_ARGS(scheme),
                          SPAN_ARGS(host));
    if (failed == 0) {
        make_small(out->at + from, out->len - from);
    }
    if (failed == 0 && url_parse_port(port, 1, &number) && !is_default_port(scheme, number)) {
        failed = buf_addf(out, ":%u", (unsigned)number);
    }
    rest = span_from(rest, end);
    if (failed == 0 && !span_starts(rest, "/")) {
        failed = buf_add(out, SPAN("/"));
    }
    return failed != 0 ? failed : buf_add(out, rest);
}

int save_url_normalise(struct span url, struct buf *ret_url, struct error *err)
{
    AUTO(buf_done) struct buf escaped;

    buf_init(&escaped, 3 * URL_BYTES_MAX);
    int failed = url.len > URL_BYTES_MAX ? FAULT_LIMIT : add_escaped(url, &escaped);
    const char *wrong = failed == FAULT_LIMIT ? "too many bytes"
                        : !span_is_utf8(url)  ? "bytes that are no text"
                        : failed == 0         ? url_refuse(buf_span(&escaped))
                                              : NULL;
    if (wrong != NULL) {
        return fail_field(err, FAULT_INPUT, "URL", "expected an http or https address, this has %s",
                          wrong);
    }
    failed = failed != 0 ? failed : add_normalised(buf_span(&escaped), ret_url);
    return failed == 0 ? 0 : fail(err, FAULT_MEMORY, "no memory for the URL");
}

/* --- the window --------------------------------------------------------------------------------- */

/* Rounded down, also before 1970. */
static int64_t window_number(const struct save *save)
{
    int64_t number = save->at_ms / save->window_ms;

    return number - (save->at_ms % save->window_ms < 0);
}

int64_t save_window_from_ms(const struct save *save)
{
    return window_number(save) * save->window_ms;
}

/* --- the key ------------------------------------------------------------------------------------ */

bool save_client_is_valid(struct span client)
{
    for (size_t i = 0; i < client.len; i++) {
        if ((unsigned char)client.at[i] < 0x20 || client.at[i] == 0x7f) {
            return false;
        }
    }
    return client.len > 0 && client.len <= SAVE_CLIENT_MAX;
}

static int add_request(const struct save *save, struct buf *name)
{
    unsigned char digest[SHA256_BYTES];
    int failed = buf_addf(name, "\n%.*s\n", SPAN_ARGS(save->method));

    if (EVP_Digest(save->body.len > 0 ? save->body.at : "", save->body.len, digest, NULL,
                   EVP_sha256(), NULL) != 1) {
        return FAULT_MEMORY;
    }
    for (size_t i = 0; failed == 0 && i < sizeof digest; i++) {
        failed = buf_addf(name, "%02x", digest[i]);
    }
    return failed;
}

static int add_name(const struct save *save, struct buf *name, struct error *err)
{
    int failed = save_url_normalise(save->url, name, err);

    if (failed != 0) {
        return failed;
    }
    failed = buf_addf(name, "\n%.*s\n%" PRId64 "\n%" PRId64, SPAN_ARGS(save->client),
                      save->window_ms, window_number(save));
    if (failed == 0 && save->method.len > 0) {
        failed = add_request(save, name);
    }
    return failed == 0 ? 0 : fail(err, FAULT_MEMORY, "no memory for the key");
}

/* RFC 9562, 5.5: the first 16 bytes of the digest, with version and variant written over them. */
static void write_uuid(unsigned char *digest, char ret_key[SAVE_KEY_TEXT_LEN + 1])
{
    char *at = ret_key;

    digest[6] = (unsigned char)((digest[6] & 0x0f) | 0x50);
    digest[8] = (unsigned char)((digest[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < UUID_BYTES; i++) {
        bool is_group = i == 4 || i == 6 || i == 8 || i == 10;
        at += snprintf(at, 4, is_group ? "-%02x" : "%02x", digest[i]);
    }
}

int save_key_make(const struct save *save, char ret_key[SAVE_KEY_TEXT_LEN + 1], struct error *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    AUTO(buf_done) struct buf name;

    buf_init(&name, NAME_BYTES_MAX);
    if (!save_client_is_valid(save->client)) {
        return fail_field(err, FAULT_INPUT, "client",
                          "a client has 1 to %d bytes and no control characters", SAVE_CLIENT_MAX);
    }
    int failed = buf_add(&name, (struct span){.at = (const char *)name_space, .len = UUID_BYTES});
    failed =
        failed != 0 ? fail(err, FAULT_MEMORY, "no memory for the key") : add_name(save, &name, err);
    if (failed != 0) {
        return failed;
    }
    if (EVP_Digest(name.at, name.len, digest, NULL, EVP_sha1(), NULL) != 1) {
        return fail(err, FAULT_MEMORY, "the key could not be made");
    }
    write_uuid(digest, ret_key);
    return 0;
}
