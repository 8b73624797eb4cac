/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: what is appended while one batch is on its way to the disk forms the next.
 *
 *     append --> open batch --(no more join)--> closing --(all have left)--> syncs, then the log's
 *     durable write --> durable(lsn, error)
 *
 * 1. Everything of a batch was appended, so applied, before the first sync of the batch starts.
 *    That is why one sync per object is enough however many changes it stands for.
 * 2. A batch has one result. If any part of it failed, all of it failed: a reply may depend on
 *    several objects, and the journal does not know which.
 * 3. Batches meet their end in order; settled never goes back.
 * 4. lost() comes before durable() for a failed batch, so no reply that reports the failure or a
 *    later success carries the old write verifier.
 * 5. The syncs of a batch are done before its records are written: a record may say that they are.
 * 6. A checkpoint starts from the log's tail, so it stands for batches that were appended, so
 *    applied, before its sync starts.
 * 7. With a log, after a failure no batch succeeds: a later record may rest on a lost one.
 * 8. One thread at a time writes. It is the journal's own, or, where one client waits for each of
 *    its changes, the one that made them: to wake another takes as long as half a durable write.
 */
#include "journal/commit.h"

#include "base/log.h"
#include "os/ticks.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An open batch that is longer lets no new change begin. What is under way still has room: see
 * journal_log_batch_bytes_max. */
#define BATCH_BYTES_SOFT (4U * 1024 * 1024)
/* A checkpoint is made when the log is so full, or its oldest change so old. */
#define CHECKPOINT_FILL_PERCENT 50U
#define CHECKPOINT_AGE_MS 30000
/* What is written by the thread that made it (8): not more, and not where a write takes longer. */
#define PROMISED_BYTES_MAX (128U * 1024)
#define PROMISED_NS_MAX 1000000U

struct batch {
    struct journal_item *items;
    size_t item_count;
    size_t item_capacity;
    size_t sync_count; /* items that are more than released */
    struct journal_buffer buffer;
    uint32_t inside; /* replies that are to come */
    bool wanted;     /* somebody waits for it */
    bool promised;   /* who wants it writes it; the thread has not been told */
    uint64_t lsn_last;
    int64_t due_ms; /* when its lazy changes must be written; 0: it has none */
    uint32_t due_window_ms; /* of the change that is due first */
    uint64_t changes;
    uint64_t first_ns; /* when somebody began to wait; 0: nobody does */
    int error;         /* decided while it was filled */
};

struct journal {
    struct journal_options options;
    struct journal_syncer *syncer;
    pthread_mutex_t lock;
    pthread_cond_t wake;  /* for the thread: something was appended or wanted, or stop */
    pthread_cond_t left;  /* for the thread: the last one inside has left */
    pthread_cond_t moved; /* the open batch is a new one, the log has room, or all failed */
    pthread_cond_t ended; /* a batch has met its end, or a checkpoint */
    struct batch batches[2];
    struct batch *open;
    uint64_t lsn_last;
    bool idle;           /* the thread waits */
    bool writing;        /* a batch is on its way */
    uint64_t write_ns;   /* what a write takes, of late */
    uint32_t references; /* the owner's, and of threads that have promised */
    bool stopping;
    atomic_bool lazy;   /* the open batch has changes, and nobody waits for it yet */
    atomic_bool failed; /* 7 */
    atomic_uint_fast64_t settled;
    uint64_t failed_from, failed_to; /* the last batches that failed in a row: (from, to] */
    pthread_t thread;
    /* The checkpoint's, under the lock. */
    pthread_t checkpoint_thread;
    pthread_cond_t checkpoint_wake;
    bool checkpoint_wanted;
    bool checkpoint_stopping;
    uint64_t checkpoints_begun, checkpoints_ended;
    int64_t log_since_ms; /* when the oldest change came that the log still needs; 0: none */
    struct journal_stats stats;
};

/* The batch that waits for a reply of this thread. */
struct held {
    struct journal *journal;
    struct batch *batch;
    uint64_t lsn;
};
static _Thread_local struct held held;

