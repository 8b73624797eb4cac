/* SPDX-License-Identifier: Apache-2.0 */
/* errno against the words of RFC 1094 §2.3.1, RFC 1813 §2.6 and §5.1.5. */
#include "lib/unit.h"

#include "server/status.h"

#include <errno.h>

static void what_passes_by_itself_is_jukebox(void **state)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, EAGAIN, ENOBUFS, EINTR, ETIMEDOUT};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        assert_int_equal(nfs3_status(-errors[i]), NFS3ERR_JUKEBOX);
        assert_int_equal(mount3_status(-errors[i]), MNT3ERR_SERVERFAULT);
    }
}

static void words_of_the_same_name(void **state)
{
    static const struct {
        int error;
        enum nfsstat3 status;
    } cases[] = {
        {0, NFS3_OK},
        {EPERM, NFS3ERR_PERM},
        {ENOENT, NFS3ERR_NOENT},
        {EIO, NFS3ERR_IO},
        {ENXIO, NFS3ERR_NXIO},
        {EACCES, NFS3ERR_ACCES},
        {EEXIST, NFS3ERR_EXIST},
        {EXDEV, NFS3ERR_XDEV},
        {ENODEV, NFS3ERR_NODEV},
        {ENOTDIR, NFS3ERR_NOTDIR},
        {EISDIR, NFS3ERR_ISDIR},
        {EINVAL, NFS3ERR_INVAL},
        {EFBIG, NFS3ERR_FBIG},
        {E2BIG, NFS3ERR_FBIG},
        {ENOSPC, NFS3ERR_NOSPC},
        {EROFS, NFS3ERR_ROFS},
        {EMLINK, NFS3ERR_MLINK},
        {ENAMETOOLONG, NFS3ERR_NAMETOOLONG},
        {ENOTEMPTY, NFS3ERR_NOTEMPTY},
        {EDQUOT, NFS3ERR_DQUOT},
        {ESTALE, NFS3ERR_STALE},
        {EBADF, NFS3ERR_BADHANDLE},
        {EOPNOTSUPP, NFS3ERR_NOTSUPP},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(nfs3_status(-cases[i].error), cases[i].status);
    }
}

/* A damaged file system is an I/O error; only SETATTR's guard is NOT_SYNC, and says so itself. */
static void damage_is_an_io_error(void **state)
{
    (void)state;
    assert_int_equal(nfs3_status(-EUCLEAN), NFS3ERR_IO);
    assert_int_equal(nfs3_status(-EBADMSG), NFS3ERR_IO);
}

static void unknown_errors_are_server_faults(void **state)
{
    static const int errors[] = {-EOWNERDEAD, -EHWPOISON, -4095, -100000, INT32_MIN, 1, INT32_MAX};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        assert_int_equal(nfs3_status(errors[i]), NFS3ERR_SERVERFAULT);
        assert_int_equal(mount3_status(errors[i]), MNT3ERR_SERVERFAULT);
    }
}

/* RFC 1094 §2.3.1 has these and no others. */
static bool is_of_version_2(uint32_t status)
{
    static const uint32_t known[] = {0,  1,  2,  5,  6,  13, 17, 19, 20,
                                     21, 27, 28, 30, 63, 66, 69, 70, 99};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (known[i] == status) {
            return true;
        }
    }
    return false;
}

static void version_2_has_fewer_words(void **state)
{
    (void)state;
    for (int error = 0; error <= 200; error++) {
        uint32_t status = nfs2_status(-error);
        enum nfsstat3 status3 = nfs3_status(-error);
        assert_true(is_of_version_2(status));
        assert_int_equal(status == 0, error == 0);
        assert_int_equal(status_passes(-error), status3 == NFS3ERR_JUKEBOX);
        if (is_of_version_2((uint32_t)status3)) {
            assert_int_equal(status, status3); /* where both have the word */
        }
    }
    assert_int_equal(nfs2_status(-EBADF), NFSERR_STALE);
    assert_int_equal(nfs2_status(-EINVAL), NFSERR_IO);
    assert_int_equal(nfs2_status(-EXDEV), NFSERR_IO);
    assert_int_equal(nfs2_status(INT32_MIN), NFSERR_IO);
}

/* NFSv2's errors end at 99 (RFC 1094 §2.3.1): none of version 3 alone may get through. */
static void version_1_of_mount_has_small_numbers(void **state)
{
    (void)state;
    for (int error = 0; error <= 200; error++) {
        uint32_t status = mount1_status(-error);
        assert_true(status < 100);
        assert_int_equal(status == 0, error == 0);
    }
    assert_int_equal(mount1_status(-EACCES), 13);
    assert_int_equal(mount1_status(-ENOENT), 2);
    assert_int_equal(mount1_status(-ENOTDIR), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_passes_by_itself_is_jukebox),
        cmocka_unit_test(words_of_the_same_name),
        cmocka_unit_test(damage_is_an_io_error),
        cmocka_unit_test(unknown_errors_are_server_faults),
        cmocka_unit_test(version_2_has_fewer_words),
        cmocka_unit_test(version_1_of_mount_has_small_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
