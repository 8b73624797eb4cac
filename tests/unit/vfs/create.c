/* SPDX-License-Identifier: Apache-2.0 */
/* CREATE, MKDIR, SYMLINK, MKNOD: RFC 1813 §3.3.8 to §3.3.11. */
#include "place.h"

#include <sys/sysmacros.h>

static int create(struct place *place, uint32_t uid, const char *dir_path, const char *name,
                  enum vfs_create_how how, const struct vfs_sattr *sattr, const char *verf,
                  struct vfs_node *node)
{
    struct vfs_handle handle = place_handle(place, dir_path);
    struct vfs_call call = place_call(place, uid, uid);
    struct vfs_node dir = {0};
    assert_int_equal(place_get(&call, &handle, &dir), 0);
    int err = vfs_create(&call, &dir, PLACE_NAME(name), how, sattr, (const uint8_t *)verf, node);
    assert_true(dir.has_attr || err == -EROFS || err == -EACCES || err == -ENAMETOOLONG);
    vfs_put(&dir);
    return err;
}

static void exclusive_verifier_keeps_every_bit(void **state)
{
    struct place *place = *state;
    static const char *const verfs[] = {"\xff\xff\xff\xff\x80\x00\x00\x01", "\0\0\0\0\0\0\0\0",
                                        "\xff\xff\xff\xff\xff\xff\xff\xff", "\x80\0\0\0\0\0\0\x80",
                                        "\x01\x23\x45\x67\x89\xab\xcd\xef"};
    for (size_t i = 0; i < COUNT_OF(verfs); i++) {
        char name[16], verf[8];
        struct vfs_node node = {0};
        struct vfs_handle first, second;
        snprintf(name, sizeof name, "ex%zu", i);
        memcpy(verf, verfs[i], 8);
        assert_int_equal(create(place, 0, "", name, VFS_EXCLUSIVE, NULL, verf, &node), 0);
        assert_true(node.has_attr);
        vfs_node_handle(&node, &first);
        vfs_put(&node);
        for (size_t bit = 0; bit < 64; bit++) {
            verf[bit / 8] ^= (char)(1 << bit % 8);
            assert_int_equal(create(place, 0, "", name, VFS_EXCLUSIVE, NULL, verf, &node), -EEXIST);
            vfs_put(&node);
            verf[bit / 8] ^= (char)(1 << bit % 8);
        }
        place_reopen(place);
        assert_int_equal(create(place, 0, "", name, VFS_EXCLUSIVE, NULL, verf, &node), 0);
        vfs_node_handle(&node, &second);
        unit_same_bytes(second.bytes, second.size, first.bytes, first.size);

        /* The client sets real times, which end the matter. */
        struct vfs_sattr sattr = {.set_mode = true,
                                  .mode = 0644,
                                  .atime_how = VFS_TIME_SET,
                                  .mtime_how = VFS_TIME_SET,
                                  .atime = {.tv_sec = 1000, .tv_nsec = 5},
                                  .mtime = {.tv_sec = 2000, .tv_nsec = 6}};
        struct vfs_call call = place_root_call(place);
        vfs_put(&node);
        assert_int_equal(place_get(&call, &first, &node), 0);
        assert_int_equal(vfs_setattr(&call, &node, &sattr, NULL), 0);
        assert_int_equal(node.attr.mtime.tv_sec, 2000);
        assert_int_equal(node.attr.mtime.tv_nsec, 6);
        vfs_put(&node);
        assert_int_equal(create(place, 0, "", name, VFS_EXCLUSIVE, NULL, verf, &node), -EEXIST);
        vfs_put(&node);
    }
}

static void guarded_never_takes_what_exists(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0640};
    assert_int_equal(create(place, 0, "", "f", VFS_GUARDED, &sattr, NULL, &node), 0);
    assert_int_equal(node.attr.type, VFS_REG);
    assert_int_equal(node.attr.mode, 0640);
    vfs_put(&node);
    assert_int_equal(create(place, 0, "", "f", VFS_GUARDED, &sattr, NULL, &node), -EEXIST);
    assert_null(node.object);
}

