/* SPDX-License-Identifier: Apache-2.0 */
#include "client/nfs2.h"

#include "proto/nfs2.h"
#include "proto/nfs3.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEEP UINT32_MAX /* RFC 1094 §2.3.6: a word that is not to be set */
#define NSEC_PER_USEC 1000U
#define USEC_PER_SEC 1000000U
#define BLOCK_BYTES 512U /* what fattr.blocks counts */
#define MODE_BITS 07777U
/* A reply of version 3 is larger: 112 bytes of attributes for 68, 24 of an entry for 16. */
#define GROWTH 2U
#define GROWTH_BYTES 512U

/* A call under way. */
struct pending {
    uint32_t proc; /* of version 3 */
    const struct row *row;
    const struct proto_codec *codec; /* of its results */
    client_reply_fn *replied;
    void *owner;
    uint64_t offset; /* READ */
    uint32_t count;  /* READ and WRITE: bytes asked for, or sent */
};

/* Room for the lists of a reply that is put into version 3. */
struct room {
    uint8_t *bytes;
    size_t size_bytes;
};

union args2 {
    struct fhandle fh;
    struct sattrargs setattr;
    struct diropargs dirop;
    struct readargs read;
    struct writeargs write;
    struct createargs create;
    struct renameargs rename;
    struct linkargs link;
    struct symlinkargs symlink;
    struct readdirargs readdir;
};

union res3 {
    enum nfsstat3 status; /* every result begins with it */
    struct GETATTR3res getattr;
    struct SETATTR3res setattr;
    struct LOOKUP3res lookup;
    struct READLINK3res readlink;
    struct READ3res read;
    struct WRITE3res write;
    struct CREATE3res create;
    struct MKDIR3res mkdir;
    struct SYMLINK3res symlink;
    struct MKNOD3res mknod;
    struct REMOVE3res remove;
    struct RMDIR3res rmdir;
    struct RENAME3res rename;
    struct LINK3res link;
    struct READDIR3res readdir;
    struct FSSTAT3res fsstat;
    struct FSINFO3res fsinfo;
    struct COMMIT3res commit;
};

/* ---- values ---- */

static int put_fh(const struct nfs_fh3 *from, struct fhandle *to)
{
    if (from->data.size != sizeof to->data) {
        return -EBADF; /* not one that version 2 gave us */
    }
    memcpy(to->data, from->data.data, sizeof to->data);
    return 0;
}

static int put_dirop(const struct diropargs3 *from, struct diropargs *to)
{
    to->name = from->name;
    return from->name.size > NFS_MAXNAMLEN ? -ENAMETOOLONG : put_fh(&from->dir, &to->dir);
}

static struct nfstime put_time(enum time_how how, const struct nfstime3 *time)
{
    switch (how) {
    case DONT_CHANGE:
        break;
    case SET_TO_SERVER_TIME: /* Sun's convention */
        return (struct nfstime){0, USEC_PER_SEC};
    case SET_TO_CLIENT_TIME:
        return (struct nfstime){time->seconds, time->nseconds / NSEC_PER_USEC};
    }
    return (struct nfstime){KEEP, KEEP};
}

static int put_sattr(const struct sattr3 *from, struct sattr *to)
{
    *to = (struct sattr){
        .mode = from->mode.set_it ? from->mode.mode : KEEP,
        .uid = from->uid.set_it ? from->uid.uid : KEEP,
        .gid = from->gid.set_it ? from->gid.gid : KEEP,
        .size = from->size.set_it ? (uint32_t)from->size.size : KEEP,
        .atime = put_time(from->atime.set_it, &from->atime.atime),
        .mtime = put_time(from->mtime.set_it, &from->mtime.mtime),
    };
    return from->size.set_it && from->size.size >= KEEP ? -EFBIG : 0;
}

static struct nfs_fh3 get_fh(const struct fhandle *from)
{
    return (struct nfs_fh3){.data = {from->data, sizeof from->data}};
}

