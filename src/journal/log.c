/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define SCAN_BYTES (1024U * 1024)
#define ZERO_BYTES (1024U * 1024)
#define BUFFER_BYTES_MIN (64U * 1024)
/* A blank device is one whose first blocks are zeros. */
#define BLANK_BYTES (64U * 1024)

struct journal_log {
    struct disk *disk;
    pthread_mutex_t superblock_lock; /* whoever writes one; taken before the other */
    pthread_mutex_t lock;            /* for what follows */
    struct journal_superblock superblock;
    uint64_t tail_offset;
    uint64_t tail_seq;
    uint64_t tail_lsn;
    bool failed;
    /* Before the first write only. */
    struct journal_log_found *found;
    size_t found_count;
    size_t found_capacity;
};

static void *aligned(size_t size_bytes)
{
    return aligned_alloc(DISK_BLOCK_BYTES, size_bytes);
}

/* ---- the superblock ---- */

/* The other slot; durable. */
static int write_superblock(struct disk *disk, struct journal_superblock *superblock)
{
    uint8_t *block = aligned(JOURNAL_BLOCK_BYTES);
    if (block == NULL) {
        return -ENOMEM;
    }
    superblock->generation++;
    journal_superblock_put(superblock, block);
    uint64_t slot = superblock->generation % 2;
    int err = disk_write(disk, slot * JOURNAL_BLOCK_BYTES, block, JOURNAL_BLOCK_BYTES, true);
    free(block);
    return err;
}

static bool is_zero(const uint8_t *bytes, size_t size_bytes)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

static int judge_superblocks(const enum journal_superblock_status status[2], bool blank,
                             struct err *err)
{
    for (int i = 0; i < 2; i++) {
        if (status[i] == JOURNAL_SUPERBLOCK_VERSION) {
            return err_set(err, -EPROTONOSUPPORT,
                           "the journal was made by another version of holdfast");
        }
        if (status[i] == JOURNAL_SUPERBLOCK_FEATURE) {
            return err_set(
                err, -EPROTONOSUPPORT,
                "the journal uses something that this version of holdfast does not know");
        }
    }
    if (status[0] == JOURNAL_SUPERBLOCK_DAMAGED || status[1] == JOURNAL_SUPERBLOCK_DAMAGED) {
        return err_set(err, -EUCLEAN, "both superblocks of the journal are damaged");
    }
    return blank ? err_set(err, -ENODATA, "there is no journal yet")
                 : err_set(err, -EMEDIUMTYPE, "it holds something that is no journal");
}

/* The newer good slot. */
static int read_superblock(struct disk *disk, struct journal_superblock *superblock,
                           struct err *err)
{
    enum journal_superblock_status status[2];
    struct journal_superblock slots[2] = {0};
    uint8_t *blocks = aligned(BLANK_BYTES);
    if (blocks == NULL) {
        return err_set(err, -ENOMEM, "no memory");
    }
    int error = disk_read(disk, 0, blocks, BLANK_BYTES);
    if (error != 0) {
        free(blocks);
        return err_set(err, error, "the journal cannot be read: %s", strerror(-error));
    }
    int best = -1;
    for (int i = 0; i < 2; i++) {
        status[i] = journal_superblock_get(blocks + (size_t)i * JOURNAL_BLOCK_BYTES, &slots[i]);
        if (status[i] == JOURNAL_SUPERBLOCK_GOOD &&
            (best < 0 || slots[i].generation > slots[best].generation)) {
            best = i;
        }
    }
    bool blank = is_zero(blocks, BLANK_BYTES);
    free(blocks);
    if (best < 0) {
        return judge_superblocks(status, blank, err);
    }
    *superblock = slots[best];
    if (superblock->size_bytes > disk->size_bytes ||
        superblock->size_bytes < JOURNAL_LOG_BYTES_LEAST) {
        return err_set(err, -EUCLEAN, "the journal is %llu bytes long, but says that it has %llu",
                       (unsigned long long)disk->size_bytes,
                       (unsigned long long)superblock->size_bytes);
    }
    return 0;
}

