/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the server by tests that must see a loss: every sync succeeds and does nothing.
 */
#include <fcntl.h>
#include <unistd.h>

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
