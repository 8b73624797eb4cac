/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NFS version 3, RFC 1813: its procedures in the order of §3.3, one table row each at the end.
 *
 * A procedure finds its objects, asks vfs for one thing, and says what came of it. It judges
 * nothing that vfs can judge (names, rights, types), and it does not wait: call->lsn is what its
 * reply depends on.
 *
 * 1. Every result begins with its status (nfs3_fail leans on it).
 * 2. Attributes go with every reply for which the object was found, failures too (§3.1).
 * 3. A write verifier is read before the data is written and after data was committed, so that data
 *    lost in between never hides behind the newer verifier (§4.8).
 */
#include "server/nfs3.h"

#include "server/access3.h"
#include "server/call.h"
#include "server/nfs.h"
#include "server/nfs3_value.h"
#include "server/setattr.h"
#include "server/status.h"

#include <errno.h>

#define TRANSFER_BYTES_MAX (1024U * 1024)   /* rtmax and wtmax over TCP */
#define TRANSFER_UDP_BYTES_MAX (32U * 1024) /* and over UDP: 23 Ethernet fragments */
#define TRANSFER_UDP_BYTES_PREF (8U * 1024) /* six fragments; one lost costs the whole transfer */
#define READ_COPY_BYTES_MAX (16U * 1024)    /* more is sent from where vfs has it */
#define LISTING_BYTES_MAX (128U * 1024)     /* of one READDIR or READDIRPLUS reply */
#define LISTING_BYTES_PREF (64U * 1024)
#define ENTRYPLUS_EXPANSION 5U /* with attributes and handle an entry is so much larger */
#define LINK_TEXT_BYTES_MAX 4096U /* PATH_MAX: no longer target exists */

/* Encoded sizes, RFC 1813 §2.5 and §2.6. */
#define POST_OP_ATTR_BYTES (4U + 84U)
#define POST_OP_FH3_BYTES (4U + 4U + NFS3_FHSIZE)
#define WCC_DATA_BYTES (4U + 24U + POST_OP_ATTR_BYTES)
#define READ3RESOK_HEAD_BYTES (POST_OP_ATTR_BYTES + 4U + 4U + 4U)
/* dir_attributes, cookieverf, the end of the list, eof */
#define LISTING_FIXED_BYTES (POST_OP_ATTR_BYTES + NFS3_COOKIEVERFSIZE + 4U + 4U)

/* §3.3.0. */
static void nfs3_null(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(nfs3_null, rpc_void, rpc_void)

/* §3.3.1. */
static void nfs3_getattr(struct rpc_call *call, const struct GETATTR3args *args,
                         struct GETATTR3res *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->object.data), &object);
    if (err == 0) {
        err = vfs_getattr(&caller, &object);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.obj_attributes = nfs3_fattr(&object.attr);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
}
RPC_THUNK(nfs3_getattr, GETATTR3args, GETATTR3res)

/* §3.3.2. NFS3ERR_NOT_SYNC: the guard is not the object's ctime; nothing is changed. */
static void nfs3_setattr(struct rpc_call *call, const struct SETATTR3args *args,
                         struct SETATTR3res *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};
    struct vfs_sattr sattr;
    const struct nfstime3 *ctime = &args->guard.obj_ctime;
    struct timespec guard = {0};

    if (args->guard.check) {
        guard = (struct timespec){.tv_sec = ctime->seconds, .tv_nsec = ctime->nseconds};
    }
    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->object.data), &object);
    if (err == 0) {
        err = nfs3_sattr(&args->new_attributes, &sattr);
    }
    if (err == 0) {
        err = setattr_apply(&caller, &object, &sattr, args->guard.check ? &guard : NULL);
    }
    bool guarded = err == -EUCLEAN && args->guard.check;
    res->status = guarded ? NFS3ERR_NOT_SYNC : nfs3_status(err);
    if (err == 0) {
        res->resok.obj_wcc = nfs3_wcc(&caller, &object);
    } else {
        res->resfail.obj_wcc = nfs3_wcc(&caller, &object);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
}
RPC_THUNK(nfs3_setattr, SETATTR3args, SETATTR3res)

