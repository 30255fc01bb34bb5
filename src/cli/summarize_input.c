/* SPDX-License-Identifier: MIT
 *
 * summarize_input -- see summarize_input.h.
 *
 * A text's title is its front matter's `title:`, else its first heading, else its first line; its id
 * is the name of the file without its ending.
 */
#include "cli/summarize_input.h"

#include "base/buf.h"
#include "base/json_value.h"
#include "edge/writer.h"
#include "task/article.h"

#include <openssl/sha.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define READ_BYTES     65536
#define ARENA_MAX      ((size_t)1 << 31)
#define TITLE_MAX      300 /* bytes of a line that is taken for a title */
#define ESCAPED_TIMES  6   /* a byte becomes at most \u0000 */
#define REQUEST_EXTRA  4096
#define KEY_DIGEST_LEN 16

int summarize_list_init(struct summarize_list *list)
{
    *list = (struct summarize_list){.arena = arena_new(ARENA_MAX), .is_keyed = true};
    return list->arena != NULL ? 0 : FAULT_MEMORY;
}

void summarize_list_done(struct summarize_list *list)
{
    arena_free(list->arena);
    free(list->articles);
    *list = (struct summarize_list){0};
}

static int no_memory(struct error *err)
{
    return fail(err, FAULT_MEMORY, "no memory for the articles");
}

/* --- files ------------------------------------------------------------------------------------- */

static int read_stream(FILE *file, const char *name, struct buf *text, struct error *err)
{
    char piece[READ_BYTES];
    size_t len;

    while ((len = fread(piece, 1, sizeof piece, file)) > 0) {
        int failed = buf_add(text, (struct span){.at = piece, .len = len});
        if (failed == FAULT_LIMIT) {
            return fail(err, FAULT_LIMIT, "%s has more than %u bytes", name,
                        SUMMARIZE_FILE_BYTES_MAX);
        }
        if (failed != 0) {
            return no_memory(err);
        }
    }
    return ferror(file) == 0 ? 0 : fail(err, FAULT_IO, "cannot read %s: %s", name, strerror(errno));
}

static int read_all(const char *path, struct buf *text, struct error *err)
{
    if (strcmp(path, "-") == 0) {
        return read_stream(stdin, "standard input", text, err);
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return fail(err, FAULT_IO, "cannot read %s: %s", path, strerror(errno));
    }
    int failed = read_stream(file, path, text, err);
    (void)fclose(file); /* only read */
    return failed;
}

/* --- one article -------------------------------------------------------------------------------- */

/* Known by what it says: repeating a command does not pay for a summary twice. */
static void write_key(struct writer *writer, struct span article)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char key[sizeof "summarize-" + 2 * KEY_DIGEST_LEN] = "summarize-";
    size_t len = strlen(key);

    (void)SHA256((const unsigned char *)article.at, article.len, digest); /* returns digest */
    for (size_t i = 0; i < KEY_DIGEST_LEN; i++) {
        (void)snprintf(key + len + 2 * i, 3, "%02x", digest[i]); /* two digits */
    }
    write_named_text(writer, "key", span_of(key));
}

static struct summarize_article *add_article(struct summarize_list *list)
{
    if (list->count == list->room) {
        size_t room = list->room == 0 ? 64 : list->room * 2;
        struct summarize_article *grown = realloc(list->articles, room * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        list->articles = grown;
        list->room = room;
    }
    list->articles[list->count] = (struct summarize_article){0};
    return &list->articles[list->count++];
}

/* `object` is the article as JSON. */
static int keep_article(struct summarize_list *list, struct span object, struct span name,
                        struct span title, struct error *err)
{
    struct summarize_article *article =
        list->count < SUMMARIZE_ARTICLES_MAX ? add_article(list) : NULL;
    struct buf body;
    struct writer writer = {.out = &body};

