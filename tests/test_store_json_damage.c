/* SPDX-License-Identifier: MIT
 *
 * Tests of what the JSON store does about a file that it cannot take: it says where and why, and
 * leaves the file as it is (D5.2). And of the parts behind that: escapes, base64, places in a text, and
 * drafts that can be hidden and taken back.
 */
#include "store_json_fixture.h"

#include "store/draft.h"
#include "store/store_json_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- damage -------------------------------------------------------------------------------------- */

/* The article with one thing changed. */
struct damage {
    const char *before, *after;
    const char *expected; /* line, column and reason */
};

static const struct damage damages[] = {
    /* Not JSON: in the parser's words, without the bytes that it met. */
    {"\"epoch\": 1,", "\"epoch\": 1", "5:12: '}' expected"},
    {"\"daruma tasks\"", "'daruma tasks'", "2:13: invalid token"},
    {"\"attempts\": 1,", "\"attempts\": 01,", "21:19: invalid token"},
    {"\"attempts\": 1,", "\"attempts\": 99999999999999999999,", "21:38: too big integer"},
    {"\"key\": \"article-17\"", "\"key\": \"article\\u0000\"",
     "31:28: a text cannot hold a NUL: it is written in base64"},
    {"\"key\": \"article-17\"", "\"key\": \"article\xff\"", "31:21: unable to decode byte 0xff"},
    {"\"fence\": 1,", "\"fence\": 1, \"fence\": 2,", "28:25: duplicate object key"},
    {"\"七転び八起き\"", "\"七転び八起き", "37:26: unexpected newline"},
    /* Another format. */
    {"\"daruma tasks\"", "\"daruma letters\"",
     "2:3: \"format\": this is not a file of tasks: \"daruma tasks\" is expected"},
    {"\"version\": 1", "\"version\": 2",
     "3:3: \"version\": this version of the format is not known: 1 is expected"},
    {"\"version\": 1", "\"version\": \"1\"",
     "3:3: \"version\": this version of the format is not known: 1 is expected"},
    /* Of the wrong type, or out of range. */
    {"\"epoch\": 1", "\"epoch\": -1",
     "4:3: \"epoch\": a whole number from 0 to 9223372036854775807 is expected"},
    {"\"epoch\": 1", "\"epoch\": 9223372036854775807",
     "4:3: \"epoch\": no epoch can follow this one"},
    {"\"epoch\": 1", "\"epoch\": \"18446744073709551616\"",
     "4:3: \"epoch\": a whole number from 0 to 9223372036854775807 is expected"},
    {"\"last_row\": 909980467200001", "\"last_row\": 1.5",
     "5:3: \"last_row\": a whole number from -9223372036854775808 to 9223372036854775807 is "
     "expected"},
    {"\"name\": \"articles\"", "\"name\": null", "9:7: \"name\": a text is expected"},
    {"\"paused\": true", "\"paused\": 1", "10:7: \"paused\": true or false is expected"},
    {"\"number\": 1", "\"number\": 2", "7:5: queues are numbered without gaps: this is number 1"},
    {"\"queue\": \"articles\"", "\"queue\": \"article\"",
     "16:7: \"queue\": the name of one of the \"queues\" is expected, or a number"},
    {"\"queue\": \"articles\"", "\"queue\": 4294967296",
     "16:7: \"queue\": a whole number from 0 to 4294967295 is expected"},
    {"\"01a3185c-", "\"01a3185c", "17:7: \"id\": the id of a task is expected"},
    {"\"id\": \"01a3185c-5000-7001-8000-000000000001\"", "\"id\": [0, 1]",
     "17:7: \"id\": a whole number from 1 to 9223372036854775807 is expected"},
    {"\"waiting\"", "\"delayed\"", "18:7: \"state\": no such state of a task"},
    {"\"waiting\"", "0", "18:7: \"state\": no such state of a task"},
    {"08:05:00.000Z", "08:65:00.000Z",
     "19:7: \"due_at\": a time is expected, like \"2026-11-15T10:20:30.123Z\""},
    {"\"attempts\": 1,", "\"attempts\": 4294967296,",
     "21:7: \"attempts\": a whole number from 0 to 4294967295 is expected"},
    {"\"rate_limited\": 1", "\"limited\": 1", "24:9: \"limited\": no such class of errors"},
    {"\"rate_limited\": 1", "\"quota\": true",
     "24:9: \"quota\": a whole number from 0 to 4294967295 is expected"},
    {"[\"sent\"]", "[\"sent\", \"send\"]", "30:25: no such flag"},
    {"[\"sent\"]", "\"sent\"", "30:7: \"flags\": a list is expected"},
    {"\"fingerprint\": \"6100", "\"fingerprint\": \"610",
     "32:7: \"fingerprint\": 64 hexadecimal digits are expected"},
    {"\"fingerprint\": \"61", "\"fingerprint\": \"6G",
     "32:7: \"fingerprint\": 64 hexadecimal digits are expected"},
    {"[\"article\", \"17\"]", "[\"article\"]",
     "36:9: a pair of texts is expected: [\"name\", \"value\"]"},
    {"[\"title\", \"七", "[\"七:\", \"七",
     "37:9: a name without \":\" and a value on one line are expected"},
    {"[\"retry-after\", \"5\"]", "[\"retry-after\", \"5\\n\"]",
     "61:11: a name without \":\" and a value on one line are expected"},
    {"\"class\": \"rate_limited\"", "\"class\": \"rate\"",
     "49:11: \"class\": no such class of errors"},
    {"\"sent\": \"yes\"", "\"sent\": true",
     "51:11: \"sent\": \"no\", \"maybe\" or \"yes\" is expected"},
    {"\"body_base64\": \"/wBh\"", "\"body_base64\": \"/wB\"",
     "63:9: \"body_base64\": base64 is expected"},
    {"\"body_base64\": \"/wBh\"", "\"body_base64\": 1",
     "63:9: \"body_base64\": base64 is expected"},
    {"\"status\": 429,\n        \"settled_by\"", "\"status\": 2147483648, \"settled_by\"",
     "58:9: \"status\": a whole number from -2147483648 to 2147483647 is expected"},
    /* What is missing, unknown or there twice. */
    {"\"epoch\": 1,", "", "1:1: \"epoch\" is missing"},
    {"\"state\": \"waiting\",", "", "15:5: \"state\" is missing"},
    {"\"queue\": \"articles\",", "", "15:5: \"queue\" is missing"},
    {"\"sent\": \"yes\",", "", "44:9: \"sent\" is missing"},
    {"\"key\"", "\"kee\"", "31:7: \"kee\": nothing of this name is known here"},
    {"\"version\": 1,", "\"version\": 1, \"comment\": {\"epoch\": [1, {}]},",
     "3:17: \"comment\": nothing of this name is known here"},
    {"\"attempt\": 1,", "\"attempt\": 1, \"七\": 1,",
     "45:25: \"七\": nothing of this name is known here"},
    {"\"id\": ", "\"id_base64\": ", "15:5: \"id\" is missing"},
    {"\"body_base64\"", "\"body\": \"\", \"body_base64\"",
     "57:7: \"answer\": a member is there as text and in base64"},
};

