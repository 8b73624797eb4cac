/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log on a simulated disk, against a model: the batches that were written, and whether the
 * write succeeded. Numbers are invariants of docs/journal-format.md.
 */
#include "journal/log.h"
#include "lib/disk_sim.h"
#include "lib/unit.h"

#include <errno.h>
#include <stdio.h>

#define DISK_BYTES (72U * JOURNAL_BLOCK_BYTES)
#define BATCH_COUNT_MAX 4096U

/* What was done to the log. */
struct model {
    struct disk_sim *sim;
    struct journal_log *log;
    uint64_t random;
    uint64_t first_seq;                /* of the epoch */
    uint64_t next_seq;                 /* of the next batch */
    uint32_t lengths[BATCH_COUNT_MAX]; /* by seq */
    bool durable[BATCH_COUNT_MAX];     /* the write succeeded */
    uint64_t head_seq;                 /* the newest that advance has succeeded for */
    uint64_t head_seq_tried;
    uint64_t lost; /* with a disk that lies */
    bool failed;   /* the log says so */
};

static uint8_t byte_of(uint64_t seq, size_t at)
{
    return (uint8_t)(seq * 31 + at * 7 + (at >> 8));
}

static void fill(struct journal_buffer *buffer, uint64_t seq, uint32_t length)
{
    uint8_t *at = journal_buffer_extend(buffer, length);
    assert_non_null(at);
    for (size_t i = 0; i < length; i++) {
        at[i] = byte_of(seq, i);
    }
    buffer->record_count++;
    buffer->first_lsn = seq * 10;
    buffer->last_lsn = seq * 10 + 9;
}

/* One batch more, if there is room. The log's answer. */
static int write_one(struct model *model, uint32_t length)
{
    struct journal_buffer buffer = {0};
    uint64_t seq = model->next_seq;
    fill(&buffer, seq, length);
    bool room = journal_log_has_room(model->log, buffer.size_bytes);
    int err = journal_log_write(model->log, &buffer);
    assert_true(model->failed || room == (err != -ENOSPC));
    if (err != -ENOSPC && !model->failed) {
        assert_true(seq < BATCH_COUNT_MAX);
        model->lengths[seq] = length;
        model->durable[seq] = err == 0;
        model->next_seq = err == 0 ? seq + 1 : seq;
    }
    model->failed = model->failed || err == -EIO;
    journal_buffer_free(&buffer);
    return err;
}

static int advance(struct model *model)
{
    struct journal_log_mark mark;
    journal_log_tail(model->log, &mark);
    assert_int_equal(mark.seq, model->next_seq);
    model->head_seq_tried = mark.seq;
    int err = journal_log_advance(model->log, &mark);
    model->failed = model->failed || err != 0;
    if (err == 0) {
        model->head_seq = mark.seq;
    }
    return err;
}

static void check_batch(struct model *model, const struct journal_log_found *found)
{
    uint8_t *bytes = NULL;
    uint64_t seq = found->head.seq;
    int err = journal_log_load(model->log, found, &bytes);
    if (!found->live && err == -EUCLEAN) {
        return; /* the ring has come round to it */
    }
    assert_int_equal(err, 0);
    assert_int_equal(found->head.size_bytes, JOURNAL_BATCH_HEAD_BYTES + model->lengths[seq]);
    assert_int_equal(found->head.first_lsn, seq * 10);
    assert_int_equal(found->head.last_lsn, seq * 10 + 9);
    size_t right = 0;
    while (right < model->lengths[seq] &&
           bytes[JOURNAL_BATCH_HEAD_BYTES + right] == byte_of(seq, right)) {
        right++;
    }
    assert_int_equal(right, model->lengths[seq]);
    free(bytes);
}

/* Everything durable from the head on is there, in order, whole. */
static void check_found(struct model *model)
{
    size_t count = 0;
    const struct journal_log_found *found = journal_log_found(model->log, &count);
    uint64_t head = journal_log_superblock(model->log)->head_seq;
    uint64_t next = head;
    assert_true(head >= model->head_seq || model->lost > 0);
    assert_true(head <= model->head_seq_tried || head <= model->head_seq);
    for (size_t i = 0; i < count; i++) {
        if (found[i].live) {
            assert_int_equal(found[i].head.seq, next);
            next++;
        }
        check_batch(model, &found[i]);
    }
    while (next < model->next_seq) {
        if (model->durable[next]) {
            model->lost++;
        }
        next++;
    }
    model->next_seq = next;
}