static void unchecked_takes_what_exists_and_sets_only_the_size(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0777, .set_size = true, .size = 2};
    place_write_local(place, "f", "hello", 0640, 0, 0);
    assert_int_equal(create(place, 0, "", "f", VFS_UNCHECKED, &sattr, NULL, &node), 0);
    assert_int_equal(node.attr.mode, 0640);
    assert_int_equal(node.attr.size, 2);
    vfs_put(&node);
    /* Not for someone who may not write it. */
    sattr.size = 0;
    assert_int_equal(create(place, 1000, "", "f", VFS_UNCHECKED, &sattr, NULL, &node), -EACCES);
    vfs_put(&node);
    struct stat st;
    assert_int_equal(stat(place_local(place, "f"), &st), 0);
    assert_int_equal(st.st_size, 2);
    /* On a directory as knfsd: the client sees what it is. */
    assert_int_equal(mkdir(place_local(place, "d"), 0700), 0);
    assert_int_equal(create(place, 0, "", "d", VFS_UNCHECKED, &sattr, NULL, &node), 0);
    assert_int_equal(node.attr.type, VFS_DIR);
    vfs_put(&node);
}

static void before_and_after_enclose_the_change(void **state)
{
    struct place *place = *state;
    struct vfs_node dir = place_node(place, ""), node = {0};
    struct vfs_call call = place_root_call(place);
    struct vfs_sattr sattr = {0};
    struct vfs_handle handle;
    vfs_node_handle(&dir, &handle);
    vfs_put(&dir);
    assert_int_equal(place_get(&call, &handle, &dir), 0);
    assert_int_equal(vfs_getattr(&call, &dir), 0);
    struct vfs_attr seen = dir.attr;
    assert_int_equal(vfs_mkdir(&call, &dir, PLACE_NAME("d"), &sattr, &node), 0);
    assert_true(dir.has_before && dir.has_attr);
    assert_memory_equal(&dir.before.mtime, &seen.mtime, sizeof seen.mtime);
    assert_int_equal(dir.before.nlink + 1, dir.attr.nlink);
    vfs_put(&node);
    assert_int_equal(vfs_rmdir(&call, &dir, PLACE_NAME("d")), 0);
    assert_int_equal(dir.before.nlink, dir.attr.nlink + 1);
    assert_int_equal(vfs_rmdir(&call, &dir, PLACE_NAME("d")), -ENOENT);
    assert_true(dir.has_before && dir.has_attr);
    assert_memory_equal(&dir.before, &dir.attr, sizeof dir.attr);
    vfs_put(&dir);
}

static void names_are_judged(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_sattr sattr = {0};
    char name[300];
    memset(name, 'n', sizeof name);
    name[256] = 0;
    assert_int_equal(create(place, 0, "", "", VFS_GUARDED, &sattr, NULL, &node), -EACCES);
    assert_int_equal(create(place, 0, "", name, VFS_GUARDED, &sattr, NULL, &node), -ENAMETOOLONG);
    assert_int_equal(create(place, 0, "", "a/b", VFS_GUARDED, &sattr, NULL, &node), -EACCES);
    assert_int_equal(create(place, 0, "", ".", VFS_GUARDED, &sattr, NULL, &node), -EEXIST);
    assert_int_equal(create(place, 0, "", "..", VFS_GUARDED, &sattr, NULL, &node), -EEXIST);
    name[255] = 0;
    assert_int_equal(create(place, 0, "", name, VFS_GUARDED, &sattr, NULL, &node), 0);
    vfs_put(&node);
    assert_int_equal(create(place, 0, "", "\xff\x01\n\x80", VFS_GUARDED, &sattr, NULL, &node), 0);
    vfs_put(&node);
    struct stat st;
    assert_int_equal(stat(place_local(place, "\xff\x01\n\x80"), &st), 0);
    /* In what is no directory. */
    assert_int_equal(create(place, 0, name, "f", VFS_GUARDED, &sattr, NULL, &node), -ENOTDIR);
}

