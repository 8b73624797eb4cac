/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-range locks of files: among clients, and with a process of this machine. */
#include "vfs/range_lock.h"
#include "place.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#define WAIT_TENTHS_MAX 300

/* A waiter that notes what becomes of it. */
struct waiter {
    struct vfs_range_waiter waiter; /* first */
    _Atomic(int) granted, dropped;
    _Atomic(uint64_t) life;
};

static void granted(struct vfs_range_waiter *waiter, uint64_t life)
{
    struct waiter *mine = (struct waiter *)waiter;
    mine->life = life;
    mine->granted++;
}

static void dropped(struct vfs_range_waiter *waiter)
{
    ((struct waiter *)waiter)->dropped++;
}

static struct waiter waiter_new(void)
{
    return (struct waiter){.waiter = {granted, dropped}};
}

static struct vfs_range_owner owner_of(const char *client, const char *name)
{
    return (struct vfs_range_owner){PLACE_NAME(client), PLACE_NAME(name), 0};
}

static const struct vfs_range all_exclusive = {true, 0, UINT64_MAX};
static const struct vfs_range all_shared = {false, 0, UINT64_MAX};

static int set_as(struct place *place, uint32_t uid, const char *path,
                  const struct vfs_range_owner *owner, const struct vfs_range *range,
                  struct waiter *waiter)
{
    struct vfs_handle handle = place_handle(place, path);
    struct vfs_call call = place_call(place, uid, uid);
    struct vfs_node node = {0};
    assert_int_equal(place_get(&call, &handle, &node), 0);
    int err = vfs_range_set(&call, &node, owner, range, waiter != NULL ? &waiter->waiter : NULL);
    vfs_put(&node);
    return err;
}

static int set(struct place *place, const char *path, const char *client,
               const struct vfs_range *range, struct waiter *waiter)
{
    struct vfs_range_owner owner = owner_of(client, "1");
    return set_as(place, 0, path, &owner, range, waiter);
}

static void clear(struct place *place, const char *path, const char *client,
                  const struct vfs_range *range)
{
    struct vfs_range_owner owner = owner_of(client, "1");
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = place_node(place, path);
    assert_int_equal(vfs_range_clear(&call, &node, &owner, range), 0);
    vfs_put(&node);
}

static int cancel(struct place *place, const char *path, const char *client,
                  const struct vfs_range *range)
{
    struct vfs_range_owner owner = owner_of(client, "1");
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = place_node(place, path);
    int err = vfs_range_cancel(&call, &node, &owner, range);
    vfs_put(&node);
    return err;
}

static int test(struct place *place, const char *path, const char *client,
                const struct vfs_range *range, struct vfs_range_holder *holder)
{
    struct vfs_range_owner owner = owner_of(client, "1");
    struct vfs_handle handle = place_handle(place, path);
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = {0};
    assert_int_equal(place_get(&call, &handle, &node), 0);
    int err = vfs_range_test(&call, &node, &owner, range, holder);
    vfs_put(&node);
    return err;
}

static int setup(void **state)
{
    int error = place_setup(state);
    if (error == 0) {
        place_write_local(*state, "f", "0123456789", 0644, 0, 0);
    }
    return error;
}

static void nothing_is_left(struct place *place)
{
    struct vfs_range_stats stats;
    vfs_range_stats(place->vfs, &stats);
    assert_int_equal(stats.count, 0);
    assert_int_equal(stats.clients, 0);
    assert_int_equal(stats.files, 0);
}

/* ---- a process of this machine ---- */

/* Tries or tests a lock in another process: 0, or errno; as a test, the type that is in the way. */
static int in_process(struct place *place, const char *path, int command, short type, off_t start,
                      off_t length)
{
    const char *local = place_local(place, path);
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct flock flock = {.l_type = type, .l_start = start, .l_len = length};
        int fd = open(local, O_RDWR);
        int err = fd < 0 || fcntl(fd, command, &flock) != 0 ? errno : 0;
        _exit(err != 0 ? err : command == F_GETLK ? flock.l_type : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

/* Takes a lock here, for as long as the descriptor lives. */
static int local_lock(struct place *place, const char *path, short type, off_t start, off_t length)
{
    struct flock flock = {.l_type = type, .l_start = start, .l_len = length};
    int fd = open(place_local(place, path), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &flock), 0);
    return fd;
}

static void processes_meet_the_locks_of_clients(void **state)
{
    struct place *place = *state;
    struct vfs_range low = {true, 0, 4}, high = {false, 5, UINT64_MAX};
    assert_int_equal(set(place, "f", "a", &low, NULL), 0);
    assert_int_equal(set(place, "f", "a", &high, NULL), 0);
    assert_int_equal(set(place, "f", "b", &high, NULL), 0);
    assert_int_equal(in_process(place, "f", F_SETLK, F_RDLCK, 4, 1), EAGAIN);
    assert_int_equal(in_process(place, "f", F_SETLK, F_RDLCK, 5, 0), 0);
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 1000, 1), EAGAIN);
    /* One of two shared locks keeps it. */
    clear(place, "f", "a", &high);
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 1000, 1), EAGAIN);
    clear(place, "f", "b", &(struct vfs_range){false, 10, 19});
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 10, 10), 0);
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 9, 1), EAGAIN);
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 20, 1), EAGAIN);
    /* Downgraded. */
    assert_int_equal(set(place, "f", "a", &(struct vfs_range){false, 0, 1}, NULL), 0);
    assert_int_equal(in_process(place, "f", F_SETLK, F_RDLCK, 0, 2), 0);
    assert_int_equal(in_process(place, "f", F_SETLK, F_RDLCK, 2, 1), EAGAIN);
    clear(place, "f", "a", &all_shared);
    clear(place, "f", "b", &all_shared);
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 0, 0), 0);
    nothing_is_left(place);
}