static void begin(struct model *model)
{
    static const struct journal_export export = {.id = 7, .path = "/srv/seven"};
    if (journal_log_begin(model->log, &export, 1) == 0) {
        model->head_seq = model->next_seq;
    }
    model->head_seq_tried = model->next_seq;
}

static void reopen(struct model *model, uint64_t seed)
{
    struct err err = {0};
    journal_log_close(model->log);
    model->log = NULL;
    model->failed = false;
    disk_sim_restart(model->sim, seed);
    if (journal_log_open(disk_sim_disk(model->sim), &model->log, &err) != 0) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    }
    check_found(model);
}

static struct model *model_new(uint64_t seed)
{
    struct err err = {0};
    struct model *model = calloc(1, sizeof *model);
    model->sim = disk_sim_new(DISK_BYTES);
    model->random = seed * 2 + 1;
    model->next_seq = 1;
    assert_int_equal(journal_log_format(disk_sim_disk(model->sim), &err), 0);
    assert_int_equal(journal_log_open(disk_sim_disk(model->sim), &model->log, &err), 0);
    begin(model);
    return model;
}

static void model_free(struct model *model)
{
    journal_log_close(model->log);
    disk_sim_free(model->sim);
    free(model);
}

static uint32_t random_length(struct model *model)
{
    uint64_t kind = unit_random(&model->random) % 4;
    uint64_t limit = kind == 0 ? 100 : kind == 1 ? 4200 : kind == 2 ? 20000 : 60000;
    return (uint32_t)(unit_random(&model->random) % limit + 1);
}

/* Random writes and checkpoints, until an I/O fails or enough were made. */
static void work(struct model *model, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        int err = unit_random(&model->random) % 8 == 0 ? advance(model)
                                                       : write_one(model, random_length(model));
        if (err == -ENOSPC) {
            err = advance(model);
        }
        if (err != 0) {
            assert_int_equal(err, -EIO);
            /* 6: nothing more is written. */
            uint64_t count = disk_sim_count(model->sim);
            assert_int_equal(write_one(model, 10), -EIO);
            assert_int_equal(advance(model), -EIO);
            assert_int_equal(disk_sim_count(model->sim), count);
            return;
        }
    }
}

/* ---- tests ---- */

static void test_empty(void **state)
{
    (void)state;
    struct err err = {0};
    struct disk_sim *sim = disk_sim_new(DISK_BYTES);
    struct journal_log *log = NULL;
    assert_int_equal(journal_log_open(disk_sim_disk(sim), &log, &err), -ENODATA);
    disk_sim_bytes(sim)[5000] = 1;
    assert_int_equal(journal_log_open(disk_sim_disk(sim), &log, &err), -EMEDIUMTYPE);
    assert_int_equal(journal_log_format(disk_sim_disk(sim), &err), 0);
    assert_int_equal(journal_log_open(disk_sim_disk(sim), &log, &err), 0);
    size_t count = 1;
    journal_log_found(log, &count);
    assert_int_equal(count, 0);
    journal_log_close(log);
    disk_sim_free(sim);
}

/* Power cuts at random places, several lives each. */
static void test_cuts(void **state)
{
    (void)state;
    const char *wanted = getenv("HOLDFAST_LOG_SEEDS");
    uint64_t seeds = wanted != NULL ? strtoull(wanted, NULL, 10) : 30;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct model *model = model_new(seed);
        for (int life = 0; life < 4; life++) {
            disk_sim_cut_at(model->sim, 1 + unit_random(&model->random) % 40);
            work(model, 50);
            reopen(model, seed * 10 + (uint64_t)life);
            if (model->lost > 0) {
                fail_msg("seed %llu: %llu durable batches are gone", (unsigned long long)seed,
                         (unsigned long long)model->lost);
            }
            bool cut_begin = unit_random(&model->random) % 4 == 0;
            disk_sim_cut_at(model->sim, cut_begin);
            begin(model);
            if (cut_begin || unit_random(&model->random) % 4 == 0) {
                reopen(model, seed);
                begin(model);
            }
        }
        model_free(model);
    }
}

