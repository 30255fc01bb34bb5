/* SPDX-License-Identifier: MIT
 *
 * sqlite_shim -- a disk that fails under SQLite: the n-th write or sync of any file, as told. Does
 * to the driver what store_faulty does to the store.
 */
#ifndef SQLITE_SHIM_H
#define SQLITE_SHIM_H

enum shim_how {
    SHIM_WRITE_FULL,  /* half of it is written, then there is no room */
    SHIM_WRITE_ERROR, /* all of it is written, and called an error */
    SHIM_SYNC_ERROR,  /* not synced */
    SHIM_HOW_COUNT
};

void shim_install(void);                   /* before the first file is opened */
void shim_arm(enum shim_how how, int nth); /* from 1 */
int shim_has_fired(void);

#endif
