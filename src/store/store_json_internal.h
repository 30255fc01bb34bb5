/* SPDX-License-Identifier: MIT
 *
 * store_json_internal -- shared by the files of the JSON store, and by those that carry tasks from
 * one store to another as lines of JSON (export.c, import.c).
 *
 *   store_json_members  what there is of a task, in the file and in memory: one table for both ways
 *   store_json_write    memory -> text          store_json_load   text -> memory
 *   store_json_text     escapes, base64, hex    store_json_place  where in the text something stands
 *   store_json_file     the lock, and the file replaced whole
 *   store_json_render   the whole of it     store_json_room   who has room in it
 *   store_json          the verbs
 *
 * The file holds every fact once. What is empty or zero is left out, unless the table says that it is
 * always there; a member that is not in the table is refused, because writing the file again would
 * lose it.
 *
 * To change the format: add an optional member that is left out where nothing makes use of it. Older
 * files have their default, and an older program refuses a file that makes use of it by the name of
 * the member, so the version stays. Raise the version when something that is there already changes its
 * meaning, and go on loading the one before.
 */
#ifndef STORE_STORE_JSON_INTERNAL_H
#define STORE_STORE_JSON_INTERNAL_H

#include "base/buf.h"
#include "store/store_memory_internal.h"

#define STORE_JSON_FORMAT    "daruma tasks"
#define STORE_JSON_VERSION   1
#define STORE_JSON_TASKS_MAX 10000
/* What ends may bring something into being (store.h, spawn), once each, also when it is full. */
#define STORE_JSON_LOAD_MAX  (2 * STORE_JSON_TASKS_MAX)
#define STORE_JSON_BYTES_MAX ((size_t)64 * 1024 * 1024)
/* Kept free by those who record, for those who end: an outcome should have room with its answer. */
#define STORE_JSON_BYTES_RESERVED ((size_t)8 * 1024 * 1024)
/* For the bare ends of what is in it (I9): a kilobyte each, a callback's own request of some more, and
 * three times its labels. More than all that can have been recorded comes to. */
#define STORE_JSON_BYTES_ENDS_MAX (4 * STORE_JSON_BYTES_MAX)

/* --- store_json_members ------------------------------------------------------------------------ */

enum member_kind {
    MEMBER_BOOL,        /* bool */
    MEMBER_BOUND,       /* bool, true when it is left out */
    MEMBER_INT,         /* int */
    MEMBER_U32,         /* uint32_t */
    MEMBER_U64,         /* uint64_t; text where a JSON integer of 64 bits ends */
    MEMBER_MS,          /* int64_t, a number */
    MEMBER_TIME,        /* int64_t, RFC 3339; a number where that cannot say it */
    MEMBER_TEXT,        /* struct span; not UTF-8, or with a NUL: NAME_base64 */
    MEMBER_FIELDS,      /* struct span of task/fields.h, a list of pairs; likewise */
    MEMBER_ID,          /* struct task_id, a UUID; [row, tail] where that cannot say it */
    MEMBER_STATE,       /* enum task_state, a word: unlike outside, "dead" is one of them */
    MEMBER_SENT,        /* enum task_sent, a word */
    MEMBER_CLASS,       /* int: a word, -1 left out */
    MEMBER_CLASS_FROM1, /* uint32_t: a word, or a number where there is none; 0 left out */
    MEMBER_STATE_MAYBE, /* int: as MEMBER_STATE, -1 left out */
    MEMBER_CLASSES,     /* uint32_t[DARUMA_CLASS_COUNT]: an object, zeroes left out */
    MEMBER_FLAGS, /* uint32_t, of a life: a list of words, and a number for bits without one */
    MEMBER_PARTS, /* unsigned, of an edit: likewise */
    MEMBER_FINGERPRINT, /* unsigned char[TASK_FINGERPRINT_BYTES], hexadecimal */
};

enum member_need { MEMBER_OPTIONAL, MEMBER_REQUIRED };

struct member {
    const char *name; /* NULL: the end of a table */
    enum member_kind kind;
    enum member_need need;
    size_t offset; /* within the struct that the table is about */
};

