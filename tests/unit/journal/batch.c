/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal with a log, on a simulated disk: what was reported durable is found after a power
 * cut, with its reply. Numbers are those at the head of src/journal/commit.c.
 */
#include "journal/commit.h"
#include "lib/disk_sim.h"
#include "lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define DISK_BYTES (8U * 1024 * 1024)
#define DATA_BYTES 40000U
#define THREAD_COUNT 4
#define WINDOW_MS 60000

struct rig {
    struct disk_sim *sim;
    struct journal *journal;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t durable_lsn; /* without a failure */
    uint64_t ended_lsn;
    uint64_t failed_lsn; /* the first that failed; 0: none */
    pthread_t ended_by;
    uint32_t lost_calls;
    uint32_t checkpoints;
    int checkpoint_error;
    atomic_uint syncs;
    uint64_t count_at_sync; /* I/O of the disk when the last sync ran */
};

static void on_durable(void *arg, uint64_t lsn, int error)
{
    struct rig *rig = arg;
    pthread_mutex_lock(&rig->lock);
    if (error == 0) {
        assert_int_equal(rig->failed_lsn, 0); /* 7 */
        rig->durable_lsn = lsn;
    } else if (rig->failed_lsn == 0) {
        assert_true(rig->lost_calls > 0); /* 4 */
        rig->failed_lsn = rig->ended_lsn + 1;
    }
    rig->ended_lsn = lsn;
    rig->ended_by = pthread_self();
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void on_lost(void *arg)
{
    struct rig *rig = arg;
    pthread_mutex_lock(&rig->lock);
    rig->lost_calls++;
    pthread_mutex_unlock(&rig->lock);
}

static int on_sync(void *arg, int fd, enum journal_how how)
{
    struct rig *rig = arg;
    (void)how;
    rig->count_at_sync = disk_sim_count(rig->sim);
    atomic_fetch_add(&rig->syncs, 1);
    return fd < 0 ? -EIO : 0;
}

static int on_checkpoint(void *arg)
{
    struct rig *rig = arg;
    pthread_mutex_lock(&rig->lock);
    rig->checkpoints++;
    int err = rig->checkpoint_error;
    pthread_mutex_unlock(&rig->lock);
    return err;
}

static void rig_open(struct rig *rig, struct journal_log **log)
{
    struct err err = {0};
    if (journal_log_open(disk_sim_disk(rig->sim), log, &err) != 0) {
        fail_msg("%s", err.text);
    }
}

static void rig_start(struct rig *rig)
{
    struct err err = {0};
    struct journal_log *log = NULL;
    rig_open(rig, &log);
    assert_int_equal(journal_log_begin(log, NULL, 0), 0);
    rig->ended_lsn = rig->durable_lsn = journal_log_last_lsn(log);
    rig->failed_lsn = 0;
    struct journal_options options = {.durable = on_durable,
                                      .lost = on_lost,
                                      .sync = on_sync,
                                      .checkpoint = on_checkpoint,
                                      .arg = rig,
                                      .log = log};
    assert_int_equal(journal_open(&options, &rig->journal, &err), 0);
}

static struct rig *rig_new(void)
{
    struct err err = {0};
    struct rig *rig = calloc(1, sizeof *rig);
    pthread_mutex_init(&rig->lock, NULL);
    pthread_cond_init(&rig->changed, NULL);
    rig->sim = disk_sim_new(DISK_BYTES);
    assert_int_equal(journal_log_format(disk_sim_disk(rig->sim), &err), 0);
    rig_start(rig);
    disk_sim_cut_at(rig->sim, 0);
    return rig;
}

static void rig_free(struct rig *rig)
{
    journal_close(rig->journal);
    disk_sim_free(rig->sim);
    free(rig);
}

/* Waits for lsn to meet its end; whether it was durable. */
static bool wait_for(struct rig *rig, uint64_t lsn)
{
    pthread_mutex_lock(&rig->lock);
    while (rig->ended_lsn < lsn) {
        pthread_cond_wait(&rig->changed, &rig->lock);
    }
    bool durable = rig->durable_lsn >= lsn;
    pthread_mutex_unlock(&rig->lock);
    return durable;
}

static struct journal_record record_of(uint64_t number, const uint8_t *data)
{
    return (struct journal_record){
        .type = JOURNAL_WRITE,
        .object = {.type = 1, .size = 8},
        .write = {.offset = number, .bytes = data, .size = (uint32_t)(number % DATA_BYTES) + 1},
    };
}

/* A change whose reply is its number. */
static uint64_t append(struct rig *rig, uint64_t number, bool holds)
{
    static const uint8_t data[DATA_BYTES] = {1, 2, 3};
    struct journal_record record = record_of(number, data);
    struct journal_change change = {.records = &record, .record_count = 1, .holds = holds};
    journal_admit(rig->journal);
    return journal_append(rig->journal, &change);
}

static void reply(uint64_t number)
{
    struct journal_caller caller = {.xid = (uint32_t)number};
    journal_reply(&caller, (const uint8_t *)&number, sizeof number);
}

/* What the log says after a restart. */
struct seen {
    uint64_t change_count, reply_count;
    uint64_t change_lsn_last, reply_lsn_last;
    uint64_t last_offset;
};

static void look(struct journal_log *log, const struct journal_log_found *found, struct seen *seen)
{
    uint8_t *bytes = NULL;
    assert_int_equal(journal_log_load(log, found, &bytes), 0);
    for (size_t at = JOURNAL_BATCH_HEAD_BYTES; at < found->head.size_bytes;) {
        struct journal_record record;
        size_t used = 0;
        int err = journal_record_get(bytes + at, found->head.size_bytes - at, &record, &used);
        assert_int_equal(err, 0);
        at += used;
        if (record.type == JOURNAL_WRITE) {
            seen->change_count++;
            seen->change_lsn_last = record.lsn;
            seen->last_offset = record.write.offset;
        } else {
            assert_int_equal(record.type, JOURNAL_REPLY);
            seen->reply_count++;
            seen->reply_lsn_last = record.lsn;
        }
    }
    free(bytes);
}

static void look_at_log(struct rig *rig, struct seen *seen)
{
    struct journal_log *log = NULL;
    size_t count = 0;
    *seen = (struct seen){0};
    rig_open(rig, &log);
    const struct journal_log_found *found = journal_log_found(log, &count);
    for (size_t i = 0; i < count; i++) {
        if (found[i].live) {
            look(log, &found[i], seen);
        }
    }
    journal_log_close(log);
}

/* ---- tests ---- */

/* A lone change costs one write to the disk, and nothing is written when nothing happens. */
static void lone_change(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    for (uint64_t i = 1; i <= 20; i++) {
        uint64_t before = disk_sim_count(rig->sim);
        uint64_t lsn = append(rig, i, true);
        reply(i);
        assert_true(wait_for(rig, lsn));
        assert_int_equal(disk_sim_count(rig->sim), before + 1);
    }
    rig_free(rig);
}

/* A change and its reply are in one batch, though others come in between. */
static void reply_is_in_the_batch(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    uint64_t mine = append(rig, 1, true);
    usleep(500000); /* the writer closes the batch, and waits for the reply: it is woken by then */
    uint64_t other = append(rig, 2, false);
    usleep(20000);
    assert_true(journal_settled(rig->journal) < mine);
    reply(1);
    assert_true(wait_for(rig, other));
    struct journal_stats stats;
    journal_stats(rig->journal, &stats);
    assert_int_equal(stats.batches, 2);
    assert_int_equal(stats.changes, 2);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.records, 3);
    assert_int_equal(stats.write_ns.count, 2);
    assert_int_equal(stats.batch_changes.max, 1);
    assert_int_equal(stats.sync_ns.count, 0);
    assert_true(stats.wait_ns.max >= 520000000); /* both pauses */
    assert_true(stats.has_log && stats.used_bytes > 0);
    journal_leave(); /* holds nothing: no harm */
    rig_free(rig);
}

