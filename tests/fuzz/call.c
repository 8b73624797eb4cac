/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a call as the server reads it (rpc/message.c), against the generated decoder of the
 * same RFC: they must agree on what is a call, and on every field of it.
 */
#include "fuzz.h"
#include "proto/rpc.h"
#include "rpc/message.h"

#include <string.h>

static void same_bytes(struct xdr_bytes left, struct xdr_bytes right)
{
    FUZZ_CHECK(left.size == right.size);
    FUZZ_CHECK(left.size == 0 || memcmp(left.data, right.data, left.size) == 0);
}

static bool authsys(struct xdr_bytes body, struct authsys_parms *parms)
{
    struct xdr xdr = xdr_reader(body.data, body.size);
    return authsys_parms_get(&xdr, parms);
}

static void same_cred(const struct rpc_cred *cred, const struct authsys_parms *parms)
{
    FUZZ_CHECK(cred->uid == parms->uid);
    FUZZ_CHECK(cred->gid == parms->gid);
    FUZZ_CHECK(cred->gid_count == parms->gids_count);
    FUZZ_CHECK(memcmp(cred->gids, parms->gids, sizeof(uint32_t) * parms->gids_count) == 0);
    same_bytes(cred->machinename, parms->machinename);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct xdr xdr = xdr_reader(data, size_bytes), again = xdr;
    struct rpc_call call = {0};
    uint32_t auth_stat = 0;
    enum message_verdict verdict = message_get_call(&xdr, &call, &auth_stat);
    FUZZ_CHECK(xdr_offset(&xdr) <= size_bytes);

    struct rpc_msg msg = {0};
    struct authsys_parms parms = {0};
    bool whole = rpc_msg_get(&again, &msg) && msg.body.mtype == CALL;
    const struct call_body *body = &msg.body.cbody;
    bool good_cred = whole && (body->cred.flavor == AUTH_NONE ||
                               (body->cred.flavor == AUTH_SYS && authsys(body->cred.body, &parms)));

    FUZZ_CHECK((verdict == MESSAGE_CALL) == (whole && body->rpcvers == 2 && good_cred));
    FUZZ_CHECK(!whole || (verdict == MESSAGE_RPC_MISMATCH) == (body->rpcvers != 2));
    FUZZ_CHECK(verdict != MESSAGE_NOISE || !whole);
    FUZZ_CHECK((verdict == MESSAGE_AUTH_ERROR) == (auth_stat != 0));
    if (verdict == MESSAGE_CALL) {
        FUZZ_CHECK(xdr_offset(&xdr) == xdr_offset(&again));
        FUZZ_CHECK(call.xid == msg.xid);
        FUZZ_CHECK(call.prog == body->prog);
        FUZZ_CHECK(call.vers == body->vers);
        FUZZ_CHECK(call.proc == body->proc);
        FUZZ_CHECK(call.cred.flavor == body->cred.flavor);
        same_cred(&call.cred, &parms);
    }
    return 0;
}
