/* SPDX-License-Identifier: MIT
 *
 * cli_restore -- `daruma restore`: puts a backup in the place of a store and has it know that it is one:
 * what was sent since then waits again in it, and keys that were used since then are not in it. So its
 * queues are paused, what waits for an upstream of the gateway that must not see it twice is unsettled, and
 * the moment is written down (store/restored.h). No server may run on it, nor takes one that is half done.
 *
 * A store is never written over. The copy gets its name when it is whole, marked and on the disk.
 */
#include "cli/cli.h"

#include "base/auto.h"
#include "base/clock.h"
#include "cli/carrying.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "cli/placing.h"
#include "edge/writer.h"
#include "store/restored.h"
#include "store/restored_tasks.h"
#include "store/store.h"
#include "task/id.h"
#include "task/route.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#define DOCUMENT_BYTES_MAX (1u << 20) /* a thousand queues by name */

struct restore_flags {
    struct flags common;
    const char *store, *from;
    int64_t unknown_ms; /* below 0: as long as each route keeps answers */
    bool leaves_queues;
};

/* --- flags ---------------------------------------------------------------------------------------- */

static bool take_store(void *user, const char *value)
{
    ((struct restore_flags *)user)->store = value;
    return carrying_is_store(value);
}

static bool take_from(void *user, const char *value)
{
    ((struct restore_flags *)user)->from = value;
    return value[0] != '\0';
}

static bool take_unknown(void *user, const char *value)
{
    return flags_duration(value, &((struct restore_flags *)user)->unknown_ms);
}

static bool take_known(void *user, const char *value)
{
    (void)value;
    ((struct restore_flags *)user)->unknown_ms = 0;
    return true;
}

static bool take_leave(void *user, const char *value)
{
    (void)value;
    ((struct restore_flags *)user)->leaves_queues = true;
    return true;
}

static const struct flag table[] = {
    {"--store", "STORE", take_store, CARRYING_STORE, "the store that is restored", NULL, true},
    {"--from", "FILE", take_from, "a file",
     "the backup of an SQLite or JSON store, to be copied there", NULL, false},
    {"--unknown-for", "TIME", take_unknown, FLAGS_DURATION,
     "how long a key that is not known may have been used (as long as each route keeps answers)",
     NULL, false},
    {"--keys-are-known", NULL, take_known, NULL,
     "no request came since the backup, or the upstreams know all keys: trust them", NULL, false},
    {"--leave-queues", NULL, take_leave, NULL, "do not pause the queues", NULL, false},
};

static const struct flags_form form = {
    .command = "restore",
    .purpose = "Puts a backup in the place of a store, pauses its queues, has the gateway's "
               "requests that\n"
               "wait in it unsettled, since they may have been sent, and writes down that keys\n"
               "which were used since the backup are not in it. Without --from the store is there\n"
               "already (pg_restore), and is only marked. No server may run on it.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .is_local = true,
};

/* --- the file ------------------------------------------------------------------------------------- */

/* Of sqlite:PATH or json:PATH; NULL: it is no file. */
static const char *path_of(const char *store)
{
    return strncmp(store, "sqlite:", 7) == 0 ? store + 7
           : strncmp(store, "json:", 5) == 0 ? store + 5
                                             : NULL;
}

/* Opened to be marked, an empty one would be made a store. */
static int look_at_database(const struct restore_flags *flags, struct error *err)
{
    struct store *store = NULL;
    int failed = store_open_to_read(span_of(flags->store), &store, err);

    store_close(store);
    return failed;
}

/* What is to be marked: the store itself, or the copy that becomes it. */
static int find_store(const struct restore_flags *flags, struct placing *placing,
                      const char **ret_store, struct error *err)
{
    const char *path = path_of(flags->store);
    struct stat found;

    if (path == NULL && flags->from != NULL) {
        return fail(err, FAULT_INPUT,
                    "--from: expected for SQLite and JSON only: use pg_restore, then 'daruma "
                    "restore' without it");
    }
    if (flags->from != NULL) {
        *ret_store = placing->store;
        return placing_copy(placing, flags->store, flags->from, err);
    }
    *ret_store = flags->store;
    if (path == NULL) {
        return look_at_database(flags, err);
    }
    return lstat(path, &found) == 0 ? 0 : fail(err, FAULT_INPUT, "%s: there is no store", path);
}

/* --- the mark ------------------------------------------------------------------------------------- */

struct marking {
    struct store *store;
    struct arena *arena;
    struct op **ops;
    size_t count, room;
    size_t paused;      /* the first ones: a queue each */
    struct span before; /* queues that a run which did not end has paused, a line each */
    size_t unsettled;   /* requests of the gateway */
    struct error *err;
};

AUTO_POINTER(struct store, store_close)
AUTO_POINTER(struct arena, arena_free)

static int no_memory(struct error *err)
{
    return fail(err, FAULT_MEMORY, "no memory to mark the store");
}

