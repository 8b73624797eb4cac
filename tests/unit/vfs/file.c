/* SPDX-License-Identifier: Apache-2.0 */
/* READ, WRITE, COMMIT: RFC 1813 §3.3.6, §3.3.7, §3.3.21. */
#include "place.h"

#include "journal/commit.h"

#include <stdatomic.h>

struct file {
    struct place *place;
    struct vfs_handle handle;
};

static struct file make_file(struct place *place, const char *name, size_t size)
{
    struct file file = {.place = place};
    int fd = open(place_local(place, name), O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    uint8_t *bytes = malloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    }
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
    free(bytes);
    file.handle = place_handle(place, name);
    return file;
}

/* Reads as root; checks the bytes against the pattern; returns size, and eof. */
static int64_t read_file(struct file *file, uint64_t offset, uint32_t count, uint32_t buffer_bytes,
                         bool *eof)
{
    struct vfs_call call = place_root_call(file->place);
    struct vfs_node node = {0};
    struct vfs_data data;
    uint8_t *buffer = malloc(buffer_bytes + 1);
    int err = place_get(&call, &file->handle, &node);
    if (err == 0) {
        err = vfs_read(&call, &node, offset, count, buffer, buffer_bytes, &data);
    }
    int64_t result = err;
    if (err == 0) {
        assert_true(node.has_attr);
        assert_true(data.size <= count);
        uint8_t *copy = malloc(data.size + 1);
        if (data.bytes != NULL || data.size == 0) {
            memcpy(copy, data.bytes, data.size);
        } else {
            assert_int_equal(pread(data.fd, copy, data.size, (off_t)data.offset), data.size);
        }
        for (uint32_t i = 0; i < data.size; i++) {
            uint64_t at = offset + i;
            assert_int_equal(copy[i], (uint8_t)(at * 7 + at / 251));
        }
        free(copy);
        *eof = data.eof;
        result = data.size;
        if (data.release != NULL) {
            data.release(data.owner);
        }
    }
    vfs_put(&node);
    free(buffer);
    return result;
}

static void read_ends_where_the_file_does(void **state)
{
    static const struct {
        uint64_t offset;
        uint32_t count;
        uint32_t size;
        bool eof;
    } cases[] = {
        {0, 512, 139, true},
        {0, 139, 139, true},
        {0, 138, 138, false},
        {139, 1, 0, true},
        {UINT64_C(1) << 40, 1, 0, true},
        {0, 0, 0, false},
        {139, 0, 0, true},
        {UINT64_C(1) << 63, 0, 0, true},
        {UINT64_MAX, 8, 0, true},
        {138, UINT32_MAX, 1, true},
        {100, 20, 20, false},
    };
    struct place *place = *state;
    struct file file = make_file(place, "f", 139);
    bool eof = false;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(read_file(&file, cases[i].offset, cases[i].count, 4096, &eof),
                         cases[i].size);
        assert_int_equal(eof, cases[i].eof);
    }
    struct file empty = make_file(place, "empty", 0);
    assert_int_equal(read_file(&empty, 0, 1, 16, &eof), 0);
    assert_true(eof);
}

static void reads_of_every_size_bring_the_bytes(void **state)
{
    struct place *place = *state;
    const uint32_t size = 3 * 1024 * 1024 + 77;
    struct file file = make_file(place, "f", size);
    bool eof = false;
    for (uint32_t count = 1; count <= 1 << 21; count *= 2) {
        for (uint32_t buffer = 0; buffer <= 1 << 18; buffer = buffer * 8 + 1024) {
            assert_int_equal(read_file(&file, 12345, count, buffer, &eof), count);
            assert_false(eof);
            assert_int_equal(read_file(&file, size - count, count, buffer, &eof), count);
            assert_true(eof);
        }
    }
    /* From the disk. */
    int fd = open(place_local(place, "f"), O_RDONLY);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
    assert_int_equal(read_file(&file, 0, 1 << 20, 4096, &eof), 1 << 20);
}