static void modes_and_groups_are_as_the_local_kernel_has_them(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 06777};
    assert_int_equal(mkdir(place_local(place, "g"), 0755), 0);
    assert_int_equal(chown(place_local(place, "g"), 1000, 2000), 0);
    assert_int_equal(chmod(place_local(place, "g"), 02775), 0);
    assert_int_equal(create(place, 1000, "g", "f", VFS_GUARDED, &sattr, NULL, &node), 0);
    assert_int_equal(node.attr.uid, 1000);
    assert_int_equal(node.attr.gid, 2000); /* of the setgid directory */
    /* Not a member of that group: no setgid. */
    assert_int_equal(node.attr.mode & 02000, 0);
    vfs_put(&node);

    struct vfs_handle handle = place_handle(place, "g");
    struct vfs_call call = place_call(place, 1000, 1000);
    struct vfs_node dir = {0};
    sattr.mode = 0700;
    assert_int_equal(place_get(&call, &handle, &dir), 0);
    assert_int_equal(vfs_mkdir(&call, &dir, PLACE_NAME("sub"), &sattr, &node), 0);
    assert_int_equal(node.attr.gid, 2000);
    assert_int_equal(node.attr.mode, 02700); /* inherited */
    vfs_put(&node);
    vfs_put(&dir);

    sattr.mode = 07751;
    assert_int_equal(create(place, 0, "", "root", VFS_GUARDED, &sattr, NULL, &node), 0);
    assert_int_equal(node.attr.mode, 07751);
    vfs_put(&node);
}

static void attributes_given_at_creation_are_set(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_sattr sattr = {.set_mode = true,
                              .mode = 0604,
                              .set_uid = true,
                              .uid = 12,
                              .set_gid = true,
                              .gid = 34,
                              .set_size = true,
                              .size = 56,
                              .mtime_how = VFS_TIME_SET,
                              .mtime = {.tv_sec = -1000, .tv_nsec = 7},
                              .atime_how = VFS_TIME_SET,
                              .atime = {.tv_sec = 3000}};
    assert_int_equal(create(place, 0, "", "f", VFS_GUARDED, &sattr, NULL, &node), 0);
    assert_int_equal(node.attr.mode, 0604);
    assert_int_equal(node.attr.uid, 12);
    assert_int_equal(node.attr.gid, 34);
    assert_int_equal(node.attr.size, 56);
    assert_int_equal(node.attr.mtime.tv_sec, -1000);
    assert_int_equal(node.attr.mtime.tv_nsec, 7);
    assert_int_equal(node.attr.atime.tv_sec, 3000);
    vfs_put(&node);
    /* A user cannot give files away, and does not fail for trying. */
    assert_int_equal(create(place, 1000, "", "g", VFS_GUARDED, &sattr, NULL, &node), 0);
    assert_int_equal(node.attr.uid, 1000);
    vfs_put(&node);
    /* A size that cannot be: nothing is left behind. */
    sattr.size = (uint64_t)INT64_MAX - 1;
    assert_int_equal(create(place, 0, "", "h", VFS_GUARDED, &sattr, NULL, &node), -EFBIG);
    vfs_put(&node);
    assert_int_equal(access(place_local(place, "h"), F_OK), -1);
}

