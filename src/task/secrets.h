/* SPDX-License-Identifier: MIT
 *
 * secrets -- what is not shown of a request (I10): values of header fields and of parameters in URLs
 * whose name says that they are secret, and user names and passwords in URLs. By name, and on the
 * safe side: what only sounds secret is hidden too. A secret that is a part of a URL's path and has no
 * name cannot be told from any other path.
 */
#ifndef TASK_SECRETS_H
#define TASK_SECRETS_H

#include "base/buf.h"

/* What stands in place of a secret. Refused in what comes in (url_refuse, CONFIG_HIDDEN), so that
 * what was shown cannot be sent back by mistake. */
#define SECRETS_HIDDEN "(hidden)"

/* Authorization, X-Api-Key, access_token, … in any case of letters. */
bool secrets_is_name(struct span name);

/* Of fields (task/fields.h): what is not secret is added to `rest`, the names of the others to `names`,
 * in lower case, apart by ", ". 0, or what buf_add said. */
int secrets_split_fields(struct span fields, struct buf *rest, struct buf *names)
    __attribute__((warn_unused_result));

/* Adds the URL without them, all else byte for byte. Parameters are looked for in the query, the fragment
 * and the path (/x;token=…/y), apart by `&`, `;` and what is escaped of it. 0, or what buf_add said. */
int secrets_add_url(struct buf *out, struct span url) __attribute__((warn_unused_result));

#endif