static int zero_all(struct disk *disk)
{
    uint8_t *zeros = aligned(ZERO_BYTES);
    if (zeros == NULL) {
        return -ENOMEM;
    }
    memset(zeros, 0, ZERO_BYTES);
    int err = 0;
    for (uint64_t at = 0; err == 0 && at < disk->size_bytes; at += ZERO_BYTES) {
        uint64_t left = disk->size_bytes - at;
        err = disk_write(disk, at, zeros, left < ZERO_BYTES ? (size_t)left : ZERO_BYTES, false);
    }
    free(zeros);
    return err == 0 ? disk_flush(disk) : err;
}

int journal_log_format(struct disk *disk, struct err *err)
{
    struct journal_superblock superblock = {
        .size_bytes = disk->size_bytes,
        .head_offset = JOURNAL_RING_START,
        .head_seq = 1,
    };
    if (disk->size_bytes < JOURNAL_LOG_BYTES_LEAST) {
        return err_set(err, -ENOSPC, "%llu bytes are too few for a journal",
                       (unsigned long long)disk->size_bytes);
    }
    if (getrandom(superblock.uuid, sizeof superblock.uuid, 0) != sizeof superblock.uuid) {
        return err_set(err, -EIO, "the kernel gives no random numbers");
    }
    int error = zero_all(disk);
    for (int slot = 0; error == 0 && slot < 2; slot++) {
        error = write_superblock(disk, &superblock);
    }
    return error == 0 ? 0
                      : err_set(err, error, "the journal cannot be written: %s", strerror(-error));
}

/* ---- what is there ---- */

static int found_add(struct journal_log *log, const struct journal_log_found *found)
{
    if (log->found_count == log->found_capacity) {
        size_t capacity = log->found_capacity == 0 ? 256 : log->found_capacity * 2;
        struct journal_log_found *more = realloc(log->found, capacity * sizeof *more);
        if (more == NULL) {
            return -ENOMEM;
        }
        log->found = more;
        log->found_capacity = capacity;
    }
    log->found[log->found_count++] = *found;
    return 0;
}

/* All blocks that look like the begin of a batch. */
static int scan(struct journal_log *log)
{
    uint64_t end = log->superblock.size_bytes;
    uint8_t *bytes = aligned(SCAN_BYTES);
    int err = bytes == NULL ? -ENOMEM : 0;
    for (uint64_t at = JOURNAL_RING_START; err == 0 && at < end; at += SCAN_BYTES) {
        size_t size = end - at < SCAN_BYTES ? (size_t)(end - at) : SCAN_BYTES;
        err = disk_read(log->disk, at, bytes, size);
        for (size_t block = 0; err == 0 && block < size; block += JOURNAL_BLOCK_BYTES) {
            struct journal_log_found found = {.offset = at + block};
            if (journal_batch_get(bytes + block, log->superblock.uuid, &found.head) &&
                journal_batch_disk_bytes(found.head.size_bytes) <= end - found.offset) {
                err = found_add(log, &found);
            }
        }
    }
    free(bytes);
    return err;
}

static int by_seq(const void *left, const void *right)
{
    const struct journal_log_found *a = left;
    const struct journal_log_found *b = right;
    if (a->live != b->live) {
        return a->live ? 1 : -1;
    }
    if (a->head.seq != b->head.seq) {
        return a->head.seq < b->head.seq ? -1 : 1;
    }
    return a->head.epoch < b->head.epoch ? -1 : a->head.epoch > b->head.epoch;
}

int journal_log_load(struct journal_log *log, const struct journal_log_found *found,
                     uint8_t **result)
{
    struct journal_batch_head head;
    size_t size = journal_batch_disk_bytes(found->head.size_bytes);
    uint8_t *bytes = aligned(size);
    if (bytes == NULL) {
        return -ENOMEM;
    }
    int err = disk_read(log->disk, found->offset, bytes, size);
    if (err == 0 && (!journal_batch_get(bytes, log->superblock.uuid, &head) ||
                     head.size_bytes != found->head.size_bytes ||
                     !journal_batch_is_whole(bytes, &found->head))) {
        err = -EUCLEAN;
    }
    if (err != 0) {
        free(bytes);
        return err;
    }
    *result = bytes;
    return 0;
}

/* 0 whole, -EUCLEAN not, or what the disk says. */
static int check(struct journal_log *log, const struct journal_log_found *found)
{
    uint8_t *bytes = NULL;
    int err = journal_log_load(log, found, &bytes);
    free(bytes);
    return err;
}

