/* SPDX-License-Identifier: MIT
 *
 * A limit for each host among several nodes: each node's share of it, and when a task is due again that
 * found its host full.
 */
#include "engine/engine_internal.h"
#include "engine_rig.h"
#include "harness.h"

#define FAR_MS 1000000

static struct rig rig; /* large */
static uint32_t host_limit, places;

static void prepare_hosts(struct rig *self)
{
    self->settings.concurrency = 64;
    self->settings.host_concurrency = host_limit;
}

/* A node among others, whose target does not answer by itself; and tasks for one host. */
static void open_among(uint32_t limit, uint32_t place, uint32_t node_count, int tasks)
{
    host_limit = limit;
    rig = (struct rig){
        .keep_ms = 100000, .prepare = prepare_hosts, .latency_ms = FAR_MS, .attempts_max = places};
    rig_open(&rig, "default");
    rig_join(&rig);
    rig.store->node_lease_ms = FAR_MS;
    rig_be_one_of(&rig, place, node_count);
    for (int i = 0; i < tasks; i++) {
        rig_submit(&rig, "", "body", 0, 0);
        rig_settle(&rig);
    }
}

static void a_limit_for_each_host_is_shared_out_among_nodes(void **state)
{
    static const struct {
        uint32_t limit, place, nodes;
        size_t sent;
    } cases[] = {{5, 0, 1, 5}, {5, 0, 2, 3}, {5, 1, 2, 2},  {5, 2, 3, 1},
                 {2, 1, 3, 1}, {2, 2, 3, 0}, {1, 0, 63, 1}, {1, 1, 2, 0}};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_among(cases[i].limit, cases[i].place, cases[i].nodes, 8);
        assert_int_equal(rig.flight_count, cases[i].sent);
        rig_close(&rig);
    }
}

static void a_share_of_a_host_that_grows_lets_those_go_that_wait_for_it(void **state)
{
    (void)state;
    open_among(5, 1, 3, 8);
    assert_int_equal(rig.flight_count, 2);
    rig_be_one_of(&rig, 0, 2);
    assert_int_equal(rig.flight_count, 3);
    rig_be_one_of(&rig, 0, 1);
    assert_int_equal(rig.flight_count, 4); /* as many again were in line; the rest was put off */
    rig_close(&rig);
}

static void a_share_of_a_host_that_shrinks_is_reached_by_those_that_leave(void **state)
{
    (void)state;
    open_among(4, 0, 1, 8);
    assert_int_equal(rig.flight_count, 4);
    rig_be_one_of(&rig, 0, 2);
    assert_int_equal(rig.flight_count, 4); /* what is under way is not called back */
    rig_answer_one(&rig, 200);
    rig_answer_one(&rig, 200);
    assert_int_equal(rig.flight_count, 2);
    rig_answer_one(&rig, 200);
    assert_int_equal(rig.flight_count, 2);
    assert_int_equal(rig.sent_count, 5);
    rig_close(&rig);
}

static void a_share_of_a_host_that_grows_sends_no_more_than_there_are_places(void **state)
{
    (void)state;
    places = 3;
    open_among(6, 0, 3, 6);
    assert_int_equal(rig.flight_count, 2); /* and two are in line, which have no place */
    rig_be_one_of(&rig, 0, 1);
    assert_int_equal(rig.flight_count, 3);
    rig_answer_one(&rig, 200);
    rig_be_one_of(&rig, 0, 1);
    assert_int_equal(rig.sent_count, 4); /* the other one follows */
    assert_int_equal(rig.flight_count, 3);
    rig_close(&rig);
}

/* A node that was taken for dead joins anew as the last one: others have its place. */
static void what_waits_for_a_host_goes_back_when_the_node_has_no_place_there(void **state)
{
    (void)state;
    open_among(1, 0, 2, 2);
    assert_int_equal(rig.flight_count, 1);
    struct task_id last = rig.id;
    assert_int_equal(rig_life(&rig, last).state, TASK_RUNNING);
    rig_be_one_of(&rig, 1, 2);
    assert_int_equal(rig.flight_count, 1);
    assert_int_equal(rig_life(&rig, last).state, TASK_WAITING);
    assert_int_equal(rig_life(&rig, last).attempts, 0);
    rig_answer_one(&rig, 200);
    assert_int_equal(rig.flight_count, 0);
    assert_int_equal(rig.sent_count, 1);
    rig_close(&rig);
}

