/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk of a fixed size, as the journal sees one: reads and writes of whole blocks, and a flush.
 * Tests bring a simulated one that loses what was not flushed.
 *
 * Memory, offsets and sizes are multiples of DISK_BLOCK_BYTES. One thread at a time, but for read.
 * Functions return 0 or -errno; a write or flush that failed leaves the blocks in any state, and
 * the error is not reported again.
 */
#ifndef OS_DISK_H
#define OS_DISK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define DISK_BLOCK_BYTES 4096U

struct disk;

struct disk_ops {
    int (*read)(struct disk *disk, uint64_t offset, void *bytes, size_t size_bytes);
    /* durable: on stable storage when it returns. What other writes left unflushed may stay so. */
    int (*write)(struct disk *disk, uint64_t offset, const void *bytes, size_t size_bytes,
                 bool durable);
    int (*flush)(struct disk *disk);
    void (*close)(struct disk *disk);
};

struct disk {
    const struct disk_ops *ops;
    uint64_t size_bytes;
};

static inline int disk_read(struct disk *disk, uint64_t offset, void *bytes, size_t size_bytes)
{
    return disk->ops->read(disk, offset, bytes, size_bytes);
}

static inline int disk_write(struct disk *disk, uint64_t offset, const void *bytes,
                             size_t size_bytes, bool durable)
{
    return disk->ops->write(disk, offset, bytes, size_bytes, durable);
}

static inline int disk_flush(struct disk *disk)
{
    return disk->ops->flush(disk);
}

static inline void disk_close(struct disk *disk)
{
    if (disk != NULL) {
        disk->ops->close(disk);
    }
}

/* A regular file or block device, opened past the page cache (O_DIRECT). Takes fd over, also on
 * failure; it must be open for what is done with it. path is for messages. -EOPNOTSUPP: the file
 * system knows no direct I/O. */
int disk_posix_open(int fd, const char *path, struct disk **disk, struct err *err) MUST_USE;

#endif
