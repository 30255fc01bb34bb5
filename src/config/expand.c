/* SPDX-License-Identifier: MIT
 *
 * expand -- see expand_internal.h. What is put in is not looked at again: a variable cannot bring in
 * another, nor YAML.
 */
#include "config/expand_internal.h"
#include "config/config.h"

#include "base/auto.h"
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE_NAME_MAX 128

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_';
}

static bool is_variable_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!is_name_byte(name.at[i])) {
            return false;
        }
    }
    return name.len > 0 && name.len < VARIABLE_NAME_MAX &&
           !(name.at[0] >= '0' && name.at[0] <= '9');
}

static int read_variable(const struct reading *reading, const struct node *node, struct span name,
                         struct span *ret_value)
{
    char text[VARIABLE_NAME_MAX];

    if (!is_variable_name(name)) {
        return complain(reading, node,
                        "found a name that no environment variable has, expected letters, digits "
                        "and _");
    }
    (void)snprintf(text, sizeof text, "%.*s", SPAN_ARGS(name)); /* fits: is_variable_name */
    const char *value = getenv(text);
    if (value == NULL) {
        return complain(reading, node, "the environment variable %s is not set", text);
    }
    if (!span_is_utf8(span_of(value))) {
        return complain(reading, node, "the environment variable %s is not UTF-8", text);
    }
    *ret_value = span_of(value);
    return 0;
}

/* Takes one piece off the front: text up to a dollar sign, or what one stands for. */
static int next_piece(const struct reading *reading, const struct node *node, struct span *rest,
                      struct span *ret_piece)
{
    struct span name;

    if (span_starts(*rest, "${")) {
        *rest = span_from(*rest, 2);
        if (!span_cut(rest, '}', &name)) {
            return complain(reading, node, "found ${ without }, expected ${NAME} or $$");
        }
        return read_variable(reading, node, name, ret_piece);
    }
    if (rest->at[0] == '$') {
        *ret_piece = span_until(*rest, 1);
        *rest = span_from(*rest, span_starts(*rest, "$$") ? 2 : 1);
        return 0;
    }
    const char *dollar = span_find(*rest, '$');
    *ret_piece = span_until(*rest, dollar != NULL ? (size_t)(dollar - rest->at) : rest->len);
    *rest = span_from(*rest, ret_piece->len);
    return 0;
}

int expand_environment(struct reading *reading, struct node *node)
{
    AUTO(buf_done) struct buf expanded;
    struct span rest = node->source, piece;

    buf_init(&expanded, CONFIG_FILE_BYTES_MAX);
    if (span_find(rest, '$') == NULL) {
        return 0;
    }
    while (rest.len > 0) {
        int failed = next_piece(reading, node, &rest, &piece);
        if (failed != 0) {
            return failed;
        }
        failed = buf_add(&expanded, piece);
        if (failed != 0) {
            return failed == FAULT_MEMORY ? complain_memory(reading)
                                          : complain(reading, node, "too long");
        }
    }
    node->text = arena_copy(reading->nodes, buf_span(&expanded));
    return node->text.at != NULL ? 0 : complain_memory(reading);
}

/* A pipe that nobody writes to would stop a server, or keep it from starting without a word. NULL: errno
 * says why, EINVAL that it is something else than a file. */
static FILE *open_secret_file(const char *name)
{
    struct stat found;
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) {
        return NULL;
    }
    FILE *file = fstat(fd, &found) == 0 && S_ISREG(found.st_mode) ? fdopen(fd, "rb") : NULL;
    if (file == NULL) {
        (void)close(fd); /* only opened */
        errno = EINVAL;
    }
    return file;
}

static int read_secret_file(const struct reading *reading, const struct node *node,
                            struct span path, char ret_bytes[CONFIG_SECRET_BYTES_MAX + 3],
                            size_t *ret_len)
{
    struct span name = arena_copy(reading->nodes, path); /* ends in NUL */
    if (name.at == NULL) {
        return complain_memory(reading);
    }
    FILE *file = open_secret_file(name.at);
    if (file == NULL) {
        return complain(reading, node, "the file of the secret cannot be read: %s",
                        errno == EINVAL ? "it is not a regular file" : strerror(errno));
    }
    *ret_len = fread(ret_bytes, 1, CONFIG_SECRET_BYTES_MAX + 3, file);
    int error = ferror(file) ? errno : 0;
    (void)fclose(file); /* only read */
    return error == 0 ? 0
                      : complain(reading, node, "the file of the secret cannot be read: %s",
                                 strerror(error));
}

/* It travels in a header, so it is visible ASCII. */
static int keep_secret(const struct reading *reading, const struct node *node, struct span secret,
                       struct span *ret_secret)
{
    if (secret.len == 0) {
        return complain(reading, node, "the secret is empty");
    }
    if (secret.len > CONFIG_SECRET_BYTES_MAX) {
        return complain(reading, node, "the secret is longer than %d bytes",
                        CONFIG_SECRET_BYTES_MAX);
    }
    for (size_t i = 0; i < secret.len; i++) {
        if (secret.at[i] < 0x21 || secret.at[i] > 0x7e) {
            return complain(reading, node, "the secret has a blank or a byte that is not ASCII");
        }
    }
    arena_hold_secrets(reading->arena);
    struct span kept = arena_copy(reading->arena, secret);
    if (kept.at == NULL) {
        return complain_memory(reading);
    }
    *ret_secret = kept;
    return 0;
}

static struct span without_newline(struct span text)
{
    if (text.len > 0 && text.at[text.len - 1] == '\n') {
        text.len--;
    }
    if (text.len > 0 && text.at[text.len - 1] == '\r') {
        text.len--;
    }
    return text;
}

int expand_secret(struct reading *reading, const struct node *node, struct span *ret_secret)
{
    char bytes[CONFIG_SECRET_BYTES_MAX + 3]; /* a newline after it, and one byte too many */
    struct span secret = {.at = bytes};
    int failed;

    if (span_starts(node->text, "env:")) {
        failed = read_variable(reading, node, span_from(node->text, 4), &secret);
        return failed != 0 ? failed : keep_secret(reading, node, secret, ret_secret);
    }
    if (!span_starts(node->text, "file:")) {
        return complain(reading, node, "expected env:NAME or file:PATH, not the secret itself");
    }
    failed = read_secret_file(reading, node, span_from(node->text, 5), bytes, &secret.len);
    if (failed == 0) {
        failed = keep_secret(reading, node, without_newline(secret), ret_secret);
    }
    for (volatile char *byte = bytes; byte < bytes + sizeof bytes; byte++) {
        *byte = 0;
    }
    return failed;
}
