/* SPDX-License-Identifier: MIT
 *
 * tokens -- see tokens.h.
 */
#include "edge/tokens.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

#define DIGEST_BYTES 32
#define SCHEME       "Bearer"

struct token {
    unsigned char digest[DIGEST_BYTES];
    struct caller caller;
};

static int digest_of(struct span secret, unsigned char ret_digest[DIGEST_BYTES], struct error *err)
{
    if (EVP_Digest(secret.at, secret.len, ret_digest, NULL, EVP_sha256(), NULL) != 1) {
        return fail(err, FAULT_MEMORY, "a token could not be hashed");
    }
    return 0;
}

static size_t names_len(const struct edge_token *tokens, size_t count)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        len += tokens[i].name.len;
    }
    return len;
}

int tokens_init(struct token_set *set, const struct edge_token *tokens, size_t count,
                struct error *err)
{
    *set = (struct token_set){.count = count};
    if (count == 0) {
        return 0;
    }
    set->tokens = calloc(count, sizeof *set->tokens);
    set->names = calloc(1, names_len(tokens, count) + 1);
    if (set->tokens == NULL || set->names == NULL) {
        tokens_done(set);
        return fail(err, FAULT_MEMORY, "no memory for the tokens");
    }
    char *at = set->names;
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < count; i++) {
        struct token *token = &set->tokens[i];
        span_copy(at, tokens[i].name);
        token->caller = (struct caller){
            .roles = tokens[i].roles,
            .name = {.at = at, .len = tokens[i].name.len},
            .reach = {.queues = tokens[i].queues, .queue_count = tokens[i].queue_count},
            .number = (uint32_t)i};
        at += tokens[i].name.len;
        failed = digest_of(tokens[i].secret, token->digest, err);
    }
    if (failed != 0) {
        tokens_done(set);
    }
    return failed;
}

void tokens_done(struct token_set *set)
{
    free(set->tokens);
    free(set->names);
    *set = (struct token_set){0};
}

/* What stands behind "Bearer"; empty, which is nobody's token, without it. */
static struct span bearer(struct span authorization)
{
    size_t len = strlen(SCHEME);
    struct span nothing = {.at = "", .len = 0};

    if (authorization.at == NULL || authorization.len <= len || authorization.at[len] != ' ' ||
        !span_is_nocase(span_until(authorization, len), SCHEME)) {
        return nothing;
    }
    return span_trim(span_from(authorization, len));
}

int tokens_know(const struct token_set *set, struct span authorization, struct caller *ret_caller,
                struct error *err)
{
    const struct caller nobody = {.name = SPAN("")};
    struct caller caller = nobody;
    unsigned char digest[DIGEST_BYTES];

    if (set->count == 0) {
        *ret_caller = (struct caller){.roles = EDGE_ROLE_ADMIN, .name = SPAN(TOKENS_LOCAL)};
        return 0;
    }
    struct span secret = bearer(authorization);
    int failed = digest_of(secret, digest, err);
    if (failed != 0) {
        return failed;
    }
    for (size_t i = 0; i < set->count; i++) { /* all of them, also behind the right one */
        if (CRYPTO_memcmp(digest, set->tokens[i].digest, DIGEST_BYTES) == 0) {
            caller = set->tokens[i].caller;
        }
    }
    *ret_caller = secret.len > 0 ? caller : nobody;
    return 0;
}
