/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cookies. A position in a directory has 63 bits (vfs_entry.cookie) and a cookie four bytes. On
 * xfs, tmpfs and f2fs positions are small numbers. On ext4 they are hashes of names, 31 bits and 32
 * more; knfsd asks ext4 for the first 31 alone (FMODE_32BITHASH), which a program cannot do.
 * Nothing can be remembered here: a client may come back with any cookie, after any time, over
 * restarts. So:
 *
 * 1. A position below 2^31 is its own cookie. INT64_MAX, where ext4 has the end of a directory, is
 *    the cookie of all ones.
 * 2. Of any other position the cookie is the upper half, and 2^31. It continues at the first entry
 *    with that upper half, which is what ext4 makes of the number (vfs_cookies_are_hashes); it
 *    costs a seek, like any other cookie. Deletions do not matter, since a cookie is a place in the
 *    order of hashes and not an entry.
 * 3. Names whose hashes have the same upper half (in 5,000 names one pair in 170 directories; in a
 *    million some 230) share a cookie, and it leads before the first of them. A reply therefore
 *    never ends between two such names (nfs2.c), so that a client that continues behind a reply is
 *    given each name once. A client that continues behind a name within a reply is given those of
 *    the same hash once more; none is ever left out.
 *
 * Times: seconds and microseconds, DEPARTS as nfs3_value.c does: seconds modulo 2^32.
 */
#include "server/nfs2_value.h"

#include <errno.h>
#include <sys/stat.h>

#define MODE_BITS 07777U
#define NSEC_PER_USEC 1000U
#define USEC_PER_SEC 1000000U
#define KEEP UINT32_MAX      /* §2.3.6: a word that is not to be set */
#define KEEP_SHORT 0xffffU   /* the same, from clients that have 16 bits for a mode */
#define BLOCK_BYTES 4096U    /* blocksize: a hint of what reads well */
#define USED_BLOCK_BYTES 512 /* what `blocks` counts, as st_blocks does */
#define COUNT_MAX INT32_MAX
#define HASH_COOKIE 0x80000000U
#define END_COOKIE UINT32_MAX

_Static_assert(NFS_COOKIESIZE == sizeof(uint32_t), "a cookie is a word");

int nfs2_fh(const struct vfs_node *node, struct fhandle *fh)
{
    struct vfs_handle handle;

    vfs_node_handle(node, &handle);
    memset(fh, 0, sizeof *fh);
    if (handle.size > sizeof fh->data) {
        return -EOVERFLOW;
    }
    memcpy(fh->data, handle.bytes, handle.size);
    return 0;
}

/* ---- attributes ---- */