static void only_files_are_read(void **state)
{
    struct place *place = *state;
    struct file dir = {.place = place, .handle = place_handle(place, "")};
    bool eof;
    assert_int_equal(read_file(&dir, 0, 10, 10, &eof), -EISDIR);
    assert_int_equal(symlink("x", place_local(place, "l")), 0);
    struct file link = {.place = place, .handle = place_handle(place, "l")};
    assert_int_equal(read_file(&link, 0, 10, 10, &eof), -EINVAL);
}

static int write_file(struct place *place, uint32_t uid, const struct vfs_handle *handle,
                      uint64_t offset, const char *text, uint32_t size, enum vfs_stable stable,
                      struct vfs_node *node, uint32_t *written, struct vfs_call *call)
{
    enum vfs_stable committed;
    *call = place_call(place, uid, uid);
    int err = place_get(call, handle, node);
    if (err == 0) {
        err =
            vfs_write(call, node, offset, (const uint8_t *)text, size, stable, written, &committed);
        assert_int_equal(committed, stable);
    }
    vfs_put(node);
    return err;
}

static void writes_land_and_report_before_and_after(void **state)
{
    struct place *place = *state;
    struct file file = make_file(place, "f", 0);
    struct vfs_node node = {0};
    struct vfs_call call;
    uint32_t written;
    assert_int_equal(
        write_file(place, 0, &file.handle, 0, "hello", 5, VFS_UNSTABLE, &node, &written, &call), 0);
    assert_int_equal(written, 5);
    assert_int_equal(node.before.size, 0);
    assert_int_equal(node.attr.size, 5);
    assert_int_equal(
        write_file(place, 0, &file.handle, 100, "x", 1, VFS_FILE_SYNC, &node, &written, &call), 0);
    assert_int_equal(node.before.size, 5);
    assert_int_equal(node.attr.size, 101);
    /* Nothing, anywhere, is fine and changes nothing. */
    assert_int_equal(
        write_file(place, 0, &file.handle, 5000, "", 0, VFS_FILE_SYNC, &node, &written, &call), 0);
    assert_int_equal(node.attr.size, 101);
    /* Where no file can be. */
    assert_int_equal(write_file(place, 0, &file.handle, INT64_MAX, "ab", 2, VFS_UNSTABLE, &node,
                                &written, &call),
                     -EFBIG);
    assert_int_equal(write_file(place, 0, &file.handle, UINT64_MAX, "ab", 2, VFS_UNSTABLE, &node,
                                &written, &call),
                     -EFBIG);
}

static void owner_reads_and_writes_whatever_the_mode(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_call call;
    struct vfs_data data;
    uint8_t buffer[16];
    uint32_t written;
    place_write_local(place, "f", "text", 0, 1000, 1000);
    struct vfs_handle handle = place_handle(place, "f");
    assert_int_equal(
        write_file(place, 1000, &handle, 0, "T", 1, VFS_UNSTABLE, &node, &written, &call), 0);
    assert_int_equal(
        write_file(place, 1001, &handle, 0, "T", 1, VFS_UNSTABLE, &node, &written, &call), -EACCES);
    call = place_call(place, 1000, 1000);
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(vfs_read(&call, &node, 0, 16, buffer, 16, &data), 0);
    assert_int_equal(data.size, 4);
    uint32_t granted;
    assert_int_equal(vfs_access(&call, &node, 7, &granted), 0);
    assert_int_equal(granted, 0); /* ACCESS tells the mode's truth */
    vfs_put(&node);

    call = place_call(place, 1001, 1001);
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(vfs_read(&call, &node, 0, 16, buffer, 16, &data), -EACCES);
    assert_int_equal(chmod(place_local(place, "f"), 0001), 0);
    call.batch = ++place->batch;
    assert_int_equal(vfs_read(&call, &node, 0, 16, buffer, 16, &data), 0); /* to run it */
    vfs_put(&node);
}

