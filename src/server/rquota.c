/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RQUOTA, versions 1 and 2: spec/rquota.x.
 *
 * As rpc.rquotad(8) of Linux answers:
 *
 * 1. Users are told of themselves and of the groups they say they are in; root, by AUTH_SYS, of
 *    everybody, whether the export squashes root or not. Ids are the caller's, nobody is squashed.
 * 2. Callers come from any port: quota(1) is run by users. `secure` is for those who change files.
 * 3. Nothing is set: Q_EPERM.
 * 4. Counts that do not fit 32 bits are told in larger blocks.
 *
 * The path is one of the server. It must be in an export that is for the client.
 */
#include "server/rquota.h"

#include "proto/rquota.h"
#include "server/call.h"
#include "server/nfs.h"

#include <errno.h>
#include <time.h>

#define AUTH_SYS_FLAVOR 1U /* RFC 5531 §8.2 */
#define BLOCK_BYTES_MIN 1024U
#define BLOCK_BYTES_MAX (1U << 30) /* rq_bsize is an int */
#define RQUOTA_BYTES (10U * 4U)

static void rquota_null(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(rquota_null, rpc_void, rpc_void)

static bool may_ask(const struct rpc_cred *cred, enum vfs_quota_kind kind, uint32_t id)
{
    if (cred->flavor != AUTH_SYS_FLAVOR) {
        return false;
    }
    if (cred->uid == 0 || (kind == VFS_QUOTA_USER && cred->uid == id)) {
        return true;
    }
    bool is_member = kind == VFS_QUOTA_GROUP && cred->gid == id;
    for (uint32_t i = 0; i < cred->gid_count && kind == VFS_QUOTA_GROUP; i++) {
        is_member = is_member || cred->gids[i] == id;
    }
    return is_member;
}

/* ---- the answer ---- */

static uint32_t clamp(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static uint32_t blocks_of(uint64_t bytes, uint32_t block_bytes)
{
    return clamp(bytes / block_bytes + (bytes % block_bytes > 0));
}

static uint32_t seconds_left(time_t until)
{
    time_t now = time(NULL);
    return until > now ? clamp((uint64_t)(until - now)) : 0;
}

static struct rquota rquota_of(const struct vfs_quota *quota)
{
    uint64_t most = quota->hard_bytes > quota->soft_bytes ? quota->hard_bytes : quota->soft_bytes;
    uint32_t block_bytes = BLOCK_BYTES_MIN;

    most = quota->used_bytes > most ? quota->used_bytes : most;
    while (most / block_bytes >= UINT32_MAX && block_bytes < BLOCK_BYTES_MAX) {
        block_bytes *= 2;
    }
    return (struct rquota){
        .rq_bsize = (int32_t)block_bytes,
        .rq_active = quota->is_enforced,
        .rq_bhardlimit = blocks_of(quota->hard_bytes, block_bytes),
        .rq_bsoftlimit = blocks_of(quota->soft_bytes, block_bytes),
        .rq_curblocks = blocks_of(quota->used_bytes, block_bytes),
        .rq_fhardlimit = clamp(quota->hard_files),
        .rq_fsoftlimit = clamp(quota->soft_files),
        .rq_curfiles = clamp(quota->used_files),
        .rq_btimeleft = seconds_left(quota->bytes_until),
        .rq_ftimeleft = seconds_left(quota->files_until),
    };
}

static enum gqr_status status_of(int err)
{
    switch (err) {
    case 0:
        return Q_OK;
    case -EACCES:
    case -EPERM:
        return Q_EPERM;
    default:
        return Q_NOQUOTA;
    }
}

static void get(struct rpc_call *call, struct xdr_bytes path, int32_t type, uint32_t id,
                struct getquota_rslt *res)
{
    enum vfs_quota_kind kind = type == RQUOTA_GRPQUOTA ? VFS_QUOTA_GROUP : VFS_QUOTA_USER;
    bool active_only = call->proc == RQUOTAPROC_GETACTIVEQUOTA;
    struct vfs_call caller;
    struct vfs_quota quota = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = type == RQUOTA_GRPQUOTA || type == RQUOTA_USRQUOTA ? 0 : -ENODATA;
    if (err == 0 && !may_ask(&call->cred, kind, id)) {
        err = -EPERM;
    }
    if (err == 0) {
        err = vfs_quota(&caller, call_bytes(path), kind, id, &quota);
    }
    if (err == 0 && active_only && !quota.is_enforced) {
        err = -ENODATA;
    }
    call->drop = err == -EAGAIN; /* who the client is will be known when it asks again */
    res->status = status_of(err);
    if (err == 0) {
        res->gqr_rquota = rquota_of(&quota);
    }
    call_end(call, &caller, err != 0);
}

static void rquota1_getquota(struct rpc_call *call, const struct getquota_args *args,
                             struct getquota_rslt *res)
{
    get(call, args->gqa_pathp, RQUOTA_USRQUOTA, (uint32_t)args->gqa_uid, res);
}
RPC_THUNK(rquota1_getquota, getquota_args, getquota_rslt)

static void rquota1_setquota(struct rpc_call *call, const struct setquota_args *args,
                             struct setquota_rslt *res)
{
    (void)call;
    (void)args;
    res->status = Q_EPERM;
}
RPC_THUNK(rquota1_setquota, setquota_args, setquota_rslt)

static void rquota2_getquota(struct rpc_call *call, const struct ext_getquota_args *args,
                             struct getquota_rslt *res)
{
    get(call, args->gqa_pathp, args->gqa_type, (uint32_t)args->gqa_id, res);
}
RPC_THUNK(rquota2_getquota, ext_getquota_args, getquota_rslt)

static void rquota2_setquota(struct rpc_call *call, const struct ext_setquota_args *args,
                             struct setquota_rslt *res)
{
    (void)call;
    (void)args;
    res->status = Q_EPERM;
}
RPC_THUNK(rquota2_setquota, ext_setquota_args, setquota_rslt)

#define ROW(name, function, ARGS, RES)                                                             \
    [RQUOTAPROC_##name] = RPC_ROW("RQUOTAPROC_" #name, function, ARGS, RES,                        \
                                  .reply_bytes_max = 4 + RQUOTA_BYTES)

static const struct rpc_procedure rquota1_procedures[] = {
    ROW(NULL, rquota_null, rpc_void, rpc_void),
    ROW(GETQUOTA, rquota1_getquota, getquota_args, getquota_rslt),
    ROW(GETACTIVEQUOTA, rquota1_getquota, getquota_args, getquota_rslt),
    ROW(SETQUOTA, rquota1_setquota, setquota_args, setquota_rslt),
    ROW(SETACTIVEQUOTA, rquota1_setquota, setquota_args, setquota_rslt),
};

static const struct rpc_procedure rquota2_procedures[] = {
    ROW(NULL, rquota_null, rpc_void, rpc_void),
    ROW(GETQUOTA, rquota2_getquota, ext_getquota_args, getquota_rslt),
    ROW(GETACTIVEQUOTA, rquota2_getquota, ext_getquota_args, getquota_rslt),
    ROW(SETQUOTA, rquota2_setquota, ext_setquota_args, setquota_rslt),
    ROW(SETACTIVEQUOTA, rquota2_setquota, ext_setquota_args, setquota_rslt),
};

static const struct rpc_version rquota_versions[] = {
    {RQUOTAVERS, COUNT_OF(rquota1_procedures), rquota1_procedures},
    {EXT_RQUOTAVERS, COUNT_OF(rquota2_procedures), rquota2_procedures},
};

void rquota_program_init(struct rpc_program *program, struct nfs_service *service)
{
    *program = (struct rpc_program){.prog = RQUOTAPROG,
                                    .name = "rquota",
                                    .version_count = COUNT_OF(rquota_versions),
                                    .versions = rquota_versions,
                                    .service = service};
}