static const struct damage letter_damages[] = {
    {"\"failed_class\": \"quota\"", "\"failed_class\": \"money\"",
     "19:7: \"failed_class\": no such class of errors"},
    {"\"failed_class\": \"quota\"", "\"failed_class\": -1",
     "19:7: \"failed_class\": a whole number from 0 to 4294967295 is expected"},
    {"\"probe_count\": 2", "\"probe_count\": \"2\"",
     "23:7: \"probe_count\": a whole number from 0 to 4294967295 is expected"},
    {"\"probe_due\": \"2027", "\"probe_due\": \"27",
     "24:7: \"probe_due\": a time is expected, like \"2026-11-15T10:20:30.123Z\""},
    {"\"key_bound\": false", "\"key_bound\": 0", "26:7: \"key_bound\": true or false is expected"},
    {"[\"headers\", \"body\"]", "[\"headers\", \"method\"]", "30:32: no such flag"},
    {"\"note\": \"the customer", "\"notes\": \"the customer",
     "32:9: \"notes\": nothing of this name is known here"},
    {"\"name\": \"redrive\",", "", "41:5: \"name\" is missing"},
    {"\"value\": \"{\\\"after\\\": 2}\"", "\"value\": \"\"",
     "41:5: a name of 1 to 255 bytes and a value are expected"},
    {"\"number\": 2", "\"number\": 1", "58:5: acts are numbered upwards: more than 1 is expected"},
    {"\"number\": 1", "\"number\": 9223372036854775807",
     "47:5: acts are numbered upwards: more than 0 is expected"},
    {"\"from\": \"dead\"", "\"from\": \"lost\"", "54:7: \"from\": no such state of a task"},
    {"\"act\": \"redrive\"", "\"act\": 7", "51:7: \"act\": a text is expected"},
    {"\"task\": \"01a3", "\"task\": \"", "52:7: \"task\": the id of a task is expected"},
    {"\"at\": \"2027-01-15T08:00:00.005Z\",", "", "58:5: \"at\" is missing"},
};

