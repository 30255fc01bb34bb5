/* SPDX-License-Identifier: MIT
 *
 * log_writer -- a sink for a logger whose reader may stop reading. A line goes into a bounded buffer
 * and a thread writes it out, so that no caller ever waits for a pipe, a terminal or a disk. The
 * descriptor may be shared with other processes, and stays as it is (no O_NONBLOCK).
 *
 * What does not fit is dropped and counted, and where that begins a line says so: log_lost count=N. The
 * count is of all that were lost until that line was written.
 * The last eighth of the buffer is kept for warnings and errors. What was logged before a stop, an
 * abort or a fault is still written, if that takes no longer than LOG_WRITER_FLUSH_MS.
 */
#ifndef BASE_LOG_WRITER_H
#define BASE_LOG_WRITER_H

#include "base/fault.h"

#include <daruma/log.h>

#include <stddef.h>
#include <stdint.h>

#define LOG_WRITER_BYTES     (1 << 20) /* of the buffer, where nothing else is said */
#define LOG_WRITER_BYTES_MIN (16 << 10)
#define LOG_WRITER_FLUSH_MS  1000

struct log_writer; /* opaque */

/* Begins the thread. The descriptor stays the caller's, and open until the process ends; level and form
 * are those of the logger that the lines come from. */
int log_writer_open(int fd, size_t buffer_bytes, const struct daruma_logger *logger,
                    struct log_writer **ret_writer, struct error *err)
    __attribute__((warn_unused_result));
/* NULL is fine. Writes what is left, for at most LOG_WRITER_FLUSH_MS; if the thread is stuck by then, it
 * is left to itself, and frees the memory should it ever end. No line may be given any more. */
void log_writer_close(struct log_writer *writer);

/* Right before the last line and the close: waits until all is written, so that the line finds room. This
 * and the close take LOG_WRITER_FLUSH_MS together at most, of which the line has a part for itself. */
void log_writer_flush(struct log_writer *writer);

/* The sink; `user` is the writer. Any thread, never waits for a reader. */
void log_writer_add(void *user, enum daruma_log_level level, const char *line, size_t length);
/* Lines that were dropped, or that the descriptor refused. Any thread. */
uint64_t log_writer_lost(const struct log_writer *writer);

/* From here on a process that aborts or makes a fault (SEGV, BUS, FPE, ILL) first waits until this
 * writer has written all that it was given, for at most LOG_WRITER_FLUSH_MS. One writer a process;
 * closing it ends this. */
void log_writer_guard(struct log_writer *writer);

#endif
