/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/sync.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Threads beside the caller's that sync objects of one group; started when first needed. */
#define HELPERS_MAX 15

/* What is left of a group after duplicates are gone. */
struct sync {
    int fd;
    enum journal_how how;
    dev_t dev; /* known only where the group has a JOURNAL_SYNCFS */
};

/* A group's syncs, handed out to whoever asks next. */
struct journal_syncer {
    journal_sync_call *call;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* for helpers: there is something to take, or stop */
    pthread_cond_t done; /* for the caller: unfinished reached zero */
    struct sync *syncs;
    size_t capacity;
    size_t count;
    size_t next;
    size_t unfinished;
    int error;
    bool stopping;
    uint32_t helper_count;
    pthread_t helpers[HELPERS_MAX];
};

static int sync_one(const struct journal_syncer *syncer, const struct sync *sync)
{
    if (syncer->call != NULL) {
        return syncer->call(syncer->arg, sync->fd, sync->how);
    }
    int result = 0;
    switch (sync->how) {
    case JOURNAL_NOTHING:
        break;
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
    const struct sync *a = left;
    const struct sync *b = right;
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

static bool has_dev(const struct sync *syncs, size_t count, dev_t dev)
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
static size_t drop_covered(struct sync *syncs, size_t count)
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

/* Fills syncer->syncs with each object of the group once. */
static int prepare(struct journal_syncer *syncer, const struct journal_item *items,
                   size_t item_count)
{
    if (syncer->capacity < item_count) {
        struct sync *syncs = realloc(syncer->syncs, item_count * sizeof *syncs);
        if (syncs == NULL) {
            return -ENOMEM;
        }
        syncer->syncs = syncs;
        syncer->capacity = item_count;
    }
    size_t all = 0;
    for (size_t i = 0; i < item_count; i++) {
        if (items[i].how != JOURNAL_NOTHING) {
            syncer->syncs[all++] = (struct sync){.fd = items[i].fd, .how = items[i].how};
        }
    }
    size_t count = 0;
    if (all > 1) {
        qsort(syncer->syncs, all, sizeof *syncer->syncs, by_strength_and_fd);
    }
    for (size_t i = 0; i < all; i++) {
        if (count == 0 || syncer->syncs[count - 1].fd != syncer->syncs[i].fd) {
            syncer->syncs[count++] = syncer->syncs[i];
        }
    }
    if (count > 1 && syncer->syncs[0].how == JOURNAL_SYNCFS) {
        count = drop_covered(syncer->syncs, count);
    }
    syncer->count = count;
    return 0;
}

/* Takes syncs until there are none. Called and returns with the lock held. */
static void take_all(struct journal_syncer *syncer)
{
    while (syncer->next < syncer->count) {
        struct sync sync = syncer->syncs[syncer->next++];
        pthread_mutex_unlock(&syncer->lock);
        int err = sync_one(syncer, &sync);
        pthread_mutex_lock(&syncer->lock);
        if (err != 0 && syncer->error == 0) {
            syncer->error = err;
        }
        if (--syncer->unfinished == 0) {
            pthread_cond_signal(&syncer->done);
        }
    }
}

static void *helper_main(void *arg)
{
    struct journal_syncer *syncer = arg;
    pthread_mutex_lock(&syncer->lock);
    while (!syncer->stopping) {
        take_all(syncer);
        if (!syncer->stopping) {
            pthread_cond_wait(&syncer->wake, &syncer->lock);
        }
    }
    pthread_mutex_unlock(&syncer->lock);
    return NULL;
}

/* Fewer helpers than wanted only make a group slower. */
static void want_helpers(struct journal_syncer *syncer, size_t wanted)
{
    while (syncer->helper_count < HELPERS_MAX && syncer->helper_count < wanted) {
        if (pthread_create(&syncer->helpers[syncer->helper_count], NULL, helper_main, syncer) !=
            0) {
            return;
        }
        syncer->helper_count++;
    }
}

int journal_syncer_run(struct journal_syncer *syncer, const struct journal_item *items,
                       size_t count, size_t *synced)
{
    pthread_mutex_lock(&syncer->lock);
    int err = prepare(syncer, items, count);
    *synced = err == 0 ? syncer->count : 0;
    if (err == 0) {
        syncer->next = 0;
        syncer->unfinished = syncer->count;
        syncer->error = 0;
        if (syncer->count > 1) {
            want_helpers(syncer, syncer->count - 1);
            pthread_cond_broadcast(&syncer->wake);
        }
        take_all(syncer);
        while (syncer->unfinished > 0) {
            pthread_cond_wait(&syncer->done, &syncer->lock);
        }
        err = syncer->error;
        syncer->count = 0;
        syncer->next = 0;
    }
    pthread_mutex_unlock(&syncer->lock);
    return err;
}

struct journal_syncer *journal_syncer_new(journal_sync_call *sync, void *arg)
{
    struct journal_syncer *syncer = calloc(1, sizeof *syncer);
    if (syncer != NULL) {
        syncer->call = sync;
        syncer->arg = arg;
        pthread_mutex_init(&syncer->lock, NULL);
        pthread_cond_init(&syncer->wake, NULL);
        pthread_cond_init(&syncer->done, NULL);
    }
    return syncer;
}

void journal_syncer_free(struct journal_syncer *syncer)
{
    if (syncer == NULL) {
        return;
    }
    pthread_mutex_lock(&syncer->lock);
    syncer->stopping = true;
    pthread_cond_broadcast(&syncer->wake);
    pthread_mutex_unlock(&syncer->lock);
    for (uint32_t i = 0; i < syncer->helper_count; i++) {
        pthread_join(syncer->helpers[i], NULL);
    }
    free(syncer->syncs);
    pthread_cond_destroy(&syncer->done);
    pthread_cond_destroy(&syncer->wake);
    pthread_mutex_destroy(&syncer->lock);
    free(syncer);
}
