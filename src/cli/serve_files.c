/* SPDX-License-Identifier: MIT
 *
 * serve_files -- see serve_files.h.
 */
#include "cli/serve_files.h"

#include <sys/resource.h>

#define FILES_BESIDES 1024 /* what goes out, the store, the loops */

void serve_files_raise(struct daruma_logger *log, uint64_t connections_max)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)connections_max + FILES_BESIDES;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return; /* cannot fail for this one; then it stays as it is */
    }
    if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
        rlim_t before = limit.rlim_cur;
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            limit.rlim_cur = before;
        }
    }
    if (limit.rlim_cur < wanted) {
        DARUMA_LOG(log, DARUMA_LOG_WARN, "files_few", daruma_log_uint("limit", limit.rlim_cur),
                   daruma_log_uint("wanted", wanted));
    }
}
