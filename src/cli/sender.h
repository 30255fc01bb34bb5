/* SPDX-License-Identifier: MIT
 *
 * sender -- sends one request once, on libcurl, and says what came of it as a client has to know it
 * (A5.1). Redirects are not followed and proxies of the environment not used, as everywhere in this
 * program: headers may hold secrets, and they go where the URL says and nowhere else. A request that
 * libcurl would quietly repeat on another connection is given up instead: one send is one request.
 *
 * Says nothing; waits for one answer at a time.
 */
#ifndef CLI_SENDER_H
#define CLI_SENDER_H

#include "base/auto.h"
#include "cli/spooled.h"

#define SENDER_TIMEOUT_MS      30000
#define SENDER_CONNECT_TIME_MS 10000
#define SENDER_ANSWER_MAX      (1u << 20) /* bytes of an answer that are kept */

/* Again: no whole answer came, or 408, 429, 5xx. Offline: nor could one, this machine has no
 * network. */
enum sender_end { SENDER_TAKEN = 0, SENDER_REFUSED, SENDER_AGAIN, SENDER_OFFLINE };

/* Zeroed before its first use; each send replaces what is in it. */
struct sender_answer {
    enum sender_end end;
    int status;             /* 0: no whole answer came */
    int64_t retry_after_ms; /* 0: nothing was asked for */
    char why[SPOOLED_ERROR_MAX];
    struct buf text; /* the answer's body, up to SENDER_ANSWER_MAX */
    bool is_cut;     /* it was longer */
};

struct sender; /* opaque */

/* `ca`: a PEM file of who vouches for servers, which lives as long as the sender; NULL: the system.
 * 0, or FAULT_MEMORY. */
int sender_open(const char *ca, struct sender **ret_sender, struct error *err)
    __attribute__((warn_unused_result));
void sender_close(struct sender *sender); /* NULL is fine */
void sender_answer_done(struct sender_answer *answer);

/* FAULT_MEMORY: nothing was sent. */
int sender_send(struct sender *sender, const struct spooled *request, struct sender_answer *answer,
                struct error *err) __attribute__((warn_unused_result));

/* What an answer with that status means: taken, refused or again (A5.1). */
enum sender_end sender_end_of_status(int status);

AUTO_POINTER(struct sender, sender_close)

#endif
