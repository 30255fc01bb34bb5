/* SPDX-License-Identifier: MIT
 *
 * result -- what a call came to: success with a value, or failure with an error that says what
 * happened and whether trying again can help. Plain values: nothing here allocates, nothing needs
 * to be freed, everything may be copied.
 *
 * An error only points at its texts. Literals are fine; a text built at run time must outlive the
 * call that is being retried (keep it in the memory behind `user`).
 */
#ifndef DARUMA_RESULT_H
#define DARUMA_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The codes the library itself gives; a call's own codes are whatever the call returns.
 * One table, so that no code is without its type and text: name, value, type, text. */
#define DARUMA_CODE_MAP(X)                                                                         \
    X(INVALID, -7801, "usage", "an argument or option is not valid")                               \
    X(CANCELLED, -7802, "cancelled", "cancelled by the caller")                                    \
    X(TIMED_OUT, -7803, "timeout", "the time allowed is over")                                     \
    X(BREAKER_OPEN, -7804, "breaker", "the circuit breaker is open")                               \
    X(SYSTEM, -7805, "system", "a system call failed")

enum daruma_code {
    DARUMA_OK = 0,
#define DARUMA_CODE_ENUM(name, value, type, text) DARUMA_##name = value,
    DARUMA_CODE_MAP(DARUMA_CODE_ENUM)
#undef DARUMA_CODE_ENUM
};

struct daruma_error {
    const char *type;       /* the kind of failure in a word: "system", "timeout", "http" … */
    const char *message;    /* for people */
    const void *source;     /* what the caller wants to keep with it; never looked at */
    int64_t retry_after_ms; /* the other side's hint: do not come back earlier; 0 is none */
    int code;               /* for programs; non-zero */
    bool recoverable;       /* trying again can help */
};

/* Zeroed: success without a value. Read it through the functions below. */
struct daruma_result {
    void *value; /* on success; owned by whoever made it */
    struct daruma_error error;
    bool failed;
};

struct daruma_result daruma_success(void *value);
struct daruma_result daruma_failure(struct daruma_error error);
bool daruma_is_failure(const struct daruma_result *result); /* NULL is a failure */
bool daruma_is_success(const struct daruma_result *result);

/* An error of type "system": code DARUMA_SYSTEM, not recoverable until the caller says so. */
struct daruma_error daruma_system_error(const char *message);

/* The error for one of the codes above, with its own text or, when not NULL, another. */
struct daruma_error daruma_error_of(enum daruma_code code, const char *message);

/* The text of a code above; "ok" for 0; "an error of the call" for any other. Never NULL. */
const char *daruma_code_text(int code);

#ifdef __cplusplus
}
#endif
#endif