static char *replaced(const char *whole, const struct damage *damage)
{
    const char *at = strstr(whole, damage->before);
    size_t room = strlen(whole) + strlen(damage->after) + 1;
    char *text = malloc(room);

    assert_non_null(at);
    assert_non_null(text);
    (void)snprintf(text, room, "%.*s%s%s", (int)(at - whole), whole, damage->after,
                   at + strlen(damage->before));
    return text;
}

/* Refused in these words, and the file is the same file with the same bytes. */
static void expect_refused(struct span text, int fault, const char *expected)
{
    struct store *store = NULL;
    struct error err = {0};
    struct stat before, after;
    char wanted[ERROR_TEXT_MAX];
    size_t len;

    put_file(PATH, text);
    assert_int_equal(stat(PATH, &before), 0);
    assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &store, &err), fault);
    (void)snprintf(wanted, sizeof wanted, PATH "%s", expected);
    assert_string_equal(err.text, wanted);
    assert_null(store);
    assert_int_equal(stat(PATH, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_memory_equal(&after.st_mtim, &before.st_mtim, sizeof after.st_mtim);
    assert_int_not_equal(access(PATH ".new", F_OK), 0);
    char *found = file_text(PATH, &len);
    assert_int_equal(len, text.len);
    assert_memory_equal(found, text.at, len);
    free(found);
}

static void expect_all_refused(const char *whole, const struct damage *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char expected[ERROR_TEXT_MAX];
        char *text = replaced(whole, &list[i]);
        (void)snprintf(expected, sizeof expected, ":%s", list[i].expected);
        expect_refused(span_of(text), FAULT_CORRUPT, expected);
        free(text);
    }
}

static void a_damaged_file_is_refused_with_its_place_and_left_alone(void **state) /* D5.2 */
{
    (void)state;
    expect_all_refused(fixture_article, damages, sizeof damages / sizeof *damages);
    expect_all_refused(fixture_letter, letter_damages,
                       sizeof letter_damages / sizeof *letter_damages);
}

