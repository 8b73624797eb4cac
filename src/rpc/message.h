/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RPC messages (RFC 5531 §9): the head of a call, and every head a reply can have.
 */
#ifndef RPC_MESSAGE_H
#define RPC_MESSAGE_H

#include "rpc/server.h"

enum message_verdict {
    MESSAGE_CALL,         /* a call for us; the cursor stands at the arguments */
    MESSAGE_NOISE,        /* not a call, or too short to answer: say nothing */
    MESSAGE_RPC_MISMATCH, /* answer with the matching put function below */
    MESSAGE_AUTH_ERROR    /* auth_stat says why */
};

/* Reads the head of a call: xid, prog, vers, proc, cred. */
enum message_verdict message_get_call(struct xdr *xdr, struct rpc_call *call, uint32_t *auth_stat);

void message_put_success(struct xdr *xdr, uint32_t xid);
void message_put_accept_error(struct xdr *xdr, uint32_t xid, uint32_t accept_stat);
void message_put_prog_mismatch(struct xdr *xdr, uint32_t xid, uint32_t low, uint32_t high);
void message_put_rpc_mismatch(struct xdr *xdr, uint32_t xid);
void message_put_auth_error(struct xdr *xdr, uint32_t xid, uint32_t auth_stat);

/* Encoded size of message_put_success. */
#define MESSAGE_SUCCESS_BYTES 24U

#endif
