/* SPDX-License-Identifier: MIT
 *
 * retry_child -- see retry_child.h. What happens to one run:
 *
 *   start ---> attend ----------------------------------------------> its own status
 *                |  deadline: TERM to the group      exits ^
 *                '--> attend, CHILD_GRACE_MS longer -------'---> outlive ---> CHILD_TIMED_OUT
 *                       |  still there: KILL                       ^
 *                       '------------------------------------------'
 *
 * outlive gives what is left of the group after its first process the rest of the grace.
 *
 * The terminal: while a run is under way its group is the foreground, if we were; when it is over or
 * stopped, the terminal is ours again. TTOU is blocked, or taking it back would stop us.
 */
#include "cli/retry_child.h"

#include <daruma/env.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GROUP_LOOK_MS 10      /* a group's end is told to nobody: it has to be looked for */
#define LONG_WHILE_MS 3600000 /* one look at a time when there is no end to wait for */
#define NS_PER_MS     1000000

static const int passed_on[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT,
                                SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP};

#define PASSED_ON_COUNT (sizeof passed_on / sizeof *passed_on)

static bool is_terminating(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

static bool is_ignored(int signal)
{
    struct sigaction action;

    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void child_init(struct child *child)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t blocked;

    *child = (struct child){.group = 0};
    (void)sigemptyset(&child->watched); /* the set functions fail only for numbers out of range */
    for (size_t i = 0; i < PASSED_ON_COUNT; i++) {
        if (!is_ignored(passed_on[i])) {
            (void)sigaddset(&child->watched, passed_on[i]);
        }
    }
    (void)sigaddset(&child->watched, SIGCHLD);
    (void)sigaddset(&child->watched, SIGCONT); /* it works even where it is ignored */
    (void)sigaction(SIGCHLD, &usual, NULL);    /* an ignored CHLD would lose us the exit status */
    blocked = child->watched;
    (void)sigaddset(&blocked, SIGTTOU);
    (void)sigaddset(&blocked, SIGPIPE); /* a reader of stderr that has left is no reason to die */
    (void)sigprocmask(SIG_BLOCK, &blocked, &child->inherited);
}

/* The next watched signal, or 0 when until_ms has come (0: it never does). Looks at what is
 * pending even when until_ms is over already. */
static int signal_next(const struct child *child, int64_t until_ms)
{
    for (;;) {
        int64_t left_ms = until_ms == 0 ? LONG_WHILE_MS : until_ms - daruma_now_ms();
        if (left_ms < 0) {
            left_ms = 0;
        }
        struct timespec left = {.tv_sec = (time_t)(left_ms / 1000),
                                .tv_nsec = (long)(left_ms % 1000) * NS_PER_MS};
        int signal = sigtimedwait(&child->watched, NULL, &left);
        if (signal > 0) {
            return signal;
        }
        if (until_ms != 0 && daruma_now_ms() >= until_ms) {
            return 0;
        }
    }
}

/* Whatever of the group is gone already cannot be reached, and need not be. */
static void group_signal(const struct child *child, int signal)
{
    (void)kill(-child->group, signal);
}

static bool is_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* Failing is fine for both: then stdin is no terminal of ours any more. */
static void terminal_give(const struct child *child)
{
    if (is_foreground()) {
        (void)tcsetpgrp(STDIN_FILENO, child->group);
    }
}

static void terminal_take(const struct child *child)
{
    if (tcgetpgrp(STDIN_FILENO) == child->group) {
        (void)tcsetpgrp(STDIN_FILENO, getpgrp());
    }
}

/* Stops us (or, with 0, all of our group) the way Ctrl-Z would, so that the shell notices; returns
 * when we go on. In a group that no shell looks after the system does not stop anything. */
static void stop_here(pid_t whom)
{
    sigset_t stop;

    (void)sigemptyset(&stop); /* as in child_init */
    (void)sigaddset(&stop, SIGTSTP);
    (void)sigprocmask(SIG_UNBLOCK, &stop, NULL);
    (void)kill(whom, SIGTSTP); /* ourselves: always allowed */
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
}

static void child_resume(const struct child *child)
{
    terminal_give(child);
    group_signal(child, SIGCONT);
}

/* The command has stopped. On a terminal so do we, with our group, and the shell has its prompt
 * back. Elsewhere whoever stopped it will know when to go on. */
static void child_stopped(const struct child *child)
{
    if (isatty(STDIN_FILENO) == 0) {
        return;
    }
    terminal_take(child);
    stop_here(0);
    /* When a shell has continued us there is a CONT to come. When nothing could stop us there is
     * none: go on, but not in the background, where it would read and stop again, for ever. */
    if (is_foreground()) {
        child_resume(child);
    }
}

static void signal_pass_on(struct child *child, int signal)
{
    switch (signal) {
    case SIGCHLD:
        break;
    case SIGTSTP:
        group_signal(child, SIGTSTP);
        stop_here(getpid());
        child_resume(child);
        break;
    case SIGCONT:
        child_resume(child);
        break;
    default:
        group_signal(child, signal);
        if (is_terminating(signal)) {
            child->ended_by = signal;
        }
        break;
    }
}

/* In the new process: becomes the command, or reports why not through the pipe. */
static void become(const struct child *child, char **command, int report)
{
    bool foreground = is_foreground(); /* still as our parent */

    (void)setpgid(0, 0); /* cannot fail in a process this new */
    if (foreground) {
        (void)tcsetpgrp(STDIN_FILENO, getpid()); /* as in terminal_give */
    }
    (void)sigprocmask(SIG_SETMASK, &child->inherited, NULL);
    (void)execvp(command[0], command); /* returns only when it failed */
    int problem = errno;
    _exit(write(report, &problem, sizeof problem) < 0 ? CHILD_NOT_STARTED : 0);
}

static void pipe_close(const int *pipe_fds)
{
    (void)close(pipe_fds[0]); /* nothing was written that could be lost */
    (void)close(pipe_fds[1]);
}

/* The errno that the new process reported; 0: the pipe was closed by a successful exec. */
static int problem_read(int report)
{
    int problem = 0;
    ssize_t count;

    do {
        count = read(report, &problem, sizeof problem);
    } while (count < 0 && errno == EINTR);
    return count == (ssize_t)sizeof problem ? problem : 0;
}

/* Starts the command. 0, or an errno; ret_again says whether it is the system that is short of
 * something rather than the command that cannot be run. When it returns, the group and the
 * terminal are as they should be: the new process has arranged both before it became the command. */
static int child_start(struct child *child, char **command, bool *ret_again)
{
    int report[2];

    *ret_again = true;
    if (pipe(report) != 0) {
        return errno;
    }
    (void)fcntl(report[0], F_SETFD, FD_CLOEXEC); /* cannot fail for a descriptor just opened */
    (void)fcntl(report[1], F_SETFD, FD_CLOEXEC);
    child->group = fork();
    if (child->group < 0) {
        int problem = errno;
        pipe_close(report);
        return problem;
    }
    if (child->group == 0) {
        become(child, command, report[1]);
    }
    (void)close(report[1]); /* so that the end of the pipe is seen */
    int problem = problem_read(report[0]);
    (void)close(report[0]);
    if (problem != 0) {
        (void)waitpid(child->group, NULL, 0); /* it has nothing more to say */
        terminal_take(child);
        *ret_again = false;
    }
    return problem;
}

/* Has the run ended? With its wait status, if so. */
static bool child_reap(const struct child *child, int *ret_wait_status)
{
    int wait_status;
    pid_t reaped = waitpid(child->group, &wait_status, WNOHANG | WUNTRACED);

    assert(reaped >= 0); /* it is our child, and only we wait for it */
    if (reaped == 0) {
        return false;
    }
    if (WIFSTOPPED(wait_status)) {
        child_stopped(child);
        return false;
    }
    *ret_wait_status = wait_status;
    return true;
}

/* What is left of a group after its first process has until until_ms, signals included. */
static void group_outlive(struct child *child, int64_t until_ms)
{
    while (kill(-child->group, 0) == 0) {
        int64_t now_ms = daruma_now_ms();
        if (now_ms >= until_ms) {
            group_signal(child, SIGKILL);
            return;
        }
        int signal = signal_next(child, now_ms + GROUP_LOOK_MS);
        if (signal != 0) {
            signal_pass_on(child, signal);
        }
    }
}

/* Waits for the end of the run. True: it had to be ended, because deadline_ms had come. */
static bool child_attend(struct child *child, int64_t deadline_ms, int *ret_wait_status)
{
    bool is_late = false;
    int64_t until_ms = deadline_ms;

    while (!child_reap(child, ret_wait_status)) {
        int signal = signal_next(child, until_ms);
        if (signal != 0) {
            signal_pass_on(child, signal);
        } else if (!is_late) {
            is_late = true;
            until_ms = daruma_now_ms() + CHILD_GRACE_MS;
            group_signal(child, SIGTERM);
            group_signal(child, SIGCONT); /* a stopped process would not hear of it */
        } else {
            until_ms = 0;
            group_signal(child, SIGKILL);
        }
    }
    if (is_late && until_ms != 0) {
        group_outlive(child, until_ms);
    }
    return is_late;
}

static int start_status(int problem)
{
    bool is_missing =
        problem == ENOENT || problem == ENOTDIR || problem == ELOOP || problem == ENAMETOOLONG;

    return is_missing ? CHILD_NOT_FOUND : CHILD_NOT_STARTED;
}

struct child_end child_run(struct child *child, char **command, int64_t deadline_ms)
{
    bool again;
    int wait_status = 0;
    int problem = child_start(child, command, &again);

    if (problem != 0) {
        return (struct child_end){
            .status = start_status(problem), .start_error = problem, .is_final = !again};
    }
    bool is_late = child_attend(child, deadline_ms, &wait_status);
    terminal_take(child);
    bool is_ended = child->ended_by != 0;
    if (is_late) {
        return (struct child_end){.status = CHILD_TIMED_OUT, .is_final = is_ended};
    }
    if (WIFSIGNALED(wait_status)) {
        int signal = WTERMSIG(wait_status);
        /* INT and QUIT are typed by a person, who wants it to end. */
        return (struct child_end){.status = CHILD_SIGNALLED + signal,
                                  .is_final = is_ended || signal == SIGINT || signal == SIGQUIT};
    }
    return (struct child_end){.status = WEXITSTATUS(wait_status), .is_final = is_ended};
}

bool child_wait(struct child *child, uint64_t delay_ms)
{
    /* The clock is rounded down: one more, or the wait could be a little short. */
    int64_t until_ms = daruma_now_ms() + (int64_t)delay_ms + 1;

    for (;;) {
        int signal = signal_next(child, until_ms);
        if (signal == 0) {
            return true;
        }
        if (is_terminating(signal)) {
            child->ended_by = signal;
            return false;
        }
        if (signal == SIGTSTP) {
            stop_here(getpid());
        }
    }
}
