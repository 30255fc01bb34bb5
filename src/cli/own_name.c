/* SPDX-License-Identifier: MIT
 *
 * own_name -- see own_name.h. The user is the one that the system knows, not the one that the
 * environment names: it is the same under cron.
 */
#include "cli/own_name.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HOST_BYTES 128

int own_name(char ret_name[SAVE_CLIENT_MAX + 1], struct error *err)
{
    const char *given = getenv("DARUMA_CLIENT");
    char host[HOST_BYTES] = "";

    if (given != NULL && given[0] != '\0') {
        if (!save_client_is_valid(span_of(given))) {
            return fail_field(err, FAULT_INPUT, "DARUMA_CLIENT",
                              "expected 1 to %d bytes without control characters", SAVE_CLIENT_MAX);
        }
        (void)snprintf(ret_name, SAVE_CLIENT_MAX + 1, "%s", given); /* fits */
        return 0;
    }
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
        (void)snprintf(host, sizeof host, "localhost"); /* fits */
    }
    const struct passwd *user = getpwuid(geteuid());
    if (user != NULL) {
        (void)snprintf(ret_name, SAVE_CLIENT_MAX + 1, "%.100s@%s", user->pw_name, host); /* fits */
    } else {
        (void)snprintf(ret_name, SAVE_CLIENT_MAX + 1, "%lu@%s", (unsigned long)geteuid(), host);
    }
    return 0;
}
