/* SPDX-License-Identifier: MIT
 *
 * fingerprint -- see fingerprint.h.
 */
#include "task/fingerprint.h"
#include "task/fields.h"

/* The plain functions: looking the digest up and allocating for it cost more than the digest of a
 * short request, and could fail. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

static void add_part(SHA256_CTX *digest, struct span part)
{
    unsigned char length[8];

    for (int i = 0; i < 8; i++) {
        length[i] = (unsigned char)((uint64_t)part.len >> (56 - 8 * i));
    }
    (void)SHA256_Update(digest, length, sizeof length); /* fails for none of what is given here */
    (void)SHA256_Update(digest, part.at, part.len);
}

int fingerprint_parts(const struct span *parts, size_t count,
                      unsigned char ret_digest[TASK_FINGERPRINT_BYTES], struct error *err)
{
    SHA256_CTX digest;

    if (SHA256_Init(&digest) != 1) {
        return fail(err, FAULT_SYSTEM, "the fingerprint could not be made");
    }
    for (size_t i = 0; i < count; i++) {
        add_part(&digest, parts[i]);
    }
    (void)SHA256_Final(ret_digest, &digest); /* likewise */
    return 0;
}

int fingerprint_task(struct task *task, struct error *err)
{
    struct span content_type = {.at = "", .len = 0};

    (void)fields_find(task->headers, "content-type", &content_type); /* none is none */
    const struct span parts[] = {task->method, task->target, content_type, task->body};
    return fingerprint_parts(parts, sizeof parts / sizeof *parts, task->fingerprint, err);
}
