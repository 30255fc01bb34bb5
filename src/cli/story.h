/* SPDX-License-Identifier: MIT
 *
 * story -- one task told to people, line by line: a label at the left, what there is to say beside it.
 * Bodies are cut; --json has them whole.
 */
#ifndef CLI_STORY_H
#define CLI_STORY_H

#include "cli/client.h"
#include "cli/destination.h"
#include "cli/screen.h"

void story_put(const struct screen *screen, struct span text);

/* What the next line is about; "" goes on with the last. */
void story_label(const struct screen *screen, const char *label);

/* Nothing without a text. */
void story_line(const struct screen *screen, const char *label, struct span text);

void story_labels(const struct screen *screen, json_t *labels);
void story_headers(const struct screen *screen, json_t *headers);

/* The line, the headers and the body of a request; where it goes if it has no target of its own. */
void story_request(const struct screen *screen, const json_t *request, enum destination otherwise);

/* How many attempts there were, and may be. */
void story_tries(const struct screen *screen, const json_t *task);

/* What the target said in the end, and which one; nothing without. */
void story_answer(const struct screen *screen, const json_t *task);

/* The text under `name`, or how much there is under `coded_name`. */
void story_body(const struct screen *screen, const json_t *holder, const char *name,
                const char *coded_name);

/* How a dead letter stands; nothing for what never was one. */
void story_letter(const struct screen *screen, const json_t *letter);

/* What a person said became of it, the last time: of a list of the audit trail, oldest first. Nothing
 * without. */
void story_settled(const struct screen *screen, const json_t *acts);

/* What a person has changed of the request; nothing without. */
void story_edit(const struct screen *screen, const json_t *edit);

void story_trail(const struct screen *screen, const json_t *trail);

#endif
