/* SPDX-License-Identifier: MIT
 *
 * serve_files -- see serve_files.h.
 */
#include "cli/serve_files.h"

#include "deliver/http.h"
#include "engine/engine.h"

#include <sys/resource.h>
#include <unistd.h>

#define FILES_BESIDES  256 /* the store, the loops, idle connections */
#define FILES_LEAST    4   /* of all that may be open, this part at least is for what goes out, */
#define MEMORY_SHARE   4   /* and of the memory this part at most for requests and answers */
#define ATTEMPTS_LEAST 16
#define LOOKUPS_SHARE  32 /* of descriptors there are so many to a look-up, */
#define LOOKUPS_LEAST  8  /* but for so many look-ups */

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

/* Each caller of the gateway may have one request that passes, with a connection to the upstream. */
static uint64_t passages(const struct config *config)
{
    bool has_gateway = config->route_count > 0 || config->pass.len > 0;

    return has_gateway ? least(ENGINE_PASSAGES_MAX, config->limits.connections_max) : 0;
}

static uint64_t lookups_allowed(uint64_t files)
{
    return least(most(files / LOOKUPS_SHARE, LOOKUPS_LEAST), HTTP_LOOKUPS_MAX);
}

/* All but attempts. */
static uint64_t files_of_others(const struct config *config, uint64_t files)
{
    return config->limits.connections_max + passages(config) + FILES_BESIDES +
           lookups_allowed(files) * HTTP_LOOKUP_FILES;
}

static uint64_t files_allow(const struct config *config, uint64_t files)
{
    uint64_t others = files_of_others(config, files);

    return most(files > others ? files - others : 0, files / FILES_LEAST);
}

/* What the file says, or less where there is less; *ret_by: why. */
static uint32_t attempts_allowed(const struct config *config, uint64_t files, int *ret_by)
{
    const struct config_limits *limits = &config->limits;
    uint64_t memory = memory_allows(limits), descriptors = files_allow(config, files);
    uint64_t allowed = most(least(memory, descriptors), ATTEMPTS_LEAST);

    *ret_by = limits->is_attempts_given         ? FILES_GIVEN
              : allowed >= limits->attempts_max ? FILES_DEFAULT
              : memory < descriptors            ? FILES_MEMORY
                                                : FILES_DESCRIPTORS;
    return limits->is_attempts_given ? limits->attempts_max
                                     : (uint32_t)least(limits->attempts_max, allowed);
}

static uint64_t files_wanted(const struct config *config)
{
    return files_of_others(config, UINT64_MAX) + config->limits.attempts_max;
}

struct serve_files_plan serve_files_plan(const struct config *config)
{
    struct serve_files_plan plan = {
        .wanted = files_wanted(config), .limit = UINT64_MAX, .passages = passages(config)};
    struct rlimit limit;
    int by;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) { /* cannot fail for this one */
        plan.limit = most(limit.rlim_cur, least(plan.wanted, limit.rlim_max));
    }
    for (size_t i = 0; i < config->queue_count; i++) {
        plan.concurrency += config->queues[i].concurrency;
    }
    plan.attempts_max = attempts_allowed(config, plan.limit, &by);
    plan.by = by;
    return plan;
}

bool serve_files_are_few(const struct serve_files_plan *plan, const struct config *config)
{
    uint64_t attempts = least(plan->concurrency, config->limits.attempts_max);

    return plan->limit < files_of_others(config, plan->limit) + attempts;
}

/* Kept back, from what goes out: for the api, the health checks and the store, and for look-ups. */
static uint64_t files_kept_back(uint64_t files)
{
    return least(files / FILES_LEAST, FILES_BESIDES) + lookups_allowed(files) * HTTP_LOOKUP_FILES;
}

struct serve_files serve_files_raise(struct daruma_logger *log, const struct config *config)
{
    struct serve_files found = {.attempts_max = config->limits.attempts_max,
                                .lookups_max = HTTP_LOOKUPS_MAX};
    struct rlimit limit;
    rlim_t wanted = (rlim_t)files_wanted(config);
    int by; /* `daruma check` says it */

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
    found.attempts_max = attempts_allowed(config, limit.rlim_cur, &by);
    found.lookups_max = (uint32_t)lookups_allowed(limit.rlim_cur);
    found.outgoing_max = (uint32_t)least(
        limit.rlim_cur - least(limit.rlim_cur, files_kept_back(limit.rlim_cur)), INT32_MAX);
    if (limit.rlim_cur < wanted) {
        found.guests_max = found.outgoing_max;
        DARUMA_LOG(log, DARUMA_LOG_WARN, "files_few", daruma_log_uint("limit", limit.rlim_cur),
                   daruma_log_uint("wanted", wanted),
                   daruma_log_uint("attempts", found.attempts_max));
    }
    return found;
}