    if (article == NULL) {
        return list->count < SUMMARIZE_ARTICLES_MAX
                   ? no_memory(err)
                   : fail(err, FAULT_LIMIT, "more than %d articles", SUMMARIZE_ARTICLES_MAX);
    }
    buf_init(&body, object.len + REQUEST_EXTRA);
    write_open(&writer, '{');
    write_name(&writer, "article");
    write_json(&writer, object);
    if (list->is_keyed) {
        write_key(&writer, object);
    }
    write_close(&writer, '}');
    article->body = arena_copy(list->arena, buf_span(&body));
    article->name = arena_copy(list->arena, name);
    article->title = arena_copy(list->arena, title);
    buf_done(&body);
    return writer.failed != 0 || article->body.at == NULL || article->name.at == NULL ||
                   article->title.at == NULL
               ? no_memory(err)
               : 0;
}

/* --- JSON lines ---------------------------------------------------------------------------------- */

/* What stands between quotes, for people; as it is written when it stands for nothing. */
static struct span shown(struct summarize_list *list, struct span inside)
{
    struct span quoted = {.at = inside.at - 1, .len = inside.len + 2};
    char *bytes = arena_alloc(list->arena, quoted.len);
    size_t len;

    if (bytes == NULL || quoted.at[0] != '"' || !json_value_text(quoted, bytes, &len)) {
        return inside;
    }
    return (struct span){.at = bytes, .len = len};
}

/* {"article":{…}} or {…} alone: the inner one, and the whole as article_read wants it. */
static int unwrap(struct summarize_list *list, struct span line, struct span *ret_object,
                  struct span *ret_whole)
{
    struct json_walk walk;
    struct span name, value, more;

    if (json_walk_begin(&walk, line, '{') &&
        json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE && span_is(name, "article") &&
        json_walk_next(&walk, &name, &more) == JSON_STEP_END) {
        *ret_object = value;
        *ret_whole = line;
        return 0;
    }
    *ret_object = line;
    *ret_whole = arena_printf(list->arena, "{\"article\":%.*s}", SPAN_ARGS(line));
    return ret_whole->at != NULL ? 0 : FAULT_MEMORY;
}

static int read_line(struct summarize_list *list, struct span line, const char *path, size_t number,
                     struct error *err)
{
    struct span object, whole, rest = line, value;
    struct article article;
    struct error why = {0};

    if (!json_value_take(&rest, &value) || rest.len > 0) {
        return fail(err, FAULT_INPUT, "%s:%zu: not a JSON object on one line", path, number);
    }
    if (unwrap(list, value, &object, &whole) != 0) {
        return no_memory(err);
    }
    if (article_read(whole, &article, &why) != 0) {
        return fail(err, FAULT_INPUT, "%s:%zu: %.180s", path, number, why.text);
    }
    return keep_article(list, object, shown(list, article.id), shown(list, article.title), err);
}

static int read_lines(struct summarize_list *list, struct span text, const char *path,
                      struct error *err)
{
    struct span line;
    int failed = 0;

    for (size_t number = 1; failed == 0 && text.len > 0; number++) {
        (void)span_cut(&text, '\n', &line); /* the last one may have no end */
        line = span_trim(line);
        if (line.len > 0 && line.at[line.len - 1] == '\r') {
            line.len--;
        }
        failed = line.len == 0 ? 0 : read_line(list, line, path, number, err);
    }
    return failed;
}

/* --- Markdown and text ---------------------------------------------------------------------------- */

static struct span clean_line(struct span line)
{
    if (line.len > 0 && line.at[line.len - 1] == '\r') {
        line.len--;
    }
    return span_trim(line);
}

static struct span unquoted(struct span text)
{
    bool is_quoted = text.len >= 2 && (text.at[0] == '"' || text.at[0] == '\'') &&
                     text.at[text.len - 1] == text.at[0];

    return is_quoted ? (struct span){.at = text.at + 1, .len = text.len - 2} : text;
}

/* "---", lines, "---": its title; *text is what stands behind it. */
static struct span take_front_matter(struct span *text)
{
    struct span rest = *text, line, title = {.at = "", .len = 0};

