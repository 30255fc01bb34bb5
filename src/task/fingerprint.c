/* SPDX-License-Identifier: MIT
 *
 * fingerprint -- see fingerprint.h.
 */
#include "task/fingerprint.h"
#include "task/fields.h"

#include <openssl/evp.h>

static bool add_part(EVP_MD_CTX *digest, struct span part)
{
    unsigned char length[8];

    for (int i = 0; i < 8; i++) {
        length[i] = (unsigned char)((uint64_t)part.len >> (56 - 8 * i));
    }
    return EVP_DigestUpdate(digest, length, sizeof length) == 1 &&
           EVP_DigestUpdate(digest, part.at, part.len) == 1;
}

int fingerprint_parts(const struct span *parts, size_t count,
                      unsigned char ret_digest[TASK_FINGERPRINT_BYTES], struct error *err)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    bool ok = digest != NULL && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; ok && i < count; i++) {
        ok = add_part(digest, parts[i]);
    }
    ok = ok && EVP_DigestFinal_ex(digest, ret_digest, NULL) == 1;
    EVP_MD_CTX_free(digest);
    return ok ? 0 : fail(err, FAULT_MEMORY, "the fingerprint could not be made");
}

int fingerprint_task(struct task *task, struct error *err)
{
    struct span content_type = {.at = "", .len = 0};

    (void)fields_find(task->headers, "content-type", &content_type); /* none is none */
    const struct span parts[] = {task->method, task->target, content_type, task->body};
    return fingerprint_parts(parts, sizeof parts / sizeof *parts, task->fingerprint, err);
}
