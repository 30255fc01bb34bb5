/* SPDX-License-Identifier: MIT
 *
 * authorities -- the file that `ca` names is read where it is named: at `daruma check`, at the start and
 * with the queue that a caller puts. Else every request to that target would fail for want of it, one
 * attempt after another. What is read is not kept: libcurl reads it again.
 *
 * In a server's loop as well, so only a regular file is opened: a pipe that nobody writes to would stop it.
 */
#include "config/checks_internal.h"

#include "base/auto.h"
#include "base/buf.h"
#include "task/authority.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1u << 20)
#define PIECE_BYTES    4096
#define PATH_SHOWN     60 /* the end of it says which file it is */

/* As it was written, so that errors show no environment. */
static void show_path(const struct node *node, char ret_text[PATH_SHOWN + 4])
{
    struct span path = node->source;
    size_t skipped = path.len > PATH_SHOWN ? path.len - PATH_SHOWN : 0;

    while (skipped < path.len && ((unsigned char)path.at[skipped] & 0xc0) == 0x80) {
        skipped++; /* not from within a character */
    }
    (void)snprintf(ret_text, PATH_SHOWN + 4, "%s%.*s", skipped > 0 ? "..." : "",
                   SPAN_ARGS(span_from(path, skipped))); /* fits */
    for (char *byte = ret_text; *byte != '\0'; byte++) {
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f) {
            *byte = '?';
        }
    }
}

static int refuse(const struct reading *reading, const struct node *node, const char *why)
{
    char path[PATH_SHOWN + 4];

    show_path(node, path);
    return complain(reading, node, "found %s (%s), expected a PEM file with certificates", path,
                    why);
}

static int read_pieces(const struct reading *reading, const struct node *node, int fd,
                       struct buf *into)
{
    char piece[PIECE_BYTES];
    ssize_t len;
    int failed = 0;

    while (failed == 0 && (len = read(fd, piece, sizeof piece)) != 0) {
        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0) {
            return refuse(reading, node, strerror(errno));
        }
        failed = buf_add(into, (struct span){.at = piece, .len = (size_t)len});
    }
    if (failed == FAULT_LIMIT) {
        return refuse(reading, node, "it is larger than 1 MiB");
    }
    return failed != 0 ? complain_memory(reading) : 0;
}

static int read_file(const struct reading *reading, const struct node *node, const char *path,
                     struct buf *into)
{
    struct stat found;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) {
        return refuse(reading, node, strerror(errno));
    }
    int failed = fstat(fd, &found) == 0 && S_ISREG(found.st_mode)
                     ? read_pieces(reading, node, fd, into)
                     : refuse(reading, node, "it is no regular file");
    (void)close(fd); /* nothing was written to it */
    return failed;
}

int ca_check(struct reading *reading, const struct node *object, struct span path)
{
    const struct node *node = node_child(object, "ca");
    AUTO(buf_done) struct buf text;
    bool is_pem = false;

    buf_init(&text, FILE_BYTES_MAX);
    if (node == NULL || span_equal(path, reading->ca)) {
        return 0;
    }
    int failed = read_file(reading, node, path.at, &text);
    if (failed == 0 && authority_is_pem(buf_span(&text), &is_pem) != 0) {
        failed = complain_memory(reading);
    }
    if (failed == 0 && !is_pem) {
        failed = refuse(reading, node, "it is none");
    }
    if (failed == 0) {
        reading->ca = path;
    }
    return failed;
}