/* One call may make two changes: the reply goes with the second, and nobody waits for ever. */
static void two_changes_of_one_call(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    append(rig, 1, true);
    usleep(20000);
    uint64_t lsn = append(rig, 2, true);
    append(rig, 3, true);
    journal_leave();
    assert_true(wait_for(rig, lsn + 1));
    rig_free(rig);
}

/* 5: what a record rests on is synced before the record is written. */
static void syncs_come_first(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    struct journal_record record = record_of(1, (const uint8_t *)"x");
    record.write.size = 1;
    struct journal_item item = {.fd = 0, .how = JOURNAL_FSYNC};
    struct journal_change change = {
        .records = &record, .record_count = 1, .items = &item, .item_count = 1};
    uint64_t before = disk_sim_count(rig->sim);
    assert_true(wait_for(rig, journal_append(rig->journal, &change)));
    assert_int_equal(atomic_load(&rig->syncs), 1);
    assert_int_equal(rig->count_at_sync, before);
    assert_int_equal(disk_sim_count(rig->sim), before + 1);

    item.fd = -1; /* fails: its record is never written, and nothing succeeds any more */
    assert_false(wait_for(rig, journal_append(rig->journal, &change)));
    assert_int_equal(disk_sim_count(rig->sim), before + 1);
    assert_int_equal(journal_error(rig->journal), -EIO);
    assert_false(wait_for(rig, append(rig, 1, false)));
    rig_free(rig);
}

