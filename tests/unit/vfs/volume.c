/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems: what is refused, what lies below an export, and the promises that depend on what
 * the file system keeps, on each kind that this machine can make. In a mount namespace of its own.
 */
#include "place.h"

#include "vfs/internal.h"

#include <linux/capability.h>
#include <linux/quota.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#ifndef Q_SETQUOTA
#define Q_SETQUOTA 0x800008
#endif

struct kind {
    const char *name;
    const char *make; /* printf format: the image; NULL: nothing to make */
    const char *mount;
};

static const struct kind kinds[] = {
    {"ext4-128", "mkfs.ext4 -q -F -I 128 %s", "mount -o loop %s %s"},
    {"ext4-256", "mkfs.ext4 -q -F -I 256 %s", "mount -o loop %s %s"},
    {"xfs", "mkfs.xfs -q -f -m bigtime=1 %s", "mount -o loop %s %s"},
    {"xfs-2038", "mkfs.xfs -q -f -m bigtime=0 %s", "mount -o loop %s %s"},
    {"btrfs", "mkfs.btrfs -q -f %s", "mount -o loop %s %s"},
    {"tmpfs", NULL, "true %s && mount -t tmpfs -o size=20m none %s"},
};
static const struct kind with_quota = {"ext4-quota", "mkfs.ext4 -q -F -O quota %s",
                                       "mount -o loop %s %s"};

static char base[64];

static bool run(const char *format, const char *first, const char *second)
{
    char command[600];
    char full[640];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(command, sizeof command, format, first, second);
#pragma GCC diagnostic pop
    snprintf(full, sizeof full, "{ %s ; } >/dev/null 2>&1", command);
    cred_take_root();
    return system(full) == 0;
}

/* Makes and mounts the file system, and exports a directory of it. False: not on this machine. */
static bool begin(const struct kind *kind, const char *options, struct place *place)
{
    char image[128], where[128];
    cred_take_root();
    snprintf(image, sizeof image, "%s/image", base);
    snprintf(where, sizeof where, "%s/%s", base, kind->name);
    unlink(image);
    int fd = open(image, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 320 << 20), 0);
    close(fd);
    mkdir(where, 0755);
    if ((kind->make != NULL && !run(kind->make, image, "")) || !run(kind->mount, image, where)) {
        print_message("%s: cannot be made here\n", kind->name);
        return false;
    }
    assert_int_equal(chmod(where, 0755), 0);
    place_make(place, where, options);
    return true;
}

static void end(const struct kind *kind, struct place *place)
{
    char where[128];
    snprintf(where, sizeof where, "%s/%s", base, kind->name);
    place_remove(place);
    assert_int_equal(umount2(where, 0), 0);
}

static int exclusive(struct place *place, const char *verf)
{
    struct vfs_handle root = place_handle(place, "");
    struct vfs_call call = place_call(place, 1000, 1000);
    struct vfs_node dir = {0}, node = {0};
    assert_int_equal(place_get(&call, &root, &dir), 0);
    int err = vfs_create(&call, &dir, PLACE_NAME("ex"), VFS_EXCLUSIVE, NULL, (const uint8_t *)verf,
                         &node);
    vfs_put(&node);
    vfs_put(&dir);
    return err;
}