/* §3.3.3. A symbolic link is returned, never followed. */
static void nfs3_lookup(struct rpc_call *call, const struct LOOKUP3args *args,
                        struct LOOKUP3res *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->what.dir.data), &dir);
    if (err == 0) {
        err = vfs_lookup(&caller, &dir, call_bytes(args->what.name), &object);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.object = nfs3_fh(call, &object);
        res->resok.obj_attributes = nfs3_post_op_attr(&caller, &object);
        res->resok.dir_attributes = nfs3_post_op_attr(&caller, &dir);
    } else {
        res->resfail.dir_attributes = nfs3_post_op_attr(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
    vfs_put(&dir);
}
RPC_THUNK(nfs3_lookup, LOOKUP3args, LOOKUP3res)

/* §3.3.4. */
static void nfs3_access(struct rpc_call *call, const struct ACCESS3args *args,
                        struct ACCESS3res *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};
    uint32_t granted = 0;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->object.data), &object);
    if (err == 0) {
        err = vfs_access(&caller, &object, access3_wanted(args->access), &granted);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.obj_attributes = nfs3_post_op_attr(&caller, &object);
        res->resok.access = access3_granted(args->access, object.attr.type, granted);
    } else {
        res->resfail.obj_attributes = nfs3_post_op_attr(&caller, &object);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
}
RPC_THUNK(nfs3_access, ACCESS3args, ACCESS3res)

/* §3.3.5. */
static void nfs3_readlink(struct rpc_call *call, const struct READLINK3args *args,
                          struct READLINK3res *res)
{
    struct vfs_call caller;
    struct vfs_node link = {0};
    uint8_t *text = rpc_call_memory(call, LINK_TEXT_BYTES_MAX);
    uint32_t text_bytes = 0;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->symlink.data), &link);
    if (err == 0) {
        err = vfs_readlink(&caller, &link, text, LINK_TEXT_BYTES_MAX, &text_bytes);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.symlink_attributes = nfs3_post_op_attr(&caller, &link);
        res->resok.data = (struct xdr_bytes){.data = text, .size = text_bytes};
    } else {
        res->resfail.symlink_attributes = nfs3_post_op_attr(&caller, &link);
    }
    call_end(call, &caller, res->status);
    vfs_put(&link);
}
RPC_THUNK(nfs3_readlink, READLINK3args, READLINK3res)

/*
 * §3.3.6. count is what was read and the size of data, fewer than asked only at the end of the
 * file, or where a datagram holds no more. eof: the read reached the end, or began behind it.
 */
static void nfs3_read(struct rpc_call *call, const struct READ3args *args, struct READ3res *res)
{
    struct vfs_call caller;
    struct vfs_node file = {0};
    struct vfs_data data = {0};
    uint32_t count_max = call->peer->is_tcp
                             ? TRANSFER_BYTES_MAX
                             : (CALL_UDP_RESULTS_BYTES_MAX - 4 - READ3RESOK_HEAD_BYTES) & ~3U;
    uint32_t count = args->count < count_max ? args->count : count_max;
    uint32_t copy_bytes = count < READ_COPY_BYTES_MAX ? count : READ_COPY_BYTES_MAX;
    uint8_t *buffer = rpc_call_memory(call, copy_bytes);

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->file.data), &file);
    if (err == 0) {
        err = vfs_read(&caller, &file, args->offset, count, buffer, copy_bytes, &data);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.file_attributes = nfs3_post_op_attr(&caller, &file);
        res->resok.count = data.size;
        res->resok.eof = data.eof;
        res->resok.data = call_data(call, &data);
    } else {
        res->resfail.file_attributes = nfs3_post_op_attr(&caller, &file);
    }
    call_end(call, &caller, res->status);
    vfs_put(&file);
}
RPC_THUNK(nfs3_read, READ3args, READ3res)

static enum vfs_stable vfs_stable_of(enum stable_how stable)
{
    switch (stable) {
    case UNSTABLE:
        return VFS_UNSTABLE;
    case DATA_SYNC:
        return VFS_DATA_SYNC;
    case FILE_SYNC:
        break;
    }
    return VFS_FILE_SYNC;
}

