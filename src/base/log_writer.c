/* SPDX-License-Identifier: MIT
 *
 * log_writer -- see log_writer.h. A ring of bytes under one lock; the thread takes whole lines out of
 * it and writes them without the lock. `given` and `taken` count bytes since the start, so that the
 * place in the ring is the count modulo its size.
 *
 *   log_writer_add --> ring --> thread: write(2), which may wait for ever
 *        | no room                ^
 *        '--> lost, lost_at ------' a line in place of what is missing
 */
#include "base/log_writer.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHUNK_MAX (DARUMA_LOG_LINE_MAX + 1) /* one write: the longest line fits */
#define LOOK_MS   1                         /* between two looks whether all is written */
#define LAST_MS   100 /* of LOG_WRITER_FLUSH_MS: kept for the line that follows a flush */

struct log_writer {
    int fd;
    int64_t waited_ms;        /* by log_writer_flush; the stopping thread's */
    struct daruma_logger own; /* renders log_lost into the chunk */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *ring; /* under the lock, like all up to is_left */
    size_t room;
    uint64_t given, taken;
    uint64_t lost;    /* not told yet */
    uint64_t lost_at; /* `given` when the first of them was lost */
    bool is_stopping, has_ended;
    bool is_left; /* closed while the thread was stuck: it frees this, should it ever end */
    _Atomic uint64_t lost_all;
    _Atomic bool is_idle; /* the thread has written all that it was given */
};

struct chunk {
    char text[CHUNK_MAX];
    size_t length;
};

/* --- giving ---------------------------------------------------------------------------------------- */

/* Under the lock, and it fits. */
static void put(struct log_writer *writer, const char *bytes, size_t length)
{
    size_t at = (size_t)(writer->given % writer->room);
    size_t first = length < writer->room - at ? length : writer->room - at;

    memcpy(writer->ring + at, bytes, first);
    memcpy(writer->ring, bytes + first, length - first);
    writer->given += length;
}

static void lose(struct log_writer *writer, uint64_t count)
{
    if (writer->lost == 0) {
        writer->lost_at = writer->given;
    }
    writer->lost += count;
    atomic_fetch_add_explicit(&writer->lost_all, count, memory_order_relaxed);
}

void log_writer_add(void *user, enum daruma_log_level level, const char *line, size_t length)
{
    struct log_writer *writer = user;
    size_t kept_back = level >= DARUMA_LOG_WARN ? 0 : writer->room / 8;

    length = length < DARUMA_LOG_LINE_MAX ? length : DARUMA_LOG_LINE_MAX;
    pthread_mutex_lock(&writer->lock);
    size_t free_bytes = writer->room - (size_t)(writer->given - writer->taken);
    if (length + 1 + kept_back <= free_bytes) {
        put(writer, line, length);
        put(writer, "\n", 1);
    } else {
        lose(writer, 1);
    }
    atomic_store(&writer->is_idle, false);
    pthread_mutex_unlock(&writer->lock);
    pthread_cond_broadcast(&writer->changed);
}

uint64_t log_writer_lost(const struct log_writer *writer)
{
    return atomic_load_explicit(&writer->lost_all, memory_order_relaxed);
}

/* --- writing --------------------------------------------------------------------------------------- */

/* Under the lock: whole lines, as many as one write takes, up to where lines are missing. */
static void take_lines(struct log_writer *writer, struct chunk *chunk)
{
    uint64_t end = writer->lost > 0 ? writer->lost_at : writer->given;
    size_t at = (size_t)(writer->taken % writer->room);
    size_t length = end - writer->taken < CHUNK_MAX ? (size_t)(end - writer->taken) : CHUNK_MAX;
    size_t first = length < writer->room - at ? length : writer->room - at;

    memcpy(chunk->text, writer->ring + at, first);
    memcpy(chunk->text + first, writer->ring, length - first);
    while (length > 0 && chunk->text[length - 1] != '\n') {
        length--;
    }
    chunk->length = length;
    writer->taken += length;
}

