/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 5531 §11: bytes by hand, cut in every way a sender may cut them. */
#include "rpc/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX 100U

/* Feeds bytes one more at a time and returns where the record became ready, 0 if it did not. */
static size_t feed(const uint8_t *bytes, size_t size, uint8_t *work, struct record *record)
{
    memcpy(work, bytes, size);
    for (size_t n = 0; n <= size; n++) {
        enum record_status status = record_next(record, work, n, MAX);
        if (status == RECORD_READY) {
            return n;
        }
        assert_int_equal(status, RECORD_MORE);
        assert_true(record->needed > n);
    }
    return 0;
}

static void one_fragment(void **state)
{
    static const uint8_t bytes[] = {0x80, 0, 0, 5, 'h', 'e', 'l', 'l', 'o', 0x80};
    uint8_t work[sizeof bytes];
    struct record record = {0};
    (void)state;
    assert_int_equal(feed(bytes, sizeof bytes, work, &record), 9);
    assert_int_equal(record.payload_bytes, 5);
    assert_int_equal(record.consumed, 9);
    assert_memory_equal(work + 4, "hello", 5);
}

static void many_fragments_and_empty_ones(void **state)
{
    static const uint8_t bytes[] = {0, 0, 0,   1,   'h',  0, 0, 0, 0,   0,  0,
                                    0, 2, 'e', 'l', 0x80, 0, 0, 2, 'l', 'o'};
    uint8_t work[sizeof bytes];
    struct record record = {0};
    (void)state;
    assert_int_equal(feed(bytes, sizeof bytes, work, &record), sizeof bytes);
    assert_int_equal(record.payload_bytes, 5);
    assert_int_equal(record.consumed, sizeof bytes);
    assert_memory_equal(work + 4, "hello", 5);
}

static void empty_last_fragment(void **state)
{
    static const uint8_t bytes[] = {0, 0, 0, 2, 'h', 'i', 0x80, 0, 0, 0};
    uint8_t work[sizeof bytes];
    struct record record = {0};
    (void)state;
    assert_int_equal(feed(bytes, sizeof bytes, work, &record), sizeof bytes);
    assert_int_equal(record.payload_bytes, 2);
    assert_memory_equal(work + 4, "hi", 2);
}

static void over_the_limit(void **state)
{
    uint8_t bytes[] = {0x80, 0, 0, MAX + 1};
    uint8_t all_ones[] = {0xff, 0xff, 0xff, 0xff};
    uint8_t second[8 + MAX] = {0, 0, 0, MAX};
    struct record record = {0};
    (void)state;
    assert_int_equal(record_next(&record, bytes, 4, MAX), RECORD_TOO_LONG);
    record = (struct record){0};
    assert_int_equal(record_next(&record, all_ones, 4, MAX), RECORD_TOO_LONG);
    record = (struct record){0};
    second[4 + MAX + 3] = 1;
    assert_int_equal(record_next(&record, second, sizeof second, MAX), RECORD_TOO_LONG);
}

static void endless_empty_fragments(void **state)
{
    static uint8_t bytes[4 * (RPC_RECORD_EMPTY_FRAGMENTS_MAX + 2)];
    struct record record = {0};
    (void)state;
    assert_int_equal(record_next(&record, bytes, sizeof bytes, MAX), RECORD_TOO_LONG);
}

static void compacting_keeps_what_was_joined(void **state)
{
    uint8_t bytes[] = {0, 0, 0, 1, 'h', 0, 0, 0, 1, 'i', 0x80, 0, 0, 2, '!'};
    struct record record = {0};
    (void)state;
    assert_int_equal(record_next(&record, bytes, sizeof bytes, MAX), RECORD_MORE);
    size_t left = record_compact(&record, bytes, sizeof bytes);
    assert_int_equal(left, sizeof bytes - 4);
    bytes[left] = '?';
    assert_int_equal(record_next(&record, bytes, left + 1, MAX), RECORD_READY);
    assert_int_equal(record.payload_bytes, 4);
    assert_memory_equal(bytes + 4, "hi!?", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_fragment),
        cmocka_unit_test(many_fragments_and_empty_ones),
        cmocka_unit_test(empty_last_fragment),
        cmocka_unit_test(over_the_limit),
        cmocka_unit_test(endless_empty_fragments),
        cmocka_unit_test(compacting_keeps_what_was_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
