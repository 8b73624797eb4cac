/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 1094 §2.3.1 (nfsstat), RFC 1813 §2.6 (nfsstat3), appendix I §5.1.3 (mountstat3).
 *
 * 1. Running out of something is not the file's fault: the client is asked to come again
 *    (NFS3ERR_JUKEBOX), so that no program sees a hard error that passes by itself. MOUNT has no
 *    such word, and in version 2 of NFS the call is not answered (nfs2.c).
 * 2. ext4 and xfs call a damaged file system EUCLEAN and EBADMSG. That is an I/O error here; the
 *    guard of SETATTR, for which vfs also says EUCLEAN, is told apart in nfs3_setattr.
 * 3. Version 2 knows 17 errors. What else can happen is NFSERR_IO, as with BSD's servers, and what
 *    is no handle is NFSERR_STALE: the client forgets it, which is all that helps.
 */
#include "server/status.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

struct status_row {
    enum nfsstat nfs2;
    enum nfsstat3 nfs3;
    enum mountstat3 mount3;
};

/* A row of zeros is none: 0 is "no error" in every column. */
static const struct status_row rows[] = {
    [EPERM] = {NFSERR_PERM, NFS3ERR_PERM, MNT3ERR_PERM},
    [ENOENT] = {NFSERR_NOENT, NFS3ERR_NOENT, MNT3ERR_NOENT},
    [EINTR] = {NFSERR_IO, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [EIO] = {NFSERR_IO, NFS3ERR_IO, MNT3ERR_IO},
    [ENXIO] = {NFSERR_NXIO, NFS3ERR_NXIO, MNT3ERR_IO},
    [E2BIG] = {NFSERR_FBIG, NFS3ERR_FBIG, MNT3ERR_SERVERFAULT}, /* xfs: an ACL of so many entries */
    [EBADF] = {NFSERR_STALE, NFS3ERR_BADHANDLE, MNT3ERR_SERVERFAULT},
    [EAGAIN] = {NFSERR_IO, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [ENOMEM] = {NFSERR_IO, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [EACCES] = {NFSERR_ACCES, NFS3ERR_ACCES, MNT3ERR_ACCES},
    [EBUSY] = {NFSERR_ACCES, NFS3ERR_ACCES, MNT3ERR_ACCES}, /* a name that is a mount point */
    [EEXIST] = {NFSERR_EXIST, NFS3ERR_EXIST, MNT3ERR_SERVERFAULT},
    [EXDEV] = {NFSERR_IO, NFS3ERR_XDEV, MNT3ERR_ACCES},
    [ENODEV] = {NFSERR_NODEV, NFS3ERR_NODEV, MNT3ERR_IO},
    [ENOTDIR] = {NFSERR_NOTDIR, NFS3ERR_NOTDIR, MNT3ERR_NOTDIR},
    [EISDIR] = {NFSERR_ISDIR, NFS3ERR_ISDIR, MNT3ERR_INVAL},
    [EINVAL] = {NFSERR_IO, NFS3ERR_INVAL, MNT3ERR_INVAL},
    [ENFILE] = {NFSERR_IO, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [EMFILE] = {NFSERR_IO, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [ETXTBSY] = {NFSERR_ACCES, NFS3ERR_ACCES, MNT3ERR_ACCES},
    [EFBIG] = {NFSERR_FBIG, NFS3ERR_FBIG, MNT3ERR_SERVERFAULT},
    [ENOSPC] = {NFSERR_NOSPC, NFS3ERR_NOSPC, MNT3ERR_IO},
    [EROFS] = {NFSERR_ROFS, NFS3ERR_ROFS, MNT3ERR_ACCES},
    [EMLINK] = {NFSERR_IO, NFS3ERR_MLINK, MNT3ERR_SERVERFAULT},
    [ENAMETOOLONG] = {NFSERR_NAMETOOLONG, NFS3ERR_NAMETOOLONG, MNT3ERR_NAMETOOLONG},
    [ENOSYS] = {NFSERR_IO, NFS3ERR_NOTSUPP, MNT3ERR_NOTSUPP},
    [ENOTEMPTY] = {NFSERR_NOTEMPTY, NFS3ERR_NOTEMPTY, MNT3ERR_SERVERFAULT},
    [ELOOP] = {NFSERR_IO, NFS3ERR_INVAL, MNT3ERR_NOTDIR}, /* a symbolic link, where none may be */
    [EBADMSG] = {NFSERR_IO, NFS3ERR_IO, MNT3ERR_IO},
    [EOVERFLOW] = {NFSERR_IO, NFS3ERR_INVAL, MNT3ERR_INVAL},
    [EOPNOTSUPP] = {NFSERR_IO, NFS3ERR_NOTSUPP, MNT3ERR_NOTSUPP},
    [ENOBUFS] = {NFSERR_IO, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [ETIMEDOUT] = {NFSERR_IO, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [ESTALE] = {NFSERR_STALE, NFS3ERR_STALE, MNT3ERR_NOENT},
    [EUCLEAN] = {NFSERR_IO, NFS3ERR_IO, MNT3ERR_IO},
    [EREMOTEIO] = {NFSERR_IO, NFS3ERR_IO, MNT3ERR_IO},
    [EDQUOT] = {NFSERR_DQUOT, NFS3ERR_DQUOT, MNT3ERR_IO},
};

static const struct status_row *row_of(int error)
{
    static const struct status_row unknown = {NFSERR_IO, NFS3ERR_SERVERFAULT, MNT3ERR_SERVERFAULT};
    static struct log_limit limit;

    int64_t code = -(int64_t)error;
    if (code > 0 && code < (int64_t)COUNT_OF(rows) && rows[code].nfs3 != NFS3_OK) {
        return &rows[code];
    }
    log_write_limited(&limit, LOG_ERROR, "no NFS status for error %d (%s)", error,
                      strerrordesc_np((int)code) != NULL ? strerrordesc_np((int)code) : "unknown");
    return &unknown;
}

enum nfsstat nfs2_status(int error)
{
    return LIKELY(error == 0) ? NFS_OK : row_of(error)->nfs2;
}

enum nfsstat3 nfs3_status(int error)
{
    return LIKELY(error == 0) ? NFS3_OK : row_of(error)->nfs3;
}

enum mountstat3 mount3_status(int error)
{
    return error == 0 ? MNT3_OK : row_of(error)->mount3;
}

bool status_passes(int error)
{
    return error != 0 && row_of(error)->nfs3 == NFS3ERR_JUKEBOX;
}

uint32_t mount1_status(int error)
{
    enum mountstat3 status = mount3_status(error);
    switch (status) {
    case MNT3ERR_NOTSUPP:
    case MNT3ERR_SERVERFAULT:
        return MNT3ERR_IO; /* NFSERR_IO */
    case MNT3ERR_INVAL:
        return MNT3ERR_ACCES; /* NFSv2 has no INVAL */
    default:
        return status;
    }
}
