/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/message.h"

#include "proto/rpc.h"

/* RFC 5531 Appendix A. The body must hold what its fields say; bytes behind them are let be, as
 * Linux does. */
static bool get_authsys(struct xdr_bytes body, struct rpc_cred *cred)
{
    struct xdr xdr = xdr_reader(body.data, body.size);
    struct authsys_parms parms;
    if (!authsys_parms_get(&xdr, &parms)) {
        return false;
    }
    cred->machinename = parms.machinename;
    cred->uid = parms.uid;
    cred->gid = parms.gid;
    cred->gid_count = parms.gids_count;
    memcpy(cred->gids, parms.gids, parms.gids_count * sizeof parms.gids[0]);
    return true;
}

static enum message_verdict get_auth(struct xdr *xdr, struct rpc_cred *cred, uint32_t *auth_stat)
{
    struct xdr_bytes body, verf;
    uint32_t verf_flavor;

    (void)xdr_get_u32(xdr, &cred->flavor);
    if (!xdr_get_bytes(xdr, &body, RPC_AUTH_BODY_MAX)) {
        *auth_stat = AUTH_BADCRED;
        return MESSAGE_AUTH_ERROR;
    }
    (void)xdr_get_u32(xdr, &verf_flavor);
    if (!xdr_get_bytes(xdr, &verf, RPC_AUTH_BODY_MAX)) {
        *auth_stat = AUTH_BADVERF;
        return MESSAGE_AUTH_ERROR;
    }
    if (cred->flavor == AUTH_NONE) {
        return MESSAGE_CALL;
    }
    if (cred->flavor == AUTH_SYS && get_authsys(body, cred)) {
        return MESSAGE_CALL;
    }
    *auth_stat = AUTH_BADCRED;
    return MESSAGE_AUTH_ERROR;
}

enum message_verdict message_get_call(struct xdr *xdr, struct rpc_call *call, uint32_t *auth_stat)
{
    uint32_t mtype, rpcvers;

    (void)xdr_get_u32(xdr, &call->xid);
    (void)xdr_get_u32(xdr, &mtype);
    (void)xdr_get_u32(xdr, &rpcvers);
    if (!xdr_ok(xdr) || mtype != CALL) {
        return MESSAGE_NOISE;
    }
    if (rpcvers != RPC_VERSION) {
        return MESSAGE_RPC_MISMATCH;
    }
    (void)xdr_get_u32(xdr, &call->prog);
    (void)xdr_get_u32(xdr, &call->vers);
    if (!xdr_get_u32(xdr, &call->proc)) {
        return MESSAGE_NOISE;
    }
    return get_auth(xdr, &call->cred, auth_stat);
}

static void put_accepted(struct xdr *xdr, uint32_t xid, uint32_t accept_stat)
{
    (void)xdr_put_u32(xdr, xid);
    (void)xdr_put_u32(xdr, REPLY);
    (void)xdr_put_u32(xdr, MSG_ACCEPTED);
    (void)xdr_put_u32(xdr, AUTH_NONE);
    (void)xdr_put_u32(xdr, 0);
    (void)xdr_put_u32(xdr, accept_stat);
}

void message_put_success(struct xdr *xdr, uint32_t xid)
{
    put_accepted(xdr, xid, SUCCESS);
}

void message_put_accept_error(struct xdr *xdr, uint32_t xid, uint32_t accept_stat)
{
    put_accepted(xdr, xid, accept_stat);
}

void message_put_prog_mismatch(struct xdr *xdr, uint32_t xid, uint32_t low, uint32_t high)
{
    put_accepted(xdr, xid, PROG_MISMATCH);
    (void)xdr_put_u32(xdr, low);
    (void)xdr_put_u32(xdr, high);
}

static void put_denied(struct xdr *xdr, uint32_t xid, uint32_t reject_stat)
{
    (void)xdr_put_u32(xdr, xid);
    (void)xdr_put_u32(xdr, REPLY);
    (void)xdr_put_u32(xdr, MSG_DENIED);
    (void)xdr_put_u32(xdr, reject_stat);
}

void message_put_rpc_mismatch(struct xdr *xdr, uint32_t xid)
{
    put_denied(xdr, xid, RPC_MISMATCH);
    (void)xdr_put_u32(xdr, RPC_VERSION);
    (void)xdr_put_u32(xdr, RPC_VERSION);
}

void message_put_auth_error(struct xdr *xdr, uint32_t xid, uint32_t auth_stat)
{
    put_denied(xdr, xid, AUTH_ERROR);
    (void)xdr_put_u32(xdr, auth_stat);
}
