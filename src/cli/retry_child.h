/* SPDX-License-Identifier: MIT
 *
 * retry_child -- one run of a command after the other, each in a process group of its own, so that
 * a time-out or a signal reaches all that the run has started.
 *
 * There are no signal handlers: what concerns us is blocked from child_init on and taken with
 * sigtimedwait, in child_run while a run is under way and in child_wait between two. A signal
 * therefore arrives in exactly one of the two, however the moments fall.
 *
 * For a process with one thread; nothing is allocated.
 */
#ifndef RETRY_CHILD_H
#define RETRY_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_GRACE_MS 2000 /* between TERM and KILL */

/* Exit codes that are not the command's own, as the shells and timeout(1) have them. */
enum child_status {
    CHILD_TIMED_OUT = 124,
    CHILD_NOT_STARTED = 126,
    CHILD_NOT_FOUND = 127,
    CHILD_SIGNALLED = 128, /* plus the signal's number */
    CHILD_STATUS_MAX = 255,
};

struct child {
    sigset_t watched;   /* blocked, and taken when it suits us */
    sigset_t inherited; /* the mask we were given, and give to the command */
    pid_t group;        /* of the run under way: its first process is also its name */
    int ended_by;       /* INT, TERM, HUP or QUIT has arrived: there is to be no further run */
};

struct child_end {
    int status;      /* 0 to CHILD_STATUS_MAX */
    int start_error; /* an errno: there was no run because of it; 0: there was one */
    bool is_final;   /* running it again cannot help, or is not wanted */
};

/* Blocks the signals, for good. Those that we were told to ignore (nohup) stay ignored by us and
 * by the command. */
void child_init(struct child *child);

/* Runs the command to its end and passes signals on to it meanwhile. At deadline_ms (on the clock
 * of daruma_now_ms; 0: none) its group gets TERM, and KILL when CHILD_GRACE_MS have not been
 * enough; the status then is CHILD_TIMED_OUT, whatever the command made of it. */
struct child_end child_run(struct child *child, char **command, int64_t deadline_ms);

/* Waits between two runs. False: a terminating signal has ended the wait; see ended_by. */
bool child_wait(struct child *child, uint64_t delay_ms);

#endif
