/* SPDX-License-Identifier: Apache-2.0 */
/* Spreads: buckets that follow each other without a gap, and shares that are right to the width of
 * a bucket, beside the values themselves in order. */
#include "base/check.h"
#include "journal/stats.h"
#include "lib/unit.h"

#define VALUES 5000

static void buckets_cover_all(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (uint32_t i = 1; i < JOURNAL_SPREAD_BUCKETS; i++) {
        uint64_t min = journal_spread_bucket_min(i);
        struct journal_spread spread = {0};
        assert_true(min > last);
        assert_true(last < 4 || (min - last) * 4 <= last);
        journal_spread_add(&spread, min);
        journal_spread_add(&spread, min - 1);
        assert_int_equal(spread.buckets[i], 1);
        assert_int_equal(spread.buckets[i - 1], 1);
        last = min;
    }
    struct journal_spread spread = {0};
    journal_spread_add(&spread, UINT64_MAX);
    assert_int_equal(spread.buckets[JOURNAL_SPREAD_BUCKETS - 1], 1);
    assert_true(journal_spread_share(&spread, 0.5) == UINT64_MAX);
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void shares_are_right(void **state)
{
    (void)state;
    static const double shares[] = {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1};
    static uint64_t values[VALUES];
    struct journal_spread spread = {0};
    uint64_t random = 7, sum = 0;
    assert_int_equal(journal_spread_share(&spread, 0.5), 0);
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = unit_random(&random) >> (20 + unit_random(&random) % 40);
        journal_spread_add(&spread, values[i]);
        sum += values[i];
    }
    qsort(values, VALUES, sizeof *values, by_value);
    assert_int_equal(spread.count, VALUES);
    assert_true(spread.sum == sum);
    assert_true(spread.max == values[VALUES - 1]);
    for (size_t i = 0; i < COUNT_OF(shares); i++) {
        uint64_t right = values[(size_t)(shares[i] * VALUES + 0.5) - 1];
        uint64_t seen = journal_spread_share(&spread, shares[i]);
        assert_true(seen >= right);
        assert_true(seen - right <= right / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_cover_all),
        cmocka_unit_test(shares_are_right),
    };
    return cmocka_run_group_tests_name("journal/stats", tests, NULL, NULL);
}
