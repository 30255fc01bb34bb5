/* SPDX-License-Identifier: MIT
 *
 * nonames -- a shared object for LD_PRELOAD with a resolver for some names of its own: those below hang are never
 * answered, all names below test are this machine's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int resolve_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static bool ends(const char *name, const char *with)
{
    size_t len = strlen(name), end = strlen(with);

    return len >= end && strcmp(name + len - end, with) == 0;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    resolve_fn *really = (resolve_fn *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");

    if (really == NULL) {
        abort();
    }
    while (name != NULL && ends(name, ".hang")) {
        (void)pause();
    }
    return really(name != NULL && ends(name, ".test") ? "127.0.0.1" : name, service, hints,
                  ret_found);
}