static void writing_clears_setuid(void **state)
{
    struct place *place = *state;
    struct vfs_node node = {0};
    struct vfs_call call;
    uint32_t written;
    place_write_local(place, "f", "text", 06777, 1000, 1000);
    struct vfs_handle handle = place_handle(place, "f");
    assert_int_equal(
        write_file(place, 1001, &handle, 0, "T", 1, VFS_UNSTABLE, &node, &written, &call), 0);
    assert_int_equal(node.attr.mode, 0777);
}

static void a_local_change_is_seen_by_the_next_call(void **state)
{
    struct place *place = *state;
    struct file file = make_file(place, "f", 10);
    struct vfs_node node = {0};
    for (int i = 0; i < 100; i++) {
        struct vfs_call call = place_root_call(place);
        assert_int_equal(truncate(place_local(place, "f"), 1000 + i), 0);
        assert_int_equal(place_get(&call, &file.handle, &node), 0);
        assert_int_equal(vfs_getattr(&call, &node), 0);
        assert_int_equal(node.attr.size, 1000 + i);
        vfs_put(&node);
    }
}

/* ---- stable storage ---- */

static atomic_int sync_calls;
static atomic_int sync_error;
static atomic_int sync_hows;

static int fake_sync(void *arg, int fd, int how)
{
    (void)arg;
    assert_true(fcntl(fd, F_GETFL) >= 0);
    atomic_fetch_or(&sync_hows, 1 << how);
    atomic_fetch_add(&sync_calls, 1);
    return atomic_load(&sync_error);
}

static int setup_fake_sync(void **state)
{
    place_setup_sync(state);
    struct place *place = *state;
    atomic_store(&sync_error, 0);
    place->sync = fake_sync;
    place_reopen(place);
    return 0;
}

static void stable_writes_wait_and_unstable_ones_do_not(void **state)
{
    struct place *place = *state;
    struct file file = make_file(place, "f", 0);
    struct vfs_node node = {0};
    struct vfs_call call;
    uint32_t written;
    assert_int_equal(
        write_file(place, 0, &file.handle, 0, "a", 1, VFS_UNSTABLE, &node, &written, &call), 0);
    assert_int_equal(call.lsn, 0);
    atomic_store(&sync_calls, 0);
    assert_int_equal(
        write_file(place, 0, &file.handle, 0, "a", 1, VFS_FILE_SYNC, &node, &written, &call), 0);
    assert_true(call.lsn > 0);
    assert_int_equal(place_wait(place, call.lsn), 0);
    assert_int_equal(atomic_load(&sync_calls), 1);
    call = place_root_call(place);
    assert_int_equal(place_get(&call, &file.handle, &node), 0);
    assert_int_equal(vfs_commit(&call, &node, 0, 0), 0);
    vfs_put(&node);
    assert_true(call.lsn > 0);
    assert_int_equal(place_wait(place, call.lsn), 0);
    assert_int_equal(atomic_load(&sync_calls), 2);
}

static void a_failed_sync_changes_the_write_verifier(void **state)
{
    struct place *place = *state;
    struct file file = make_file(place, "f", 0);
    struct vfs_node node = {0};
    struct vfs_call call;
    uint32_t written;
    uint64_t verf = vfs_writeverf(place->vfs);
    atomic_store(&sync_error, -EIO);
    assert_int_equal(
        write_file(place, 0, &file.handle, 0, "a", 1, VFS_FILE_SYNC, &node, &written, &call), 0);
    assert_int_equal(place_wait(place, call.lsn), -EIO);
    assert_int_not_equal(vfs_writeverf(place->vfs), verf);
    verf = vfs_writeverf(place->vfs);
    atomic_store(&sync_error, 0);
    assert_int_equal(
        write_file(place, 0, &file.handle, 0, "a", 1, VFS_FILE_SYNC, &node, &written, &call), 0);
    assert_int_equal(place_wait(place, call.lsn), 0);
    assert_int_equal(vfs_writeverf(place->vfs), verf);
}

