/* SPDX-License-Identifier: MIT
 *
 * newsroom -- the real providers deliverer between a test and a deliverer that answers by script, on
 * a clock that the test moves. Three providers: openai (two keys), claude, and third.
 */
#ifndef NEWSROOM_H
#define NEWSROOM_H

#include "deliver/providers.h"

#define ROOM_START_MS  INT64_C(1800000000000)
#define ROOM_CALLS_MAX 1024 /* under way at once */
#define ROOM_PROVIDERS 3
#define ROOM_KEY       "sk-room-secret-key-0001"
#define ROOM_KEY_2     "sk-room-secret-key-0002"
#define ROOM_ARTICLE   "{\"article\":{\"id\":\"a\",\"title\":\"t\",\"content\":\"c\"}}"
#define ROOM_OPENAI_OK                                                                             \
    "{\"choices\":[{\"message\":{\"content\":\"short\"}}],\"usage\":{\"prompt_tokens\":1}}"
#define ROOM_CLAUDE_OK "{\"content\":[{\"type\":\"text\",\"text\":\"short\"}]}"

enum { ROOM_OPENAI, ROOM_CLAUDE, ROOM_THIRD };

/* What a provider says to one call. */
struct room_answer {
    int status;       /* 0: no answer, sent maybe */
    const char *body; /* NULL: a success of its kind, or nothing */
    const char *headers;
    int64_t hint_ms;
    int64_t takes_ms;
    bool cannot_begin; /* the deliverer refuses it */
    bool is_timeout;   /* status 0: there was no time left */
    bool is_forbidden; /* status 0: its host may not be called */
};

struct room_call {
    struct delivery *delivery;
    struct room_answer answer;
    int64_t ends_at_ms;
    int provider;
};

struct newsroom {
    struct clock clock; /* first */
    struct deliver inner;
    int64_t now_ms; /* both clocks */
    struct daruma_dice dice;
    struct provider_settings settings[ROOM_PROVIDERS];
    struct fallback fallback;
    struct providers *providers;
    struct deliver *deliver;
    struct room_answer (*answer)(struct newsroom *room, int provider);
    struct room_answer script[ROOM_PROVIDERS]; /* when there is no function */
    struct room_call calls[ROOM_CALLS_MAX];
    size_t call_count;
    int64_t alarm_ms; /* INT64_MAX: none */
    deliver_done_fn done;
    void *done_user;
    /* What was seen. */
    size_t called[ROOM_PROVIDERS];
    char order[64]; /* o c t, as they were called */
    char last_key;  /* the last letter of the key that was used */
    char last_headers[1024];
    int64_t last_timeout_ms;
    size_t done_count, alert_count, pull_count;
    struct provider_alert alert;
};

/* order, wait_under and timeouts may be changed before the first send. */
void room_open(struct newsroom *room);
void room_close(struct newsroom *room);

struct delivery room_delivery(struct newsroom *room);
void room_send(struct newsroom *room, struct delivery *delivery);
/* When something happens next: a call ends, or the alarm rings. INT64_MAX: nothing does. */
int64_t room_next_ms(const struct newsroom *room);
/* Moves there, and lets it happen. False: nothing does any more. */
bool room_step(struct newsroom *room);
/* Sends one and lets things happen until it is done. */
struct delivery room_carry_out(struct newsroom *room);
/* What is due at now_ms. */
void room_happen(struct newsroom *room);
void room_pass(struct newsroom *room, int64_t ms); /* all that happens within that time */

bool room_has(struct span bytes, const char *text); /* somewhere in them */

#endif
