/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of fsync. The numbers are the invariants at the head of src/journal/commit.c. */
#include "journal/commit.h"
#include "lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define FILES 8
#define EVENTS_MAX 4096

struct bench {
    struct journal *journal;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool gate_closed; /* syncs wait */
    uint32_t waiting; /* syncs that wait */
    int fail_fd;      /* its syncs fail */
    uint32_t syncs;
    struct {
        int fd;
        enum journal_how how;
    } done[EVENTS_MAX];
    uint64_t durable_lsn;
    uint64_t failed_lsn;
    uint32_t durable_calls;
    uint32_t lost_calls;
    atomic_uint released;
    int fds[FILES];
};

static int on_sync(void *arg, int fd, enum journal_how how)
{
    struct bench *bench = arg;
    pthread_mutex_lock(&bench->lock);
    bench->waiting++;
    pthread_cond_broadcast(&bench->changed);
    while (bench->gate_closed) {
        pthread_cond_wait(&bench->changed, &bench->lock);
    }
    bench->waiting--;
    bench->done[bench->syncs].fd = fd;
    bench->done[bench->syncs].how = how;
    bench->syncs++;
    int result = fd == bench->fail_fd ? -EIO : 0;
    pthread_mutex_unlock(&bench->lock);
    return result;
}

static void on_durable(void *arg, uint64_t lsn, int error)
{
    struct bench *bench = arg;
    pthread_mutex_lock(&bench->lock);
    assert_true(lsn > bench->durable_lsn);
    assert_int_equal(journal_settled(bench->journal), lsn);
    bench->durable_lsn = lsn;
    bench->durable_calls++;
    if (error != 0) {
        assert_int_equal(error, -EIO);
        assert_true(bench->lost_calls > 0);
        bench->failed_lsn = lsn;
    }
    pthread_cond_broadcast(&bench->changed);
    pthread_mutex_unlock(&bench->lock);
}

static void on_lost(void *arg)
{
    struct bench *bench = arg;
    pthread_mutex_lock(&bench->lock);
    bench->lost_calls++;
    pthread_mutex_unlock(&bench->lock);
}

static void on_release(void *owner)
{
    atomic_fetch_add((atomic_uint *)owner, 1);
}

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    pthread_mutex_init(&bench->lock, NULL);
    pthread_cond_init(&bench->changed, NULL);
    bench->fail_fd = -1;
    for (int i = 0; i < FILES; i++) {
        bench->fds[i] = open("/var/tmp", O_TMPFILE | O_RDWR, 0600);
        assert_true(bench->fds[i] >= 0);
    }
    struct journal_options options = {
        .durable = on_durable, .lost = on_lost, .sync = on_sync, .arg = bench};
    assert_int_equal(journal_open(&options, &bench->journal, NULL), 0);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    journal_close(bench->journal);
    for (int i = 0; i < FILES; i++) {
        close(bench->fds[i]);
    }
    free(bench);
    return 0;
}

static uint64_t append(struct bench *bench, int file, enum journal_how how)
{
    struct journal_item item = {
        .fd = bench->fds[file], .how = how, .release = on_release, .owner = &bench->released};
    return journal_append(bench->journal,
                          &(struct journal_change){.items = &item, .item_count = 1});
}

static void set_gate(struct bench *bench, bool closed)
{
    pthread_mutex_lock(&bench->lock);
    bench->gate_closed = closed;
    pthread_cond_broadcast(&bench->changed);
    pthread_mutex_unlock(&bench->lock);
}

/* Closes the gate with a group of one before it: what is appended next is one group. */
static void hold_first_group(struct bench *bench)
{
    set_gate(bench, true);
    append(bench, 0, JOURNAL_FSYNC);
    pthread_mutex_lock(&bench->lock);
    while (bench->waiting == 0) {
        pthread_cond_wait(&bench->changed, &bench->lock);
    }
    pthread_mutex_unlock(&bench->lock);
}

static void wait_durable(struct bench *bench, uint64_t lsn)
{
    pthread_mutex_lock(&bench->lock);
    while (bench->durable_lsn < lsn) {
        pthread_cond_wait(&bench->changed, &bench->lock);
    }
    pthread_mutex_unlock(&bench->lock);
}

static void numbers_rise_and_items_are_released(void **state)
{
    struct bench *bench = *state;
    uint64_t last = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t lsn = append(bench, i % FILES, JOURNAL_FSYNC);
        assert_true(lsn > last);
        last = lsn;
    }
    wait_durable(bench, last);
    journal_close(bench->journal);
    assert_int_equal(atomic_load(&bench->released), 1000);
    struct journal_options options = {.durable = on_durable, .lost = on_lost, .arg = bench};
    bench->durable_lsn = 0;
    assert_int_equal(journal_open(&options, &bench->journal, NULL), 0);
    wait_durable(bench, append(bench, 0, JOURNAL_FSYNC)); /* a real fsync */
}

