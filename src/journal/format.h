/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The superblock and the head of a batch, between bytes and structures. docs/journal-format.md is
 * the specification. Pure: no disk, no clock.
 */
#ifndef JOURNAL_FORMAT_H
#define JOURNAL_FORMAT_H

#include "os/disk.h"

#define JOURNAL_BLOCK_BYTES DISK_BLOCK_BYTES
#define JOURNAL_RING_START (2U * JOURNAL_BLOCK_BYTES)
#define JOURNAL_UUID_BYTES 16U
#define JOURNAL_EXPORT_COUNT_MAX 48U
#define JOURNAL_EXPORT_PATH_BYTES 56U
#define JOURNAL_BATCH_HEAD_BYTES 96U
/* A batch is never larger: the writer keeps below it, and a reader believes no more. */
#define JOURNAL_BATCH_BYTES_MAX (16U * 1024 * 1024)

struct journal_export {
    uint64_t id;
    char path[JOURNAL_EXPORT_PATH_BYTES + 1]; /* perhaps cut */
};

struct journal_superblock {
    uint8_t uuid[JOURNAL_UUID_BYTES];
    uint64_t size_bytes;
    uint64_t generation;
    uint64_t epoch;
    uint64_t head_offset;
    uint64_t head_seq;
    uint64_t head_lsn;
    uint32_t export_count;
    struct journal_export exports[JOURNAL_EXPORT_COUNT_MAX];
};

enum journal_superblock_status {
    JOURNAL_SUPERBLOCK_GOOD,
    JOURNAL_SUPERBLOCK_NONE,    /* something else, or nothing */
    JOURNAL_SUPERBLOCK_DAMAGED, /* was one */
    JOURNAL_SUPERBLOCK_VERSION, /* of another version */
    JOURNAL_SUPERBLOCK_FEATURE  /* needs what this program does not know */
};

void journal_superblock_put(const struct journal_superblock *superblock,
                            uint8_t block[JOURNAL_BLOCK_BYTES]);
enum journal_superblock_status journal_superblock_get(const uint8_t block[JOURNAL_BLOCK_BYTES],
                                                      struct journal_superblock *superblock);

struct journal_batch_head {
    uint32_t size_bytes; /* with the head, without the filling */
    uint32_t record_count;
    uint8_t uuid[JOURNAL_UUID_BYTES];
    uint64_t epoch;
    uint64_t seq;
    uint64_t first_lsn, last_lsn;
    uint64_t time_ns;
};

/* What a batch of that size takes on disk. */
static inline uint64_t journal_batch_disk_bytes(uint64_t size_bytes)
{
    return (size_bytes + JOURNAL_BLOCK_BYTES - 1) / JOURNAL_BLOCK_BYTES * JOURNAL_BLOCK_BYTES;
}

/* Completes a batch whose records stand behind the room for the head: head, filling, checksum.
 * bytes has journal_batch_disk_bytes(head->size_bytes). */
void journal_batch_put(const struct journal_batch_head *head, uint8_t *bytes);
/* Whether a block may begin a batch of this journal. The checksum is not looked at; the size is
 * within JOURNAL_BATCH_BYTES_MAX. */
bool journal_batch_get(const uint8_t block[JOURNAL_BLOCK_BYTES],
                       const uint8_t uuid[JOURNAL_UUID_BYTES], struct journal_batch_head *head);
/* Whether the whole batch, journal_batch_disk_bytes long, is as it was written. */
bool journal_batch_is_whole(const uint8_t *bytes, const struct journal_batch_head *head);

#endif