/* A cut in every I/O of one script, and what survives in several ways. */
static void test_every_cut(void **state)
{
    (void)state;
    uint64_t cuts = 50;
    for (uint64_t cut = 1; cut <= cuts; cut++) {
        for (uint64_t way = 1; way <= 3; way++) {
            struct model *model = model_new(3);
            disk_sim_cut_at(model->sim, cut);
            work(model, 80);
            reopen(model, way * 1000 + cut);
            assert_int_equal(model->lost, 0);
            model_free(model);
        }
    }
}

/* Rule 9: the tests above see a disk that does not flush. */
static void test_lie_is_seen(void **state)
{
    (void)state;
    uint64_t lost = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct err err = {0};
        struct model *model = model_new(seed);
        disk_sim_lie(model->sim, true);
        disk_sim_cut_at(model->sim, 30);
        work(model, 20);
        journal_log_close(model->log);
        model->log = NULL;
        disk_sim_restart(model->sim, seed);
        model->lost = 1; /* the head may be an old one */
        if (journal_log_open(disk_sim_disk(model->sim), &model->log, &err) == 0) {
            uint64_t next = journal_log_last_lsn(model->log) / 10 + 1;
            lost += next < model->next_seq;
        } else {
            assert_int_equal(err.code, -EUCLEAN); /* damage in the middle is a loss that is seen */
            lost++;
        }
        model_free(model);
    }
    assert_true(lost > 10);
}

static void test_failed_write(void **state)
{
    (void)state;
    struct model *model = model_new(5);
    assert_int_equal(write_one(model, 100), 0);
    disk_sim_fail_at(model->sim, 1, -ENOSPC); /* a disk may say anything */
    assert_int_equal(write_one(model, 100), -EIO);
    assert_int_equal(write_one(model, 100), -EIO);
    assert_int_equal(disk_sim_count(model->sim), 1);
    reopen(model, 1);
    assert_int_equal(model->lost, 0);
    model_free(model);
}

static void test_full(void **state)
{
    (void)state;
    struct model *model = model_new(6);
    size_t max = journal_log_batch_bytes_max(model->log);
    uint32_t length = (uint32_t)max - JOURNAL_BATCH_HEAD_BYTES;
    for (int round = 0; round < 50; round++) {
        int err;
        int written = 0;
        while ((err = write_one(model, length)) == 0) {
            written++;
        }
        assert_int_equal(err, -ENOSPC);
        assert_true(written >= 2);
        assert_int_equal(advance(model), 0);
        assert_int_equal(write_one(model, 5000), 0);
        assert_int_equal(advance(model), 0);
    }
    reopen(model, 1);
    assert_int_equal(model->lost, 0);
    model_free(model);
}

/* Where the batch with that seq is. */
static uint64_t offset_of(struct model *model, uint64_t seq)
{
    size_t count = 0;
    const struct journal_log_found *found = journal_log_found(model->log, &count);
    for (size_t i = 0; i < count; i++) {
        if (found[i].head.seq == seq && found[i].live) {
            return found[i].offset;
        }
    }
    fail_msg("batch %llu is not there", (unsigned long long)seq);
    return 0;
}

static void test_damage(void **state)
{
    (void)state;
    struct err err = {0};
    struct model *model = model_new(8);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(write_one(model, 9000), 0);
    }
    reopen(model, 1);
    uint8_t *bytes = disk_sim_bytes(model->sim);
    uint64_t middle = offset_of(model, 3);
    uint64_t last = offset_of(model, 5);
    journal_log_close(model->log);
    model->log = NULL;

    bytes[middle + 8000] ^= 1;
    assert_int_equal(journal_log_open(disk_sim_disk(model->sim), &model->log, &err), -EUCLEAN);
    assert_non_null(strstr(err.text, "batch 3 is not whole, batch 4 behind it is"));
    bytes[middle + 8000] ^= 1;

    bytes[middle] ^= 1; /* not even its head can be seen */
    assert_int_equal(journal_log_open(disk_sim_disk(model->sim), &model->log, &err), -EUCLEAN);
    bytes[middle] ^= 1;

    bytes[last + 1] ^= 1; /* the tail: as if torn */
    assert_int_equal(journal_log_open(disk_sim_disk(model->sim), &model->log, &err), 0);
    size_t count = 0;
    journal_log_found(model->log, &count);
    assert_int_equal(count, 4);
    model_free(model);
}

