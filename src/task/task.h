/* SPDX-License-Identifier: MIT
 *
 * task -- a recorded request and its life. The request never changes once recorded; the life is the
 * small part that does; the answer is written once, at the end.
 *
 *          record               lease                  settle: success
 * request --------> WAITING ----------------> RUNNING -----------------> SUCCEEDED
 *                    ^ ^ ^                    | | | \  settle: final
 *                    | | '- settle: again ----' | |  '-----------------> FAILED | DEAD
 *                    | '--- recover ------------' '--------> UNSETTLED      |
 *                    |<------- settle: not done -------------'   |          |
 *                    '<------- redrive --------------------------+----------'
 *  WAITING -> CANCELLED (cancel)
 *  of the gateway, in a backup that is put back: WAITING -> UNSETTLED (revise: store/restored_tasks.h)
 *  of the gateway, past its keeping time: -> GONE (bury), all but its key forgotten, so that the key
 *  is known a while longer
 *
 * FAILED and DEAD are both "failed" outside: DEAD is the one that is still a dead letter. A dead
 * letter's own status is told from its state, see letter_status.
 */
#ifndef TASK_TASK_H
#define TASK_TASK_H

#include "base/span.h"
#include "task/id.h"

#include <daruma/policy.h>

#define TASK_FINGERPRINT_BYTES 32
#define TASK_KEY_MAX           255
#define TASK_QUEUE_NAME_MAX    100
#define TASK_LABELS_MAX        16
#define TASK_LABEL_BYTES_MAX   255
#define TASK_METHOD_BYTES_MAX  20
#define TASK_HEADERS_MAX       64 /* of a task that a caller makes, without what we add */
#define TASK_HEADERS_BYTES_MAX 16384
#define TASK_PART_BYTES_MAX                                                                        \
    65536 /* of each text of any task, by whatever door it came, but its bodies */
#define TASK_MESSAGE_MAX 255 /* bytes of an error's text that are kept */

/* Name, number in the stores (never changes), word outside. */
#define TASK_STATE_MAP(X)                                                                          \
    X(WAITING, 0, "waiting")                                                                       \
    X(RUNNING, 1, "running")                                                                       \
    X(SUCCEEDED, 2, "succeeded")                                                                   \
    X(UNSETTLED, 3, "unsettled")                                                                   \
    X(FAILED, 4, "failed")                                                                         \
    X(DEAD, 5, "failed")                                                                           \
    X(CANCELLED, 6, "cancelled")                                                                   \
    X(GONE, 7, "gone")

enum task_state {
#define TASK_STATE_ENUM(name, value, word) TASK_##name = value,
    TASK_STATE_MAP(TASK_STATE_ENUM)
#undef TASK_STATE_ENUM
        TASK_STATE_COUNT
};

/* How far an attempt got: what decides whether it may be repeated. */
enum task_sent { TASK_SENT_NO = 0, TASK_SENT_MAYBE, TASK_SENT_YES };

/* What a task was asked for; spans point into the arena of whoever read or made it. */
struct task {
    struct task_id id;
    uint32_t queue;    /* its number in the store */
    struct span scope; /* whose key it is, within the queue; empty for a queue's own tasks */
    struct span key;   /* empty: none */
    unsigned char fingerprint[TASK_FINGERPRINT_BYTES];
    struct span method;
    struct span target;  /* URL; empty: the queue's */
    struct span headers; /* task/headers.h */
    struct span labels;  /* likewise: name, value */
    struct span options; /* task/options.h; empty: none */
    struct span body;
};

/* Flags of a life. */
enum {
    LIFE_SENT = 1,     /* some attempt may have reached the target */
    LIFE_ANSWERED = 2, /* a caller has been given the end as the answer */
    LIFE_FORCED = 4,   /* due now by a person's word: pause, rate and outage do not hold it */
    LIFE_UNFRAMED = 8, /* the answer had neither length nor chunks */
    /* The target of this attempt must not see it twice: unsettled when in doubt. The only word on it,
     * written with the lease (I5). */
    LIFE_ONCE = 16,
    LIFE_PULL = 32,    /* no target: waits for a worker's lease */
    LIFE_LETTER = 64,  /* is or has been a dead letter */
    LIFE_LOW = 128,    /* sent again with many others: live traffic goes first */
    LIFE_EDITED = 256, /* there is an edit beside the request */
    LIFE_ROUTE = 512,  /* came through the gateway */
    /* The answer's body was too long, or streamed, or the store had no room for it (and maybe not for
     * its headers): it is not kept. */
    LIFE_OMITTED = 1024,
    LIFE_TRUNCATED = 2048, /* LIFE_OMITTED: and it was cut off on its way */
    /* It goes to the queue's targets and leaves it to them whether it may be repeated: each lease
     * writes LIFE_ONCE anew. */
    LIFE_TARGETS = 4096,
    LIFE_UNTOLD = 8192,    /* the answer's header is too long for callers: they are told that */
    LIFE_FLAGS_END = 16384 /* above all of them */
};