static void keep_line(void *user, enum daruma_log_level level, const char *line, size_t length)
{
    struct chunk *chunk = user;

    (void)level;
    memcpy(chunk->text, line, length);
    chunk->text[length] = '\n';
    chunk->length = length + 1;
}

/* Nothing, where the level of the log is above warnings. */
static void render_lost(const struct log_writer *writer, uint64_t count, struct chunk *chunk)
{
    struct daruma_logger logger = writer->own;

    logger.sink = keep_line;
    logger.sink_user = chunk;
    DARUMA_LOG(&logger, DARUMA_LOG_WARN, "log_lost", daruma_log_uint("count", count));
}

/* Waits for something to write. False: there is nothing left, and it is to stop. */
static bool take(struct log_writer *writer, struct chunk *chunk)
{
    uint64_t lost = 0;

    chunk->length = 0;
    pthread_mutex_lock(&writer->lock);
    while (writer->given == writer->taken && writer->lost == 0 && !writer->is_stopping) {
        atomic_store(&writer->is_idle, true);
        (void)pthread_cond_wait(&writer->changed, &writer->lock); /* looked at again */
    }
    take_lines(writer, chunk);
    if (chunk->length == 0) {
        lost = writer->lost;
        writer->lost = 0;
    }
    pthread_mutex_unlock(&writer->lock);
    if (lost > 0) {
        render_lost(writer, lost, chunk);
    }
    return chunk->length > 0 || lost > 0;
}

/* Refused: by a reader that is gone, or a full disk. */
static void refuse(struct log_writer *writer, const char *bytes, size_t length)
{
    uint64_t count = 0;

    for (size_t i = 0; i < length; i++) {
        count += bytes[i] == '\n';
    }
    atomic_fetch_add_explicit(&writer->lost_all, count, memory_order_relaxed);
}

static void write_out(struct log_writer *writer, const struct chunk *chunk)
{
    size_t done = 0;

    while (done < chunk->length) {
        ssize_t written = write(writer->fd, chunk->text + done, chunk->length - done);
        if (written >= 0) {
            done += (size_t)written;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) { /* another process made it so */
            struct pollfd ready = {.fd = writer->fd, .events = POLLOUT};
            (void)poll(&ready, 1, -1); /* write says what is wrong with it */
        } else if (errno != EINTR) {
            refuse(writer, chunk->text + done, chunk->length - done);
            return;
        }
    }
}

/* The thread has ended, or is about to and no other thread knows of it. */
static void writer_free(struct log_writer *writer)
{
    (void)pthread_cond_destroy(&writer->changed); /* no thread waits any more */
    (void)pthread_mutex_destroy(&writer->lock);
    free(writer->ring);
    free(writer);
}

static void *run(void *user)
{
    struct log_writer *writer = user;
    struct chunk chunk;

    while (take(writer, &chunk)) {
        write_out(writer, &chunk);
    }
    pthread_mutex_lock(&writer->lock);
    writer->has_ended = true;
    bool is_left = writer->is_left;
    atomic_store(&writer->is_idle, true);
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    if (is_left) {
        writer_free(writer);
    }
    return NULL;
}

/* --- opening and closing ---------------------------------------------------------------------------- */

static int make_waits(struct log_writer *writer)
{
    pthread_condattr_t attributes;

    if (pthread_condattr_init(&attributes) != 0) {
        return -1;
    }
    /* The wait of a stop must not depend on a clock that can be set. */
    int failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
                 pthread_cond_init(&writer->changed, &attributes) != 0;
    (void)pthread_condattr_destroy(&attributes); /* cannot fail on one that was made */
    return failed || pthread_mutex_init(&writer->lock, NULL) != 0 ? -1 : 0;
}

/* Signals are for the other threads: a stuck write must not be where one of them ends up. */
static int begin(struct log_writer *writer)
{
    sigset_t all, before;

    (void)sigfillset(&all); /* cannot fail, as the two below */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&writer->thread, NULL, run, writer);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

int log_writer_open(int fd, size_t buffer_bytes, const struct daruma_logger *logger,
                    struct log_writer **ret_writer, struct error *err)
{
    struct log_writer *writer = calloc(1, sizeof *writer);