static struct post_op_fh3 get_post_op_fh(const struct fhandle *from)
{
    return (struct post_op_fh3){.handle_follows = true, .handle = get_fh(from)};
}

/* §2.3.5: named pipes and sockets have types in some servers' replies, and bits in all modes. */
static enum ftype3 get_type(const struct fattr *from)
{
    switch (from->mode & S_IFMT) {
    case S_IFIFO:
        return NF3FIFO;
    case S_IFSOCK:
        return NF3SOCK;
    default:
        break;
    }
    switch (from->type) {
    case NFDIR:
        return NF3DIR;
    case NFBLK:
        return NF3BLK;
    case NFCHR: /* without a number: SunOS' named pipes */
        return from->rdev == KEEP ? NF3FIFO : NF3CHR;
    case NFLNK:
        return NF3LNK;
    case NFSOCK:
        return NF3SOCK;
    case NFFIFO:
        return NF3FIFO;
    case NFREG:
    case NFNON:
    case NFBAD:
        break;
    }
    return NF3REG;
}

static struct nfstime3 get_time(const struct nfstime *from)
{
    return (struct nfstime3){from->seconds, from->useconds % USEC_PER_SEC * NSEC_PER_USEC};
}

static struct fattr3 get_fattr(const struct fattr *from)
{
    uint32_t rdev = from->rdev;
    return (struct fattr3){
        .type = get_type(from),
        .mode = from->mode & MODE_BITS,
        .nlink = from->nlink,
        .uid = from->uid,
        .gid = from->gid,
        .size = from->size,
        .used = (uint64_t)from->blocks * BLOCK_BYTES,
        .rdev = {rdev >> 8 & 0xfff, (rdev & 0xff) | (rdev >> 12 & 0xfff00)},
        .fsid = from->fsid,
        .fileid = from->fileid,
        .atime = get_time(&from->atime),
        .mtime = get_time(&from->mtime),
        .ctime = get_time(&from->ctime),
    };
}

static struct post_op_attr get_post_op_attr(const struct fattr *from)
{
    return (struct post_op_attr){.attributes_follow = true, .attributes = get_fattr(from)};
}

/* ---- arguments: 0 or -errno ---- */

/* The functions below, one for each kind; pending is told what the reply will need. */
typedef int put_args(const void *args, union args2 *out, struct pending *pending);

static int put_handle(const void *args, union args2 *out, struct pending *pending)
{
    (void)pending; /* GETATTR, READLINK, FSSTAT and FSINFO have nothing else, COMMIT a range */
    return put_fh(args, &out->fh);
}

static int put_setattr(const void *args, union args2 *out, struct pending *pending)
{
    const struct SETATTR3args *from = args;

    (void)pending;
    int error = put_fh(&from->object, &out->setattr.file);
    if (error == 0 && from->guard.check) {
        error = -EOPNOTSUPP;
    }
    return error == 0 ? put_sattr(&from->new_attributes, &out->setattr.attributes) : error;
}

static int put_name(const void *args, union args2 *out, struct pending *pending)
{
    (void)pending; /* LOOKUP, REMOVE and RMDIR have nothing else */
    return put_dirop(args, &out->dirop);
}

static int put_read(const void *args, union args2 *out, struct pending *pending)
{
    const struct READ3args *from = args;
    uint32_t count = from->count < NFS_MAXDATA ? from->count : NFS_MAXDATA;

    if (from->offset > UINT32_MAX) {
        return -EFBIG;
    }
    pending->offset = from->offset;
    pending->count = count;
    out->read = (struct readargs){.offset = (uint32_t)from->offset, .count = count};
    return put_fh(&from->file, &out->read.file);
}

