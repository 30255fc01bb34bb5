/* SPDX-License-Identifier: MIT
 *
 * sign -- see sign.h. The body is read once for each secret and never copied.
 */
#include "deliver/sign.h"

#include "base/auto.h"
#include "base/base64.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>

#include <openssl/evp.h>

#define DIGEST_BYTES  32
#define SECONDS_MAX   24 /* letters of a timestamp */
#define SIGNATURE_MAX 64 /* letters of one signature */

bool sign_is_field(struct span name)
{
    return span_is_nocase(name, "webhook-id") || span_is_nocase(name, "webhook-timestamp") ||
           span_is_nocase(name, "webhook-signature");
}

static bool digest_parts(EVP_MD_CTX *context, EVP_PKEY *key, const struct span *parts, size_t count,
                         unsigned char ret_digest[DIGEST_BYTES])
{
    size_t len = DIGEST_BYTES;
    bool ok = EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1;

    for (size_t i = 0; ok && i < count; i++) {
        ok = EVP_DigestSignUpdate(context, parts[i].at, parts[i].len) == 1;
    }
    return ok && EVP_DigestSignFinal(context, ret_digest, &len) == 1 && len == DIGEST_BYTES;
}

/* The library's failures here are all for want of memory. */
static int add_signature(struct span secret, const struct span *parts, size_t count,
                         struct buf *signatures)
{
    unsigned char digest[DIGEST_BYTES];
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL,
                                                 (const unsigned char *)secret.at, secret.len);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int failed = key != NULL && context != NULL && digest_parts(context, key, parts, count, digest)
                     ? 0
                     : FAULT_MEMORY;

    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    failed = failed != 0 ? failed : buf_add(signatures, SPAN("v1,"));
    return failed != 0
               ? failed
               : base64_encode((struct span){.at = (const char *)digest, .len = sizeof digest},
                               signatures);
}

int sign_add_fields(const struct sign_input *input, struct buf *fields, struct error *err)
{
    AUTO(buf_done) struct buf signatures;
    char seconds[SECONDS_MAX];
    int failed = 0;

    buf_init(&signatures, QUEUE_SIGN_MAX * SIGNATURE_MAX);
    (void)snprintf(seconds, sizeof seconds, "%" PRId64, input->at_ms / 1000); /* fits */
    const struct span dot = SPAN(".");
    const struct span parts[] = {input->id, dot, span_of(seconds), dot, input->body};
    for (size_t i = 0; failed == 0 && i < input->key_count; i++) {
        failed = i > 0 ? buf_add(&signatures, SPAN(" ")) : 0;
        failed = failed != 0 ? failed
                             : add_signature(input->keys[i].key, parts,
                                             sizeof parts / sizeof *parts, &signatures);
    }
    failed = failed != 0 ? failed : fields_add(fields, SPAN("webhook-id"), input->id);
    failed = failed != 0 ? failed : fields_add(fields, SPAN("webhook-timestamp"), span_of(seconds));
    failed =
        failed != 0 ? failed : fields_add(fields, SPAN("webhook-signature"), buf_span(&signatures));
    return failed == 0 ? 0 : fail(err, (enum fault)failed, "the request could not be signed");
}