static void clients_meet_the_locks_of_processes(void **state)
{
    struct place *place = *state;
    struct vfs_range_holder holder;
    int fd = local_lock(place, "f", F_WRLCK, 2, 3);
    assert_int_equal(set(place, "f", "a", &all_shared, NULL), -EAGAIN);
    nothing_is_left(place);
    assert_int_equal(test(place, "f", "a", &all_shared, &holder), -EAGAIN);
    assert_true(holder.is_local && holder.range.exclusive);
    assert_int_equal(holder.range.start, 2);
    assert_int_equal(holder.range.end, 4);
    assert_int_equal(set(place, "f", "a", &(struct vfs_range){true, 5, UINT64_MAX}, NULL), 0);
    assert_int_equal(test(place, "f", "a", &(struct vfs_range){true, 0, 1}, &holder), 0);
    /* What we hold ourselves is in nobody's way but others'. */
    assert_int_equal(test(place, "f", "a", &(struct vfs_range){true, 5, 9}, &holder), 0);
    assert_int_equal(test(place, "f", "b", &(struct vfs_range){true, 5, 9}, &holder), -EAGAIN);
    assert_false(holder.is_local);
    assert_int_equal(holder.client_bytes, 1);
    assert_memory_equal(holder.client, "a", 1);
    close(fd);
}

static void a_waiter_outlasts_a_process(void **state)
{
    struct place *place = *state;
    struct waiter first = waiter_new(), again = waiter_new();
    int fd = local_lock(place, "f", F_RDLCK, 0, 0);
    assert_int_equal(set(place, "f", "a", &all_exclusive, &first), -EINPROGRESS);
    assert_int_equal(set(place, "f", "a", &all_exclusive, &again), -EALREADY);
    usleep(3 * RANGE_POLL_MS_MIN * 1000);
    assert_int_equal(first.granted, 0);
    close(fd);
    for (int i = 0; i < WAIT_TENTHS_MAX && first.granted == 0; i++) {
        usleep(100000);
    }
    assert_int_equal(first.granted, 1);
    assert_int_equal(first.dropped + again.granted + again.dropped, 0);
    assert_int_equal(in_process(place, "f", F_SETLK, F_RDLCK, 0, 0), EAGAIN);
}

/* ---- waiters ---- */

static void unlocking_serves_the_line(void **state)
{
    struct place *place = *state;
    struct waiter writer = waiter_new(), reader = waiter_new(), other = waiter_new();
    assert_int_equal(set(place, "f", "a", &all_shared, NULL), 0);
    assert_int_equal(set(place, "f", "w", &all_exclusive, &writer), -EINPROGRESS);
    assert_int_equal(set(place, "f", "r", &all_shared, &reader), -EINPROGRESS);
    /* Who does not wait is judged by what is held. */
    assert_int_equal(set(place, "f", "x", &all_shared, NULL), 0);
    clear(place, "f", "x", &all_shared);
    assert_int_equal(writer.granted + reader.granted, 0);
    clear(place, "f", "a", &all_shared);
    assert_int_equal(writer.granted, 1);
    assert_int_equal(reader.granted, 0);
    assert_int_equal(set(place, "f", "a", &all_exclusive, &other), -EINPROGRESS);
    clear(place, "f", "w", &all_exclusive);
    assert_int_equal(reader.granted, 1);
    assert_int_equal(other.granted, 0);
    /* Whoever stood behind a waiter that gives up moves on. */
    struct waiter late = waiter_new();
    assert_int_equal(set(place, "f", "l", &all_shared, &late), -EINPROGRESS);
    assert_int_equal(cancel(place, "f", "a", &all_shared), -ENOENT);
    assert_int_equal(cancel(place, "f", "a", &all_exclusive), 0);
    assert_int_equal(other.dropped, 1);
    assert_int_equal(late.granted, 1);
}

