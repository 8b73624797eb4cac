/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions whose answers take as long as DNS or a directory service does: asked on threads of
 * their own, and the answers kept for a while.
 *
 * 1. Who may wait does so for ASK_WAIT_MS at most, and only ASK_WAITER_COUNT_MAX threads at a time:
 *    the others are told to come again. So a slow name server stops nobody who is known.
 * 2. An answer past its time is still given while it is asked for anew.
 * 3. At most ASK_ENTRY_COUNT_MAX answers are kept; the oldest one makes room. At most
 *    ASK_WANTED_COUNT_MAX questions wait; who asks one more comes again.
 */
#ifndef VFS_ASK_H
#define VFS_ASK_H

#include "base/check.h"

#include <stdbool.h>

#define ASK_KEY_BYTES 16U
#define ASK_WAIT_MS 5000
#define ASK_WAITER_COUNT_MAX 16U
#define ASK_THREAD_COUNT_MAX 4U
#define ASK_ENTRY_COUNT_MAX 4096U
#define ASK_WANTED_COUNT_MAX 256U
#define ASK_KEEP_MS 600000

struct ask;
struct ask_entry;

struct ask_options {
    /* The answer, which `forget` frees; NULL: none could be had. On a thread of ask, may block. */
    void *(*find)(void *arg, const uint8_t key[ASK_KEY_BYTES]);
    void (*forget)(void *answer);
    /* Called once, when no thread needs arg any more. May be NULL. */
    void (*release)(void *arg);
    void *arg;
};

/* NULL: no memory. Starts no thread. */
struct ask *ask_open(const struct ask_options *options);
/* Does not wait for threads that ask: they end when they have their answer. NULL is fine. */
void ask_close(struct ask *ask);

/* 0, and a reference: *answer is good until ask_put. -EAGAIN: not known yet. -ENOENT: find gave
 * none. */
int ask_get(struct ask *ask, const uint8_t key[ASK_KEY_BYTES], bool may_wait,
            struct ask_entry **entry, const void **answer) MUST_USE;
/* NULL is fine. */
void ask_put(struct ask *ask, struct ask_entry *entry);
/* Answers given so far count no more, nor do those that are being asked for. */
void ask_start_again(struct ask *ask);

#endif
