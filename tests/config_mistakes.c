/* SPDX-License-Identifier: MIT
 *
 * config_mistakes -- see config_mistakes.h.
 */
#include "config_mistakes.h"
#include "harness.h"

#include "config/config.h"

#include <string.h>

void config_refuses(const struct mistake *mistakes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct config *config = NULL;
        struct error err = {0};
        int failed = config_parse(span_of(mistakes[i].text), "t.yaml", &config, &err);
        if (failed != FAULT_INPUT || err.fault != FAULT_INPUT ||
            strcmp(err.text, mistakes[i].error) != 0) {
            print_message("of:\n%s\nexpected: %s\ngot %d:    %s\n", mistakes[i].text,
                          mistakes[i].error, failed, err.text);
        }
        assert_int_equal(failed, FAULT_INPUT);
        assert_string_equal(err.text, mistakes[i].error);
        assert_null(config);
        assert_null(strstr(err.text, CONFIG_SECRET));
    }
}
