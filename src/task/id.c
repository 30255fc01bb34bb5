/* SPDX-License-Identifier: MIT
 *
 * id -- see id.h.
 */
#include "task/id.h"

#include "base/entropy.h"

#define EPOCH_2020_MS INT64_C(1577836800000)
#define SEQUENCE_BITS 12
#define SEQUENCE_MASK ((1 << SEQUENCE_BITS) - 1)
#define UUID_BYTES    16
#define SLOT_ROWS     ((1 << SEQUENCE_BITS) / ID_SLOTS)

int64_t id_row_at(int64_t wall_ms)
{
    return wall_ms <= EPOCH_2020_MS ? 0 : (wall_ms - EPOCH_2020_MS) << SEQUENCE_BITS;
}

int64_t id_created_ms(int64_t row)
{
    return (row >> SEQUENCE_BITS) + EPOCH_2020_MS;
}

/* The next row of the slot: behind the last one, in this millisecond or a later one. */
static int64_t row_in_slot(const struct id_maker *maker, int64_t row)
{
    int64_t begin = maker->slot * SLOT_ROWS, next = maker->last_row + 1;
    int64_t place = next & SEQUENCE_MASK;

    if (row > maker->last_row) {
        return row + begin;
    }
    if (place > begin && place < begin + SLOT_ROWS) {
        return next;
    }
    return (((maker->last_row >> SEQUENCE_BITS) + 1) << SEQUENCE_BITS) + begin;
}

struct task_id id_make(struct id_maker *maker, int64_t wall_ms)
{
    int64_t row = id_row_at(wall_ms);

    if (maker->has_slot) {
        row = row_in_slot(maker, row);
    } else if (row <= maker->last_row) {
        row = maker->last_row + 1; /* the sequence runs over into the next millisecond */
    }
    maker->last_row = row;
    uint64_t bits = maker->dice != NULL ? daruma_dice_roll(maker->dice) : entropy_bits();
    return (struct task_id){.row = row, .tail = bits & ID_TAIL_MAX};
}

static void put_bytes(unsigned char *to, uint64_t value, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        to[i] = (unsigned char)value;
        value >>= 8;
    }
}

static uint64_t get_bytes(const unsigned char *from, int count)
{
    uint64_t value = 0;

    for (int i = 0; i < count; i++) {
        value = value << 8 | from[i];
    }
    return value;
}

void id_format(struct task_id id, char ret_text[ID_TEXT_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[UUID_BYTES];
    char *at = ret_text;

    put_bytes(bytes, (uint64_t)id_created_ms(id.row), 6);
    put_bytes(bytes + 6, UINT64_C(0x7000) | (uint64_t)(id.row & SEQUENCE_MASK), 2);
    put_bytes(bytes + 8, UINT64_C(1) << 63 | id.tail, 8);
    for (int i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *at++ = '-';
        }
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    *at = '\0';
}

static int digit_of(char byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    char letter = (char)(byte | 0x20);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

static bool parse_bytes(struct span text, unsigned char ret_bytes[UUID_BYTES])
{
    size_t at = 0;

    for (int i = 0; i < UUID_BYTES; i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && text.at[at++] != '-') {
            return false;
        }
        int high = digit_of(text.at[at]), low = digit_of(text.at[at + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret_bytes[i] = (unsigned char)(high << 4 | low);
        at += 2;
    }
    return true;
}

bool id_parse(struct span text, struct task_id *ret_id)
{
    unsigned char bytes[UUID_BYTES];

    if (text.len != ID_TEXT_LEN || !parse_bytes(text, bytes)) {
        return false;
    }
    uint64_t sequence = get_bytes(bytes + 6, 2), tail = get_bytes(bytes + 8, 8);
    int64_t row = id_row_at((int64_t)get_bytes(bytes, 6));
    if (sequence >> SEQUENCE_BITS != 7 || tail >> 62 != 2 || row == 0) {
        return false;
    }
    *ret_id = (struct task_id){.row = row | (int64_t)(sequence & SEQUENCE_MASK),
                               .tail = tail & ID_TAIL_MAX};
    return true;
}
