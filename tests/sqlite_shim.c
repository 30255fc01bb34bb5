/* SPDX-License-Identifier: MIT
 *
 * sqlite_shim -- see sqlite_shim.h. The files are the usual ones; only their table of methods is
 * exchanged for a copy with two of them replaced.
 */
#include "sqlite_shim.h"

#include <assert.h>
#include <sqlite3.h>
#include <stddef.h>

#define TABLES_MAX 8

static sqlite3_vfs shim;
static const sqlite3_vfs *usual;
static struct {
    const sqlite3_io_methods *usual;
    sqlite3_io_methods patched;
} tables[TABLES_MAX];
static enum shim_how armed_how;
static int calls_left, has_fired; /* calls_left 0: not armed */

static const sqlite3_io_methods *usual_of(const sqlite3_file *file)
{
    for (int i = 0; i < TABLES_MAX; i++) {
        if (file->pMethods == &tables[i].patched) {
            return tables[i].usual;
        }
    }
    return NULL;
}

static int fires_now(void)
{
    if (calls_left == 0 || --calls_left > 0) {
        return 0;
    }
    has_fired = 1;
    return 1;
}

static int shim_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 offset)
{
    const sqlite3_io_methods *methods = usual_of(file);

    if (armed_how == SHIM_SYNC_ERROR || !fires_now()) {
        return methods->xWrite(file, bytes, len, offset);
    }
    if (armed_how == SHIM_WRITE_FULL) {
        int code = methods->xWrite(file, bytes, len / 2, offset);
        return code != SQLITE_OK ? code : SQLITE_FULL;
    }
    int code = methods->xWrite(file, bytes, len, offset);
    return code != SQLITE_OK ? code : SQLITE_IOERR_WRITE;
}

static int shim_sync(sqlite3_file *file, int flags)
{
    if (armed_how == SHIM_SYNC_ERROR && fires_now()) {
        return SQLITE_IOERR_FSYNC;
    }
    return usual_of(file)->xSync(file, flags);
}

static void patch(sqlite3_file *file)
{
    for (int i = 0; i < TABLES_MAX; i++) {
        if (tables[i].usual == NULL) {
            tables[i].usual = file->pMethods;
            tables[i].patched = *file->pMethods;
            tables[i].patched.xWrite = shim_write;
            tables[i].patched.xSync = shim_sync;
        }
        if (tables[i].usual == file->pMethods) {
            file->pMethods = &tables[i].patched;
            return;
        }
    }
    assert(0); /* more kinds of files than SQLite has */
}

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    int code = usual->xOpen((sqlite3_vfs *)usual, name, file, flags, ret_flags);
    (void)vfs;

    if (file->pMethods != NULL) {
        patch(file);
    }
    return code;
}

void shim_install(void)
{
    usual = sqlite3_vfs_find(NULL);
    shim = *usual;
    shim.zName = "shim";
    shim.pNext = NULL;
    shim.xOpen = shim_open;
    assert(sqlite3_vfs_register(&shim, 1) == SQLITE_OK);
}

void shim_arm(enum shim_how how, int nth)
{
    armed_how = how;
    calls_left = nth;
    has_fired = 0;
}

int shim_has_fired(void)
{
    return has_fired;
}
