/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the server by tests of what a slow disk does: every sync takes SLOWSYNC_US
 * microseconds, and does nothing else.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int slow(void)
{
    const char *text = getenv("SLOWSYNC_US");
    long us = text != NULL ? strtol(text, NULL, 10) : 0;
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    (void)nanosleep(&pause, NULL);
    return 0;
}

int fsync(int fd)
{
    (void)fd;
    return slow();
}

int fdatasync(int fd)
{
    (void)fd;
    return slow();
}

int syncfs(int fd)
{
    (void)fd;
    return slow();
}
