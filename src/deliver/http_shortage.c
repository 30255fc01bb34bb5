/* SPDX-License-Identifier: MIT
 *
 * http_shortage -- what this machine has too little of: descriptors, ports, memory. A connection that
 * could not be made for want of them says nothing of the target. libcurl tells all of it as "could not
 * connect", so it is noted where it happens. Nor does a name that could not be looked up for want of a thread or
 * descriptors.
 */
#include "deliver/http_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Not EADDRNOTAVAIL: that is asked about. */
static bool is_ours(int number)
{
    return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

/* A socket is to be made; errno says why it was not. */
void http_shortage_note(struct transfer *transfer, int number)
{
    if (is_ours(number)) {
        transfer->shortage = number;
    }
}

/* Is there a way to that address at all? A datagram socket needs an address of ours for it, and a port
 * of another kind; nothing is sent. */
static bool has_way(const struct transfer *transfer)
{
    const struct sockaddr *address = (const struct sockaddr *)&transfer->address;
    int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && connect(fd, address, transfer->address_bytes) == 0;

    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    return has;
}

/* No port is left for the address. The same is said where this machine has no address of that family,
 * which waiting does not change. */
static bool has_no_port(struct transfer *transfer)
{
    long number = 0;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &number); /* 0: not known */
    return number == EADDRNOTAVAIL && transfer->address_bytes > 0 && has_way(transfer);
}

/* None, or none that is not kept back. */
static bool has_no_descriptor(const struct transfer *transfer)
{
    uint32_t files_max = transfer->http->options.files_max;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool has_none = fd >= 0 ? files_max > 0 && fd >= (int)files_max : is_ours(errno);

    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    return has_none;
}

/* libcurl says in words that it had no thread, or no descriptors for one; libc, when it had no descriptor to
 * ask with, only that it has found nothing. */
static int shortage_of_lookup(const struct transfer *transfer)
{
    if (has_no_descriptor(transfer)) {
        return EMFILE;
    }
    return strstr(transfer->reason, "thread failed to start") != NULL ? EAGAIN : 0;
}

/* Of one that was not sent: why it was not, if that is our own want; 0: it is not. */
int http_shortage_of(struct transfer *transfer, CURLcode code)
{
    if (transfer->shortage != 0) {
        return transfer->shortage;
    }
    if (transfer->ending == ENDING_UNWATCHED || code == CURLE_OUT_OF_MEMORY) {
        return ENOMEM;
    }
    if (code == CURLE_COULDNT_RESOLVE_HOST && transfer->ending == ENDING_NONE) {
        return shortage_of_lookup(transfer);
    }
    return code == CURLE_COULDNT_CONNECT && has_no_port(transfer) ? EADDRNOTAVAIL : 0;
}
