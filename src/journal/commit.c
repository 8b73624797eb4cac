/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of fsync: what is appended while one group is on its way to the disk forms the next.
 *
 *     append ----> open group ----(the thread takes all of it)----> syncing ----> durable(lsn,
 * error)
 *
 * 1. Everything of a group was appended, so applied, before the first sync of the group starts.
 * That is why one sync per object is enough however many changes it stands for.
 * 2. A group has one result. If any object of it could not be synced, all of it failed: a reply may
 *    depend on several objects, and the journal does not know which.
 * 3. Groups meet their end in order; settled never goes back.
 * 4. lost() comes before durable() for a failed group, so no reply that reports the failure or a
 *    later success carries the old write verifier.
 *
 * The objects of a group are synced by several threads at once when there are many: each sync waits
 * for a flush of the device's cache, and the block layer merges flushes that wait at the same time.
 */
#include "journal/commit.h"

#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Threads beside the journal's own that sync objects of one group; started when first needed. */
#define JOURNAL_HELPERS_MAX 15

struct journal_group {
    struct journal_item *items;
    size_t count;
    size_t capacity;
    int error; /* decided while it was filled */
};

/* What is left of a group after duplicates are gone. */
struct journal_sync {
    int fd;
    enum journal_how how;
    dev_t dev; /* known only where the group has a JOURNAL_SYNCFS */
};

/* A group's syncs, handed out to whoever asks next. */
struct journal_work {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* for helpers: there is something to take, or stop */
    pthread_cond_t done; /* for the thread: unfinished reached zero */
    struct journal_sync *syncs;
    size_t capacity;
    size_t count;
    size_t next;
    size_t unfinished;
    int error;
    bool stopping;
    uint32_t helper_count;
    pthread_t helpers[JOURNAL_HELPERS_MAX];
};

struct journal {
    struct journal_options options;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* for the thread: something was appended, or stop */
    struct journal_group open;
    uint64_t lsn_last;
    bool idle; /* the thread waits */
    bool stopping;
    atomic_uint_fast64_t settled;
    pthread_t thread;
    struct journal_work work;
};

/* ---- one group's syncs ---- */

static int sync_one(const struct journal *journal, const struct journal_sync *sync)
{
    if (journal->options.sync != NULL) {
        return journal->options.sync(journal->options.arg, sync->fd, sync->how);
    }
    int result = 0;
    switch (sync->how) {
    case JOURNAL_FDATASYNC:
        result = fdatasync(sync->fd);
        break;
    case JOURNAL_FSYNC:
        result = fsync(sync->fd);
        break;
    case JOURNAL_SYNCFS:
        result = syncfs(sync->fd);
        break;
    }
    return result == 0 ? 0 : -errno;
}

static int by_strength_and_fd(const void *left, const void *right)
{
    const struct journal_sync *a = left;
    const struct journal_sync *b = right;
    bool a_first = a->how == JOURNAL_SYNCFS;
    bool b_first = b->how == JOURNAL_SYNCFS;
    if (a_first != b_first) {
        return a_first ? -1 : 1;
    }
    if (a->fd != b->fd) {
        return a->fd < b->fd ? -1 : 1;
    }
    return (int)b->how - (int)a->how;
}

static bool has_dev(const struct journal_sync *syncs, size_t count, dev_t dev)
{
    for (size_t i = 0; i < count; i++) {
        if (syncs[i].dev == dev) {
            return true;
        }
    }
    return false;
}

/* syncs is sorted: syncfs first. Keeps one syncfs per file system, and of the rest what lies on
 * other file systems. */
static size_t drop_covered(struct journal_sync *syncs, size_t count)
{
    size_t kept = 0;
    size_t whole = 0; /* syncs[0..whole) are the syncfs that were kept */
    for (size_t i = 0; i < count; i++) {
        struct stat st;
        bool known = fstat(syncs[i].fd, &st) == 0;
        if (known && has_dev(syncs, whole, st.st_dev)) {
            continue;
        }
        /* A descriptor that cannot be asked is synced by itself, which will say what is wrong. */
        syncs[kept] = syncs[i];
        syncs[kept].dev = known ? st.st_dev : (dev_t)-1;
        kept++;
        if (syncs[kept - 1].how == JOURNAL_SYNCFS && known) {
            whole = kept;
        }
    }
    return kept;
}

