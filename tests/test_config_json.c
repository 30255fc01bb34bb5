/* SPDX-License-Identifier: MIT
 *
 * Tests of queues and policies as JSON: what is read, what is refused and in which words, and the
 * property that what is written reads back the same. DARUMA_CONFIG_QUEUES sets how many queues the
 * property is tried on.
 */
#include "certificate.h"
#include "harness.h"

#include "config/config.h"

#include <daruma/dice.h>

#include <stdio.h>
#include <stdlib.h>

#define ARENA_BYTES  1000000
#define QUEUES_USUAL 3000

static struct queue_settings read_queue(const char *json, struct arena *arena)
{
    struct queue_settings settings;
    struct error err = {0};

    if (config_parse_queue(span_of(json), SPAN("q"), NULL, arena, &settings, &err) != 0) {
        fail_msg("%s: %s in %s", err.field, err.text, json);
    }
    return settings;
}

static struct daruma_policy read_policy(const char *json, const struct config *config,
                                        struct arena *arena)
{
    struct daruma_policy policy;
    struct error err = {0};

    if (config_parse_policy(span_of(json), config, arena, &policy, &err) != 0) {
        fail_msg("%s: %s in %s", err.field, err.text, json);
    }
    return policy;
}

static void an_empty_object_is_a_queue_of_defaults(void **state) /* E1 */
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings settings = read_queue(" {\n\t} ", arena);

    (void)state;
    assert_true(span_is(settings.name, "q"));
    assert_int_equal(settings.policy.attempts_max, 10);
    assert_int_equal(settings.policy.rules[DARUMA_CLASS_QUOTA].backoff.base_ms, 300000);
    assert_int_equal(settings.concurrency, QUEUE_CONCURRENCY);
    assert_int_equal(settings.host_concurrency, QUEUE_HOST_CONCURRENCY);
    assert_int_equal(settings.lease_ms, QUEUE_LEASE_MS);
    assert_int_equal(settings.target_count, 0);
    arena_free(arena);
}

static void a_queue_has_the_shape_of_the_file(void **state) /* E1 */
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings settings = read_queue(
        "{\"name\":\"q\",\"policy\":\"sync\",\"targets\":[{\"name\":\"bq\",\"url\":"
        "\"http:\\/\\/h\\/"
        "\",\"headers\":[{\"name\":\"a\",\"value\":\"\\\"\\u00e9\\ud83d\\ude00\"}],"
        "\"timeout\":\"1m30s\",\"repeatable\":false}],\"rate\":{\"per_second\":0.5,\"burst\":1E1},"
        "\"concurrency\":1,\"host_concurrency\":2,\"lease\":\"100ms\"}",
        arena);

    (void)state;
    assert_int_equal(settings.policy.rules[DARUMA_CLASS_RATE_LIMITED].attempts_max, 4);
    assert_true(span_is(settings.targets[0].url, "http://h/"));
    assert_true(span_is(settings.targets[0].headers, "a: \"\xc3\xa9\xf0\x9f\x98\x80\n"));
    assert_int_equal(settings.targets[0].timeout_ms, 90000);
    assert_false(settings.targets[0].repeatable);
    assert_true(settings.rate_per_second == 0.5 && settings.rate_burst == 10);
    assert_int_equal(settings.concurrency, 1);
    assert_int_equal(settings.host_concurrency, 2);
    assert_int_equal(settings.lease_ms, 100);
    arena_free(arena);
}