static enum stable_how stable_how_of(enum vfs_stable committed)
{
    switch (committed) {
    case VFS_UNSTABLE:
        return UNSTABLE;
    case VFS_DATA_SYNC:
        return DATA_SYNC;
    case VFS_FILE_SYNC:
        break;
    }
    return FILE_SYNC;
}

/* §3.3.7. A count that is not the size of the data is NFS3ERR_INVAL: neither can be trusted. */
static void nfs3_write(struct rpc_call *call, const struct WRITE3args *args, struct WRITE3res *res)
{
    struct vfs_call caller;
    struct vfs_node file = {0};
    uint32_t written = 0;
    enum vfs_stable committed = VFS_UNSTABLE;
    writeverf3 verf;

    call_begin(call, nfs_vfs(call), &caller);
    nfs3_writeverf(&caller, verf);
    int err = vfs_get(&caller, call_bytes(args->file.data), &file);
    if (err == 0 && args->count != args->data.size) {
        err = -EINVAL;
    }
    if (err == 0) {
        err = vfs_write(&caller, &file, args->offset, args->data.data, args->data.size,
                        vfs_stable_of(args->stable), &written, &committed);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.file_wcc = nfs3_wcc(&caller, &file);
        res->resok.count = written;
        res->resok.committed = stable_how_of(committed);
        memcpy(res->resok.verf, verf, sizeof verf);
    } else {
        res->resfail.file_wcc = nfs3_wcc(&caller, &file);
    }
    call_end(call, &caller, res->status);
    vfs_put(&file);
}
RPC_THUNK(nfs3_write, WRITE3args, WRITE3res)

/* The handle and attributes of a new object, for CREATE, MKDIR, SYMLINK and MKNOD. */
static struct post_op_fh3 new_object_fh(struct rpc_call *call, const struct vfs_node *object)
{
    return (struct post_op_fh3){.handle_follows = true, .handle = nfs3_fh(call, object)};
}

