/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles by nearest rank, with what was never answered at the slow end. */
#include "probe/samples.h"

#include "lib/unit.h"

static void nearest_rank(void **state)
{
    (void)state;
    static const int64_t times[] = {50, 10, 40, 20, 30};
    struct samples samples;

    assert_int_equal(samples_open(&samples, 5), 0);
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        samples_add(&samples, times[i]);
    }
    assert_int_equal(samples_percentile(&samples, 0), 10);
    assert_int_equal(samples_percentile(&samples, 0.2), 10);
    assert_int_equal(samples_percentile(&samples, 0.21), 20);
    assert_int_equal(samples_percentile(&samples, 0.5), 30);
    assert_int_equal(samples_percentile(&samples, 0.8), 40);
    assert_int_equal(samples_percentile(&samples, 0.99), 50);
    assert_int_equal(samples_percentile(&samples, 1), 50);
    samples_add(&samples, 1); /* no room */
    assert_int_equal(samples_percentile(&samples, 0), 10);
    samples_close(&samples);
}

static void the_lost_are_the_slowest(void **state)
{
    (void)state;
    struct samples samples;

    assert_int_equal(samples_open(&samples, 10), 0);
    assert_int_equal(samples_percentile(&samples, 0.5), -1);
    for (int i = 1; i <= 8; i++) {
        samples_add(&samples, i);
    }
    samples_add_lost(&samples);
    samples_add_lost(&samples);
    assert_int_equal(samples_percentile(&samples, 0.5), 5);
    assert_int_equal(samples_percentile(&samples, 0.8), 8);
    assert_int_equal(samples_percentile(&samples, 0.81), -1);
    assert_int_equal(samples_percentile(&samples, 1), -1);
    samples_close(&samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_rank),
        cmocka_unit_test(the_lost_are_the_slowest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
