/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NFS version 2, RFC 1094: its procedures in the order of §2.2, one table row each at the end.
 *
 * They are to vfs what those of nfs3.c are, with what is particular to version 2:
 *
 * 1. Every result begins with its status (nfs2_fail leans on it), and one that is not NFS_OK has
 *    nothing else.
 * 2. Whatever changes something is on stable storage before its reply (§1.4.1): WRITE too. As in
 *    version 3 the reply waits and the procedure does not, and on an async export neither does.
 * 3. There is no word for "not now" (status_passes): such a call gets no reply, and the client asks
 *    again, which is what it would do after NFS3ERR_JUKEBOX.
 * 4. An object with a handle of more than 32 bytes cannot be named (nfs2_fh): NFSERR_IO, and MNT of
 *    such a file system says the same. Those of ext4, xfs, tmpfs and f2fs are shorter.
 */
#include "server/nfs2.h"

#include "base/log.h"
#include "server/call.h"
#include "server/nfs.h"
#include "server/nfs2_value.h"
#include "server/setattr.h"
#include "server/status.h"

#include <errno.h>

/* Encoded sizes, §2.3. */
#define FATTR_BYTES 68U
#define DIROPOK_BYTES (NFS_FHSIZE + FATTR_BYTES)
/* Behind the entries of READDIR: the end of the list, eof. */
#define LISTING_FIXED_BYTES 8U

enum nfsstat nfs2_finish(struct rpc_call *call, const struct vfs_call *caller, int err)
{
    enum nfsstat status = nfs2_status(err);

    call_end(call, caller, status);
    call->drop = err != 0 && status_passes(err); /* rule 3 */
    return status;
}

int nfs2_get_fattr(struct vfs_call *caller, struct vfs_node *node, struct fattr *fattr)
{
    int err = node->has_attr ? 0 : vfs_getattr(caller, node);
    if (err == 0) {
        *fattr = nfs2_fattr(&node->attr);
    }
    return err;
}

/* The answer of LOOKUP, CREATE and MKDIR. */
static int get_diropok(struct vfs_call *caller, struct vfs_node *node, struct diropok *diropok)
{
    static struct log_limit limit;
    int err = nfs2_fh(node, &diropok->file);

    if (err != 0) {
        log_write_limited(&limit, LOG_NOTICE,
                          "an object has a file handle that is too long for version 2 of NFS");
        return err;
    }
    return nfs2_get_fattr(caller, node, &diropok->attributes);
}

/* §2.2.1, §2.2.4 and §2.2.8: nothing. ROOT and WRITECACHE were never more than names. */
static void nfs2_null(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(nfs2_null, rpc_void, rpc_void)

/* §2.2.2. */
void nfs2_getattr(struct rpc_call *call, const struct fhandle *args, struct attrstat *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(args), &object);
    if (err == 0) {
        err = nfs2_get_fattr(&caller, &object, &res->attributes);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&object);
}
RPC_THUNK(nfs2_getattr, fhandle, attrstat)

/* §2.2.3. */
static void nfs2_setattr(struct rpc_call *call, const struct sattrargs *args, struct attrstat *res)
{
    struct vfs_call caller;
    struct vfs_node object = {0};
    struct vfs_sattr sattr;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->file), &object);
    if (err == 0) {
        err = nfs2_sattr(&args->attributes, &sattr);
    }
    if (err == 0) {
        err = setattr_apply(&caller, &object, &sattr, NULL);
    }
    if (err == 0) {
        err = nfs2_get_fattr(&caller, &object, &res->attributes);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&object);
}
RPC_THUNK(nfs2_setattr, sattrargs, attrstat)

/* §2.2.5. A symbolic link is returned, never followed. */
static void nfs2_lookup(struct rpc_call *call, const struct diropargs *args, struct diropres *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->dir), &dir);
    if (err == 0) {
        err = vfs_lookup(&caller, &dir, call_bytes(args->name), &object);
    }
    if (err == 0) {
        err = get_diropok(&caller, &object, &res->diropok);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&object);
    vfs_put(&dir);
}
RPC_THUNK(nfs2_lookup, diropargs, diropres)

