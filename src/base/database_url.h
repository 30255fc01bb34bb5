/* SPDX-License-Identifier: MIT
 *
 * database_url -- reads a PostgreSQL URL as libpq does, and knows which part of it may be shown. A
 * password that was put in as it is (not percent-encoded) moves the borders of its neighbours: a part
 * of it is then taken for a host, a port or a parameter, and would be printed as such. What could be
 * read so is refused, with a text that has nothing of the URL in it.
 */
#ifndef BASE_DATABASE_URL_H
#define BASE_DATABASE_URL_H

#include "base/span.h"

#include <stdbool.h>

#define DATABASE_URL_UNREADABLE                                                                    \
    "the URL of the database cannot be read: % @ / ? # in a password have to be percent-encoded"   \
    " (@ is %40)"

/* What stands behind the scheme: //[user[:password]@][host][:port][,...][/name][?parameters]. False:
 * it cannot be read for certain. *ret_shown: hosts, ports and name, within the text. */
bool database_url_read(struct span url, struct span *ret_shown);

#endif
