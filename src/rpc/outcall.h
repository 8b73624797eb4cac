/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a server makes to its clients, as an interface: procedures ask for them, somebody else
 * (callback/sender.h) makes them, on a thread of its own. Nobody waits.
 */
#ifndef RPC_OUTCALL_H
#define RPC_OUTCALL_H

#include "base/check.h"

#include <stdbool.h>
#include <sys/socket.h>

struct proto_procedure;

/* How a call ended. Valid until the callback returns. */
struct rpc_outcall_end {
    int error;              /* 0: the host has answered; -ETIMEDOUT: it did not, in give_up_ms */
    const void *res;        /* the generated struct; NULL: there is none */
    uint32_t transmissions; /* how often the call was sent, altogether */
};

struct rpc_outcall {
    struct sockaddr_storage to;   /* port 0: where its portmapper says */
    struct sockaddr_storage from; /* the address to leave from, without a port; AF_UNSPEC: any */
    bool is_tcp;
    uint32_t prog, vers, proc;
    const struct proto_procedure *procedure; /* NULL: as prog, vers and proc are described */
    const void *args;                        /* the generated struct; kept until `ended` */
    /* Calls are tried until the host answers, less and less often, */
    uint32_t give_up_ms;         /* but not for longer than this; 0: for ever, */
    bool once;                   /* only one time, and it is no failure if nobody answers, */
    bool (*wanted)(void *owner); /* and only while this says so (NULL: always) */
    /* Called once. */
    void (*ended)(void *owner, const struct rpc_outcall_end *end);
    void *owner;
};

struct rpc_outcaller {
    /* Copies *call. Does not block; any thread. -ENOMEM, -EAGAIN: too much is under way; `ended` is
     * not called then. */
    int (*submit)(void *arg, const struct rpc_outcall *call);
    void *arg;
};

#endif
