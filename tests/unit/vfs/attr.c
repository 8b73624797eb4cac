/* SPDX-License-Identifier: Apache-2.0 */
/* GETATTR, SETATTR, ACCESS, FSSTAT: RFC 1813 §3.3.1, §3.3.2, §3.3.4, §3.3.18. */
#include "place.h"
#include "vfs/internal.h"

#include <sys/xattr.h>

static int setattr(struct place *place, uint32_t uid, const char *path,
                   const struct vfs_sattr *sattr, const struct timespec *guard,
                   struct vfs_node *node)
{
    struct vfs_handle handle = place_handle(place, path);
    struct vfs_call call = place_call(place, uid, uid);
    assert_int_equal(place_get(&call, &handle, node), 0);
    int err = vfs_setattr(&call, node, sattr, guard);
    vfs_put(node);
    return err;
}

static void guard_lets_only_the_known_ctime_through(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0600};
    place_write_local(place, "f", "x", 0644, 0, 0);
    node = place_node(place, "f");
    struct timespec guard = node.attr.ctime;
    vfs_put(&node);
    struct timespec wrong = {.tv_sec = guard.tv_sec, .tv_nsec = guard.tv_nsec ^ 1};
    assert_int_equal(setattr(place, 0, "f", &sattr, &wrong, &node), -EUCLEAN);
    assert_int_equal(node.attr.mode, 0644);
    assert_true(node.has_before && node.has_attr);
    wrong = (struct timespec){.tv_sec = guard.tv_sec + 1, .tv_nsec = guard.tv_nsec};
    assert_int_equal(setattr(place, 0, "f", &sattr, &wrong, &node), -EUCLEAN);
    assert_int_equal(setattr(place, 0, "f", &sattr, &guard, &node), 0);
    assert_int_equal(node.attr.mode, 0600);
    assert_int_equal(node.before.mode, 0644);
    assert_int_equal(setattr(place, 0, "f", &sattr, &guard, &node), -EUCLEAN);
}

/* ---- beside a change that does not end ---- */

/* Who reads a file while a change of it is under way. */
struct reader {
    struct place *place;
    struct vfs_handle handle;
    pthread_t thread;
    struct vfs_call call;
    uint8_t bytes[8];
    uint32_t size_bytes;
    atomic_bool done;
};

static void *read_it(void *arg)
{
    struct reader *reader = arg;
    struct vfs_node node;
    struct vfs_data data;

    reader->call = place_root_call(reader->place);
    CHECK(place_get(&reader->call, &reader->handle, &node) == 0);
    CHECK(vfs_getattr(&reader->call, &node) == 0);
    CHECK(vfs_read(&reader->call, &node, 0, 8, reader->bytes, 8, &data) == 0);
    reader->size_bytes = data.size;
    vfs_put(&node);
    atomic_store(&reader->done, true);
    return NULL;
}

static void reader_begin(struct reader *reader, struct place *place, struct vfs_handle handle)
{
    *reader = (struct reader){.place = place, .handle = handle};
    assert_int_equal(pthread_create(&reader->thread, NULL, read_it, reader), 0);
}

/* A change that is stuck in the file system holds up nobody who sees the object as it was; who sees
 * the change waits, and depends on it. */
static void a_stuck_change_holds_up_only_who_sees_it(void **state)
{
    struct place *place = *state;
    struct change change;
    struct reader before, after;
    struct vfs_call call = place_root_call(place);
    struct timespec settles = {.tv_nsec = 100000000};

    place_write_local(place, "f", "old", 0644, 0, 0);
    struct vfs_handle handle = place_handle(place, "f");
    struct vfs_node node, *nodes[] = {&node};
    assert_int_equal(place_get(&call, &handle, &node), 0);
    if (!node.export->has_true_ctime) {
        vfs_put(&node);
        skip();
    }
    nanosleep(&settles, NULL); /* the ctime is of an earlier tick then */
    assert_int_equal(change_begin(&change, &call, nodes, 1, JOURNAL_OP_SETATTR), 0);

    reader_begin(&before, place, handle);
    assert_int_equal(pthread_join(before.thread, NULL), 0); /* a fault shows as a timeout */
    assert_int_equal(before.size_bytes, 3);
    assert_int_equal(before.call.lsn, 0);

    place_write_local(place, "f", "newer", 0644, 0, 0);
    reader_begin(&after, place, handle);
    nanosleep(&settles, NULL);
    assert_false(atomic_load(&after.done));
    assert_int_equal(change_end(&change, 0, JOURNAL_FSYNC), 0);
    assert_int_equal(pthread_join(after.thread, NULL), 0);
    assert_memory_equal(after.bytes, "newer", 5);
    assert_true(call.lsn > 0);
    assert_true(after.call.lsn == call.lsn || place_wait(place, call.lsn) == 0);
    vfs_put(&node);
}