/* A change that nobody waits for stays in memory for its window, unless somebody wants it. */
static void lazy_changes(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    struct journal_record record = record_of(1, (const uint8_t *)"x");
    record.write.size = 1;
    struct journal_change change = {
        .records = &record, .record_count = 1, .lazy = true, .window_ms = WINDOW_MS};
    uint64_t lsn = journal_append(rig->journal, &change);
    usleep(30000);
    assert_true(journal_settled(rig->journal) < lsn);
    journal_want(rig->journal, lsn);
    assert_true(wait_for(rig, lsn));
    lsn = journal_append(rig->journal, &change);
    assert_true(wait_for(rig, append(rig, 2, false)));
    assert_true(journal_settled(rig->journal) >= lsn);
    journal_append(rig->journal, &change);
    change.window_ms = 20; /* the shortest window of a batch counts */
    assert_true(wait_for(rig, journal_append(rig->journal, &change)));
    change.window_ms = WINDOW_MS;
    lsn = journal_append(rig->journal, &change);
    journal_push(rig->journal);
    assert_true(wait_for(rig, lsn));
    assert_int_equal(journal_wait(rig->journal, journal_append(rig->journal, &change)), 0);
    rig_free(rig);
}

/* All that was appended is before the head when it returns, and an error is told. */
static void checkpoint_on_demand(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    struct journal_record record = record_of(1, (const uint8_t *)"x");
    record.write.size = 1;
    struct journal_change change = {
        .records = &record, .record_count = 1, .lazy = true, .window_ms = WINDOW_MS};
    struct journal_stats stats;
    for (uint32_t i = 1; i <= 3; i++) {
        journal_append(rig->journal, &change);
        assert_int_equal(journal_checkpoint(rig->journal), 0);
        journal_stats(rig->journal, &stats);
        assert_int_equal(stats.used_bytes, 0);
        assert_int_equal(rig->checkpoints, i);
    }
    rig->checkpoint_error = -EIO;
    journal_append(rig->journal, &change);
    assert_int_equal(journal_checkpoint(rig->journal), -EIO);
    assert_int_equal(journal_wait(rig->journal, append(rig, 2, false)), -EIO);
    rig_free(rig);
}

