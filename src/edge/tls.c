/* SPDX-License-Identifier: MIT
 *
 * tls -- see tls.h.
 */
#include "edge/tls.h"

#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES 4096
#define FIELD_MAX   64

/* One of the two files, and what it is called in the configuration. */
struct part {
    char field[FIELD_MAX];
    struct span path;
};

static struct part name_part(const struct listener_options *options, const char *member,
                             struct span path)
{
    struct part part = {.path = path};

    (void)snprintf(part.field, sizeof part.field, "%s.tls.%s", options->key, member); /* fits */
    return part;
}

static int refuse(const struct part *part, const char *what, struct error *err)
{
    return fail_field(err, FAULT_INPUT, part->field, "%s: %.*s %s", part->field,
                      SPAN_ARGS(part->path), what);
}

static int read_pieces(const struct part *part, int fd, struct buf *into, struct error *err)
{
    char piece[PIECE_BYTES];
    ssize_t len;
    int failed = 0;

    while (failed == 0 && (len = read(fd, piece, sizeof piece)) != 0) {
        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0) {
            return refuse(part, strerror(errno), err);
        }
        failed = buf_add(into, (struct span){.at = piece, .len = (size_t)len});
    }
    OPENSSL_cleanse(piece, sizeof piece);
    failed = failed != 0 ? failed : buf_add(into, (struct span){.at = "", .len = 1});
    if (failed == FAULT_LIMIT) {
        return refuse(part, "is too large for a PEM file", err);
    }
    return failed != 0 ? fail(err, FAULT_MEMORY, "no memory for a PEM file") : 0;
}

/* A pipe that nobody writes to would keep a server from starting without a word. */
static int read_file(const struct part *part, struct buf *into, struct error *err)
{
    int fd = open(part->path.at, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat found;

    buf_init(into, TLS_FILE_BYTES_MAX);
    if (fd < 0) {
        char why[128];
        (void)snprintf(why, sizeof why, "cannot be read: %s", strerror(errno)); /* cut at worst */
        return refuse(part, why, err);
    }
    int failed = fstat(fd, &found) == 0 && S_ISREG(found.st_mode)
                     ? read_pieces(part, fd, into, err)
                     : refuse(part, "cannot be read: it is not a regular file", err);
    (void)close(fd); /* nothing was written to it */
    return failed;
}

/* Instead of asking a terminal for the password. */
static int no_password(char *into, int room, int is_writing, void *user)
{
    (void)into, (void)room, (void)is_writing, (void)user;
    return -1;
}

static bool is_encrypted(const struct buf *pem)
{
    return strstr(pem->at, "ENCRYPTED") != NULL;
}

static int check_pair(const struct tls *tls, const struct part *cert_part,
                      const struct part *key_part, struct error *err)
{
    BIO *cert_text = BIO_new_mem_buf(tls->cert.at, (int)tls->cert.len - 1);
    BIO *key_text = BIO_new_mem_buf(tls->key.at, (int)tls->key.len - 1);
    X509 *cert = cert_text != NULL ? PEM_read_bio_X509(cert_text, NULL, NULL, NULL) : NULL;
    EVP_PKEY *key =
        key_text != NULL ? PEM_read_bio_PrivateKey(key_text, NULL, no_password, NULL) : NULL;
    int failed = 0;

    if (cert_text == NULL || key_text == NULL) {
        failed = fail(err, FAULT_MEMORY, "no memory for a certificate");
    } else if (cert == NULL) {
        failed = refuse(cert_part, "is not a certificate in PEM", err);
    } else if (key == NULL && is_encrypted(&tls->key)) {
        failed = refuse(key_part, "is encrypted: a key without a password is needed", err);
    } else if (key == NULL) {
        failed = refuse(key_part, "is not a private key in PEM", err);
    } else if (X509_check_private_key(cert, key) != 1) {
        failed = refuse(key_part, "is not the key of the certificate", err);
    }
    EVP_PKEY_free(key);
    X509_free(cert);
    BIO_free(key_text);
    BIO_free(cert_text);
    ERR_clear_error(); /* what was tried and refused is not the next one's error */
    return failed;
}

int tls_load(struct tls *tls, const struct listener_options *options, struct error *err)
{
    const struct part cert = name_part(options, "cert", options->cert);
    const struct part key = name_part(options, "key", options->key_file);
    int failed = read_file(&cert, &tls->cert, err);

    failed = failed != 0 ? failed : read_file(&key, &tls->key, err);
    return failed != 0 ? failed : check_pair(tls, &cert, &key, err);
}

void tls_done(struct tls *tls)
{
    if (tls->key.at != NULL) {
        OPENSSL_cleanse(tls->key.at, tls->key.room);
    }
    buf_done(&tls->cert);
    buf_done(&tls->key);
}
