/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NFS_ACL, versions 2 and 3: spec/nfsacl.x. The procedures are to vfs what those of nfs3.c are, and
 * what is said there and in nfs2.c of statuses and attributes holds here.
 *
 * A list that the mask of SETACL does not name stays as it is. (Linux' server takes a default list
 * away then. Its client, and Solaris', always name both for directories.)
 */
#include "server/nfsacl.h"

#include "server/access3.h"
#include "server/call.h"
#include "server/nfs.h"
#include "server/nfs2.h"
#include "server/nfs2_value.h"
#include "server/nfs3_value.h"
#include "server/nfsacl_value.h"
#include "server/status.h"

#include <errno.h>

/* Encoded sizes: RFC 1094 §2.3.5, RFC 1813 §2.6, and both lists at their longest. */
#define FATTR_BYTES 68U
#define POST_OP_ATTR_BYTES (4U + 84U)
#define SECATTR_BYTES (4U + 2U * (4U + 4U + NFS_ACL_MAX_ENTRIES * 12U))

static void nfsacl_null(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(nfsacl_null, rpc_void, rpc_void)

/* What both versions' GETACL do. */
static int get_lists(struct rpc_call *call, struct vfs_call *caller, struct vfs_node *object,
                     uint32_t mask, struct secattr *to)
{
    struct vfs_acl *access = rpc_call_memory(call, sizeof *access);
    struct vfs_acl *initial = rpc_call_memory(call, sizeof *initial);

    int err = nfsacl_check_mask(mask);
    if (err == 0) {
        err = vfs_getacl(caller, object, access, initial);
    }
    return err == 0 ? nfsacl_secattr(mask, &object->attr, access, initial, to) : err;
}

/* And SETACL. */
static int set_lists(struct rpc_call *call, struct vfs_call *caller, struct vfs_node *object,
                     const struct secattr *from)
{
    struct vfs_acl *access = NULL;
    struct vfs_acl *initial = NULL;

    int err = nfsacl_check_mask(from->mask);
    if (err == 0 && (from->mask & NA_ACL) != 0) {
        access = rpc_call_memory(call, sizeof *access);
        err = nfsacl_list(from->aclent, from->aclent_count, from->aclcnt, access);
    }
    if (err == 0 && (from->mask & NA_DFACL) != 0) {
        initial = rpc_call_memory(call, sizeof *initial);
        err = nfsacl_list(from->dfaclent, from->dfaclent_count, from->dfaclcnt, initial);
    }
    return err == 0 ? vfs_setacl(caller, object, access, initial) : err;
}

/* ---- version 2 ---- */

static void nfsacl2_getacl(struct rpc_call *call, const struct GETACL2args *args,
                           struct GETACL2res *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->fh), &object);
    if (err == 0) {
        err = get_lists(call, &caller, &object, args->mask, &res->resok.acl);
    }
    if (err == 0) {
        err = nfs2_get_fattr(&caller, &object, &res->resok.attr);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&object);
}
RPC_THUNK(nfsacl2_getacl, GETACL2args, GETACL2res)

static void nfsacl2_setacl(struct rpc_call *call, const struct SETACL2args *args,
                           struct attrstat *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->fh), &object);
    if (err == 0) {
        err = set_lists(call, &caller, &object, &args->acl);
    }
    if (err == 0) {
        err = nfs2_get_fattr(&caller, &object, &res->attributes);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&object);
}
RPC_THUNK(nfsacl2_setacl, SETACL2args, attrstat)

/* The procedure of NFS itself. */
RPC_THUNK(nfs2_getattr, fhandle, attrstat)

static void nfsacl2_access(struct rpc_call *call, const struct ACCESS2args *args,
                           struct ACCESS2res *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};
    uint32_t granted = 0;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->fh), &object);
    if (err == 0) {
        err = vfs_access(&caller, &object, access3_wanted(args->access), &granted);
    }
    if (err == 0) {
        err = nfs2_get_fattr(&caller, &object, &res->resok.attr);
        res->resok.access = access3_granted(args->access, object.attr.type, granted);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&object);
}
RPC_THUNK(nfsacl2_access, ACCESS2args, ACCESS2res)

