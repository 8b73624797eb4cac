/* SPDX-License-Identifier: Apache-2.0 */
/* The file or block device of a log: found, made, locked, opened. */
#include "vfs/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define DEVICES "/dev/"

int log_file_open(int dir_fd, const char *name)
{
    /* What an admin names may be a link, as in /dev/disk; in an export we follow none. */
    const int flags = O_RDWR | O_CLOEXEC | (dir_fd == AT_FDCWD ? 0 : O_NOFOLLOW);
    int fd = openat(dir_fd, name, flags);
    /* A device that is not there is no reason to make a file of that name. */
    if (fd < 0 && errno == ENOENT && strncmp(name, DEVICES, sizeof DEVICES - 1) != 0) {
        fd = openat(dir_fd, name, flags | O_CREAT, 0600);
    }
    return fd >= 0 ? fd : -errno;
}

static int reserve(int fd, uint64_t bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > 0) {
        return 0;
    }
    bytes = bytes > JOURNAL_LOG_BYTES_MIN ? bytes : JOURNAL_LOG_BYTES_MIN;
    return -posix_fallocate(fd, 0, (off_t)bytes);
}

static int open_or_format(struct disk *disk, const char *path, struct journal_log **log,
                          struct err *err)
{
    struct err why = {0};
    int error = journal_log_open(disk, log, &why);
    if (error == -ENODATA) {
        error = journal_log_format(disk, &why);
        if (error == 0) {
            error = journal_log_open(disk, log, &why);
        }
    }
    if (error != 0) {
        disk_close(disk);
        return err_set(err, error, "the journal %s: %s", path, why.text);
    }
    return 0;
}

int log_open(int fd, const char *path, uint64_t new_bytes, struct journal_log **log,
             struct err *err)
{
    struct disk *disk = NULL;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int error = -errno;
        close(fd);
        return err_set(err, error, "the journal %s: another server uses it", path);
    }
    int error = reserve(fd, new_bytes);
    if (error != 0) {
        close(fd);
        return err_set(err, error, "the journal %s: %s", path, strerror(-error));
    }
    error = disk_posix_open(fd, path, &disk, err);
    return error == 0 ? open_or_format(disk, path, log, err) : error;
}
