/* SPDX-License-Identifier: MIT
 *
 * store_postgres_bundle -- what a batch needs while it is under way: the steps of its round trips,
 * the sheets that its statements are filled from, the rows that it was shown. Kept from batch to
 * batch, so that a busy store does not allocate.
 */
#include "store/store_postgres_internal.h"

#include <stdlib.h>

/* --- the batch's memory ------------------------------------------------------------------------- */

struct bundle *bundle_new(void)
{
    return calloc(1, sizeof(struct bundle));
}

void bundle_free(struct bundle *bundle)
{
    if (bundle == NULL) {
        return;
    }
    bundle_clear_steps(bundle);
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        sheet_done(&bundle->sheets[i]);
    }
    for (size_t i = 0; i < CLAIMS_AT_ONCE; i++) {
        sheet_done(&bundle->claims[i]);
    }
    number_set_done(&bundle->queues);
    number_set_done(&bundle->dropped);
    free(bundle->lives);
    free(bundle->records);
    free(bundle->held);
    free(bundle->steps);
    free(bundle);
}

/* Room for one more; false: out of memory. */
bool bundle_has_room(void **array, size_t *room, size_t count, size_t size)
{
    if (count < *room) {
        return true;
    }
    size_t larger = *room == 0 ? 64 : *room * 2;
    void *moved = realloc(*array, larger * size);
    if (moved == NULL) {
        return false;
    }
    *array = moved;
    *room = larger;
    return true;
}

void bundle_begin(struct bundle *bundle, struct writer *writer, struct op *ops[], size_t count)
{
    bundle->writer = writer;
    bundle->ops = ops;
    bundle->count = count;
    bundle->epoch = __atomic_load_n(&writer->postgres->epoch, __ATOMIC_ACQUIRE);
    bundle->life_count = bundle->record_count = bundle->held_count = 0;
    bundle->purged_row = 0;
    bundle->has_due_now = false;
    number_set_clear(&bundle->queues);
    number_set_clear(&bundle->dropped);
    bundle_clear_steps(bundle);
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        sheet_clear(&bundle->sheets[i]);
    }
}

int bundle_write_hold(struct bundle *bundle, int64_t row)
{
    if (!bundle_has_room((void **)&bundle->held, &bundle->held_room, bundle->held_count,
                         sizeof *bundle->held)) {
        return FAULT_MEMORY;
    }
    bundle->held[bundle->held_count++] = row;
    return 0;
}

/* --- round trips ------------------------------------------------------------------------------- */

int bundle_step(struct bundle *bundle, enum statement statement, struct sheet *sheet)
{
    if (!bundle_has_room((void **)&bundle->steps, &bundle->step_room, bundle->step_count,
                         sizeof *bundle->steps)) {
        return FAULT_MEMORY;
    }
    bundle->steps[bundle->step_count++] = (struct step){.statement = statement, .sheet = sheet};
    return 0;
}

void bundle_clear_steps(struct bundle *bundle)
{
    steps_clear(bundle->steps, bundle->step_count);
    bundle->step_count = 0;
}

int bundle_run(struct bundle *bundle, struct error *err)
{
    return link_run(&bundle->writer->link, bundle->steps, bundle->step_count, err);
}

const PGresult *bundle_result(const struct bundle *bundle, enum statement statement)
{
    for (size_t i = 0; i < bundle->step_count; i++) {
        if (bundle->steps[i].statement == statement) {
            return bundle->steps[i].result;
        }
    }
    return NULL;
}

struct sheet *bundle_plain(struct bundle *bundle, enum statement statement)
{
    struct sheet *sheet = &bundle->sheets[statement];

    sheet_clear(sheet);
    sheet->is_plain = true;
    sheet_row(sheet);
    return sheet;
}
