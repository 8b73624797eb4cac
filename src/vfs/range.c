/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks held: conflicts, and the replacing of what an owner holds of a file (rules 1 and 2).
 */
#include "vfs/range_table.h"

#include "vfs/internal.h"

#include <errno.h>
#include <stdlib.h>

/* A change of one owner's locks takes at most this many new ones: the new lock itself, and the two
 * ends of one that it is cut out of. */
#define FRESH_COUNT_MAX 3

static struct range_lock *lock_of(struct range_node *node)
{
    return node != NULL ? CONTAINER_OF(node, struct range_lock, in_file) : NULL;
}

static struct range_lock *own_of(struct range_node *node)
{
    return node != NULL ? CONTAINER_OF(node, struct range_lock, in_hold) : NULL;
}

/* ---- conflicts ---- */

static struct range_lock *other(const struct range_file *file, const struct range_owner *owner,
                                const struct range_request *request, bool exclusive)
{
    struct range_node *root = file->held[exclusive];
    struct range_node *node = range_tree_first(root, request->start, request->end);
    while (node != NULL && owner != NULL && lock_of(node)->hold->owner == owner) {
        node = range_tree_next(root, node, request->start, request->end);
    }
    return lock_of(node);
}

struct range_lock *range_conflict(const struct range_file *file, const struct range_owner *owner,
                                  const struct range_request *request)
{
    struct range_lock *exclusive = other(file, owner, request, true);
    struct range_lock *shared = request->exclusive ? other(file, owner, request, false) : NULL;
    if (exclusive == NULL || shared == NULL) {
        return exclusive != NULL ? exclusive : shared;
    }
    return shared->in_file.start < exclusive->in_file.start ? shared : exclusive;
}

/* ---- changes ---- */

static void insert(struct range_table *table, struct range_hold *hold, struct range_lock *lock,
                   const struct range_request *what)
{
    uint64_t serial = ++table->serial;
    lock->in_file = (struct range_node){.start = what->start,
                                        .end = what->end,
                                        .serial = serial,
                                        .rank = siphash(table->key, &serial, sizeof serial)};
    lock->in_hold = lock->in_file;
    lock->hold = hold;
    lock->exclusive = what->exclusive;
    range_tree_insert(&hold->file->held[what->exclusive], &lock->in_file);
    range_tree_insert(&hold->locks, &lock->in_hold);
    range_count(table, hold->owner->client, 1);
}

static void take_out(struct range_table *table, struct range_lock *lock)
{
    struct range_hold *hold = lock->hold;
    range_tree_remove(&hold->file->held[lock->exclusive], &lock->in_file);
    range_tree_remove(&hold->locks, &lock->in_hold);
    range_count(table, hold->owner->client, -1);
}

/* New locks, allocated before anything is changed. */
struct fresh {
    struct range_lock *locks[FRESH_COUNT_MAX];
    unsigned count;
};

static void fresh_free(struct fresh *fresh)
{
    while (fresh->count > 0) {
        free(fresh->locks[--fresh->count]);
    }
}

static int fresh_fill(struct fresh *fresh, unsigned count)
{
    fresh->count = 0;
    while (fresh->count < count) {
        struct range_lock *lock = malloc(sizeof *lock);
        if (lock == NULL) {
            fresh_free(fresh);
            return -ENOMEM;
        }
        fresh->locks[fresh->count++] = lock;
    }
    return 0;
}

static void put_piece(struct range_table *table, struct range_hold *hold, struct fresh *fresh,
                      bool exclusive, uint64_t start, uint64_t end)
{
    const struct range_request piece = {exclusive, start, end};
    insert(table, hold, fresh->locks[--fresh->count], &piece);
}

