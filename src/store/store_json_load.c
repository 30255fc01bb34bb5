/* SPDX-License-Identifier: MIT
 *
 * store_json_load -- see store_json_internal.h. Takes what store_json_write writes and what a careful
 * person makes of it; refuses everything else with its place. A refusal names members and never shows
 * what they hold: there may be secrets in a body or a header (I10).
 */
#include "store/store_json_internal.h"
#include "store/store_json_values.h"

#include <jansson.h>

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct extra { /* a member that is not in a table */
    const char *name;
    const json_t *value;
};

struct whole {
    const json_t *object;
    const struct member *members;
    const struct extra *extras; /* all required but those whose value is NULL */
    size_t extra_count;
};

int load_damaged(struct loading *loading, const char *format, ...)
{
    char reason[ERROR_TEXT_MAX];
    unsigned line, column;
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments); /* cut when too long */
    va_end(arguments);
    place_find(loading->json, loading->steps, loading->depth, &line, &column);
    line += loading->lines_before;
    const char *name = loading->depth > 0 ? loading->steps[loading->depth - 1].name : NULL;
    return name == NULL ? fail(loading->err, FAULT_CORRUPT, "%s:%u:%u: %s", loading->path, line,
                               column, reason)
                        : fail(loading->err, FAULT_CORRUPT, "%s:%u:%u: \"%s\": %s", loading->path,
                               line, column, name, reason);
}

void load_enter(struct loading *loading, const char *name, size_t index)
{
    assert(loading->depth < LOAD_STEPS_MAX);
    loading->steps[loading->depth++] = (struct step){.name = name, .index = index};
}

void load_leave(struct loading *loading)
{
    loading->depth--;
}

/* --- members ------------------------------------------------------------------------------------- */

static bool has_base64(const struct member *member)
{
    return member->kind == MEMBER_TEXT || member->kind == MEMBER_FIELDS;
}

static bool is_known(const struct whole *whole, const char *name)
{
    struct span found = span_of(name);

    for (const struct member *member = whole->members; member->name != NULL; member++) {
        bool is_it = span_starts(found, member->name);
        struct span rest = span_from(found, strlen(member->name));
        if (is_it &&
            (rest.len == 0 || (has_base64(member) && span_is(rest, MEMBER_BASE64_SUFFIX)))) {
            return true;
        }
    }
    for (size_t i = 0; i < whole->extra_count; i++) {
        if (strcmp(name, whole->extras[i].name) == 0) {
            return true;
        }
    }
    return false;
}

static int check_names(struct loading *loading, const struct whole *whole)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)whole->object, name, value)
    {
        if (!is_known(whole, name)) {
            load_enter(loading, name, 0);
            return load_damaged(loading, "nothing of this name is known here");
        }
    }
    return 0;
}

/* The member as text or, for some, in base64; NULL: not there. */
static const json_t *find_member(const json_t *object, const struct member *member,
                                 char ret_name[LOAD_NAME_MAX], bool *ret_is_base64)
{
    const json_t *value = json_object_get(object, member->name);

    *ret_is_base64 = value == NULL && has_base64(member);
    (void)snprintf(ret_name, LOAD_NAME_MAX, "%s%s", member->name,
                   *ret_is_base64 ? MEMBER_BASE64_SUFFIX : ""); /* fits: names are ours */
    return *ret_is_base64 ? json_object_get(object, ret_name) : value;
}

static int load_one(struct loading *loading, const struct whole *whole, const struct member *member,
                    void *field, size_t *found_count)
{
    char name[LOAD_NAME_MAX];
    bool is_base64;
    const json_t *value = find_member(whole->object, member, name, &is_base64);

    if (value == NULL) {
        return member->need == MEMBER_OPTIONAL
                   ? 0
                   : load_damaged(loading, "\"%s\" is missing", member->name);
    }
    (*found_count)++;
    load_enter(loading, name, 0);
    int failed = is_base64 ? load_base64(loading, value, field)
                           : load_value(loading, member->kind, value, field);
    load_leave(loading);
    return failed;
}

/* Fills `ret_struct` in from the object; it is zeroed, or whatever a missing member stands for. */
static int load_members(struct loading *loading, const struct whole *whole, void *ret_struct)
{
    size_t found = 0;
    int failed = 0;

    if (!json_is_object(whole->object)) {
        return load_damaged(loading, "an object is expected");
    }
    for (const struct member *member = whole->members; member->name != NULL && failed == 0;
         member++) {
        failed = load_one(loading, whole, member, (char *)ret_struct + member->offset, &found);
    }
    for (size_t i = 0; i < whole->extra_count; i++) {
        found += whole->extras[i].value != NULL;
    }
    if (failed != 0 || found == json_object_size(whole->object)) {
        return failed;
    }
    failed = check_names(loading, whole);
    return failed != 0 ? failed : load_damaged(loading, "a member is there as text and in base64");
}

