/* SPDX-License-Identifier: MIT
 *
 * spooled -- one request that waits on this machine to be sent (A9), and the bytes it is kept as:
 *
 *   daruma-spool 1\n
 *   { "url": …, "key": …, "attempts": 0, … "body_bytes": 5, "body_sha256": … }\n
 *   the body, byte by byte, to the end of the file
 *
 * The JSON is for people as well: whoever has to may look at it, and mend an address in it. The body
 * is behind it because JSON cannot hold any bytes. Its length and its digest tell a whole file from a
 * torn one. Pure: no file is opened here.
 *
 *   add                     flush: no success
 *   -----> waiting ------------------------------> waiting, attempts 1, 2, 3
 *            |  ^                                     | the fourth, or a refusal for good
 *     flush: |  '----------- --retry-failed -----.    v
 *    success '-> gone                            '-- failed
 */
#ifndef CLI_SPOOLED_H
#define CLI_SPOOLED_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fault.h"

#define SPOOLED_BODY_BYTES_MAX (64u << 20)
#define SPOOLED_HEAD_BYTES_MAX (1u << 20)
#define SPOOLED_HEADERS_MAX    64
#define SPOOLED_ERROR_MAX      256
#define SPOOLED_ATTEMPTS_MAX   1000000
#define SPOOLED_TIMEOUT_MAX_MS INT64_C(86400000)

enum spooled_state { SPOOLED_WAITING = 0, SPOOLED_FAILED };

struct spooled {
    struct span url, method, key;
    struct span headers; /* as fields.h has them */
    struct span body;
    struct span last_error; /* empty: it was not tried yet */
    int64_t created_at_ms;
    int64_t tried_at_ms;   /* 0: never */
    int64_t not_before_ms; /* the server has asked for it; 0: it has not */
    int64_t timeout_ms;    /* of one try */
    int64_t attempts;      /* tries of flushes that did not succeed */
    enum spooled_state state;
};

const char *spooled_state_text(enum spooled_state state);

/* Fields of the connection and of the framing, and the key: not for anybody else to say. */
bool spooled_header_is_ours(struct span name);

/* Adds the whole file to `out`. FAULT_INPUT: something in it is not UTF-8; FAULT_MEMORY. */
int spooled_write(const struct spooled *request, struct buf *out, struct error *err)
    __attribute__((warn_unused_result));

/* What is in ret_request points into the arena and, the body, into `file`. FAULT_CORRUPT: it is torn,
 * or no file of ours, and err->text says how; FAULT_MEMORY. Any bytes may come. */
int spooled_parse(struct span file, struct arena *arena, struct spooled *ret_request,
                  struct error *err) __attribute__((warn_unused_result));

/* Scheme, host and port: requests to one place are kept in order. `url` is a valid one. */
int spooled_place(struct span url, struct buf *ret_place) __attribute__((warn_unused_result));

#endif
