/* SPDX-License-Identifier: MIT
 *
 * loop -- the event loop: timers, wake-ups from other threads, signals, file descriptors, and hooks
 * around each turn. This folder is the only place that names libuv.
 *
 * Only the loop's own thread may call anything here but loop_wake. What is made on a loop may be
 * freed before the loop or after it, inside its own callback or outside: after loop_free it does
 * nothing any more and only waits to be freed.
 *
 *   one turn:  timers -> idle hooks -> hooks before the wait -> wait -> watches, wake-ups, signals
 */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include "base/auto.h"
#include "base/fault.h"

#include <stdint.h>

struct loop;
struct loop_timer;
struct loop_waker;
struct loop_signal;
struct loop_watch;
struct loop_hook;

typedef void (*loop_fn)(void *user);
typedef void (*loop_signal_fn)(void *user, int number);
typedef void (*loop_watch_fn)(void *user, unsigned events);

/* From then on the process ignores SIGPIPE, unless it has decided otherwise: writing to a closed
 * connection is an error like any other. FAULT_MEMORY, FAULT_SYSTEM. */
int loop_new(struct loop **ret_loop, struct error *err) __attribute__((warn_unused_result));
void loop_free(struct loop *loop); /* NULL is fine; not while it runs */

/* Runs until loop_stop, also when there is nothing to wait for. A stop that came before the run
 * ends it at once. May be run again. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* The monotonic clock (base/clock.h: the same zero) as it was when this turn began. */
int64_t loop_now_ms(struct loop *loop);

/* A timer rings once for each set, never early; the earliest first, equal ones in the order of
 * setting. One that is past rings in the next turn; set while timers ring, in this one. */
int loop_timer_new(struct loop *loop, loop_fn ring, void *user, struct loop_timer **ret_timer,
                   struct error *err) __attribute__((warn_unused_result));
void loop_timer_set(struct loop_timer *timer, int64_t at_ms); /* monotonic; replaces what was set */
void loop_timer_cancel(struct loop_timer *timer);
void loop_timer_free(struct loop_timer *timer);

/* After each loop_wake `woken` runs in the loop thread; several wakes may become one call. */
int loop_waker_new(struct loop *loop, loop_fn woken, void *user, struct loop_waker **ret_waker,
                   struct error *err) __attribute__((warn_unused_result));
void loop_wake(struct loop_waker *waker); /* from any thread, until the waker is freed */
void loop_waker_free(struct loop_waker *waker);

/* A signal, from now on: SIGTERM, SIGINT, SIGHUP. */
int loop_signal_new(struct loop *loop, int number, loop_signal_fn caught, void *user,
                    struct loop_signal **ret_signal, struct error *err)
    __attribute__((warn_unused_result));
void loop_signal_free(
    struct loop_signal *signal); /* the last one gives the signal its default back */

enum { LOOP_READABLE = 1, LOOP_WRITABLE = 2 };

/* One for each file descriptor, which becomes non-blocking. It begins with no wishes. Free it
 * before closing the descriptor: afterwards the number may already be somebody else's. */
int loop_watch_new(struct loop *loop, int fd, loop_watch_fn ready, void *user,
                   struct loop_watch **ret_watch, struct error *err)
    __attribute__((warn_unused_result));

/* LOOP_READABLE | LOOP_WRITABLE, or 0: `ready` is called, with those of the wishes that hold, in
 * each turn in which one holds. A broken connection is both. Dropping a wish costs nothing: the
 * descriptor stays armed until something comes that nobody wants, so that a connection which is
 * used again and again needs no system calls for it. FAULT_SYSTEM: it cannot be watched. */
int loop_watch_set(struct loop_watch *watch, unsigned wishes) __attribute__((warn_unused_result));
void loop_watch_free(struct loop_watch *watch);

/* While it is on, an idle hook runs in each turn and the loop does not wait; the other runs right
 * before each wait. Off at first; on and off may be called in any state. Among hooks of one kind
 * there is no order to rely on. */
enum loop_hook_kind { LOOP_HOOK_IDLE, LOOP_HOOK_BEFORE_WAIT };

int loop_hook_new(struct loop *loop, enum loop_hook_kind kind, loop_fn run, void *user,
                  struct loop_hook **ret_hook, struct error *err)
    __attribute__((warn_unused_result));
void loop_hook_on(struct loop_hook *hook);
void loop_hook_off(struct loop_hook *hook);
void loop_hook_free(struct loop_hook *hook);

AUTO_POINTER(struct loop, loop_free)

#endif
