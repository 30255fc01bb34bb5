/* SPDX-License-Identifier: MIT
 *
 * siphash -- see siphash.h. Byte by byte on purpose: keys are short, and no alignment or byte order
 * of a machine enters.
 */
#include "base/siphash.h"

#define WORD_BYTES      8
#define COMPRESS_ROUNDS 2
#define FINAL_ROUNDS    4

static uint64_t rotate(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static void mix(uint64_t state[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        state[0] += state[1];
        state[1] = rotate(state[1], 13) ^ state[0];
        state[0] = rotate(state[0], 32);
        state[2] += state[3];
        state[3] = rotate(state[3], 16) ^ state[2];
        state[0] += state[3];
        state[3] = rotate(state[3], 21) ^ state[0];
        state[2] += state[1];
        state[1] = rotate(state[1], 17) ^ state[2];
        state[2] = rotate(state[2], 32);
    }
}

static void compress(struct siphash *hash, uint64_t word)
{
    hash->state[3] ^= word;
    mix(hash->state, COMPRESS_ROUNDS);
    hash->state[0] ^= word;
}

static uint64_t word_of(const unsigned char bytes[WORD_BYTES])
{
    uint64_t word = 0;

    for (int i = WORD_BYTES - 1; i >= 0; i--) {
        word = word << 8 | bytes[i];
    }
    return word;
}

void siphash_begin(struct siphash *hash, const unsigned char secret[SIPHASH_SECRET_BYTES])
{
    uint64_t low = word_of(secret), high = word_of(secret + WORD_BYTES);

    *hash = (struct siphash){
        .state = {low ^ UINT64_C(0x736f6d6570736575), high ^ UINT64_C(0x646f72616e646f6d),
                  low ^ UINT64_C(0x6c7967656e657261), high ^ UINT64_C(0x7465646279746573)}};
}

void siphash_add(struct siphash *hash, struct span bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        hash->pending |= (uint64_t)(unsigned char)bytes.at[i] << 8 * (hash->len % WORD_BYTES);
        hash->len++;
        if (hash->len % WORD_BYTES == 0) {
            compress(hash, hash->pending);
            hash->pending = 0;
        }
    }
}

uint64_t siphash_end(struct siphash *hash)
{
    compress(hash, hash->pending | hash->len << 56);
    hash->state[2] ^= 0xff;
    mix(hash->state, FINAL_ROUNDS);
    return hash->state[0] ^ hash->state[1] ^ hash->state[2] ^ hash->state[3];
}