static void links_and_devices(void **state)
{
    struct place *place = *state;
    struct vfs_handle handle = place_handle(place, "");
    struct vfs_call call = place_root_call(place);
    struct vfs_node dir = {0}, node = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0640};
    uint8_t target[64];
    uint32_t size = 0;
    assert_int_equal(place_get(&call, &handle, &dir), 0);
    assert_int_equal(
        vfs_symlink(&call, &dir, PLACE_NAME("l"), PLACE_NAME("no/where"), &sattr, &node), 0);
    assert_int_equal(node.attr.type, VFS_LNK);
    assert_int_equal(vfs_readlink(&call, &node, target, sizeof target, &size), 0);
    unit_same_bytes(target, size, (const uint8_t *)"no/where", 8);
    vfs_put(&node);
    assert_int_equal(vfs_symlink(&call, &dir, PLACE_NAME("l"), PLACE_NAME("x"), &sattr, &node),
                     -EEXIST);

    assert_int_equal(vfs_mknod(&call, &dir, PLACE_NAME("c"), VFS_CHR, 10, 300, &sattr, &node), 0);
    assert_int_equal(node.attr.type, VFS_CHR);
    assert_int_equal(node.attr.rdev_major, 10);
    assert_int_equal(node.attr.rdev_minor, 300);
    assert_int_equal(node.attr.mode, 0640);
    assert_int_equal(vfs_readlink(&call, &node, target, sizeof target, &size), -EINVAL);
    vfs_put(&node);
    assert_int_equal(vfs_mknod(&call, &dir, PLACE_NAME("p"), VFS_FIFO, 0, 0, &sattr, &node), 0);
    assert_int_equal(node.attr.type, VFS_FIFO);
    /* Neither read, nor written, nor opened: this would hang. */
    struct vfs_data data;
    uint8_t buffer[16];
    uint32_t written;
    enum vfs_stable committed;
    assert_int_equal(vfs_read(&call, &node, 0, 16, buffer, 16, &data), -EINVAL);
    assert_int_equal(vfs_write(&call, &node, 0, buffer, 16, VFS_UNSTABLE, &written, &committed),
                     -EINVAL);
    sattr.set_size = true;
    assert_int_equal(vfs_setattr(&call, &node, &sattr, NULL), -EINVAL);
    sattr.set_size = false;
    sattr.mode = 0600;
    assert_int_equal(vfs_setattr(&call, &node, &sattr, NULL), 0);
    assert_int_equal(node.attr.mode, 0600);
    vfs_put(&node);
    assert_int_equal(vfs_mknod(&call, &dir, PLACE_NAME("s"), VFS_SOCK, 0, 0, &sattr, &node), 0);
    assert_int_equal(node.attr.type, VFS_SOCK);
    vfs_put(&node);
    assert_int_equal(vfs_mknod(&call, &dir, PLACE_NAME("d"), VFS_DIR, 0, 0, &sattr, &node),
                     -EINVAL);
    vfs_put(&dir);

    struct vfs_call user = place_call(place, 1000, 1000);
    assert_int_equal(place_get(&user, &handle, &dir), 0);
    assert_int_equal(vfs_mknod(&user, &dir, PLACE_NAME("c2"), VFS_CHR, 1, 3, &sattr, &node),
                     -EPERM);
    vfs_put(&dir);
}