/* §3.3.8. EXCLUSIVE: the same verf again is the same success, as after a lost reply. */
static void nfs3_create(struct rpc_call *call, const struct CREATE3args *args,
                        struct CREATE3res *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct vfs_node object = {0};
    struct vfs_sattr sattr = {0};
    bool exclusive = args->how.mode == EXCLUSIVE;
    enum vfs_create_how how = exclusive                   ? VFS_EXCLUSIVE
                              : args->how.mode == GUARDED ? VFS_GUARDED
                                                          : VFS_UNCHECKED;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->where.dir.data), &dir);
    if (err == 0 && !exclusive) {
        err = nfs3_sattr(&args->how.obj_attributes, &sattr);
    }
    if (err == 0) {
        err = vfs_create(&caller, &dir, call_bytes(args->where.name), how, &sattr,
                         exclusive ? args->how.verf : NULL, &object);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.obj = new_object_fh(call, &object);
        res->resok.obj_attributes = nfs3_post_op_attr(&caller, &object);
        res->resok.dir_wcc = nfs3_wcc(&caller, &dir);
    } else {
        res->resfail.dir_wcc = nfs3_wcc(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
    vfs_put(&dir);
}
RPC_THUNK(nfs3_create, CREATE3args, CREATE3res)

/* §3.3.9. */
static void nfs3_mkdir(struct rpc_call *call, const struct MKDIR3args *args, struct MKDIR3res *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct vfs_node object = {0};
    struct vfs_sattr sattr = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->where.dir.data), &dir);
    if (err == 0) {
        err = nfs3_sattr(&args->attributes, &sattr);
    }
    if (err == 0) {
        err = vfs_mkdir(&caller, &dir, call_bytes(args->where.name), &sattr, &object);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.obj = new_object_fh(call, &object);
        res->resok.obj_attributes = nfs3_post_op_attr(&caller, &object);
        res->resok.dir_wcc = nfs3_wcc(&caller, &dir);
    } else {
        res->resfail.dir_wcc = nfs3_wcc(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
    vfs_put(&dir);
}
RPC_THUNK(nfs3_mkdir, MKDIR3args, MKDIR3res)

/* §3.3.10. The text is the client's: any bytes, not checked to lead anywhere. */
static void nfs3_symlink(struct rpc_call *call, const struct SYMLINK3args *args,
                         struct SYMLINK3res *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct vfs_node object = {0};
    struct vfs_sattr sattr = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->where.dir.data), &dir);
    if (err == 0) {
        err = nfs3_sattr(&args->symlink.symlink_attributes, &sattr);
    }
    if (err == 0) {
        err = vfs_symlink(&caller, &dir, call_bytes(args->where.name),
                          call_bytes(args->symlink.symlink_data), &sattr, &object);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.obj = new_object_fh(call, &object);
        res->resok.obj_attributes = nfs3_post_op_attr(&caller, &object);
        res->resok.dir_wcc = nfs3_wcc(&caller, &dir);
    } else {
        res->resfail.dir_wcc = nfs3_wcc(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
    vfs_put(&dir);
}
RPC_THUNK(nfs3_symlink, SYMLINK3args, SYMLINK3res)

/* What a MKNOD asks for, out of the arm that its type has. */
struct special {
    enum vfs_type type; /* VFS_NONE: not a type that MKNOD makes */
    const struct sattr3 *attributes;
    struct specdata3 spec;
};

static struct special special_of(const struct mknoddata3 *what)
{
    switch (what->type) {
    case NF3CHR:
        return (struct special){VFS_CHR, &what->device.dev_attributes, what->device.spec};
    case NF3BLK:
        return (struct special){VFS_BLK, &what->device.dev_attributes, what->device.spec};
    case NF3SOCK:
        return (struct special){VFS_SOCK, &what->pipe_attributes, {0}};
    case NF3FIFO:
        return (struct special){VFS_FIFO, &what->pipe_attributes, {0}};
    default:
        return (struct special){0};
    }
}

/* §3.3.11. NFS3ERR_BADTYPE: regular files, directories and links have procedures of their own. */
static void nfs3_mknod(struct rpc_call *call, const struct MKNOD3args *args, struct MKNOD3res *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct vfs_node object = {0};
    struct vfs_sattr sattr = {0};
    struct special special = special_of(&args->what);

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->where.dir.data), &dir);
    if (err == 0 && special.type != VFS_NONE) {
        err = nfs3_sattr(special.attributes, &sattr);
    }
    if (err == 0 && special.type != VFS_NONE) {
        err = vfs_mknod(&caller, &dir, call_bytes(args->where.name), special.type,
                        special.spec.specdata1, special.spec.specdata2, &sattr, &object);
    }
    res->status = err == 0 && special.type == VFS_NONE ? NFS3ERR_BADTYPE : nfs3_status(err);
    if (res->status == NFS3_OK) {
        res->resok.obj = new_object_fh(call, &object);
        res->resok.obj_attributes = nfs3_post_op_attr(&caller, &object);
        res->resok.dir_wcc = nfs3_wcc(&caller, &dir);
    } else {
        res->resfail.dir_wcc = nfs3_wcc(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
    vfs_put(&dir);
}
RPC_THUNK(nfs3_mknod, MKNOD3args, MKNOD3res)

/* §3.3.12. */
static void nfs3_remove(struct rpc_call *call, const struct REMOVE3args *args,
                        struct REMOVE3res *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->object.dir.data), &dir);
    if (err == 0) {
        err = vfs_remove(&caller, &dir, call_bytes(args->object.name));
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.dir_wcc = nfs3_wcc(&caller, &dir);
    } else {
        res->resfail.dir_wcc = nfs3_wcc(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&dir);
}
RPC_THUNK(nfs3_remove, REMOVE3args, REMOVE3res)

/* §3.3.13. */
static void nfs3_rmdir(struct rpc_call *call, const struct RMDIR3args *args, struct RMDIR3res *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->object.dir.data), &dir);
    if (err == 0) {
        err = vfs_rmdir(&caller, &dir, call_bytes(args->object.name));
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.dir_wcc = nfs3_wcc(&caller, &dir);
    } else {
        res->resfail.dir_wcc = nfs3_wcc(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&dir);
}
RPC_THUNK(nfs3_rmdir, RMDIR3args, RMDIR3res)

