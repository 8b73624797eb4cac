/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes changes durable, in groups, and says how far it has come.
 *
 * A change is applied to the file system first; then, while the locks of the objects are still
 * held, it is appended here and gets a log sequence number (LSN). The caller goes on at once. One
 * thread makes everything that has been appended so far durable, then what came meanwhile, and
 * reports each step with the durable callback.
 *
 * For now "durable" is fsync, fdatasync and syncfs on the objects a change touched, each object
 * once a group. The intent log will take its place behind this header.
 *
 * After an error the group it belongs to is reported as failed, in full, and the lost callback is
 * called first: what clients were told is unstable may be gone, so the write verifier must change.
 * A failed fsync is never repeated and called durable.
 */
#ifndef JOURNAL_COMMIT_H
#define JOURNAL_COMMIT_H

#include "base/err.h"

#include <stdbool.h>

struct journal;

enum journal_how { JOURNAL_FDATASYNC, JOURNAL_FSYNC, JOURNAL_SYNCFS };

/* One object to be made durable. The fd stays open until release(owner), which is called once and
 * takes no lock that a caller of journal_append may hold: on the journal's thread, or at once where
 * there is no memory to remember the item (its group then fails). */
struct journal_item {
    int fd;
    enum journal_how how;
    void (*release)(void *owner); /* may be NULL: the fd outlives the journal */
    void *owner;
};

struct journal_options {
    /* Everything up to lsn has met its end; error is 0 or -errno for (last lsn, lsn]. */
    void (*durable)(void *arg, uint64_t lsn, int error);
    /* Data that was acknowledged as unstable may be lost. */
    void (*lost)(void *arg);
    /* Stands in for fsync and its kin, so that tests can make them fail. NULL: the real ones. */
    int (*sync)(void *arg, int fd, enum journal_how how);
    void *arg;
};

int journal_open(const struct journal_options *options, struct journal **journal,
                 struct err *err) MUST_USE;

/* Takes over the items. Never waits for a device. Any thread. Returns an lsn > 0. */
uint64_t journal_append(struct journal *journal, const struct journal_item *items, size_t count);

/* The newest lsn that has met its end, whichever. Any thread. */
uint64_t journal_settled(const struct journal *journal);

/* Finishes what was appended, stops the thread, frees. */
void journal_close(struct journal *journal);

#endif