/* What of the hold lies in start..end is gone. What sticks out of it stays. */
static void cut(struct range_table *table, struct range_hold *hold, struct fresh *fresh,
                uint64_t start, uint64_t end)
{
    struct range_lock *lock;
    while ((lock = own_of(range_tree_first(hold->locks, start, end))) != NULL) {
        uint64_t first = lock->in_hold.start;
        uint64_t last = lock->in_hold.end;
        bool exclusive = lock->exclusive;
        take_out(table, lock);
        if (fresh->count < FRESH_COUNT_MAX) {
            fresh->locks[fresh->count++] = lock;
        } else {
            free(lock);
        }
        if (first < start) {
            put_piece(table, hold, fresh, exclusive, first, start - 1);
        }
        if (last > end) {
            put_piece(table, hold, fresh, exclusive, end + 1, last);
        }
    }
}

/* Neighbours of the same kind, and what of them overlaps, become part of what. */
static void widen(const struct range_hold *hold, struct range_request *what)
{
    uint64_t start = what->start > 0 ? what->start - 1 : 0;
    uint64_t end = what->end < RANGE_END ? what->end + 1 : RANGE_END;
    struct range_node *node = range_tree_first(hold->locks, start, end);
    for (; node != NULL; node = range_tree_next(hold->locks, node, start, end)) {
        const struct range_lock *lock = own_of(node);
        if (lock->exclusive != what->exclusive) {
            continue;
        }
        what->start = node->start < what->start ? node->start : what->start;
        what->end = node->end > what->end ? node->end : what->end;
    }
}

int range_set(struct range_table *table, struct range_file *file, struct range_owner *owner,
              const struct range_request *request)
{
    struct range_request what = *request;
    struct fresh fresh;
    /* It may take two more than it had: cut in two by one of the other kind. */
    if (!range_has_room(table, owner->client) || table->count + 1 >= table->count_max) {
        return -ENOLCK;
    }
    int err = fresh_fill(&fresh, FRESH_COUNT_MAX);
    if (err != 0) {
        return err;
    }
    struct range_hold *hold = range_hold_obtain(table, file, owner);
    if (hold == NULL) {
        fresh_free(&fresh);
        return -ENOMEM;
    }
    widen(hold, &what);
    cut(table, hold, &fresh, what.start, what.end);
    put_piece(table, hold, &fresh, what.exclusive, what.start, what.end);
    fresh_free(&fresh);
    owner->generation = ++table->serial;
    return 0;
}

int range_clear(struct range_table *table, struct range_file *file, struct range_owner *owner,
                uint64_t start, uint64_t end)
{
    struct fresh fresh = {.count = 0};
    struct range_hold *hold = range_hold_find(table, file, owner);
    if (hold == NULL) {
        return 0;
    }
    /* Only a lock that sticks out at both ends becomes two. */
    struct range_lock *lock = own_of(range_tree_first(hold->locks, start, end));
    if (lock != NULL && lock->in_hold.start < start && lock->in_hold.end > end) {
        int err = fresh_fill(&fresh, 1);
        if (err != 0) {
            return err;
        }
    }
    cut(table, hold, &fresh, start, end);
    fresh_free(&fresh);
    owner->generation = ++table->serial;
    range_hold_put(table, hold);
    return 0;
}

/* ---- gaps ---- */

/* Held without a break from `at` on, up to where? False: nobody holds `at`. */
static bool held_from(const struct range_file *file, uint64_t at, uint64_t *end)
{
    bool held = false;
    for (int exclusive = 0; exclusive <= 1; exclusive++) {
        struct range_node *root = file->held[exclusive];
        struct range_node *node = range_tree_first(root, at, at);
        for (; node != NULL; node = range_tree_next(root, node, at, at)) {
            *end = held && *end > node->end ? *end : node->end;
            held = true;
        }
    }
    return held;
}

bool range_gap(const struct range_file *file, uint64_t start, uint64_t end, uint64_t *gap_start,
               uint64_t *gap_end)
{
    uint64_t held_end;
    while (held_from(file, start, &held_end)) {
        if (held_end >= end) {
            return false;
        }
        start = held_end + 1;
    }
    *gap_start = start;
    *gap_end = end;
    for (int exclusive = 0; exclusive <= 1; exclusive++) {
        const struct range_node *node = range_tree_first(file->held[exclusive], start, *gap_end);
        if (node != NULL) {
            *gap_end = node->start - 1;
        }
    }
    return true;
}