static void failed_write(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    assert_true(wait_for(rig, append(rig, 1, false)));
    disk_sim_fail_at(rig->sim, 1, -EIO);
    assert_false(wait_for(rig, append(rig, 2, false)));
    assert_false(wait_for(rig, append(rig, 3, false)));
    assert_int_equal(rig->lost_calls, 2);
    assert_int_equal(journal_error(rig->journal), -EIO);
    assert_int_equal(disk_sim_count(rig->sim), 1);
    rig_free(rig);
}

/* The log is full until a checkpoint; when that fails nothing is released. */
static void failed_checkpoint(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    rig->checkpoint_error = -EIO;
    uint64_t number = DATA_BYTES - 1, lsn = 0, done = 0;
    while (wait_for(rig, lsn = append(rig, number, false))) {
        done++;
        assert_true(done < DISK_BYTES / DATA_BYTES);
    }
    assert_int_equal(journal_error(rig->journal), -EIO);
    journal_close(rig->journal);
    disk_sim_restart(rig->sim, 1);
    struct seen seen;
    look_at_log(rig, &seen);
    assert_int_equal(seen.change_count, done);
    rig->checkpoint_error = 0;
    rig_start(rig);
    rig_free(rig);
}

/* Much more than fits: checkpoints make room, and a clean end leaves nothing to replay. */
static void wraps_around(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    uint64_t lsn = 0;
    for (uint64_t i = 0; i < 3 * DISK_BYTES / DATA_BYTES; i++) {
        lsn = append(rig, DATA_BYTES - 1, false);
    }
    assert_true(wait_for(rig, lsn));
    assert_true(rig->checkpoints > 2);
    journal_close(rig->journal);
    disk_sim_restart(rig->sim, 1);
    struct seen seen;
    look_at_log(rig, &seen);
    assert_int_equal(seen.change_count, 0);
    uint64_t before = lsn;
    rig_start(rig);
    assert_int_equal(append(rig, 1, false), before + 1);
    rig_free(rig);
}

static uint64_t append_promised(struct rig *rig, uint64_t number)
{
    journal_promise();
    uint64_t lsn = append(rig, number, true);
    reply(number);
    return lsn;
}

/* 8: who has promised writes, and nobody else is woken for it. */
static void promise_is_kept(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    for (uint64_t i = 1; i <= 20; i++) {
        uint64_t before = disk_sim_count(rig->sim);
        append_promised(rig, i);
        uint64_t lsn = append_promised(rig, i);
        journal_keep_promise();
        assert_int_equal(rig->durable_lsn, lsn);
        assert_true(pthread_equal(rig->ended_by, pthread_self()));
        assert_int_equal(disk_sim_count(rig->sim), before + 1);
    }
    /* It was for those changes alone. */
    journal_keep_promise();
    assert_true(wait_for(rig, append(rig, 1, false)));
    assert_false(pthread_equal(rig->ended_by, pthread_self()));
    rig_free(rig);
}

/* Who waits for what another has promised waits for no promise. */
static void promise_is_broken(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    assert_int_equal(journal_wait(rig->journal, append_promised(rig, 1)), 0);
    uint64_t lsn = append_promised(rig, 2);
    journal_wake(rig->journal);
    assert_true(wait_for(rig, lsn));
    journal_keep_promise();

    /* Another journal is another promise. */
    struct rig *other = rig_new();
    lsn = append_promised(rig, 3);
    uint64_t other_lsn = append_promised(other, 1);
    assert_true(wait_for(rig, lsn));
    journal_keep_promise();
    assert_int_equal(other->durable_lsn, other_lsn);
    assert_true(pthread_equal(other->ended_by, pthread_self()));

    /* A journal that is closed meanwhile. */
    lsn = append_promised(other, 2);
    assert_int_equal(journal_close(other->journal), 0);
    other->journal = NULL;
    assert_int_equal(other->durable_lsn, lsn);
    journal_keep_promise();
    rig_free(other);
    rig_free(rig);
}

