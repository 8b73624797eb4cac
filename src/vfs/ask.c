/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry:  wanted -> asked -> answered -> (past its time) wanted again, with the old answer
 *
 * Everything is under one lock, which is never held while `find` runs. An entry lives while the
 * table, a thread or a caller refers to it.
 */
#include "vfs/ask.h"

#include "os/signals.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKET_COUNT 1024U
#define KEEP_NOTHING_MS 30000 /* when there was no answer */

struct ask_entry {
    struct ask_entry *bucket_next;
    struct ask_entry *older, *newer; /* in the table, by age */
    struct ask_entry *wanted_next;
    uint32_t ref_count; /* the table's included */
    bool in_table;
    bool is_wanted; /* in the list, or being asked */
    bool has_answer;
    int64_t until_ms;
    void *answer;
    uint8_t key[ASK_KEY_BYTES];
};

struct ask {
    struct ask_options options;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    pthread_cond_t answered;
    uint32_t ref_count; /* the owner's, and the threads' */
    bool closed;
    uint32_t thread_count, idle_count, waiter_count, wanted_count;
    struct ask_entry *wanted_head, *wanted_tail;
    struct ask_entry *oldest, *newest;
    uint32_t entry_count;
    struct ask_entry *buckets[BUCKET_COUNT];
};

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct ask_entry **bucket_of(struct ask *ask, const uint8_t *key)
{
    uint32_t hash = 2166136261U; /* FNV-1a; a client that finds uids of one bucket gains little */
    for (size_t i = 0; i < ASK_KEY_BYTES; i++) {
        hash = (hash ^ key[i]) * 16777619U;
    }
    return &ask->buckets[(hash >> 8) % BUCKET_COUNT];
}

/* ---- entries; locked ---- */

static void entry_put(struct ask *ask, struct ask_entry *entry)
{
    if (--entry->ref_count == 0) {
        if (entry->answer != NULL) {
            ask->options.forget(entry->answer);
        }
        free(entry);
    }
}

static void take_out(struct ask *ask, struct ask_entry *entry)
{
    struct ask_entry **link = bucket_of(ask, entry->key);
    while (*link != entry) {
        link = &(*link)->bucket_next;
    }
    *link = entry->bucket_next;
    *(entry->older != NULL ? &entry->older->newer : &ask->oldest) = entry->newer;
    *(entry->newer != NULL ? &entry->newer->older : &ask->newest) = entry->older;
    ask->entry_count--;
    entry->in_table = false;
    entry_put(ask, entry);
}

static struct ask_entry *find_entry(struct ask *ask, const uint8_t *key)
{
    struct ask_entry *entry = *bucket_of(ask, key);
    while (entry != NULL && memcmp(entry->key, key, ASK_KEY_BYTES) != 0) {
        entry = entry->bucket_next;
    }
    return entry;
}

static struct ask_entry *add_entry(struct ask *ask, const uint8_t *key)
{
    struct ask_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        return NULL;
    }
    if (ask->entry_count == ASK_ENTRY_COUNT_MAX) {
        take_out(ask, ask->oldest);
    }
    memcpy(entry->key, key, ASK_KEY_BYTES);
    struct ask_entry **bucket = bucket_of(ask, key);
    entry->bucket_next = *bucket;
    *bucket = entry;
    entry->older = ask->newest;
    *(ask->newest != NULL ? &ask->newest->newer : &ask->oldest) = entry;
    ask->newest = entry;
    entry->ref_count = 1;
    entry->in_table = true;
    ask->entry_count++;
    return entry;
}

/* ---- threads ---- */

static void unlock_and_put(struct ask *ask)
{
    bool last = --ask->ref_count == 0;
    pthread_mutex_unlock(&ask->lock);
    if (last) {
        if (ask->options.release != NULL) {
            ask->options.release(ask->options.arg);
        }
        pthread_cond_destroy(&ask->wanted);
        pthread_cond_destroy(&ask->answered);
        pthread_mutex_destroy(&ask->lock);
        free(ask);
    }
}

static void set_answer(struct ask_entry *entry, void *answer)
{
    entry->answer = answer;
    entry->has_answer = true;
    entry->until_ms = clock_ms() + (answer != NULL ? ASK_KEEP_MS : KEEP_NOTHING_MS);
}

/* Somebody may be looking at the old answer: then a new entry takes the place of the old one. */
static void answer_one(struct ask *ask, struct ask_entry *entry)
{
    pthread_mutex_unlock(&ask->lock);
    void *answer = ask->options.find(ask->options.arg, entry->key);
    pthread_mutex_lock(&ask->lock);
    entry->is_wanted = false;
    if (!entry->has_answer) {
        set_answer(entry, answer);
    } else {
        struct ask_entry *fresh = NULL;
        if (entry->in_table) {
            take_out(ask, entry);
            fresh = add_entry(ask, entry->key);
        }
        if (fresh != NULL) {
            set_answer(fresh, answer);
        } else if (answer != NULL) {
            ask->options.forget(answer);
        }
    }
    entry_put(ask, entry);
    pthread_cond_broadcast(&ask->answered);
}

