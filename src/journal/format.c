/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/format.h"

#include "journal/bytes.h"

#include <xxhash.h>

#define FORMAT_VERSION 1U

#define SUPERBLOCK_MAGIC "HFJOURNL"
#define BATCH_MAGIC "HFBATCH1"
#define MAGIC_BYTES 8U

/* Offsets in the superblock. */
#define AT_VERSION 8
#define AT_BLOCK_BYTES 12
#define AT_UUID 16
#define AT_SIZE 32
#define AT_GENERATION 40
#define AT_EPOCH 48
#define AT_HEAD_OFFSET 56
#define AT_HEAD_SEQ 64
#define AT_HEAD_LSN 72
#define AT_NEEDED_FEATURES 84
#define AT_EXPORT_COUNT 88
#define AT_EXPORTS 96
#define AT_CHECKSUM 4088
#define EXPORT_BYTES (8U + JOURNAL_EXPORT_PATH_BYTES)

/* Offsets in the head of a batch. */
#define AT_BATCH_SIZE 8
#define AT_BATCH_COUNT 12
#define AT_BATCH_UUID 16
#define AT_BATCH_EPOCH 32
#define AT_BATCH_SEQ 40
#define AT_BATCH_FIRST 48
#define AT_BATCH_LAST 56
#define AT_BATCH_TIME 64
#define AT_BATCH_CHECKSUM 88

_Static_assert(AT_EXPORTS + EXPORT_BYTES * JOURNAL_EXPORT_COUNT_MAX <= AT_CHECKSUM,
               "the exports have room");

void journal_superblock_put(const struct journal_superblock *superblock,
                            uint8_t block[JOURNAL_BLOCK_BYTES])
{
    memset(block, 0, JOURNAL_BLOCK_BYTES);
    memcpy(block, SUPERBLOCK_MAGIC, MAGIC_BYTES);
    put32(block + AT_VERSION, FORMAT_VERSION);
    put32(block + AT_BLOCK_BYTES, JOURNAL_BLOCK_BYTES);
    memcpy(block + AT_UUID, superblock->uuid, JOURNAL_UUID_BYTES);
    put64(block + AT_SIZE, superblock->size_bytes);
    put64(block + AT_GENERATION, superblock->generation);
    put64(block + AT_EPOCH, superblock->epoch);
    put64(block + AT_HEAD_OFFSET, superblock->head_offset);
    put64(block + AT_HEAD_SEQ, superblock->head_seq);
    put64(block + AT_HEAD_LSN, superblock->head_lsn);
    put32(block + AT_EXPORT_COUNT, superblock->export_count);
    for (uint32_t i = 0; i < superblock->export_count; i++) {
        uint8_t *at = block + AT_EXPORTS + i * EXPORT_BYTES;
        const struct journal_export *export = &superblock->exports[i];
        put64(at, export->id);
        memcpy(at + 8, export->path, strnlen(export->path, JOURNAL_EXPORT_PATH_BYTES));
    }
    put64(block + AT_CHECKSUM, XXH3_64bits(block, AT_CHECKSUM));
}