static struct op *add_op(struct marking *marking)
{
    if (marking->count == marking->room) {
        size_t room = marking->room == 0 ? 64 : 2 * marking->room;
        struct op **grown = realloc(marking->ops, room * sizeof(struct op *));
        if (grown == NULL) {
            return NULL;
        }
        marking->ops = grown;
        marking->room = room;
    }
    struct op *op = arena_alloc(marking->arena, sizeof *op);
    if (op != NULL) {
        *op = (struct op){.arena = marking->arena, .now_ms = clock_wall_ms(&clock_real)};
        marking->ops[marking->count++] = op;
    }
    return op;
}

/* Requests of the gateway have callers, who are told at once: see restored_tasks. */
static int pause_queue(void *user, const struct queue_row *row)
{
    struct marking *marking = user;

    if (row->dropped || row->paused || span_starts(row->name, ROUTE_QUEUE_PREFIX)) {
        return 0;
    }
    struct op *op = add_op(marking);
    struct span name = arena_copy(marking->arena, row->name);
    if (op == NULL || name.at == NULL) {
        return no_memory(marking->err);
    }
    op->kind = OP_QUEUE;
    op->keeps = QUEUE_KEEPS_SETTINGS;
    op->queue = (struct queue_row){
        .number = row->number, .name = name, .settings = SPAN(""), .paused = true};
    return 0;
}

static int add_memo(struct marking *marking, struct span name, struct span text)
{
    struct op *op = add_op(marking);
    struct span value = arena_copy(marking->arena, text);

    if (op == NULL || value.at == NULL) {
        return no_memory(marking->err);
    }
    op->kind = OP_MEMO;
    op->memo = (struct memo){.name = name, .value = value};
    return 0;
}

/* With the queues that are paused by now, so that the same command, given again, can tell them all. */
static int add_undone(struct marking *marking)
{
    AUTO(buf_done) struct buf names;
    int failed = 0;

    buf_init(&names, DOCUMENT_BYTES_MAX);
    failed = buf_add(&names, marking->before);
    for (size_t i = 0; failed == 0 && i < marking->paused; i++) {
        failed = buf_add(&names, marking->ops[i]->queue.name);
        failed = failed != 0 ? failed : buf_add(&names, SPAN("\n"));
    }
    if (failed == 0 && buf_span(&names).len == 0) {
        failed = buf_add(&names, SPAN("\n")); /* one without a value is none */
    }
    return failed != 0 ? no_memory(marking->err)
                       : add_memo(marking, SPAN(RESTORED_MEMO_UNDONE), buf_span(&names));
}

static int add_marks(struct marking *marking, const struct restored *restored)
{
    char text[RESTORED_TEXT_MAX];

    restored_render(restored, text);
    marking->paused = marking->count;
    int failed = add_memo(marking, SPAN(RESTORED_MEMO), span_of(text));
    return failed != 0 ? failed : add_undone(marking);
}

/* Of a run that did not end. */
static int find_undone(void *user, const struct memo *memo)
{
    struct marking *marking = user;

    if (!span_is(memo->name, RESTORED_MEMO_UNDONE)) {
        return 0;
    }
    marking->before = arena_copy(marking->arena, memo->value);
    return marking->before.at == NULL ? no_memory(marking->err) : 0;
}

static int forget_undone(struct marking *marking)
{
    struct op op = {.kind = OP_MEMO, .memo.name = SPAN(RESTORED_MEMO_UNDONE)};
    struct op *ops[] = {&op};

    return store_apply_patiently(marking->store, ops, 1, marking->err);
}

/* The pauses and both memos are one commit; the tasks follow, page by page. */
static int mark(const struct restore_flags *flags, struct marking *marking,
                struct restored *ret_restored)
{
    struct store *store = marking->store;
    struct restored restored = {
        .at_ms = clock_wall_ms(&clock_real),
        .backup_ms = store->last_row > 0 ? id_created_ms(store->last_row) : 0,
        .unknown_ms = flags->unknown_ms,
    };
    const struct restored_wish wish = {.now_ms = restored.at_ms,
                                       .doubts_requests = flags->unknown_ms != 0,
                                       .forgets_words = !flags->leaves_queues};
    int failed = store_memos(store, find_undone, marking, marking->err);

    if (failed == 0 && !flags->leaves_queues) {
        failed = store_queues(store, pause_queue, marking, marking->err);
    }
    failed = failed != 0 ? failed : add_marks(marking, &restored);
    failed = failed != 0 ? failed
                         : store_apply_patiently(store, marking->ops, marking->count, marking->err);
    failed = failed != 0 ? failed : restored_tasks(store, &wish, &marking->unsettled, marking->err);
    failed = failed != 0 ? failed : forget_undone(marking);
    if (failed == 0) {
        *ret_restored = restored;
    }
    return failed;
}

/* --- what is told --------------------------------------------------------------------------------- */

typedef void (*name_fn)(void *user, size_t number, struct span name);

/* The queues that are paused for the restore, by name, those of a run that did not end first. Returns how many. */
static size_t each_name(const struct marking *marking, name_fn visit, void *user)
{
    struct span rest = marking->before, name;
    size_t count = 0;

    while (rest.len > 0) {
        (void)span_cut(&rest, '\n', &name); /* each line has its end */
        if (name.len > 0) {
            visit(user, count++, name);
        }
    }
    for (size_t i = 0; i < marking->paused; i++) {
        visit(user, count++, marking->ops[i]->queue.name);
    }
    return count;
}

