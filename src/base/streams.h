/* SPDX-License-Identifier: MIT
 *
 * streams -- descriptors 0, 1 and 2, made sure of before anything is opened. A program that is started
 * without them would be given their numbers for the next file or socket, and what it says to people
 * would go into a connection, a lock or a store.
 */
#ifndef BASE_STREAMS_H
#define BASE_STREAMS_H

#include <stdbool.h>

/* Takes the number of each standard stream that is closed. What stands in for it fails as a closed one
 * does: nothing can be read from 0, nothing written to 1 and 2, so that lost output is noticed and an
 * input that is not there is not taken for an empty one. Before any thread, first thing in a program.
 * False: it cannot be done, and nothing may be opened. */
bool streams_hold(void);

#endif
