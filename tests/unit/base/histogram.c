/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms: every value in the bucket whose edges are around it, and quantiles beside the exact
 * ones of the same values. */
#include "lib/unit.h"

#include "base/histogram.h"

#include <stdio.h>

#define VALUE_COUNT 20000U

static void every_value_has_its_bucket(void **state)
{
    uint64_t seed = 5;
    (void)state;
    assert_int_equal(histogram_bucket(0), 0);
    assert_int_equal(histogram_bucket(HISTOGRAM_LEAST - 1), 0);
    assert_int_equal(histogram_bucket(HISTOGRAM_LEAST), 1);
    assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKET_COUNT - 1);
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        uint64_t floor = histogram_floor(i);
        uint64_t end = histogram_floor(i + 1);
        assert_int_equal(histogram_bucket(floor), i);
        assert_int_equal(histogram_bucket(end - 1), i);
        assert_true(i == 0 || end - floor <= floor / 4);
    }
    for (int i = 0; i < 100000; i++) {
        uint64_t value = unit_random(&seed) >> (28 + unit_random(&seed) % 36);
        unsigned bucket = histogram_bucket(value);
        assert_true(value >= histogram_floor(bucket));
        assert_true(value < histogram_floor(bucket + 1));
    }
}

static int by_size(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static void quantiles_are_near_the_exact_ones(void **state)
{
    static const double shares[] = {0.01, 0.5, 0.9, 0.99, 0.999, 1};
    static uint64_t values[VALUE_COUNT];
    static struct histogram histogram;
    struct histogram_sum sum = {0};
    uint64_t seed = 7;

    (void)state;
    for (unsigned i = 0; i < VALUE_COUNT; i++) {
        /* from 1 us to 8 s, even in the logarithm */
        values[i] = (1000 + unit_random(&seed) % 1000) << unit_random(&seed) % 23;
        histogram_add(&histogram, values[i]);
    }
    histogram_read(&histogram, &sum);
    assert_int_equal(histogram_count(&sum), VALUE_COUNT);
    qsort(values, VALUE_COUNT, sizeof values[0], by_size);
    for (size_t i = 0; i < COUNT_OF(shares); i++) {
        uint64_t exact = values[(size_t)(shares[i] * (VALUE_COUNT - 1))];
        uint64_t told = histogram_quantile(&sum, shares[i]);
        if (told < exact / 4 * 3 || told > exact / 4 * 5) {
            fail_msg("%g: told %llu, exact %llu", shares[i], (unsigned long long)told,
                     (unsigned long long)exact);
        }
    }
}

static void sums_are_sums(void **state)
{
    static struct histogram one, other;
    struct histogram_sum sum = {0}, more = {0}, none = {0};

    (void)state;
    assert_int_equal(histogram_quantile(&none, 0.5), 0);
    histogram_add(&one, 1000);
    histogram_add(&other, 1000);
    histogram_add(&other, UINT64_MAX);
    histogram_read(&one, &sum);
    histogram_read(&other, &more);
    histogram_merge(&sum, &more);
    assert_int_equal(histogram_count(&sum), 3);
    assert_int_equal(sum.counts[histogram_bucket(1000)], 2);
    assert_int_equal(sum.counts[HISTOGRAM_BUCKET_COUNT - 1], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_has_its_bucket),
        cmocka_unit_test(quantiles_are_near_the_exact_ones),
        cmocka_unit_test(sums_are_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
