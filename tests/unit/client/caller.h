/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a test: a loop, a client of a stub, and what its callbacks saw. */
#ifndef CLIENT_CALLER_H
#define CLIENT_CALLER_H

#include "client/rpc.h"
#include "stub.h"

#define CALLER_EVENT_KINDS 12

struct caller {
    struct client_loop *loop;
    struct client_rpc *rpc;
    unsigned events[CALLER_EVENT_KINDS]; /* by kind */
    uint32_t xid_first_sent;
    int64_t waits_ns[16]; /* of timeouts, in order */
    unsigned wait_count;
};

/* One call and its end. */
struct answer {
    unsigned count;
    int error;
    enum client_rpc_fault fault;
    uint32_t low, high, auth_stat;
    uint32_t transmissions;
    uint32_t word; /* the first of the results */
    uint32_t xid;
    uint8_t *data; /* READ */
    uint32_t data_bytes;
};

/* The portmapper's version 2, if options say nothing else: GETPORT takes and gives words. */
void caller_open(struct caller *caller, const struct stub *stub,
                 const struct client_rpc_options *options);
void caller_close(struct caller *caller);

/* GETPORT of program `prog`; the answer's word is the port. */
void caller_getport(struct caller *caller, uint32_t prog, struct answer *answer);
void caller_reply(void *answer, const struct client_reply *reply);

/* Turns the loop until the answer is there; fails the test after ten seconds. */
void caller_wait(struct caller *caller, const struct answer *answer);
/* Turns the loop for a while. */
void caller_turn(struct caller *caller, int for_ms);

#endif
