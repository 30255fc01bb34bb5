/* SPDX-License-Identifier: MIT
 *
 * certificate -- see certificate.h. Its key was thrown away.
 */
#include "certificate.h"

#include "harness.h"

#include <stdio.h>

static const char pem[] = "-----BEGIN CERTIFICATE-----\n"
                          "MIIBgzCCASmgAwIBAgIUD/BkiMHdsSayj5+oZOd8eW0PA7YwCgYIKoZIzj0EAwIw\n"
                          "FjEUMBIGA1UEAwwLZGFydW1hIHRlc3QwIBcNMjYxMTE5MjExODExWhgPMjEyNjEw\n"
                          "MjYyMTE4MTFaMBYxFDASBgNVBAMMC2RhcnVtYSB0ZXN0MFkwEwYHKoZIzj0CAQYI\n"
                          "KoZIzj0DAQcDQgAE1N6alTsKxzYHzZpzDko9NgYdU6fEM9HVw+dn1EdiUidmzDZP\n"
                          "xWqdKoCvTm0F6zrEROQwEJUtWeqvrCBOPZeK7aNTMFEwHQYDVR0OBBYEFJPVRl36\n"
                          "dE8T/8nQMDTYbp4jNm6+MB8GA1UdIwQYMBaAFJPVRl36dE8T/8nQMDTYbp4jNm6+\n"
                          "MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAK0u9Uis+6mID2xw\n"
                          "wJ1mlntQbOAQVrJD1eMd+wibAzUUAiAgnf+GRj/acAN9kBZekVvPiHGkgWhpa5j6\n"
                          "3cjBd23Vug==\n"
                          "-----END CERTIFICATE-----\n";

void certificate_write(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(pem, file) >= 0);
    assert_int_equal(fclose(file), 0);
}
