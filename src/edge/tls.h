/* SPDX-License-Identifier: MIT
 *
 * tls -- a certificate and its key, read and checked before anybody listens: libmicrohttpd would only
 * say that it does not start. Shared inside edge/ only.
 */
#ifndef EDGE_TLS_H
#define EDGE_TLS_H

#include "base/buf.h"
#include "edge/listener.h"

#define TLS_FILE_BYTES_MAX (1u << 20)
/* GnuTLS's own choice, without what is too old to be offered: what was recorded cannot be read with a key
 * that is stolen later (-RSA), and there is no padding to ask an oracle about (-CBC). */
#define TLS_PRIORITIES                                                                             \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-SHA1:-AES-128-CBC:-AES-256-CBC"

struct tls {
    struct buf cert, key; /* PEM, with a NUL behind it that counts */
};

/* FAULT_INPUT, naming the file: it cannot be read, is not what it should be, or the two do not belong
 * together. FAULT_MEMORY. */
int tls_load(struct tls *tls, const struct listener_options *options, struct error *err)
    __attribute__((warn_unused_result));
void tls_done(struct tls *tls);

#endif