/* Fills work->syncs with each object of the group once. */
static int prepare(struct journal_work *work, const struct journal_group *group)
{
    if (work->capacity < group->count) {
        struct journal_sync *syncs = realloc(work->syncs, group->count * sizeof *syncs);
        if (syncs == NULL) {
            return -ENOMEM;
        }
        work->syncs = syncs;
        work->capacity = group->count;
    }
    for (size_t i = 0; i < group->count; i++) {
        work->syncs[i] =
            (struct journal_sync){.fd = group->items[i].fd, .how = group->items[i].how};
    }
    size_t count = 0;
    if (group->count > 1) {
        qsort(work->syncs, group->count, sizeof *work->syncs, by_strength_and_fd);
    }
    for (size_t i = 0; i < group->count; i++) {
        if (count == 0 || work->syncs[count - 1].fd != work->syncs[i].fd) {
            work->syncs[count++] = work->syncs[i];
        }
    }
    if (count > 1 && work->syncs[0].how == JOURNAL_SYNCFS) {
        count = drop_covered(work->syncs, count);
    }
    work->count = count;
    return 0;
}

/* Takes syncs until there are none. Called and returns with work->lock held. */
static void work_take(struct journal *journal)
{
    struct journal_work *work = &journal->work;
    while (work->next < work->count) {
        struct journal_sync sync = work->syncs[work->next++];
        pthread_mutex_unlock(&work->lock);
        int err = sync_one(journal, &sync);
        pthread_mutex_lock(&work->lock);
        if (err != 0 && work->error == 0) {
            work->error = err;
        }
        if (--work->unfinished == 0) {
            pthread_cond_signal(&work->done);
        }
    }
}

static void *helper_main(void *arg)
{
    struct journal *journal = arg;
    struct journal_work *work = &journal->work;
    pthread_mutex_lock(&work->lock);
    while (!work->stopping) {
        work_take(journal);
        if (!work->stopping) {
            pthread_cond_wait(&work->wake, &work->lock);
        }
    }
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

/* Fewer helpers than wanted only make a group slower. */
static void want_helpers(struct journal *journal, size_t wanted)
{
    struct journal_work *work = &journal->work;
    while (work->helper_count < JOURNAL_HELPERS_MAX && work->helper_count < wanted) {
        if (pthread_create(&work->helpers[work->helper_count], NULL, helper_main, journal) != 0) {
            return;
        }
        work->helper_count++;
    }
}

static int sync_group(struct journal *journal, const struct journal_group *group)
{
    struct journal_work *work = &journal->work;
    if (group->error != 0) {
        return group->error;
    }
    pthread_mutex_lock(&work->lock);
    int err = prepare(work, group);
    if (err == 0) {
        work->next = 0;
        work->unfinished = work->count;
        work->error = 0;
        if (work->count > 1) {
            want_helpers(journal, work->count - 1);
            pthread_cond_broadcast(&work->wake);
        }
        work_take(journal);
        while (work->unfinished > 0) {
            pthread_cond_wait(&work->done, &work->lock);
        }
        err = work->error;
        work->count = 0;
        work->next = 0;
    }
    pthread_mutex_unlock(&work->lock);
    return err;
}

/* ---- the thread ---- */

static void settle(struct journal *journal, struct journal_group *group, uint64_t lsn)
{
    static struct log_limit limit;
    int err = sync_group(journal, group);
    if (err != 0) {
        log_write_limited(&limit, LOG_ERROR, "changes could not be made durable: %s",
                          strerror(-err));
        if (journal->options.lost != NULL) {
            journal->options.lost(journal->options.arg);
        }
    }
    atomic_store(&journal->settled, lsn);
    if (journal->options.durable != NULL) {
        journal->options.durable(journal->options.arg, lsn, err);
    }
    for (size_t i = 0; i < group->count; i++) {
        if (group->items[i].release != NULL) {
            group->items[i].release(group->items[i].owner);
        }
    }
    group->count = 0;
    group->error = 0;
}

static void *journal_main(void *arg)
{
    struct journal *journal = arg;
    struct journal_group taken = {0};

    pthread_mutex_lock(&journal->lock);
    for (;;) {
        if (atomic_load(&journal->settled) == journal->lsn_last) {
            if (journal->stopping) {
                break;
            }
            journal->idle = true;
            pthread_cond_wait(&journal->wake, &journal->lock);
            journal->idle = false;
            continue;
        }
        struct journal_group empty = taken;
        taken = journal->open;
        journal->open = empty;
        uint64_t lsn = journal->lsn_last;
        pthread_mutex_unlock(&journal->lock);
        settle(journal, &taken, lsn);
        pthread_mutex_lock(&journal->lock);
    }
    pthread_mutex_unlock(&journal->lock);
    free(taken.items);
    return NULL;
}

/* ---- the contract ---- */

int journal_open(const struct journal_options *options, struct journal **result, struct err *err)
{
    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        return err_set(err, -ENOMEM, "no memory for the journal");
    }
    journal->options = *options;
    pthread_mutex_init(&journal->lock, NULL);
    pthread_cond_init(&journal->wake, NULL);
    pthread_mutex_init(&journal->work.lock, NULL);
    pthread_cond_init(&journal->work.wake, NULL);
    pthread_cond_init(&journal->work.done, NULL);
    int error = pthread_create(&journal->thread, NULL, journal_main, journal);
    if (error != 0) {
        free(journal);
        return err_set(err, -error, "cannot start the journal's thread: %s", strerror(error));
    }
    *result = journal;
    return 0;
}