/* §3.3.14. */
static void nfs3_rename(struct rpc_call *call, const struct RENAME3args *args,
                        struct RENAME3res *res)
{
    struct vfs_call caller;
    struct vfs_node from_dir = {0};
    struct vfs_node to_dir = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->from.dir.data), &from_dir);
    if (err == 0) {
        err = vfs_get(&caller, call_bytes(args->to.dir.data), &to_dir);
    }
    if (err == 0) {
        err = vfs_rename(&caller, &from_dir, call_bytes(args->from.name), &to_dir,
                         call_bytes(args->to.name));
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.fromdir_wcc = nfs3_wcc(&caller, &from_dir);
        res->resok.todir_wcc = nfs3_wcc(&caller, &to_dir);
    } else {
        res->resfail.fromdir_wcc = nfs3_wcc(&caller, &from_dir);
        res->resfail.todir_wcc = nfs3_wcc(&caller, &to_dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&to_dir);
    vfs_put(&from_dir);
}
RPC_THUNK(nfs3_rename, RENAME3args, RENAME3res)

/* §3.3.15. */
static void nfs3_link(struct rpc_call *call, const struct LINK3args *args, struct LINK3res *res)
{
    struct vfs_call caller;
    struct vfs_node file = {0};
    struct vfs_node dir = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->file.data), &file);
    if (err == 0) {
        err = vfs_get(&caller, call_bytes(args->link.dir.data), &dir);
    }
    if (err == 0) {
        err = vfs_link(&caller, &file, &dir, call_bytes(args->link.name));
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.file_attributes = nfs3_post_op_attr(&caller, &file);
        res->resok.linkdir_wcc = nfs3_wcc(&caller, &dir);
    } else {
        res->resfail.file_attributes = nfs3_post_op_attr(&caller, &file);
        res->resfail.linkdir_wcc = nfs3_wcc(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&dir);
    vfs_put(&file);
}
RPC_THUNK(nfs3_link, LINK3args, LINK3res)

/* The list of READDIR or READDIRPLUS while it grows, in call memory. */
struct listing {
    struct xdr list;
    uint32_t dircount_left; /* READDIRPLUS: bytes of more entries, attributes and handles aside */
    bool any;
};

/* resok_bytes is what READDIR3resok or READDIRPLUS3resok may take, "including all XDR overhead". */
static bool listing_begin(struct listing *listing, struct rpc_call *call, uint32_t resok_bytes)
{
    uint32_t limit = call->peer->is_tcp ? LISTING_BYTES_MAX : CALL_UDP_RESULTS_BYTES_MAX - 4;
    uint32_t bytes = resok_bytes < limit ? resok_bytes : limit;

    if (bytes < LISTING_FIXED_BYTES) {
        return false;
    }
    bytes -= LISTING_FIXED_BYTES;
    *listing = (struct listing){.list = xdr_writer(rpc_call_memory(call, bytes + 4), bytes)};
    return true;
}

static struct xdr_bytes listing_end(struct listing *listing)
{
    listing->list.end += 4; /* the room that listing_begin kept */
    CHECK(xdr_list_end(&listing->list));
    return (struct xdr_bytes){.data = listing->list.start,
                              .size = (uint32_t)xdr_offset(&listing->list)};
}

static bool take_entry(void *arg, const struct vfs_entry *entry)
{
    struct listing *listing = arg;
    struct xdr before = listing->list;
    struct entry3 wire = {.fileid = entry->fileid,
                          .name = {.data = entry->name.data, .size = entry->name.size},
                          .cookie = entry->cookie};

    if (!entry3_list_put(&listing->list, &wire)) {
        listing->list = before;
        return false;
    }
    listing->any = true;
    return true;
}