static int put_write(const void *args, union args2 *out, struct pending *pending)
{
    const struct WRITE3args *from = args;
    uint32_t count = from->data.size < NFS_MAXDATA ? from->data.size : NFS_MAXDATA;

    if (from->offset + count > UINT32_MAX) {
        return -EFBIG;
    }
    pending->count = count;
    out->write =
        (struct writeargs){.offset = (uint32_t)from->offset, .data = {from->data.data, count}};
    return put_fh(&from->file, &out->write.file);
}

static int put_create(const void *args, union args2 *out, struct pending *pending)
{
    const struct CREATE3args *from = args;

    (void)pending;
    if (from->how.mode != UNCHECKED) {
        return -EOPNOTSUPP;
    }
    int error = put_dirop(&from->where, &out->create.where);
    return error == 0 ? put_sattr(&from->how.obj_attributes, &out->create.attributes) : error;
}

static int put_mkdir(const void *args, union args2 *out, struct pending *pending)
{
    const struct MKDIR3args *from = args;

    (void)pending;
    int error = put_dirop(&from->where, &out->create.where);
    return error == 0 ? put_sattr(&from->attributes, &out->create.attributes) : error;
}

static int put_symlink(const void *args, union args2 *out, struct pending *pending)
{
    const struct SYMLINK3args *from = args;

    (void)pending;
    out->symlink.to = from->symlink.symlink_data;
    if (out->symlink.to.size > NFS_MAXPATHLEN) {
        return -ENAMETOOLONG;
    }
    int error = put_dirop(&from->where, &out->symlink.from);
    return error == 0 ? put_sattr(&from->symlink.symlink_attributes, &out->symlink.attributes)
                      : error;
}

/* Not in the RFC: CREATE with the type in the mode, and a device's number in the size. */
static int put_mknod(const void *args, union args2 *out, struct pending *pending)
{
    const struct MKNOD3args *from = args;
    const struct mknoddata3 *what = &from->what;
    bool device = what->type == NF3CHR || what->type == NF3BLK;
    const struct sattr3 *sattr = device ? &what->device.dev_attributes : &what->pipe_attributes;
    uint32_t major = device ? what->device.spec.specdata1 : 0;
    uint32_t minor = device ? what->device.spec.specdata2 : 0;
    uint32_t type = what->type == NF3BLK ? S_IFBLK : what->type == NF3SOCK ? S_IFSOCK : S_IFCHR;

    (void)pending;
    if (!device && what->type != NF3FIFO && what->type != NF3SOCK) {
        return -EOPNOTSUPP;
    }
    int error = put_dirop(&from->where, &out->create.where);
    if (error == 0) {
        error = put_sattr(sattr, &out->create.attributes);
    }
    if (error == 0 && (major > 0xfff || minor > 0xfffff)) {
        error = -EOVERFLOW;
    }
    out->create.attributes.mode = type | (sattr->mode.set_it ? sattr->mode.mode & MODE_BITS : 0);
    out->create.attributes.size =
        device ? (minor & 0xff) | major << 8 | (minor & 0xfff00) << 12 : KEEP;
    return error;
}

static int put_rename(const void *args, union args2 *out, struct pending *pending)
{
    const struct RENAME3args *from = args;

    (void)pending;
    int error = put_dirop(&from->from, &out->rename.from);
    return error == 0 ? put_dirop(&from->to, &out->rename.to) : error;
}

static int put_link(const void *args, union args2 *out, struct pending *pending)
{
    const struct LINK3args *from = args;

    (void)pending;
    int error = put_fh(&from->file, &out->link.from);
    return error == 0 ? put_dirop(&from->link, &out->link.to) : error;
}

/* A cookie of version 2, from the last reply, is the lower half of version 3's. */
static int put_readdir(const void *args, union args2 *out, struct pending *pending)
{
    const struct READDIR3args *from = args;
    struct xdr xdr = xdr_writer(out->readdir.cookie, NFS_COOKIESIZE);

    (void)pending;
    (void)xdr_put_u32(&xdr, (uint32_t)from->cookie);
    out->readdir.count = from->count < NFS_MAXDATA ? from->count : NFS_MAXDATA;
    return put_fh(&from->dir, &out->readdir.dir);
}

