/* SPDX-License-Identifier: MIT
 *
 * export -- see export.h.
 */
#include "store/export.h"

#include "store/store_json_internal.h"

#include <stdlib.h>

#define ACTS_PAGE 500

struct known_queue {
    uint32_t number;
    bool dropped, is_wanted;
    struct span name;
};

struct export
{
    struct store *store;
    const struct export_options *options;
    export_lines_fn write;
    void *user;
    struct export_counts *counts; /* as handed over */
    struct export_counts made;    /* and what waits in `lines` */
    struct arena *arena;          /* names of queues */
    struct known_queue *queues;   /* by number */
    size_t queue_count, queue_room;
    struct buf lines;
    struct error *err;
};

static bool is_whole(const struct export_options *options)
{
    return options->queue.len == 0 && options->states == 0;
}

static int no_memory(struct export *export)
{
    return fail(export->err, FAULT_MEMORY, "no memory to export with");
}

/* --- handing over -------------------------------------------------------------------------------- */

static int hand_over(struct export *export)
{
    int stopped = 0;

    if (export->lines.len > 0) {
        stopped = export->write(export->user, buf_span(&export->lines), &export->made);
        buf_clear(&export->lines);
    }
    if (stopped == 0) {
        *export->counts = export->made;
    }
    return stopped;
}

/* After each line: `failed` is what writing it said. */
static int line_made(struct export *export, int failed)
{
    if (failed != 0) {
        return no_memory(export);
    }
    return export->lines.len >= EXPORT_FLUSH_BYTES ? hand_over(export) : 0;
}

/* --- queues -------------------------------------------------------------------------------------- */

static int keep_queue(struct export *export, const struct queue_row *row, bool is_wanted)
{
    if (export->queue_count == export->queue_room) {
        size_t room = export->queue_room == 0 ? 64 : 2 * export->queue_room;
        struct known_queue *grown = realloc(export->queues, room * sizeof *grown);
        if (grown == NULL) {
            return no_memory(export);
        }
        export->queues = grown;
        export->queue_room = room;
    }
    struct span name = arena_copy(export->arena, row->name);
    export->queues[export->queue_count++] = (struct known_queue){
        .number = row->number, .dropped = row->dropped, .is_wanted = is_wanted, .name = name};
    return name.at != NULL ? 0 : no_memory(export);
}

static int export_queue(void *user, const struct queue_row *row)
{
    struct export *export = user;
    struct span asked = export->options->queue;
    bool is_wanted = asked.len == 0 || (!row->dropped && span_equal(row->name, asked));
    int failed = keep_queue(export, row, is_wanted);

    if (failed != 0 || !is_wanted) {
        return failed;
    }
    export->made.queues++;
    return line_made(export, write_queue_line(&export->lines, row));
}

static int compare_queues(const void *number, const void *queue)
{
    uint32_t wanted = *(const uint32_t *)number,
             found = ((const struct known_queue *)queue)->number;

    return wanted < found ? -1 : wanted > found;
}

/* Queues come by number. NULL: not known. */
static const struct known_queue *find_queue(const struct export *export, uint32_t number)
{
    return export->queue_count == 0 ? NULL
                                    : bsearch(&number, export->queues, export->queue_count,
                                              sizeof *export->queues, compare_queues);
}

/* --- tasks --------------------------------------------------------------------------------------- */

static int write_record(struct export *export, const struct record *record,
                        const struct known_queue *queue)
{
    struct record shown = *record;
    bool has_name = queue != NULL && text_is_plain(queue->name);

    shown.is_bound = record->is_bound || record->task.key.len == 0; /* as the file has it */
    export->made.tasks++;
    export->made.last = record->task.id;
    return line_made(
        export, write_task_line(&export->lines, &shown, has_name ? queue->name : (struct span){0}));
}

static int export_task(void *user, const struct brief *brief)
{
    struct export *export = user;
    const struct export_options *options = export->options;
    const struct known_queue *queue = find_queue(export, brief->queue);
    bool is_wanted = queue != NULL ? queue->is_wanted && !queue->dropped : options->queue.len == 0;
    struct record record;
    bool found = false;

    if (!is_wanted || brief->row <= options->after_row ||
        (options->states != 0 && (options->states >> brief->state & 1) == 0)) {
        return 0;
    }
    struct arena *arena = arena_new(SIZE_MAX);
    if (arena == NULL) {
        return no_memory(export);
    }
    int failed = store_read_task(export->store, (struct task_id){brief->row, ID_ANY_TAIL},
                                 READ_BODIES | READ_TRAIL, arena, &record, &found, export->err);
    if (failed == 0 && found) { /* else it has been forgotten meanwhile */
        failed = write_record(export, &record, queue);
    }
    arena_free(arena);
    return failed;
}

/* --- memos and acts ------------------------------------------------------------------------------ */

static int export_memo(void *user, const struct memo *memo)
{
    struct export *export = user;

    if (span_starts(memo->name, STORE_MEMO_OF_NODES)) {
        return 0; /* no other store has those nodes */
    }
    export->made.memos++;
    return line_made(export, write_memo_line(&export->lines, memo));
}

static int export_act(void *user, const struct audit_row *row)
{
    struct export *export = user;

    export->made.acts++;
    return line_made(export, write_audit_line(&export->lines, row));
}

static int export_acts(struct export *export)
{
    struct audit_filter filter = {.limit = ACTS_PAGE};
    int failed = 0;

    do {
        struct arena *arena = arena_new(SIZE_MAX);
        if (arena == NULL) {
            return no_memory(export);
        }
        failed = store_audit(export->store, &filter, arena, export_act, export,
                             &filter.after_number, export->err);
        arena_free(arena);
    } while (failed == 0 && filter.after_number != 0);
    return failed;
}

/* ------------------------------------------------------------------------------------------------- */

static int export_all(struct export *export)
{
    int failed = line_made(export, write_begin_line(&export->lines));

    failed = failed != 0 ? failed : store_queues(export->store, export_queue, export, export->err);
    if (failed == 0 && export->options->queue.len > 0 && export->made.queues == 0) {
        return fail(export->err, FAULT_INPUT, "there is no queue \"%.*s\"",
                    SPAN_ARGS(export->options->queue));
    }
    failed = failed != 0 ? failed : store_scan(export->store, export_task, export, export->err);
    if (failed == 0 && is_whole(export->options)) {
        failed = store_memos(export->store, export_memo, export, export->err);
        failed = failed != 0 ? failed : export_acts(export);
    }
    failed = failed != 0 ? failed : line_made(export, write_end_line(&export->lines));
    return failed != 0 ? failed : hand_over(export);
}

int export_run(struct store *store, const struct export_options *options, export_lines_fn write,
               void *user, struct export_counts *ret_counts, struct error *err)
{
    struct export export = {.store = store,
                            .options = options,
                            .write = write,
                            .user = user,
                            .counts = ret_counts,
                            .arena = arena_new(SIZE_MAX),
                            .err = err};

    *ret_counts = (struct export_counts){0};
    buf_init(&export.lines, SIZE_MAX);
    int failed = export.arena != NULL ? export_all(&export) : no_memory(&export);
    buf_done(&export.lines);
    arena_free(export.arena);
    free(export.queues);
    return failed;
}
