/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file or block device with O_DIRECT. A durable write to a file is one pwritev2 with RWF_DSYNC:
 * where the disk has FUA one command, else a write and a flush. The blocks must have been written
 * before (not only allocated), or each first write costs the file system a commit of its own. When
 * it goes to a device itself, the kernel makes such a write durable (FUA, or a flush), and then
 * flushes the device all the same: so there it is a plain write, and fdatasync, which is one flush.
 */
#include "os/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct disk_posix {
    struct disk disk;
    int fd;
    bool is_device;
};

static int posix_read(struct disk *disk, uint64_t offset, void *bytes, size_t size_bytes)
{
    const struct disk_posix *posix = (const struct disk_posix *)disk;
    uint8_t *at = bytes;
    while (size_bytes > 0) {
        ssize_t got = pread(posix->fd, at, size_bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -errno : -EIO;
        }
        at += got;
        offset += (uint64_t)got;
        size_bytes -= (size_t)got;
    }
    return 0;
}

static int posix_flush(struct disk *disk)
{
    const struct disk_posix *posix = (const struct disk_posix *)disk;
    return fdatasync(posix->fd) == 0 ? 0 : -errno;
}

static int posix_write(struct disk *disk, uint64_t offset, const void *bytes, size_t size_bytes,
                       bool durable)
{
    const struct disk_posix *posix = (const struct disk_posix *)disk;
    const uint8_t *at = bytes;
    int flags = durable && !posix->is_device ? RWF_DSYNC : 0;
    while (size_bytes > 0) {
        struct iovec one = {.iov_base = (void *)(uintptr_t)at, .iov_len = size_bytes};
        ssize_t put = pwritev2(posix->fd, &one, 1, (off_t)offset, flags);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return put < 0 ? -errno : -EIO;
        }
        at += put;
        offset += (uint64_t)put;
        size_bytes -= (size_t)put;
    }
    return durable && posix->is_device ? posix_flush(disk) : 0;
}

static void posix_close(struct disk *disk)
{
    struct disk_posix *posix = (struct disk_posix *)disk;
    close(posix->fd);
    free(posix);
}

static const struct disk_ops posix_ops = {posix_read, posix_write, posix_flush, posix_close};

static int size_of(int fd, uint64_t *size_bytes, bool *is_device)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return -errno;
    }
    *is_device = S_ISBLK(st.st_mode);
    if (S_ISREG(st.st_mode)) {
        *size_bytes = (uint64_t)st.st_size;
        return 0;
    }
    if (!*is_device) {
        return -ENOTBLK;
    }
    return ioctl(fd, BLKGETSIZE64, size_bytes) == 0 ? 0 : -errno;
}

/* Some file systems take the flag and refuse the read. */
static int try_direct(int fd, uint64_t size_bytes)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) {
        return -EOPNOTSUPP;
    }
    if (size_bytes < DISK_BLOCK_BYTES) {
        return 0;
    }
    void *block = aligned_alloc(DISK_BLOCK_BYTES, DISK_BLOCK_BYTES);
    if (block == NULL) {
        return -ENOMEM;
    }
    ssize_t got = pread(fd, block, DISK_BLOCK_BYTES, 0);
    int err = got >= 0 ? 0 : errno == EINVAL ? -EOPNOTSUPP : -errno;
    free(block);
    return err;
}

int disk_posix_open(int fd, const char *path, struct disk **disk, struct err *err)
{
    uint64_t size_bytes = 0;
    bool is_device = false;
    struct disk_posix *posix = NULL;
    int error = size_of(fd, &size_bytes, &is_device);
    if (error == 0) {
        error = try_direct(fd, size_bytes);
    }
    if (error == 0) {
        posix = malloc(sizeof *posix);
        error = posix == NULL ? -ENOMEM : 0;
    }
    if (error != 0) {
        close(fd);
        return error == -EOPNOTSUPP
                   ? err_set(err, error, "%s: its file system cannot write past the page cache",
                             path)
               : error == -ENOTBLK
                   ? err_set(err, error, "%s is neither a file nor a block device", path)
                   : err_set(err, error, "%s: %s", path, strerror(-error));
    }
    *posix = (struct disk_posix){
        .disk = {.ops = &posix_ops, .size_bytes = size_bytes & ~(uint64_t)(DISK_BLOCK_BYTES - 1)},
        .fd = fd,
        .is_device = is_device};
    *disk = &posix->disk;
    return 0;
}