static void a_group_syncs_each_object_once_and_strongest(void **state)
{
    struct bench *bench = *state;
    hold_first_group(bench);
    append(bench, 1, JOURNAL_FDATASYNC);
    append(bench, 2, JOURNAL_FDATASYNC);
    append(bench, 1, JOURNAL_FSYNC);
    append(bench, 1, JOURNAL_FDATASYNC);
    uint64_t last = append(bench, 2, JOURNAL_FDATASYNC);
    set_gate(bench, false);
    wait_durable(bench, last);
    assert_int_equal(bench->syncs, 3);
    assert_int_equal(bench->durable_calls, 2);
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(bench->done[i].how,
                         bench->done[i].fd == bench->fds[1] ? JOURNAL_FSYNC : JOURNAL_FDATASYNC);
    }
}

static void syncfs_covers_its_file_system(void **state)
{
    struct bench *bench = *state;
    int elsewhere = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
    assert_true(elsewhere >= 0);
    hold_first_group(bench);
    struct journal_item other = {.fd = elsewhere, .how = JOURNAL_FSYNC};
    append(bench, 1, JOURNAL_FSYNC);
    append(bench, 2, JOURNAL_SYNCFS);
    journal_append(bench->journal, &(struct journal_change){.items = &other, .item_count = 1});
    append(bench, 3, JOURNAL_SYNCFS);
    uint64_t last = append(bench, 2, JOURNAL_FSYNC);
    set_gate(bench, false);
    wait_durable(bench, last);
    assert_int_equal(bench->syncs, 3); /* of the first group, syncfs, the other file system */
    bool has_other = false, has_syncfs = false;
    for (uint32_t i = 1; i < 3; i++) {
        has_other = has_other || bench->done[i].fd == elsewhere;
        has_syncfs = has_syncfs || bench->done[i].how == JOURNAL_SYNCFS;
    }
    assert_true(has_other && has_syncfs);
    close(elsewhere);
}

/* 2 and 4 */
static void one_failure_fails_the_group_and_no_other(void **state)
{
    struct bench *bench = *state;
    hold_first_group(bench);
    bench->fail_fd = bench->fds[3];
    append(bench, 1, JOURNAL_FSYNC);
    append(bench, 3, JOURNAL_FSYNC);
    uint64_t failed = append(bench, 2, JOURNAL_FSYNC);
    set_gate(bench, false);
    wait_durable(bench, failed);
    assert_int_equal(bench->failed_lsn, failed);
    assert_int_equal(bench->lost_calls, 1);
    uint64_t good = append(bench, 1, JOURNAL_FSYNC);
    wait_durable(bench, good);
    assert_int_equal(bench->failed_lsn, failed);
    assert_int_equal(bench->lost_calls, 1);
}

/* 1: what is appended while a sync of the same object runs is synced again. */
static void a_running_sync_does_not_count_for_later_changes(void **state)
{
    struct bench *bench = *state;
    hold_first_group(bench);
    uint64_t lsn = append(bench, 0, JOURNAL_FSYNC);
    set_gate(bench, false);
    wait_durable(bench, lsn);
    assert_int_equal(bench->syncs, 2);
}

static void objects_of_a_group_are_synced_at_the_same_time(void **state)
{
    struct bench *bench = *state;
    struct journal_item items[FILES];
    for (int i = 0; i < FILES; i++) {
        items[i] = (struct journal_item){.fd = bench->fds[i], .how = JOURNAL_FSYNC};
    }
    set_gate(bench, true);
    uint64_t lsn = journal_append(bench->journal,
                                  &(struct journal_change){.items = items, .item_count = FILES});
    pthread_mutex_lock(&bench->lock);
    while (bench->waiting < FILES) {
        pthread_cond_wait(&bench->changed, &bench->lock);
    }
    pthread_mutex_unlock(&bench->lock);
    set_gate(bench, false);
    wait_durable(bench, lsn);
    assert_int_equal(bench->syncs, FILES);
}

static void closing_finishes_what_was_appended(void **state)
{
    struct bench *bench = *state;
    hold_first_group(bench);
    append(bench, 1, JOURNAL_FSYNC);
    append(bench, 2, JOURNAL_FSYNC);
    set_gate(bench, false);
    journal_close(bench->journal);
    assert_int_equal(atomic_load(&bench->released), 3);
    assert_int_equal(bench->durable_lsn, 3);
    struct journal_options options = {.arg = bench};
    assert_int_equal(journal_open(&options, &bench->journal, NULL), 0);
}

static void *append_many(void *arg)
{
    struct bench *bench = arg;
    for (int i = 0; i < 500; i++) {
        append(bench, i % FILES, JOURNAL_FSYNC);
    }
    return NULL;
}

static void many_threads_append(void **state)
{
    struct bench *bench = *state;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, bench), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    wait_durable(bench, 4000);
    assert_int_equal(bench->durable_lsn, 4000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(numbers_rise_and_items_are_released),
        TEST(a_group_syncs_each_object_once_and_strongest),
        TEST(syncfs_covers_its_file_system),
        TEST(one_failure_fails_the_group_and_no_other),
        TEST(a_running_sync_does_not_count_for_later_changes),
        TEST(objects_of_a_group_are_synced_at_the_same_time),
        TEST(closing_finishes_what_was_appended),
        TEST(many_threads_append),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