static void check_verifier(struct place *place)
{
    char verf[8];
    memcpy(verf, "\xff\xff\xff\xff\x80\x00\x00\x01", 8);
    assert_int_equal(exclusive(place, verf), 0);
    for (int bit = 0; bit < 64; bit++) {
        verf[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(exclusive(place, verf), -EEXIST);
        verf[bit / 8] ^= (char)(1 << bit % 8);
    }
    place_reopen(place);
    assert_int_equal(exclusive(place, verf), 0);
}

/* The mount is made anew: times and handles come from the disk. */
static void check_remount(const struct kind *kind, struct place *place)
{
    char image[128], where[128], verf[8];
    struct vfs_node node = {0};
    struct vfs_handle handle = place_handle(place, "ex");
    snprintf(image, sizeof image, "%s/image", base);
    snprintf(where, sizeof where, "%s/%s", base, kind->name);
    memcpy(verf, "\xff\xff\xff\xff\x80\x00\x00\x01", 8);
    place_close(place);
    assert_int_equal(umount2(where, 0), 0);
    assert_true(run(kind->mount, image, where));
    place_open(place);
    assert_int_equal(exclusive(place, verf), 0);
    struct vfs_call call = place_root_call(place);
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(vfs_getattr(&call, &node), 0);
    vfs_put(&node);
}

static bool count_entry(void *arg, const struct vfs_entry *entry)
{
    uint32_t *count = arg;
    assert_true(entry->has_handle);
    assert_true(entry->has_attr);
    (*count)++;
    return true;
}

static void check_listing(struct place *place)
{
    struct vfs_handle root = place_handle(place, "");
    struct vfs_call call = place_root_call(place);
    struct vfs_node dir = {0};
    uint32_t count = 0;
    bool eof = false;
    assert_int_equal(place_get(&call, &root, &dir), 0);
    assert_int_equal(vfs_readdir(&call, &dir, 0, true, 4096, count_entry, &count, &eof), 0);
    assert_true(eof);
    assert_int_equal(count, 3);
    vfs_put(&dir);
}

static void every_kind_keeps_the_promises(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct place place;
        if (!begin(&kinds[i], "rw,no_root_squash,sync", &place)) {
            continue;
        }
        assert_true(place_handle(&place, "").size <= (i < 4 ? 32 : VFS_HANDLE_BYTES_MAX));
        check_verifier(&place);
        check_listing(&place);
        struct vfs_handle handle = place_handle(&place, "ex");
        if (kinds[i].make != NULL) {
            check_remount(&kinds[i], &place);
        }
        assert_int_equal(place_remove_name(&place, 1000, "", "ex"), 0);
        struct vfs_call call = place_root_call(&place);
        struct vfs_node node = {0};
        assert_int_equal(place_get(&call, &handle, &node), 0);
        assert_int_equal(vfs_getattr(&call, &node), -ESTALE);
        vfs_put(&node);
        end(&kinds[i], &place);
    }
}

/* Writes until the file system refuses; returns the refusal. */
static int fill(struct place *place, uint32_t uid)
{
    static uint8_t bytes[1 << 20];
    struct vfs_call call;
    struct vfs_node node = {0};
    assert_int_equal(place_create(place, uid, "", "big", 0644), 0);
    struct vfs_handle handle = place_handle(place, "big");
    uint64_t offset = 0;
    for (int i = 0; i < 400; i++) {
        uint32_t written;
        enum vfs_stable committed;
        call = place_call(place, uid, uid);
        assert_int_equal(place_get(&call, &handle, &node), 0);
        int err = vfs_write(&call, &node, offset, bytes, sizeof bytes, VFS_UNSTABLE, &written,
                            &committed);
        vfs_put(&node);
        if (err != 0) {
            return err;
        }
        assert_true(written > 0);
        offset += written;
    }
    return 0;
}

static void a_full_file_system_says_so_and_recovers(void **state)
{
    (void)state;
    static const size_t which[] = {1, 5};
    for (size_t i = 0; i < COUNT_OF(which); i++) {
        struct place place;
        if (begin(&kinds[which[i]], "rw,no_root_squash,async", &place)) {
            assert_int_equal(fill(&place, 1000), -ENOSPC);
            assert_int_equal(place_remove_name(&place, 1000, "", "big"), 0);
            struct vfs_node root = place_node(&place, "");
            vfs_put(&root);
            place_write_local(&place, "again", "x", 0644, 0, 0);
            end(&kinds[which[i]], &place);
        }
    }
}

static void quotas_hold(void **state)
{
    (void)state;
    struct place place;
    char where[128];
    if (!begin(&with_quota, "rw,no_root_squash,async", &place)) {
        return;
    }
    snprintf(where, sizeof where, "%s/%s", base, with_quota.name);
    struct if_dqblk quota = {.dqb_bhardlimit = 2048, .dqb_valid = QIF_BLIMITS};
    int fd = open(where, O_RDONLY | O_DIRECTORY);
    long result = syscall(SYS_quotactl_fd, fd, QCMD(Q_SETQUOTA, USRQUOTA), 1000, &quota);
    close(fd);
    assert_int_equal(result, 0);
    assert_int_equal(fill(&place, 1000), -EDQUOT);
    assert_int_equal(place_create(&place, 1001, "", "other", 0644), 0);
    end(&with_quota, &place);
}

static void what_is_mounted_below_is_not_reached(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkdir(place_local(place, "below"), 0755), 0);
    place_write_local(place, "below/under", "x", 0644, 0, 0);
    assert_int_equal(mount("none", place_local(place, "below"), "tmpfs", 0, NULL), 0);
    place_write_local(place, "below/over", "y", 0644, 0, 0);

    /* The export was open before the mount, and then after it. */
    for (int round = 0; round < 2; round++) {
        struct vfs_node node = place_node(place, "below/under");
        vfs_put(&node);
        struct vfs_node below = place_node(place, "below");
        struct vfs_call call = place_root_call(place);
        assert_int_equal(vfs_lookup(&call, &below, PLACE_NAME("over"), &node), -ENOENT);
        vfs_put(&below);
        place_reopen(place);
    }
    assert_int_equal(umount2(place_local(place, "below"), MNT_DETACH), 0);
}

