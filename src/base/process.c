/* SPDX-License-Identifier: MIT
 *
 * process -- see process.h. A name is "HOST BOOT PID-NAMESPACE TIME-NAMESPACE PID START": all but the
 * last two say where, and have to be ours for the others to mean anything. The start keeps a number
 * that was given out again from standing for the one before.
 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PART_MAX     64
#define BOOT_PATH    "/proc/sys/kernel/random/boot_id"
#define SPACE_PATH   "/proc/self/ns/pid"
#define HOST_MISSING "a host name without spaces, at most 64 bytes long"
#define STAT_MAX     1024
#define PATH_MAX_LEN 64
#define PID_MAX      (1L << 22) /* the kernel gives out no more */
#define START_FIELD  20         /* of /proc/PID/stat, counted behind the name of the program */

/* The first word of a file. */
static bool read_word(const char *path, char ret_word[PART_MAX + 1])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, ret_word, PART_MAX);

    if (fd >= 0) {
        (void)close(fd); /* it was only read */
    }
    ret_word[len > 0 ? len : 0] = '\0';
    ret_word[strcspn(ret_word, " \n")] = '\0';
    return ret_word[0] != '\0';
}

static bool read_link(const char *path, char ret_word[PART_MAX + 1])
{
    ssize_t len = readlink(path, ret_word, PART_MAX);

    ret_word[len > 0 ? len : 0] = '\0';
    return ret_word[0] != '\0';
}

/* When the process began, in the kernel's own measure. */
static bool read_start(long pid, char ret_start[PART_MAX + 1])
{
    char path[PATH_MAX_LEN], text[STAT_MAX + 1];

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid); /* fits */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, STAT_MAX);
    if (fd >= 0) {
        (void)close(fd); /* it was only read */
    }
    text[len > 0 ? len : 0] = '\0';
    const char *at = strrchr(text, ')'); /* the program's name may hold anything */
    for (int i = 0; at != NULL && i < START_FIELD; i++) {
        at = strchr(at + 1, ' ');
    }
    size_t count = at == NULL ? 0 : strspn(at + 1, "0123456789");
    if (count == 0 || count > PART_MAX) {
        return false;
    }
    memcpy(ret_start, at + 1, count);
    ret_start[count] = '\0';
    return true;
}

/* Ends with a space; empty: not known, and what is returned is missing for it. */
static const char *read_place(char ret_place[PROCESS_NAME_MAX + 1])
{
    char host[PART_MAX + 1] = "", boot[PART_MAX + 1], space[PART_MAX + 1], clock[PART_MAX + 1];

    ret_place[0] = '\0';
    if (gethostname(host, PART_MAX) != 0 || strchr(host, ' ') != NULL) {
        return HOST_MISSING;
    }
    if (!read_word(BOOT_PATH, boot)) {
        return BOOT_PATH;
    }
    if (!read_link(SPACE_PATH, space)) {
        return SPACE_PATH;
    }
    bool has_clock = read_link("/proc/self/ns/time", clock); /* kernels before 5.6 have none */
    int len = snprintf(ret_place, PROCESS_NAME_MAX + 1, "%s %s %s %s ", host, boot, space,
                       has_clock ? clock : "-");
    if (len < 0 || len > PROCESS_NAME_MAX - PART_MAX) {
        ret_place[0] = '\0'; /* the rest would not fit */
        return HOST_MISSING;
    }
    return NULL;
}

const char *process_name(char ret_name[PROCESS_NAME_MAX + 1])
{
    char place[PROCESS_NAME_MAX + 1], start[PART_MAX + 1];
    const char *missing = read_place(place);
    int len = -1;

    if (missing == NULL && read_start((long)getpid(), start)) {
        len = snprintf(ret_name, PROCESS_NAME_MAX + 1, "%s%ld %s", place, (long)getpid(), start);
    }
    if (len >= 0 && len <= PROCESS_NAME_MAX) {
        return NULL;
    }
    ret_name[0] = '\0';
    return missing != NULL ? missing : "/proc/self/stat";
}

/* What stands before the start; 0: it is no number of a process. */
static long read_pid(const char **at)
{
    long pid = 0;

    while (**at >= '0' && **at <= '9' && pid <= PID_MAX) {
        pid = pid * 10 + (*(*at)++ - '0');
    }
    return *(*at)++ == ' ' && pid <= PID_MAX ? pid : 0;
}

bool process_is_gone(const char *name)
{
    char place[PROCESS_NAME_MAX + 1], start[PART_MAX + 1];

    (void)read_place(place); /* what is missing is told when this one is named */
    size_t len = strlen(place);
    if (len == 0 || strncmp(name, place, len) != 0) {
        return false;
    }
    const char *at = name + len;
    long pid = read_pid(&at);
    if (pid == 0) {
        return false;
    }
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
        return true;
    }
    return read_start(pid, start) && strcmp(start, at) != 0; /* hidden from us: it may be there */
}