static void a_policy_is_an_object_or_a_name(void **state)
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct config *config = NULL;
    struct daruma_policy policy;
    struct error err = {0};

    (void)state;
    assert_int_equal(
        config_parse(SPAN("policies: [{name: sync, max_attempts: 2}]"), "f", &config, &err), 0);
    assert_int_equal(read_policy("\"sync\"", NULL, arena).attempts_max, 10);
    assert_int_equal(read_policy("\"sync\"", config, arena).attempts_max, 2);
    assert_int_equal(read_policy("{}", config, arena).attempts_max, 10);
    policy =
        read_policy("{\"max_attempts\":7,\"quota\":{\"schedule\":[\"1s\",\"2s\"]}}", NULL, arena);
    assert_int_equal(policy.attempts_max, 7);
    assert_int_equal(policy.rules[DARUMA_CLASS_QUOTA].backoff.schedule_ms[1], 2000);
    assert_int_equal(config_parse_policy(SPAN("7"), config, arena, &policy, &err), FAULT_INPUT);
    assert_string_equal(err.text, "found 7, expected the name of a policy, or a policy");
    assert_int_equal(config_parse_policy(SPAN("\"x\""), config, arena, &policy, NULL), FAULT_INPUT);
    config_free(config);
    arena_free(arena);
}

static void json_takes_nothing_from_the_environment(void **state) /* I10 */
{
    struct arena *arena = arena_new(ARENA_BYTES);

    (void)state;
    assert_int_equal(setenv("HOST", "stolen", 1), 0);
    struct queue_settings settings =
        read_queue("{\"targets\":[{\"name\":\"t\",\"url\":\"http://h/${HOST}$$\"}]}", arena);
    assert_true(span_is(settings.targets[0].url, "http://h/${HOST}$$"));
    arena_free(arena);
}

static void a_queue_is_written_in_the_shape_of_the_file(void **state) /* E1 */
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct buf json;

    (void)state;
    buf_init(&json, ARENA_BYTES);
    struct queue_settings settings = read_queue(
        "{\"policy\":\"sync\",\"rate\":{\"per_second\":500,\"burst\":100},\"lease\":\"90s\","
        "\"targets\":[{\"name\":\"t\",\"url\":\"http://h\",\"headers\":[{\"name\":\"a\",\"value\":"
        "\"\\\"b\\\\\"}]}]}",
        arena);
    assert_int_equal(config_render_queue(&settings, &json), 0);
    static const char expected[] =
        "{\"name\":\"q\",\"policy\":{\"max_attempts\":10,\"transient\":{\"backoff\":"
        "\"exponential\","
        "\"base\":\"1s\",\"cap\":\"1h\",\"jitter\":\"none\"},\"rate_limited\":{\"backoff\":"
        "\"fixed\",\"base\":\"10s\",\"cap\":\"1h\",\"jitter\":\"none\",\"max_attempts\":4}},"
        "\"targets\":[{\"name\":\"t\",\"url\":\"http://h\",\"headers\":[{\"name\":\"a\",\"value\":"
        "\"\\\"b\\\\\"}],\"timeout\":\"30s\",\"repeatable\":true}],\"rate\":{\"per_second\":500,"
        "\"burst\":100},\"concurrency\":64,\"host_concurrency\":32,\"lease\":\"1m30s\"}";
    assert_int_equal(json.len, sizeof expected - 1);
    assert_memory_equal(json.at, expected, json.len);
    buf_clear(&json);
    assert_int_equal(config_show_queue(&settings, &json), 0);
    assert_int_equal(buf_add(&json, (struct span){"", 1}), 0);
    assert_non_null(strstr(json.at, "{\"name\":\"a\",\"value\":\"(hidden)\"}"));
    buf_done(&json);
    arena_free(arena);
}

static void a_buf_that_is_too_small_stays_as_it_was(void **state)
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings settings = read_queue("{}", arena);
    struct buf json;

    (void)state;
    for (size_t max = 1; max < 250; max++) {
        buf_init(&json, max);
        assert_int_equal(buf_add(&json, SPAN("x")), 0);
        assert_int_equal(config_render_queue(&settings, &json), FAULT_LIMIT);
        assert_int_equal(json.len, 1);
        buf_done(&json);
    }
    arena_free(arena);
}

/* --- what is written reads back the same ------------------------------------------------------ */

