/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are waited for. While one waits the loop turns, so that everything else which uses the
 * loop goes on. Not from within a callback.
 */
#ifndef CLIENT_WAIT_H
#define CLIENT_WAIT_H

#include "client/rpc.h"

/* What a call gave, kept. Starts as {0}; used for any number of calls, each replacing the last. */
struct client_answer {
    int error;
    enum client_rpc_fault fault;
    uint32_t low, high;               /* of a mismatch */
    char text[CLIENT_TEXT_BYTES_MAX]; /* of an error */
    const void *res;                  /* the generated struct, NULL if there is none */
    struct xdr_bytes results;         /* what it points into */
    void *memory;
    size_t memory_bytes;
    bool done;
};

/* Returns answer->error. */
int client_wait(struct client_loop *loop, struct client_rpc *rpc, uint32_t proc, const void *args,
                struct client_answer *answer) MUST_USE;

/* The callback and the waiting apart, to have several under way. */
int client_wait_begin(struct client_rpc *rpc, uint32_t proc, const void *args,
                      struct client_answer *answer) MUST_USE;
int client_wait_end(struct client_loop *loop, struct client_answer *answer) MUST_USE;

void client_answer_free(struct client_answer *answer);

/* Lets time pass. */
void client_wait_ms(struct client_loop *loop, uint32_t ms);

#endif