/* That this thread will write what it appends. */
struct promise {
    bool made;
    struct journal *journal; /* that has something of it; referenced */
};
static _Thread_local struct promise promise;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* For what takes longer than the counters of two processors can be apart (os/ticks.h). */
static uint64_t now_ns(void)
{
    return ticks_ns(0, ticks_now());
}

static struct timespec at_ms(int64_t ms)
{
    return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
}

/* ---- failing ---- */

/* Returns with the lock held, as it was called. */
static void fail(struct journal *journal, int err, const char *what)
{
    static struct log_limit limit;
    log_write_limited(&limit, LOG_ERROR, "%s: %s", what, strerror(-err));
    if (journal->options.log != NULL && !atomic_exchange(&journal->failed, true)) {
        log_error("from now on requests that must be durable are refused; restart the server when "
                  "the cause is gone");
    }
    pthread_cond_broadcast(&journal->moved);
    pthread_cond_broadcast(&journal->ended);
    pthread_mutex_unlock(&journal->lock);
    if (journal->options.lost != NULL) {
        journal->options.lost(journal->options.arg);
    }
    pthread_mutex_lock(&journal->lock);
}

/* ---- one batch; the lock is held but for what waits for a device ---- */

static bool is_full(const struct journal *journal, size_t size_bytes)
{
    return !atomic_load(&journal->failed) &&
           !journal_log_has_room(journal->options.log, size_bytes);
}

/* Waits for room in the log. */
static void wait_for_room(struct journal *journal, size_t size_bytes)
{
    uint64_t began_ns = 0;
    while (is_full(journal, size_bytes)) {
        began_ns = began_ns != 0 ? began_ns : now_ns();
        journal->checkpoint_wanted = true;
        pthread_cond_signal(&journal->checkpoint_wake);
        pthread_cond_wait(&journal->moved, &journal->lock);
    }
    if (began_ns != 0) {
        journal->stats.full_waits++;
        journal->stats.full_ns += now_ns() - began_ns;
    }
}

static void note_written(struct journal *journal, const struct batch *batch, uint64_t took_ns)
{
    struct journal_stats *stats = &journal->stats;
    stats->records += batch->buffer.record_count;
    journal_spread_add(&stats->batch_bytes, batch->buffer.size_bytes);
    journal_spread_add(&stats->write_ns, took_ns);
    journal->write_ns = (journal->write_ns * 7 + took_ns) / 8;
    uint64_t used_bytes, ring_bytes;
    journal_log_fill(journal->options.log, &used_bytes, &ring_bytes);
    bool full = used_bytes > ring_bytes / 100 * CHECKPOINT_FILL_PERCENT;
    bool first = journal->log_since_ms == 0;
    if (first) {
        journal->log_since_ms = now_ms();
    }
    if (full || first) {
        journal->checkpoint_wanted = journal->checkpoint_wanted || full;
        pthread_cond_signal(&journal->checkpoint_wake);
    }
}

static int write_records(struct journal *journal, struct batch *batch)
{
    if (batch->buffer.record_count == 0) {
        return 0;
    }
    batch->buffer.last_lsn = batch->lsn_last;
    wait_for_room(journal, batch->buffer.size_bytes);
    if (atomic_load(&journal->failed)) {
        return -EIO;
    }
    pthread_mutex_unlock(&journal->lock);
    uint64_t began_ns = now_ns();
    int err = journal_log_write(journal->options.log, &batch->buffer);
    uint64_t took_ns = now_ns() - began_ns;
    pthread_mutex_lock(&journal->lock);
    if (err == 0) {
        note_written(journal, batch, took_ns);
    }
    return err;
}

