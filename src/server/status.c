/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 1813 §2.6 (nfsstat3), appendix I §5.1.3 (mountstat3).
 *
 * 1. Running out of something is not the file's fault: the client is asked to come again
 *    (NFS3ERR_JUKEBOX), so that no program sees a hard error that passes by itself. MOUNT has no
 *    such word.
 * 2. ext4 and xfs call a damaged file system EUCLEAN and EBADMSG. That is an I/O error here; the
 *    guard of SETATTR, for which vfs also says EUCLEAN, is told apart in nfs3_setattr.
 */
#include "server/status.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

struct status_row {
    enum nfsstat3 nfs3;
    enum mountstat3 mount3;
};

/* A row of zeros is none: 0 is "no error" in every column. */
static const struct status_row rows[] = {
    [EPERM] = {NFS3ERR_PERM, MNT3ERR_PERM},
    [ENOENT] = {NFS3ERR_NOENT, MNT3ERR_NOENT},
    [EINTR] = {NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [EIO] = {NFS3ERR_IO, MNT3ERR_IO},
    [ENXIO] = {NFS3ERR_NXIO, MNT3ERR_IO},
    [EBADF] = {NFS3ERR_BADHANDLE, MNT3ERR_SERVERFAULT},
    [EAGAIN] = {NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [ENOMEM] = {NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [EACCES] = {NFS3ERR_ACCES, MNT3ERR_ACCES},
    [EBUSY] = {NFS3ERR_ACCES, MNT3ERR_ACCES}, /* a name that is a mount point; v3 has no word */
    [EEXIST] = {NFS3ERR_EXIST, MNT3ERR_SERVERFAULT},
    [EXDEV] = {NFS3ERR_XDEV, MNT3ERR_ACCES},
    [ENODEV] = {NFS3ERR_NODEV, MNT3ERR_IO},
    [ENOTDIR] = {NFS3ERR_NOTDIR, MNT3ERR_NOTDIR},
    [EISDIR] = {NFS3ERR_ISDIR, MNT3ERR_INVAL},
    [EINVAL] = {NFS3ERR_INVAL, MNT3ERR_INVAL},
    [ENFILE] = {NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [EMFILE] = {NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [ETXTBSY] = {NFS3ERR_ACCES, MNT3ERR_ACCES},
    [EFBIG] = {NFS3ERR_FBIG, MNT3ERR_SERVERFAULT},
    [ENOSPC] = {NFS3ERR_NOSPC, MNT3ERR_IO},
    [EROFS] = {NFS3ERR_ROFS, MNT3ERR_ACCES},
    [EMLINK] = {NFS3ERR_MLINK, MNT3ERR_SERVERFAULT},
    [ENAMETOOLONG] = {NFS3ERR_NAMETOOLONG, MNT3ERR_NAMETOOLONG},
    [ENOSYS] = {NFS3ERR_NOTSUPP, MNT3ERR_NOTSUPP},
    [ENOTEMPTY] = {NFS3ERR_NOTEMPTY, MNT3ERR_SERVERFAULT},
    [ELOOP] = {NFS3ERR_INVAL, MNT3ERR_NOTDIR}, /* a symbolic link, where none may be */
    [EBADMSG] = {NFS3ERR_IO, MNT3ERR_IO},
    [EOVERFLOW] = {NFS3ERR_INVAL, MNT3ERR_INVAL},
    [EOPNOTSUPP] = {NFS3ERR_NOTSUPP, MNT3ERR_NOTSUPP},
    [ENOBUFS] = {NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [ETIMEDOUT] = {NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT},
    [ESTALE] = {NFS3ERR_STALE, MNT3ERR_NOENT},
    [EUCLEAN] = {NFS3ERR_IO, MNT3ERR_IO},
    [EREMOTEIO] = {NFS3ERR_IO, MNT3ERR_IO},
    [EDQUOT] = {NFS3ERR_DQUOT, MNT3ERR_IO},
};

static const struct status_row *row_of(int error)
{
    static const struct status_row unknown = {NFS3ERR_SERVERFAULT, MNT3ERR_SERVERFAULT};
    static struct log_limit limit;

    int64_t code = -(int64_t)error;
    if (code > 0 && code < (int64_t)COUNT_OF(rows) && rows[code].nfs3 != NFS3_OK) {
        return &rows[code];
    }
    log_write_limited(&limit, LOG_ERROR, "no NFS status for error %d (%s)", error,
                      strerrordesc_np((int)code) != NULL ? strerrordesc_np((int)code) : "unknown");
    return &unknown;
}

enum nfsstat3 nfs3_status(int error)
{
    return LIKELY(error == 0) ? NFS3_OK : row_of(error)->nfs3;
}

enum mountstat3 mount3_status(int error)
{
    return error == 0 ? MNT3_OK : row_of(error)->mount3;
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