struct writer {
    struct daruma_dice dice;
    char text[16384];
    size_t len;
};

static uint64_t roll(struct writer *writer, uint64_t below)
{
    return daruma_dice_roll(&writer->dice) % below;
}

__attribute__((format(printf, 2, 3))) static void add(struct writer *writer, const char *format,
                                                      ...)
{
    va_list arguments;

    va_start(arguments, format);
    writer->len += (size_t)vsnprintf(writer->text + writer->len, sizeof writer->text - writer->len,
                                     format, arguments);
    va_end(arguments);
    assert_true(writer->len < sizeof writer->text);
}

/* From milliseconds to a century, small ones as often as large ones. */
static uint64_t some_ms(struct writer *writer, uint64_t least, uint64_t most)
{
    uint64_t ms = daruma_dice_roll(&writer->dice) >> (22 + roll(writer, 42));

    return ms < least ? least : ms > most ? most : ms;
}

static void add_rule(struct writer *writer, const char *word)
{
    static const char *const kinds[] = {"exponential", "fixed", "linear"};
    static const char *const jitters[] = {"\"none\"", "\"full\"", "\"equal\"", "\"decorrelated\"",
                                          "0",        "1",        "0.1"};
    uint64_t base_ms = some_ms(writer, 1, (uint64_t)DARUMA_BACKOFF_LIMIT_MS);

    add(writer, ",\"%s\":{\"hint_cap\":\"%llums\"", word,
        (unsigned long long)some_ms(writer, 1, (uint64_t)DARUMA_BACKOFF_LIMIT_MS));
    switch (roll(writer, 4)) {
    case 0:
        add(writer, ",\"backoff\":\"%s\"", kinds[roll(writer, 3)]);
        break;
    case 1:
        add(writer, ",\"doublings\":%llu", (unsigned long long)roll(writer, 65));
        break;
    case 2:
        for (uint64_t i = 0, count = 1 + roll(writer, 64); i < count; i++) {
            add(writer, "%s\"%llums\"%s", i == 0 ? ",\"schedule\":[" : ",",
                (unsigned long long)some_ms(writer, 0, 1u << 31), i + 1 == count ? "]" : "");
        }
        break;
    default:
        break;
    }
    if (roll(writer, 2) == 0) {
        add(writer, ",\"base\":\"%llums\"", (unsigned long long)base_ms);
        if (roll(writer, 2) == 0) {
            add(writer, ",\"cap\":\"%llums\"",
                (unsigned long long)some_ms(writer, base_ms, (uint64_t)DARUMA_BACKOFF_LIMIT_MS));
        }
    }
    if (roll(writer, 2) == 0) {
        add(writer, ",\"jitter\":%s", jitters[roll(writer, 7)]);
    } else if (roll(writer, 2) == 0) {
        add(writer, ",\"jitter\":0.%llu", (unsigned long long)daruma_dice_roll(&writer->dice));
    }
    if (roll(writer, 2) == 0) {
        add(writer, ",\"max_attempts\":%llu", (unsigned long long)(1 + roll(writer, 3)));
    }
    add(writer, "}");
}

static void add_target(struct writer *writer, uint64_t index)
{
    add(writer, "%s{\"name\":\"t%llu\",\"url\":\"http://h:%llu/\"", index > 0 ? "," : "",
        (unsigned long long)index, (unsigned long long)(1 + roll(writer, 65535)));
    add(writer, ",\"timeout\":\"%llums\",\"repeatable\":%s",
        (unsigned long long)some_ms(writer, 1, 86400000), roll(writer, 2) == 0 ? "true" : "false");
    if (roll(writer, 2) == 0) {
        add(writer, ",\"method\":\"PUT\",\"ca\":\"a \\\"b\\\\c\\u2028\xe2\x80\xa9\\u0085.pem\"");
    }
    for (uint64_t i = 0, count = roll(writer, 4); i < count; i++) {
        add(writer, "%s{\"name\":\"x-%llu\",\"value\":\" \\\"\\\\\\ud83d\\ude00%llu:\"}%s",
            i == 0 ? ",\"headers\":[" : ",", (unsigned long long)i,
            (unsigned long long)roll(writer, 9), i + 1 == count ? "]" : "");
    }
    add(writer, "}");
}