struct life {
    enum task_state state;
    int64_t due_at_ms;      /* wall clock; RUNNING and LIFE_PULL: when the lease is over */
    int64_t deadline_at_ms; /* 0: none */
    int64_t settled_at_ms;  /* 0: not yet */
    uint64_t fence;         /* raised by each lease: only its holder may settle (I2) */
    uint64_t epoch;         /* of the process that holds the lease */
    uint32_t attempts;      /* begun in this round; counted by the lease (I5) */
    uint32_t attempts_all;  /* in all rounds: the number of the latest attempt */
    uint32_t round;         /* raised by each redrive */
    uint32_t class_attempts[DARUMA_CLASS_COUNT];
    uint64_t previous_ms; /* what the backoff chose last */
    int64_t wait_ms; /* the wait that is under way; 0: none. RUNNING and LIFE_PULL: how long the
                           * lease is from its beginning, extensions included; 0: not known */
    uint32_t flags;
    uint32_t failed_class; /* of the latest failure: enum daruma_class + 1; 0: none */
    int64_t failed_at_ms;  /* LIFE_LETTER: when it last became a dead letter */
    int64_t
        resolved_at_ms;    /* LIFE_LETTER: when it was closed, by a person or by success; 0: open */
    int64_t keep_until_ms; /* how long the end is kept; 0: as its state says */
    uint32_t probe_count;  /* UNSETTLED: probes that found nothing */
    int64_t probe_due_ms;  /* UNSETTLED: the next probe; 0: none */
};

/* What a person has changed about a request, and what was said about it. Stands beside the request,
 * which stays as it was (I3: its key keeps the first fingerprint). Zeroed: nothing. */
enum { EDIT_TARGET = 1, EDIT_HEADERS = 2, EDIT_BODY = 4 };

struct edit {
    unsigned parts; /* which of the following stand for the request's own */
    uint32_t round; /* of the latest edit: the key that goes out is K~round */
    struct span target;
    struct span headers;
    struct span body;
    struct span note; /* of the resolve */
};

/* One attempt, for people. */
struct trail_row {
    uint32_t attempt;
    struct span target; /* URL or provider name */
    int64_t started_at_ms, ended_at_ms;
    int error_class; /* enum daruma_class; -1: it succeeded */
    int status;      /* HTTP; 0: none came */
    enum task_sent sent;
    uint32_t sends; /* requests on the wire; above 1 when libcurl repeated one (repeatable only) */
    struct span message;
    int64_t wait_ms; /* chosen afterwards; 0: none */
};

/* The end, as it is replayed. */
struct answer {
    int status;
    struct span headers; /* task/headers.h */
    struct span body;
    struct span settled_by; /* target or provider name */
};

/* What has become of a dead letter. */
enum letter_status {
    LETTER_NONE = 0, /* it never was one */
    LETTER_FAILED,   /* DEAD */
    LETTER_RETRYING, /* redriven: WAITING, RUNNING or UNSETTLED */
    LETTER_RESOLVED  /* redriven with success, or closed by a person */
};

enum letter_status letter_status(const struct life *life);
const char *letter_status_text(enum letter_status status);
/* The states that the status is told from, as bits; 0: no such status. */
unsigned letter_status_states(struct span word);
/* Would sending it again as it is have a chance (A7)? */
bool letter_is_retryable(const struct life *life);

const char *task_state_text(enum task_state state);
/* "failed" is both: ret_states is a set of bits, 1 << state. */
bool task_state_parse(struct span word, unsigned *ret_states);
bool task_is_settled(enum task_state state); /* succeeded, failed, dead, cancelled */
const char *task_sent_text(enum task_sent sent);

/* Letters, digits, - _ . up to TASK_QUEUE_NAME_MAX; a name beginning with _ is the server's own. */
bool task_queue_name_is_valid(struct span name);
/* 1 to TASK_KEY_MAX visible ASCII characters. */
bool task_key_is_valid(struct span key);

#endif