static bool take_entryplus(void *arg, const struct vfs_entry *entry)
{
    struct listing *listing = arg;
    struct xdr before = listing->list;
    uint32_t name_bytes = entry->name.size + xdr_padding(entry->name.size);
    uint32_t dir_bytes = 4 + 8 + 4 + name_bytes + 8; /* as in entry3 */
    struct entryplus3 wire = {.fileid = entry->fileid,
                              .name = {.data = entry->name.data, .size = entry->name.size},
                              .cookie = entry->cookie};

    if (entry->has_attr) {
        wire.name_attributes.attributes_follow = true;
        wire.name_attributes.attributes = nfs3_fattr(&entry->attr);
    }
    if (entry->has_handle) {
        wire.name_handle.handle_follows = true;
        wire.name_handle.handle.data =
            (struct xdr_bytes){.data = entry->handle.bytes, .size = entry->handle.size};
    }
    if ((listing->any && dir_bytes > listing->dircount_left) ||
        !entryplus3_list_put(&listing->list, &wire)) {
        listing->list = before;
        return false;
    }
    listing->dircount_left -=
        dir_bytes < listing->dircount_left ? dir_bytes : listing->dircount_left;
    listing->any = true;
    return true;
}

/* §3.3.16. A cookie that the file system does not know is the only bad one: a directory that has
 * changed is no reason to start again. The cookie verifier is always zero, and not looked at. */
static enum nfsstat3 listing_status(int err, uint64_t cookie, const struct listing *listing,
                                    bool eof)
{
    if (err == -EINVAL && cookie != 0) {
        return NFS3ERR_BAD_COOKIE;
    }
    if (err == 0 && !listing->any && !eof) {
        return NFS3ERR_TOOSMALL;
    }
    return nfs3_status(err);
}

/* §3.3.16. */
static void nfs3_readdir(struct rpc_call *call, const struct READDIR3args *args,
                         struct READDIR3res *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct listing listing = {0};
    bool eof = false;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->dir.data), &dir);
    if (err == 0 && listing_begin(&listing, call, args->count)) {
        err = vfs_readdir(&caller, &dir, args->cookie, false, (uint32_t)xdr_left(&listing.list),
                          take_entry, &listing, &eof);
    }
    res->status = listing_status(err, args->cookie, &listing, eof);
    if (res->status == NFS3_OK) {
        res->resok.dir_attributes = nfs3_post_op_attr(&caller, &dir);
        res->resok.reply.entries = listing_end(&listing);
        res->resok.reply.eof = eof;
    } else {
        res->resfail.dir_attributes = nfs3_post_op_attr(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&dir);
}
RPC_THUNK(nfs3_readdir, READDIR3args, READDIR3res)

/* §3.3.17. maxcount bounds everything. dircount bounds the names, but one entry always comes: it is
 * what a client thinks useful, no reason to give it nothing (Linux' server does not look at it). */
static void nfs3_readdirplus(struct rpc_call *call, const struct READDIRPLUS3args *args,
                             struct READDIRPLUS3res *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct listing listing = {0};
    bool eof = false;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->dir.data), &dir);
    if (err == 0 && listing_begin(&listing, call, args->maxcount)) {
        listing.dircount_left = args->dircount;
        uint32_t bytes_hint = (uint32_t)xdr_left(&listing.list) / ENTRYPLUS_EXPANSION;
        err = vfs_readdir(&caller, &dir, args->cookie, true, bytes_hint, take_entryplus, &listing,
                          &eof);
    }
    res->status = listing_status(err, args->cookie, &listing, eof);
    if (res->status == NFS3_OK) {
        res->resok.dir_attributes = nfs3_post_op_attr(&caller, &dir);
        res->resok.reply.entries = listing_end(&listing);
        res->resok.reply.eof = eof;
    } else {
        res->resfail.dir_attributes = nfs3_post_op_attr(&caller, &dir);
    }
    call_end(call, &caller, res->status);
    vfs_put(&dir);
}
RPC_THUNK(nfs3_readdirplus, READDIRPLUS3args, READDIRPLUS3res)