/* §2.2.6. A longer text than the protocol has room for is not cut: it would lead elsewhere. */
static void nfs2_readlink(struct rpc_call *call, const struct fhandle *args,
                          struct readlinkres *res)
{
    struct vfs_call caller;
    struct vfs_node link = {0};
    uint8_t *text = rpc_call_memory(call, NFS_MAXPATHLEN + 1);
    uint32_t text_bytes = 0;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(args), &link);
    if (err == 0) {
        err = vfs_readlink(&caller, &link, text, NFS_MAXPATHLEN + 1, &text_bytes);
    }
    if (err == 0 && text_bytes > NFS_MAXPATHLEN) {
        err = -ENAMETOOLONG;
    }
    if (err == 0) {
        res->data = (struct xdr_bytes){.data = text, .size = text_bytes};
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&link);
}
RPC_THUNK(nfs2_readlink, fhandle, readlinkres)

/* §2.2.7. Fewer bytes than asked only at the end of the file; the client knows the end by its size.
 * What is no file is NFSERR_ISDIR, also if it is no directory: U-Boot reads whatever it has looked
 * up, and knows by this error that it met a symbolic link. */
static void nfs2_read(struct rpc_call *call, const struct readargs *args, struct readres *res)
{
    struct vfs_call caller;
    struct vfs_node file = {0};
    struct vfs_data data = {0};
    uint32_t count = args->count < NFS_MAXDATA ? args->count : NFS_MAXDATA;
    uint8_t *buffer = rpc_call_memory(call, count);

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->file), &file);
    if (err == 0) {
        err = vfs_read(&caller, &file, args->offset, count, buffer, count, &data);
        err = err == -EINVAL ? -EISDIR : err;
    }
    if (err == 0) {
        res->readok.data = call_data(call, &data);
        err = nfs2_get_fattr(&caller, &file, &res->readok.attributes);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&file);
}
RPC_THUNK(nfs2_read, readargs, readres)

/* All of it: there is no count in the reply. What was not written says why when it is tried. */
static int write_all(struct vfs_call *caller, struct vfs_node *file, uint32_t offset,
                     struct xdr_bytes data)
{
    uint32_t done = 0;
    int err;

    do {
        uint32_t written;
        enum vfs_stable committed;
        err = vfs_write(caller, file, (uint64_t)offset + done, data.data + done, data.size - done,
                        VFS_FILE_SYNC, &written, &committed);
        done += written;
    } while (err == 0 && done < data.size);
    return err;
}

/* §2.2.9. beginoffset and totalcount mean nothing. */
static void nfs2_write(struct rpc_call *call, const struct writeargs *args, struct attrstat *res)
{
    struct vfs_call caller;
    struct vfs_node file = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->file), &file);
    if (err == 0) {
        err = write_all(&caller, &file, args->offset, args->data);
    }
    if (err == 0) {
        err = nfs2_get_fattr(&caller, &file, &res->attributes);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&file);
}
RPC_THUNK(nfs2_write, writeargs, attrstat)

/* The name is taken: the same kind of thing there is as good as a new one. */
static int find_special(struct vfs_call *caller, struct vfs_node *dir, struct vfs_bytes name,
                        const struct nfs2_creation *what, struct vfs_node *object)
{
    int err = vfs_lookup(caller, dir, name, object);
    bool same = err == 0 && object->attr.type == what->type;
    if (same && (what->type == VFS_CHR || what->type == VFS_BLK)) {
        same = object->attr.rdev_major == what->rdev_major &&
               object->attr.rdev_minor == what->rdev_minor;
    }
    return same ? 0 : -EEXIST;
}

