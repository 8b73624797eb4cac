/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the server by tests that must see a failure: while the file that $FAILSYNC_WHILE
 * names is there, every sync and every durable write fails, as on a disk that is dying.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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

/* What is not to be durable reaches the page cache all the same. */
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    if ((flags & RWF_DSYNC) != 0 && result() != 0) {
        return -1;
    }
    return syscall(SYS_pwritev2, fd, parts, count, offset, 0L, flags & ~RWF_DSYNC);
}