static void a_file_that_is_no_object_is_refused(void **state)
{
    (void)state;
    expect_refused(SPAN(""), FAULT_CORRUPT, ":1:1: '[' or '{' expected");
    expect_refused(SPAN("\n\n  x"), FAULT_CORRUPT, ":3:3: '[' or '{' expected");
    expect_refused(SPAN("[]\n"), FAULT_CORRUPT,
                   ":1:1: \"format\": this is not a file of tasks: \"daruma tasks\" is expected");
    expect_refused(SPAN("{\"format\": \"daruma tasks\", \"version\": 1}{"), FAULT_CORRUPT,
                   ":1:41: end of file expected");
    expect_refused(SPAN("{\"format\": \"daruma tasks\", \"version\": 1, \"epoch\": 1,\n"
                        "\"last_row\": 0, \"queues\": 7, \"tasks\": []}"),
                   FAULT_CORRUPT, ":2:16: \"queues\": a list is expected");
    expect_refused(SPAN("{\"format\": \"daruma tasks\", \"version\": 1, \"epoch\": 1,\n"
                        "\"last_row\": 0, \"queues\": []}"),
                   FAULT_CORRUPT, ":1:1: \"tasks\" is missing");
    expect_refused(SPAN("{\"format\": \"daruma tasks\", \"version\": 1, \"epoch\": 1,\n"
                        "\"last_row\": 0, \"queues\": [], \"tasks\": [[]]}"),
                   FAULT_CORRUPT, ":2:40: an object is expected");
    expect_refused(SPAN("\0\0\0\0"), FAULT_CORRUPT, ":1:1: '[' or '{' expected");
}

/* Whatever was cut off, from nothing to all but the last bracket. */
static void a_truncated_file_is_never_taken(void **state) /* I8 */
{
    size_t len = strlen(fixture_article) - sizeof "}\n" + 1;

    (void)state;
    for (; len > 0; len -= len > 16 ? 16 : 1) {
        struct store *store = NULL;
        struct error err = {0};
        put_file(PATH, (struct span){.at = fixture_article, .len = len});
        assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &store, &err), FAULT_CORRUPT);
        struct stat status;
        assert_int_equal(stat(PATH, &status), 0);
        assert_int_equal(status.st_size, len);
    }
}

static const char task_text[] =
    "{\"queue\": 1, \"id\": \"01a3185c-5000-7001-8000-00000000000%d\", \"state\": \"waiting\",\n"
    " \"due_at\": 0, \"attempts\": 0, \"fingerprint\": "
    "\"6100000000000000000000000000000000000000000000000000000000000000\"}";
static const char head_text[] = "{\"format\": \"daruma tasks\", \"version\": 1, \"epoch\": 1, "
                                "\"last_row\": 0,\n\"queues\": [%s],\n\"tasks\": [%s%s%s]}";

static void two_tasks_of_one_id_are_refused(void **state)
{
    char one[512], other[512], text[2048];

    (void)state;
    (void)snprintf(one, sizeof one, task_text, 1);
    (void)snprintf(other, sizeof other, task_text, 2); /* the same row: it is found by that */
    (void)snprintf(text, sizeof text, head_text, "", one, ",\n  ", other);
    expect_refused(span_of(text), FAULT_CORRUPT, ":5:3: another task has this id");
}

static void two_queues_of_one_name_are_refused_unless_one_is_dropped(void **state)
{
    char text[2048];

    (void)state;
    (void)snprintf(text, sizeof text, head_text,
                   "{\"number\": 1, \"name\": \"a\"}, {\"number\": 2, \"name\": \"a\"}", "", "",
                   "");
    expect_refused(span_of(text), FAULT_CORRUPT, ":2:40: another queue has this name");
    (void)snprintf(text, sizeof text, head_text,
                   "{\"number\": 1, \"name\": \"a\", \"dropped\": true}, "
                   "{\"number\": 2, \"name\": \"a\"}",
                   "", "", "");
    put_file(PATH, span_of(text));
    store_close(open_at(SPEC));
}