    (void)span_cut(&rest, '\n', &line); /* without one there is no front matter */
    if (!span_is(clean_line(line), "---")) {
        return title;
    }
    while (rest.len > 0) {
        (void)span_cut(&rest, '\n', &line); /* likewise */
        line = clean_line(line);
        if (span_is(line, "---")) {
            *text = rest;
            return title;
        }
        if (span_starts(line, "title:")) {
            title = unquoted(span_trim(span_from(line, strlen("title:"))));
        }
    }
    return (struct span){.at = "", .len = 0};
}

/* The first line that says something; a heading is taken off the text, another line stays. */
static struct span take_title(struct span *text)
{
    struct span rest = *text, line = {.at = "", .len = 0};

    while (rest.len > 0 && line.len == 0) {
        (void)span_cut(&rest, '\n', &line); /* the last one may have no end */
        line = clean_line(line);
    }
    if (span_starts(line, "#")) {
        while (span_starts(line, "#")) {
            line = span_from(line, 1);
        }
        *text = span_trim(rest).len > 0 ? rest : *text;
        line = span_trim(line);
    }
    if (line.len > TITLE_MAX) {
        line.len = TITLE_MAX;
        while (line.len > 0 && !span_is_utf8(line)) {
            line.len--;
        }
    }
    return line;
}

static struct span name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct span name = span_of(strcmp(path, "-") == 0 ? "stdin" : slash != NULL ? slash + 1 : path);
    const char *dot = strrchr(name.at, '.');

    if (dot != NULL && dot > name.at) {
        name.len = (size_t)(dot - name.at);
    }
    return name;
}

static bool is_blank(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (strchr(" \t\r\n", text.at[i]) == NULL || text.at[i] == '\0') {
            return false;
        }
    }
    return true;
}

static int read_text(struct summarize_list *list, struct span text, const char *path,
                     struct error *err)
{
    struct span name = name_of(path), title = take_front_matter(&text);
    struct buf object;
    struct writer writer = {.out = &object};

    if (is_blank(text)) {
        return fail(err, FAULT_INPUT, "%s has nothing in it to be summarised", path);
    }
    if (title.len == 0) {
        title = take_title(&text);
    }
    buf_init(&object, ESCAPED_TIMES * (text.len + title.len + name.len) + REQUEST_EXTRA);
    write_open(&writer, '{');
    write_named_text(&writer, "id", name);
    write_named_text(&writer, "title", title);
    write_named_text(&writer, "content", text);
    write_close(&writer, '}');
    int failed = writer.failed != 0 ? no_memory(err)
                                    : keep_article(list, buf_span(&object), name, title, err);
    buf_done(&object);
    return failed;
}

/* --- which it is ---------------------------------------------------------------------------------- */

static bool has_ending(const char *path, const char *ending)
{
    size_t len = strlen(path), ending_len = strlen(ending);

    return len > ending_len && strcmp(path + len - ending_len, ending) == 0;
}

static bool is_json(const char *path, struct span text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.at[0]) != NULL) {
        text = span_from(text, 1);
    }
    return has_ending(path, ".json") || has_ending(path, ".jsonl") || has_ending(path, ".ndjson") ||
           (strcmp(path, "-") == 0 && span_starts(text, "{"));
}

int summarize_read(struct summarize_list *list, const char *path, struct error *err)
{
    struct buf bytes;

    buf_init(&bytes, SUMMARIZE_FILE_BYTES_MAX);
    int failed = read_all(path, &bytes, err);
    struct span text = buf_span(&bytes);
    if (failed == 0 && span_starts(text, "\xef\xbb\xbf")) {
        text = span_from(text, 3); /* a byte order mark is no part of the text */
    }
    if (failed == 0 && !span_is_utf8(text)) {
        failed = fail(err, FAULT_INPUT, "%s is not UTF-8 text", path);
    }
    if (failed == 0) {
        failed = is_json(path, text) ? read_lines(list, text, path, err)
                                     : read_text(list, text, path, err);
    }
    buf_done(&bytes);
    return failed;
}
