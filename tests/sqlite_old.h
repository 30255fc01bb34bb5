/* SPDX-License-Identifier: MIT
 *
 * sqlite_old -- files of the SQLite store as earlier versions wrote them, as SQL.
 */
#ifndef SQLITE_OLD_H
#define SQLITE_OLD_H

extern const char sqlite_old_1[]; /* schema version 1 */

#endif
