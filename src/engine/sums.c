/* SPDX-License-Identifier: MIT
 *
 * sums -- see sums_internal.h. A table of SUMS_ROWS_MAX rows is all the memory there is: lines for
 * which it has no room are counted without saying what they were.
 */
#include "engine/engine_internal.h"

#include <string.h>

static bool is_warning(enum daruma_log_level level)
{
    return level >= DARUMA_LOG_WARN;
}

struct span sums_host_of(struct span url)
{
    struct span front, rest = url;
    size_t len = 0, from = 0;

    if (!span_cut(&rest, ':', &front)) {
        return SPAN("");
    }
    rest = span_from(rest, rest.len < 2 ? rest.len : 2);
    for (; len < rest.len && rest.at[len] != '/' && rest.at[len] != '?' && rest.at[len] != '#';
         len++) {
        from = rest.at[len] == '@' ? len + 1 : from;
    }
    return span_from(span_until(rest, len), from);
}

/* --- one line ----------------------------------------------------------------------------------- */

static bool is_within(struct sums_budget *budget, uint32_t most, int64_t now_ms)
{
    if (budget->count == 0 || now_ms - budget->began_ms >= SUMS_EVERY_MS) {
        *budget = (struct sums_budget){.began_ms = now_ms};
    }
    if (budget->count >= most) {
        return false;
    }
    budget->count++;
    return true;
}

/* May it be written as it is? */
static bool is_admitted(struct engine *engine, const struct sums_line *line, int64_t now_ms)
{
    bool is_warn = is_warning(line->level);

    if (line->budget != NULL) {
        return is_within(line->budget, line->most, now_ms);
    }
    return is_within(&line->queue->told[is_warn], SUMS_QUEUE_MAX, now_ms) &&
           is_within(&engine->sums.all[is_warn], SUMS_ALL_MAX, now_ms);
}

/* Which task, or how many; the queue; the rest. */
static void write_line(const struct engine *engine, const struct sums_row *row,
                       const struct daruma_log_field *own, size_t own_count)
{
    struct daruma_log_field fields[2 * SUMS_FIELDS_MAX + 1 + SUMS_NUMBERS_MAX];
    size_t count = 0;

    if (own_count > 0) {
        fields[count++] = own[0];
    }
    if (row->queue != NULL) {
        fields[count++] = daruma_log_bytes("queue", row->queue->name.at, row->queue->name.len);
    }
    for (size_t i = 1; i < own_count; i++) {
        fields[count++] = own[i];
    }
    for (size_t i = 0; i < row->shared_count; i++) {
        fields[count++] = row->shared[i];
    }
    for (size_t i = 0; i < SUMS_NUMBERS_MAX && row->numbers[i].name != NULL; i++) {
        fields[count++] = daruma_log_uint(row->numbers[i].name, row->numbers[i].value);
    }
    daruma_log_write(engine->options.log, row->level, row->event, fields, count);
}

/* --- what is alike --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

/* Digits are passed over: ports, times and counts do not make another kind of failure. */
static uint64_t mix_text(uint64_t hash, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool is_digit = at[i] >= '0' && at[i] <= '9';
        hash = is_digit ? hash : mix(hash, (unsigned char)at[i]);
    }
    return mix(hash, 0);
}

static uint64_t hash_of(const struct sums_line *line)
{
    uint64_t hash = mix_text(UINT64_C(0xcbf29ce484222325), line->event, strlen(line->event));

    hash ^= line->queue == NULL ? 0 : line->queue->serial * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < line->shared_count; i++) {
        const struct daruma_log_field *field = &line->shared[i];
        if (field->kind == DARUMA_LOG_FIELD_TEXT && strcmp(field->name, "host") != 0) {
            hash = mix_text(hash, field->as.text.bytes, field->as.text.length);
        } else if (field->kind ==
                   DARUMA_LOG_FIELD_TEXT) { /* of hosts the digits are all there is */
            for (size_t at = 0; at < field->as.text.length; at++) {
                hash = mix(hash, (unsigned char)field->as.text.bytes[at]);
            }
        } else {
            hash = (hash ^ field->as.natural) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

/* Copies what the fields point to. */
static void keep_fields(struct sums_row *row, const struct sums_line *line)
{
    size_t used = 0;

    row->shared_count = line->shared_count;
    for (size_t i = 0; i < line->shared_count; i++) {
        struct daruma_log_field *field = &row->shared[i];
        *field = line->shared[i];
        if (field->kind == DARUMA_LOG_FIELD_TEXT) {
            size_t room = sizeof row->text - used;
            size_t length = field->as.text.length < room ? field->as.text.length : room;
            memcpy(row->text + used, field->as.text.bytes, length);
            *field = daruma_log_bytes(field->name, row->text + used, length);
            used += length;
        }
    }
}

static void sum_numbers(struct sums_row *row, const struct sums_line *line)
{
    for (size_t i = 0; i < SUMS_NUMBERS_MAX; i++) {
        uint64_t before = line->numbers[i].how == SUMS_ADDED ? row->numbers[i].value : 0;
        row->numbers[i] = line->numbers[i];
        row->numbers[i].value += before;
    }
}

static void hold(struct engine *engine, const struct sums_line *line, int64_t now_ms)
{
    struct sums *sums = &engine->sums;
    uint64_t hash = hash_of(line);
    size_t i = 0;

    if (sums->due_at_ms == 0) {
        sums->due_at_ms = now_ms + SUMS_EVERY_MS;
    }
    while (i < sums->row_count && sums->rows[i].hash != hash) {
        i++;
    }
    if (i == SUMS_ROWS_MAX) {
        sums->others[is_warning(line->level)]++;
        return;
    }
    struct sums_row *row = &sums->rows[i];
    if (i == sums->row_count) {
        sums->row_count++;
        *row = (struct sums_row){
            .hash = hash, .event = line->event, .level = line->level, .queue = line->queue};
        keep_fields(row, line);
    }
    row->count++;
    sum_numbers(row, line);
}

void sums_log(struct engine *engine, const struct sums_line *line)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);

    if (!daruma_log_is_on(engine->options.log, line->level)) {
        return;
    }
    if (!is_admitted(engine, line, now_ms)) {
        hold(engine, line, now_ms);
        return;
    }
    struct sums_row row = {.event = line->event, .level = line->level, .queue = line->queue};
    row.shared_count = line->shared_count;
    memcpy(row.shared, line->shared, sizeof row.shared);
    sum_numbers(&row, line);
    write_line(engine, &row, line->own, line->own_count);
}

