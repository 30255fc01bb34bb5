/* SPDX-License-Identifier: MIT
 *
 * deliver -- one attempt, outward: an interface, so that the engine's tests and simulation can put
 * their own world behind it. deliver/http.h is the real one.
 *
 * A delivery belongs to the deliverer from send until it comes back through `done`, exactly once,
 * never from inside send or cancel.
 */
#ifndef DELIVER_DELIVER_H
#define DELIVER_DELIVER_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fault.h"
#include "task/judge.h"
#include "task/queue.h"
#include "task/task.h"

#define DELIVERY_LEGS_MAX 16

/* One of several targets that were tried within one attempt. */
struct leg {
    struct span target; /* its name */
    int64_t started_at_ms, ended_at_ms;
    int error_class; /* enum daruma_class; -1: it succeeded */
    int status;      /* 0: none came */
    enum task_sent sent;
    uint32_t sends;
    char message[TASK_MESSAGE_MAX + 1];
};

struct fallback; /* task/fallback.h: several providers for one request */

/* The lease under which a node sends, as it is at this moment. It is renewed while deliveries are
 * under way, and after it was lost the node goes on in another epoch: what was leased in the one
 * before is another node's by then. The engine's own; asked by the loop thread only. */
struct send_right {
    uint64_t epoch;
    int64_t until_ms; /* monotonic: nothing goes out from here on */
};

struct delivery {
    /* What to send. Spans must live until it comes back. */
    struct span method;
    struct span url;
    struct span headers; /* task/fields.h: everything that is to go out, nothing is added but what
                            HTTP itself needs */
    struct span body;
    struct span ca;        /* path of a CA file; empty: the system's */
    int64_t timeout_ms;    /* from send to the last byte of the answer */
    size_t response_max;   /* bytes of the answer's body that are kept; of a longer one none are */
    int64_t send_until_ms; /* monotonic: the last moment at which the first byte may go out (the
                              deadline); 0: any. Checked at the last gate, after connecting */
    const struct send_right
        *right;           /* likewise: it goes out only while this holds, in that epoch; */
    uint64_t right_epoch; /* NULL: no other node could have the task */
    bool repeatable;      /* false: the request never goes out twice, come what may */
    const struct fallback *fallback; /* NULL: one target, by HTTP */
    struct span task_id_text;        /* the task's id */
    bool
        is_proxied; /* for a caller who waits for this very answer: a redirect is the answer, and one
                        that is too long to keep, or an event stream, is handed on as it comes */
    bool is_upstream; /* its host is a route's, by the configuration: outbound.deny_private is about
                         what others say */
    bool is_forced;   /* a person wants it now: nothing that holds others back holds it */
    uint32_t
        sender; /* the queue that it is of, by its number: what names that do not answer may take */
    const struct signing_key *sign; /* deliver/sign.h, with the task's id; delivery_sign fills it */
    size_t sign_count;              /* 0: not signed */

    /* What came of it. */
    struct outcome outcome;
    char message[TASK_MESSAGE_MAX +
                 1]; /* why it failed, for people; on success empty, or what was not kept */
    struct buf response_headers; /* task/fields.h */
    struct buf response_body;
    uint32_t sends; /* how often the request went out: 0, 1, more if repeatable */
    int64_t started_at_ms, ended_at_ms; /* wall clock */
    bool is_unframed;                   /* ended by closing: cannot be told from cut off */
    bool is_omitted;                    /* the body was longer than response_max: none is kept */
    bool is_header_cut;                 /* so was the header: some of its fields are missing */
    struct leg *legs; /* malloc'ed, freed by delivery_done; NULL: the attempt was one request */
    size_t leg_count;
    struct span settled_by; /* who answered, where that is not the target; lives as the delivery */
    bool is_uncounted;      /* no target was asked: it was no attempt */
    bool is_body_spent; /* of one that is handed on: its request has gone out whole, and goes out no
                           more. `body` may be freed from here on */
    bool is_short; /* likewise, because this machine had no descriptor, port or memory for it */
    bool
        is_unnamed; /* is_short, because too many names are looked up: others may be sent meanwhile, and
                        this one again after outcome.hint_ms */
    bool is_unvouched; /* is_short, because the file of `ca` cannot be read: likewise */

    uint64_t ticket; /* the sender's own; never looked at */
    void *carrier;   /* the deliverer's own: what it is carried by; NULL: it is with none */
};

struct deliver;

struct deliver_ops {
    /* Begins. 0: `done` will be called. A fault (out of memory): it will not, nothing was sent. */
    int (*send)(struct deliver *deliver, struct delivery *delivery, struct error *err);
    /* Stops one that is under way: it comes back as whatever is true of it (sent or not). */
    void (*cancel)(struct deliver *deliver, struct delivery *delivery);
    void (*close)(struct deliver *deliver); /* nothing is under way any more */
    /* Of one that is handed on: the next piece, when there is one. */
    void (*pull)(struct deliver *deliver, struct delivery *delivery);
};

/* First in every deliverer's own struct. */
struct deliver {
    const struct deliver_ops *ops;
};

typedef void (*deliver_done_fn)(void *user, struct delivery *delivery);
/* An answer that is handed on. First its head: at is NULL; outcome.status and response_headers are
 * there. Then, for each pull, a piece; its bytes are gone when this returns. At the end `done`, whose
 * outcome says whether it was whole. Called as `done` is. */
typedef void (*deliver_stream_fn)(void *user, struct delivery *delivery, struct span bytes);

int deliver_send(struct deliver *deliver, struct delivery *delivery, struct error *err)
    __attribute__((warn_unused_result));
void deliver_cancel(struct deliver *deliver, struct delivery *delivery);
void deliver_pull(struct deliver *deliver, struct delivery *delivery);
void deliver_close(struct deliver *deliver); /* NULL is fine */

/* It is to be signed with the target's keys, if there are any: copies in the arena, which overwrites
 * them when it is freed. FAULT_MEMORY. */
int delivery_sign(struct delivery *delivery, const struct target *target, struct arena *arena)
    __attribute__((warn_unused_result));

/* Whether the task is still this node's to send. */
bool delivery_has_right(const struct delivery *delivery, int64_t mono_ms);

/* Frees what came back with it. */
void delivery_done(struct delivery *delivery);

#endif