    if (writer != NULL) {
        writer->fd = fd;
        writer->own = *logger;
        writer->room = buffer_bytes < LOG_WRITER_BYTES_MIN ? LOG_WRITER_BYTES_MIN : buffer_bytes;
        writer->ring = malloc(writer->room);
        atomic_init(&writer->is_idle, true);
    }
    if (writer == NULL || writer->ring == NULL) {
        free(writer);
        return fail(err, FAULT_MEMORY, "no memory for the log's buffer");
    }
    if (make_waits(writer) != 0 || begin(writer) != 0) {
        free(writer->ring);
        free(writer);
        return fail(err, FAULT_MEMORY, "the log's thread cannot be started");
    }
    *ret_writer = writer;
    return 0;
}

/* Has the thread ended in time? What a flush has waited is over. */
static bool has_ended(struct log_writer *writer)
{
    int64_t until_ms = clock_thread_ms() + LOG_WRITER_FLUSH_MS - writer->waited_ms;
    const struct timespec until = {.tv_sec = (time_t)(until_ms / 1000),
                                   .tv_nsec = (long)(until_ms % 1000) * 1000000};
    int failed = 0;

    pthread_mutex_lock(&writer->lock);
    writer->is_stopping = true;
    pthread_cond_broadcast(&writer->changed);
    while (!writer->has_ended && failed == 0) {
        failed = pthread_cond_timedwait(&writer->changed, &writer->lock, &until);
    }
    bool ended = writer->has_ended;
    writer->is_left = !ended;
    pthread_mutex_unlock(&writer->lock);
    return ended;
}

static _Atomic(struct log_writer *) guarded; /* the process has one log */

void log_writer_close(struct log_writer *writer)
{
    struct log_writer *expected = writer;

    if (writer == NULL) {
        return;
    }
    (void)atomic_compare_exchange_strong(&guarded, &expected, NULL); /* it may be another's */
    pthread_t thread = writer->thread;
    if (!has_ended(writer)) {
        (void)pthread_detach(thread); /* cannot fail for one that was not joined */
        return;
    }
    (void)pthread_join(thread, NULL); /* likewise */
    writer_free(writer);
}

/* Until all is written, or the time is over. Safe in a handler. */
static void wait_written(const struct log_writer *writer, int64_t most_ms)
{
    int64_t until_ms = clock_thread_ms() + most_ms;

    while (!atomic_load(&writer->is_idle) && clock_thread_ms() < until_ms) {
        (void)poll(NULL, 0, LOOK_MS); /* a shorter wait is no harm */
    }
}

void log_writer_flush(struct log_writer *writer)
{
    const int64_t most_ms = LOG_WRITER_FLUSH_MS - LAST_MS;
    int64_t began_ms = clock_thread_ms();

    wait_written(writer, most_ms);
    int64_t took_ms = clock_thread_ms() - began_ms;
    writer->waited_ms = took_ms < most_ms ? took_ms : most_ms;
}

/* --- aborts and faults ------------------------------------------------------------------------------- */

static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction before[sizeof deadly / sizeof *deadly];

/* Only waits, by what is safe in a handler: the writing is the thread's. Then what would have happened
 * without it: a fault of this thread's happens again on return, a signal that was sent is sent again. */
static void on_deadly(int number, siginfo_t *cause, void *context)
{
    const struct log_writer *writer = atomic_load(&guarded);

    (void)context;
    if (writer != NULL) {
        wait_written(writer, LOG_WRITER_FLUSH_MS);
    }
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        if (deadly[i] == number) {
            (void)sigaction(number, &before[i], NULL); /* cannot fail: it was so before */
        }
    }
    if (cause->si_code <= 0) {
        (void)raise(number);
    }
}

void log_writer_guard(struct log_writer *writer)
{
    struct sigaction action = {.sa_sigaction = on_deadly, .sa_flags = SA_SIGINFO};

    atomic_store(&guarded, writer);
    (void)sigfillset(&action.sa_mask); /* cannot fail, as the one below on signals that exist */
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        (void)sigaction(deadly[i], &action, &before[i]);
    }
}
