/* SPDX-License-Identifier: MIT
 *
 * names -- a resolver for tests: linked in, it takes the place of libc's, for libcurl too. Every name
 * stands for the same addresses.
 */
#ifndef NAMES_H
#define NAMES_H

#define NAMES_ADDRESSES_MAX 3

extern const char *names_addresses[NAMES_ADDRESSES_MAX]; /* in this order; NULL: no more */

#endif