static void times_before_1970_and_after_2038(void **state)
{
    static const int64_t seconds[] = {-315619200, 2208988800, 4417977600, 0,
                                      -1,         2147483647, 2147483648};
    struct place *place = *state;
    place_write_local(place, "f", "x", 0644, 0, 0);
    for (size_t i = 0; i < COUNT_OF(seconds); i++) {
        struct vfs_node node = {0};
        struct vfs_sattr sattr = {.mtime_how = VFS_TIME_SET,
                                  .mtime = {.tv_sec = seconds[i], .tv_nsec = 999999999},
                                  .atime_how = VFS_TIME_SET,
                                  .atime = {.tv_sec = seconds[i], .tv_nsec = 1}};
        assert_int_equal(setattr(place, 0, "f", &sattr, NULL, &node), 0);
        assert_int_equal(node.attr.mtime.tv_sec, seconds[i]);
        assert_int_equal(node.attr.mtime.tv_nsec, 999999999);
        assert_int_equal(node.attr.atime.tv_sec, seconds[i]);
        sattr.mtime.tv_nsec = 1000000000;
        assert_int_equal(setattr(place, 0, "f", &sattr, NULL, &node), -EINVAL);
    }
}

static void who_may_set_which_time(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_sattr now = {.mtime_how = VFS_TIME_NOW, .atime_how = VFS_TIME_NOW};
    struct vfs_sattr set = {.mtime_how = VFS_TIME_SET, .mtime = {.tv_sec = 5}};
    place_write_local(place, "f", "x", 0666, 1000, 1000);
    assert_int_equal(setattr(place, 1001, "f", &set, NULL, &node), -EPERM);
    assert_int_equal(setattr(place, 1001, "f", &now, NULL, &node), 0);
    assert_int_equal(setattr(place, 1000, "f", &set, NULL, &node), 0);
    assert_int_equal(node.attr.mtime.tv_sec, 5);
    assert_int_equal(chmod(place_local(place, "f"), 0444), 0);
    assert_int_equal(setattr(place, 1001, "f", &now, NULL, &node), -EACCES);
    assert_int_equal(setattr(place, 1000, "f", &now, NULL, &node), 0);
    /* On a symbolic link itself. */
    assert_int_equal(symlink("nowhere", place_local(place, "l")), 0);
    assert_int_equal(setattr(place, 0, "l", &set, NULL, &node), 0);
    assert_int_equal(node.attr.mtime.tv_sec, 5);
}

static void owner_and_mode(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_sattr give = {.set_uid = true, .uid = 1001};
    struct vfs_sattr mode = {.set_mode = true, .mode = 04755};
    place_write_local(place, "f", "x", 0644, 1000, 1000);
    assert_int_equal(setattr(place, 1001, "f", &mode, NULL, &node), -EPERM);
    assert_int_equal(setattr(place, 1000, "f", &mode, NULL, &node), 0);
    assert_int_equal(node.attr.mode, 04755);
    assert_int_equal(setattr(place, 1000, "f", &give, NULL, &node), -EPERM);
    /* Both at once: the mode is what was asked for, though a new owner clears setuid. */
    struct vfs_sattr both = {.set_uid = true, .uid = 1001, .set_mode = true, .mode = 06711};
    assert_int_equal(setattr(place, 0, "f", &both, NULL, &node), 0);
    assert_int_equal(node.attr.uid, 1001);
    assert_int_equal(node.attr.mode, 06711);
    assert_int_equal(setattr(place, 0, "f", &give, NULL, &node), 0);
    /* Everything at once. */
    struct vfs_sattr all = {.set_uid = true,
                            .uid = 7,
                            .set_gid = true,
                            .gid = 8,
                            .set_mode = true,
                            .mode = 0640,
                            .set_size = true,
                            .size = 10,
                            .mtime_how = VFS_TIME_SET,
                            .mtime = {.tv_sec = 11}};
    assert_int_equal(setattr(place, 0, "f", &all, NULL, &node), 0);
    assert_int_equal(node.attr.uid, 7);
    assert_int_equal(node.attr.gid, 8);
    assert_int_equal(node.attr.mode, 0640);
    assert_int_equal(node.attr.size, 10);
    assert_int_equal(node.attr.mtime.tv_sec, 11);
}