/* --- tasks --------------------------------------------------------------------------------------- */

static int load_trail(struct loading *loading, const json_t *list, struct record *record)
{
    size_t count = json_array_size(list);
    struct trail_row *rows = arena_alloc(loading->arena, (count + 1) * sizeof *rows);
    int failed = 0;

    if (!json_is_array(list)) {
        return load_damaged(loading, "a list is expected");
    }
    if (rows == NULL) {
        return load_no_memory(loading);
    }
    for (size_t i = 0; i < count && failed == 0; i++) {
        const struct whole whole = {.object = json_array_get(list, i), .members = members_trail};
        rows[i].error_class = -1;
        load_enter(loading, NULL, i);
        failed = load_members(loading, &whole, &rows[i]);
        load_leave(loading);
    }
    record->trail = rows;
    record->trail_count = count;
    return failed;
}

static int load_queue_of(struct loading *loading, const json_t *value, uint32_t *ret_queue)
{
    if (json_is_integer(value)) {
        return load_value(loading, MEMBER_U32, value, ret_queue);
    }
    struct span name = {.at = json_string_value(value), .len = json_string_length(value)};
    uint32_t number =
        name.at != NULL ? loading->target->queue_number(loading->target->user, name) : 0;
    if (number == 0) {
        return load_damaged(loading, "the name of one of the \"queues\" is expected, or a number");
    }
    *ret_queue = number;
    return 0;
}

enum { EXTRA_QUEUE, EXTRA_TRAIL, EXTRA_ANSWER, EXTRA_EDIT, EXTRA_COUNT };

static int load_extra(struct loading *loading, int which, const json_t *value,
                      struct record *record)
{
    const struct whole answer = {.object = value, .members = members_answer};
    const struct whole edit = {.object = value, .members = members_edit};

    switch (which) {
    case EXTRA_QUEUE:
        return load_queue_of(loading, value, &record->task.queue);
    case EXTRA_TRAIL:
        return load_trail(loading, value, record);
    case EXTRA_ANSWER:
        return load_members(loading, &answer, &record->answer);
    default:
        return load_members(loading, &edit, &record->edit);
    }
}

/* What is not in the tables: the queue by name, the attempts, the end, what was edited. */
static int load_extras(struct loading *loading, const struct extra extras[EXTRA_COUNT],
                       struct record *record)
{
    int failed = 0;

    if (extras[EXTRA_QUEUE].value == NULL) {
        return load_damaged(loading, "\"%s\" is missing", extras[EXTRA_QUEUE].name);
    }
    for (int i = 0; i < EXTRA_COUNT && failed == 0; i++) {
        if (extras[i].value != NULL) {
            load_enter(loading, extras[i].name, 0);
            failed = load_extra(loading, i, extras[i].value, record);
            load_leave(loading);
        }
    }
    return failed;
}

/* What the target said of it, with its place. */
static int pass_on(struct loading *loading, int failed, const struct error *said)
{
    if (failed == FAULT_CORRUPT) {
        return load_damaged(loading, "%s", said->text);
    }
    return failed != 0 ? fail(loading->err, (enum fault)failed, "%s", said->text) : 0;
}

static int load_task(struct loading *loading, const json_t *object)
{
    const struct extra extras[EXTRA_COUNT] = {
        [EXTRA_QUEUE] = {"queue", json_object_get(object, "queue")},
        [EXTRA_TRAIL] = {"trail", json_object_get(object, "trail")},
        [EXTRA_ANSWER] = {"answer", json_object_get(object, "answer")},
        [EXTRA_EDIT] = {"edit", json_object_get(object, "edit")}};
    const struct whole whole = {
        .object = object, .members = members_task, .extras = extras, .extra_count = EXTRA_COUNT};
    struct record record = {.is_bound = true};
    struct error said = {0};

    int failed = load_members(loading, &whole, &record);
    failed = failed != 0 ? failed : load_extras(loading, extras, &record);
    if (failed != 0) {
        return failed;
    }
    return pass_on(loading, loading->target->task(loading->target->user, &record, &said), &said);
}

static int load_queue(struct loading *loading, const json_t *object)
{
    const struct whole whole = {.object = object, .members = members_queue};
    struct queue_row queue = {.number = 0};
    struct error said = {0};

    int failed = load_members(loading, &whole, &queue);
    if (failed != 0) {
        return failed;
    }
    return pass_on(loading, loading->target->queue(loading->target->user, &queue, &said), &said);
}

static int load_memo(struct loading *loading, const json_t *object)
{
    const struct whole whole = {.object = object, .members = members_memo};
    struct memo memo = {.name.len = 0};
    struct error said = {0};

    int failed = load_members(loading, &whole, &memo);
    if (failed != 0) {
        return failed;
    }
    return pass_on(loading, loading->target->memo(loading->target->user, &memo, &said), &said);
}