static void add_queue(struct writer *writer)
{
    writer->len = 0;
    add(writer, "{\"policy\":{\"max_attempts\":%llu", (unsigned long long)(1 + roll(writer, 20)));
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        if (roll(writer, 2) == 0) {
            add_rule(writer, daruma_class_text((enum daruma_class)i));
        }
    }
    add(writer, "},\"targets\":[");
    for (uint64_t i = 0, count = roll(writer, 4); i < count; i++) {
        add_target(writer, i);
    }
    add(writer, "],\"concurrency\":%llu,\"lease\":\"%llums\"",
        (unsigned long long)(1 + roll(writer, 10000)),
        (unsigned long long)some_ms(writer, 100, 43200000));
    if (roll(writer, 2) == 0) {
        add(writer, ",\"rate\":{\"per_second\":%llu.%llu}",
            (unsigned long long)(1 + roll(writer, 9)),
            (unsigned long long)daruma_dice_roll(&writer->dice));
    }
    add(writer, "}");
}

static void assert_same_backoff(const struct daruma_backoff *one,
                                const struct daruma_backoff *other)
{
    assert_int_equal(one->kind, other->kind);
    assert_int_equal(one->jitter, other->jitter);
    assert_int_equal(one->base_ms, other->base_ms);
    assert_int_equal(one->max_ms, other->max_ms);
    assert_true(one->jitter_factor == other->jitter_factor);
    assert_int_equal(one->doublings, other->doublings);
    assert_int_equal(one->schedule_count, other->schedule_count);
    for (uint32_t i = 0; i < one->schedule_count; i++) {
        assert_int_equal(one->schedule_ms[i], other->schedule_ms[i]);
    }
}

static void assert_same_queue(const struct queue_settings *one, const struct queue_settings *other)
{
    assert_true(span_equal(one->name, other->name));
    assert_int_equal(one->policy.attempts_max, other->policy.attempts_max);
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        const struct daruma_rule *rule = &one->policy.rules[i], *back = &other->policy.rules[i];
        assert_int_equal(rule->attempts_max, back->attempts_max);
        assert_int_equal(rule->hint_cap_ms, back->hint_cap_ms);
        assert_same_backoff(&rule->backoff, &back->backoff);
    }
    assert_int_equal(one->target_count, other->target_count);
    for (size_t i = 0; i < one->target_count; i++) {
        const struct target *target = &one->targets[i], *back = &other->targets[i];
        assert_true(span_equal(target->name, back->name));
        assert_true(span_equal(target->url, back->url));
        assert_true(span_equal(target->method, back->method));
        assert_true(span_equal(target->headers, back->headers));
        assert_true(span_equal(target->ca, back->ca));
        assert_int_equal(target->timeout_ms, back->timeout_ms);
        assert_int_equal(target->repeatable, back->repeatable);
    }
    assert_true(one->rate_per_second == other->rate_per_second);
    assert_true(one->rate_burst == other->rate_burst);
    assert_int_equal(one->concurrency, other->concurrency);
    assert_int_equal(one->host_concurrency, other->host_concurrency);
    assert_int_equal(one->lease_ms, other->lease_ms);
}

