/* SPDX-License-Identifier: MIT
 *
 * names -- see names.h.
 */
#include "names.h"

#include "harness.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>

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
            struct sockaddr_in address;
        } *made = calloc(1, sizeof *made);
        assert_non_null(made);
        made->address.sin_family = AF_INET;
        made->address.sin_port = htons((uint16_t)strtoul(service, NULL, 10));
        assert_int_equal(inet_pton(AF_INET, names_addresses[i], &made->address.sin_addr), 1);
        made->found = (struct addrinfo){.ai_family = AF_INET,
                                        .ai_socktype = hints != NULL ? hints->ai_socktype : 0,
                                        .ai_addrlen = sizeof made->address,
                                        .ai_addr = (struct sockaddr *)&made->address};
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
