/* SPDX-License-Identifier: MIT
 *
 * base64 -- RFC 4648, section 4: the usual alphabet, padded, no line breaks. Bodies that are not
 * text travel so.
 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/arena.h"
#include "base/buf.h"

/* 0, or what buf_add said. */
int base64_encode(struct span bytes, struct buf *out) __attribute__((warn_unused_result));

/* False: not base64. ret_bytes->at is NULL when it is, but there was no memory for it. */
bool base64_decode(struct span text, struct arena *arena, struct span *ret_bytes);

#endif