static void size_needs_write_permission_but_not_from_the_owner(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_sattr sattr = {.set_size = true, .size = 3};
    place_write_local(place, "f", "hello", 0444, 1000, 1000);
    assert_int_equal(setattr(place, 1001, "f", &sattr, NULL, &node), -EACCES);
    assert_int_equal(node.attr.size, 5);
    assert_int_equal(setattr(place, 1000, "f", &sattr, NULL, &node), 0);
    assert_int_equal(node.attr.size, 3);
    sattr.size = 1 << 20;
    assert_int_equal(setattr(place, 1000, "f", &sattr, NULL, &node), 0);
    assert_int_equal(node.attr.size, 1 << 20);
    sattr.size = UINT64_MAX;
    assert_int_equal(setattr(place, 1000, "f", &sattr, NULL, &node), -EFBIG);
    assert_int_equal(setattr(place, 0, "", &sattr, NULL, &node), -EFBIG);
    sattr.size = 0;
    assert_int_equal(setattr(place, 0, "", &sattr, NULL, &node), -EISDIR);
}

static uint32_t granted(struct place *place, uint32_t uid, const char *path, uint32_t want)
{
    uint32_t result;
    struct vfs_node node = {0};
    struct vfs_handle handle = place_handle(place, path);
    struct vfs_call call = place_call(place, uid, uid);
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(vfs_access(&call, &node, want, &result), 0);
    /* Again in the same batch, for another question and another caller. */
    uint32_t again;
    assert_int_equal(vfs_access(&call, &node, want, &again), 0);
    assert_int_equal(result, again);
    struct vfs_call root = place_root_call(place);
    vfs_put(&node);
    assert_int_equal(place_get(&root, &handle, &node), 0);
    root.batch = call.batch;
    assert_int_equal(vfs_access(&root, &node, VFS_MAY_READ | VFS_MAY_WRITE, &again), 0);
    assert_int_equal(again, VFS_MAY_READ | VFS_MAY_WRITE);
    vfs_put(&node);
    return result;
}

static void access_is_what_the_kernel_says(void **state)
{
    struct place *place = *state;
    place_write_local(place, "f", "x", 0640, 1000, 2000);
    assert_int_equal(granted(place, 1000, "f", 7), VFS_MAY_READ | VFS_MAY_WRITE);
    assert_int_equal(granted(place, 2000, "f", 7), VFS_MAY_READ); /* by group */
    assert_int_equal(granted(place, 3000, "f", 7), 0);
    assert_int_equal(granted(place, 0, "f", 7), VFS_MAY_READ | VFS_MAY_WRITE);
    assert_int_equal(granted(place, 3000, "", 7), 7);
}

/* linux/posix_acl_xattr.h: version 2, then tag, permissions, id. */
static void give_acl(const char *path, uint32_t uid, uint16_t permissions)
{
    struct {
        uint32_t version;
        struct {
            uint16_t tag, permissions;
            uint32_t id;
        } entries[5];
    } acl = {2,
             {{1, 6, UINT32_MAX},
              {2, permissions, uid},
              {4, 4, UINT32_MAX},
              {16, 7, UINT32_MAX},
              {32, 4, UINT32_MAX}}};
    assert_int_equal(setxattr(path, "system.posix_acl_access", &acl, sizeof acl, 0), 0);
}

static void access_control_lists_are_obeyed(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_data data;
    uint8_t buffer[4];
    place_write_local(place, "f", "x", 0644, 0, 0);
    for (int round = 0; round < 6; round++) {
        if (round % 2 == 0) {
            usleep(70000);
        }
        give_acl(place_local(place, "f"), 1000, 0);
        assert_int_equal(granted(place, 1000, "f", 7), 0);
        assert_int_equal(granted(place, 1001, "f", 7), VFS_MAY_READ);
        struct vfs_handle handle = place_handle(place, "f");
        struct vfs_call call = place_call(place, 1000, 1000);
        assert_int_equal(place_get(&call, &handle, &node), 0);
        assert_int_equal(vfs_read(&call, &node, 0, 4, buffer, 4, &data), -EACCES);
        vfs_put(&node);
        give_acl(place_local(place, "f"), 1000, 7);
        assert_int_equal(granted(place, 1000, "f", 7), 7);
        assert_int_equal(granted(place, 1001, "f", 7), VFS_MAY_READ);
    }
}