/* Objects that must be synced, and whatever may take long, are left to the journal's thread. */
static void promise_of_much(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    struct journal_item item = {.fd = 0, .how = JOURNAL_FSYNC};
    struct journal_change change = {.items = &item, .item_count = 1};
    journal_promise();
    uint64_t lsn = journal_append(rig->journal, &change);
    journal_keep_promise();
    assert_true(wait_for(rig, lsn));
    assert_false(pthread_equal(rig->ended_by, pthread_self()));

    for (uint64_t i = 0; i < 5; i++) {
        lsn = append_promised(rig, DATA_BYTES - 1);
    }
    journal_keep_promise();
    assert_true(wait_for(rig, lsn));
    assert_false(pthread_equal(rig->ended_by, pthread_self()));
    rig_free(rig);
}

struct worker {
    struct rig *rig;
    pthread_t thread;
    uint64_t index;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct rig *rig = worker->rig;
    for (uint64_t i = 0; journal_error(rig->journal) == 0 && i < 400; i++) {
        uint64_t number = i * THREAD_COUNT + worker->index;
        if (number % 5 == 0) {
            journal_promise();
        }
        append(rig, number, true);
        if (number % 7 == 0) {
            journal_leave();
        } else {
            reply(number);
        }
        if (number % 3 == 0) {
            journal_keep_promise();
        }
    }
    journal_keep_promise();
    return NULL;
}

/* Many threads, power cuts, the lying disk of rule 9. Returns how much was lost. */
static uint64_t cut(struct rig *rig, uint64_t seed, bool lie)
{
    struct worker workers[THREAD_COUNT];
    struct seen seen;
    uint64_t random = seed * 2 + 1;
    disk_sim_cut_at(rig->sim, 2 + unit_random(&random) % 60);
    disk_sim_lie(rig->sim, lie);
    for (uint64_t i = 0; i < THREAD_COUNT; i++) {
        workers[i] = (struct worker){.rig = rig, .index = i};
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (uint64_t i = 0; i < THREAD_COUNT; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    journal_close(rig->journal);
    rig->journal = NULL;
    disk_sim_lie(rig->sim, false);
    disk_sim_restart(rig->sim, seed);
    if (lie) {
        struct err err = {0};
        struct journal_log *log = NULL;
        if (journal_log_open(disk_sim_disk(rig->sim), &log, &err) != 0) {
            return 1;
        }
        uint64_t last = journal_log_last_lsn(log);
        journal_log_close(log);
        return rig->durable_lsn > last ? rig->durable_lsn - last : 0;
    }
    look_at_log(rig, &seen);
    if (seen.change_count > 0) {
        assert_true(seen.change_lsn_last >= rig->durable_lsn);
        assert_true(seen.reply_count <= seen.change_count);
    }
    rig_start(rig);
    assert_true(rig->durable_lsn >= seen.change_lsn_last);
    return 0;
}

static void cuts(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    for (uint64_t seed = 1; seed <= 12; seed++) {
        cut(rig, seed, false);
    }
    rig_free(rig);
}

static void lie_is_seen(void **state)
{
    (void)state;
    uint64_t lost = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct rig *rig = rig_new();
        lost += cut(rig, seed, true) > 0;
        disk_sim_free(rig->sim);
        free(rig);
    }
    assert_true(lost > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lone_change),
        cmocka_unit_test(reply_is_in_the_batch),
        cmocka_unit_test(two_changes_of_one_call),
        cmocka_unit_test(syncs_come_first),
        cmocka_unit_test(lazy_changes),
        cmocka_unit_test(checkpoint_on_demand),
        cmocka_unit_test(failed_write),
        cmocka_unit_test(failed_checkpoint),
        cmocka_unit_test(wraps_around),
        cmocka_unit_test(promise_is_kept),
        cmocka_unit_test(promise_is_broken),
        cmocka_unit_test(promise_of_much),
        cmocka_unit_test(cuts),
        cmocka_unit_test(lie_is_seen),
    };
    return cmocka_run_group_tests_name("journal/batch", tests, NULL, NULL);
}