/* ---- version 3 ---- */

static void nfsacl3_getacl(struct rpc_call *call, const struct GETACL3args *args,
                           struct GETACL3res *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->fh.data), &object);
    if (err == 0) {
        err = get_lists(call, &caller, &object, args->mask, &res->resok.acl);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.attr = nfs3_post_op_attr(&caller, &object);
    } else {
        res->resfail.attr = nfs3_post_op_attr(&caller, &object);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
}
RPC_THUNK(nfsacl3_getacl, GETACL3args, GETACL3res)

static void nfsacl3_setacl(struct rpc_call *call, const struct SETACL3args *args,
                           struct SETACL3res *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->fh.data), &object);
    if (err == 0) {
        err = set_lists(call, &caller, &object, &args->acl);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.attr = nfs3_post_op_attr(&caller, &object);
    } else {
        res->resfail.attr = nfs3_post_op_attr(&caller, &object);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
}
RPC_THUNK(nfsacl3_setacl, SETACL3args, SETACL3res)

/* ---- the tables ---- */

/* A change that could not be made durable. Every result begins with its status. */
static void nfsacl2_fail(void *res, int error)
{
    *(enum nfsstat *)res = nfs2_status(error);
}

static void nfsacl3_fail(void *res, int error)
{
    *(enum nfsstat3 *)res = nfs3_status(error);
}

#define ROW2(name, function, ARGS, RES, res_bytes, is_cached)                                      \
    [ACLPROC2_##name] =                                                                            \
        RPC_ROW("ACLPROC2_" #name, function, ARGS, RES, .fail = nfsacl2_fail,                      \
                .reply_bytes_max = 4 + (res_bytes), .cached = (is_cached))
#define ROW3(name, function, ARGS, RES, res_bytes, is_cached)                                      \
    [ACLPROC3_##name] =                                                                            \
        RPC_ROW("ACLPROC3_" #name, function, ARGS, RES, .fail = nfsacl3_fail,                      \
                .reply_bytes_max = 4 + (res_bytes), .cached = (is_cached))

static const struct rpc_procedure nfsacl2_procedures[] = {
    [ACLPROC2_NULL] =
        RPC_ROW("ACLPROC2_NULL", nfsacl_null, rpc_void, rpc_void, .reply_bytes_max = 4),
    ROW2(GETACL, nfsacl2_getacl, GETACL2args, GETACL2res, FATTR_BYTES + SECATTR_BYTES, false),
    ROW2(SETACL, nfsacl2_setacl, SETACL2args, attrstat, FATTR_BYTES, true),
    ROW2(GETATTR, nfs2_getattr, fhandle, attrstat, FATTR_BYTES, false),
    ROW2(ACCESS, nfsacl2_access, ACCESS2args, ACCESS2res, FATTR_BYTES + 4, false),
};

static const struct rpc_procedure nfsacl3_procedures[] = {
    [ACLPROC3_NULL] =
        RPC_ROW("ACLPROC3_NULL", nfsacl_null, rpc_void, rpc_void, .reply_bytes_max = 4),
    ROW3(GETACL, nfsacl3_getacl, GETACL3args, GETACL3res, POST_OP_ATTR_BYTES + SECATTR_BYTES,
         false),
    ROW3(SETACL, nfsacl3_setacl, SETACL3args, SETACL3res, POST_OP_ATTR_BYTES, true),
};

static const struct rpc_version nfsacl_versions[] = {
    {NFS_ACL_V2, COUNT_OF(nfsacl2_procedures), nfsacl2_procedures},
    {NFS_ACL_V3, COUNT_OF(nfsacl3_procedures), nfsacl3_procedures},
};

void nfsacl_program_init(struct rpc_program *program, struct nfs_service *service)
{
    *program = (struct rpc_program){.prog = NFS_ACL_PROGRAM,
                                    .name = "nfsacl",
                                    .version_count = COUNT_OF(nfsacl_versions),
                                    .versions = nfsacl_versions,
                                    .service = service};
}
