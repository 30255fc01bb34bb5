/* SPDX-License-Identifier: MIT
 *
 * Which requests ask for another method than their own, by header, query, path or form; and that no look at
 * one costs more than its length.
 */
#include "harness.h"

#include "base/buf.h"
#include "task/route_rename.h"

#include <stdio.h>
#include <time.h>

static const struct {
    const char *target;
    bool renames;
} queries[] = {{"/v1/orders?_method=PUT", true},
               {"/v1/orders?a=1&_method=PUT", true},
               {"/v1/orders?%5fMethod=PUT", true},
               {"/v1/orders?_method", true},
               {"/v1/orders?_%6dethod=PUT", true},
               {"/v1/orders?_metho%64=PUT", true},
               {"/v1/orders?%5f%6D%65%54hod=PUT", true},
               {"/v1/orders?%u005fmethod=PUT", true},
               {"/v1/orders?x=1;_method=PUT", true},
               {"/v1/orders?x=1;%20_method", true},
               {"/v1/orders?+_method=PUT", true},
               {"/v1/orders?.method=PUT", true},
               {"/v1/orders?%5bmethod=PUT", true},
               {"/v1/orders?[_method]=PUT", true},
               {"/v1/orders?_method%00x=PUT", true},
               {"/v1/orders?_method[]=PUT", true},
               {"/v1/orders?_method[0]=PUT", true},
               {"/v1/orders?_method%5B%5D=PUT", true},
               {"/v1/orders?_method%20=PUT", true},
               {"/v1/orders?X-HTTP-Method-Override=PUT", true},
               {"/v1/orders?a=1&x-http-method-override", true},
               {"/v1/orders?X%2DHTTP%2dMethod%2DOverride=PUT", true},
               {"/v1/orders?X-%48TTP-Method-Override[]=PUT", true},
               {"/v1/orders?X_HTTP_Method=PUT", true},
               {"/v1/orders?x-method-override=PUT", true},
               {"/v1/orders?_HttpMethod=PUT", true},
               {"/v1/orders?http_method=PUT", false}, /* of a webhook, say */
               {"/v1/orders?shipping_method_override=1", false},
               {"/v1/orders?a=X-HTTP-Method-Override", false},
               {"/v1/orders?X-HTTP-Method-Overrides=PUT", false},
               {"/v1/orders%3F_method=PUT", true}, /* decoded before it is taken apart */
               {"/v1/orders%3fa=1%26%5B_method%5D%3DPUT", true},
               {"/v1/orders/%3Fa;_method", true},
               {"/v1/orders%3FX-HTTP-Method-Override=PUT", true},
               {"/v1/orders%3F_methods", false},
               {"/v1/orders&_method=PUT", false},
               {"/v1/orders%3Fa=_method", false},
               {"/v1/orders?_method%", false},
               {"/v1/orders?_metho%6", false},
               {"/v1/orders?_metho", false},
               {"/v1/orders?_methods=PUT", false},
               {"/v1/orders?method=PUT", false},
               {"/v1/orders?%u00", false},
               {"/v1/orders?+%20", false},
               {"/v1/orders?a=1;b=_method", false},
               {"/v1/orders?a=_method=PUT", false},
               {"/v1/orders?payment_method=card", false},
               {"/v1/_method", false},
               {"/v1/orders?", false},
               {"/v1/orders?x&&y", false}};

static void what_renames_a_method_is_known(void **state)
{
    static const char *const renaming[] = {
        "X-HTTP-Method-Override",
        "X_HTTP_Method_Override",
        "X-Http-Methodoverride",
        "X-HTTP-Method",
        "x-http-method",
        "X_Http_Method",
        "X-Method-Override",
        "HTTP-Method-Override",
        "X.HTTP.Method",
        "Method-Override",
        "X-HttpMethod",
        "X-Method",
        "_method",
        "X-Override-Method",
    };
    static const char *const others[] = {
        "Access-Control-Request-Method",
        "Access-Control-Allow-Methods",
        "X-Payment-Method",
        "X-Shipping-Method-Code",
        "X-Methodology",
        "Override",
        "X-Auth-Method",
        "X-Forwarded-Method",
    };
    struct route_target target;
    char field[64];

    (void)state;
    assert_null(route_target_parse(SPAN("/v1/orders"), &target));
    for (size_t i = 0; i < sizeof renaming / sizeof *renaming; i++) {
        (void)snprintf(field, sizeof field, "a: b\n%s: PUT\n", renaming[i]);
        if (!route_renames_method(span_of(field), &target)) {
            fail_msg("%s renames", renaming[i]);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        (void)snprintf(field, sizeof field, "%s: PUT\n", others[i]);
        if (route_renames_method(span_of(field), &target)) {
            fail_msg("%s does not rename", others[i]);
        }
    }
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        assert_null(route_target_parse(span_of(queries[i].target), &target));
        if (route_renames_method(SPAN(""), &target) != queries[i].renames) {
            fail_msg("%s", queries[i].target);
        }
    }
}

