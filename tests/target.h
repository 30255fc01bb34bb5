/* SPDX-License-Identifier: MIT
 *
 * target -- a server on a free port of the loopback that does what its script says, byte by byte,
 * and remembers what it saw. Connection n follows script n, those past the last one the last.
 *
 *     static const struct target_step steps[] = {
 *         TARGET_READS, TARGET_WRITES("HTTP/1.1 204 No Content\r\n\r\n"), TARGET_REPEATS};
 *     const struct target_script scripts[] = {TARGET_SCRIPT(steps)};
 *     struct target *target = target_start(&(struct target_plan){.scripts = scripts, .count = 1});
 *
 * It runs in threads of its own, one for each connection. Failures to set it up end the test.
 */
#ifndef TARGET_H
#define TARGET_H

#include "base/span.h"

enum target_act {
    TARGET_READ,   /* one whole request; the script ends if the peer closes instead */
    TARGET_HEAR,   /* some bytes of one; likewise */
    TARGET_WRITE,  /* the bytes */
    TARGET_DRIP,   /* the bytes, one in each packet */
    TARGET_TELL,   /* calls plan->told, from the connection's thread */
    TARGET_HOLD,   /* does nothing until the peer closes, or target_stop */
    TARGET_RESET,  /* ends with a reset instead of an orderly close */
    TARGET_REPEAT, /* from the first step again */
};

/* A script that comes to its end closes the connection. */
struct target_step {
    enum target_act act;
    const char *bytes;
    size_t len;
};

#define TARGET_READS                                                                               \
    {                                                                                              \
        .act = TARGET_READ                                                                         \
    }
#define TARGET_HEARS                                                                               \
    {                                                                                              \
        .act = TARGET_HEAR                                                                         \
    }
#define TARGET_TELLS                                                                               \
    {                                                                                              \
        .act = TARGET_TELL                                                                         \
    }
#define TARGET_HOLDS                                                                               \
    {                                                                                              \
        .act = TARGET_HOLD                                                                         \
    }
#define TARGET_RESETS                                                                              \
    {                                                                                              \
        .act = TARGET_RESET                                                                        \
    }
#define TARGET_REPEATS                                                                             \
    {                                                                                              \
        .act = TARGET_REPEAT                                                                       \
    }
#define TARGET_WRITES(text)                                                                        \
    {                                                                                              \
        .act = TARGET_WRITE, .bytes = (text), .len = sizeof(text) - 1                              \
    }
#define TARGET_DRIPS(text)                                                                         \
    {                                                                                              \
        .act = TARGET_DRIP, .bytes = (text), .len = sizeof(text) - 1                               \
    }

struct target_script {
    const struct target_step *steps;
    size_t count;
};

#define TARGET_SCRIPT(array)                                                                       \
    {                                                                                              \
        .steps = (array), .count = sizeof(array) / sizeof *(array)                                 \
    }

struct target_plan {
    const struct target_script *scripts; /* must outlive the target, as the steps */
    size_t count;
    const char *tls_name; /* NULL: no TLS; else what its certificate is for: IP:127.0.0.1 */
    void (*told)(void *user);
    void *user;
};

struct target;

struct target *target_start(const struct target_plan *plan);
uint16_t target_port(const struct target *target);
const char *target_certificate(const struct target *target); /* a file in the current folder */

/* Takes no more connections and waits until those that there are have ended; call it when the other
 * side has closed. What it saw can be asked until target_free. */
void target_stop(struct target *target);
void target_free(struct target *target); /* stops first if need be */

/* Waits until that many connections are over. */
void target_wait_over(struct target *target, size_t count);

size_t target_connection_count(struct target *target);
size_t target_request_count(struct target *target);          /* whole ones */
struct span target_request(struct target *target, size_t n); /* from 0; all its bytes */
struct span target_request_body(struct target *target, size_t n);

/* A port on which nobody listens. */
uint16_t target_free_port(void);
/* A port on which connecting never ends: its queue is full. Until the process ends. */
uint16_t target_full_port(void);

#endif