static void set_mount_capability(bool on)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    cred_take_root();
    assert_int_equal(syscall(SYS_capget, &head, data), 0);
    uint32_t mask = CAP_TO_MASK(CAP_SYS_ADMIN);
    uint32_t *word = &data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective;
    *word = on ? *word | mask : *word & ~mask;
    assert_int_equal(syscall(SYS_capset, &head, data), 0);
}

/* Where the kernel does not let us clone a mount, names that lead to another one are refused. */
static void without_a_clone_what_is_mounted_below_is_not_reached_either(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkdir(place_local(place, "below"), 0755), 0);
    place_write_local(place, "file", "x", 0644, 0, 0);
    assert_int_equal(mount("none", place_local(place, "below"), "tmpfs", 0, NULL), 0);
    set_mount_capability(false);
    place_reopen(place);
    set_mount_capability(true);
    struct vfs_node node = place_node(place, "file"), root = place_node(place, "");
    struct vfs_call call = place_root_call(place);
    vfs_put(&node);
    assert_int_equal(vfs_lookup(&call, &root, PLACE_NAME("below"), &node), -EACCES);
    assert_null(node.object);
    vfs_put(&root);
    assert_int_equal(umount2(place_local(place, "below"), MNT_DETACH), 0);
}

static void refused(const char *path, const char *fragment)
{
    char line[300], state[128];
    struct err err = {0};
    struct vfs *vfs = NULL;
    struct export_problems problems = {0};
    struct export_table *table = export_table_new();
    snprintf(line, sizeof line, "%s *(rw)\n", path);
    snprintf(state, sizeof state, "%s/state", base);
    assert_int_equal(export_table_add_text(table, "test", line, strlen(line), &problems), 0);
    struct vfs_options options = {.state_dir = state, .table = table};
    assert_true(vfs_open(&options, &vfs, &err) < 0);
    print_message("%s\n", err.text);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, fragment));
    export_table_free(table);
    export_problems_free(&problems);
}

static void what_cannot_be_exported_is_named(void **state)
{
    (void)state;
    refused("/no/such/directory", "No such file");
    refused("/etc/passwd", "not a directory");
    refused("/proc", "file handle");
}

static void two_exports_that_look_the_same_are_refused(void **state)
{
    struct place *place = *state;
    char line[1024];
    struct err err = {0};
    struct vfs *vfs = NULL;
    struct export_problems problems = {0};
    struct export_table *table = export_table_new();
    assert_int_equal(mkdir(place_local(place, "one"), 0755), 0);
    assert_int_equal(mkdir(place_local(place, "two"), 0755), 0);
    snprintf(line, sizeof line, "%s *(rw,fsid=7)\n%s *(rw)\n", place_local(place, "one"),
             place_local(place, "two"));
    assert_int_equal(export_table_add_text(table, "test", line, strlen(line), &problems), 0);
    table->entries[1].clients[0].options = table->entries[0].clients[0].options;
    struct vfs_options options = {.state_dir = place->state, .table = table};
    assert_int_equal(vfs_open(&options, &vfs, &err), -EEXIST);
    assert_non_null(strstr(err.text, "fsid="));
    export_table_free(table);
}

/* With fsid= the handles do not depend on the file system's own identity. */
static void fsid_is_what_was_given(void **state)
{
    struct place *place = *state;
    struct export_options *options = &place->table->entries[0].clients[0].options;
    options->has_fsid = true;
    options->fsid[15] = 9;
    place_reopen(place);
    struct vfs_node node = place_node(place, "");
    assert_int_equal(node.attr.fsid, 9);
    vfs_put(&node);
}

static int begin_all(void **state)
{
    (void)state;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return -1;
    }
    snprintf(base, sizeof base, "/var/tmp/holdfast-volume.XXXXXX");
    return mkdtemp(base) != NULL && chmod(base, 0755) == 0 ? 0 : -1;
}

static int end_all(void **state)
{
    (void)state;
    return run("rm -rf %s%s", base, "") ? 0 : -1;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_keeps_the_promises),
        cmocka_unit_test(a_full_file_system_says_so_and_recovers),
        cmocka_unit_test(quotas_hold),
        TEST(what_is_mounted_below_is_not_reached),
        TEST(without_a_clone_what_is_mounted_below_is_not_reached_either),
        cmocka_unit_test(what_cannot_be_exported_is_named),
        TEST(two_exports_that_look_the_same_are_refused),
        TEST(fsid_is_what_was_given),
    };
    return place_possible() ? cmocka_run_group_tests(tests, begin_all, end_all) : 77;
}