#define FIELDS "Content-Type: application/x-www-form-urlencoded\n"
#define PARTS  "Content-Type: multipart/form-data; boundary=b\n"
#define PART   "--b\r\nContent-Disposition: form-data; "

static const struct {
    const char *headers, *body;
    bool renames;
} forms[] = {
    {FIELDS, "_method=DELETE", true},
    {FIELDS, "a=1&_Method=DELETE", true},
    {FIELDS, "a=1;%5fmethod=x", true},
    {FIELDS, "payment_method=card&a=_method", false},
    {FIELDS, "", false},
    {"content-type: Application/X-WWW-Form-Urlencoded;charset=utf-8\n", "_method=PUT", true},
    {"Content-Type: application/json\n" FIELDS, "_method=PUT", true},
    {"Accept: text/html\n", "_method=PUT", true}, /* of no type */
    {"Content-Type: \n", "_method=PUT", true},
    {"Content-Type: application/json\n", "_method=PUT", false},
    {"Content-Type: text/plain\n", "_method=PUT", false},
    {PARTS, PART "name=\"_method\"\r\n\r\nPUT\r\n--b--\r\n", true},
    {PARTS, PART "NAME=_method\r\n\r\nPUT\r\n--b--\r\n", true},
    {PARTS, PART "name=\"a\"\r\n\r\n1\r\n" PART "name=\"_METHOD\"\r\n\r\nPUT", true},
    {PARTS, "--b\ncontent-disposition:form-data;name='_method'\n\nPUT\n--b--", true},
    {PARTS, "--b\r\nContent-Disposition: form-data;\r\n name=\"_method\"\r\n\r\nPUT", true},
    {PARTS, PART "name=\"\\_me\\thod\"\r\n\r\nPUT", true},
    {PARTS, PART "name*=utf-8''%5Fmethod\r\n\r\nPUT", true},
    {PARTS, PART "name=\"  .method\"\r\n\r\nPUT", true},
    {PARTS, PART "name=\"payment_method\"\r\n\r\n_method=PUT\r\n--b--", false},
    {PARTS, PART "name=\"_methods\"\r\n\r\nPUT", false},
    {PARTS, PART "name=\"a\"\r\n\r\nname=\"_method\"\r\n--b--", false},
    {"Content-Type: application/json\n", PART "name=\"_method\"\r\n\r\nPUT", false},
    {PARTS, "\r\n\r\n--b", false},
    {PARTS, PART "name=_method \r\n\r\nPUT", true},
    {PARTS, PART "name=_method ; x=y\r\n\r\nPUT", true},
    {PARTS, PART "name=\r\n _method\r\n\r\nPUT", true},
    {PARTS, PART "name=_method\r\n ;x=y\r\n\r\nPUT", true},
    {PARTS, PART "name*0=\"_met\"; name*1=\"hod\"\r\n\r\nPUT", true}, /* RFC 2231 */
    {PARTS, PART "name*0*=utf-8''%5Fmet; name*1=hod\r\n\r\nPUT", true},
    {PARTS, PART "name*1=hod; NAME*0=_met\r\n\r\nPUT", true},
    {PARTS, PART "name * 0 * = _met;\r\n\tname*1=hod\r\n\r\nPUT", true},
    {PARTS, "Content-Disposition:name*12=a\r\n", true},
    {PARTS, PART "filename=a; name*0", false},
    {PARTS, PART "filename*0=a; filename*1=b; name=c\r\n\r\n", false},
    {PARTS, PART "name=\"a\"; filename=\"the name*1.txt\"\r\n\r\n", false},
    {PARTS, PART "name0=a; name**=b; name*x=c; nickname*0=d; name*=utf-8''e\r\n\r\n", false},
    {PARTS, PART "name=\"a\"\r\n\r\nname*0=_met\r\n", false},
    {PARTS, "Content-Type: text/plain; name*0=a; name*1=b\r\n", false},
    {PARTS, PART "name=\"=?utf-8?Q?=5Fmethod?=\"\r\n\r\nPUT", true}, /* RFC 2047 */
    {PARTS, PART "name=\"=?utf-8?B?X21ldGhvZA==?=\"\r\n\r\nPUT", true},
    {PARTS, PART "name==?utf-8?Q?=5Fmethod?=\r\n\r\nPUT", true},
    {PARTS, PART "name = '=?utf-8?Q?=5Fmethod?='\r\n\r\nPUT", true},
    {PARTS, PART "name=\r\n \"=?utf-8?Q?=5Fmethod?=\"\r\n\r\nPUT", true},
    {PARTS, PART "name=\"\\=\\?utf-8?Q?=5Fmethod?=\"\r\n\r\nPUT", true},
    {PARTS, PART "name=\"_me=?utf-8?Q?thod?=\"\r\n\r\nPUT", true},
    {PARTS, PART "name*==?utf-8?Q?=5Fmethod?=\r\n\r\nPUT", true},
    {PARTS, PART "name=\"a\"; filename=\"=?utf-8?Q?=C3=A9?=\"\r\n\r\n", false},
    {PARTS, PART "filename=\"=?utf-8?Q?=5Fmethod?=\"; name=\"a\"\r\n\r\n", false},
    {PARTS, PART "filename==?utf-8?Q?=C3=A9?=; name=a\r\n\r\n", false},
    {PARTS, PART "name=\"\xc3\xa9=a?\"; filename=\"who's name=?.txt\"\r\n\r\n", false},
    {PARTS, PART "name=\"a\"\r\n\r\nname=\"=?utf-8?Q?=5Fmethod?=\"\r\n", false},
    {FIELDS, "[_method]=PUT", true},
    {FIELDS, "a=1&]%5B_method]]=PUT", true},
    {FIELDS, "[_methods]=a&a[_method]=b&]method=c&methods[]=d", false},
    {FIELDS, "a=1&_method[]=PUT", true},
    {FIELDS, "_method[0]=PUT", true},
    {FIELDS, "_method%5B%5D=PUT", true},
    {FIELDS, "a=1&X-HTTP-Method-Override=PUT", true},
    {FIELDS, "http_method=PUT&method=a&the_method_override=b", false},
    {PARTS, PART "name=\"_method[]\"\r\n\r\nPUT", true},
    {PARTS, PART "name=_method[0]\r\n\r\nPUT", true},
    {PARTS, PART "name=\"X-HTTP-Method-Override\"\r\n\r\nPUT", true},
    {PARTS, PART "name=x-http-method-override; a=b\r\n\r\nPUT", true},
    {PARTS, PART "name=\"X-HTTP\\-Method-Override\"\r\n\r\nPUT", true},
    {PARTS, PART "name*=utf-8''X%2DHTTP-Method-Override\r\n\r\nPUT", true},
    {PARTS, "--b\r\nContent-ID: X-HTTP-Method-Override\r\n\r\nPUT", true},
    {PARTS, PART "name=\"http_method\"\r\n\r\nX-HTTP-Method-Override", false},
    {PARTS, PART "name=\"[_method]\"\r\n\r\nPUT", true},
    {PARTS, "--b\r\nContent-ID: _method\r\n\r\nPUT", true}, /* for want of another name */
    {PARTS, "--b\r\nContent-Disposition: form-data\r\n Content-ID:_method\r\n\r\nPUT", true},
    {PARTS, "--b\r\nContent-ID: <_method@a>\r\n\r\nPUT", false},
    {PARTS, "--b\r\nContent-Identity: _method\r\n\r\nPUT", false},
    {PARTS, "--b\r\nX: Content-Disposition: form-data; name=_method\r\n\r\nPUT", true},
    {PARTS, "--b\r\nDisposition: form-data; name=_method\r\n\r\nPUT", false},
    {PARTS, PART "\r\nname=_method\r\n\r\nPUT", true}, /* a line without a colon */
    {PARTS, PART "name=\"_me\r\nthod\"\r\n\r\nPUT", true},
    {PARTS, PART "name=_method\r\nmore\r\n\r\nPUT", true},
    {PARTS, PART "name=_method\\\r\n]more\r\n\r\nPUT", true},
    {PARTS, PART "name=\"a\"\n\nname=\"_method\"\n", false},
    {PARTS, PART "name=\"a\"\r\nX: y; name=\"_method\"\r\n", false},
    {PARTS, "-", false},
    {PARTS, "content-", false}};

