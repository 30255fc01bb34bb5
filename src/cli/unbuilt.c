/* SPDX-License-Identifier: MIT
 *
 * unbuilt -- see unbuilt.h. A part that is built removes its line here.
 */
#include "cli/unbuilt.h"

int unbuilt_refuse(const struct config *config, struct error *err)
{
    const struct {
        const char *key;
        bool is_asked_for;
    } settings[] = {
        {NULL, config == NULL}, /* the last: at the moment everything is obeyed */
    };

    for (size_t i = 0; settings[i].key != NULL; i++) {
        if (settings[i].is_asked_for) {
            return fail_field(err, FAULT_INPUT, settings[i].key,
                              "%s: this version does not have it yet; leave it out",
                              settings[i].key);
        }
    }
    return 0;
}