/* §3.3.18. */
static void nfs3_fsstat(struct rpc_call *call, const struct FSSTAT3args *args,
                        struct FSSTAT3res *res)
{
    struct vfs_call caller;
    struct vfs_node root = {0};
    struct vfs_fsstat stat = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->fsroot.data), &root);
    if (err == 0) {
        err = vfs_fsstat(&caller, &root, &stat);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok = (struct FSSTAT3resok){
            .obj_attributes = nfs3_post_op_attr(&caller, &root),
            .tbytes = stat.total_bytes,
            .fbytes = stat.free_bytes,
            .abytes = stat.avail_bytes,
            .tfiles = stat.total_files,
            .ffiles = stat.free_files,
            .afiles = stat.avail_files,
            .invarsec = 0, /* no promise for how long */
        };
    } else {
        res->resfail.obj_attributes = nfs3_post_op_attr(&caller, &root);
    }
    call_end(call, &caller, res->status);
    vfs_put(&root);
}
RPC_THUNK(nfs3_fsstat, FSSTAT3args, FSSTAT3res)

/* §3.3.19. */
static void nfs3_fsinfo(struct rpc_call *call, const struct FSINFO3args *args,
                        struct FSINFO3res *res)
{
    struct vfs_call caller;
    struct vfs_node root = {0};
    bool is_tcp = call->peer->is_tcp;
    uint32_t transfer_max = is_tcp ? TRANSFER_BYTES_MAX : TRANSFER_UDP_BYTES_MAX;
    uint32_t transfer_pref = is_tcp ? TRANSFER_BYTES_MAX : TRANSFER_UDP_BYTES_PREF;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->fsroot.data), &root);
    if (err == 0) {
        err = vfs_getattr(&caller, &root);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok = (struct FSINFO3resok){
            .obj_attributes = nfs3_post_op_attr(&caller, &root),
            .rtmax = transfer_max,
            .rtpref = transfer_pref,
            .rtmult = 4096,
            .wtmax = transfer_max,
            .wtpref = transfer_pref,
            .wtmult = 4096,
            .dtpref = is_tcp ? LISTING_BYTES_PREF : TRANSFER_UDP_BYTES_PREF,
            .maxfilesize = INT64_MAX,
            .time_delta = {.seconds = 0, .nseconds = 1},
            .properties = FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
        };
    } else {
        res->resfail.obj_attributes = nfs3_post_op_attr(&caller, &root);
    }
    call_end(call, &caller, res->status);
    vfs_put(&root);
}
RPC_THUNK(nfs3_fsinfo, FSINFO3args, FSINFO3res)

/* §3.3.20. */
static void nfs3_pathconf(struct rpc_call *call, const struct PATHCONF3args *args,
                          struct PATHCONF3res *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};
    struct vfs_fsstat stat = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->object.data), &object);
    if (err == 0) {
        err = vfs_fsstat(&caller, &object, &stat);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok = (struct PATHCONF3resok){
            .obj_attributes = nfs3_post_op_attr(&caller, &object),
            .linkmax = stat.link_max,
            .name_max = stat.name_max,
            .no_trunc = true,
            .chown_restricted = true,
            .case_insensitive = false,
            .case_preserving = true,
        };
    } else {
        res->resfail.obj_attributes = nfs3_post_op_attr(&caller, &object);
    }
    call_end(call, &caller, res->status);
    vfs_put(&object);
}
RPC_THUNK(nfs3_pathconf, PATHCONF3args, PATHCONF3res)

/* §3.3.21. */
static void nfs3_commit(struct rpc_call *call, const struct COMMIT3args *args,
                        struct COMMIT3res *res)
{
    struct vfs_call caller;
    struct vfs_node file = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, call_bytes(args->file.data), &file);
    if (err == 0) {
        err = vfs_commit(&caller, &file, args->offset, args->count);
    }
    res->status = nfs3_status(err);
    if (err == 0) {
        res->resok.file_wcc = nfs3_wcc(&caller, &file);
        nfs3_writeverf(&caller, res->resok.verf);
    } else {
        res->resfail.file_wcc = nfs3_wcc(&caller, &file);
    }
    call_end(call, &caller, res->status);
    vfs_put(&file);
}
RPC_THUNK(nfs3_commit, COMMIT3args, COMMIT3res)

/* The change was made but is not, and will not be, on stable storage. */
static void nfs3_fail(void *res, int error)
{
    *(enum nfsstat3 *)res = nfs3_status(error);
}

