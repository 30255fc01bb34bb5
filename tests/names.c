/* SPDX-License-Identifier: MIT
 *
 * names -- see names.h.
 */
#include "names.h"

#include "harness.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *names_addresses[NAMES_ADDRESSES_MAX];

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    struct addrinfo **link = ret_found;

    (void)name;
    *ret_found = NULL;
    for (size_t i = 0; i < NAMES_ADDRESSES_MAX && names_addresses[i] != NULL; i++) {
        struct {
            struct addrinfo found;
            struct sockaddr_in ipv4;
            struct sockaddr_in6 ipv6;
        } *made = calloc(1, sizeof *made);
        assert_non_null(made);
        bool is_ipv6 = strchr(names_addresses[i], ':') != NULL;
        made->ipv4.sin_family = AF_INET;
        made->ipv6.sin6_family = AF_INET6;
        made->ipv4.sin_port = made->ipv6.sin6_port = htons((uint16_t)strtoul(service, NULL, 10));
        void *into = is_ipv6 ? (void *)&made->ipv6.sin6_addr : (void *)&made->ipv4.sin_addr;
        assert_int_equal(inet_pton(is_ipv6 ? AF_INET6 : AF_INET, names_addresses[i], into), 1);
        made->found = (struct addrinfo){
            .ai_family = is_ipv6 ? AF_INET6 : AF_INET,
            .ai_socktype = hints != NULL ? hints->ai_socktype : 0,
            .ai_addrlen = is_ipv6 ? sizeof made->ipv6 : sizeof made->ipv4,
            .ai_addr = is_ipv6 ? (struct sockaddr *)&made->ipv6 : (struct sockaddr *)&made->ipv4};
        *link = &made->found;
        link = &made->found.ai_next;
    }
    return *ret_found != NULL ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *found)
{
    while (found != NULL) {
        struct addrinfo *next = found->ai_next;
        free(found);
        found = next;
    }
}