enum journal_superblock_status journal_superblock_get(const uint8_t block[JOURNAL_BLOCK_BYTES],
                                                      struct journal_superblock *superblock)
{
    if (memcmp(block, SUPERBLOCK_MAGIC, MAGIC_BYTES) != 0) {
        return JOURNAL_SUPERBLOCK_NONE;
    }
    if (get64(block + AT_CHECKSUM) != XXH3_64bits(block, AT_CHECKSUM)) {
        return JOURNAL_SUPERBLOCK_DAMAGED;
    }
    if (get32(block + AT_VERSION) != FORMAT_VERSION ||
        get32(block + AT_BLOCK_BYTES) != JOURNAL_BLOCK_BYTES) {
        return JOURNAL_SUPERBLOCK_VERSION;
    }
    if (get32(block + AT_NEEDED_FEATURES) != 0) {
        return JOURNAL_SUPERBLOCK_FEATURE;
    }
    *superblock = (struct journal_superblock){
        .size_bytes = get64(block + AT_SIZE),
        .generation = get64(block + AT_GENERATION),
        .epoch = get64(block + AT_EPOCH),
        .head_offset = get64(block + AT_HEAD_OFFSET),
        .head_seq = get64(block + AT_HEAD_SEQ),
        .head_lsn = get64(block + AT_HEAD_LSN),
        .export_count = get32(block + AT_EXPORT_COUNT),
    };
    memcpy(superblock->uuid, block + AT_UUID, JOURNAL_UUID_BYTES);
    bool sane = superblock->export_count <= JOURNAL_EXPORT_COUNT_MAX &&
                superblock->size_bytes % JOURNAL_BLOCK_BYTES == 0 &&
                superblock->head_offset % JOURNAL_BLOCK_BYTES == 0 &&
                superblock->head_offset >= JOURNAL_RING_START &&
                superblock->head_offset <= superblock->size_bytes;
    if (!sane) {
        return JOURNAL_SUPERBLOCK_DAMAGED;
    }
    for (uint32_t i = 0; i < superblock->export_count; i++) {
        const uint8_t *at = block + AT_EXPORTS + i * EXPORT_BYTES;
        superblock->exports[i].id = get64(at);
        memcpy(superblock->exports[i].path, at + 8, JOURNAL_EXPORT_PATH_BYTES);
    }
    return JOURNAL_SUPERBLOCK_GOOD;
}

/* Of everything but the checksum itself. */
static uint64_t batch_checksum(const uint8_t *bytes, size_t size_bytes)
{
    uint64_t head = XXH3_64bits(bytes, AT_BATCH_CHECKSUM);
    return XXH3_64bits_withSeed(bytes + JOURNAL_BATCH_HEAD_BYTES,
                                size_bytes - JOURNAL_BATCH_HEAD_BYTES, head);
}

void journal_batch_put(const struct journal_batch_head *head, uint8_t *bytes)
{
    size_t disk_bytes = journal_batch_disk_bytes(head->size_bytes);
    memset(bytes, 0, JOURNAL_BATCH_HEAD_BYTES);
    memset(bytes + head->size_bytes, 0, disk_bytes - head->size_bytes);
    memcpy(bytes, BATCH_MAGIC, MAGIC_BYTES);
    put32(bytes + AT_BATCH_SIZE, head->size_bytes);
    put32(bytes + AT_BATCH_COUNT, head->record_count);
    memcpy(bytes + AT_BATCH_UUID, head->uuid, JOURNAL_UUID_BYTES);
    put64(bytes + AT_BATCH_EPOCH, head->epoch);
    put64(bytes + AT_BATCH_SEQ, head->seq);
    put64(bytes + AT_BATCH_FIRST, head->first_lsn);
    put64(bytes + AT_BATCH_LAST, head->last_lsn);
    put64(bytes + AT_BATCH_TIME, head->time_ns);
    put64(bytes + AT_BATCH_CHECKSUM, batch_checksum(bytes, disk_bytes));
}

bool journal_batch_get(const uint8_t block[JOURNAL_BLOCK_BYTES],
                       const uint8_t uuid[JOURNAL_UUID_BYTES], struct journal_batch_head *head)
{
    if (memcmp(block, BATCH_MAGIC, MAGIC_BYTES) != 0 ||
        memcmp(block + AT_BATCH_UUID, uuid, JOURNAL_UUID_BYTES) != 0) {
        return false;
    }
    *head = (struct journal_batch_head){
        .size_bytes = get32(block + AT_BATCH_SIZE),
        .record_count = get32(block + AT_BATCH_COUNT),
        .epoch = get64(block + AT_BATCH_EPOCH),
        .seq = get64(block + AT_BATCH_SEQ),
        .first_lsn = get64(block + AT_BATCH_FIRST),
        .last_lsn = get64(block + AT_BATCH_LAST),
        .time_ns = get64(block + AT_BATCH_TIME),
    };
    memcpy(head->uuid, uuid, JOURNAL_UUID_BYTES);
    return head->size_bytes >= JOURNAL_BATCH_HEAD_BYTES &&
           head->size_bytes <= JOURNAL_BATCH_BYTES_MAX;
}

bool journal_batch_is_whole(const uint8_t *bytes, const struct journal_batch_head *head)
{
    return get64(bytes + AT_BATCH_CHECKSUM) ==
           batch_checksum(bytes, journal_batch_disk_bytes(head->size_bytes));
}
