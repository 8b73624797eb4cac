/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the server by tests that must see a failure: while the file that $FAILSYNC_WHILE
 * names is there, every sync fails, as on a disk that is dying.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int result(void)
{
    const char *path = getenv("FAILSYNC_WHILE");
    if (path != NULL && access(path, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return 0;
}

int fsync(int fd)
{
    (void)fd;
    return result();
}

int fdatasync(int fd)
{
    (void)fd;
    return result();
}

int syncfs(int fd)
{
    (void)fd;
    return result();
}