static void supplementary_groups_count(void **state)
{
    struct place *place = *state;
    uint32_t result;
    struct vfs_node node = {0};
    place_write_local(place, "f", "x", 0060, 0, 2000);
    struct vfs_handle handle = place_handle(place, "f");
    struct vfs_call call = place_call(place, 3000, 3000);
    call.gid_count = 2;
    call.gids[0] = 1999;
    call.gids[1] = 2000;
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(vfs_access(&call, &node, 7, &result), 0);
    assert_int_equal(result, VFS_MAY_READ | VFS_MAY_WRITE);
    vfs_put(&node);
}

static void squashing_makes_nobody_of_root(void **state)
{
    struct place *place = *state;
    struct export_options *options = &place->table->entries[0].clients[0].options;
    struct vfs_node node = {0};
    uint8_t buffer[4];
    struct vfs_data data;
    place_write_local(place, "secret", "x", 0600, 1000, 1000);
    struct vfs_handle handle = place_handle(place, "secret");
    options->root_squash = true;
    vfs_refresh(place->vfs);
    struct vfs_call call = place_root_call(place);
    call.gid_count = 1;
    call.gids[0] = 0;
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(call.fsuid, options->anonuid);
    assert_int_equal(call.fsgid, options->anongid);
    assert_int_equal(call.fsgids[0], options->anongid);
    assert_int_equal(vfs_read(&call, &node, 0, 4, buffer, 4, &data), -EACCES);
    vfs_put(&node);
    call = place_call(place, 1000, 1000);
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(call.fsuid, 1000);
    vfs_put(&node);
    call.anonymous = true;
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(call.fsuid, options->anonuid);
    vfs_put(&node);
    options->all_squash = true;
    options->anonuid = 77;
    vfs_refresh(place->vfs);
    call = place_call(place, 1000, 1000);
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(call.fsuid, 77);
    vfs_put(&node);
    options->all_squash = false;
    call = place_call(place, UINT32_MAX, UINT32_MAX);
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(call.fsuid, 77);
    vfs_put(&node);
}

static void sticky_directories_protect_other_peoples_files(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkdir(place_local(place, "t"), 0777), 0);
    assert_int_equal(chmod(place_local(place, "t"), 01777), 0);
    assert_int_equal(place_create(place, 1000, "t", "f", 0666), 0);
    assert_int_equal(place_remove_name(place, 1001, "t", "f"), -EPERM);
    assert_int_equal(place_remove_name(place, 1000, "t", "f"), 0);
}

static void fsstat_says_what_statvfs_says(void **state)
{
    struct place *place = *state;
    struct vfs_handle handle = place_handle(place, "");
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = {0};
    struct vfs_fsstat stat;
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(vfs_fsstat(&call, &node, &stat), 0);
    assert_true(node.has_attr);
    assert_true(stat.total_bytes > 0 && stat.free_bytes <= stat.total_bytes);
    assert_true(stat.avail_bytes <= stat.free_bytes);
    assert_int_equal(stat.name_max, 255);
    assert_true(stat.link_max >= 127);
    vfs_put(&node);
}

static void batches_share_and_others_do_not(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    place_write_local(place, "f", "x", 0644, 0, 0);
    struct vfs_handle handle = place_handle(place, "f");
    struct vfs_call call = place_root_call(place);
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(vfs_getattr(&call, &node), 0);
    /* What we changed ourselves is seen within the batch. */
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0600};
    assert_int_equal(vfs_setattr(&call, &node, &sattr, NULL), 0);
    assert_int_equal(vfs_getattr(&call, &node), 0);
    assert_int_equal(node.attr.mode, 0600);
    /* Batch 0 never shares. */
    call.batch = 0;
    assert_int_equal(vfs_getattr(&call, &node), 0);
    assert_int_equal(chmod(place_local(place, "f"), 0640), 0);
    assert_int_equal(vfs_getattr(&call, &node), 0);
    assert_int_equal(node.attr.mode, 0640);
    vfs_put(&node);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        TEST(guard_lets_only_the_known_ctime_through),
        TEST(times_before_1970_and_after_2038),
        TEST(who_may_set_which_time),
        TEST(owner_and_mode),
        TEST(size_needs_write_permission_but_not_from_the_owner),
        TEST(access_is_what_the_kernel_says),
        TEST(access_control_lists_are_obeyed),
        TEST(supplementary_groups_count),
        TEST(squashing_makes_nobody_of_root),
        TEST(sticky_directories_protect_other_peoples_files),
        TEST(fsstat_says_what_statvfs_says),
        TEST(batches_share_and_others_do_not),
        cmocka_unit_test_setup_teardown(a_stuck_change_holds_up_only_who_sees_it, place_setup_sync,
                                        place_teardown),
    };
    return place_possible() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