/* Waits for the change, and returns how it was made durable: bits 1 << enum journal_how. */
static int settle(struct place *place, struct vfs_call *call, int err)
{
    assert_int_equal(err, 0);
    assert_true(call->lsn > 0);
    assert_int_equal(place_wait(place, call->lsn), 0);
    call->lsn = 0;
    return atomic_exchange(&sync_hows, 0);
}

static void every_change_of_a_sync_export_is_made_durable(void **state)
{
    struct place *place = *state;
    const int file = 1 << JOURNAL_FSYNC, whole = 1 << JOURNAL_SYNCFS;
    struct vfs_handle root = place_handle(place, "");
    struct vfs_call call = place_root_call(place);
    struct vfs_node dir = {0}, node = {0}, other = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0755};
    struct vfs_bytes name = PLACE_NAME("n"), target = PLACE_NAME("target");
    assert_int_equal(place_get(&call, &root, &dir), 0);
    assert_int_equal(place_get(&call, &root, &other), 0);
    atomic_store(&sync_hows, 0);

    assert_int_equal(settle(place, &call, vfs_mkdir(&call, &dir, name, &sattr, &node)), file);
    vfs_put(&node);
    assert_int_equal(settle(place, &call, vfs_rmdir(&call, &dir, name)), file);
    int err = vfs_create(&call, &dir, name, VFS_GUARDED, &sattr, NULL, &node);
    assert_int_equal(settle(place, &call, err), file);
    assert_int_equal(settle(place, &call, vfs_setattr(&call, &node, &sattr, NULL)), file);
    err = vfs_link(&call, &node, &dir, PLACE_NAME("m"));
    assert_int_equal(settle(place, &call, err), file);
    vfs_put(&node);
    err = vfs_rename(&call, &dir, name, &other, PLACE_NAME("o"));
    assert_int_equal(settle(place, &call, err), file);
    assert_int_equal(settle(place, &call, vfs_remove(&call, &dir, PLACE_NAME("o"))), file);
    err = vfs_create(&call, &dir, name, VFS_EXCLUSIVE, NULL, (const uint8_t *)"12345678", &node);
    assert_int_equal(settle(place, &call, err), file);
    vfs_put(&node);

    /* What has no descriptor to sync by. */
    err = vfs_symlink(&call, &dir, PLACE_NAME("l"), target, &sattr, &node);
    assert_true((settle(place, &call, err) & whole) != 0);
    sattr = (struct vfs_sattr){.mtime_how = VFS_TIME_NOW, .atime_how = VFS_TIME_NOW};
    assert_int_equal(settle(place, &call, vfs_setattr(&call, &node, &sattr, NULL)), whole);
    vfs_put(&node);
    err = vfs_mknod(&call, &dir, PLACE_NAME("p"), VFS_FIFO, 0, 0, &sattr, &node);
    assert_true((settle(place, &call, err) & whole) != 0);
    vfs_put(&node);

    /* What changed nothing waits for nothing. */
    err = vfs_create(&call, &dir, name, VFS_GUARDED, &sattr, NULL, &node);
    assert_int_equal(err, -EEXIST);
    assert_int_equal(call.lsn, 0);
    vfs_put(&other);
    vfs_put(&dir);
}

static atomic_int gate; /* syncs wait while 1 */

static int gated_sync(void *arg, int fd, int how)
{
    (void)arg;
    (void)fd;
    (void)how;
    while (atomic_load(&gate) != 0) {
        usleep(1000);
    }
    return 0;
}

static int setup_gated_sync(void **state)
{
    place_setup_sync(state);
    struct place *place = *state;
    atomic_store(&gate, 1);
    place->sync = gated_sync;
    place_reopen(place);
    return 0;
}