extern const struct member members_task[];   /* struct record, but for queue, trail and answer */
extern const struct member members_answer[]; /* struct answer */
extern const struct member members_trail[];  /* struct trail_row */
extern const struct member members_edit[];   /* struct edit */
extern const struct member members_queue[];  /* struct queue_row */
extern const struct member members_memo[];   /* struct memo */
extern const struct member members_audit[];  /* struct audit_row */

bool member_has_edit(const struct edit *edit); /* is there anything in it? */

#define MEMBER_BASE64_SUFFIX "_base64"

const char *member_state_word(enum task_state state);
/* The word of flag number `index` of that kind (FLAGS, PARTS), NULL past the last; its bit. */
const char *member_flag_word(enum member_kind kind, size_t index, uint32_t *ret_bit);

/* --- store_json_text --------------------------------------------------------------------------- */

int text_add_string(struct buf *buf, struct span text) __attribute__((warn_unused_result));
int text_add_base64(struct buf *buf, struct span bytes) __attribute__((warn_unused_result));
int text_add_hex(struct buf *buf, struct span bytes) __attribute__((warn_unused_result));
int text_add_int(struct buf *buf, int64_t value) __attribute__((warn_unused_result));
bool text_is_plain(struct span bytes); /* UTF-8 without NUL: a JSON string can hold it */

/* Room for text.len / 4 * 3 bytes. False: it is not what text_add_base64 writes. */
bool text_from_base64(struct span text, char *ret_bytes, size_t *ret_len);
bool text_from_hex(struct span text, unsigned char *ret_bytes, size_t len);

/* --- store_json_place -------------------------------------------------------------------------- */

/* The way from the whole to a part: a member by its name, or an element by its place. */
struct step {
    const char *name; /* NULL: an element */
    size_t index;
};

/* Line and column, from 1, of the part that the steps lead to; of the last one found, where they
 * lead nowhere. A member stands where its name begins. `json` is well formed. */
void place_find(struct span json, const struct step *steps, size_t count, unsigned *ret_line,
                unsigned *ret_column);

/* --- store_json_write -------------------------------------------------------------------------- */

/* The text as it is being made. */
struct page_out {
    struct buf *buf;
    int depth;
    bool has_before; /* a comma is due */
    bool is_line;    /* all on one line */
    int failed;      /* sticks: all that follows does nothing */
};

struct file_head {
    uint64_t epoch;
    int64_t last_row;
};

/* In this order: open, queues, the list "tasks", tasks; the list "memos", memos and the list "audit",
 * acts, where there are any; close. */
void write_file_open(struct page_out *out, const struct file_head *head);
void write_queue(struct page_out *out, const struct queue_row *queue);
void write_list_open(struct page_out *out, const char *name);
/* queue_name empty: by its number. */
void write_task(struct page_out *out, const struct record *record, struct span queue_name);
void write_memo(struct page_out *out, const struct memo *memo);
void write_audit(struct page_out *out, const struct audit_row *row);
void write_file_close(struct page_out *out);

/* One record a line, for carrying: each is added to `buf` whole, or a fault is returned (FAULT_MEMORY,
 * FAULT_LIMIT). The first one is begin, the last one end. */
#define LINES_FORMAT  "daruma export"
#define LINES_VERSION 1

int write_begin_line(struct buf *buf) __attribute__((warn_unused_result));
int write_queue_line(struct buf *buf, const struct queue_row *queue)
    __attribute__((warn_unused_result));
int write_task_line(struct buf *buf, const struct record *record, struct span queue_name)
    __attribute__((warn_unused_result));
int write_memo_line(struct buf *buf, const struct memo *memo) __attribute__((warn_unused_result));
int write_audit_line(struct buf *buf, const struct audit_row *row)
    __attribute__((warn_unused_result));
int write_end_line(struct buf *buf) __attribute__((warn_unused_result));

/* --- store_json_render ------------------------------------------------------------------------- */

/* The text of the whole file, in place of what is in `text`. FAULT_LIMIT, FAULT_MEMORY. */
int render_file(const struct store_memory *memory, struct buf *text)
    __attribute__((warn_unused_result));
/* What one task takes in it; NULL: nothing. Likewise. */
int render_size(const struct store_memory *memory, const struct version *version,
                struct buf *scratch, size_t *ret_bytes) __attribute__((warn_unused_result));