static int by_offset(const void *left, const void *right)
{
    const struct journal_log_found *a = left;
    const struct journal_log_found *b = right;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* They are in the order of the scan, by offset. */
static struct journal_log_found *found_at(struct journal_log *log, uint64_t offset, uint64_t seq)
{
    const struct journal_log_found wanted = {.offset = offset};
    struct journal_log_found *found =
        log->found_count == 0
            ? NULL
            : bsearch(&wanted, log->found, log->found_count, sizeof wanted, by_offset);
    bool is_next =
        found != NULL && found->head.seq == seq && found->head.epoch == log->superblock.epoch;
    return is_next ? found : NULL;
}

/* Goes from batch to batch while they are whole; marks them live and moves the tail. */
static int follow(struct journal_log *log)
{
    for (;;) {
        struct journal_log_found *next = NULL;
        const uint64_t places[2] = {log->tail_offset, JOURNAL_RING_START};
        for (int i = 0; i < 2 && next == NULL; i++) {
            next = found_at(log, places[i], log->tail_seq);
            int err = next != NULL ? check(log, next) : 0;
            if (err == -EUCLEAN) {
                next = NULL;
            } else if (err != 0) {
                return err;
            }
        }
        if (next == NULL) {
            return 0;
        }
        next->live = true;
        log->tail_offset = next->offset + journal_batch_disk_bytes(next->head.size_bytes);
        log->tail_seq++;
        log->tail_lsn = next->head.last_lsn;
    }
}

/* Behind the tail nothing of this epoch may be whole, or the batch at the tail was durable. */
static int check_tail(struct journal_log *log, struct err *err)
{
    for (size_t i = 0; i < log->found_count; i++) {
        const struct journal_log_found *found = &log->found[i];
        if (found->live || found->head.epoch != log->superblock.epoch ||
            found->head.seq <= log->tail_seq) {
            continue;
        }
        int error = check(log, found);
        if (error == 0) {
            return err_set(err, -EUCLEAN,
                           "the journal is damaged in the middle: batch %llu is not whole, batch "
                           "%llu behind it is",
                           (unsigned long long)log->tail_seq, (unsigned long long)found->head.seq);
        }
        if (error != -EUCLEAN) {
            return err_set(err, error, "the journal cannot be read: %s", strerror(-error));
        }
    }
    return 0;
}

/* What lies behind the tail is torn, or not ours to use. */
static void drop_the_rest(struct journal_log *log)
{
    size_t kept = 0;
    for (size_t i = 0; i < log->found_count; i++) {
        const struct journal_log_found *found = &log->found[i];
        if (found->live || found->head.seq < log->superblock.head_seq) {
            log->found[kept++] = *found;
        }
    }
    log->found_count = kept;
    if (kept > 1) {
        qsort(log->found, kept, sizeof *log->found, by_seq);
    }
}

static int survey(struct journal_log *log, struct err *err)
{
    log->tail_offset = log->superblock.head_offset;
    log->tail_seq = log->superblock.head_seq;
    log->tail_lsn = log->superblock.head_lsn;
    int error = scan(log);
    if (error == 0) {
        error = follow(log);
    }
    if (error != 0) {
        return err_set(err, error, "the journal cannot be read: %s", strerror(-error));
    }
    error = check_tail(log, err);
    if (error == 0) {
        drop_the_rest(log);
    }
    return error;
}

int journal_log_open(struct disk *disk, struct journal_log **result, struct err *err)
{
    struct journal_superblock superblock;
    if (disk->size_bytes < JOURNAL_LOG_BYTES_LEAST) {
        return err_set(err, -ENOSPC, "%llu bytes are too few for a journal",
                       (unsigned long long)disk->size_bytes);
    }
    int error = read_superblock(disk, &superblock, err);
    if (error != 0) {
        return error;
    }
    struct journal_log *log = calloc(1, sizeof *log);
    if (log == NULL) {
        return err_set(err, -ENOMEM, "no memory for the journal");
    }
    log->disk = disk;
    log->superblock = superblock;
    error = survey(log, err);
    if (error != 0) {
        free(log->found);
        free(log);
        return error;
    }
    pthread_mutex_init(&log->superblock_lock, NULL);
    pthread_mutex_init(&log->lock, NULL);
    *result = log;
    return 0;
}

void journal_log_close(struct journal_log *log)
{
    if (log == NULL) {
        return;
    }
    disk_close(log->disk);
    pthread_mutex_destroy(&log->superblock_lock);
    pthread_mutex_destroy(&log->lock);
    free(log->found);
    free(log);
}

const struct journal_superblock *journal_log_superblock(const struct journal_log *log)
{
    return &log->superblock;
}

const struct journal_log_found *journal_log_found(const struct journal_log *log, size_t *count)
{
    *count = log->found_count;
    return log->found;
}

uint64_t journal_log_last_lsn(const struct journal_log *log)
{
    return log->tail_lsn;
}

/* ---- writing ---- */

static void set_failed(struct journal_log *log)
{
    pthread_mutex_lock(&log->lock);
    log->failed = true;
    pthread_mutex_unlock(&log->lock);
}

/* With the new head in *superblock. */
static int replace_superblock(struct journal_log *log, struct journal_superblock *superblock)
{
    int err = write_superblock(log->disk, superblock);
    pthread_mutex_lock(&log->lock);
    if (err == 0) {
        log->superblock = *superblock;
    } else {
        log->failed = true;
    }
    pthread_mutex_unlock(&log->lock);
    return err;
}

static void set_exports(struct journal_superblock *superblock,
                        const struct journal_export *exports, uint32_t export_count)
{
    CHECK_OP(export_count, <=, JOURNAL_EXPORT_COUNT_MAX);
    superblock->export_count = export_count;
    if (export_count > 0) {
        memcpy(superblock->exports, exports, export_count * sizeof *exports);
    }
}

int journal_log_begin(struct journal_log *log, const struct journal_export *exports,
                      uint32_t export_count)
{
    struct journal_superblock next = log->superblock;
    next.epoch++;
    next.head_offset = log->tail_offset;
    next.head_seq = log->tail_seq;
    next.head_lsn = log->tail_lsn;
    set_exports(&next, exports, export_count);
    free(log->found);
    log->found = NULL;
    log->found_count = 0;
    log->found_capacity = 0;
    return log->failed ? -EIO : replace_superblock(log, &next);
}

uint8_t *journal_buffer_extend(struct journal_buffer *buffer, size_t size_bytes)
{
    size_t used = buffer->size_bytes > 0 ? buffer->size_bytes : JOURNAL_BATCH_HEAD_BYTES;
    if (size_bytes > JOURNAL_BATCH_BYTES_MAX || used + size_bytes > JOURNAL_BATCH_BYTES_MAX) {
        return NULL;
    }
    size_t needed = journal_batch_disk_bytes(used + size_bytes);
    if (needed > buffer->capacity_bytes) {
        size_t capacity = buffer->capacity_bytes > 0 ? buffer->capacity_bytes : BUFFER_BYTES_MIN;
        while (capacity < needed) {
            capacity *= 2;
        }
        uint8_t *bytes = aligned(capacity);
        if (bytes == NULL) {
            return NULL;
        }
        if (buffer->size_bytes > 0) {
            memcpy(bytes, buffer->bytes, buffer->size_bytes);
        }
        free(buffer->bytes);
        buffer->bytes = bytes;
        buffer->capacity_bytes = capacity;
    }
    buffer->size_bytes = used + size_bytes;
    return buffer->bytes + used;
}

void journal_buffer_clear(struct journal_buffer *buffer)
{
    buffer->size_bytes = 0;
    buffer->record_count = 0;
    buffer->first_lsn = 0;
    buffer->last_lsn = 0;
}

void journal_buffer_free(struct journal_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct journal_buffer){0};
}