static int create(struct vfs_call *caller, struct vfs_node *dir, const struct createargs *args,
                  struct vfs_node *object)
{
    struct vfs_bytes name = call_bytes(args->where.name);
    struct nfs2_creation what = nfs2_creation(&args->attributes);
    struct vfs_sattr sattr;

    int err = nfs2_sattr(&args->attributes, &sattr);
    if (err != 0) {
        return err;
    }
    if (what.type == VFS_REG) {
        return vfs_create(caller, dir, name, VFS_UNCHECKED, &sattr, NULL, object);
    }
    sattr.set_size = false; /* it is no size */
    err = vfs_mknod(caller, dir, name, what.type, what.rdev_major, what.rdev_minor, &sattr, object);
    return err == -EEXIST ? find_special(caller, dir, name, &what, object) : err;
}

/* §2.2.10. A file that is there is opened and, with a size of 0, emptied. */
static void nfs2_create(struct rpc_call *call, const struct createargs *args, struct diropres *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->where.dir), &dir);
    if (err == 0) {
        err = create(&caller, &dir, args, &object);
    }
    if (err == 0) {
        err = get_diropok(&caller, &object, &res->diropok);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&object);
    vfs_put(&dir);
}
RPC_THUNK(nfs2_create, createargs, diropres)

/* §2.2.11. */
static void nfs2_remove(struct rpc_call *call, const struct diropargs *args, struct statres *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->dir), &dir);
    if (err == 0) {
        err = vfs_remove(&caller, &dir, call_bytes(args->name));
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&dir);
}
RPC_THUNK(nfs2_remove, diropargs, statres)

/* §2.2.12. */
static void nfs2_rename(struct rpc_call *call, const struct renameargs *args, struct statres *res)
{
    struct vfs_call caller;
    struct vfs_node from_dir = {0};
    struct vfs_node to_dir = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->from.dir), &from_dir);
    if (err == 0) {
        err = vfs_get(&caller, nfs2_fh_bytes(&args->to.dir), &to_dir);
    }
    if (err == 0) {
        err = vfs_rename(&caller, &from_dir, call_bytes(args->from.name), &to_dir,
                         call_bytes(args->to.name));
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&to_dir);
    vfs_put(&from_dir);
}
RPC_THUNK(nfs2_rename, renameargs, statres)

/* §2.2.13. */
static void nfs2_link(struct rpc_call *call, const struct linkargs *args, struct statres *res)
{
    struct vfs_call caller;
    struct vfs_node file = {0};
    struct vfs_node dir = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->from), &file);
    if (err == 0) {
        err = vfs_get(&caller, nfs2_fh_bytes(&args->to.dir), &dir);
    }
    if (err == 0) {
        err = vfs_link(&caller, &file, &dir, call_bytes(args->to.name));
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&dir);
    vfs_put(&file);
}
RPC_THUNK(nfs2_link, linkargs, statres)

/* §2.2.14. The attributes are not applied: a link's mode is nobody's to choose (§2.2.14 has Unix
 * servers ignore them). */
static void nfs2_symlink(struct rpc_call *call, const struct symlinkargs *args, struct statres *res)
{
    static const struct vfs_sattr none = {0};
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct vfs_node object = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->from.dir), &dir);
    if (err == 0) {
        err = vfs_symlink(&caller, &dir, call_bytes(args->from.name), call_bytes(args->to), &none,
                          &object);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&object);
    vfs_put(&dir);
}
RPC_THUNK(nfs2_symlink, symlinkargs, statres)

/* §2.2.15. */
static void nfs2_mkdir(struct rpc_call *call, const struct createargs *args, struct diropres *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct vfs_node object = {0};
    struct vfs_sattr sattr;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->where.dir), &dir);
    if (err == 0) {
        err = nfs2_sattr(&args->attributes, &sattr);
    }
    if (err == 0) {
        sattr.set_size = false; /* clients leave it to chance */
        err = vfs_mkdir(&caller, &dir, call_bytes(args->where.name), &sattr, &object);
    }
    if (err == 0) {
        err = get_diropok(&caller, &object, &res->diropok);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&object);
    vfs_put(&dir);
}
RPC_THUNK(nfs2_mkdir, createargs, diropres)

