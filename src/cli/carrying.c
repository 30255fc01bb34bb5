/* SPDX-License-Identifier: MIT
 *
 * carrying -- see carrying.h.
 */
#include "cli/carrying.h"

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/screen.h"

#include <inttypes.h>

#define TELL_EVERY_MS 200

bool carrying_is_store(const char *text)
{
    static const char *const kinds[] = {"sqlite:", "json:", "postgres:", "postgresql:"};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (span_starts(span_of(text), kinds[i])) {
            return text[strlen(kinds[i])] != '\0';
        }
    }
    return false;
}

/* --- progress --------------------------------------------------------------------------------- */

struct progress progress_begin(const char *doing)
{
    const struct screen screen = screen_of(stderr);

    return (struct progress){
        .is_shown = screen.width > 0, .began_ms = clock_mono_ms(&clock_real), .doing = doing};
}

int64_t progress_ms(const struct progress *progress)
{
    return clock_mono_ms(&clock_real) - progress->began_ms;
}

void progress_tell(struct progress *progress, uint64_t tasks)
{
    int64_t passed_ms = progress->is_shown ? progress_ms(progress) : 0;

    if (!progress->is_shown || passed_ms - progress->told_ms < TELL_EVERY_MS) {
        return;
    }
    progress->told_ms = passed_ms;
    fprintf(stderr, "\r%" PRIu64 " tasks %s, %" PRIu64 " a second\033[K", tasks, progress->doing,
            tasks * 1000 / (uint64_t)passed_ms);
    fflush(stderr);
}

void progress_end(struct progress *progress)
{
    if (progress->is_shown && progress->told_ms > 0) {
        fprintf(stderr, "\r\033[K");
    }
    progress->is_shown = false;
}

/* --- words ------------------------------------------------------------------------------------- */

int carrying_complain(const struct flags_form *form, const struct error *err)
{
    flags_complain(form, "%s", err->text);
    return CLI_FAILED;
}

void carrying_print_counts(FILE *out, const uint64_t counts[4])
{
    static const char *const words[4] = {"queue", "task", "memo", "act"};

    for (int i = 0; i < 4; i++) {
        fprintf(out, "%s%" PRIu64 " %s%s", i > 0 ? ", " : "", counts[i], words[i],
                counts[i] == 1 ? "" : "s");
    }
}