static void more_tasks_than_it_may_hold_are_refused(void **state)
{
    FILE *file = fopen(PATH, "w");
    struct store *store = NULL;
    struct error err = {0};

    (void)state;
    assert_non_null(file);
    fprintf(file, "{\"format\": \"daruma tasks\", \"version\": 1, \"epoch\": 1, \"last_row\": 0,\n"
                  "\"queues\": [],\n\"tasks\": [\n");
    for (int i = 0; i <= STORE_JSON_LOAD_MAX; i++) {
        fprintf(file,
                "{\"queue\": 1, \"id\": [%d, 1], \"state\": \"waiting\", \"due_at\": 0, "
                "\"attempts\": 0, \"fingerprint\": \"%064d\"}%s\n",
                i + 1, i, i < STORE_JSON_LOAD_MAX ? "," : "");
    }
    fprintf(file, "]}\n");
    fclose(file);
    assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &store, &err), FAULT_CORRUPT);
    assert_string_equal(err.text,
                        PATH ":20004:1: this is one task more than the 20000 that may be");
}

static void a_file_that_is_too_long_or_no_file_is_refused(void **state)
{
    struct store *store = NULL;
    struct error err = {0};

    (void)state;
    put_file(PATH, SPAN("{"));
    assert_int_equal(truncate(PATH, (off_t)STORE_JSON_BYTES_ENDS_MAX + 1), 0);
    assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &store, &err), FAULT_LIMIT);
    assert_string_equal(err.text, PATH " has more than 268435456 bytes");
    assert_int_equal(unlink(PATH), 0);
    assert_int_equal(mkdir(PATH, 0700), 0);
    assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &store, &err), FAULT_IO);
    assert_string_equal(err.text, PATH " is not a file");
    assert_int_equal(rmdir(PATH), 0);
    assert_int_equal(mkfifo(PATH, 0600), 0);
    assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &store, &err), FAULT_IO);
    assert_int_equal(unlink(PATH), 0);
    assert_int_equal(symlink("no/where", PATH), 0);
    assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &store, &err), FAULT_IO);
    assert_int_equal(store_open(SPAN("json:no/folder/here"), &fixture_keep, &store, &err),
                     FAULT_IO);
    assert_non_null(strstr(err.text, "no/folder/here.lock: cannot be opened: "));
}

/* --- parts --------------------------------------------------------------------------------------- */

static void strings_are_escaped_so_that_a_terminal_may_show_them(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    assert_int_equal(text_add_string(&buf, SPAN("a\"\\\b\f\n\r\t\x01\x1f\x7f\xc2\x80\xc2\x9f/七é")),
                     0);
    assert_int_equal(buf_add(&buf, SPAN("\0")), 0);
    assert_string_equal(buf.at,
                        "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\\u0080\\u009f/七é\"");
    buf_done(&buf);
}

static void base64_is_that_of_rfc_4648_and_no_other(void **state)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xff\xfe\xfd", "//79"}};
    static const char *const wrong[] = {"Z",     "Zg",   "Zg=",   "Zg===",    "=Zg=",
                                        "Zh==",  "Zm9=", "Zm9v=", "Zg==Zg==", "Zm 9v",
                                        "Zm\n9", "Z===", "===="};
    struct buf buf;
    char bytes[64];
    size_t len;

    (void)state;
    buf_init(&buf, 1000);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        buf_clear(&buf);
        assert_int_equal(text_add_base64(&buf, span_of(pairs[i][0])), 0);
        expect_span(buf_span(&buf), span_of(pairs[i][1]));
        assert_true(text_from_base64(span_of(pairs[i][1]), bytes, &len));
        expect_span((struct span){.at = bytes, .len = len}, span_of(pairs[i][0]));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(text_from_base64(span_of(wrong[i]), bytes, &len));
    }
    buf_done(&buf);
}

