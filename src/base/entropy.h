/* SPDX-License-Identifier: MIT
 *
 * entropy -- bits from the system that cannot be guessed from others that were seen: for what keeps
 * another caller's answer apart from ours (the tails of ids) and for the secrets of hash tables whose
 * keys come from outside. A daruma_dice is for chance that may be computed, such as jitter.
 */
#ifndef BASE_ENTROPY_H
#define BASE_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* A kernel without entropy (there is none since Linux 3.17) ends the process: guessable ids would
 * hand answers to strangers. */
void entropy_fill(void *ret_bytes, size_t len);

/* 64 bits, from a store that the calling thread refills a page at a time. Not across a fork: the
 * child would repeat what the parent draws. */
uint64_t entropy_bits(void);

#endif
