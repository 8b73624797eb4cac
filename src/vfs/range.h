/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-range locks as data: who holds what of which object, and who waits for it. One table for all
 * protocols. It knows no thread, no clock and no descriptor; vfs/locks.h puts it to work.
 *
 * 1. An owner is a client and an opaque name. Locks of one owner never conflict: a new one replaces
 *    what it overlaps (upgrade, downgrade, split), and neighbours of one kind are one lock.
 * 2. Exclusive locks overlap no lock of another owner, ever.
 * 3. Waiters of an object are served in order of arrival. A request that could be granted, but
 *    conflicts with a waiter that came earlier, waits behind it if it may wait at all and its owner
 *    holds nothing in the whole table: so no stream of readers starves a writer. An owner that
 *    holds something is not kept back, because that waiter may wait for it, directly or not, and a
 *    deadlock would come of it that no program has made. Requests that may not wait are judged by
 *    what is held alone, as fcntl(2) has it.
 * 4. A wait that would close a circle of waits is refused (RANGE_CIRCLE_STEPS_MAX bounds the
 *    search; a larger circle is not seen).
 * 5. Memory is bounded by RANGE_COUNT_MAX and its like. Only a split by range_clear may pass the
 *    limit, by one.
 * 6. The same calls give the same table, whatever the key is.
 */
#ifndef VFS_RANGE_H
#define VFS_RANGE_H

#include "base/check.h"
#include "vfs/range_tree.h"

#include <stdbool.h>
#include <stddef.h>

#define RANGE_COUNT_MAX 131072U       /* locks and waiters together */
#define RANGE_CLIENT_COUNT_MAX 32768U /* of one client */
#define RANGE_FILE_WAIT_COUNT_MAX 4096U
#define RANGE_CIRCLE_STEPS_MAX 4096U
#define RANGE_END UINT64_MAX /* an end there: to the end of the file, however far it grows */

#define RANGE_HASH_KEY_BYTES 16

struct range_request {
    bool exclusive;
    uint64_t start;
    uint64_t end; /* inclusive, not below start */
};

struct range_bytes {
    const void *data;
    size_t size;
};

struct range_link {
    struct range_link *next;
    uint64_t hash;
};

struct range_list {
    struct range_list *next, *prev;
};

#define RANGE_BUCKET_COUNT 16384U
struct range_table {
    uint8_t key[RANGE_HASH_KEY_BYTES];
    uint32_t count_max, client_count_max; /* from the constants; tests lower them */
    uint32_t count;                       /* locks and waiters */
    uint32_t wait_count;                  /* waiters of all files */
    uint32_t file_count, client_count;
    uint64_t serial; /* of the last lock or waiter */
    uint64_t search; /* of the last search for a circle */
    struct range_list clients;
    struct range_link *files[RANGE_BUCKET_COUNT];
    struct range_link *owners[RANGE_BUCKET_COUNT];
    struct range_link *holds[RANGE_BUCKET_COUNT];
    struct range_link *client_links[RANGE_BUCKET_COUNT];
};

/* One whose locks come and go together: a machine, an NFSv4 client. */
struct range_client {
    struct range_link link;
    struct range_list in_table;
    struct range_list owners;
    uint32_t count; /* locks and waiters */
    size_t size;
    uint8_t bytes[];
};

struct range_owner {
    struct range_link link;
    struct range_list in_client;
    struct range_client *client;
    struct range_list holds;
    struct range_list waits;
    uint64_t born;       /* later than what table.serial was before */
    uint64_t generation; /* another one, never seen before, after every change of what it holds */
    uint64_t searched;
    struct range_owner *search_next;
    uint32_t state; /* the caller's */
    size_t size;
    uint8_t bytes[];
};

struct range_file {
    struct range_link link;
    struct range_node *held[2]; /* shared, exclusive */
    struct range_list holds;
    struct range_list waits; /* in order of arrival */
    uint32_t wait_count;
    void *arg; /* the caller's */
    size_t size;
    uint8_t bytes[];
};

