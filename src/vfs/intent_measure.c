/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much stable data goes into the log, and from where on syncing the file is cheaper: measured
 * on the devices, when a log is opened.
 *
 * Data in the log costs one durable write that is longer by so much, and is written once more
 * later. Data that is synced costs what the file system's fsync of as much new data takes, and then
 * a durable write of the record that says so. The largest size at which the log wins is the limit.
 * Each is the middle one of three; the largest size comes first, so that on most devices nothing
 * else has to be tried.
 */
#include "vfs/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_NAME "measure"
#define SAMPLES 3
#define BYTES_LEAST 4096U
/* A device that needs longer gets this, unmeasured. */
#define BYTES_UNKNOWN (32U * 1024)
#define TIME_NS_MAX (500U * 1000000ULL)

struct measuring {
    struct journal_log *log;
    int fd; /* a file in the export */
    uint64_t began_ns;
    uint8_t *data;
    off_t end; /* of the file */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static int write_log(struct measuring *measuring, uint32_t size_bytes)
{
    return journal_log_try(measuring->log, size_bytes);
}

static int sync_file(struct measuring *measuring, uint32_t size_bytes)
{
    if (pwrite(measuring->fd, measuring->data, size_bytes, measuring->end) !=
        (ssize_t)size_bytes) {
        return -ENOSPC;
    }
    measuring->end += size_bytes;
    return fsync(measuring->fd) == 0 ? 0 : -errno;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* -ETIME: it has taken long enough. */
static int measure(struct measuring *measuring, int (*run)(struct measuring *, uint32_t),
                   uint32_t size_bytes, uint64_t *took_ns)
{
    uint64_t samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t began_ns = now_ns();
        if (began_ns - measuring->began_ns > TIME_NS_MAX) {
            return -ETIME;
        }
        int err = run(measuring, size_bytes);
        if (err != 0) {
            return err;
        }
        samples[i] = now_ns() - began_ns;
    }
    qsort(samples, SAMPLES, sizeof *samples, by_value);
    *took_ns = samples[SAMPLES / 2];
    return 0;
}

static int find_limit(struct measuring *measuring, struct intent_speed *speed)
{
    int err = measure(measuring, write_log, BYTES_LEAST, &speed->write_ns);
    for (uint32_t size = JOURNAL_DATA_BYTES_MAX; err == 0 && size >= BYTES_LEAST; size /= 2) {
        uint64_t log_ns = 0, sync_ns = 0;
        err = measure(measuring, write_log, size + BYTES_LEAST, &log_ns);
        if (err == 0) {
            err = measure(measuring, sync_file, size, &sync_ns);
        }
        if (err != 0) {
            break;
        }
        uint64_t more_ns = log_ns > speed->write_ns ? log_ns - speed->write_ns : 0;
        bool wins = log_ns + more_ns <= sync_ns + speed->write_ns;
        speed->sync_ns = sync_ns;
        speed->write_bytes_max = wins || size == BYTES_LEAST ? size : size / 2;
        if (wins) {
            break;
        }
    }
    return err;
}

/* A log that cannot be written is an error; a file that cannot be, or a slow device, is none. */
int intent_measure(const struct vfs_export *export, struct journal_log *log,
                   struct intent_speed *speed)
{
    const int flags = O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    struct measuring measuring = {.log = log, .began_ns = now_ns()};
    *speed = (struct intent_speed){.write_bytes_max = BYTES_UNKNOWN};
    measuring.fd = openat(export->hidden.dir_fd, FILE_NAME, flags, 0600);
    measuring.data = malloc(JOURNAL_DATA_BYTES_MAX);
    int err = measuring.fd < 0 ? -errno : measuring.data == NULL ? -ENOMEM : 0;
    if (err == 0) {
        memset(measuring.data, 'x', JOURNAL_DATA_BYTES_MAX);
        err = find_limit(&measuring, speed);
    }
    if (measuring.fd >= 0) {
        close(measuring.fd);
        unlinkat(export->hidden.dir_fd, FILE_NAME, 0);
    }
    free(measuring.data);
    return err == -EIO ? err : 0;
}
