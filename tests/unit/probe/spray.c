/* SPDX-License-Identifier: Apache-2.0 */
/* The classic rules of counts and lengths. */
#include "probe/spray.h"

#include "lib/unit.h"

static void counts_and_lengths(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, length, right_count, right_length;
    } cases[] = {
        {0, 0, 1162, 86},        {0, 1, 100000, 86},     {0, 86, 1162, 86},   {0, 87, 1149, 90},
        {0, 1162, 86, 1162},     {0, 1514, 66, 1514},    {0, 1515, 66, 1515}, {0, 8845, 11, 8845},
        {0, 8844, 11, 8844},     {100, 0, 100, 1002},    {1162, 0, 1162, 86}, {1, 0, 1, 8845},
        {200000, 0, 200000, 86}, {100, 1162, 100, 1162}, {7, 100, 7, 102},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct spray_options options = {.count = cases[i].count, .length = cases[i].length};
        spray_fill_options(&options);
        assert_int_equal(options.count, cases[i].right_count);
        assert_int_equal(options.length, cases[i].right_length);
    }
}

/* Every length up to a frame is 86 and whole XDR units, and never shorter than asked for. */
static void lengths_are_rounded_up(void **state)
{
    (void)state;
    for (uint32_t length = 86; length <= 1514; length++) {
        struct spray_options options = {.count = 1, .length = length};
        spray_fill_options(&options);
        assert_int_equal((options.length - 86) % 4, 0);
        assert_in_range(options.length, length, length + 3);
    }
}

static void rates_never_divide_by_zero(void **state)
{
    (void)state;
    struct spray_result result = {.counted = 3};
    assert_true(spray_packets_per_second(&result) > 0);
    result = (struct spray_result){.clock_s = 2};
    assert_true(spray_packets_per_second(&result) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_lengths),
        cmocka_unit_test(lengths_are_rounded_up),
        cmocka_unit_test(rates_never_divide_by_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
