/* SPDX-License-Identifier: MIT
 *
 * tokens -- who may come in, and as what. Shared inside edge/ only. Of a token only its SHA-256 is
 * kept. Whatever a caller sends is hashed and held against every one of them, byte for byte to the
 * end, so that the time it takes says nothing about how close a guess came.
 */
#ifndef EDGE_TOKENS_H
#define EDGE_TOKENS_H

#include "edge/edge.h"

#define TOKENS_LOCAL "local" /* the name of everybody while there are no tokens */

struct token; /* opaque */

struct token_set {
    struct token *tokens;
    size_t count;
    char *names; /* of all of them */
};

/* Who it is. No role: none that we know. */
struct caller {
    unsigned roles;     /* EDGE_ROLE_… */
    struct span name;   /* lives as long as the set */
    struct reach reach; /* but for what his roles hide */
    uint32_t number;    /* of his token: from 0; likewise of nobody and of TOKENS_LOCAL */
};

/* The secrets are not needed afterwards. FAULT_MEMORY. */
int tokens_init(struct token_set *set, const struct edge_token *tokens, size_t count,
                struct error *err) __attribute__((warn_unused_result));
void tokens_done(struct token_set *set);

/* `authorization`: the header's value; at NULL: there was none. FAULT_MEMORY: it cannot be told. */
int tokens_know(const struct token_set *set, struct span authorization, struct caller *ret_caller,
                struct error *err) __attribute__((warn_unused_result));

#endif
