/* SPDX-License-Identifier: MIT
 *
 * nonet -- a shared object for LD_PRELOAD that makes a program believe that its machine has no
 * network: no connection to anywhere but the machine itself can be begun.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

static bool is_outside(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
        return ntohl(four->sin_addr.s_addr) >> 24 != 127;
    }
    return address->sa_family == AF_INET6;
}

/* glibc has its own way to write the type of an address. */
int connect(int descriptor, __CONST_SOCKADDR_ARG given, socklen_t len)
{
    const struct sockaddr *address = given.__sockaddr__;
    int (*really)(int, const struct sockaddr *, socklen_t) =
        (int (*)(int, const struct sockaddr *, socklen_t))(uintptr_t)dlsym(RTLD_NEXT, "connect");

    if (really == NULL) {
        abort();
    }
    if (is_outside(address)) {
        errno = ENETUNREACH;
        return -1;
    }
    return really(descriptor, address, len);
}