/* ---- results that are NFS_OK: 0 or -errno ---- */

typedef int get_res(const struct pending *pending, const void *res, union res3 *out,
                    struct room *room);

static int get_getattr(const struct pending *pending, const void *res, union res3 *out,
                       struct room *room)
{
    const struct attrstat *from = res;

    (void)pending;
    (void)room;
    out->getattr.resok.obj_attributes = get_fattr(&from->attributes);
    return 0;
}

static int get_setattr(const struct pending *pending, const void *res, union res3 *out,
                       struct room *room)
{
    const struct attrstat *from = res;

    (void)pending;
    (void)room;
    out->setattr.resok.obj_wcc.after = get_post_op_attr(&from->attributes);
    return 0;
}

static int get_lookup(const struct pending *pending, const void *res, union res3 *out,
                      struct room *room)
{
    const struct diropok *from = &((const struct diropres *)res)->diropok;

    (void)pending;
    (void)room;
    out->lookup.resok.object = get_fh(&from->file);
    out->lookup.resok.obj_attributes = get_post_op_attr(&from->attributes);
    return 0;
}

static int get_readlink(const struct pending *pending, const void *res, union res3 *out,
                        struct room *room)
{
    (void)pending;
    (void)room;
    out->readlink.resok.data = ((const struct readlinkres *)res)->data;
    return 0;
}

/* There is no eof: the file's size tells it, unless that is the largest that can be told. */
static int get_read(const struct pending *pending, const void *res, union res3 *out,
                    struct room *room)
{
    const struct readok *from = &((const struct readres *)res)->readok;
    uint32_t size = from->attributes.size;
    uint64_t end = pending->offset + from->data.size;
    bool full = from->data.size == pending->count;

    (void)room;
    out->read.resok = (struct READ3resok){
        .file_attributes = get_post_op_attr(&from->attributes),
        .count = from->data.size,
        .eof = size == UINT32_MAX ? !full : end >= size,
        .data = from->data,
    };
    return from->data.size > pending->count ? -EBADMSG : 0;
}

static int get_write(const struct pending *pending, const void *res, union res3 *out,
                     struct room *room)
{
    const struct attrstat *from = res;

    (void)room;
    out->write.resok.file_wcc.after = get_post_op_attr(&from->attributes);
    out->write.resok.count = pending->count;
    out->write.resok.committed = FILE_SYNC;
    return 0;
}

/* What was written is stable already. */
static int get_commit(const struct pending *pending, const void *res, union res3 *out,
                      struct room *room)
{
    const struct attrstat *from = res;

    (void)pending;
    (void)room;
    out->commit.resok.file_wcc.after = get_post_op_attr(&from->attributes);
    return 0;
}

_Static_assert(sizeof(struct CREATE3res) == sizeof(struct MKDIR3res) &&
                   sizeof(struct CREATE3res) == sizeof(struct MKNOD3res),
               "CREATE, MKDIR and MKNOD answer the same");

static int get_create(const struct pending *pending, const void *res, union res3 *out,
                      struct room *room)
{
    const struct diropok *from = &((const struct diropres *)res)->diropok;

    (void)pending;
    (void)room;
    out->create.resok.obj = get_post_op_fh(&from->file);
    out->create.resok.obj_attributes = get_post_op_attr(&from->attributes);
    return 0;
}

/* Only a status came. */
static int get_nothing(const struct pending *pending, const void *res, union res3 *out,
                       struct room *room)
{
    (void)pending;
    (void)res;
    (void)out;
    (void)room;
    return 0;
}