static bool group_reserve(struct journal_group *group, size_t count)
{
    if (group->capacity - group->count >= count) {
        return true;
    }
    size_t capacity = group->capacity == 0 ? 64 : group->capacity * 2;
    while (capacity - group->count < count) {
        capacity *= 2;
    }
    struct journal_item *items = realloc(group->items, capacity * sizeof *items);
    if (items == NULL) {
        return false;
    }
    group->items = items;
    group->capacity = capacity;
    return true;
}

uint64_t journal_append(struct journal *journal, const struct journal_item *items, size_t count)
{
    pthread_mutex_lock(&journal->lock);
    bool kept = group_reserve(&journal->open, count);
    if (kept && count > 0) {
        memcpy(&journal->open.items[journal->open.count], items, count * sizeof *items);
        journal->open.count += count;
    } else if (!kept) {
        journal->open.error = -ENOMEM;
    }
    uint64_t lsn = ++journal->lsn_last;
    if (journal->idle) {
        pthread_cond_signal(&journal->wake);
    }
    pthread_mutex_unlock(&journal->lock);

    for (size_t i = 0; !kept && i < count; i++) {
        if (items[i].release != NULL) {
            items[i].release(items[i].owner);
        }
    }
    return lsn;
}

uint64_t journal_settled(const struct journal *journal)
{
    return atomic_load_explicit(&journal->settled, memory_order_acquire);
}

void journal_close(struct journal *journal)
{
    if (journal == NULL) {
        return;
    }
    pthread_mutex_lock(&journal->lock);
    journal->stopping = true;
    pthread_cond_signal(&journal->wake);
    pthread_mutex_unlock(&journal->lock);
    pthread_join(journal->thread, NULL);

    pthread_mutex_lock(&journal->work.lock);
    journal->work.stopping = true;
    pthread_cond_broadcast(&journal->work.wake);
    pthread_mutex_unlock(&journal->work.lock);
    for (uint32_t i = 0; i < journal->work.helper_count; i++) {
        pthread_join(journal->work.helpers[i], NULL);
    }
    free(journal->open.items);
    free(journal->work.syncs);
    pthread_cond_destroy(&journal->work.done);
    pthread_cond_destroy(&journal->work.wake);
    pthread_mutex_destroy(&journal->work.lock);
    pthread_cond_destroy(&journal->wake);
    pthread_mutex_destroy(&journal->lock);
    free(journal);
}