/* What one owner holds of one file. */
struct range_hold {
    struct range_link link;
    struct range_list in_owner, in_file;
    struct range_owner *owner;
    struct range_file *file;
    struct range_node *locks;
};

struct range_lock {
    struct range_node in_file;
    struct range_node in_hold;
    struct range_hold *hold;
    bool exclusive;
};

struct range_wait {
    struct range_list in_file, in_owner;
    struct range_file *file;
    struct range_owner *owner;
    struct range_request request;
    uint64_t serial;
    void *arg; /* the caller's */
};

#define RANGE_OF(list, type, member) CONTAINER_OF(list, struct type, member)

/* A key from a random source, where strangers choose owners and ranges. NULL: no memory. */
struct range_table *range_table_new(const uint8_t key[RANGE_HASH_KEY_BYTES]);
/* And everything in it. */
void range_table_free(struct range_table *table);

/* find: NULL if there is none; obtain: NULL if there is no memory. A file or an owner in which
 * nothing is left goes with *_put, which is to be called after anything that may have emptied it;
 * it returns whether it went. */
struct range_file *range_file_find(const struct range_table *table, struct range_bytes key);
struct range_file *range_file_obtain(struct range_table *table, struct range_bytes key);
bool range_file_put(struct range_table *table, struct range_file *file);

struct range_client *range_client_find(const struct range_table *table, struct range_bytes client);
struct range_owner *range_owner_find(const struct range_table *table, struct range_bytes client,
                                     struct range_bytes owner);
struct range_owner *range_owner_obtain(struct range_table *table, struct range_bytes client,
                                       struct range_bytes owner);
bool range_owner_put(struct range_table *table, struct range_owner *owner);

/* A lock of another owner that the request conflicts with, the first by its start; NULL: none.
 * owner NULL: of any. */
struct range_lock *range_conflict(const struct range_file *file, const struct range_owner *owner,
                                  const struct range_request *request);

/* The owner holds what it asks for; there must be no conflict. -ENOLCK: a limit, -ENOMEM; nothing
 * has changed then. */
int range_set(struct range_table *table, struct range_file *file, struct range_owner *owner,
              const struct range_request *request) MUST_USE;
/* The owner holds nothing of start..end. -ENOMEM: nothing has changed. */
int range_clear(struct range_table *table, struct range_file *file, struct range_owner *owner,
                uint64_t start, uint64_t end) MUST_USE;

/* What one owner holds of one file; NULL: nothing. */
struct range_hold *range_hold_find(const struct range_table *table, const struct range_file *file,
                                   const struct range_owner *owner);

/* The first part of start..end that nobody holds. False: there is none. */
bool range_gap(const struct range_file *file, uint64_t start, uint64_t end, uint64_t *gap_start,
               uint64_t *gap_end);

/* ---- waiters ---- */

/* The owner's waiter for just this; NULL: there is none. */
struct range_wait *range_wait_find(const struct range_file *file, const struct range_owner *owner,
                                   const struct range_request *request);
/* At the end of the line. NULL: a limit, or no memory. */
struct range_wait *range_wait_add(struct range_table *table, struct range_file *file,
                                  struct range_owner *owner, const struct range_request *request,
                                  void *arg);
void range_wait_remove(struct range_table *table, struct range_wait *wait);
/* In order of arrival, from NULL to NULL. */
struct range_wait *range_wait_next(const struct range_file *file, const struct range_wait *wait);

/* Rule 3: whether a request of this owner, which conflicts with nothing, has to wait all the same.
 * before: only for those that came before this waiter; NULL: for all. */
bool range_must_queue(const struct range_file *file, const struct range_owner *owner,
                      const struct range_request *request, const struct range_wait *before);
/* Rule 4. */
bool range_makes_circle(struct range_table *table, const struct range_file *file,
                        const struct range_owner *owner, const struct range_request *request);

#endif
