/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the server by tests of what a slow user database does: the groups of the user that
 * $SLOWNSS_USER names come only when the file that $SLOWNSS_UNTIL names is there. Each question is
 * a line in the file that $SLOWNSS_LOG names.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int getgrouplist_function(const char *user, gid_t gid, gid_t *groups, int *count);

static void note(const char *user)
{
    const char *log = getenv("SLOWNSS_LOG");
    char line[256];
    int fd = log != NULL ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (fd >= 0) {
        int bytes = snprintf(line, sizeof line, "%s\n", user);
        ssize_t written = write(fd, line, (size_t)bytes);
        (void)written;
        close(fd);
    }
}

int getgrouplist(const char *user, gid_t gid, gid_t *groups, int *count)
{
    const char *slow = getenv("SLOWNSS_USER");
    const char *until = getenv("SLOWNSS_UNTIL");
    union {
        void *symbol;
        getgrouplist_function *call;
    } next = {dlsym(RTLD_NEXT, "getgrouplist")};
    note(user);
    while (slow != NULL && until != NULL && strcmp(user, slow) == 0 && access(until, F_OK) != 0) {
        const struct timespec pause = {0, 10000000};
        (void)nanosleep(&pause, NULL);
    }
    return next.call(user, gid, groups, count);
}