static void asking_again_can_be_the_grant(void **state)
{
    struct place *place = *state;
    struct waiter waiter = waiter_new(), again = waiter_new();
    int fd = local_lock(place, "f", F_WRLCK, 0, 0);
    assert_int_equal(set(place, "f", "a", &all_exclusive, &waiter), -EINPROGRESS);
    close(fd);
    int err = set(place, "f", "a", &all_exclusive, &again);
    assert_int_equal(err, 0);
    assert_int_equal(waiter.granted + waiter.dropped, 1); /* the keeper may have been first */
    assert_int_equal(again.granted + again.dropped, 0);
}

static void a_grant_is_taken_back_once(void **state)
{
    struct place *place = *state;
    struct waiter waiter = waiter_new();
    struct vfs_range_owner owner = owner_of("b", "1");
    struct vfs_handle handle = place_handle(place, "f");
    assert_int_equal(set(place, "f", "a", &all_exclusive, NULL), 0);
    assert_int_equal(set(place, "f", "b", &all_exclusive, &waiter), -EINPROGRESS);
    clear(place, "f", "a", &all_exclusive);
    assert_int_equal(waiter.granted, 1);
    assert_true(vfs_range_take_back(place->vfs, &handle, &owner, &all_exclusive, waiter.life));
    assert_int_equal(set(place, "f", "b", &all_exclusive, NULL), 0);
    /* That is another lock now. */
    assert_false(vfs_range_take_back(place->vfs, &handle, &owner, &all_exclusive, waiter.life));
    assert_int_equal(set(place, "f", "a", &all_exclusive, NULL), -EAGAIN);
}

static void a_circle_is_refused(void **state)
{
    struct place *place = *state;
    struct waiter waiter = waiter_new(), other = waiter_new();
    struct vfs_range low = {true, 0, 0}, high = {true, 1, 1};
    assert_int_equal(set(place, "f", "a", &low, NULL), 0);
    assert_int_equal(set(place, "f", "b", &high, NULL), 0);
    assert_int_equal(set(place, "f", "a", &high, &waiter), -EINPROGRESS);
    assert_int_equal(set(place, "f", "b", &low, &other), -EDEADLK);
    clear(place, "f", "b", &high);
    assert_int_equal(waiter.granted, 1);
}

/* ---- the end of a client ---- */

static void a_client_goes_with_all_it_has(void **state)
{
    struct place *place = *state;
    struct waiter waiter = waiter_new(), next = waiter_new();
    place_write_local(place, "g", "x", 0644, 0, 0);
    assert_int_equal(set(place, "f", "a", &all_exclusive, NULL), 0);
    assert_int_equal(set(place, "g", "b", &all_exclusive, NULL), 0);
    assert_int_equal(set(place, "g", "a", &all_shared, &waiter), -EINPROGRESS);
    assert_int_equal(set(place, "f", "b", &all_shared, &next), -EDEADLK);
    struct vfs_range_owner second = owner_of("b", "2");
    assert_int_equal(set_as(place, 0, "f", &second, &all_shared, &next), -EINPROGRESS);
    vfs_range_release(place->vfs, PLACE_NAME("a"), 0);
    assert_int_equal(waiter.dropped, 1);
    assert_int_equal(next.granted, 1);
    assert_false(vfs_range_client_is_busy(place->vfs, PLACE_NAME("a")));
    assert_true(vfs_range_client_is_busy(place->vfs, PLACE_NAME("b")));
    vfs_range_release(place->vfs, PLACE_NAME("b"), 0);
    nothing_is_left(place);
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 0, 0), 0);
}

static void only_earlier_lives_are_released(void **state)
{
    struct place *place = *state;
    struct vfs_range_owner old = owner_of("a", "1"), new = owner_of("a", "2");
    struct vfs_range low = {true, 0, 0}, high = {true, 1, 1};
    old.state = 3;
    new.state = 5;
    assert_int_equal(set_as(place, 0, "f", &old, &low, NULL), 0);
    assert_int_equal(set_as(place, 0, "f", &new, &high, NULL), 0);
    vfs_range_release(place->vfs, PLACE_NAME("a"), 5);
    assert_int_equal(set(place, "f", "b", &low, NULL), 0);
    assert_int_equal(set(place, "f", "b", &high, NULL), -EAGAIN);
    /* The same name in another life is another owner. */
    new.state = 7;
    assert_int_equal(set_as(place, 0, "f", &new, &(struct vfs_range){true, 9, 9}, NULL), 0);
    assert_int_equal(set(place, "f", "b", &high, NULL), 0);
}

