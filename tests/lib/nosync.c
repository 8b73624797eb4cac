/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the server by tests that must see a loss: every sync succeeds and does nothing,
 * and a durable write is a write.
 */
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    return syscall(SYS_pwritev2, fd, parts, count, offset, 0L, flags & ~RWF_DSYNC);
}

int fsync(int fd)
{
    (void)fd;
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

int syncfs(int fd)
{
    (void)fd;
    return 0;
}

int sync_file_range(int fd, off_t offset, off_t count, unsigned int flags)
{
    (void)fd;
    (void)offset;
    (void)count;
    (void)flags;
    return 0;
}