static void what_is_written_reads_back_the_same(void **state) /* E1 */
{
    struct writer writer = {.dice = daruma_dice_seed(harness_seed())};
    uint64_t count = harness_size("DARUMA_CONFIG_QUEUES", QUEUES_USUAL);

    (void)state;
    certificate_write("a \"b\\c\xe2\x80\xa8\xe2\x80\xa9\xc2\x85.pem");
    for (uint64_t i = 0; i < count; i++) {
        struct arena *arena = arena_new(ARENA_BYTES);
        struct buf json;
        buf_init(&json, ARENA_BYTES);
        add_queue(&writer);
        struct queue_settings settings = read_queue(writer.text, arena);
        assert_int_equal(config_render_queue(&settings, &json), 0);
        assert_int_equal(buf_add(&json, (struct span){"", 1}), 0); /* a NUL, for read_queue */
        struct queue_settings back = read_queue(json.at, arena);
        assert_same_queue(&settings, &back);
        buf_done(&json);
        arena_free(arena);
    }
}

static void every_built_in_policy_reads_back_the_same(void **state)
{
    (void)state;
    for (uint32_t i = 0; daruma_policy_name(i) != NULL; i++) {
        struct arena *arena = arena_new(ARENA_BYTES);
        char text[64];
        struct buf json;
        buf_init(&json, ARENA_BYTES);
        (void)snprintf(text, sizeof text, "{\"policy\":\"%s\"}", daruma_policy_name(i));
        struct queue_settings settings = read_queue(text, arena);
        assert_int_equal(config_render_queue(&settings, &json), 0);
        assert_int_equal(buf_add(&json, (struct span){"", 1}), 0);
        struct queue_settings back = read_queue(json.at, arena);
        assert_same_queue(&settings, &back);
        buf_done(&json);
        arena_free(arena);
    }
}

/* --- what is refused --------------------------------------------------------------------------- */

