/* SPDX-License-Identifier: MIT
 *
 * streams -- see streams.h.
 */
#include "base/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The lowest number that is free, which is the one that is missing: those below it are held already.
 * Where there is no /dev, a folder does as well: it can be neither read from nor written to. */
static int open_lowest(int stream)
{
    int fd = open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);

    return fd >= 0 ? fd : open("/", O_RDONLY | O_DIRECTORY);
}

bool streams_hold(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
        if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) {
            continue;
        }
        if (open_lowest(stream) != stream) {
            return false;
        }
    }
    return true;
}
