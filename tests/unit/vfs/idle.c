/* SPDX-License-Identifier: Apache-2.0 */
/* What happens when nobody asks for a few seconds. The numbers are those of src/vfs/object.c. */
#include "place.h"

#include <sys/wait.h>

#define WAIT_TENTHS_MAX 100

/* 4 */
static void idle_objects_are_forgotten(void **state)
{
    struct place *place = *state;
    struct vfs_stats stats;
    assert_int_equal(place_create(place, 0, "", "f", 0755), 0);
    vfs_stats(place->vfs, &stats);
    assert_true(stats.fds > 0 && stats.objects > 0);
    for (int i = 0; i < WAIT_TENTHS_MAX && stats.objects > 0; i++) {
        usleep(100000);
        vfs_stats(place->vfs, &stats);
    }
    assert_int_equal(stats.fds, 0);
    assert_int_equal(stats.objects, 0);
}

/* The status of a program, or -errno of execve. */
static int execute(const char *path)
{
    int result[2];
    int status = 0;
    assert_int_equal(pipe2(result, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char *const argv[] = {(char *)(uintptr_t)path, NULL};
        execv(path, argv);
        int error = -errno;
        if (write(result[1], &error, sizeof error) < 0) {
            _exit(2);
        }
        _exit(1);
    }
    close(result[1]);
    int error = 0;
    ssize_t got = read(result[0], &error, sizeof error);
    close(result[0]);
    waitpid(child, &status, 0);
    return got > 0 ? error : WEXITSTATUS(status);
}

/* 4 and 5: though its data may still be on the way to the disk. */
static void a_program_that_was_written_can_be_executed(void **state)
{
    struct place *place = *state;
    static uint8_t bytes[1 << 20];
    int from = open("/bin/true", O_RDONLY);
    assert_true(from >= 0);
    ssize_t size = read(from, bytes, sizeof bytes);
    close(from);
    assert_true(size > 0);
    assert_int_equal(place_create(place, 0, "", "program", 0755), 0);
    struct vfs_handle handle = place_handle(place, "program");
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = {0};
    uint32_t written;
    enum vfs_stable committed;
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(
        vfs_write(&call, &node, 0, bytes, (uint32_t)size, VFS_UNSTABLE, &written, &committed), 0);
    assert_int_equal(written, size);
    vfs_put(&node);
    int status = execute(place_local(place, "program"));
    for (int i = 0; i < WAIT_TENTHS_MAX && status == -ETXTBSY; i++) {
        usleep(100000);
        status = execute(place_local(place, "program"));
    }
    assert_int_equal(status, 0);
}

/* A local process deletes a file that we have open: its space comes back. */
static void a_file_deleted_by_others_is_let_go(void **state)
{
    struct place *place = *state;
    struct vfs_stats stats;
    assert_int_equal(place_create(place, 0, "", "f", 0644), 0);
    struct vfs_handle handle = place_handle(place, "f");
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = {0};
    uint32_t written;
    enum vfs_stable committed;
    assert_int_equal(place_get(&call, &handle, &node), 0);
    assert_int_equal(
        vfs_write(&call, &node, 0, (const uint8_t *)"x", 1, VFS_UNSTABLE, &written, &committed), 0);
    vfs_put(&node);
    assert_int_equal(unlink(place_local(place, "f")), 0);
    vfs_stats(place->vfs, &stats);
    for (int i = 0; i < WAIT_TENTHS_MAX && stats.fds > 0; i++) {
        usleep(100000);
        vfs_stats(place->vfs, &stats);
    }
    assert_int_equal(stats.fds, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        TEST(idle_objects_are_forgotten),
        TEST(a_program_that_was_written_can_be_executed),
        TEST(a_file_deleted_by_others_is_let_go),
    };
    return place_possible() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