static int make_durable(struct journal *journal, struct batch *batch)
{
    int err = atomic_load(&journal->failed) ? -EIO : batch->error;
    if (err == 0 && batch->sync_count > 0) {
        size_t synced = 0;
        pthread_mutex_unlock(&journal->lock);
        uint64_t began_ns = now_ns();
        err = journal_syncer_run(journal->syncer, batch->items, batch->item_count, &synced);
        uint64_t took_ns = now_ns() - began_ns;
        pthread_mutex_lock(&journal->lock);
        if (synced > 0) {
            journal_spread_add(&journal->stats.sync_ns, took_ns);
        }
    }
    return err == 0 ? write_records(journal, batch) : err;
}

static void note_settled(struct journal *journal, const struct batch *batch)
{
    struct journal_stats *stats = &journal->stats;
    stats->batches++;
    stats->changes += batch->changes;
    journal_spread_add(&stats->batch_changes, batch->changes);
    if (batch->first_ns != 0) {
        journal_spread_add(&stats->wait_ns, now_ns() - batch->first_ns);
    }
}

static void note_failure(struct journal *journal, uint64_t lsn)
{
    uint64_t before = atomic_load(&journal->settled);
    if (journal->failed_to != before) {
        journal->failed_from = before;
    }
    journal->failed_to = lsn;
}

static void settle(struct journal *journal, struct batch *batch)
{
    uint64_t lsn = batch->lsn_last;
    int err = make_durable(journal, batch);
    if (err != 0) {
        note_failure(journal, lsn);
        fail(journal, err, "changes could not be made durable");
    }
    note_settled(journal, batch);
    atomic_store(&journal->settled, lsn);
    pthread_cond_broadcast(&journal->ended);
    pthread_mutex_unlock(&journal->lock);
    if (journal->options.durable != NULL) {
        journal->options.durable(journal->options.arg, lsn, err);
    }
    for (size_t i = 0; i < batch->item_count; i++) {
        if (batch->items[i].release != NULL) {
            batch->items[i].release(batch->items[i].owner);
        }
    }
    pthread_mutex_lock(&journal->lock);
    journal_buffer_clear(&batch->buffer);
    batch->item_count = 0;
    batch->sync_count = 0;
    batch->error = 0;
    batch->wanted = false;
    batch->due_ms = 0;
    batch->changes = 0;
    batch->first_ns = 0;
}

/* Writes the open batch. */
static void write_open(struct journal *journal)
{
    struct batch *batch = journal->open;
    journal->writing = true;
    journal->open = batch == &journal->batches[0] ? &journal->batches[1] : &journal->batches[0];
    batch->promised = false;
    atomic_store(&journal->lazy, false);
    pthread_cond_broadcast(&journal->moved);
    while (batch->inside > 0) {
        pthread_cond_wait(&journal->left, &journal->lock);
    }
    settle(journal, batch);
    journal->writing = false;
}

/* Whether to write the open batch now; else waits for a reason to. The lock is held. */
static bool is_due(struct journal *journal)
{
    struct batch *batch = journal->open;
    if (journal->writing || atomic_load(&journal->settled) == journal->lsn_last) {
        journal->idle = true;
        pthread_cond_wait(&journal->wake, &journal->lock);
        journal->idle = false;
        return false;
    }
    if ((batch->wanted && !batch->promised) || journal->stopping) {
        return true;
    }
    if (batch->due_ms != 0 && now_ms() >= batch->due_ms) {
        return true;
    }
    journal->idle = true;
    if (batch->due_ms != 0) {
        struct timespec until = at_ms(batch->due_ms);
        pthread_cond_timedwait(&journal->wake, &journal->lock, &until);
    } else {
        pthread_cond_wait(&journal->wake, &journal->lock);
    }
    journal->idle = false;
    return false;
}

static void *journal_main(void *arg)
{
    struct journal *journal = arg;
    pthread_mutex_lock(&journal->lock);
    while (!journal->stopping || journal->writing ||
           atomic_load(&journal->settled) != journal->lsn_last) {
        if (!is_due(journal)) {
            continue;
        }
        write_open(journal);
    }
    pthread_mutex_unlock(&journal->lock);
    return NULL;
}

/* ---- the checkpoint ---- */

