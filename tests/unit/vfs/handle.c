/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: what they survive, and what they do not. Invariants 1 to 3 of vfs/node.h. */
#include "place.h"

#include <arpa/inet.h>

static int getattr(struct place *place, const struct vfs_handle *handle, struct vfs_attr *attr)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = {0};
    int err = place_get(&call, handle, &node);
    if (err == 0) {
        err = vfs_getattr(&call, &node);
        *attr = node.attr;
    }
    vfs_put(&node);
    return err;
}

static void handle_is_32_bytes_or_fewer(void **state)
{
    struct place *place = *state;
    assert_true(place_handle(place, "").size <= 32);
    assert_int_equal(place_create(place, 0, "", "file", 0644), 0);
    assert_true(place_handle(place, "file").size <= 32);
}

static void handle_survives_rename_and_reopen(void **state)
{
    struct place *place = *state;
    struct vfs_attr before = {0}, after = {0};
    assert_int_equal(mkdir(place_local(place, "d"), 0755), 0);
    assert_int_equal(place_create(place, 0, "d", "f", 0644), 0);
    struct vfs_handle handle = place_handle(place, "d/f");
    struct vfs_handle root = place_handle(place, "");
    assert_int_equal(getattr(place, &handle, &before), 0);

    assert_int_equal(rename(place_local(place, "d/f"), place_local(place, "d/g")), 0);
    assert_int_equal(rename(place_local(place, "d"), place_local(place, "e")), 0);
    assert_int_equal(getattr(place, &handle, &after), 0);
    assert_int_equal(before.fileid, after.fileid);

    place_reopen(place);
    assert_int_equal(getattr(place, &handle, &after), 0);
    assert_int_equal(before.fileid, after.fileid);
    assert_int_equal(before.fsid, after.fsid);
    struct vfs_handle again = place_handle(place, "e/g");
    unit_same_bytes(again.bytes, again.size, handle.bytes, handle.size);
    again = place_handle(place, "");
    unit_same_bytes(again.bytes, again.size, root.bytes, root.size);
}

static void handle_with_any_bit_changed_is_refused(void **state)
{
    struct place *place = *state;
    struct vfs_attr attr = {0};
    assert_int_equal(place_create(place, 0, "", "f", 0644), 0);
    struct vfs_handle good = place_handle(place, "f");
    for (uint32_t bit = 0; bit < good.size * 8; bit++) {
        struct vfs_handle bad = good;
        bad.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(getattr(place, &bad, &attr), -EBADF);
    }
    assert_int_equal(getattr(place, &good, &attr), 0);
}

static void handle_of_any_other_length_is_refused(void **state)
{
    struct place *place = *state;
    struct vfs_attr attr = {0};
    struct vfs_handle good = place_handle(place, "");
    for (uint32_t size = 0; size <= VFS_HANDLE_BYTES_MAX; size++) {
        struct vfs_handle bad = {.size = size};
        memcpy(bad.bytes, good.bytes, size < good.size ? size : good.size);
        /* RFC 1094 §2.3.3: 32 bytes, padded with zeros, come from NFSv2 and MOUNT version 1. */
        bool good_size = size == good.size || (size == 32 && good.size < 32);
        assert_int_equal(getattr(place, &bad, &attr), good_size ? 0 : -EBADF);
    }
}

