/* SPDX-License-Identifier: MIT
 *
 * problem -- every refusal there is: its status, its stable code, its title. Rendered as RFC 9457
 * says (application/problem+json), with `code`, and `field` where one is at fault.
 */
#ifndef EDGE_PROBLEM_H
#define EDGE_PROBLEM_H

#include "base/fault.h"
#include "edge/writer.h"

/* Name, status, code, title. Codes are part of the contract. */
#define PROBLEM_MAP(X)                                                                             \
    X(INVALID, 400, "invalid_request", "The request is not valid")                                 \
    X(UNAUTHORIZED, 401, "unauthorized", "A token is needed")                                      \
    X(FORBIDDEN, 403, "forbidden", "The token does not allow this")                                \
    X(CROSS_SITE, 403, "cross_site", "A page of another site may not call this")                   \
    X(QUEUE_RESERVED, 403, "queue_reserved", "The queue is the server's own")                      \
    X(NOT_FOUND, 404, "not_found", "There is nothing here")                                        \
    X(TASK_UNKNOWN, 404, "task_unknown", "There is no such task")                                  \
    X(QUEUE_UNKNOWN, 404, "queue_unknown", "There is no such queue")                               \
    X(RUN_UNKNOWN, 404, "run_unknown", "There is no such run")                                     \
    X(LETTER_UNKNOWN, 404, "dead_letter_unknown", "There is no such dead letter")                  \
    X(REDRIVE_UNKNOWN, 404, "redrive_unknown", "There is no such redrive")                         \
    X(METHOD, 405, "method_not_allowed", "This cannot be done here")                               \
    X(KEY_CONFLICT, 409, "key_conflict", "The key belongs to another request")                     \
    X(NOT_ENDED, 409, "not_ended", "The request has not ended")                                    \
    X(NOT_WAITING, 409, "not_waiting", "The task is not waiting")                                  \
    X(NOT_DEAD, 409, "not_dead", "The task is not a dead letter that waits for a person")          \
    X(ANSWERED, 409, "answered", "A caller has this failure as the answer already")                \
    X(NOT_UNSETTLED, 409, "not_unsettled", "The task is not unsettled")                            \
    X(QUEUE_PUSHED, 409, "queue_pushed", "The queue has targets: nothing in it waits for workers") \
    X(QUEUE_IN_FILE, 409, "queue_in_file", "The configuration file defines this queue")            \
    X(QUEUE_MISSING, 409, "queue_missing", "No configuration defines this queue any more")         \
    X(QUEUE_HELD, 409, "queue_held", "The configuration lacks something that the queue needs")     \
    X(QUEUE_NOT_EMPTY, 409, "queue_not_empty", "The queue is not empty")                           \
    X(QUEUE_DELETED, 409, "queue_deleted", "The queue was deleted, so nothing can send the task")  \
    X(TASK_GONE, 410, "task_gone", "The task is not kept any more")                                \
    X(TOO_LARGE, 413, "too_large", "The request is too large")                                     \
    X(TARGET_TOO_LONG, 414, "target_too_long", "The request's target is too long")                 \
    X(EXPECTATION, 417, "expectation_failed", "This expectation cannot be met")                    \
    X(HOST_UNKNOWN, 421, "host_unknown", "This server is not known by that host name")             \
    X(HEADERS_TOO_LARGE, 431, "headers_too_large", "Request line and header fields are too long")  \
    X(INTERNAL, 500, "internal", "Something went wrong inside")                                    \
    X(CORRUPT, 500, "store_corrupt", "What is stored is damaged")                                  \
    X(OVERLOADED, 503, "overloaded", "There is no room at the moment")                             \
    X(STORE_UNAVAILABLE, 503, "store_unavailable", "The store does not answer")                    \
    X(STORE_UNKNOWN, 503, "store_unknown", "It may or may not have been recorded")                 \
    X(KEY_IN_PROGRESS, 503, "key_in_progress", "The key is being recorded by somebody else")       \
    X(DRAINING, 503, "draining", "The server is stopping")

enum problem {
    PROBLEM_NONE = 0,
#define PROBLEM_ENUM(name, status, code, title) PROBLEM_##name,
    PROBLEM_MAP(PROBLEM_ENUM)
#undef PROBLEM_ENUM
};

int problem_status(enum problem problem);

/* What a fault is to a caller. */
enum problem problem_of_fault(int fault);

/* What a caller may be told of an error (error_is_told): its text, or only what kind it is, since a text from
 * below may name files and hosts. */
struct span problem_detail(const struct error *err);

/* Seconds after which it is worth trying again; 0: not said. Never for store_unknown: what may have
 * been recorded is not sent again on our word. */
int problem_retry_after_s(enum problem problem);

/* The whole object. Without a detail it is the title; without a field there is none. */
void problem_write(struct writer *writer, enum problem problem, struct span detail,
                   struct span field);

#endif
