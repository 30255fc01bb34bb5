/* SPDX-License-Identifier: MIT
 *
 * authority -- see authority.h. By the same function as libcurl's TLS library reads the file with.
 */
#include "task/authority.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

/* Instead of asking a terminal for the password of a key that is in the file, too. */
static int no_password(char *into, int room, int is_writing, void *user)
{
    (void)into, (void)room, (void)is_writing, (void)user;
    return -1;
}

static bool has_certificate(STACK_OF(X509_INFO) * found)
{
    for (int i = 0; i < sk_X509_INFO_num(found); i++) { /* -1 of them where there is NULL */
        if (sk_X509_INFO_value(found, i)->x509 != NULL) {
            return true;
        }
    }
    return false;
}

int authority_is_pem(struct span text, bool *ret_is_pem)
{
    BIO *bytes = text.len < INT_MAX ? BIO_new_mem_buf(text.at, (int)text.len) : NULL;

    if (bytes == NULL) {
        return FAULT_MEMORY;
    }
    STACK_OF(X509_INFO) *found = PEM_X509_INFO_read_bio(bytes, NULL, no_password, NULL);
    bool is_out_of_memory = ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE;
    *ret_is_pem = has_certificate(found);
    sk_X509_INFO_pop_free(found, X509_INFO_free);
    BIO_free(bytes);
    ERR_clear_error(); /* what was tried and refused is not the next one's error */
    return is_out_of_memory && !*ret_is_pem ? FAULT_MEMORY : 0;
}
