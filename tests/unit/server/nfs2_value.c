/* SPDX-License-Identifier: Apache-2.0 */
/* Values of 64 bits in the 32 bits of RFC 1094, and the conventions that are not in it. */
#include "lib/unit.h"

#include "server/nfs2_value.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define KEEP UINT32_MAX
static const struct sattr keep = {KEEP, KEEP, KEEP, KEEP, {KEEP, KEEP}, {KEEP, KEEP}};

static void sizes_are_clamped_not_wrapped(void **state)
{
    static const struct {
        uint64_t bytes;
        uint32_t wire;
    } cases[] = {
        {0, 0},
        {UINT32_MAX - 1, UINT32_MAX - 1},
        {UINT32_MAX, UINT32_MAX},
        {UINT32_MAX + 1ULL, UINT32_MAX},
        {UINT32_MAX + 2ULL, UINT32_MAX},
        {1ULL << 40, UINT32_MAX},
        {UINT64_MAX, UINT32_MAX},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct vfs_attr attr = {.type = VFS_REG, .size = cases[i].bytes};
        assert_int_equal(nfs2_fattr(&attr).size, cases[i].wire);
        attr.used = cases[i].bytes;
        assert_int_equal(nfs2_fattr(&attr).blocks,
                         cases[i].bytes / 512 < UINT32_MAX ? cases[i].bytes / 512 : UINT32_MAX);
    }
}

static void types_are_in_the_mode_too(void **state)
{
    static const struct {
        enum vfs_type type;
        enum ftype wire;
        uint32_t mode;
    } cases[] = {
        {VFS_REG, NFREG, 0100644},   {VFS_DIR, NFDIR, 0040644}, {VFS_LNK, NFLNK, 0120644},
        {VFS_BLK, NFBLK, 0060644},   {VFS_CHR, NFCHR, 0020644}, {VFS_FIFO, NFCHR, 0010644},
        {VFS_SOCK, NFSOCK, 0140644},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct vfs_attr attr = {.type = cases[i].type, .mode = 0644};
        struct fattr fattr = nfs2_fattr(&attr);
        bool device = attr.type == VFS_BLK || attr.type == VFS_CHR;
        assert_int_equal(fattr.type, cases[i].wire);
        assert_int_equal(fattr.mode, cases[i].mode);
        assert_int_equal(fattr.rdev, device ? 0 : UINT32_MAX);
    }
}

static void times_are_microseconds(void **state)
{
    struct vfs_attr attr = {.type = VFS_REG, .mtime = {-1, 999999999}, .atime = {4102444800, 1000}};
    struct fattr fattr = nfs2_fattr(&attr);
    (void)state;
    assert_int_equal(fattr.mtime.seconds, UINT32_MAX);
    assert_int_equal(fattr.mtime.useconds, 999999);
    assert_int_equal(fattr.atime.seconds, 4102444800);
    assert_int_equal(fattr.atime.useconds, 1);
}

static void device_numbers_come_back(void **state)
{
    static const uint32_t numbers[][2] = {{0, 0},        {1, 3},          {4, 65},
                                          {255, 255},    {256, 256},      {259, 70000},
                                          {4095, 0xfff}, {4095, 0xfffff}, {8, 0x10001}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        struct vfs_attr attr = {
            .type = VFS_BLK, .rdev_major = numbers[i][0], .rdev_minor = numbers[i][1]};
        struct sattr sattr = keep;
        sattr.mode = S_IFBLK | 0600;
        sattr.size = nfs2_fattr(&attr).rdev;
        struct nfs2_creation what = nfs2_creation(&sattr);
        if (sattr.size == UINT32_MAX) {
            assert_int_equal(what.type, VFS_NONE); /* 4095, 2^20 - 1 is "no number" */
            continue;
        }
        assert_int_equal(what.type, VFS_BLK);
        assert_int_equal(what.rdev_major, numbers[i][0]);
        assert_int_equal(what.rdev_minor, numbers[i][1]);
    }
}

static void what_create_makes(void **state)
{
    static const struct {
        uint32_t mode, size;
        enum vfs_type type;
    } cases[] = {
        {KEEP, KEEP, VFS_REG},
        {0xffff, 0, VFS_REG},
        {0644, 0, VFS_REG},
        {S_IFREG | 0644, KEEP, VFS_REG},
        {S_IFCHR | 0644, 0, VFS_CHR},
        {S_IFCHR | 0644, KEEP, VFS_FIFO},
        {S_IFBLK | 0644, 0x0801, VFS_BLK},
        {S_IFBLK | 0644, KEEP, VFS_NONE},
        {S_IFIFO | 0644, 0, VFS_FIFO},
        {S_IFSOCK | 0644, KEEP, VFS_SOCK},
        {S_IFDIR | 0755, KEEP, VFS_NONE},
        {S_IFLNK | 0777, KEEP, VFS_NONE},
        {0170000, KEEP, VFS_NONE},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sattr sattr = keep;
        sattr.mode = cases[i].mode;
        sattr.size = cases[i].size;
        assert_int_equal(nfs2_creation(&sattr).type, cases[i].type);
    }
}

static void all_ones_leave_everything(void **state)
{
    struct vfs_sattr sattr;
    (void)state;
    assert_int_equal(nfs2_sattr(&keep, &sattr), 0);
    assert_false(sattr.set_mode || sattr.set_uid || sattr.set_gid || sattr.set_size);
    assert_int_equal(sattr.atime_how, VFS_TIME_KEEP);
    assert_int_equal(sattr.mtime_how, VFS_TIME_KEEP);
}

