/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records against bytes that were written out by hand from docs/journal-format.md.
 */
#include "journal/record.h"
#include "lib/unit.h"

#include <errno.h>

#define LSN "0102030405060708"
#define EXPORT "1112131415161718"
/* An ext4 handle: inode 12, generation 0x99. */
#define OBJECT "01 08 0c00000099000000"

static const char *const records[] = {
    /* ENTRY "ab": the object is there, before it nothing; mtime 5.000000006 */
    "40000000 01 01 0000" LSN EXPORT "02 6162 01 08 0200000000000000" OBJECT "00 00"
    "0500000000000000 06000000 000000",
    /* STATE */
    "50000000 02 09 0000" LSN EXPORT OBJECT "01000000 08 a401 e8030000 64000000"
    "ffffffffffffffff 00000000 0300000000000000 ffc99a3b 00000000000000",
    /* WRITE of 3 bytes at 4096 */
    "38000000 03 0a 0000" LSN EXPORT OBJECT "0010000000000000 03000000 787977 00000000000000",
    /* SIZE */
    "30000000 04 09 0000" LSN EXPORT OBJECT "0010000000000000 000000000000",
    /* SYNCED */
    "28000000 05 0b 0000" LSN EXPORT OBJECT "000000000000",
    /* REPLY of 4 bytes */
    "50000000 06 01 0000" LSN "0000000000000000"
    "00000000000000000000ffff7f000001 bc02 01 00"
    "01000000 a3860100 03000000 08000000 64000000 efcdab8967452301 04000000 deadbeef",
    /* one that may be skipped */
    "20000000 80 00 0000" LSN EXPORT "ffffffffffffffff",
};

static int get(const uint8_t *bytes, size_t size, struct journal_record *record)
{
    size_t used = 0;
    int err = journal_record_get(bytes, size, record, &used);
    if (err == 0) {
        assert_int_equal(used, size);
    }
    return err;
}

static void test_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(records); i++) {
        size_t size = 0;
        uint8_t *bytes = unit_hex(records[i], &size);
        struct journal_record record;
        assert_int_equal(get(bytes, size, &record), 0);
        assert_int_equal(record.lsn, 0x0807060504030201);
        if (record.type != JOURNAL_SKIPPED) {
            uint8_t *again = malloc(journal_record_bytes(&record));
            journal_record_put(&record, again);
            unit_same_bytes(again, journal_record_bytes(&record), bytes, size);
            free(again);
        }
        free(bytes);
    }
}

static void test_fields(void **state)
{
    (void)state;
    size_t size = 0;
    struct journal_record r;
    uint8_t *bytes = unit_hex(records[0], &size);
    assert_int_equal(get(bytes, size, &r), 0);
    assert_int_equal(r.type, JOURNAL_ENTRY);
    assert_string_equal(journal_op_name(r.op), "CREATE");
    assert_int_equal(r.export_id, 0x1817161514131211);
    assert_int_equal(r.entry.name_bytes, 2);
    assert_memory_equal(r.entry.name, "ab", 2);
    assert_int_equal(r.object.bytes[0], 2);
    assert_int_equal(r.entry.now.bytes[0], 12);
    assert_int_equal(r.entry.before.size, 0);
    assert_int_equal(r.entry.dir_mtime.seconds, 5);
    free(bytes);
    bytes = unit_hex(records[5], &size);
    assert_int_equal(get(bytes, size, &r), 0);
    assert_int_equal(r.reply.caller.prog, 100003);
    assert_int_equal(r.reply.caller.call_checksum, 0x0123456789abcdef);
    assert_true(r.reply.caller.is_tcp);
    assert_int_equal(r.reply.size, 4);
    free(bytes);
}

/* Any cut, and any byte that is made too large, is refused or read within bounds. */
static void test_broken(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(records); i++) {
        size_t size = 0;
        struct journal_record record;
        uint8_t *bytes = unit_hex(records[i], &size);
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *exact = unit_copy(bytes, cut);
            assert_int_equal(get(exact, cut, &record), -EBADMSG);
            free(exact);
        }
        for (size_t at = 0; at < size; at++) {
            size_t used = 0;
            uint8_t *exact = unit_copy(bytes, size);
            exact[at] ^= 0xff;
            int err = journal_record_get(exact, size, &record, &used);
            assert_true(err == 0 || err == -EBADMSG || err == -EPROTONOSUPPORT);
            free(exact);
        }
        free(bytes);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int err;
    } refused[] = {
        {"20000000 07 00 0000" LSN EXPORT "0000000000000000", -EPROTONOSUPPORT},
        {"20000000 7f 00 0000" LSN EXPORT "0000000000000000", -EPROTONOSUPPORT},
        {"28000000 05 0b 0000" LSN EXPORT OBJECT "000000000001", -EBADMSG}, /* filling */
        {"28000000 05 0b 0100" LSN EXPORT OBJECT "000000000000", -EBADMSG},
        {"20000000 05 0b 0000" LSN EXPORT "01 00 000000000000", -EBADMSG}, /* no object */
        {"50000000 02 09 0000" LSN EXPORT OBJECT "01000000 08 a401 e8030000 64000000"
         "ffffffffffffffff 00000000 0300000000000000 00ca9a3b 00000000000000",
         -EBADMSG}, /* 10^9 nanoseconds */
        {"30000000 04 09 0000" LSN EXPORT OBJECT "00000000000000ff 000000000000", -EBADMSG},
        /* names: "..", "a/", with a NUL */
        {"40000000 01 01 0000" LSN EXPORT "02 2e2e 01 08 0200000000000000" OBJECT "00 00"
         "0500000000000000 06000000 000000",
         -EBADMSG},
        {"40000000 01 01 0000" LSN EXPORT "02 612f 01 08 0200000000000000" OBJECT "00 00"
         "0500000000000000 06000000 000000",
         -EBADMSG},
        {"40000000 01 01 0000" LSN EXPORT "02 6100 01 08 0200000000000000" OBJECT "00 00"
         "0500000000000000 06000000 000000",
         -EBADMSG},
    };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        size_t size = 0;
        struct journal_record record;
        uint8_t *bytes = unit_hex(refused[i].bytes, &size);
        assert_int_equal(get(bytes, size, &record), refused[i].err);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("journal/record", tests, NULL, NULL);
}