/* Whoever sees a change that is not durable depends on it. */
static void readers_depend_on_what_they_saw(void **state)
{
    struct place *place = *state;
    struct vfs_handle root = place_handle(place, "");
    struct vfs_call call = place_root_call(place), other;
    struct vfs_node dir = {0}, node = {0}, seen = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0644};
    assert_int_equal(place_get(&call, &root, &dir), 0);
    assert_int_equal(vfs_create(&call, &dir, PLACE_NAME("f"), VFS_GUARDED, &sattr, NULL, &node), 0);
    assert_true(call.lsn > 0);

    other = place_root_call(place);
    assert_int_equal(place_get(&other, &root, &seen), 0);
    assert_int_equal(vfs_getattr(&other, &seen), 0);
    assert_int_equal(other.lsn, call.lsn);
    other.lsn = 0;
    struct vfs_node child = {0};
    assert_int_equal(vfs_lookup(&other, &seen, PLACE_NAME("f"), &child), 0);
    assert_int_equal(other.lsn, call.lsn);
    vfs_put(&child);
    other.lsn = 0;
    assert_int_equal(vfs_lookup(&other, &seen, PLACE_NAME("none"), &child), -ENOENT);
    assert_int_equal(other.lsn, call.lsn);
    vfs_put(&seen);

    atomic_store(&gate, 0);
    assert_int_equal(place_wait(place, call.lsn), 0);
    other = place_root_call(place);
    assert_int_equal(place_get(&other, &root, &seen), 0);
    assert_int_equal(vfs_getattr(&other, &seen), 0);
    assert_int_equal(other.lsn, 0);
    vfs_put(&seen);
    vfs_put(&node);
    vfs_put(&dir);
}

static void async_exports_wait_for_nothing(void **state)
{
    struct place *place = *state;
    struct vfs_handle root = place_handle(place, "");
    struct vfs_call call = place_root_call(place);
    struct vfs_node dir = {0}, node = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0644};
    uint32_t written;
    enum vfs_stable committed;
    assert_int_equal(place_get(&call, &root, &dir), 0);
    assert_int_equal(vfs_create(&call, &dir, PLACE_NAME("f"), VFS_GUARDED, &sattr, NULL, &node), 0);
    assert_int_equal(
        vfs_write(&call, &node, 0, (const uint8_t *)"x", 1, VFS_FILE_SYNC, &written, &committed),
        0);
    assert_int_equal(committed, VFS_FILE_SYNC);
    assert_int_equal(vfs_commit(&call, &node, 0, 0), 0);
    assert_int_equal(vfs_setattr(&call, &node, &sattr, NULL), 0);
    assert_int_equal(vfs_remove(&call, &dir, PLACE_NAME("f")), 0);
    assert_int_equal(call.lsn, 0);
    vfs_put(&node);
    vfs_put(&dir);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        TEST(read_ends_where_the_file_does),
        TEST(reads_of_every_size_bring_the_bytes),
        TEST(only_files_are_read),
        TEST(writes_land_and_report_before_and_after),
        TEST(owner_reads_and_writes_whatever_the_mode),
        TEST(writing_clears_setuid),
        TEST(a_local_change_is_seen_by_the_next_call),
        cmocka_unit_test_setup_teardown(stable_writes_wait_and_unstable_ones_do_not,
                                        setup_fake_sync, place_teardown),
        cmocka_unit_test_setup_teardown(a_failed_sync_changes_the_write_verifier, setup_fake_sync,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(every_change_of_a_sync_export_is_made_durable,
                                        setup_fake_sync, place_teardown),
        cmocka_unit_test_setup_teardown(readers_depend_on_what_they_saw, setup_gated_sync,
                                        place_teardown),
        TEST(async_exports_wait_for_nothing),
    };
    return place_possible() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
