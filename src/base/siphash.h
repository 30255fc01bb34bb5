/* SPDX-License-Identifier: MIT
 *
 * siphash -- SipHash-2-4: a short hash that nobody can aim at without knowing the secret. For
 * tables whose keys come from outside. After Aumasson and Bernstein,
 * "SipHash: a fast short-input PRF".
 */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include "base/span.h"

#define SIPHASH_SECRET_BYTES 16

struct siphash {
    uint64_t state[4];
    uint64_t pending; /* the bytes that do not fill a word yet, lowest first */
    uint64_t len;     /* bytes so far */
};

void siphash_begin(struct siphash *hash, const unsigned char secret[SIPHASH_SECRET_BYTES]);
void siphash_add(struct siphash *hash, struct span bytes);
uint64_t siphash_end(struct siphash *hash);

#endif
