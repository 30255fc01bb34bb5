/* SPDX-License-Identifier: MIT
 *
 * serve_files -- see serve_files.h.
 */
#include "cli/serve_files.h"

#include <sys/resource.h>
#include <unistd.h>

#define FILES_BESIDES  256 /* the store, the loops, names that are looked up, idle connections */
#define FILES_LEAST    4   /* of all that may be open, this part at least is for what goes out, */
#define MEMORY_SHARE   4   /* and of the memory this part at most for requests and answers */
#define ATTEMPTS_LEAST 16

static uint64_t least(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t most(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* Requests and answers of their full size, all at once, in a part of what the machine has. */
static uint64_t memory_allows(const struct config_limits *limits)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);

    if (pages <= 0 || page_bytes <= 0) {
        return UINT64_MAX; /* not known */
    }
    return (uint64_t)pages * (uint64_t)page_bytes / MEMORY_SHARE /
           (limits->body_bytes_max + limits->response_bytes_max);
}

static uint64_t files_allow(const struct config_limits *limits, uint64_t files)
{
    uint64_t others = (uint64_t)limits->connections_max + FILES_BESIDES;

    return most(files > others ? files - others : 0, files / FILES_LEAST);
}

struct serve_files serve_files_raise(struct daruma_logger *log, const struct config_limits *limits)
{
    struct serve_files found = {.attempts_max = limits->attempts_max};
    struct rlimit limit;
    rlim_t wanted = (rlim_t)limits->connections_max + limits->attempts_max + FILES_BESIDES;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return found; /* cannot fail for this one; then it stays as it is */
    }
    if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
        rlim_t before = limit.rlim_cur;
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            limit.rlim_cur = before;
        }
    }
    if (!limits->is_attempts_given) {
        uint64_t allowed = least(memory_allows(limits), files_allow(limits, limit.rlim_cur));
        found.attempts_max = (uint32_t)least(limits->attempts_max, most(allowed, ATTEMPTS_LEAST));
    }
    found.outgoing_max = (uint32_t)least(
        limit.rlim_cur - least(limit.rlim_cur / FILES_LEAST, FILES_BESIDES), INT32_MAX);
    if (limit.rlim_cur < wanted) {
        DARUMA_LOG(log, DARUMA_LOG_WARN, "files_few", daruma_log_uint("limit", limit.rlim_cur),
                   daruma_log_uint("wanted", wanted),
                   daruma_log_uint("attempts", found.attempts_max));
    }
    return found;
}