/* The lock is held, but not while it waits. */
static void checkpoint(struct journal *journal)
{
    struct journal_log_mark mark;
    journal->checkpoint_wanted = false;
    uint64_t number = ++journal->checkpoints_begun;
    journal->log_since_ms = 0; /* what is written from now on is not covered */
    journal_log_tail(journal->options.log, &mark);
    pthread_mutex_unlock(&journal->lock);
    uint64_t began_ns = now_ns();
    int err = journal->options.checkpoint(journal->options.arg);
    if (err == 0) {
        err = journal_log_advance(journal->options.log, &mark);
    }
    uint64_t took_ns = now_ns() - began_ns;
    pthread_mutex_lock(&journal->lock);
    if (err != 0) {
        fail(journal, err, "a checkpoint of the journal failed");
    } else {
        journal->stats.checkpoints++;
        journal_spread_add(&journal->stats.checkpoint_ns, took_ns);
    }
    journal->checkpoints_ended = number;
    pthread_cond_broadcast(&journal->moved);
    pthread_cond_broadcast(&journal->ended);
}

static void *checkpoint_main(void *arg)
{
    struct journal *journal = arg;
    pthread_mutex_lock(&journal->lock);
    while (!journal->checkpoint_stopping) {
        int64_t due_ms = journal->log_since_ms + CHECKPOINT_AGE_MS;
        bool due = journal->checkpoint_wanted || (journal->log_since_ms != 0 && now_ms() >= due_ms);
        if (due && !atomic_load(&journal->failed)) {
            checkpoint(journal);
        } else if (journal->log_since_ms != 0 && !due) {
            struct timespec until = at_ms(due_ms);
            pthread_cond_timedwait(&journal->checkpoint_wake, &journal->lock, &until);
        } else {
            pthread_cond_wait(&journal->checkpoint_wake, &journal->lock);
        }
    }
    /* The writer has ended: the log is left empty. */
    if (!atomic_load(&journal->failed)) {
        checkpoint(journal);
    }
    pthread_mutex_unlock(&journal->lock);
    return NULL;
}

/* ---- appending; the lock is held ---- */

static bool add_items(struct batch *batch, const struct journal_item *items, size_t count)
{
    if (count == 0) {
        return true;
    }
    if (batch->item_capacity - batch->item_count < count) {
        size_t capacity = batch->item_capacity == 0 ? 64 : batch->item_capacity * 2;
        while (capacity - batch->item_count < count) {
            capacity *= 2;
        }
        struct journal_item *more = realloc(batch->items, capacity * sizeof *more);
        if (more == NULL) {
            batch->error = -ENOMEM;
            return false;
        }
        batch->items = more;
        batch->item_capacity = capacity;
    }
    for (size_t i = 0; i < count; i++) {
        batch->items[batch->item_count++] = items[i];
        batch->sync_count += items[i].how != JOURNAL_NOTHING;
    }
    return true;
}

static void add_record(struct batch *batch, struct journal_record *record, uint64_t lsn)
{
    record->lsn = lsn;
    uint8_t *room = journal_buffer_extend(&batch->buffer, journal_record_bytes(record));
    if (room == NULL) {
        batch->error = -ENOMEM;
        return;
    }
    journal_record_put(record, room);
    if (batch->buffer.record_count++ == 0) {
        batch->buffer.first_lsn = lsn;
    }
}

/* Somebody waits for this batch. Whether that is news to the thread. */
static bool begin_waiting(struct batch *batch)
{
    bool news = !batch->wanted || batch->promised;
    if (!batch->wanted) {
        batch->wanted = true;
        batch->first_ns = now_ns();
    }
    batch->promised = false;
    return news;
}

/* A lazy change has joined. Whether the batch must be written sooner than the thread knows. */
static bool set_due(struct batch *batch, uint32_t window_ms)
{
    if (batch->due_ms != 0 && window_ms >= batch->due_window_ms) {
        return false;
    }
    int64_t due_ms = now_ms() + window_ms;
    bool news = batch->due_ms == 0 || due_ms < batch->due_ms;
    if (news) {
        batch->due_ms = due_ms;
        batch->due_window_ms = window_ms;
    }
    return news;
}