/* By how much a task is put off that finds its host full. */
static int64_t put_off_at(struct span url, uint32_t flags)
{
    const struct attempt attempt = {.queue = engine_find_queue(rig.engine, SPAN(RIG_QUEUE)),
                                    .delivery.url = url,
                                    .life.flags = flags};

    return hosts_put_off_ms(rig.engine, &attempt) - rig.now_ms;
}

static int64_t put_off_ms(uint32_t flags)
{
    return put_off_at(rig.settings.targets[0].url, flags);
}

/* A host that is new or that answers has places again at once; one that gives no answer does not. */
static void what_finds_its_host_full_is_put_off_by_what_is_known_of_that_host(void **state)
{
    (void)state;
    open_among(1, 0, 2, 1);
    assert_int_equal(put_off_ms(0), 50);
    assert_int_equal(put_off_ms(0), 54); /* one after the other, as they are looked at */
    rig_close(&rig);

    open_among(1, 0, 2, 2);
    rig_answer_one(&rig, 200);
    assert_int_equal(rig.flight_count, 1);
    assert_int_equal(put_off_ms(0), 20);
    rig_close(&rig);

    open_among(1, 0, 2, 2);
    rig_cut_one(&rig);
    assert_int_equal(rig.flight_count, 1);
    assert_int_equal(put_off_ms(0), 1000);
    assert_int_equal(put_off_ms(0), 1004); /* not faster than they are looked at */
    rig_close(&rig);
}

/* The queue looks at so many in a second, whatever hosts they are for. */
static void several_hosts_without_an_answer_have_one_pace(void **state)
{
    const struct span urls[] = {SPAN("http://one.example/"), SPAN("http://two.example/"),
                                SPAN("http://three.example/")};
    (void)state;

    open_among(1, 0, 2, 0);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(put_off_at(urls[i % 3], 0), 50 + i * 4);
    }
    rig_close(&rig);
}

static void set_store_clock(int64_t ahead_ms)
{
    struct beat beat = rig_beat(&rig, 0, 2);

    beat.server_ms += ahead_ms;
    engine_beat(rig.engine, &beat);
    rig_settle(&rig);
}

/* The store's clock was an hour ahead and is set right, as when another server takes over. */
static void a_clock_that_is_set_back_puts_nothing_off_for_longer(void **state)
{
    (void)state;
    open_among(1, 0, 2, 1);
    set_store_clock(3600000);
    assert_int_equal(put_off_ms(0), 3600000 + 50);
    set_store_clock(0);
    assert_in_range(put_off_ms(0), 50, 54);
    rig_close(&rig);
}

/* Each lease in vain is a moment in which a crash leaves it in doubt. */
static void what_must_not_be_sent_twice_comes_round_seldom(void **state)
{
    (void)state;
    open_among(1, 0, 2, 1);
    rig_submit_as(&rig, &(struct submission){.options = {.has_repeatable = true}});
    rig_settle(&rig);
    struct life life = rig_life(&rig, rig.id);
    assert_int_equal(life.state, TASK_WAITING);
    assert_int_equal(life.due_at_ms - rig.now_ms, 1000);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_for_each_host_is_shared_out_among_nodes),
        cmocka_unit_test(a_share_of_a_host_that_grows_lets_those_go_that_wait_for_it),
        cmocka_unit_test(a_share_of_a_host_that_shrinks_is_reached_by_those_that_leave),
        cmocka_unit_test(a_share_of_a_host_that_grows_sends_no_more_than_there_are_places),
        cmocka_unit_test(what_waits_for_a_host_goes_back_when_the_node_has_no_place_there),
        cmocka_unit_test(what_finds_its_host_full_is_put_off_by_what_is_known_of_that_host),
        cmocka_unit_test(several_hosts_without_an_answer_have_one_pace),
        cmocka_unit_test(a_clock_that_is_set_back_puts_nothing_off_for_longer),
        cmocka_unit_test(what_must_not_be_sent_twice_comes_round_seldom),
    };
    return HARNESS_RUN(argc, argv, tests);
}
