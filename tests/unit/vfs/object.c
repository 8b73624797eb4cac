/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: bounded and found again. The numbers are those at the head of src/vfs/object.c. */
#include "place.h"

#include "vfs/internal.h"

#include <sys/resource.h>

static int setup_few(void **state)
{
    place_setup(state);
    struct place *place = *state;
    place->fd_count_max = 8;
    place_reopen(place);
    return 0;
}

/* 3: many more files than descriptors. */
static void few_descriptors_serve_many_files(void **state)
{
    struct place *place = *state;
    enum { COUNT = 200 };
    struct vfs_handle handles[COUNT];
    struct vfs_stats stats;
    uint8_t buffer[16];
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        place_write_local(place, name, name, 0644, 0, 0);
        handles[i] = place_handle(place, name);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            struct vfs_call call = place_root_call(place);
            struct vfs_node node = {0};
            struct vfs_data data;
            uint32_t written;
            enum vfs_stable committed;
            char name[16];
            int size = snprintf(name, sizeof name, "f%d", i);
            assert_int_equal(place_get(&call, &handles[i], &node), 0);
            assert_int_equal(vfs_read(&call, &node, 0, 16, buffer, 16, &data), 0);
            unit_same_bytes(data.bytes, data.size, (uint8_t *)name, (size_t)size);
            assert_int_equal(vfs_write(&call, &node, 0, (uint8_t *)name, (uint32_t)size,
                                       VFS_UNSTABLE, &written, &committed),
                             0);
            vfs_put(&node);
            vfs_stats(place->vfs, &stats);
            assert_true(stats.fds <= 8);
        }
    }
}

/* 3: all in use. The caller is told to come again, and it works when they are given back. */
static void running_out_is_a_passing_failure(void **state)
{
    struct place *place = *state;
    enum { COUNT = 9 };
    struct vfs_handle handles[COUNT];
    struct vfs_node nodes[COUNT] = {0};
    struct vfs_call call;
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        place_write_local(place, name, name, 0644, 0, 0);
        handles[i] = place_handle(place, name);
    }
    call = place_root_call(place);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(place_get(&call, &handles[i], &nodes[i]), 0);
        assert_int_equal(vfs_getattr(&call, &nodes[i]), i < 8 ? 0 : -EMFILE);
    }
    vfs_put(&nodes[0]);
    assert_int_equal(vfs_getattr(&call, &nodes[COUNT - 1]), 0);
    for (int i = 0; i < COUNT; i++) {
        vfs_put(&nodes[i]);
    }
}

/* The limit of the process was lowered under us. */
static void a_full_process_makes_room(void **state)
{
    struct place *place = *state;
    struct rlimit limit, old;
    struct vfs_handle handles[40];
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        place_write_local(place, name, name, 0644, 0, 0);
        handles[i] = place_handle(place, name);
    }
    place_reopen(place);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = old;
    limit.rlim_cur = 40;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 40; i++) {
            struct vfs_call call = place_root_call(place);
            struct vfs_node node = {0};
            assert_int_equal(place_get(&call, &handles[i], &node), 0);
            assert_int_equal(vfs_getattr(&call, &node), 0);
            vfs_put(&node);
        }
    }
    /* Others in the process find room, too. */
    struct vfs_stats stats;
    vfs_stats(place->vfs, &stats);
    assert_true(stats.fds <= 40 / 3);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* A removed file gives its space back at once, though it was open. */
static void a_removed_file_is_let_go_at_once(void **state)
{
    struct place *place = *state;
    struct vfs_stats before, after;
    place_write_local(place, "f", "text", 0644, 0, 0);
    struct vfs_handle root = place_handle(place, "");
    vfs_stats(place->vfs, &before);
    struct vfs_node node = place_node(place, "f");
    vfs_put(&node);
    assert_int_equal(place_remove_name(place, 0, "", "f"), 0);
    vfs_stats(place->vfs, &after);
    assert_int_equal(before.objects, after.objects);
    (void)root;
}