static void let_go(struct journal *journal)
{
    if (--held.batch->inside == 0 && held.batch != journal->open) {
        pthread_cond_signal(&journal->left);
    }
    held.journal = NULL;
    held.batch = NULL;
}

/* This thread's reply belongs to the newest of its changes. */
static void hold(struct journal *journal, struct batch *batch, uint64_t lsn)
{
    if (journal->options.log == NULL) {
        return; /* there is nowhere to keep a reply */
    }
    if (held.batch != NULL && held.batch != batch) {
        let_go(journal);
    }
    if (held.batch == NULL) {
        batch->inside++;
    }
    held = (struct held){.journal = journal, .batch = batch, .lsn = lsn};
}

static void free_all(struct journal *journal)
{
    for (int i = 0; i < 2; i++) {
        free(journal->batches[i].items);
        journal_buffer_free(&journal->batches[i].buffer);
    }
    journal_syncer_free(journal->syncer);
    pthread_cond_destroy(&journal->wake);
    pthread_cond_destroy(&journal->left);
    pthread_cond_destroy(&journal->moved);
    pthread_cond_destroy(&journal->ended);
    pthread_cond_destroy(&journal->checkpoint_wake);
    pthread_mutex_destroy(&journal->lock);
    free(journal);
}

/* Gives up a reference, and the lock. */
static void put(struct journal *journal)
{
    bool last = --journal->references == 0;
    pthread_mutex_unlock(&journal->lock);
    if (last) {
        free_all(journal);
    }
}

/* What was promised of the open batch is for the journal's thread to write. */
static void hand_over(struct journal *journal)
{
    if (journal->open->promised) {
        journal->open->promised = false;
        pthread_cond_signal(&journal->wake);
    }
}

/* What this thread has left in another journal is not its own to write any more. */
static void break_promise(void)
{
    struct journal *journal = promise.journal;
    promise.journal = NULL;
    pthread_mutex_lock(&journal->lock);
    hand_over(journal);
    put(journal);
}

/* The same as begin_waiting, if this thread has not promised to write. */
static bool begin_waiting_or_promise(struct journal *journal)
{
    struct batch *batch = journal->open;
    bool mine = promise.made && (!batch->wanted || batch->promised);
    bool news = begin_waiting(batch);
    if (!mine) {
        return news;
    }
    batch->promised = true;
    if (promise.journal == NULL) {
        promise.journal = journal;
        journal->references++;
    }
    return false;
}

uint64_t journal_append(struct journal *journal, const struct journal_change *change)
{
    if (promise.journal != NULL && promise.journal != journal) {
        break_promise();
    }
    if (held.journal != NULL && held.journal != journal) {
        journal_leave();
    }
    pthread_mutex_lock(&journal->lock);
    struct batch *batch = journal->open;
    uint64_t lsn = ++journal->lsn_last;
    bool kept = add_items(batch, change->items, change->item_count);
    for (size_t i = 0; i < change->record_count; i++) {
        add_record(batch, &change->records[i], lsn);
    }
    batch->lsn_last = lsn;
    batch->changes++;
    bool sooner =
        change->lazy ? set_due(batch, change->window_ms) : begin_waiting_or_promise(journal);
    atomic_store(&journal->lazy, !batch->wanted);
    if (change->holds) {
        hold(journal, batch, lsn);
    }
    if (journal->idle && sooner) {
        pthread_cond_signal(&journal->wake);
    }
    pthread_mutex_unlock(&journal->lock);

    for (size_t i = 0; !kept && i < change->item_count; i++) {
        if (change->items[i].release != NULL) {
            change->items[i].release(change->items[i].owner);
        }
    }
    return lsn;
}

/* ---- the contract ---- */