static void each_word_is_set_alone(void **state)
{
    struct vfs_sattr sattr;
    struct sattr from = keep;
    (void)state;
    from.mode = 0107755;
    from.size = 0;
    from.mtime = (struct nfstime){7, 999999};
    assert_int_equal(nfs2_sattr(&from, &sattr), 0);
    assert_true(sattr.set_mode && sattr.set_size && !sattr.set_uid && !sattr.set_gid);
    assert_int_equal(sattr.mode, 07755);
    assert_int_equal(sattr.size, 0);
    assert_int_equal(sattr.atime_how, VFS_TIME_KEEP);
    assert_int_equal(sattr.mtime_how, VFS_TIME_SET);
    assert_int_equal(sattr.mtime.tv_sec, 7);
    assert_int_equal(sattr.mtime.tv_nsec, 999999000);
}

/* 10^6 microseconds: the server's time; of mtime, for both, but not for one that is left. */
static void a_million_microseconds_are_now(void **state)
{
    static const struct {
        struct nfstime atime, mtime;
        enum vfs_time_how atime_how, mtime_how;
        int err;
    } cases[] = {
        {{5, 6}, {7, 1000000}, VFS_TIME_NOW, VFS_TIME_NOW, 0},
        {{5, 1000000}, {7, 1000000}, VFS_TIME_NOW, VFS_TIME_NOW, 0},
        {{KEEP, KEEP}, {7, 1000000}, VFS_TIME_KEEP, VFS_TIME_NOW, 0},
        {{5, 1000000}, {7, 8}, VFS_TIME_NOW, VFS_TIME_SET, 0},
        {{5, 1000001}, {7, 8}, VFS_TIME_SET, VFS_TIME_KEEP, -EINVAL},
        {{5, 6}, {7, 1000001}, VFS_TIME_SET, VFS_TIME_SET, -EINVAL},
        {{5, KEEP}, {KEEP, 8}, VFS_TIME_KEEP, VFS_TIME_KEEP, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct vfs_sattr sattr;
        struct sattr from = keep;
        from.atime = cases[i].atime;
        from.mtime = cases[i].mtime;
        assert_int_equal(nfs2_sattr(&from, &sattr), cases[i].err);
        assert_int_equal(sattr.atime_how, cases[i].atime_how);
        if (cases[i].err == 0) {
            assert_int_equal(sattr.mtime_how, cases[i].mtime_how);
        }
    }
}

static void file_numbers_are_never_zero(void **state)
{
    (void)state;
    assert_int_equal(nfs2_fileid(2), 2);
    assert_int_equal(nfs2_fileid(UINT32_MAX), UINT32_MAX);
    assert_int_equal(nfs2_fileid(0x100000001), 1);
    assert_int_equal(nfs2_fileid(0x200000005), 7);
    assert_int_not_equal(nfs2_fileid(0), 0);
}

/* Counts fit a signed word, and their product with the block size is what the file system said, to
 * less than a block. */
static void file_systems_of_any_size(void **state)
{
    static const struct vfs_fsstat stats[] = {
        {.block_bytes = 4096},
        {.total_bytes = 1 << 20, .free_bytes = 1 << 19, .avail_bytes = 1 << 18, .block_bytes = 512},
        {.total_bytes = INT32_MAX * 4096ULL, .block_bytes = 4096},
        {.total_bytes = (INT32_MAX + 1ULL) * 4096, .block_bytes = 4096},
        {.total_bytes = 1ULL << 61, .free_bytes = (1ULL << 61) - 1, .block_bytes = 1},
        {.total_bytes = 1ULL << 50, .free_bytes = 1ULL << 49, .block_bytes = 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(stats); i++) {
        struct statfsok info = nfs2_statfsok(&stats[i]);
        assert_int_equal(info.tsize, 8192);
        assert_true(info.bsize > 0);
        assert_true(info.blocks <= INT32_MAX);
        assert_true(stats[i].total_bytes - (uint64_t)info.blocks * info.bsize < info.bsize);
        assert_true(stats[i].free_bytes - (uint64_t)info.bfree * info.bsize < info.bsize);
        assert_true(stats[i].avail_bytes - (uint64_t)info.bavail * info.bsize < info.bsize);
    }
    assert_int_equal(nfs2_statfsok(&stats[2]).bsize, 4096);
    assert_int_equal(nfs2_statfsok(&stats[3]).bsize, 8192);
}

/* What a cookie leads to is never behind the position it was made of, and in the same order. */
static void cookies_keep_the_order(void **state)
{
    static const uint64_t positions[] = {
        0,
        1,
        2,
        0x7fffffff,
        0x80000000,
        0xffffffff,
        0x100000000,
        0x100000001,
        0x1ffffffff,
        0x200000000,
        0x7fffffff00000000 - 1,
        INT64_MAX - 1,
        INT64_MAX,
    };
    uint64_t last = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(positions); i++) {
        uint8_t cookie[NFS_COOKIESIZE];
        nfs2_cookie_put(positions[i], cookie);
        uint64_t back = nfs2_cookie_get(cookie);
        assert_true(back <= positions[i]);
        assert_true(positions[i] - back <= 2ULL << 32);
        if (nfs2_cookie_is_exact(positions[i])) {
            assert_int_equal(back, positions[i]);
        }
        if (positions[i] >= 1ULL << 32) {
            assert_true(back >= last);
            last = back;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_clamped_not_wrapped),
        cmocka_unit_test(types_are_in_the_mode_too),
        cmocka_unit_test(times_are_microseconds),
        cmocka_unit_test(device_numbers_come_back),
        cmocka_unit_test(what_create_makes),
        cmocka_unit_test(all_ones_leave_everything),
        cmocka_unit_test(each_word_is_set_alone),
        cmocka_unit_test(a_million_microseconds_are_now),
        cmocka_unit_test(file_numbers_are_never_zero),
        cmocka_unit_test(file_systems_of_any_size),
        cmocka_unit_test(cookies_keep_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