static void hard_links(void **state)
{
    struct place *place = *state;
    struct vfs_handle root = place_handle(place, "");
    assert_int_equal(place_create(place, 1000, "", "f", 0644), 0);
    struct vfs_handle file = place_handle(place, "f");
    struct vfs_call call = place_call(place, 1000, 1000);
    struct vfs_node dir = {0}, node = {0};
    assert_int_equal(place_get(&call, &root, &dir), 0);
    assert_int_equal(place_get(&call, &file, &node), 0);
    assert_int_equal(vfs_link(&call, &node, &dir, PLACE_NAME("g")), 0);
    assert_int_equal(node.attr.nlink, 2);
    assert_int_equal(node.before.nlink, 1);
    assert_true(dir.has_before && dir.has_attr);
    assert_int_equal(vfs_link(&call, &node, &dir, PLACE_NAME("g")), -EEXIST);
    assert_int_equal(vfs_link(&call, &node, &dir, PLACE_NAME(".")), -EEXIST);
    assert_int_equal(vfs_remove(&call, &dir, PLACE_NAME("f")), 0);
    assert_int_equal(vfs_getattr(&call, &node), 0);
    assert_int_equal(node.attr.nlink, 1);
    vfs_put(&node);

    /* A symbolic link may be linked, not what it leads to; a directory may not. */
    assert_int_equal(symlink("g", place_local(place, "l")), 0);
    struct vfs_call root_call = place_root_call(place);
    vfs_put(&dir);
    assert_int_equal(place_get(&root_call, &root, &dir), 0);
    node = place_node(place, "l");
    assert_int_equal(vfs_link(&root_call, &node, &dir, PLACE_NAME("l2")), 0);
    vfs_put(&node);
    struct stat st;
    assert_int_equal(lstat(place_local(place, "l2"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    vfs_put(&dir);
    assert_int_equal(mkdir(place_local(place, "d"), 0755), 0);
    node = place_node(place, "d");
    assert_int_equal(place_get(&root_call, &root, &dir), 0);
    assert_int_equal(vfs_link(&root_call, &node, &dir, PLACE_NAME("d2")), -EPERM);
    vfs_put(&node);
    vfs_put(&dir);
}

static void renames(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkdir(place_local(place, "a"), 0755), 0);
    assert_int_equal(mkdir(place_local(place, "b"), 0755), 0);
    place_write_local(place, "a/f", "one", 0644, 0, 0);
    place_write_local(place, "b/f", "two", 0644, 0, 0);
    struct vfs_handle a = place_handle(place, "a"), b = place_handle(place, "b");
    struct vfs_handle victim = place_handle(place, "b/f");
    struct vfs_call call = place_root_call(place);
    struct vfs_node from = {0}, to = {0}, node = {0};
    assert_int_equal(place_get(&call, &a, &from), 0);
    assert_int_equal(place_get(&call, &b, &to), 0);
    assert_int_equal(vfs_rename(&call, &from, PLACE_NAME("f"), &to, PLACE_NAME("f")), 0);
    assert_true(from.has_before && from.has_attr && to.has_before && to.has_attr);
    assert_int_equal(vfs_rename(&call, &from, PLACE_NAME("f"), &to, PLACE_NAME("f")), -ENOENT);
    assert_int_equal(vfs_rename(&call, &to, PLACE_NAME("."), &from, PLACE_NAME("f")), -EINVAL);
    assert_int_equal(vfs_rename(&call, &to, PLACE_NAME("f"), &from, PLACE_NAME("..")), -EINVAL);
    assert_int_equal(place_get(&call, &victim, &node), 0);
    assert_int_equal(vfs_getattr(&call, &node), -ESTALE);
    vfs_put(&node);
    /* Within one directory, given twice. */
    struct vfs_node same = {0};
    assert_int_equal(place_get(&call, &b, &same), 0);
    assert_int_equal(vfs_rename(&call, &to, PLACE_NAME("f"), &same, PLACE_NAME("g")), 0);
    assert_memory_equal(&to.attr, &same.attr, sizeof to.attr);
    assert_memory_equal(&to.before, &same.before, sizeof to.before);
    vfs_put(&from);
    vfs_put(&to);
    vfs_put(&same);
}

static void read_only_exports_change_nothing(void **state)
{
    struct place *place = *state;
    struct export_options *options = &place->table->entries[0].clients[0].options;
    place_write_local(place, "f", "x", 0666, 0, 0);
    options->rw = false;
    struct vfs_node dir = place_node(place, ""), node = place_node(place, "f"), made = {0};
    struct vfs_call call = place_root_call(place);
    struct vfs_handle handle;
    struct vfs_sattr sattr = {.set_mode = true};
    uint8_t byte = 0;
    uint32_t written, granted;
    enum vfs_stable committed;
    vfs_node_handle(&dir, &handle);
    vfs_put(&dir);
    assert_int_equal(place_get(&call, &handle, &dir), 0);
    struct vfs_bytes name = PLACE_NAME("n");
    assert_int_equal(vfs_create(&call, &dir, name, VFS_UNCHECKED, &sattr, NULL, &made), -EROFS);
    assert_int_equal(vfs_mkdir(&call, &dir, name, &sattr, &made), -EROFS);
    assert_int_equal(vfs_symlink(&call, &dir, name, name, &sattr, &made), -EROFS);
    assert_int_equal(vfs_mknod(&call, &dir, name, VFS_FIFO, 0, 0, &sattr, &made), -EROFS);
    assert_int_equal(vfs_remove(&call, &dir, PLACE_NAME("f")), -EROFS);
    assert_int_equal(vfs_rmdir(&call, &dir, PLACE_NAME("f")), -EROFS);
    assert_int_equal(vfs_rename(&call, &dir, PLACE_NAME("f"), &dir, name), -EROFS);
    assert_int_equal(vfs_link(&call, &node, &dir, name), -EROFS);
    assert_int_equal(vfs_setattr(&call, &node, &sattr, NULL), -EROFS);
    assert_int_equal(vfs_write(&call, &node, 0, &byte, 1, VFS_UNSTABLE, &written, &committed),
                     -EROFS);
    assert_int_equal(vfs_access(&call, &node, VFS_MAY_READ | VFS_MAY_WRITE, &granted), 0);
    assert_int_equal(granted, VFS_MAY_READ);
    vfs_put(&node);
    vfs_put(&dir);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        TEST(exclusive_verifier_keeps_every_bit),
        TEST(guarded_never_takes_what_exists),
        TEST(unchecked_takes_what_exists_and_sets_only_the_size),
        TEST(before_and_after_enclose_the_change),
        TEST(names_are_judged),
        TEST(modes_and_groups_are_as_the_local_kernel_has_them),
        TEST(attributes_given_at_creation_are_set),
        TEST(links_and_devices),
        TEST(hard_links),
        TEST(renames),
        TEST(read_only_exports_change_nothing),
    };
    return place_possible() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
