/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes changes durable, in batches, and says how far it has come.
 *
 * A change is applied to the file system first; then, while the locks of the objects are still
 * held, it is appended here and gets a log sequence number (LSN). The caller goes on at once. One
 * thread makes the batch of everything that has been appended so far durable, then what came
 * meanwhile, and reports each step with the durable callback. A lone change waits for one durable
 * write, a thousand share it; there is no timer.
 *
 * With a log, records say what a change has made true, and are written to it; what a record cannot
 * say is synced before (struct journal_item). Without one, all is items: groups of fsync.
 *
 * A reply that is to be given again after a crash goes into the batch of its change: a change that
 * is appended with `holds` keeps its batch open until the same thread calls journal_reply or
 * journal_leave. Whoever comes meanwhile joins the next batch, so nobody waits.
 *
 * After an error the batch it belongs to is reported as failed, in full, and the lost callback is
 * called first: what clients were told is unstable may be gone, so the write verifier must change.
 * A failed sync is never repeated and called durable. With a log, a failure is for ever: all later
 * batches fail, too (docs/durability.md says why), and journal_error tells.
 */
#ifndef JOURNAL_COMMIT_H
#define JOURNAL_COMMIT_H

#include "base/err.h"
#include "journal/log.h"
#include "journal/record.h"
#include "journal/stats.h"
#include "journal/sync.h"

struct journal;

struct journal_options {
    /* Everything up to lsn has met its end; error is 0 or -errno for (last lsn, lsn]. */
    void (*durable)(void *arg, uint64_t lsn, int error);
    /* Data that was acknowledged as unstable may be lost. */
    void (*lost)(void *arg);
    /* Stands in for fsync and its kin, so that tests can make them fail. NULL: the real ones. */
    int (*sync)(void *arg, int fd, enum journal_how how);
    /* Makes everything that was applied so far durable in the file systems, past the devices'
     * caches, so that the log can forget it. 0 or -errno. On a thread of the journal. Needed with a
     * log. */
    int (*checkpoint)(void *arg);
    void *arg;
    /* An epoch has been begun (journal_log_begin). Taken over when journal_open succeeds; may be
     * NULL. */
    struct journal_log *log;
};

int journal_open(const struct journal_options *options, struct journal **journal,
                 struct err *err) MUST_USE;

/* Items: the fds stay open until release(owner), which is called once and takes no lock that a
 * caller of journal_append may hold: on the journal's thread, or at once where there is no memory
 * to remember the item (its batch then fails). Records: lsn is filled in; what they point to is
 * copied. */
struct journal_change {
    const struct journal_item *items;
    size_t item_count;
    struct journal_record *records;
    size_t record_count; /* 0 without a log */
    bool lazy;           /* nobody waits for it; it may stay out of the log for so long: */
    uint32_t window_ms;
    bool holds; /* a reply follows from this thread */
};

/* Before the locks of a change are taken: waits while the log is so full, or the batch so long,
 * that others must be written first. */
void journal_admit(struct journal *journal);

/* Takes over the items. Never waits for a device. Any thread. Returns an lsn > 0. */
uint64_t journal_append(struct journal *journal, const struct journal_change *change);

/* The reply to the change that this thread appended last with `holds`, to whichever journal, if
 * there is one: kept for the caller, with the change. Longer ones than JOURNAL_REPLY_BYTES_MAX are
 * not. */
void journal_reply(const struct journal_caller *caller, const uint8_t *bytes, uint32_t size_bytes);
/* There is no reply to be kept. */
void journal_leave(void);

/*
 * A thread that has nothing else to do until what it appends next is durable may write it itself,
 * which spares it the way to the journal's thread and back.
 *
 *     journal_promise(), journal_append()..., journal_keep_promise()
 *
 * In between the journal's thread is not told of what this thread has appended, unless somebody
 * else waits for it, too. journal_keep_promise writes, and calls durable, or has the journal's
 * thread do it: if that is at it, if objects must be synced, or if the device is slow. It may wait
 * for a device. The thread must not be about to give a reply.
 */
void journal_promise(void);
void journal_keep_promise(void);
/* Does what threads have promised and perhaps cannot keep, because they are blocked. Any thread. */
void journal_wake(struct journal *journal);

/* Somebody waits for this lsn after all. */
void journal_want(struct journal *journal, uint64_t lsn);
/* Nothing that was appended stays out of the log any longer than it must. */
void journal_push(struct journal *journal);
/* Waits for what was appended: 0, or -EIO when it could not be made durable. The thread must not be
 * about to give a reply (journal_leave). */
int journal_wait(struct journal *journal, uint64_t lsn) MUST_USE;
/* Waits until everything that was appended so far is in the file systems, so that the log need not
 * remember it. 0 or -EIO. Without a log: journal_wait. */
int journal_checkpoint(struct journal *journal) MUST_USE;

/* The newest lsn that has met its end, whichever. Any thread. */
uint64_t journal_settled(const struct journal *journal);

/* 0, or -EIO when nothing can be made durable any more. Any thread. */
int journal_error(const struct journal *journal);

/* Any thread. */
void journal_stats(struct journal *journal, struct journal_stats *stats);

/* Finishes what was appended, empties the log with a last checkpoint, stops the threads, frees. 0,
 * or -EIO when something could not be made durable. NULL is 0. */
int journal_close(struct journal *journal);

#endif
