/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as RFC 8259 has it, whatever is in a name. */
#include "report/tree.h"

#include "lib/unit.h"

#include <math.h>

static void same(const struct report *report, const char *want)
{
    char *got = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&got, &size);

    assert_non_null(file);
    assert_true(report_write_json(report, file));
    fclose(file);
    assert_string_equal(got, want);
    free(got);
}

static void values(void **state)
{
    (void)state;
    struct report *report = report_new();
    report_add_u64(report, "u", UINT64_MAX);
    report_add_i64(report, "i", INT64_MIN);
    report_add_real(report, "r", 0.25);
    report_add_real(report, "nan", NAN);
    report_add_real(report, "inf", INFINITY);
    report_add_bool(report, "t", true);
    report_add_null(report, "n");
    struct report *array = report_add_array(report, "a");
    report_add_u64(array, NULL, 1);
    (void)report_add_object(array, NULL);
    (void)report_add_array(report, "e");
    same(report, "{\n  \"u\": 18446744073709551615,\n  \"i\": -9223372036854775808,\n"
                 "  \"r\": 0.25,\n  \"nan\": null,\n  \"inf\": null,\n  \"t\": true,\n"
                 "  \"n\": null,\n  \"a\": [\n    1,\n    {}\n  ],\n  \"e\": []\n}\n");
    report_free(report);
}

static void names_are_bytes(void **state)
{
    (void)state;
    struct report *report = report_new();
    report_add_bytes(report, "a", "q\"b\\n\n\x01\0z", 9);
    report_add_bytes(report, "b", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9);
    report_add_bytes(report, "c", "\xc3", 1);                 /* cut */
    report_add_bytes(report, "d", "\xc0\xaf\xed\xa0\x80", 5); /* overlong; a surrogate */
    report_add_bytes(report, "e", "\xf4\x90\x80\x80", 4);     /* beyond the last character */
    same(report, "{\n  \"a\": \"q\\\"b\\\\n\\u000a\\u0001\\u0000z\",\n"
                 "  \"b\": \"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\",\n"
                 "  \"c\": \"\\udcc3\",\n"
                 "  \"d\": \"\\udcc0\\udcaf\\udced\\udca0\\udc80\",\n"
                 "  \"e\": \"\\udcf4\\udc90\\udc80\\udc80\"\n}\n");
    report_free(report);
}

static void nothing_is_taken_calmly(void **state)
{
    (void)state;
    report_add_text(NULL, "a", "b");
    assert_null(report_add_object(NULL, "a"));
    assert_false(report_write_json(NULL, stdout));
    report_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(names_are_bytes),
        cmocka_unit_test(nothing_is_taken_calmly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