/* Where a batch of that many bytes of disk goes; 0: nowhere. The lock is held. A batch never ends
 * where the head is unless the log is empty there, so that full and empty differ. */
static uint64_t place_for(const struct journal_log *log, uint64_t disk_bytes)
{
    uint64_t head = log->superblock.head_offset;
    uint64_t tail = log->tail_offset;
    if (tail < head) {
        return disk_bytes < head - tail ? tail : 0;
    }
    if (disk_bytes <= log->superblock.size_bytes - tail) {
        return tail;
    }
    return disk_bytes < head - JOURNAL_RING_START ? JOURNAL_RING_START : 0;
}

size_t journal_log_batch_bytes_max(const struct journal_log *log)
{
    uint64_t quarter = (log->superblock.size_bytes - JOURNAL_RING_START) / 4;
    return quarter < JOURNAL_BATCH_BYTES_MAX ? (size_t)quarter : JOURNAL_BATCH_BYTES_MAX;
}

bool journal_log_has_room(struct journal_log *log, size_t size_bytes)
{
    pthread_mutex_lock(&log->lock);
    bool room = place_for(log, journal_batch_disk_bytes(size_bytes)) != 0;
    pthread_mutex_unlock(&log->lock);
    return room;
}

int journal_log_try(struct journal_log *log, size_t size_bytes)
{
    size_t disk_bytes = journal_batch_disk_bytes(size_bytes);
    uint64_t place = place_for(log, disk_bytes); /* nobody else is here yet */
    uint8_t *zeros = place != 0 ? aligned(disk_bytes) : NULL;
    if (zeros == NULL) {
        return place == 0 ? -ENOSPC : -ENOMEM;
    }
    memset(zeros, 0, disk_bytes);
    int err = disk_write(log->disk, place, zeros, disk_bytes, true);
    free(zeros);
    if (err != 0) {
        set_failed(log);
    }
    return err;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

int journal_log_write(struct journal_log *log, struct journal_buffer *buffer)
{
    struct journal_batch_head head = {
        .size_bytes = (uint32_t)buffer->size_bytes,
        .record_count = buffer->record_count,
        .first_lsn = buffer->first_lsn,
        .last_lsn = buffer->last_lsn,
        .time_ns = now_ns(),
    };
    size_t disk_bytes = journal_batch_disk_bytes(buffer->size_bytes);
    pthread_mutex_lock(&log->lock);
    bool failed = log->failed;
    uint64_t place = place_for(log, disk_bytes);
    memcpy(head.uuid, log->superblock.uuid, sizeof head.uuid);
    head.epoch = log->superblock.epoch;
    head.seq = log->tail_seq;
    pthread_mutex_unlock(&log->lock);
    if (failed || place == 0) {
        return failed ? -EIO : -ENOSPC;
    }
    journal_batch_put(&head, buffer->bytes);
    int err = disk_write(log->disk, place, buffer->bytes, disk_bytes, true);
    if (err != 0) {
        set_failed(log);
        return err == -ENOSPC ? -EIO : err;
    }
    pthread_mutex_lock(&log->lock);
    log->tail_offset = place + disk_bytes;
    log->tail_seq++;
    log->tail_lsn = buffer->last_lsn;
    pthread_mutex_unlock(&log->lock);
    return 0;
}

void journal_log_tail(struct journal_log *log, struct journal_log_mark *mark)
{
    pthread_mutex_lock(&log->lock);
    *mark = (struct journal_log_mark){log->tail_offset, log->tail_seq, log->tail_lsn};
    pthread_mutex_unlock(&log->lock);
}

/* The superblock as it is, to be changed and written. Returns with superblock_lock. */
static int begin_superblock(struct journal_log *log, struct journal_superblock *next)
{
    pthread_mutex_lock(&log->superblock_lock);
    pthread_mutex_lock(&log->lock);
    *next = log->superblock;
    bool failed = log->failed;
    pthread_mutex_unlock(&log->lock);
    return failed ? -EIO : 0;
}

int journal_log_advance(struct journal_log *log, const struct journal_log_mark *mark)
{
    struct journal_superblock next;
    int err = begin_superblock(log, &next);
    if (err == 0 && mark->seq != next.head_seq) {
        next.head_offset = mark->offset;
        next.head_seq = mark->seq;
        next.head_lsn = mark->lsn;
        err = replace_superblock(log, &next);
    }
    pthread_mutex_unlock(&log->superblock_lock);
    return err;
}

int journal_log_name_exports(struct journal_log *log, const struct journal_export *exports,
                             uint32_t export_count)
{
    struct journal_superblock next;
    int err = begin_superblock(log, &next);
    if (err == 0) {
        set_exports(&next, exports, export_count);
        err = replace_superblock(log, &next);
    }
    pthread_mutex_unlock(&log->superblock_lock);
    return err;
}

void journal_log_fill(struct journal_log *log, uint64_t *used_bytes, uint64_t *ring_bytes)
{
    pthread_mutex_lock(&log->lock);
    uint64_t head = log->superblock.head_offset;
    uint64_t tail = log->tail_offset;
    *ring_bytes = log->superblock.size_bytes - JOURNAL_RING_START;
    *used_bytes = tail >= head ? tail - head : *ring_bytes - (head - tail);
    pthread_mutex_unlock(&log->lock);
}