/* §2.2.16. */
static void nfs2_rmdir(struct rpc_call *call, const struct diropargs *args, struct statres *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->dir), &dir);
    if (err == 0) {
        err = vfs_rmdir(&caller, &dir, call_bytes(args->name));
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&dir);
}
RPC_THUNK(nfs2_rmdir, diropargs, statres)

/* ---- READDIR; nfs2_value.c tells what cookies are ---- */

/* The list while it grows, in call memory. */
struct listing {
    const struct vfs_node *dir;
    struct xdr list;
    struct xdr good;   /* as it was where a reply may end */
    uint64_t position; /* of the entry that comes next, or a lower one that leads to it */
    bool any;
    bool impossible; /* a position that no cookie can stand for */
};

static bool listing_begin(struct listing *listing, struct rpc_call *call,
                          const struct readdirargs *args, const struct vfs_node *dir)
{
    uint32_t bytes = args->count < NFS_MAXDATA ? args->count : NFS_MAXDATA;

    if (bytes < LISTING_FIXED_BYTES) {
        return false;
    }
    bytes -= LISTING_FIXED_BYTES;
    *listing = (struct listing){.dir = dir, .position = nfs2_cookie_get(args->cookie)};
    listing->list = xdr_writer(rpc_call_memory(call, bytes + 4), bytes);
    listing->good = listing->list;
    return true;
}

/* The reply may end behind an entry if its cookie leads behind it. */
static bool take_entry(void *arg, const struct vfs_entry *entry)
{
    struct listing *listing = arg;
    struct entry wire = {.fileid = nfs2_fileid(entry->fileid),
                         .name = {.data = entry->name.data, .size = entry->name.size}};
    bool exact = nfs2_cookie_is_exact(entry->cookie);

    nfs2_cookie_put(entry->cookie, wire.cookie);
    listing->impossible = !exact && !vfs_cookies_are_hashes(listing->dir);
    if (listing->impossible || !entry_list_put(&listing->list, &wire)) {
        return false;
    }
    if (exact || nfs2_cookie_get(wire.cookie) > listing->position) {
        listing->good = listing->list;
        listing->any = true;
    }
    listing->position = entry->cookie;
    return true;
}

static struct xdr_bytes listing_end(struct listing *listing, bool eof)
{
    struct xdr *list = eof ? &listing->list : &listing->good;

    list->end += 4; /* the room that listing_begin kept */
    CHECK(xdr_list_end(list));
    return (struct xdr_bytes){.data = list->start, .size = (uint32_t)xdr_offset(list)};
}

/* §2.2.17 has no word for a count that is too small for the next entry, nor for a cookie that is
 * none. No entries and no end would have the client ask for ever. */
static int listing_error(const struct listing *listing, bool eof)
{
    static struct log_limit limit;

    if (listing->impossible && !listing->any) {
        log_write_limited(&limit, LOG_NOTICE,
                          "a directory has cookies that are too long for version 2 of NFS");
    }
    return listing->any || eof ? 0 : -EINVAL;
}

/* §2.2.17. */
static void nfs2_readdir(struct rpc_call *call, const struct readdirargs *args,
                         struct readdirres *res)
{
    struct vfs_call caller;
    struct vfs_node dir = {0};
    struct listing listing = {0};
    bool eof = false;

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(&args->dir), &dir);
    if (err == 0 && listing_begin(&listing, call, args, &dir)) {
        err = vfs_readdir(&caller, &dir, listing.position, false, (uint32_t)xdr_left(&listing.list),
                          take_entry, &listing, &eof);
    }
    if (err == 0) {
        err = listing_error(&listing, eof);
    }
    if (err == 0) {
        res->readdirok.entries = listing_end(&listing, eof);
        res->readdirok.eof = eof;
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&dir);
}
RPC_THUNK(nfs2_readdir, readdirargs, readdirres)