static void tell_others(const struct engine *engine, uint64_t *count, enum daruma_log_level level)
{
    if (*count > 0) {
        DARUMA_LOG(engine->options.log, level, "log_summed", daruma_log_uint("count", *count));
        *count = 0;
    }
}

static void tell_rows(struct engine *engine)
{
    struct sums *sums = &engine->sums;

    for (size_t i = 0; i < sums->row_count; i++) {
        const struct daruma_log_field count = daruma_log_uint("count", sums->rows[i].count);
        write_line(engine, &sums->rows[i], &count, 1);
    }
    tell_others(engine, &sums->others[0], DARUMA_LOG_INFO);
    tell_others(engine, &sums->others[1], DARUMA_LOG_WARN);
    sums->row_count = 0;
    sums->due_at_ms = 0;
}

/* --- scheduled runs -------------------------------------------------------------------------------------------- */

void sums_log_length(struct engine *engine, struct queue *queue, uint64_t waiting)
{
    sums_log(engine, &(struct sums_line){.event = "queue_length",
                                         .level = DARUMA_LOG_INFO,
                                         .queue = queue,
                                         .numbers = {{"waiting", waiting, SUMS_LAST}}});
}

void sums_log_run(struct engine *engine, struct queue *queue, const struct sums_run *run)
{
    sums_log(engine, &(struct sums_line){.event = "run_done",
                                         .level = DARUMA_LOG_INFO,
                                         .queue = queue,
                                         .shared = {daruma_log_text("kind", "scheduled")},
                                         .shared_count = 1,
                                         .numbers = {{"taken", run->taken, SUMS_ADDED},
                                                     {"succeeded", run->succeeded, SUMS_ADDED},
                                                     {"failed", run->failed, SUMS_ADDED},
                                                     {"retrying", run->retrying, SUMS_ADDED}}});
}

/* --- empty queues ------------------------------------------------------------------------------------ */

static bool is_empty(const struct queue *queue)
{
    return queue->counts[TASK_WAITING] == 0 && queue->counts[TASK_RUNNING] == 0;
}

static void tell_empty(struct engine *engine, struct queue *queue, int64_t now_ms)
{
    queue->empty_told_ms = now_ms;
    queue->empty_is_held = false;
    DARUMA_LOG(engine->options.log, DARUMA_LOG_INFO, "queue_empty",
               daruma_log_bytes("queue", queue->name.at, queue->name.len));
}

void sums_log_empty(struct engine *engine, struct queue *queue)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    int64_t free_at_ms = queue->empty_told_ms + SUMS_EMPTY_MS;

    if (queue->empty_told_ms == 0 || now_ms >= free_at_ms) {
        tell_empty(engine, queue, now_ms);
        return;
    }
    queue->empty_is_held = true;
    if (engine->sums.empty_at_ms == 0 || free_at_ms < engine->sums.empty_at_ms) {
        engine->sums.empty_at_ms = free_at_ms;
    }
}

/* Those that were held back and are still empty. */
static void tell_empties(struct engine *engine, int64_t now_ms)
{
    int64_t next_ms = 0;

    for (size_t i = 0; i < engine->queue_count; i++) {
        struct queue *queue = engine->queues[i];
        int64_t free_at_ms = queue->empty_told_ms + SUMS_EMPTY_MS;
        if (!queue->empty_is_held) {
            continue;
        }
        if (now_ms < free_at_ms) {
            next_ms = next_ms == 0 || free_at_ms < next_ms ? free_at_ms : next_ms;
            continue;
        }
        queue->empty_is_held = false;
        if (is_empty(queue) && !queue->dropped) {
            tell_empty(engine, queue, now_ms);
        }
    }
    engine->sums.empty_at_ms = next_ms;
}

/* --- time --------------------------------------------------------------------------------------------- */

void sums_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);

    if (engine->sums.due_at_ms != 0 && now_ms >= engine->sums.due_at_ms) {
        tell_rows(engine);
    }
    if (engine->sums.empty_at_ms != 0 && now_ms >= engine->sums.empty_at_ms) {
        tell_empties(engine, now_ms);
    }
}

int64_t sums_wait_ms(const struct engine *engine)
{
    int64_t due_ms = engine->sums.due_at_ms, empty_ms = engine->sums.empty_at_ms;

    if (due_ms == 0 && empty_ms == 0) {
        return INT64_MAX;
    }
    int64_t first_ms = due_ms == 0 || (empty_ms != 0 && empty_ms < due_ms) ? empty_ms : due_ms;
    return first_ms - clock_mono_ms(engine->options.clock);
}

void sums_flush(struct engine *engine)
{
    if (engine->sums.due_at_ms != 0) {
        tell_rows(engine);
    }
}
