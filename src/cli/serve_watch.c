/* SPDX-License-Identifier: MIT
 *
 * serve_watch -- see serve_watch.h.
 */
#include "cli/serve_watch.h"

static void note_failure(struct serve_watch *watch, struct daruma_logger *log, int64_t now_ms,
                         int failed, const struct error *err)
{
    watch->well_since_ms = 0;
    if (watch->failing_since_ms == 0) {
        watch->failing_since_ms = now_ms;
        DARUMA_LOG(log, DARUMA_LOG_ERROR, "store_failing",
                   daruma_log_text("code", fault_code(failed)),
                   daruma_log_text("error", err->text));
    }
}

void serve_watch_look(struct serve_watch *watch, struct daruma_logger *log, int64_t now_ms,
                      int failed, const struct error *err)
{
    if (failed != 0) {
        note_failure(watch, log, now_ms, failed, err);
        return;
    }
    if (watch->failing_since_ms == 0) {
        return;
    }
    if (watch->well_since_ms == 0) {
        watch->well_since_ms = now_ms;
    }
    if (now_ms - watch->well_since_ms >= SERVE_WATCH_WELL_MS) {
        DARUMA_LOG(log, DARUMA_LOG_INFO, "store_well",
                   daruma_log_int("after_ms", watch->well_since_ms - watch->failing_since_ms));
        *watch = (struct serve_watch){0};
    }
}

int64_t serve_watch_wait_ms(const struct serve_watch *watch, int64_t wait_ms)
{
    bool is_waiting = watch->well_since_ms != 0 && wait_ms > SERVE_WATCH_WELL_MS;

    return is_waiting ? SERVE_WATCH_WELL_MS : wait_ms;
}
