/* SPDX-License-Identifier: MIT
 *
 * secrets: what is hidden of a request, and what is not (I10). tests/e2e/test_redaction.py looks for
 * secrets in everything that the program says.
 */
#include "harness.h"

#include "base/fault.h"
#include "task/secrets.h"
#include "task/url.h"

#include <stdio.h>
#include <string.h>

/* Header fields and query parameters, as services have them. */
static const char *const secret[] = {
    "Authorization",
    "PROXY-AUTHORIZATION",
    "X-Authorization",
    "X-Amz-Authorization",
    "X-Auth",
    "X-Auth-User",
    "xAuth",
    "XAuth",
    "auth",
    "basic_auth",
    "X-OAuth-Scopes",
    "oauth2",
    "X-Authentication",
    "cookie",
    "Set-Cookie",
    "Cookie2",
    "X-Api-Key",
    "api_key",
    "apiKey",
    "APIKEY",
    "api.key",
    "key",
    "Ocp-Apim-Subscription-Key",
    "subscription-key",
    "subscriptionkey",
    "x-functions-key",
    "Fastly-Key",
    "DD-API-KEY",
    "DD-APPLICATION-KEY",
    "X-Master-Key",
    "X-MasterKey",
    "X-Goog-Api-Key",
    "X-RapidAPI-Key",
    "X-Algolia-API-Key",
    "appkey",
    "app_key",
    "License-Key",
    "X-Encryption-Key",
    "x-amz-server-side-encryption-customer-key",
    "AWSAccessKeyId",
    "accessKey",
    "private_key",
    "access_token",
    "id_token",
    "refreshToken",
    "X-Auth-Token",
    "X-Vault-Token",
    "X-GitHub-Token",
    "PRIVATE-TOKEN",
    "X-Amz-Security-Token",
    "X-CSRF-Token",
    "X-Csrf",
    "x-xsrf",
    "csrfmiddleware",
    "client_secret",
    "X-Hub-Secret",
    "password",
    "user_password",
    "Passwd",
    "passphrase",
    "passcode",
    "pass",
    "db-pass",
    "pwd",
    "pw",
    "sig",
    "X-Sig",
    "X-Amz-Signature",
    "X-Hub-Signature-256",
    "Webhook-Signature",
    "X-Shopify-Hmac-Sha256",
    "X-Goog-Credential",
    "AWS_CREDENTIALS",
    "session",
    "X-Session-Id",
    "sessionId",
    "JSESSIONID",
    "PHPSESSID",
    "sid",
    "connect.sid",
    "jwt",
    "X-JWT-Assertion",
    "X-Goog-Iap-Jwt-Assertion",
    "client_assertion",
    "SAMLResponse",
    "saml_request",
    "X-Otp",
    "X-GitHub-OTP",
    "totp",
    "pin",
    "code",
    "code_verifier",
    "X-Bearer",
    "X-Key-1",
    "key1",
    "X-Signing-Key-02",
    "X-Psk",
    "psk2",
    "X-MAC",
    "request_mac",
    "X-Ticket",
    "ticket",
    "serviceTicket",
    "X-Mfa-Code",
    "mfa",
    "X-2fa",
    "X-2FA-Code",
    "twofa2fa",
    "X-Amzn-Oidc-Data",
    "X-Amzn-Oidc-Identity",
    "X-Client-Cert",
    "X-Forwarded-Client-Cert",
    "X-Amzn-Mtls-Clientcert",
    "X-Amzn-Mtls-Clientcert-Leaf",
    "tok",
    "X-Tok",
    "refresh",
    "DPoP",
    "X-Jws",
    "macaroon",
    "cvv",
    "card_cvc",
};

static const char *const plain[] = {
    "Idempotency-Key",
    "idempotency_key",
    "Sec-WebSocket-Key",
    "Content-Type",
    "Content-Length",
    "Content-Digest",
    "Accept",
    "Host",
    "Origin",
    "User-Agent",
    "WWW-Authenticate",
    "X-Daruma-Task",
    "X-Daruma-Attempt",
    "Webhook-Id",
    "Webhook-Timestamp",
    "Traceparent",
    "X-Request-Id",
    "X-Forwarded-For",
    "Retry-After",
    "ETag",
    "keyboard",
    "X-Keyboard",
    "keyword",
    "key-word-2",
    "monkey",
    "X-Monkey",
    "turkey",
    "donkey2",
    "hockey",
    "X-Machine",
    "machine_id",
    "X-Mac-Address",
    "macro",
    "X-Ticket-Id",
    "tickets",
    "stock",
    "X-Certified",
    "uncertain",
    "refresh_rate",
    "X-Refresh-Interval",
    "X-Risk",
    "author",
    "X-Author-Name",
    "authority",
    "compass",
    "passenger",
    "footprint",
    "pinned",
    "shipping",
    "side",
    "residence",
    "signal",
    "x-sign",
    "country_code",
    "postcode",
    "status_code",
    "page",
    "q",
    "order",
    "",
    "-",
    "_",
};

static void names_that_say_so_are_secret(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++) {
        if (!secrets_is_name(span_of(secret[i]))) {
            fail_msg("%s is shown", secret[i]);
        }
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (secrets_is_name(span_of(plain[i]))) {
            fail_msg("%s is hidden", plain[i]);
        }
    }
}

