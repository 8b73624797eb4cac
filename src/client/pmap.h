/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a portmapper or rpcbind (RFC 1833) where a program listens: version 2 over IPv4, versions 4
 * and 3 over IPv6, which version 2 knows nothing of.
 */
#ifndef CLIENT_PMAP_H
#define CLIENT_PMAP_H

#include "client/rpc.h"
#include "proto/pmap.h"

struct client_pmap_query {
    struct client_loop *loop;
    const struct sockaddr *address; /* of the host; its port is the portmapper's, 0: 111 */
    socklen_t address_bytes;
    bool tcp;          /* the program's transport, tried first for the question too */
    uint32_t timeo_ms; /* 0: default */
    void (*on_event)(void *owner, const struct client_event *event); /* may be NULL */
    void *owner;
};

/* *port in host order. Returns 0, -ENOENT (the portmapper does not know the program), -ECONNREFUSED
 * (there is no portmapper), -ETIMEDOUT, or another -errno. */
int client_pmap_getport(const struct client_pmap_query *query, uint32_t prog, uint32_t vers,
                        uint16_t *port) MUST_USE;

/* The same in parts, for those who do not wait: the call to make (program PMAP_PROG), and what its
 * result says. vers: the portmapper's; 0 asks as the functions above do first. */
struct client_pmap_question {
    uint32_t vers, proc;
    union {
        struct mapping mapping;
        struct rpcb rpcb;
    } args;
};
void client_pmap_ask(int family, bool tcp, uint32_t vers, uint32_t prog, uint32_t prog_vers,
                     struct client_pmap_question *question);
/* 0 and *port in host order, -ENOENT, or -EBADMSG. */
int client_pmap_answer(const struct client_pmap_question *question, const void *res,
                       uint16_t *port) MUST_USE;

/* One thing a host offers. */
struct client_pmap_entry {
    uint32_t prog;
    uint32_t vers;
    bool tcp;
    uint16_t port;
};

/* All that version 2 lists (DUMP), over UDP and TCP. The caller frees *entries. */
int client_pmap_dump(const struct client_pmap_query *query, struct client_pmap_entry **entries,
                     size_t *count) MUST_USE;

#endif