static int get_readdir(const struct pending *pending, const void *res, union res3 *out,
                       struct room *room)
{
    const struct readdirok *from = &((const struct readdirres *)res)->readdirok;
    struct xdr cursor = xdr_reader(from->entries.data, from->entries.size);
    struct xdr list = xdr_writer(room->bytes, room->size_bytes);
    struct entry entry;

    (void)pending;
    while (entry_next(&cursor, &entry)) {
        struct entry3 entry3 = {.fileid = entry.fileid, .name = entry.name};
        struct xdr xdr = xdr_reader(entry.cookie, NFS_COOKIESIZE);
        uint32_t cookie;
        (void)xdr_get_u32(&xdr, &cookie);
        entry3.cookie = cookie;
        if (!entry3_list_put(&list, &entry3)) {
            return -EBADMSG;
        }
    }
    if (!xdr_list_end(&list)) {
        return -EBADMSG;
    }
    out->readdir.resok.reply.entries = xdr_since(&list, list.start);
    out->readdir.resok.reply.eof = from->eof;
    return 0;
}

static int get_fsstat(const struct pending *pending, const void *res, union res3 *out,
                      struct room *room)
{
    const struct statfsok *from = &((const struct statfsres *)res)->info;

    (void)pending;
    (void)room;
    out->fsstat.resok.tbytes = (uint64_t)from->blocks * from->bsize;
    out->fsstat.resok.fbytes = (uint64_t)from->bfree * from->bsize;
    out->fsstat.resok.abytes = (uint64_t)from->bavail * from->bsize;
    return 0;
}

static int get_fsinfo(const struct pending *pending, const void *res, union res3 *out,
                      struct room *room)
{
    uint32_t tsize = ((const struct statfsres *)res)->info.tsize;
    uint32_t bytes = tsize > 0 && tsize < NFS_MAXDATA ? tsize : NFS_MAXDATA;

    (void)pending;
    (void)room;
    out->fsinfo.resok = (struct FSINFO3resok){
        .rtmax = bytes,
        .rtpref = bytes,
        .rtmult = 1,
        .wtmax = bytes,
        .wtpref = bytes,
        .wtmult = 1,
        .dtpref = bytes,
        .maxfilesize = UINT32_MAX - 1,
        .time_delta = {.nseconds = NSEC_PER_USEC},
        .properties = FSF3_LINK | FSF3_SYMLINK | FSF3_CANSETTIME,
    };
    return 0;
}

/* ---- the table, by procedures of version 3 ---- */

static const struct row {
    uint32_t proc;
    put_args *put; /* NULL: version 2 has nothing like it */
    get_res *get;
} rows[] = {
    [NFSPROC3_GETATTR] = {NFSPROC_GETATTR, put_handle, get_getattr},
    [NFSPROC3_SETATTR] = {NFSPROC_SETATTR, put_setattr, get_setattr},
    [NFSPROC3_LOOKUP] = {NFSPROC_LOOKUP, put_name, get_lookup},
    [NFSPROC3_READLINK] = {NFSPROC_READLINK, put_handle, get_readlink},
    [NFSPROC3_READ] = {NFSPROC_READ, put_read, get_read},
    [NFSPROC3_WRITE] = {NFSPROC_WRITE, put_write, get_write},
    [NFSPROC3_CREATE] = {NFSPROC_CREATE, put_create, get_create},
    [NFSPROC3_MKDIR] = {NFSPROC_MKDIR, put_mkdir, get_create},
    [NFSPROC3_SYMLINK] = {NFSPROC_SYMLINK, put_symlink, get_nothing},
    [NFSPROC3_MKNOD] = {NFSPROC_CREATE, put_mknod, get_create},
    [NFSPROC3_REMOVE] = {NFSPROC_REMOVE, put_name, get_nothing},
    [NFSPROC3_RMDIR] = {NFSPROC_RMDIR, put_name, get_nothing},
    [NFSPROC3_RENAME] = {NFSPROC_RENAME, put_rename, get_nothing},
    [NFSPROC3_LINK] = {NFSPROC_LINK, put_link, get_nothing},
    [NFSPROC3_READDIR] = {NFSPROC_READDIR, put_readdir, get_readdir},
    [NFSPROC3_FSSTAT] = {NFSPROC_STATFS, put_handle, get_fsstat},
    [NFSPROC3_FSINFO] = {NFSPROC_STATFS, put_handle, get_fsinfo},
    [NFSPROC3_COMMIT] = {NFSPROC_GETATTR, put_handle, get_commit},
};

