/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Syncs many files and file systems, each once, several at a time.
 *
 * Each sync waits for a flush of the device's cache, and the block layer merges flushes that wait
 * at the same time: so the objects of a group are synced by several threads when there are many.
 */
#ifndef JOURNAL_SYNC_H
#define JOURNAL_SYNC_H

#include "base/check.h"

#include <stdbool.h>

struct journal_syncer;

/* JOURNAL_NOTHING: the item is only released when its batch has met its end. */
enum journal_how { JOURNAL_NOTHING, JOURNAL_FDATASYNC, JOURNAL_FSYNC, JOURNAL_SYNCFS };

/* One object to be made durable. */
struct journal_item {
    int fd;
    enum journal_how how;
    void (*release)(void *owner); /* when the fd is done with; may be NULL */
    void *owner;
};

/* Stands in for fsync and its kin; NULL: the real ones. NULL is returned without memory. */
typedef int journal_sync_call(void *arg, int fd, enum journal_how how);
struct journal_syncer *journal_syncer_new(journal_sync_call *sync, void *arg);
void journal_syncer_free(struct journal_syncer *syncer);

/* 0 when all have succeeded; the first -errno otherwise. *synced is how many there were to sync.
 * One caller at a time. Releases nothing. */
int journal_syncer_run(struct journal_syncer *syncer, const struct journal_item *items,
                       size_t count, size_t *synced) MUST_USE;

#endif