static int load_audit(struct loading *loading, const json_t *object)
{
    const struct whole whole = {.object = object, .members = members_audit};
    struct audit_row row = {.from_state = -1, .to_state = -1};
    struct error said = {0};

    int failed = load_members(loading, &whole, &row);
    if (failed != 0) {
        return failed;
    }
    return pass_on(loading, loading->target->audit(loading->target->user, &row, &said), &said);
}

typedef int (*load_fn)(struct loading *loading, const json_t *object);

/* Each with an arena of its own: what is loaded has been copied when it ends. */
static int load_list(struct loading *loading, const struct extra *extra, load_fn load)
{
    int failed = 0;

    if (extra->value == NULL) {
        return load_damaged(loading, "\"%s\" is missing", extra->name);
    }
    load_enter(loading, extra->name, 0);
    if (!json_is_array(extra->value)) {
        return load_damaged(loading, "a list is expected");
    }
    for (size_t i = 0; i < json_array_size(extra->value) && failed == 0; i++) {
        loading->arena = arena_new(LOAD_ARENA_MAX);
        if (loading->arena == NULL) {
            return load_no_memory(loading);
        }
        load_enter(loading, NULL, i);
        failed = load(loading, json_array_get(extra->value, i));
        load_leave(loading);
        arena_free(loading->arena);
    }
    load_leave(loading);
    return failed;
}

/* --- the whole ----------------------------------------------------------------------------------- */

/* Before anything else: another format may mean anything by anything. */
static int check_format(struct loading *loading, const json_t *root)
{
    const json_t *format = json_object_get(root, "format");
    const json_t *version = json_object_get(root, "version");

    if (!json_is_string(format) || strcmp(json_string_value(format), STORE_JSON_FORMAT) != 0) {
        load_enter(loading, "format", 0);
        return load_damaged(loading, "this is not a file of tasks: \"%s\" is expected",
                            STORE_JSON_FORMAT);
    }
    if (!json_is_integer(version) || json_integer_value(version) != STORE_JSON_VERSION) {
        load_enter(loading, "version", 0);
        return load_damaged(loading, "this version of the format is not known: %d is expected",
                            STORE_JSON_VERSION);
    }
    return 0;
}

enum { ROOT_FORMAT, ROOT_VERSION, ROOT_QUEUES, ROOT_TASKS, ROOT_MEMOS, ROOT_AUDIT, ROOT_COUNT };

static int load_lists(struct loading *loading, const struct extra extras[ROOT_COUNT])
{
    int failed = load_list(loading, &extras[ROOT_QUEUES], load_queue);

    failed = failed != 0 ? failed : load_list(loading, &extras[ROOT_TASKS], load_task);
    if (failed == 0 && extras[ROOT_MEMOS].value != NULL) {
        failed = load_list(loading, &extras[ROOT_MEMOS], load_memo);
    }
    if (failed == 0 && extras[ROOT_AUDIT].value != NULL) {
        failed = load_list(loading, &extras[ROOT_AUDIT], load_audit);
    }
    return failed;
}

static int load_root(struct loading *loading, const json_t *root, struct file_head *ret_head)
{
    static const struct member members_head[] = {
        {"epoch", MEMBER_U64, MEMBER_REQUIRED, offsetof(struct file_head, epoch)},
        {"last_row", MEMBER_MS, MEMBER_REQUIRED, offsetof(struct file_head, last_row)},
        {.name = NULL},
    };
    const struct extra extras[ROOT_COUNT] = {
        [ROOT_FORMAT] = {"format", json_object_get(root, "format")},
        [ROOT_VERSION] = {"version", json_object_get(root, "version")},
        [ROOT_QUEUES] = {"queues", json_object_get(root, "queues")},
        [ROOT_TASKS] = {"tasks", json_object_get(root, "tasks")},
        [ROOT_MEMOS] = {"memos", json_object_get(root, "memos")},
        [ROOT_AUDIT] = {"audit", json_object_get(root, "audit")}};
    const struct whole whole = {
        .object = root, .members = members_head, .extras = extras, .extra_count = ROOT_COUNT};

    int failed = check_format(loading, root);
    failed = failed != 0 ? failed : load_members(loading, &whole, ret_head);
    if (failed == 0 && ret_head->epoch >= INT64_MAX) {
        load_enter(loading, "epoch", 0);
        return load_damaged(loading, "no epoch can follow this one");
    }
    return failed != 0 ? failed : load_lists(loading, extras);
}

/* The parser's own words, without the bytes that it found there (I10). Where it had no memory it says
 * many things, "invalid token" among them, but malloc has said ENOMEM. */