static uint32_t clamp(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static uint32_t fold(uint64_t value)
{
    return (uint32_t)value ^ (uint32_t)(value >> 32);
}

uint32_t nfs2_fileid(uint64_t fileid)
{
    uint32_t folded = fold(fileid);
    return folded != 0 ? folded : 1;
}

/*
 * §2.3.5 wants the type in the mode too. For named pipes it has no type: since SunOS they are
 * character devices with rdev of all ones, which every client knows; NFFIFO came later, and not to
 * all.
 */
static const struct type_row {
    enum ftype type;
    uint32_t mode;
} type_rows[] = {
    [VFS_NONE] = {NFNON, 0},         [VFS_REG] = {NFREG, S_IFREG},  [VFS_DIR] = {NFDIR, S_IFDIR},
    [VFS_BLK] = {NFBLK, S_IFBLK},    [VFS_CHR] = {NFCHR, S_IFCHR},  [VFS_LNK] = {NFLNK, S_IFLNK},
    [VFS_SOCK] = {NFSOCK, S_IFSOCK}, [VFS_FIFO] = {NFCHR, S_IFIFO},
};

/* 12 bits of major and 20 of minor number, as Linux has them; below 256 each they are where Unix
 * always had them. */
static uint32_t rdev_of(const struct vfs_attr *attr)
{
    if (attr->type != VFS_BLK && attr->type != VFS_CHR) {
        return UINT32_MAX;
    }
    uint32_t major = attr->rdev_major, minor = attr->rdev_minor;
    return (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xfff00) << 12;
}

static struct nfstime nfstime_of(const struct timespec *time)
{
    return (struct nfstime){.seconds = (uint32_t)time->tv_sec,
                            .useconds = (uint32_t)time->tv_nsec / NSEC_PER_USEC};
}

struct fattr nfs2_fattr(const struct vfs_attr *attr)
{
    const struct type_row *row = &type_rows[attr->type];
    return (struct fattr){
        .type = row->type,
        .mode = attr->mode | row->mode,
        .nlink = attr->nlink,
        .uid = attr->uid,
        .gid = attr->gid,
        .size = clamp(attr->size),
        .blocksize = BLOCK_BYTES,
        .rdev = rdev_of(attr),
        .blocks = clamp(attr->used / USED_BLOCK_BYTES),
        .fsid = fold(attr->fsid),
        .fileid = nfs2_fileid(attr->fileid),
        .atime = nfstime_of(&attr->atime),
        .mtime = nfstime_of(&attr->mtime),
        .ctime = nfstime_of(&attr->ctime),
    };
}

/* ---- setting ---- */

static bool has_mode(const struct sattr *from)
{
    return from->mode != KEEP && from->mode != KEEP_SHORT;
}

/* Sun's convention, not in the RFC: 10^6 microseconds are the server's time. */
static int set_time(const struct nfstime *from, enum vfs_time_how *how, struct timespec *to)
{
    if (from->seconds == KEEP || from->useconds == KEEP) {
        *how = VFS_TIME_KEEP;
        return 0;
    }
    *how = from->useconds == USEC_PER_SEC ? VFS_TIME_NOW : VFS_TIME_SET;
    *to =
        (struct timespec){.tv_sec = from->seconds, .tv_nsec = (long)from->useconds * NSEC_PER_USEC};
    return from->useconds <= USEC_PER_SEC ? 0 : -EINVAL;
}

int nfs2_sattr(const struct sattr *from, struct vfs_sattr *to)
{
    *to = (struct vfs_sattr){
        .set_mode = has_mode(from),
        .mode = from->mode & MODE_BITS,
        .set_uid = from->uid != KEEP,
        .uid = from->uid,
        .set_gid = from->gid != KEEP,
        .gid = from->gid,
        .set_size = from->size != KEEP,
        .size = from->size,
    };
    int err = set_time(&from->atime, &to->atime_how, &to->atime);
    if (err == 0) {
        err = set_time(&from->mtime, &to->mtime_how, &to->mtime);
    }
    /* Of mtime the convention is for both. */
    if (to->mtime_how == VFS_TIME_NOW && to->atime_how == VFS_TIME_SET) {
        to->atime_how = VFS_TIME_NOW;
    }
    return err;
}

/*
 * Not in the RFC: the type is in the mode, and a device's number in the size. A character device
 * without a number is a named pipe. Without a type, and without a mode, it is a file.
 */
struct nfs2_creation nfs2_creation(const struct sattr *attributes)
{
    uint32_t rdev = attributes->size;
    struct nfs2_creation creation = {.rdev_major = rdev >> 8 & 0xfff,
                                     .rdev_minor = (rdev & 0xff) | (rdev >> 12 & 0xfff00)};

    switch (has_mode(attributes) ? attributes->mode & S_IFMT : 0) {
    case 0:
    case S_IFREG:
        creation.type = VFS_REG;
        break;
    case S_IFCHR:
        creation.type = rdev == KEEP ? VFS_FIFO : VFS_CHR;
        break;
    case S_IFBLK:
        creation.type = rdev == KEEP ? VFS_NONE : VFS_BLK;
        break;
    case S_IFIFO:
        creation.type = VFS_FIFO;
        break;
    case S_IFSOCK:
        creation.type = VFS_SOCK;
        break;
    default:
        creation.type = VFS_NONE;
    }
    return creation;
}

/* ---- the file system ---- */

struct statfsok nfs2_statfsok(const struct vfs_fsstat *stat)
{
    uint64_t block_bytes = stat->block_bytes > 0 ? stat->block_bytes : BLOCK_BYTES;

    while (stat->total_bytes / block_bytes > COUNT_MAX && block_bytes < COUNT_MAX) {
        block_bytes *= 2;
    }
    return (struct statfsok){
        .tsize = NFS_MAXDATA,
        .bsize = clamp(block_bytes),
        .blocks = clamp(stat->total_bytes / block_bytes),
        .bfree = clamp(stat->free_bytes / block_bytes),
        .bavail = clamp(stat->avail_bytes / block_bytes),
    };
}

/* ---- cookies ---- */

bool nfs2_cookie_is_exact(uint64_t position)
{
    return position < HASH_COOKIE || position == INT64_MAX;
}

void nfs2_cookie_put(uint64_t position, uint8_t cookie[NFS_COOKIESIZE])
{
    struct xdr xdr = xdr_writer(cookie, NFS_COOKIESIZE);
    uint32_t word = (uint32_t)(position >> 32) | HASH_COOKIE;

    if (position == INT64_MAX) {
        word = END_COOKIE;
    } else if (position < HASH_COOKIE) {
        word = (uint32_t)position;
    } else if (word == END_COOKIE) {
        word--; /* no hash of ext4's; before it, then */
    }
    (void)xdr_put_u32(&xdr, word);
}

uint64_t nfs2_cookie_get(const uint8_t cookie[NFS_COOKIESIZE])
{
    struct xdr xdr = xdr_reader(cookie, NFS_COOKIESIZE);
    uint32_t word;

    (void)xdr_get_u32(&xdr, &word);
    if (word == END_COOKIE) {
        return INT64_MAX;
    }
    return word < HASH_COOKIE ? word : (uint64_t)(word & ~HASH_COOKIE) << 32;
}
