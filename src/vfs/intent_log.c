/* SPDX-License-Identifier: Apache-2.0 */
/* The file or block device of a log: found, made, locked, opened. */
#include "vfs/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NEW_SUFFIX ".new"
/* A log that nobody has asked for takes no more of what is free than one part of so many. */
#define FREE_PARTS_MIN 4U

int log_file_open(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : -errno;
}

static uint64_t bytes_of_new(uint64_t bytes)
{
    return bytes > JOURNAL_LOG_BYTES_MIN ? bytes : JOURNAL_LOG_BYTES_MIN;
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
    return -posix_fallocate(fd, 0, (off_t)bytes_of_new(bytes));
}

static int check_free(int dir_fd, uint64_t bytes)
{
    struct statvfs fs;
    if (fstatvfs(dir_fd, &fs) != 0) {
        return -errno;
    }
    uint64_t blocks = bytes_of_new(bytes) / fs.f_frsize;
    return fs.f_bavail / FREE_PARTS_MIN >= blocks ? 0 : -ENOSPC;
}

/* Whether it can be written past the page cache. */
static int check_direct(int fd, const char *name)
{
    struct disk *disk = NULL;
    struct err why;
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int err = other < 0 ? -errno : disk_posix_open(other, name, &disk, &why);
    if (err == 0) {
        disk_close(disk);
    }
    return err;
}

static int make_file(int dir_fd, const char *name, uint64_t bytes)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    char made[NAME_SPACE];
    snprintf(made, sizeof made, "%s" NEW_SUFFIX, name);
    unlinkat(dir_fd, made, 0);
    int fd = openat(dir_fd, made, flags, 0600);
    int err = fd < 0 ? -errno : reserve(fd, bytes);
    if (err == 0) {
        err = check_direct(fd, made);
    }
    if (err == 0 && renameat(dir_fd, made, dir_fd, name) != 0) {
        err = -errno;
    }
    if (err != 0 && fd >= 0) {
        close(fd);
        unlinkat(dir_fd, made, 0);
    }
    return err == 0 ? fd : err;
}

int log_file_make(int dir_fd, const char *name, uint64_t bytes)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (!S_ISREG(st.st_mode) || st.st_size > 0)) {
        return log_file_open(dir_fd, name);
    }
    int err = check_free(dir_fd, bytes);
    return err == 0 ? make_file(dir_fd, name, bytes) : err;
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