/* RFC 1094 §2.3.1 and RFC 1813 §2.6 have the same numbers, but for these. */
static enum nfsstat3 status3_of(enum nfsstat status)
{
    switch (status) {
    case NFSERR_WFLUSH:
        return NFS3ERR_IO;
    case NFSERR_OPNOTSUPP:
        return NFS3ERR_NOTSUPP;
    default:
        return (enum nfsstat3)status;
    }
}

/* Fills `reply`, of an answered call, with results of version 3 that live in room. */
static int translate(const struct pending *pending, const void *res2, union res3 *res3,
                     struct room *room, struct client_reply *reply)
{
    enum nfsstat status = *(const enum nfsstat *)res2; /* every result begins with it */

    memset(res3, 0, sizeof *res3);
    res3->status = status3_of(status);
    if (status == NFS_OK) {
        struct room lists = {room->bytes, room->size_bytes / 2};
        int error = pending->row->get(pending, res2, res3, &lists);
        if (error != 0) {
            return error;
        }
    }
    size_t half = room->size_bytes / 2;
    struct xdr xdr = xdr_writer(room->bytes + half, room->size_bytes - half);
    if (!pending->codec->put(&xdr, res3)) {
        return -EBADMSG;
    }
    reply->res = res3;
    reply->codec = pending->codec;
    reply->results = xdr_since(&xdr, xdr.start);
    return 0;
}

static void replied2(void *owner, const struct client_reply *reply2)
{
    struct pending *pending = owner;
    struct client_reply reply = *reply2;
    struct room room = {.size_bytes = 2 * (GROWTH * reply2->results.size + GROWTH_BYTES)};
    union res3 res3;

    reply.proc = pending->proc;
    if (reply.error == 0) {
        room.bytes = malloc(room.size_bytes);
        reply.error =
            room.bytes == NULL ? -ENOMEM : translate(pending, reply2->res, &res3, &room, &reply);
        reply.fault = reply.error != 0 ? CLIENT_FAULT_REPLY : CLIENT_NO_FAULT;
    }
    pending->replied(pending->owner, &reply);
    free(room.bytes);
    free(pending);
}

int client_nfs2_call(struct client_rpc *rpc, uint32_t proc, const void *args,
                     client_reply_fn *replied, void *owner)
{
    union args2 args2;

    if (proc == NFSPROC3_NULL) {
        return client_rpc_call_as(rpc, NULL, NFSPROC_NULL, NULL, replied, owner);
    }
    if (proc >= COUNT_OF(rows) || rows[proc].put == NULL) {
        return -EOPNOTSUPP;
    }
    struct pending *pending = malloc(sizeof *pending);
    if (pending == NULL) {
        return -ENOMEM;
    }
    *pending = (struct pending){
        .proc = proc,
        .row = &rows[proc],
        .codec = proto_procedure_find(NFS_PROGRAM, NFS_V3, proc)->res,
        .replied = replied,
        .owner = owner,
    };
    memset(&args2, 0, sizeof args2);
    int error = pending->row->put(args, &args2, pending);
    if (error == 0) {
        uint32_t proc2 = pending->row->proc;
        const struct proto_procedure *procedure =
            proto_procedure_find(NFS_PROGRAM, NFS_VERSION, proc2);
        error = client_rpc_call_as(rpc, procedure, proc2, &args2, replied2, pending);
    }
    if (error != 0) {
        free(pending);
    }
    return error;
}