int64_t render_last_row(const struct store_memory *memory);

/* --- store_json_room --------------------------------------------------------------------------- */

struct room {
    size_t bytes_max;      /* STORE_JSON_BYTES_MAX */
    size_t reserved_bytes; /* STORE_JSON_BYTES_RESERVED */
    size_t file_bytes;     /* as committed last */
    struct buf scratch;    /* with a ceiling of STORE_JSON_BYTES_ENDS_MAX */
};

/* Between a draft that was begun and its rendering: makes it fit. What has ended is never refused for
 * want of room: parts of the answer are left out of it, with LIFE_OMITTED, or words of the trail, or a
 * callback becomes its lean one. FAULT_FULL, FAULT_MEMORY. */
int room_fit(struct room *room, struct store_memory *memory, struct op *ops[], size_t count,
             struct error *err) __attribute__((warn_unused_result));
/* Does the draft bring something that was not there, and can be refused? */
bool room_is_for_new(const struct store_memory *memory, struct op *ops[], size_t count);

/* --- store_json_load --------------------------------------------------------------------------- */

/* Where what is loaded goes. Spans live during the call. A fault stops the loading; FAULT_CORRUPT gets
 * path, line and column in front of its text. */
struct load_target {
    void *user;
    int (*queue)(void *user, const struct queue_row *queue, struct error *err);
    int (*task)(void *user, const struct record *record, struct error *err);
    int (*memo)(void *user, const struct memo *memo, struct error *err);
    int (*audit)(void *user, const struct audit_row *row, struct error *err);
    /* The number of the queue of that name; 0: there is none, or more than one. */
    uint32_t (*queue_number)(void *user, struct span name);
};

enum line_kind { LINE_BEGIN, LINE_QUEUE, LINE_TASK, LINE_MEMO, LINE_AUDIT, LINE_END, LINE_COUNT };

/* Reads one line, the number `number` of `path`, and hands over what is in it. FAULT_CORRUPT,
 * FAULT_MEMORY, and what the target says. */
int load_line(const char *path, unsigned number, struct span json, const struct load_target *target,
              enum line_kind *ret_kind, struct error *err) __attribute__((warn_unused_result));

/* Reads the whole of `json`, which came from `path`. FAULT_CORRUPT, FAULT_MEMORY. */
int load_json(const char *path, struct span json, const struct load_target *target,
              struct file_head *ret_head, struct error *err) __attribute__((warn_unused_result));

/* --- store_json_file --------------------------------------------------------------------------- */

struct json_file {
    char *path, *path_new, *folder;
    int lock;      /* of PATH.lock, held while it is open; -1: not */
    unsigned mode; /* of the file as it was found */
};

/* Takes the lock. Zeroed before; file_close also after a failure. */
int file_open(struct json_file *file, struct span path, struct error *err)
    __attribute__((warn_unused_result));
/* Without: each replacing of the file leaves a whole one. */
int file_open_to_read(struct json_file *file, struct span path, struct error *err)
    __attribute__((warn_unused_result));
void file_close(struct json_file *file);

/* The whole file; *ret_found false when there is none. */
int file_read(struct json_file *file, struct buf *ret_bytes, bool *ret_found, struct error *err)
    __attribute__((warn_unused_result));
/* Puts `bytes` in its place, durably. FAULT_IO, FAULT_FULL: the old file is there. FAULT_UNKNOWN:
 * either may be. */
int file_replace(struct json_file *file, struct span bytes, struct error *err)
    __attribute__((warn_unused_result));
/* Free bytes of the file system; INT64_MAX when it will not say. */
int64_t file_disk_free(const struct json_file *file);

/* --- store_json -------------------------------------------------------------------------------- */

/* After a write that failed: what it was, and when to try again at the earliest. */
struct rest {
    struct error error;
    int64_t until_ms; /* monotonic */
};

struct store_json {
    struct store_memory memory; /* first: its reads are ours */
    struct json_file file;
    struct buf text;  /* as rendered last; the applying thread's own */
    struct room room; /* file_bytes under memory.lock, the rest the applying thread's own */
    struct rest rest; /* the applying thread's own */
};

#endif