static void *ask_main(void *arg)
{
    struct ask *ask = arg;
    pthread_mutex_lock(&ask->lock);
    while (!ask->closed) {
        struct ask_entry *entry = ask->wanted_head;
        if (entry == NULL) {
            ask->idle_count++;
            pthread_cond_wait(&ask->wanted, &ask->lock);
            ask->idle_count--;
            continue;
        }
        ask->wanted_head = entry->wanted_next;
        ask->wanted_tail = ask->wanted_head == NULL ? NULL : ask->wanted_tail;
        ask->wanted_count--;
        answer_one(ask, entry);
    }
    unlock_and_put(ask);
    return NULL;
}

static void start_thread(struct ask *ask)
{
    pthread_t thread;
    sigset_t old;
    signals_hold(&old);
    if (pthread_create(&thread, NULL, ask_main, ask) == 0) {
        pthread_detach(thread);
        ask->thread_count++;
        ask->ref_count++;
    }
    signals_release(&old);
}

static void want(struct ask *ask, struct ask_entry *entry)
{
    if (entry->is_wanted || ask->wanted_count == ASK_WANTED_COUNT_MAX) {
        return;
    }
    ask->wanted_count++;
    entry->is_wanted = true;
    entry->ref_count++;
    entry->wanted_next = NULL;
    *(ask->wanted_tail != NULL ? &ask->wanted_tail->wanted_next : &ask->wanted_head) = entry;
    ask->wanted_tail = entry;
    /* An idle thread that has been signalled counts as idle until it runs. */
    if (ask->wanted_count <= ask->idle_count) {
        pthread_cond_signal(&ask->wanted);
    } else if (ask->thread_count < ASK_THREAD_COUNT_MAX) {
        start_thread(ask);
    }
}

/* ---- for the others ---- */

struct ask *ask_open(const struct ask_options *options)
{
    pthread_condattr_t monotonic;
    struct ask *ask = calloc(1, sizeof *ask);
    if (ask == NULL) {
        return NULL;
    }
    ask->options = *options;
    ask->ref_count = 1;
    pthread_mutex_init(&ask->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&ask->wanted, NULL);
    pthread_cond_init(&ask->answered, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return ask;
}

void ask_close(struct ask *ask)
{
    if (ask == NULL) {
        return;
    }
    pthread_mutex_lock(&ask->lock);
    ask->closed = true;
    while (ask->wanted_head != NULL) {
        struct ask_entry *entry = ask->wanted_head;
        ask->wanted_head = entry->wanted_next;
        entry_put(ask, entry);
    }
    while (ask->oldest != NULL) {
        take_out(ask, ask->oldest);
    }
    pthread_cond_broadcast(&ask->wanted);
    unlock_and_put(ask);
}

static void wait_for(struct ask *ask, const struct ask_entry *entry)
{
    int64_t until_ms = clock_ms() + ASK_WAIT_MS;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    ask->waiter_count++;
    while (!entry->has_answer && pthread_cond_timedwait(&ask->answered, &ask->lock, &until) == 0) {
    }
    ask->waiter_count--;
}

int ask_get(struct ask *ask, const uint8_t key[ASK_KEY_BYTES], bool may_wait,
            struct ask_entry **result, const void **answer)
{
    int err = 0;
    pthread_mutex_lock(&ask->lock);
    struct ask_entry *entry = find_entry(ask, key);
    entry = entry != NULL ? entry : add_entry(ask, key);
    if (entry == NULL) {
        pthread_mutex_unlock(&ask->lock);
        return -EAGAIN;
    }
    entry->ref_count++;
    if (!entry->has_answer || clock_ms() >= entry->until_ms) {
        want(ask, entry);
    }
    if (!entry->has_answer && may_wait && ask->waiter_count < ASK_WAITER_COUNT_MAX) {
        wait_for(ask, entry);
    }
    if (!entry->has_answer || entry->answer == NULL) {
        err = entry->has_answer ? -ENOENT : -EAGAIN;
        entry_put(ask, entry);
    } else {
        *result = entry;
        *answer = entry->answer;
    }
    pthread_mutex_unlock(&ask->lock);
    return err;
}

void ask_put(struct ask *ask, struct ask_entry *entry)
{
    if (entry != NULL) {
        pthread_mutex_lock(&ask->lock);
        entry_put(ask, entry);
        pthread_mutex_unlock(&ask->lock);
    }
}

void ask_start_again(struct ask *ask)
{
    pthread_mutex_lock(&ask->lock);
    while (ask->oldest != NULL) {
        take_out(ask, ask->oldest);
    }
    pthread_mutex_unlock(&ask->lock);
}