static int refuse_text(struct loading *loading, const json_error_t *found, int reason)
{
    struct span text = span_of(found->text);
    const char *near = strstr(found->text, " near ");

    if (json_error_code(found) == json_error_out_of_memory || reason == ENOMEM) {
        return load_no_memory(loading);
    }
    if (json_error_code(found) == json_error_null_character) {
        text = SPAN("a text cannot hold a NUL: it is written in base64");
        near = NULL;
    }
    text.len = near != NULL ? (size_t)(near - found->text) : text.len;
    unsigned line = loading->lines_before + (found->line > 0 ? (unsigned)found->line : 1);
    return fail(loading->err, FAULT_CORRUPT, "%s:%u:%d: %.*s", loading->path, line,
                found->column > 0 ? found->column : 1, SPAN_ARGS(text));
}

/* NULL: *ret_failed says why. */
static json_t *parse(struct loading *loading, int *ret_failed)
{
    json_error_t found;

    errno = 0;
    json_t *root = json_loadb(loading->json.at, loading->json.len, JSON_REJECT_DUPLICATES, &found);
    if (root == NULL) {
        *ret_failed = refuse_text(loading, &found, errno);
        return NULL;
    }
    if (errno == ENOMEM) { /* jansson's lexer leaves out what it has no memory for, and goes on */
        json_decref(root);
        *ret_failed = load_no_memory(loading);
        return NULL;
    }
    return root;
}

int load_json(const char *path, struct span json, const struct load_target *target,
              struct file_head *ret_head, struct error *err)
{
    struct loading loading = {.path = path, .json = json, .target = target, .err = err};
    struct file_head head = {0};
    int failed = 0;
    json_t *root = parse(&loading, &failed);

    if (root == NULL) {
        return failed;
    }
    failed = load_root(&loading, root, &head);
    json_decref(root);
    if (failed == 0) {
        *ret_head = head;
    }
    return failed;
}

/* --- lines --------------------------------------------------------------------------------------- */

/* Which kind it is; what is left is the record. */
static int take_kind(struct loading *loading, json_t *object, enum line_kind *ret_kind)
{
    static const char *const words[LINE_COUNT] = {
        [LINE_BEGIN] = "begin", [LINE_QUEUE] = "queue", [LINE_TASK] = "task",
        [LINE_MEMO] = "memo",   [LINE_AUDIT] = "audit", [LINE_END] = "end"};
    const char *found = json_string_value(json_object_get(object, "kind"));

    for (int i = 0; found != NULL && i < LINE_COUNT; i++) {
        if (strcmp(found, words[i]) == 0) {
            *ret_kind = (enum line_kind)i;
            return json_object_del(object, "kind") == 0 ? 0 : load_no_memory(loading);
        }
    }
    load_enter(loading, "kind", 0);
    return load_damaged(loading, "begin, queue, task, memo, audit or end is expected");
}

static int check_begin(struct loading *loading, const json_t *object)
{
    const json_t *format = json_object_get(object, "format");
    const json_t *version = json_object_get(object, "version");

    if (!json_is_string(format) || strcmp(json_string_value(format), LINES_FORMAT) != 0) {
        load_enter(loading, "format", 0);
        return load_damaged(loading, "this was not written by daruma export");
    }
    if (!json_is_integer(version) || json_integer_value(version) != LINES_VERSION) {
        load_enter(loading, "version", 0);
        return load_damaged(loading, "this version of the format is not known: %d is expected",
                            LINES_VERSION);
    }
    return 0;
}

static int load_kind(struct loading *loading, enum line_kind kind, const json_t *object)
{
    switch (kind) {
    case LINE_BEGIN:
        return check_begin(loading, object);
    case LINE_QUEUE:
        return load_queue(loading, object);
    case LINE_TASK:
        return load_task(loading, object);
    case LINE_MEMO:
        return load_memo(loading, object);
    case LINE_AUDIT:
        return load_audit(loading, object);
    case LINE_END:
    case LINE_COUNT:
    default:
        return 0;
    }
}

int load_line(const char *path, unsigned number, struct span json, const struct load_target *target,
              enum line_kind *ret_kind, struct error *err)
{
    struct loading loading = {.path = path,
                              .json = json,
                              .lines_before = number - 1,
                              .target = target,
                              .arena = arena_new(LOAD_ARENA_MAX),
                              .err = err};
    enum line_kind kind = LINE_END;
    int failed = loading.arena != NULL ? 0 : load_no_memory(&loading);
    json_t *root = failed == 0 ? parse(&loading, &failed) : NULL;

    if (root != NULL) {
        failed = take_kind(&loading, root, &kind);
        failed = failed != 0 ? failed : load_kind(&loading, kind, root);
        json_decref(root);
    }
    arena_free(loading.arena);
    if (failed == 0) {
        *ret_kind = kind;
    }
    return failed;
}
