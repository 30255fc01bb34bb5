/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include "harness.h"

#include "base/clock.h"
#include "base/log_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIVERS   4
#define EACH     2000
#define TEXT_MAX (4 << 20)
#define PIPE_BYTES                                                                                 \
    4096 /* less than any buffer: what nobody reads fills it at the writer's first turn */

struct log {
    int ends[2]; /* of a pipe: read, write */
    struct daruma_logger logger;
    struct log_writer *writer;
};

static void log_open(struct log *log, size_t bytes)
{
    struct error err = {0};

    assert_int_equal(pipe(log->ends), 0);
    assert_true(fcntl(log->ends[1], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
    log->logger = (struct daruma_logger){.level = DARUMA_LOG_INFO, .sink = log_writer_add};
    assert_int_equal(log_writer_open(log->ends[1], bytes, &log->logger, &log->writer, &err), 0);
    log->logger.sink_user = log->writer;
}

/* Until nothing has the other end open. */
static char *read_all(int fd)
{
    char *text = calloc(1, TEXT_MAX);
    size_t length = 0;

    for (ssize_t got = 1; got > 0;) {
        got = read(fd, text + length, TEXT_MAX - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    return text;
}

static void say(const struct log *log, enum daruma_log_level level, unsigned number)
{
    DARUMA_LOG(&log->logger, level, "line", daruma_log_uint("number", number));
}

struct giver {
    const struct log *log;
    unsigned first;
    pthread_t thread;
};

static void *give(void *user)
{
    const struct giver *giver = user;

    for (unsigned i = 0; i < EACH; i++) {
        say(giver->log, DARUMA_LOG_INFO, giver->first + i);
    }
    return NULL;
}

struct reading {
    int fd;
    char *text;
};

static void *read_it(void *user)
{
    struct reading *reading = user;

    reading->text = read_all(reading->fd);
    return NULL;
}

static void lines_of_many_threads_come_out_whole_and_in_each_ones_order(void **state)
{
    struct log log;
    struct giver givers[GIVERS];
    unsigned next[GIVERS] = {0}, count = 0;
    pthread_t thread;

    (void)state;
    log_open(&log, 8 << 20);
    struct reading reading = {.fd = log.ends[0]};
    assert_int_equal(pthread_create(&thread, NULL, read_it, &reading), 0);
    for (unsigned i = 0; i < GIVERS; i++) {
        givers[i] = (struct giver){.log = &log, .first = i * EACH};
        assert_int_equal(pthread_create(&givers[i].thread, NULL, give, &givers[i]), 0);
    }
    for (unsigned i = 0; i < GIVERS; i++) {
        (void)pthread_join(givers[i].thread, NULL);
    }
    assert_int_equal(log_writer_lost(log.writer), 0);
    log_writer_close(log.writer);
    (void)close(log.ends[1]);
    (void)pthread_join(thread, NULL);
    for (const char *at = reading.text; (at = strstr(at, "number=")) != NULL; count++) {
        unsigned number = (unsigned)strtoul(at + 7, (char **)&at, 10);
        assert_int_equal(*at, '\n');
        assert_int_equal(number % EACH, next[number / EACH]++);
    }
    assert_int_equal(count, GIVERS * EACH);
    free(reading.text);
    (void)close(log.ends[0]);
}

static void a_log_that_is_not_read_stops_no_thread_and_tells_what_is_missing(void **state)
{
    struct log log;
    unsigned told = 0, lost = 0, before = 0;

    (void)state;
    log_open(&log, LOG_WRITER_BYTES_MIN);
    for (unsigned i = 0; i < 20000; i++) { /* more than the pipe and the buffer hold */
        say(&log, DARUMA_LOG_INFO, i);
    }
    uint64_t counted = log_writer_lost(log.writer);
    assert_true(counted > 0);
    /* None of the file's flags was touched: others may have it open. */
    assert_int_equal(fcntl(log.ends[1], F_GETFL) & O_NONBLOCK, 0);

    pthread_t thread;
    struct reading reading = {.fd = log.ends[0]};
    assert_int_equal(pthread_create(&thread, NULL, read_it, &reading), 0);
    log_writer_close(log.writer);
    (void)close(log.ends[1]);
    (void)pthread_join(thread, NULL);
    for (char *line = reading.text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        char *count = strstr(line, "event=log_lost count=");
        if (count != NULL) {
            assert_non_null(strstr(line, "level=warn"));
            lost += (unsigned)strtoul(count + 21, NULL, 10);
            continue;
        }
        unsigned number = (unsigned)strtoul(strstr(line, "number=") + 7, NULL, 10);
        assert_true(number >= before);
        assert_true(number <= told + lost); /* nothing is missing before it is said */
        before = number;
        told++;
    }
    assert_int_equal(lost, counted);
    assert_int_equal(told + lost, 20000);
    free(reading.text);
    (void)close(log.ends[0]);
}

static void room_is_kept_for_warnings(void **state)
{
    struct log log;

    (void)state;
    log_open(&log, LOG_WRITER_BYTES_MIN);
    for (unsigned i = 0; i < 20000; i++) {
        say(&log, DARUMA_LOG_INFO, i);
    }
    uint64_t before = log_writer_lost(log.writer);
    for (unsigned i = 0; i < 10; i++) {
        say(&log, DARUMA_LOG_WARN, i);
    }
    assert_int_equal(log_writer_lost(log.writer), before);
    (void)close(log.ends[0]); /* what waits for it is refused, and ends */
    log_writer_close(log.writer);
    (void)close(log.ends[1]);
}

static void a_stop_does_not_wait_long_for_a_reader_that_hangs(void **state)
{
    struct log log;

    (void)state;
    log_open(&log, LOG_WRITER_BYTES_MIN);
    for (unsigned i = 0; i < 20000; i++) {
        say(&log, DARUMA_LOG_INFO, i);
    }
    int64_t began_ms = clock_thread_ms();
    log_writer_close(log.writer);
    int64_t took_ms = clock_thread_ms() - began_ms;
    assert_in_range(took_ms, LOG_WRITER_FLUSH_MS, LOG_WRITER_FLUSH_MS + 4000);
    (void)close(log.ends[0]); /* the thread gets its error, and ends */
}

/* What one stop takes, as a server stops: a flush, a last line, the close. */
static int64_t stop_ms(void)
{
    struct log log;

    log_open(&log, LOG_WRITER_BYTES_MIN);
    for (unsigned i = 0; i < 20000; i++) {
        say(&log, DARUMA_LOG_INFO, i);
    }
    int64_t began_ms = clock_thread_ms();
    log_writer_flush(log.writer);
    say(&log, DARUMA_LOG_WARN, 20000);
    log_writer_close(log.writer);
    int64_t took_ms = clock_thread_ms() - began_ms;
    (void)close(log.ends[0]); /* the thread gets its error, and ends */
    return took_ms;
}

/* A machine that is busy may make one of them longer. */
static void a_flush_and_the_close_wait_together_as_long_as_one(void **state)
{
    int64_t least_ms = INT64_MAX;

    (void)state;
    for (int i = 0; i < 8 && least_ms >= 2 * LOG_WRITER_FLUSH_MS; i++) {
        int64_t took_ms = stop_ms();
        assert_true(took_ms >= LOG_WRITER_FLUSH_MS);
        least_ms = took_ms < least_ms ? took_ms : least_ms;
    }
    assert_true(least_ms < 2 * LOG_WRITER_FLUSH_MS);
}

static void what_cannot_be_written_is_counted(void **state)
{
    struct log log;

    (void)state;
    log_open(&log, LOG_WRITER_BYTES_MIN);
    (void)close(log.ends[0]);
    for (unsigned i = 0; i < 3; i++) {
        say(&log, DARUMA_LOG_INFO, i);
    }
    for (int i = 0; i < 2000 && log_writer_lost(log.writer) < 3; i++) {
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(log_writer_lost(log.writer), 3);
    log_writer_close(log.writer);
    (void)close(log.ends[1]);
}

/* In a child: what it has logged, and how it ended. */
static char *last_words(int number, int *ret_status)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct daruma_logger logger = {.level = DARUMA_LOG_INFO, .sink = log_writer_add};
        struct log_writer *writer;
        (void)signal(number, SIG_DFL); /* the harness has its own */
        (void)close(ends[0]);
        if (log_writer_open(ends[1], 1 << 20, &logger, &writer, NULL) != 0) {
            _exit(99);
        }
        logger.sink_user = writer;
        log_writer_guard(writer);
        for (unsigned i = 0; i < 500; i++) {
            DARUMA_LOG(&logger, DARUMA_LOG_INFO, "line", daruma_log_uint("number", i));
        }
        (void)raise(number);
        _exit(98);
    }
    (void)close(ends[1]);
    char *text = read_all(ends[0]);
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, ret_status, 0), child);
    return text;
}

static void the_last_lines_before_an_abort_come_out(void **state)
{
    const int numbers[] = {SIGABRT, SIGSEGV};

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int status;
        char *text = last_words(numbers[i], &status);
        assert_non_null(strstr(text, "number=0\n"));
        assert_non_null(strstr(text, "number=499\n"));
        /* It ends by that signal; a sanitizer that has the signal exits instead. */
        assert_true((WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]) ||
                    (WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) < 98));
        free(text);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_many_threads_come_out_whole_and_in_each_ones_order),
        cmocka_unit_test(a_log_that_is_not_read_stops_no_thread_and_tells_what_is_missing),
        cmocka_unit_test(room_is_kept_for_warnings),
        cmocka_unit_test(a_stop_does_not_wait_long_for_a_reader_that_hangs),
        cmocka_unit_test(a_flush_and_the_close_wait_together_as_long_as_one),
        cmocka_unit_test(what_cannot_be_written_is_counted),
        cmocka_unit_test(the_last_lines_before_an_abort_come_out),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return HARNESS_RUN(argc, argv, tests);
}