static void a_form_that_renames_its_method_is_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (route_form_renames_method(span_of(forms[i].headers), span_of(forms[i].body)) !=
            forms[i].renames) {
            fail_msg("%s%s", forms[i].headers, forms[i].body);
        }
    }
}

#define FORM_BYTES  (1u << 19)
#define FORM_RUNS   5
#define FORM_FACTOR 25 /* what is to be read twice, byte by byte, against what is read once */

static double seconds_used(void)
{
    struct timespec used;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static double seconds_of_form(struct buf *body, const char *headers, const char *start,
                              const char *again)
{
    double least = 1e9;

    buf_clear(body);
    assert_int_equal(buf_add(body, span_of(start)), 0);
    while (body->len + strlen(again) <= FORM_BYTES) {
        assert_int_equal(buf_add(body, span_of(again)), 0);
    }
    for (int i = 0; i < FORM_RUNS; i++) {
        double began = seconds_used();
        assert_false(route_form_renames_method(span_of(headers), buf_span(body)));
        double used = seconds_used() - began;
        least = used < least ? used : least;
    }
    return least;
}

static void no_form_costs_much_more_than_another_of_its_length(void **state)
{
    static const char head[] = "Content-Disposition: form-data; name=";
    static const struct {
        const char *headers, *start, *again;
    } costly[] = {
        {PARTS, head, "="},
        {PARTS, head, "\""},
        {PARTS, head, "='\""},
        {PARTS, head, "=\\"},
        {PARTS, head, "=\\\\\\"},
        {PARTS, head, "\\"},
        {PARTS, head, "= "},
        {PARTS, head, " "},
        {PARTS, head, "=%"},
        {PARTS, head, "=%20"},
        {PARTS, head, "%20"},
        {PARTS, head, "=+"},
        {PARTS, head, "=_meth"},
        {PARTS, head, "=%5F%6d"},
        {PARTS, head, "=%u00"},
        {PARTS, head, "\r\n ="},
        {PARTS, "", "-"},
        {PARTS, "", "Content-"},
        {PARTS, head, "=["},
        {PARTS, head, "a\n"},
        {PARTS, head, "a\r\n\r\n b"},
        {PARTS, "", "\n"},
        {PARTS, "", "a\r\n"},
        {PARTS, head, "\r\n"},
        {PARTS, "", "Content-Disposition: =\r\n"},
        {FIELDS, "", "&"},
        {FIELDS, "", "="},
        {FIELDS, "", "+"},
        {FIELDS, "", "%20"},
        {FIELDS, "", "&_metho"},
        {FIELDS, "", "&%5f%6"},
        {FIELDS, "", "-"},
        {FIELDS, "", "%2D"},
        {FIELDS, "", "&x-http-method-overrid"},
        {PARTS, head, "=x-http-method-overrid"},
        {PARTS, head, "=\"%2d\\"},
        {PARTS, head, "-%"},
    };
    struct buf body;

    (void)state;
    buf_init(&body, FORM_BYTES);
    double usual = seconds_of_form(&body, PARTS, head, "A");
    for (size_t i = 0; i < sizeof costly / sizeof *costly; i++) {
        double used = seconds_of_form(&body, costly[i].headers, costly[i].start, costly[i].again);
        if (used > usual * FORM_FACTOR) {
            fail_msg("%s%s%s...: %.4f s, not %.4f", costly[i].headers, costly[i].start,
                     costly[i].again, used, usual);
        }
    }
    buf_done(&body);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_renames_a_method_is_known),
        cmocka_unit_test(a_form_that_renames_its_method_is_known),
        cmocka_unit_test(no_form_costs_much_more_than_another_of_its_length),
    };
    return HARNESS_RUN(argc, argv, tests);
}
