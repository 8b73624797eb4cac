/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log on its disk: superblock, batches, wrap-around, and what a reader finds after a crash.
 * docs/journal-format.md has the bytes, the invariants (cited by number) and the argument.
 *
 *     journal_log_open    reads and judges; changes nothing
 *     journal_log_load    gives what was found, for replay
 *     journal_log_begin   a new epoch: what was found is done with
 *     journal_log_write   a batch more, durable when it returns
 *     journal_log_advance the head moves: everything before the mark is in the file systems
 *
 * One thread opens, loads and begins. Then one thread writes, and at the same time others may
 * advance, and say which exports there are.
 */
#ifndef JOURNAL_LOG_H
#define JOURNAL_LOG_H

#include "journal/format.h"

struct journal_log;

#define JOURNAL_LOG_BYTES_MIN (64U * 1024 * 1024) /* of one that is made for an export */
/* What a disk must have at least for the code here; tests use small ones. */
#define JOURNAL_LOG_BYTES_LEAST (64U * JOURNAL_BLOCK_BYTES)

/* Makes the disk a journal without batches. Whatever it held is gone. */
int journal_log_format(struct disk *disk, struct err *err) MUST_USE;

/* -ENODATA: nothing but zeros at the start, so it may be formatted; -EMEDIUMTYPE: holds something
 * else; -EPROTONOSUPPORT: another version; -EUCLEAN: damaged (see the text). Takes the disk over
 * when it succeeds. */
int journal_log_open(struct disk *disk, struct journal_log **log, struct err *err) MUST_USE;
/* Closes the disk, too. */
void journal_log_close(struct journal_log *log);

const struct journal_superblock *journal_log_superblock(const struct journal_log *log);

/* A batch that was found. */
struct journal_log_found {
    struct journal_batch_head head;
    uint64_t offset;
    bool live; /* from the journal's head on: for replay. Else good for its replies only. */
};
/* Those found, by seq, the live ones last. */
const struct journal_log_found *journal_log_found(const struct journal_log *log, size_t *count);
/* Its bytes, to be freed by the caller. -EUCLEAN: it is not whole (never a live one). */
int journal_log_load(struct journal_log *log, const struct journal_log_found *found,
                     uint8_t **bytes) MUST_USE;

/* The newest lsn that any batch had. */
uint64_t journal_log_last_lsn(const struct journal_log *log);

/* A new epoch with nothing in it, for these exports. */
int journal_log_begin(struct journal_log *log, const struct journal_export *exports,
                      uint32_t export_count) MUST_USE;

/* A batch being made: records are put behind each other, from any place, by one thread. */
struct journal_buffer {
    uint8_t *bytes; /* aligned for the disk; the head's room comes first */
    size_t size_bytes;
    size_t capacity_bytes;
    uint32_t record_count;
    uint64_t first_lsn, last_lsn;
};
/* Room for size_bytes more at the end, or NULL. The caller fills it. */
uint8_t *journal_buffer_extend(struct journal_buffer *buffer, size_t size_bytes);
void journal_buffer_clear(struct journal_buffer *buffer);
void journal_buffer_free(struct journal_buffer *buffer);

/* Whether a buffer of this size could be written now. One of journal_log_batch_bytes_max can
 * always be written when everything before it is no longer needed. */
bool journal_log_has_room(struct journal_log *log, size_t size_bytes);
size_t journal_log_batch_bytes_max(const struct journal_log *log);

/* A durable write of so many bytes, zeros, where the next batch will go: to see how long it takes.
 * Between journal_log_begin and the first journal_log_write. */
int journal_log_try(struct journal_log *log, size_t size_bytes) MUST_USE;

/* Durable when it returns 0. -ENOSPC: no room, nothing was done; anything else: the log has failed,
 * and nothing will be written to it any more (invariant 6). */
int journal_log_write(struct journal_log *log, struct journal_buffer *buffer) MUST_USE;

/* A place between two batches. */
struct journal_log_mark {
    uint64_t offset;
    uint64_t seq;
    uint64_t lsn;
};
/* Behind the last batch that was written. */
void journal_log_tail(struct journal_log *log, struct journal_log_mark *mark);
int journal_log_advance(struct journal_log *log, const struct journal_log_mark *mark) MUST_USE;
/* From now on for these exports. Durable when it returns 0. */
int journal_log_name_exports(struct journal_log *log, const struct journal_export *exports,
                             uint32_t export_count) MUST_USE;

/* Bytes from head to tail, and of the ring. */
void journal_log_fill(struct journal_log *log, uint64_t *used_bytes, uint64_t *ring_bytes);

#endif
