/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_with_parents(const char *dir, struct err *err)
{
    char path[PATH_MAX];

    if (strlen(dir) >= sizeof path) {
        return err_set(err, -ENAMETOOLONG, "the state directory's name is too long");
    }
    strcpy(path, dir);
    for (char *slash = path + 1; *path != '\0'; slash++) {
        char was = *slash;
        if (was != '/' && was != '\0') {
            continue;
        }
        *slash = '\0';
        if (mkdir(path, was == '/' ? 0755 : 0700) != 0 && errno != EEXIST) {
            int error = -errno;
            return err_set(err, error,
                           "cannot make the state directory %s: %s; choose another with "
                           "--state DIR",
                           path, strerror(-error));
        }
        *slash = was;
        if (was == '\0') {
            break;
        }
    }
    return 0;
}

/* Whoever can write there can read or change the key of all handles. */
static int check_owner(const char *dir, struct err *err)
{
    struct stat st;

    if (stat(dir, &st) != 0) {
        int error = -errno;
        return err_set(err, error, "cannot look at the state directory %s: %s", dir,
                       strerror(-error));
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(err, -ENOTDIR, "%s is no directory; choose another with --state DIR", dir);
    }
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return err_set(err, -EPERM,
                       "the state directory %s is writable for others than uid %u, who could then "
                       "forge file handles; `chown %u %s; chmod 700 %s`, or choose another with "
                       "--state DIR",
                       dir, geteuid(), geteuid(), dir, dir);
    }
    return 0;
}

static void read_owner(int fd, char *text, size_t text_bytes)
{
    ssize_t n = pread(fd, text, text_bytes - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

int state_take(const char *dir, int *lock_fd, struct err *err)
{
    char path[PATH_MAX + 8];
    char text[32];

    int error = make_with_parents(dir, err);
    if (error == 0) {
        error = check_owner(dir, err);
    }
    if (error != 0) {
        return error;
    }
    (void)snprintf(path, sizeof path, "%s/lock", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        error = -errno;
        return err_set(err, error,
                       "cannot write in the state directory: %s: %s; choose another with "
                       "--state DIR",
                       path, strerror(-error));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        read_owner(fd, text, sizeof text);
        close(fd);
        return err_set(
            err, -EBUSY,
            "another holdfast (process %s) uses the state directory %s; give this one its "
            "own with --state DIR",
            text, dir);
    }
    int bytes = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)bytes, 0) != bytes) {
        error = -errno;
        close(fd);
        return err_set(err, error, "cannot write %s: %s", path, strerror(-error));
    }
    *lock_fd = fd;
    return 0;
}
