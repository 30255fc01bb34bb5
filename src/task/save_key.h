/* SPDX-License-Identifier: MIT
 *
 * save_key -- the key of one save (A3): a name-based UUID (version 5), so that the same save sent
 * twice carries the same key without anybody having to remember one. The name is, a line each:
 *
 *   the URL, normalised | the client | the window's length in ms | the window's number
 *   and for a request: | its method | the SHA-256 of its body, in hex
 *
 * in the namespace uuid5(URL, "urn:daruma:save"); any language has a uuid5 to make the same key with.
 * The window's number is the time divided by its length, rounded down. Two moments closer than a
 * window can therefore still lie on two sides of a border: whoever knows when the save was made
 * gives that moment for every send of it, and has no border.
 */
#ifndef TASK_SAVE_KEY_H
#define TASK_SAVE_KEY_H

#include "base/buf.h"
#include "base/fault.h"

#define SAVE_KEY_TEXT_LEN  36
#define SAVE_KEY_NAMESPACE "e01b6ffb-1f60-5a68-979b-f8a5f9b582d2"
#define SAVE_WINDOW_MS     INT64_C(300000)
#define SAVE_WINDOW_MAX_MS INT64_C(31622400000) /* a leap year */
#define SAVE_CLIENT_MAX    255
#define SAVE_METHOD_MAX    32

struct save {
    struct span url;
    struct span client; /* 1 to SAVE_CLIENT_MAX bytes, no control characters */
    int64_t at_ms;      /* since 1970; may lie before it */
    int64_t window_ms;  /* 1 to SAVE_WINDOW_MAX_MS */
    struct span method; /* empty: the save of a page; else up to SAVE_METHOD_MAX bytes */
    struct span body;
};

/* FAULT_INPUT with err->field "URL" or "client"; FAULT_MEMORY. */
int save_key_make(const struct save *save, char ret_key[SAVE_KEY_TEXT_LEN + 1], struct error *err)
    __attribute__((warn_unused_result));

int64_t save_window_from_ms(const struct save *save); /* the first moment of its window */
bool save_client_is_valid(struct span client);

/* What two ways to write one address have in common: scheme and host in small letters, no port that
 * the scheme has anyway, no fragment, a path, and what is not ASCII escaped as UTF-8. Nothing else is
 * touched: a server may see a difference in all else. Adds to `ret_url`; as save_key_make. */
int save_url_normalise(struct span url, struct buf *ret_url, struct error *err)
    __attribute__((warn_unused_result));

#endif