static void *hammer(void *arg)
{
    struct place *place = arg;
    uint64_t random = (uint64_t)pthread_self() | 1;
    struct sockaddr_in peer = place->peer;
    vfs_thread_begin();
    for (int i = 0; i < 2000; i++) {
        struct vfs_call call = {.vfs = place->vfs,
                                .peer = (struct sockaddr *)&peer,
                                .uid = (uint32_t)(unit_random(&random) % 2) * 1000};
        struct vfs_node root = {0}, node = {0};
        struct vfs_sattr sattr = {.set_mode = true, .mode = 0666};
        char name[8];
        snprintf(name, sizeof name, "f%d", (int)(unit_random(&random) % 20));
        assert_int_equal(vfs_root(&call, PLACE_NAME(place->path), &root), 0);
        int err = vfs_create(&call, &root, PLACE_NAME(name), VFS_UNCHECKED, &sattr, NULL, &node);
        assert_true(err == 0 || err == -EMFILE || err == -ENOENT || err == -ESTALE);
        if (err == 0) {
            uint32_t written;
            enum vfs_stable committed;
            err = vfs_write(&call, &node, unit_random(&random) % 4096, (const uint8_t *)"data", 4,
                            VFS_UNSTABLE, &written, &committed);
            assert_true(err == 0 || err == -ESTALE || err == -EMFILE || err == -EACCES);
        }
        vfs_put(&node);
        if (unit_random(&random) % 4 == 0) {
            struct vfs_node again = {0};
            char to[8];
            snprintf(to, sizeof to, "f%d", (int)(unit_random(&random) % 20));
            assert_int_equal(vfs_root(&call, PLACE_NAME(place->path), &again), 0);
            err = vfs_rename(&call, &root, PLACE_NAME(name), &again, PLACE_NAME(to));
            assert_true(err == 0 || err == -ENOENT || err == -EMFILE);
            vfs_put(&again);
        }
        if (unit_random(&random) % 4 == 0) {
            err = vfs_remove(&call, &root, PLACE_NAME(name));
            assert_true(err == 0 || err == -ENOENT || err == -EMFILE || err == -EPERM);
        }
        vfs_put(&root);
    }
    return NULL;
}

/* 1 and 2 */
static void threads_make_and_break_the_same_files(void **state)
{
    struct place *place = *state;
    pthread_t threads[6];
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, place), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    struct vfs_stats stats;
    vfs_stats(place->vfs, &stats);
    assert_true(stats.fds <= 24);
}

static int setup_some(void **state)
{
    place_setup(state);
    struct place *place = *state;
    place->fd_count_max = 24;
    place_reopen(place);
    return 0;
}

/* An inode does not change what locks it, whichever export it is reached through. */
static void two_exports_of_one_file_share_its_lock(void **state)
{
    struct place *place = *state;
    struct export_problems problems = {0};
    char line[1024];
    assert_int_equal(mkdir(place_local(place, "sub"), 0755), 0);
    place_write_local(place, "sub/f", "x", 0644, 0, 0);
    place_close(place);
    snprintf(line, sizeof line, "%s/sub *(rw,async,insecure,no_root_squash)\n", place->path);
    assert_int_equal(export_table_add_text(place->table, "test", line, strlen(line), &problems), 0);
    place_open(place);
    struct vfs_node outer = place_node(place, "sub/f"), sub = {0}, inner = {0};
    struct vfs_call call = place_root_call(place);
    snprintf(line, sizeof line, "%s/sub", place->path);
    assert_int_equal(vfs_root(&call, PLACE_NAME(line), &sub), 0);
    assert_int_equal(vfs_lookup(&call, &sub, PLACE_NAME("f"), &inner), 0);
    assert_int_equal(inner.attr.fileid, outer.attr.fileid);
    assert_int_not_equal(inner.attr.fsid, outer.attr.fsid);
    assert_true(inner.object != outer.object);
    assert_int_equal(inner.object->lock_index, outer.object->lock_index);
    vfs_put(&inner);
    vfs_put(&outer);
    vfs_put(&sub);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(few_descriptors_serve_many_files, setup_few,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(running_out_is_a_passing_failure, setup_few,
                                        place_teardown),
        TEST(a_full_process_makes_room),
        TEST(a_removed_file_is_let_go_at_once),
        cmocka_unit_test_setup_teardown(threads_make_and_break_the_same_files, setup_some,
                                        place_teardown),
        TEST(two_exports_of_one_file_share_its_lock),
    };
    return place_possible() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
