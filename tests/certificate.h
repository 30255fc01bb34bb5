/* SPDX-License-Identifier: MIT
 *
 * certificate -- a file of authorities for configurations that name one (`ca`): there has to be one.
 */
#ifndef CERTIFICATE_H
#define CERTIFICATE_H

void certificate_write(const char *path); /* in PEM */

#endif