/* ---- who may ---- */

/* Stands in for the C library's, which the server's locks go through. */
static atomic_uint fcntl_count;
int fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    atomic_fetch_add(&fcntl_count, 1);
    return (int)syscall(SYS_fcntl, fd, command, arg);
}

/* Owners of two clients take turns in one file: between any two locks of one lies one of the
 * other. */
static void take_turns(struct place *place, uint32_t count)
{
    char name[16];
    for (uint32_t i = 0; i < 2 * count; i++) {
        const struct vfs_range range = {true, 2 * i, 2 * i};
        snprintf(name, sizeof name, "%u", i);
        struct vfs_range_owner owner = owner_of(i % 2 == 0 ? "a" : "b", name);
        assert_int_equal(set_as(place, 0, "f", &owner, &range, NULL), 0);
    }
}

static void a_release_costs_what_it_releases(void **state)
{
    struct place *place = *state;
    const uint32_t count = 300;
    take_turns(place, count);
    atomic_store(&fcntl_count, 0);
    vfs_range_release(place->vfs, PLACE_NAME("a"), 0);
    assert_in_range(atomic_load(&fcntl_count), count, 2 * count);
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 0, 1), 0);
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 2, 1), EAGAIN);
    vfs_range_release(place->vfs, PLACE_NAME("b"), 0);
    assert_int_equal(in_process(place, "f", F_SETLK, F_WRLCK, 0, 0), 0);
    nothing_is_left(place);
}

static void *release_a(void *arg)
{
    struct place *place = arg;
    vfs_thread_begin();
    vfs_range_release(place->vfs, PLACE_NAME("a"), 0);
    return NULL;
}

static void others_have_their_turn_during_a_release(void **state)
{
    struct place *place = *state;
    const uint32_t count = 2000;
    struct vfs_range_stats stats;
    pthread_t thread;
    bool between = false;
    take_turns(place, count);
    assert_int_equal(pthread_create(&thread, NULL, release_a, place), 0);
    do {
        vfs_range_stats(place->vfs, &stats);
        between = between || (stats.count > count && stats.count < 2 * count);
    } while (stats.count > count);
    pthread_join(thread, NULL);
    assert_true(between);
    vfs_range_release_all(place->vfs);
    nothing_is_left(place);
}

static void locking_wants_the_right_to_read(void **state)
{
    struct place *place = *state;
    struct vfs_range_owner owner = owner_of("a", "1");
    assert_int_equal(set_as(place, 1000, "f", &owner, &all_exclusive, NULL), 0);
    place_write_local(place, "secret", "x", 0600, 0, 0);
    assert_int_equal(set_as(place, 1000, "secret", &owner, &all_shared, NULL), -EACCES);
    assert_int_equal(mkdir(place_local(place, "d"), 0755), 0);
    assert_int_equal(set(place, "d", "a", &all_shared, NULL), -EISDIR);
    assert_int_equal(mkfifo(place_local(place, "p"), 0644), 0);
    assert_int_equal(set(place, "p", "a", &all_shared, NULL), -EINVAL);
}

static void a_running_program_can_be_locked_shared(void **state)
{
    struct place *place = *state;
    place_write_local(place, "script", "#!/bin/true\n", 0755, 0, 0);
    assert_int_equal(set(place, "script", "a", &all_shared, NULL), 0);
    int status = system(place_local(place, "script"));
    assert_int_equal(status, 0);
    /* The shared lock survives the change of the descriptor. */
    assert_int_equal(set(place, "script", "b", &(struct vfs_range){true, 0, 1}, NULL), -EAGAIN);
    assert_int_equal(set(place, "script", "a", &(struct vfs_range){true, 0, 1}, NULL), 0);
    assert_int_equal(in_process(place, "script", F_SETLK, F_WRLCK, 5, 1), EAGAIN);
    assert_int_equal(in_process(place, "script", F_SETLK, F_RDLCK, 0, 1), EAGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, place_teardown)
        TEST(processes_meet_the_locks_of_clients),
        TEST(clients_meet_the_locks_of_processes),
        TEST(a_waiter_outlasts_a_process),
        TEST(unlocking_serves_the_line),
        TEST(asking_again_can_be_the_grant),
        TEST(a_grant_is_taken_back_once),
        TEST(a_circle_is_refused),
        TEST(a_client_goes_with_all_it_has),
        TEST(only_earlier_lives_are_released),
        TEST(a_release_costs_what_it_releases),
        TEST(others_have_their_turn_during_a_release),
        TEST(locking_wants_the_right_to_read),
        TEST(a_running_program_can_be_locked_shared),
    };
    if (!place_possible()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