static void handle_of_another_key_is_refused(void **state)
{
    struct place *place = *state;
    struct vfs_attr attr = {0};
    char key[400];
    struct vfs_handle handle = place_handle(place, "");
    place_close(place);
    snprintf(key, sizeof key, "%s/handle-key", place->state);
    assert_int_equal(unlink(key), 0);
    place_open(place);
    assert_int_equal(getattr(place, &handle, &attr), -EBADF);
    struct stat st;
    assert_int_equal(stat(key, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 16);
}

static void damaged_key_is_an_error_that_names_it(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct vfs *vfs = NULL;
    char key[400];
    place_close(place);
    snprintf(key, sizeof key, "%s/handle-key", place->state);
    assert_int_equal(truncate(key, 5), 0);
    struct vfs_options options = {.state_dir = place->state, .table = place->table};
    assert_int_not_equal(vfs_open(&options, &vfs, &err), 0);
    assert_non_null(strstr(err.text, key));
    assert_int_equal(unlink(key), 0);
    place_open(place);
}

static void handle_of_a_deleted_file_is_stale(void **state)
{
    struct place *place = *state;
    struct vfs_attr attr = {0};
    assert_int_equal(place_create(place, 0, "", "ours", 0644), 0);
    struct vfs_handle handle = place_handle(place, "ours");
    assert_int_equal(place_remove_name(place, 0, "", "ours"), 0);
    assert_int_equal(getattr(place, &handle, &attr), -ESTALE);

    /* By a local process, while we have it cached. */
    place_write_local(place, "theirs", "x", 0644, 0, 0);
    handle = place_handle(place, "theirs");
    assert_int_equal(getattr(place, &handle, &attr), 0);
    assert_int_equal(unlink(place_local(place, "theirs")), 0);
    assert_int_equal(getattr(place, &handle, &attr), -ESTALE);
    place_reopen(place);
    assert_int_equal(getattr(place, &handle, &attr), -ESTALE);
}

static void handle_of_a_removed_directory_is_stale(void **state)
{
    struct place *place = *state;
    struct vfs_attr attr = {0};
    assert_int_equal(mkdir(place_local(place, "d"), 0755), 0);
    struct vfs_handle handle = place_handle(place, "d");
    assert_int_equal(rmdir(place_local(place, "d")), 0);
    struct vfs_call call = place_root_call(place);
    struct vfs_node dir = {0}, node = {0};
    struct vfs_sattr sattr = {0};
    assert_int_equal(place_get(&call, &handle, &dir), 0);
    assert_int_equal(vfs_create(&call, &dir, PLACE_NAME("f"), VFS_GUARDED, &sattr, NULL, &node),
                     -ESTALE);
    vfs_put(&dir);
    assert_int_equal(getattr(place, &handle, &attr), -ESTALE);
}

static void handle_stays_stale_when_the_inode_is_used_again(void **state)
{
    struct place *place = *state;
    struct vfs_attr attr = {0};
    place_write_local(place, "f", "first", 0644, 0, 0);
    struct vfs_handle old = place_handle(place, "f");
    assert_int_equal(getattr(place, &old, &attr), 0);
    uint64_t fileid = attr.fileid;
    bool again = false;
    for (int i = 0; i < 2000 && !again; i++) {
        struct stat st;
        char name[32];
        if (i == 0) {
            assert_int_equal(place_remove_name(place, 0, "", "f"), 0);
            /* ext4 does not give an inode away that was freed in the last seconds. */
            sync();
        }
        snprintf(name, sizeof name, "n%d", i);
        place_write_local(place, name, "second", 0644, 0, 0);
        assert_int_equal(stat(place_local(place, name), &st), 0);
        again = st.st_ino == fileid;
        if (again) {
            struct vfs_handle new = place_handle(place, name);
            assert_int_equal(getattr(place, &new, &attr), 0);
            assert_int_equal(attr.fileid, fileid);
            assert_int_equal(getattr(place, &old, &attr), -ESTALE);
            place_reopen(place);
            assert_int_equal(getattr(place, &old, &attr), -ESTALE);
        }
    }
    assert_int_equal(getattr(place, &old, &attr), -ESTALE);
    if (!again) {
        print_message("the file system did not use the inode again\n");
    }
}

static void handle_is_for_the_clients_of_the_export_only(void **state)
{
    struct place *place = *state;
    struct vfs_handle handle = place_handle(place, "");
    struct export_problems problems = {0};
    char line[400];
    place_close(place);
    export_table_free(place->table);
    place->table = export_table_new();
    snprintf(line, sizeof line, "%s 127.0.0.2(rw,secure)\n", place->path);
    assert_int_equal(export_table_add_text(place->table, "test", line, strlen(line), &problems), 0);
    export_problems_free(&problems);
    place_open(place);

    struct vfs_call call = place_root_call(place);
    struct vfs_node node = {0};
    assert_int_equal(place_get(&call, &handle, &node), -EACCES);
    assert_int_equal(vfs_root(&call, PLACE_NAME(place->path), &node), -EACCES);
    place->peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    assert_int_equal(place_get(&call, &handle, &node), 0);
    vfs_put(&node);
    place->peer.sin_port = htons(1024);
    assert_int_equal(place_get(&call, &handle, &node), -EPERM);
    assert_null(node.object);
}

static void write_verifier_is_new_with_every_start(void **state)
{
    struct place *place = *state;
    uint64_t seen[8];
    for (size_t i = 0; i < 8; i++) {
        seen[i] = vfs_writeverf(place->vfs);
        assert_int_equal(seen[i], vfs_writeverf(place->vfs));
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(seen[i], seen[j]);
        }
        place_reopen(place);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        TEST(handle_is_32_bytes_or_fewer),
        TEST(handle_survives_rename_and_reopen),
        TEST(handle_with_any_bit_changed_is_refused),
        TEST(handle_of_any_other_length_is_refused),
        TEST(handle_of_another_key_is_refused),
        TEST(damaged_key_is_an_error_that_names_it),
        TEST(handle_of_a_deleted_file_is_stale),
        TEST(handle_of_a_removed_directory_is_stale),
        TEST(handle_stays_stale_when_the_inode_is_used_again),
        TEST(handle_is_for_the_clients_of_the_export_only),
        TEST(write_verifier_is_new_with_every_start),
    };
    return place_possible() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