void journal_admit(struct journal *journal)
{
    /* Whoever holds a batch is waited for, and must not wait. */
    if (journal->options.log == NULL || held.journal != NULL) {
        return;
    }
    size_t half = journal_log_batch_bytes_max(journal->options.log) / 2;
    size_t limit = half < BATCH_BYTES_SOFT ? half : BATCH_BYTES_SOFT;
    pthread_mutex_lock(&journal->lock);
    journal->stats.admit_waits += journal->open->buffer.size_bytes > limit;
    while (journal->open->buffer.size_bytes > limit && !atomic_load(&journal->failed)) {
        (void)begin_waiting(journal->open);
        pthread_cond_signal(&journal->wake);
        pthread_cond_wait(&journal->moved, &journal->lock);
    }
    pthread_mutex_unlock(&journal->lock);
}

void journal_reply(const struct journal_caller *caller, const uint8_t *bytes, uint32_t size_bytes)
{
    struct journal *journal = held.journal;
    if (journal == NULL) {
        return;
    }
    struct journal_record record = {
        .type = JOURNAL_REPLY,
        .reply = {.caller = *caller, .bytes = bytes, .size = size_bytes},
    };
    pthread_mutex_lock(&journal->lock);
    if (size_bytes <= JOURNAL_REPLY_BYTES_MAX && held.batch->buffer.record_count > 0) {
        add_record(held.batch, &record, held.lsn);
    }
    let_go(journal);
    pthread_mutex_unlock(&journal->lock);
}

void journal_leave(void)
{
    struct journal *journal = held.journal;
    if (journal == NULL) {
        return;
    }
    pthread_mutex_lock(&journal->lock);
    let_go(journal);
    pthread_mutex_unlock(&journal->lock);
}

void journal_promise(void)
{
    promise.made = true;
}

/* Whether a thread that is not the journal's may write the open batch. The lock is held. */
static bool is_quick(const struct journal *journal)
{
    const struct batch *batch = journal->open;
    return journal->options.log != NULL && !journal->writing && batch->sync_count == 0 &&
           batch->buffer.size_bytes <= PROMISED_BYTES_MAX && journal->write_ns <= PROMISED_NS_MAX;
}

void journal_keep_promise(void)
{
    struct journal *journal = promise.journal;
    promise = (struct promise){0};
    if (journal == NULL) {
        return;
    }
    pthread_mutex_lock(&journal->lock);
    bool quick = journal->open->promised && is_quick(journal);
    if (quick) {
        write_open(journal);
    }
    if (atomic_load(&journal->settled) != journal->lsn_last || journal->stopping) {
        journal->open->promised = false;
        pthread_cond_signal(&journal->wake);
    }
    put(journal);
}

void journal_wake(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    hand_over(journal);
    pthread_mutex_unlock(&journal->lock);
}

/* The lock is held. */
static void want_open_batch(struct journal *journal)
{
    if (begin_waiting(journal->open)) {
        atomic_store(&journal->lazy, false);
        pthread_cond_signal(&journal->wake);
    }
}

void journal_want(struct journal *journal, uint64_t lsn)
{
    if (!atomic_load(&journal->lazy) || lsn <= atomic_load(&journal->settled)) {
        return;
    }
    pthread_mutex_lock(&journal->lock);
    if (lsn <= journal->open->lsn_last) {
        want_open_batch(journal);
    }
    pthread_mutex_unlock(&journal->lock);
}

void journal_push(struct journal *journal)
{
    if (atomic_load(&journal->lazy)) {
        journal_want(journal, atomic_load(&journal->settled) + 1);
    }
}

/* The lock is held. */
static int wait_for(struct journal *journal, uint64_t lsn)
{
    if (lsn > atomic_load(&journal->settled) && lsn <= journal->open->lsn_last) {
        want_open_batch(journal);
    }
    while (lsn > atomic_load(&journal->settled)) {
        pthread_cond_wait(&journal->ended, &journal->lock);
    }
    return lsn > journal->failed_from && lsn <= journal->failed_to ? -EIO : 0;
}