/* §2.2.18. */
static void nfs2_statfs(struct rpc_call *call, const struct fhandle *args, struct statfsres *res)
{
    struct vfs_call caller;
    struct vfs_node root = {0};
    struct vfs_fsstat stat = {0};

    call_begin(call, nfs_vfs(call), &caller);
    int err = vfs_get(&caller, nfs2_fh_bytes(args), &root);
    if (err == 0) {
        err = vfs_fsstat(&caller, &root, &stat);
    }
    if (err == 0) {
        res->info = nfs2_statfsok(&stat);
    }
    res->status = nfs2_finish(call, &caller, err);
    vfs_put(&root);
}
RPC_THUNK(nfs2_statfs, fhandle, statfsres)

/* The change was made but is not, and will not be, on stable storage. */
static void nfs2_fail(void *res, int error)
{
    *(enum nfsstat *)res = nfs2_status(error);
}

/* ROW(name, function, arguments, results, bytes behind NFS_OK at most, more about it) */
#define ROW(name, function, ARGS, RES, res_bytes, ...)                                             \
    [NFSPROC_##name] = RPC_ROW("NFSPROC_" #name, function, ARGS, RES, .fail = nfs2_fail,           \
                               .reply_bytes_max = 4 + (res_bytes), __VA_ARGS__)
#define NOTHING(name)                                                                              \
    [NFSPROC_##name] =                                                                             \
        RPC_ROW("NFSPROC_" #name, nfs2_null, rpc_void, rpc_void, .reply_bytes_max = 4)

/* Not idempotent: the reply is kept for retransmissions. */
#define CACHED .cached = true
/* Repeating a WRITE is harmless unless the same bytes were written anew in between. */
#define CACHED_OVER_UDP .cached = true, .cached_over_udp_only = true
#define REPEATABLE .cached = false

static const struct rpc_procedure nfs2_procedures[] = {
    NOTHING(NULL),
    ROW(GETATTR, nfs2_getattr, fhandle, attrstat, FATTR_BYTES, REPEATABLE),
    ROW(SETATTR, nfs2_setattr, sattrargs, attrstat, FATTR_BYTES, CACHED),
    NOTHING(ROOT),
    ROW(LOOKUP, nfs2_lookup, diropargs, diropres, DIROPOK_BYTES, REPEATABLE),
    ROW(READLINK, nfs2_readlink, fhandle, readlinkres, 4 + NFS_MAXPATHLEN, REPEATABLE),
    ROW(READ, nfs2_read, readargs, readres, FATTR_BYTES + 4 + NFS_MAXDATA, REPEATABLE),
    NOTHING(WRITECACHE),
    ROW(WRITE, nfs2_write, writeargs, attrstat, FATTR_BYTES, CACHED_OVER_UDP),
    ROW(CREATE, nfs2_create, createargs, diropres, DIROPOK_BYTES, CACHED),
    ROW(REMOVE, nfs2_remove, diropargs, statres, 0, CACHED),
    ROW(RENAME, nfs2_rename, renameargs, statres, 0, CACHED),
    ROW(LINK, nfs2_link, linkargs, statres, 0, CACHED),
    ROW(SYMLINK, nfs2_symlink, symlinkargs, statres, 0, CACHED),
    ROW(MKDIR, nfs2_mkdir, createargs, diropres, DIROPOK_BYTES, CACHED),
    ROW(RMDIR, nfs2_rmdir, diropargs, statres, 0, CACHED),
    ROW(READDIR, nfs2_readdir, readdirargs, readdirres, NFS_MAXDATA, REPEATABLE),
    ROW(STATFS, nfs2_statfs, fhandle, statfsres, 5 * 4, REPEATABLE),
};

const struct rpc_version nfs2_version = {NFS_VERSION, COUNT_OF(nfs2_procedures), nfs2_procedures};