static void urls_are_shown_without_them(void **state)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {
        {"http://h/a?b=c#d", "http://h/a?b=c#d"},
        {"http://h", "http://h"},
        {"the-name-of-a-target", "the-name-of-a-target"},
        {"", ""},
        {"http://u:p@h/", "http://(hidden)@h/"},
        {"http://u@h?x", "http://(hidden)@h?x"},
        {"http://u:p@x@h/", "http://(hidden)@h/"},
        {"http://h/u@x?m=u@x", "http://h/u@x?m=u@x"},
        {"http://h/?api_key=s&a=b", "http://h/?api_key=(hidden)&a=b"},
        {"http://h?a=b&TOKEN=s", "http://h?a=b&TOKEN=(hidden)"},
        {"http://h/?%61pi%5Fkey=s", "http://h/?%61pi%5Fkey=(hidden)"},
        {"http://h/?key=", "http://h/?key="},
        {"http://h/?key", "http://h/?key"},
        {"http://h/?key=a=b=c&&", "http://h/?key=(hidden)&&"},
        {"/there?sig=s", "/there?sig=(hidden)"},
        {"?sig=s", "?sig=(hidden)"},
        {"//u:p@h/?sig=s", "//(hidden)@h/?sig=(hidden)"},
        /* Apart by `;`, which not every target takes for the end of a value. */
        {"http://h/?a=1;token=s&token=t", "http://h/?a=1;token=(hidden)&token=(hidden)"},
        {"http://h/?a=1;b=2;c&d;e=3", "http://h/?a=1;b=2;c&d;e=3"},
        {"http://h/?a=1;api_key=s;b=2&c=3", "http://h/?a=1;api_key=(hidden)&c=3"},
        {"http://h/?token=s;t&b=c", "http://h/?token=(hidden)&b=c"},
        {"http://h/?token;x=s&a;token", "http://h/?token;x=(hidden)&a;token"},
        {"http://h/?;;sig=s;", "http://h/?;;sig=(hidden)"},
        {"http://h/?a;sig=", "http://h/?a;sig="},
        /* Escaped: what a target that unescapes first, or the next one, sees. */
        {"http://h/?a=1%3Btoken=s", "http://h/?a=1%3Btoken=(hidden)"},
        {"http://h/?a=1%3bb=2%3btoken%3ds", "http://h/?a=1%3bb=2%3btoken%3d(hidden)"},
        {"http://h/?a=1%26token=s%26t", "http://h/?a=1%26token=(hidden)"},
        {"http://h/?a%3Dtoken=s", "http://h/?a%3Dtoken=(hidden)"},
        {"http://h/?token%3Bx=s", "http://h/?token%3Bx=(hidden)"},
        {"http://h/?to=http%3A%2F%2Fi%2F%3Fsig%3Ds&b=c",
         "http://h/?to=http%3A%2F%2Fi%2F%3Fsig%3D(hidden)&b=c"},
        {"http://h/?to=http://i/?sig=s", "http://h/?to=http://i/?sig=(hidden)"},
        {"http://h/?a=%&b=%3&c=%3", "http://h/?a=%&b=%3&c=%3"},
        /* In the path and behind it. */
        {"http://h/x;token=s/y", "http://h/x;token=(hidden)/y"},
        {"http://h/x;v=1;jsessionid=s?a=b", "http://h/x;v=1;jsessionid=(hidden)?a=b"},
        {"http://h/x%3Btoken=s/y;z=1/", "http://h/x%3Btoken=(hidden)/y;z=1/"},
        {"http://h/a#access_token=s&b=c", "http://h/a#access_token=(hidden)&b=c"},
        {"http://h/?a=b#sig=s", "http://h/?a=b#sig=(hidden)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out;
        buf_init(&out, 1024);
        assert_int_equal(secrets_add_url(&out, span_of(rows[i].url)), 0);
        if (!span_is(buf_span(&out), rows[i].shown)) {
            fail_msg("%s is shown as %.*s", rows[i].url, (int)out.len, out.at);
        }
        buf_done(&out);
    }
}

static void a_buf_that_is_too_small_stays_as_it_was(void **state)
{
    (void)state;
    for (size_t max = 1; max < strlen("xhttp://(hidden)@h/p?key=(hidden)&b"); max++) {
        struct buf out;
        buf_init(&out, max);
        assert_int_equal(buf_add(&out, SPAN("x")), 0);
        assert_int_equal(secrets_add_url(&out, SPAN("http://u:p@h/p?key=s&b")), FAULT_LIMIT);
        assert_int_equal(out.len, 1);
        buf_done(&out);
    }
}

static void what_was_shown_cannot_be_sent_back(void **state)
{
    (void)state;
    assert_string_equal(url_refuse(SPAN("http://h/?key=(hidden)")),
                        "(hidden), which stands for what was not shown");
    assert_null(url_refuse(SPAN("http://h/?key=hidden(x)")));
}

static void fields_are_split_by_their_names(void **state)
{
    struct buf rest, names;

    (void)state;
    buf_init(&rest, 1000);
    buf_init(&names, 1000);
    assert_int_equal(
        secrets_split_fields(SPAN("x-a: 1\nAuthorization: Bearer\nx-b: \nCookie: c=1\n"), &rest,
                             &names),
        0);
    assert_true(span_is(buf_span(&rest), "x-a: 1\nx-b: \n"));
    assert_true(span_is(buf_span(&names), "authorization, cookie"));
    buf_done(&rest);
    buf_done(&names);
    buf_init(&rest, 5);
    buf_init(&names, 5);
    assert_int_not_equal(secrets_split_fields(SPAN("x-a: 12345\n"), &rest, &names), 0);
    assert_int_not_equal(secrets_split_fields(SPAN("cookie: 1\n"), &rest, &names), 0);
    buf_done(&rest);
    buf_done(&names);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_say_so_are_secret),
        cmocka_unit_test(urls_are_shown_without_them),
        cmocka_unit_test(a_buf_that_is_too_small_stays_as_it_was),
        cmocka_unit_test(what_was_shown_cannot_be_sent_back),
        cmocka_unit_test(fields_are_split_by_their_names),
    };

    return HARNESS_RUN(argc, argv, tests);
}
