/* SPDX-License-Identifier: MIT
 *
 * key_rules -- see key_rules.h.
 */
#include "task/key_rules.h"

static int add_lower(struct buf *out, struct span text)
{
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < text.len; i++) {
        bool is_upper = text.at[i] >= 'A' && text.at[i] <= 'Z';
        char letter = (char)(is_upper ? text.at[i] - 'A' + 'a' : text.at[i]);
        failed = buf_add(out, (struct span){&letter, 1});
    }
    return failed;
}

static int add_scope(const struct route_settings *route, struct buf *out)
{
    static const char *const kinds[] = {[ROUTE_SCOPE_GLOBAL] = "scope global",
                                        [ROUTE_SCOPE_HEADER] = "scope header:",
                                        [ROUTE_SCOPE_COOKIE] = "scope cookie:"};
    bool is_header = route->scope == ROUTE_SCOPE_HEADER; /* whose names have no case */
    int failed = buf_add(out, span_of(kinds[route->scope]));

    if (failed != 0 || route->scope == ROUTE_SCOPE_GLOBAL) {
        return failed;
    }
    return is_header ? add_lower(out, route->scope_name) : buf_add(out, route->scope_name);
}

static int add_fingerprint(const struct route_settings *route, struct buf *out)
{
    static const char *const prints[] = {[ROUTE_PRINT_BODY] = ", fingerprint body",
                                         [ROUTE_PRINT_OFF] = ", fingerprint off",
                                         [ROUTE_PRINT_FIELDS] = ", fingerprint fields"};
    int failed = buf_add(out, span_of(prints[route->print]));

    for (size_t i = 0; failed == 0 && i < route->field_count; i++) {
        failed = buf_add(out, SPAN(" "));
        failed = failed != 0 ? failed : buf_add(out, route->fields[i]);
    }
    return failed;
}

int key_rules_render(const struct route_settings *route, struct buf *out)
{
    int failed = add_scope(route, out);

    failed = failed != 0 ? failed : buf_add(out, SPAN(", key "));
    failed = failed != 0 ? failed : add_lower(out, route->header);
    if (failed == 0 && route->derives_key) {
        failed = buf_add(out, SPAN(" or derived"));
    }
    return failed != 0 ? failed : add_fingerprint(route, out);
}
