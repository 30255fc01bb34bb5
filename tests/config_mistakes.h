/* SPDX-License-Identifier: MIT
 *
 * config_mistakes -- configurations that are wrong, each with the exact words that a person gets to read.
 */
#ifndef CONFIG_MISTAKES_H
#define CONFIG_MISTAKES_H

#include <stddef.h>

#define CONFIG_SECRET "hunter2-is-my-token" /* no error repeats it (I10) */

struct mistake {
    const char *text;
    const char *error;
};

/* Asserts that each is refused with these words, and prints those that are not. */
void config_refuses(const struct mistake *mistakes, size_t count);

#define REFUSES(mistakes) config_refuses((mistakes), sizeof(mistakes) / sizeof *(mistakes))

#endif