static void count_name(void *user, size_t number, struct span name)
{
    (void)user, (void)number, (void)name;
}

struct list {
    const char *before, *between;
};

static void print_name(void *user, size_t number, struct span name)
{
    const struct list *list = user;

    printf("%s%.*s", number == 0 ? list->before : list->between, SPAN_ARGS(name));
}

static void write_one(void *user, size_t number, struct span name)
{
    (void)number;
    write_text(user, name);
}

static int tell(const struct restored *restored, const struct marking *marking)
{
    AUTO(buf_done) struct buf text;
    struct writer writer = {.out = &text};

    buf_init(&text, DOCUMENT_BYTES_MAX);
    write_open(&writer, '{');
    write_name(&writer, "newest_task_at");
    if (restored->backup_ms > 0) {
        write_time(&writer, restored->backup_ms);
    } else {
        write_null(&writer);
    }
    write_named_uint(&writer, "queues_paused", each_name(marking, count_name, NULL));
    write_name(&writer, "paused");
    write_open(&writer, '[');
    (void)each_name(marking, write_one, &writer);
    write_close(&writer, ']');
    write_named_uint(&writer, "requests_unsettled", marking->unsettled);
    write_name(&writer, "keys_unknown_for_ms");
    if (restored->unknown_ms >= 0) {
        write_int(&writer, restored->unknown_ms);
    } else {
        write_null(&writer);
    }
    write_close(&writer, '}');
    if (writer.failed != 0) {
        return explain_fault(&form, writer.failed);
    }
    printf("%.*s\n", SPAN_ARGS(buf_span(&text)));
    return CLI_DONE;
}

static void tell_people(const struct restored *restored, const struct marking *marking)
{
    size_t paused = each_name(marking, count_name, NULL), unsettled = marking->unsettled;
    struct list names = {": ", ", "};
    struct list commands = {"once what was done since is cancelled: daruma queue resume ",
                            "; daruma queue resume "};

    printf("restored: %zu queue%s paused", paused, paused == 1 ? "" : "s");
    (void)each_name(marking, print_name, &names);
    printf("\n");
    (void)each_name(marking, print_name, &commands);
    printf("%s", paused > 0 ? "\n" : "");
    if (marking->before.len > 0) {
        printf("an earlier run did not end; what it has made unsettled is not counted here\n");
    }
    if (unsettled > 0) {
        printf(
            "%zu request%s of the gateway waited in it and %s unsettled: daruma unsettled, once a "
            "server runs\n",
            unsettled, unsettled == 1 ? "" : "s", unsettled == 1 ? "is" : "are");
    }
    if (restored->unknown_ms == 0) {
        printf("every key that it does not know is taken for a new one\n");
    } else if (restored->unknown_ms < 0) {
        printf("requests of the gateway with keys that it does not know are unsettled, and not "
               "sent, for as long as their route keeps answers\n");
    } else {
        printf("requests of the gateway with keys that it does not know are unsettled, and not "
               "sent, for %" PRId64 " s\n",
               restored->unknown_ms / 1000);
    }
}

/* Opens it, marks it and closes it. */
static int mark_store(const struct restore_flags *flags, const char *spec, struct marking *marking,
                      struct restored *ret_restored)
{
    AUTO(store_close_p) struct store *store = NULL;
    int failed = marking->arena == NULL ? no_memory(marking->err)
                                        : store_open_to_import(span_of(spec), &store, marking->err);

    marking->store = store;
    failed = failed != 0 ? failed : mark(flags, marking, ret_restored);
    marking->store = NULL;
    return failed;
}

static int restore(const struct restore_flags *flags)
{
    AUTO(placing_done) struct placing placing = {.lock = -1};
    AUTO(arena_free_p) struct arena *arena = arena_new(SIZE_MAX);
    const char *store = NULL;
    struct restored restored = {0};
    struct error err = {0};
    struct marking marking = {.arena = arena, .err = &err};
    int failed = find_store(flags, &placing, &store, &err), exit_code = CLI_DONE;

    if (placing.has_replaced) {
        flags_complain(&form, "%s: was left behind by a restore that did not end, and is replaced",
                       placing.aside);
    }
    failed = failed != 0 ? failed : mark_store(flags, store, &marking, &restored);
    if (failed == 0 && placing.has_copy) {
        failed = placing_put(&placing, &err);
    }
    if (failed != 0) {
        exit_code = carrying_complain(&form, &err);
    } else if (flags->common.is_json) {
        exit_code = tell(&restored, &marking);
    } else {
        tell_people(&restored, &marking);
    }
    free(marking.ops);
    return exit_code;
}

int cli_restore(int argc, char **argv)
{
    struct restore_flags flags = {.unknown_ms = -1};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.store == NULL) {
        flags_complain(&form, "--store is missing: %s is expected", CARRYING_STORE);
        return CLI_USAGE;
    }
    effect_begin();
    return effect_finish(&form, restore(&flags));
}
