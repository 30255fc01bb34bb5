/* SPDX-License-Identifier: MIT
 *
 * url -- is this something that can be sent to? http or https, a host, and nothing that two readers
 * could read in two ways. Only the form is looked at: no name is resolved, and whether the host may be
 * sent to is not asked here.
 */
#ifndef TASK_URL_H
#define TASK_URL_H

#include "base/span.h"

#define URL_BYTES_MAX 4096

/* NULL: it is. Else what it has that it should not, or lacks ("no host", "a fragment"), for people.
 * Never a part of the URL itself: people put passwords into URLs. */
const char *url_refuse(struct span url);

/* Scheme, host and port, the scheme's own where none is written. False for what is no URL. */
bool url_is_same_origin(struct span one, struct span other);

/* Plain http to another machine: a party on the way can read and change what is sent. False for
 * https, for localhost and loopback addresses, and for what is no URL. */
bool url_is_exposed(struct span url);

bool url_is_host_name(struct span host); /* no address, and nothing that looks like one */
/* AF_INET: 4 bytes, AF_INET6: 16, in network order. */
bool url_parse_address(int family, struct span text, unsigned char ret_address[16]);
bool url_is_address(struct span text, bool *ret_ipv6);

/* HOST:PORT, [IPV6]:PORT or HOST alone; ret_port has no colon. */
bool url_split_port(struct span text, struct span *ret_host, bool *ret_bracketed,
                    struct span *ret_port);
bool url_parse_port(struct span text, int64_t least, uint16_t *ret_port);

#endif