int journal_wait(struct journal *journal, uint64_t lsn)
{
    CHECK(held.journal != journal);
    pthread_mutex_lock(&journal->lock);
    int err = wait_for(journal, lsn);
    pthread_mutex_unlock(&journal->lock);
    return err;
}

int journal_checkpoint(struct journal *journal)
{
    CHECK(held.journal != journal);
    pthread_mutex_lock(&journal->lock);
    int err = wait_for(journal, journal->lsn_last);
    uint64_t number = journal->checkpoints_begun + 1; /* one that runs may have begun too early */
    while (err == 0 && journal->options.log != NULL && journal->checkpoints_ended < number &&
           !atomic_load(&journal->failed)) {
        journal->checkpoint_wanted = true;
        pthread_cond_signal(&journal->checkpoint_wake);
        pthread_cond_wait(&journal->ended, &journal->lock);
    }
    pthread_mutex_unlock(&journal->lock);
    return err == 0 ? journal_error(journal) : err;
}

uint64_t journal_settled(const struct journal *journal)
{
    return atomic_load_explicit(&journal->settled, memory_order_acquire);
}

int journal_error(const struct journal *journal)
{
    return atomic_load_explicit(&journal->failed, memory_order_relaxed) ? -EIO : 0;
}

void journal_stats(struct journal *journal, struct journal_stats *stats)
{
    pthread_mutex_lock(&journal->lock);
    *stats = journal->stats;
    stats->waiting = journal->lsn_last - atomic_load(&journal->settled);
    pthread_mutex_unlock(&journal->lock);
    stats->error = journal_error(journal);
    stats->has_log = journal->options.log != NULL;
    if (journal->options.log != NULL) {
        journal_log_fill(journal->options.log, &stats->used_bytes, &stats->ring_bytes);
    }
}

static void stop_thread(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    journal->stopping = true;
    pthread_cond_signal(&journal->wake);
    pthread_mutex_unlock(&journal->lock);
    pthread_join(journal->thread, NULL);
}

int journal_open(const struct journal_options *options, struct journal **result, struct err *err)
{
    pthread_condattr_t monotonic;
    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        return err_set(err, -ENOMEM, "no memory for the journal");
    }
    CHECK(options->log == NULL || options->checkpoint != NULL);
    journal->options = *options;
    journal->references = 1;
    journal->open = &journal->batches[0];
    pthread_mutex_init(&journal->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&journal->wake, &monotonic);
    pthread_cond_init(&journal->checkpoint_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&journal->left, NULL);
    pthread_cond_init(&journal->moved, NULL);
    pthread_cond_init(&journal->ended, NULL);
    if (options->log != NULL) {
        journal->lsn_last = journal_log_last_lsn(options->log);
        atomic_init(&journal->settled, journal->lsn_last);
    }
    journal->syncer = journal_syncer_new(options->sync, options->arg);
    int error = journal->syncer == NULL ? ENOMEM : 0;
    if (error == 0) {
        error = pthread_create(&journal->thread, NULL, journal_main, journal);
    }
    if (error == 0 && options->log != NULL) {
        error = pthread_create(&journal->checkpoint_thread, NULL, checkpoint_main, journal);
        if (error != 0) {
            stop_thread(journal);
        }
    }
    if (error != 0) {
        free_all(journal);
        return err_set(err, -error, "cannot start the journal's threads: %s", strerror(error));
    }
    *result = journal;
    return 0;
}

int journal_close(struct journal *journal)
{
    if (journal == NULL) {
        return 0;
    }
    stop_thread(journal);
    if (journal->options.log != NULL) {
        pthread_mutex_lock(&journal->lock);
        journal->checkpoint_stopping = true;
        pthread_cond_signal(&journal->checkpoint_wake);
        pthread_mutex_unlock(&journal->lock);
        pthread_join(journal->checkpoint_thread, NULL);
        journal_log_close(journal->options.log);
    }
    int err = journal_error(journal);
    pthread_mutex_lock(&journal->lock);
    put(journal);
    return err;
}