static void places_are_found_by_the_way_to_them(void **state)
{
    static const struct {
        const char *json;
        struct step steps[3];
        size_t count;
        unsigned line, column;
    } cases[] = {
        {"  {}", {{0}}, 0, 1, 3},
        {"{\"a\": 1}", {{"a", 0}}, 1, 1, 2},
        {"{\"b\": {\"a\": 0},\n \"a\": 1}", {{"a", 0}}, 1, 2, 2},
        {"{\"\\\"a\": \"\\\\\", \"a\": []}", {{"a", 0}}, 1, 1, 15},
        {"{\"七\": [[1, 2], \"]\",\n  true]}", {{"七", 0}, {NULL, 2}}, 2, 2, 3},
        {"{\"七\": [[1, 2], \"]\", {\"a\": null}]}", {{"七", 0}, {NULL, 2}, {"a", 0}}, 3, 1, 22},
        {"{\"a\": [1]}", {{"a", 0}, {NULL, 7}}, 2, 1, 2},
        {"{\"a\": [1]}", {{"b", 0}}, 1, 1, 1},
        {"[1, 2]", {{"a", 0}}, 1, 1, 1},
        {"", {{"a", 0}}, 1, 1, 1},
        {"{\"a", {{"b", 0}}, 1, 1, 1},
        {"[\x01\x02", {{NULL, 3}}, 1, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned line, column;
        place_find(span_of(cases[i].json), cases[i].steps, cases[i].count, &line, &column);
        assert_int_equal(line, cases[i].line);
        assert_int_equal(column, cases[i].column);
    }
}

static bool has(struct store *store, int number)
{
    struct arena *arena = arena_new(CONTRACT_ARENA_MAX);
    struct record record;
    bool found;

    assert_int_equal(store_read_task(store, id_of(number), 0, arena, &record, &found, NULL), 0);
    arena_free(arena);
    return found;
}

static void a_draft_can_be_hidden_shown_and_taken_back(void **state) /* I9 */
{
    struct store *store = open_at("memory");
    struct store_memory *memory = (struct store_memory *)store;
    struct op first = record_of(1, SPAN("x")), second = record_of(2, SPAN("x"));
    struct op third = record_of(3, SPAN("x")), lease = lease_of(3);
    struct op purge = {.kind = OP_PURGE, .task.id = id_of(1)};
    struct op queue = {.kind = OP_QUEUE, .queue.name = SPAN("q")};
    struct op *ops[] = {&purge, &third, &lease, &queue};

    (void)state;
    apply_done(store, &first);
    apply_done(store, &second);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(draft_begin(memory, ops, 4, NULL), 0);
        assert_true(!has(store, 1) && has(store, 2) && has(store, 3));
        draft_hide(memory);
        assert_true(has(store, 1) && has(store, 2) && !has(store, 3));
        assert_int_equal(draft_find_queue(memory, SPAN("q")), 0);
        draft_show(memory);
        assert_true(!has(store, 1) && has(store, 2) && has(store, 3));
        assert_int_equal(draft_find_queue(memory, SPAN("q")), 1);
        if (round == 0) {
            draft_drop(memory);
            assert_true(has(store, 1) && has(store, 2) && !has(store, 3));
        } else {
            draft_keep(memory);
        }
    }
    assert_true(!has(store, 1) && has(store, 2) && has(store, 3));
    store_close(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_file_is_refused_with_its_place_and_left_alone),
        cmocka_unit_test(a_file_that_is_no_object_is_refused),
        cmocka_unit_test(a_truncated_file_is_never_taken),
        cmocka_unit_test(two_tasks_of_one_id_are_refused),
        cmocka_unit_test(two_queues_of_one_name_are_refused_unless_one_is_dropped),
        cmocka_unit_test(more_tasks_than_it_may_hold_are_refused),
        cmocka_unit_test(a_file_that_is_too_long_or_no_file_is_refused),
        cmocka_unit_test(strings_are_escaped_so_that_a_terminal_may_show_them),
        cmocka_unit_test(base64_is_that_of_rfc_4648_and_no_other),
        cmocka_unit_test(places_are_found_by_the_way_to_them),
        cmocka_unit_test(a_draft_can_be_hidden_shown_and_taken_back),
    };
    return HARNESS_RUN(argc, argv, tests);
}