static void json_errors_name_the_field_and_no_file(void **state) /* E1 */
{
    static const struct {
        const char *json, *field, *text;
    } mistakes[] = {
        {"", "", "not valid JSON"},
        {"{\"lease\":\"1s\",}", "", "not valid JSON"},
        {"{\"lease\":\"1s\"} x", "", "not valid JSON"},
        {"{lease: 1s}", "", "not valid JSON"},
        {"# c\n{}", "", "not valid JSON"},
        {"{\"a\":\"\xff\"}", "", "not UTF-8"},
        {"[]", "", "found a list, expected an object"},
        {"null", "", "found nothing, expected an object"},
        {"{\"leese\":\"1s\"}", "leese", "unknown key, did you mean lease?"},
        {"{\"le\\u0061se\":\"1s\",\"lease\":\"1s\"}", "lease",
         "found a second time, expected each key once"},
        {"{\"lease\":30}", "lease",
         "found 30, expected a duration such as 250ms, 10s, 5m, 24h or 30d"},
        {"{\"concurrency\":\"64\"}", "concurrency",
         "found \"64\", expected a whole number from 1 to 10000"},
        {"{\"targets\":[{\"name\":\"t\",\"url\":\"http://h\",\"timeout\":\"5x\"}]}",
         "targets[0].timeout",
         "found \"5x\", expected a duration such as 250ms, 10s, 5m, 24h or 30d"},
        {"{\"targets\":[{\"name\":5,\"url\":\"http://h\"}]}", "targets[0].name",
         "found 5, expected a name of letters, digits, - _ and ., up to 100"},
        {"{\"targets\":[{\"name\":\"t\",\"url\":\"http://h\",\"ca\":\"\\ud800\"}]}",
         "targets[0].ca", "not valid JSON: an escape that is half a character"},
        {"{\"targets\":[{\"name\":\"t\",\"url\":\"http://h\",\"ca\":\"\\u0000\"}]}",
         "targets[0].ca", "found \"\", expected the path of a PEM file"},
        {"{\"policy\":{\"transient\":{\"base\":\"1\"}}}", "policy.transient.base",
         "found \"1\", expected a duration such as 250ms, 10s, 5m, 24h or 30d"},
        {"{\"policy\":\"nope\"}", "policy",
         "found \"nope\", expected a policy: default, sync, articles, llm_jobs, client"},
        {"{\"name\":\"other\"}", "name", "found \"other\", expected the name of this queue, q"},
        {"{\"rate\":null}", "rate", "found nothing, expected an object"},
        {"[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", "[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]",
         "nested deeper than 16"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct arena *arena = arena_new(ARENA_BYTES);
        struct queue_settings settings;
        struct error err = {0};
        assert_int_equal(
            config_parse_queue(span_of(mistakes[i].json), SPAN("q"), NULL, arena, &settings, &err),
            FAULT_INPUT);
        assert_string_equal(err.field, mistakes[i].field);
        assert_string_equal(err.text, mistakes[i].text);
        arena_free(arena);
    }
}

static void a_queue_that_could_not_be_read_back_is_refused(void **state)
{
    static char text[CONFIG_JSON_BYTES_MAX + 1];
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings settings;
    struct error err = {0};
    size_t len = (size_t)snprintf(text, sizeof text, "{\"targets\":[");

    (void)state;
    for (int i = 0; i < QUEUE_TARGETS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%s{\"name\":\"t%d\",\"url\":\"http://h\","
                                "\"headers\":[{\"name\":\"a\",\"value\":\"%0*d\"}]}",
                                i > 0 ? "," : "", i, 4000, 1);
    }
    len += (size_t)snprintf(text + len, sizeof text - len, "]}");
    assert_true(len < CONFIG_JSON_BYTES_MAX);
    assert_int_equal(
        config_parse_queue((struct span){text, len}, SPAN("q"), NULL, arena, &settings, &err),
        FAULT_INPUT);
    assert_string_equal(err.text, "with its defaults longer than 65536 bytes");
    arena_free(arena);
}

static void json_without_end_is_refused(void **state)
{
    static char text[CONFIG_JSON_BYTES_MAX + 2];
    struct arena *arena = arena_new(10 * ARENA_BYTES);
    struct daruma_policy policy;
    struct error err = {0};

    (void)state;
    memset(text, '[', 100);
    assert_int_equal(config_parse_policy((struct span){text, 100}, NULL, arena, &policy, &err),
                     FAULT_INPUT);
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        text[i] = i == 0 ? '[' : i % 2 == 1 ? '1' : ',';
    }
    text[sizeof text - 4] = ']';
    text[sizeof text - 3] = ' ';
    assert_int_equal(
        config_parse_policy((struct span){text, sizeof text - 2}, NULL, arena, &policy, &err),
        FAULT_INPUT);
    assert_string_equal(err.text, "found more than 4096 values");
    assert_int_equal(
        config_parse_policy((struct span){text, sizeof text - 1}, NULL, arena, &policy, &err),
        FAULT_INPUT);
    assert_string_equal(err.text, "found 65537 bytes, expected at most 65536");
    arena_free(arena);
}

static void a_queue_by_json_needs_a_name_of_its_own(void **state)
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings settings;
    struct error err = {0};

    (void)state;
    assert_int_equal(config_parse_queue(SPAN("{}"), SPAN("_q"), NULL, arena, &settings, &err),
                     FAULT_INPUT);
    assert_string_equal(err.field, "name");
    arena_free(arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_object_is_a_queue_of_defaults),
        cmocka_unit_test(a_queue_has_the_shape_of_the_file),
        cmocka_unit_test(a_policy_is_an_object_or_a_name),
        cmocka_unit_test(json_takes_nothing_from_the_environment),
        cmocka_unit_test(a_queue_is_written_in_the_shape_of_the_file),
        cmocka_unit_test(a_buf_that_is_too_small_stays_as_it_was),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(every_built_in_policy_reads_back_the_same),
        cmocka_unit_test(json_errors_name_the_field_and_no_file),
        cmocka_unit_test(a_queue_that_could_not_be_read_back_is_refused),
        cmocka_unit_test(json_without_end_is_refused),
        cmocka_unit_test(a_queue_by_json_needs_a_name_of_its_own),
    };

    return HARNESS_RUN(argc, argv, tests);
}