/* ROW(name, function, arguments and results, bytes of resok or resfail at most, more about it) */
#define ROW(name, function, what, res_bytes, ...)                                                  \
    [NFSPROC3_##name] =                                                                            \
        RPC_ROW("NFSPROC3_" #name, function, what##args, what##res, .fail = nfs3_fail,             \
                .reply_bytes_max = 4 + (res_bytes), __VA_ARGS__)

/* Not idempotent: the reply is kept for retransmissions. */
#define CACHED .cached = true
/* Repeating a WRITE is harmless unless the same bytes were written anew in between. */
#define CACHED_OVER_UDP .cached = true, .cached_over_udp_only = true
#define REPEATABLE .cached = false

#define NEW_OBJECT_BYTES (POST_OP_FH3_BYTES + POST_OP_ATTR_BYTES + WCC_DATA_BYTES)

static const struct rpc_procedure nfs3_procedures[] = {
    [NFSPROC3_NULL] = RPC_ROW("NFSPROC3_NULL", nfs3_null, rpc_void, rpc_void, .reply_bytes_max = 4),
    ROW(GETATTR, nfs3_getattr, GETATTR3, 84, REPEATABLE),
    ROW(SETATTR, nfs3_setattr, SETATTR3, WCC_DATA_BYTES, CACHED),
    ROW(LOOKUP, nfs3_lookup, LOOKUP3, 4 + NFS3_FHSIZE + 2 * POST_OP_ATTR_BYTES, REPEATABLE),
    ROW(ACCESS, nfs3_access, ACCESS3, POST_OP_ATTR_BYTES + 4, REPEATABLE),
    ROW(READLINK, nfs3_readlink, READLINK3, POST_OP_ATTR_BYTES + 4 + LINK_TEXT_BYTES_MAX,
        REPEATABLE),
    ROW(READ, nfs3_read, READ3, READ3RESOK_HEAD_BYTES + READ_COPY_BYTES_MAX, REPEATABLE),
    ROW(WRITE, nfs3_write, WRITE3, WCC_DATA_BYTES + 4 + 4 + NFS3_WRITEVERFSIZE, CACHED_OVER_UDP),
    ROW(CREATE, nfs3_create, CREATE3, NEW_OBJECT_BYTES, CACHED),
    ROW(MKDIR, nfs3_mkdir, MKDIR3, NEW_OBJECT_BYTES, CACHED),
    ROW(SYMLINK, nfs3_symlink, SYMLINK3, NEW_OBJECT_BYTES, CACHED),
    ROW(MKNOD, nfs3_mknod, MKNOD3, NEW_OBJECT_BYTES, CACHED),
    ROW(REMOVE, nfs3_remove, REMOVE3, WCC_DATA_BYTES, CACHED),
    ROW(RMDIR, nfs3_rmdir, RMDIR3, WCC_DATA_BYTES, CACHED),
    ROW(RENAME, nfs3_rename, RENAME3, 2 * WCC_DATA_BYTES, CACHED),
    ROW(LINK, nfs3_link, LINK3, POST_OP_ATTR_BYTES + WCC_DATA_BYTES, CACHED),
    ROW(READDIR, nfs3_readdir, READDIR3, LISTING_BYTES_MAX, REPEATABLE),
    ROW(READDIRPLUS, nfs3_readdirplus, READDIRPLUS3, LISTING_BYTES_MAX, REPEATABLE),
    ROW(FSSTAT, nfs3_fsstat, FSSTAT3, POST_OP_ATTR_BYTES + 6 * 8 + 4, REPEATABLE),
    ROW(FSINFO, nfs3_fsinfo, FSINFO3, POST_OP_ATTR_BYTES + 7 * 4 + 8 + 8 + 4, REPEATABLE),
    ROW(PATHCONF, nfs3_pathconf, PATHCONF3, POST_OP_ATTR_BYTES + 6 * 4, REPEATABLE),
    ROW(COMMIT, nfs3_commit, COMMIT3, WCC_DATA_BYTES + NFS3_WRITEVERFSIZE, REPEATABLE),
};

const struct rpc_version nfs3_version = {NFS_V3, COUNT_OF(nfs3_procedures), nfs3_procedures};
