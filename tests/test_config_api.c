/* SPDX-License-Identifier: MIT
 *
 * Tests of what the configuration refuses of the api's door: where it listens, under which names it is
 * asked for, and what tokens may do.
 */
#include "config_mistakes.h"
#include "harness.h"

#include "config/config.h"

#include <stdlib.h>

static void a_door_that_others_can_reach_needs_tokens(void **state)
{
    static const struct mistake mistakes[] = {
        {"api:\n  listen: 0.0.0.0:8700\n",
         "t.yaml:2:11: api.listen: found 0.0.0.0:8700, which other machines can reach: expected "
         "api.tokens, or a loopback address such as 127.0.0.1:8700"},
        {"api: {listen: '[::]:8700', tokens: []}\n",
         "t.yaml:1:15: api.listen: found \"[::]:8700\", which other machines can reach: expected "
         "api.tokens, or a loopback address such as 127.0.0.1:8700"},
    };

    (void)state;
    REFUSES(mistakes);
}

static void hosts_are_names_and_addresses(void **state)
{
    static const struct mistake mistakes[] = {
        {"api: {hosts: [a.example, 'b.example:80']}\n",
         "t.yaml:1:26: api.hosts[1]: found \"b.example:80\", expected a host name or an address "
         "such "
         "as "
         "daruma.example.org, 10.0.0.5 or [fd00::5], without a port"},
        {"api: {hosts: ['*.example']}\n",
         "t.yaml:1:15: api.hosts[0]: found \"*.example\", expected a host name or an address such "
         "as "
         "daruma.example.org, 10.0.0.5 or [fd00::5], without a port"},
        {"api: {hosts: ['fd00::5']}\n",
         "t.yaml:1:15: api.hosts[0]: found \"fd00::5\", expected a host name or an address such as "
         "daruma.example.org, 10.0.0.5 or [fd00::5], without a port"},
    };

    (void)state;
    REFUSES(mistakes);
}

static void a_token_says_what_it_may_do(void **state)
{
    static const struct mistake mistakes[] = {
        {"api: {tokens: [{name: a, role: root, token: env:GOOD}]}\n",
         "t.yaml:1:32: api.tokens[0].role: found root, expected one of admin, producer, worker, "
         "viewer or operator"},
        {"api: {tokens: [{name: a, token: env:GOOD}]}\n",
         "t.yaml:1:16: api.tokens[0].role: missing, expected one of admin, producer, worker, "
         "viewer "
         "or operator"},
        {"api: {tokens: [{name: a, role: admin, roles: [viewer], token: env:GOOD}]}\n",
         "t.yaml:1:46: api.tokens[0].roles: found beside role, expected one of the two"},
        {"api: {tokens: [{name: a, roles: [], token: env:GOOD}]}\n",
         "t.yaml:1:33: api.tokens[0].roles: found no role, expected at least one"},
        {"api: {tokens: [{name: a, roles: [worker, root], token: env:GOOD}]}\n",
         "t.yaml:1:42: api.tokens[0].roles[1]: found root, expected one of admin, producer, "
         "worker, "
         "viewer or operator"},
        {"api: {tokens: [{name: a, roles: worker, token: env:GOOD}]}\n",
         "t.yaml:1:33: api.tokens[0].roles: found worker, expected a list"},
        {"api: {tokens: [{name: a, role: admin, queues: [], token: env:GOOD}]}\n",
         "t.yaml:1:47: api.tokens[0].queues: found no queue, expected at least one"},
        {"api: {tokens: [{name: a, role: admin, queues: [orders, '*x'], token: env:GOOD}]}\n",
         "t.yaml:1:56: api.tokens[0].queues[1]: found \"*x\", expected the name of a queue, or its "
         "beginning and a *"},
        {"api: {tokens: [{name: a, role: admin, queues: ['a b'], token: env:GOOD}]}\n",
         "t.yaml:1:48: api.tokens[0].queues[0]: found \"a b\", expected the name of a queue, or "
         "its "
         "beginning and a *"},
    };

    (void)state;
    setenv("GOOD", "good", 1);
    REFUSES(mistakes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(a_door_that_others_can_reach_needs_tokens),
        cmocka_unit_test(hosts_are_names_and_addresses),
        cmocka_unit_test(a_token_says_what_it_may_do),
    };
    return HARNESS_RUN(argc, argv, claims);
}
