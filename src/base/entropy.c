/* SPDX-License-Identifier: MIT
 *
 * entropy -- see entropy.h.
 */
#include "base/entropy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define STOCK_BYTES 4096 /* a system call for each 512 ids */

void entropy_fill(void *ret_bytes, size_t len)
{
    unsigned char *at = ret_bytes;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno != EINTR) {
            abort();
        }
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
}

uint64_t entropy_bits(void)
{
    static _Thread_local unsigned char stock[STOCK_BYTES];
    static _Thread_local size_t left;
    uint64_t bits;

    if (left == 0) {
        entropy_fill(stock, sizeof stock);
        left = sizeof stock;
    }
    left -= sizeof bits;
    memcpy(&bits, stock + left, sizeof bits);
    memset(stock + left, 0, sizeof bits); /* what was handed out is not found in memory */
    return bits;
}