static void test_superblocks(void **state)
{
    (void)state;
    struct err err = {0};
    struct model *model = model_new(9);
    uint8_t *bytes = disk_sim_bytes(model->sim);
    struct disk *disk = disk_sim_disk(model->sim);
    journal_log_close(model->log);
    model->log = NULL;
    struct journal_superblock superblock;
    uint8_t kept[2 * JOURNAL_BLOCK_BYTES];
    memcpy(kept, bytes, sizeof kept);

    for (int slot = 0; slot < 2; slot++) { /* either alone will do */
        bytes[(size_t)slot * JOURNAL_BLOCK_BYTES + 60] ^= 1;
        assert_int_equal(journal_log_open(disk, &model->log, &err), 0);
        journal_log_close(model->log);
        model->log = NULL;
        memcpy(bytes, kept, sizeof kept);
    }
    bytes[60] ^= 1;
    bytes[JOURNAL_BLOCK_BYTES + 60] ^= 1;
    assert_int_equal(journal_log_open(disk, &model->log, &err), -EUCLEAN);
    memcpy(bytes, kept, sizeof kept);

    uint64_t size = disk->size_bytes;
    disk->size_bytes = size - JOURNAL_BLOCK_BYTES;
    assert_int_equal(journal_log_open(disk, &model->log, &err), -EUCLEAN);
    disk->size_bytes = size;

    assert_int_equal(journal_superblock_get(bytes, &superblock), JOURNAL_SUPERBLOCK_GOOD);
    superblock.head_offset = size + JOURNAL_BLOCK_BYTES;
    journal_superblock_put(&superblock, bytes);
    assert_int_equal(journal_superblock_get(bytes, &superblock), JOURNAL_SUPERBLOCK_DAMAGED);
    model_free(model);
}

/* The same numbers as docs/journal-format.md, written out by hand. */
static void test_bytes(void **state)
{
    (void)state;
    struct journal_superblock superblock = {
        .uuid = {0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf},
        .size_bytes = 0x4000000,
        .generation = 2,
        .epoch = 3,
        .head_offset = 0x5000,
        .head_seq = 6,
        .head_lsn = 0x0102030405060708,
        .export_count = 1,
        .exports = {{.id = 9, .path = "/srv"}},
    };
    uint8_t block[JOURNAL_BLOCK_BYTES];
    size_t want_bytes = 0;
    journal_superblock_put(&superblock, block);
    uint8_t *want = unit_hex("48464a4f55524e4c 01000000 00100000 a00102030405060708090a0b0c0d0eaf"
                             "0000000400000000 0200000000000000 0300000000000000 0050000000000000"
                             "0600000000000000 0807060504030201 00000000 00000000 01000000 00000000"
                             "0900000000000000 2f737276 00000000",
                             &want_bytes);
    unit_same_bytes(block, want_bytes, want, want_bytes);
    free(want);

    struct journal_batch_head head = {.size_bytes = 100, .record_count = 1, .uuid = {1}};
    uint8_t *bytes = aligned_alloc(4096, 4096);
    memset(bytes, 0xee, 4096);
    journal_batch_put(&head, bytes);
    struct journal_batch_head got;
    assert_true(journal_batch_get(bytes, head.uuid, &got));
    assert_true(journal_batch_is_whole(bytes, &got));
    for (size_t i = 0; i < 4096; i++) { /* the filling counts too */
        bytes[i] ^= 1;
        assert_false(journal_batch_get(bytes, head.uuid, &got) &&
                     journal_batch_is_whole(bytes, &head));
        bytes[i] ^= 1;
    }
    assert_int_equal(bytes[100], 0);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),       cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_superblocks), cmocka_unit_test(test_full),
        cmocka_unit_test(test_damage),      cmocka_unit_test(test_failed_write),
        cmocka_unit_test(test_every_cut),   cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_lie_is_seen),
    };
    return cmocka_run_group_tests_name("journal/log", tests, NULL, NULL);
}
