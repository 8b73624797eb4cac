/* SPDX-License-Identifier: Apache-2.0 */
/* The cursor against bytes by hand from RFC 4506, and against its own invariants 1 to 4. */
#include "xdr/stream.h"
#include "lib/unit.h"

static const uint8_t numbers[] = {
    0xff, 0xff, 0xff, 0xfe,                         /* int -2, RFC 4506 §4.1 */
    0x80, 0x00, 0x00, 0x01,                         /* unsigned 2147483649, §4.2 */
    0x00, 0x00, 0x00, 0x01,                         /* bool TRUE, §4.4 */
    0x00, 0x00, 0x00, 0x00,                         /* bool FALSE */
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, /* hyper -3, §4.5 */
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* unsigned hyper, §4.5 */
};

static void numbers_are_big_endian(void **state)
{
    (void)state;
    struct xdr xdr = xdr_reader(numbers, sizeof(numbers));
    int32_t i32;
    uint32_t u32;
    bool yes, no;
    int64_t i64;
    uint64_t u64;
    assert_true(xdr_get_i32(&xdr, &i32));
    assert_true(xdr_get_u32(&xdr, &u32));
    assert_true(xdr_get_bool(&xdr, &yes));
    assert_true(xdr_get_bool(&xdr, &no));
    assert_true(xdr_get_i64(&xdr, &i64));
    assert_true(xdr_get_u64(&xdr, &u64));
    assert_int_equal(i32, -2);
    assert_true(u32 == 2147483649U);
    assert_true(yes);
    assert_false(no);
    assert_true(i64 == -3);
    assert_true(u64 == 0x0102030405060708U);
    assert_int_equal(xdr_left(&xdr), 0);
    assert_int_equal(xdr.notes, 0);

    uint8_t out[sizeof(numbers)];
    struct xdr to = xdr_writer(out, sizeof(out));
    assert_true(xdr_put_i32(&to, -2));
    assert_true(xdr_put_u32(&to, 2147483649U));
    assert_true(xdr_put_bool(&to, true));
    assert_true(xdr_put_bool(&to, false));
    assert_true(xdr_put_i64(&to, -3));
    assert_true(xdr_put_u64(&to, 0x0102030405060708U));
    unit_same_bytes(out, xdr_offset(&to), numbers, sizeof(numbers));
}

/* The example of RFC 4506 §7: a file "sillyprog" of kind EXEC, "lisp", owner "john", "(quit)". */
static const char file_hex[] = "00000009 73696c6c 7970726f 67000000"
                               "00000002 00000004 6c697370 00000004 6a6f686e"
                               "00000006 28717569 74290000";

static void example_of_the_rfc(void **state)
{
    (void)state;
    size_t size_bytes;
    uint8_t *bytes = unit_hex(file_hex, &size_bytes);
    assert_int_equal(size_bytes, 48);
    struct xdr xdr = xdr_reader(bytes, size_bytes);
    struct xdr_bytes name, interpreter, owner, data;
    int32_t kind;
    assert_true(xdr_get_bytes(&xdr, &name, 255));
    assert_true(xdr_get_i32(&xdr, &kind));
    assert_true(xdr_get_bytes(&xdr, &interpreter, 255));
    assert_true(xdr_get_bytes(&xdr, &owner, 32));
    assert_true(xdr_get_bytes(&xdr, &data, 65535));
    unit_same_bytes(name.data, name.size, (const uint8_t *)"sillyprog", 9);
    assert_int_equal(kind, 2);
    unit_same_bytes(interpreter.data, interpreter.size, (const uint8_t *)"lisp", 4);
    unit_same_bytes(owner.data, owner.size, (const uint8_t *)"john", 4);
    unit_same_bytes(data.data, data.size, (const uint8_t *)"(quit)", 6);
    assert_ptr_equal(name.data, bytes + 4);

    uint8_t out[48];
    memset(out, 0xee, sizeof(out));
    struct xdr to = xdr_writer(out, sizeof(out));
    assert_true(xdr_put_bytes(&to, name, 255));
    assert_true(xdr_put_i32(&to, kind));
    assert_true(xdr_put_bytes(&to, interpreter, 255));
    assert_true(xdr_put_bytes(&to, owner, 32));
    assert_true(xdr_put_bytes(&to, data, 65535));
    unit_same_bytes(out, xdr_offset(&to), bytes, size_bytes);
    free(bytes);
}

/* Invariant 1, and 2: whatever the length word says, nothing outside the bytes is reached. */
static void lengths_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        uint32_t size_max;
        enum xdr_error error;
    } cases[] = {
        {"", 16, XDR_SHORT},
        {"000000", 16, XDR_SHORT},
        {"00000001", 16, XDR_SHORT},
        {"00000001 61", 16, XDR_SHORT}, /* the padding is missing */
        {"00000004 616263", 16, XDR_SHORT},
        {"00000005 61626364 65000000", 4, XDR_TOO_LONG},
        {"ffffffff 61626364", 16, XDR_TOO_LONG},
        {"ffffffff 61626364", UINT32_MAX, XDR_SHORT},
        {"fffffffd 61626364", UINT32_MAX, XDR_SHORT}, /* size and padding overflow 32 bits */
        {"00000004 61626364", 4, XDR_OK},
        {"00000000", 0, XDR_OK},
        {"00000003 61626300", 3, XDR_OK},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t size_bytes;
        uint8_t *bytes = unit_hex(cases[i].hex, &size_bytes);
        struct xdr xdr = xdr_reader(bytes, size_bytes);
        struct xdr_bytes got = {.data = bytes, .size = 99};
        bool ok = xdr_get_bytes(&xdr, &got, cases[i].size_max);
        assert_int_equal(ok, cases[i].error == XDR_OK);
        assert_int_equal(xdr.error, cases[i].error);
        if (!ok) {
            assert_int_equal(got.size, 0);
            assert_null(got.data);
        }
        assert_in_range(xdr_offset(&xdr), 0, size_bytes);
        free(bytes);
    }
}

static void fixed_opaque(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 0, 0, 0, 9};
    uint8_t five[5];
    struct xdr xdr = xdr_reader(bytes, sizeof(bytes));
    assert_true(xdr_get_fixed(&xdr, five, 5));
    assert_int_equal(xdr_offset(&xdr), 8);
    unit_same_bytes(five, 5, bytes, 5);
    assert_false(xdr_get_fixed(&xdr, five, 2));
    unit_same_bytes(five, 2, (const uint8_t *)"\0\0", 2);

    uint8_t out[8] = {[7] = 0xee};
    struct xdr to = xdr_writer(out, 8);
    assert_true(xdr_put_fixed(&to, bytes, 5));
    unit_same_bytes(out, 8, bytes, 8);
    to = xdr_writer(out, 7);
    assert_false(xdr_put_fixed(&to, bytes, 5));
    assert_int_equal(xdr_offset(&to), 0);
}

/* Invariant 2. */
static void errors_stay(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0, 0, 0, 7, 0, 0, 0, 9, 1, 2, 3, 4};
    struct xdr xdr = xdr_reader(bytes, sizeof(bytes));
    struct xdr_bytes got;
    uint32_t word = 1;
    uint64_t hyper = 1;
    bool flag = true;
    assert_true(xdr_get_u32(&xdr, &word));
    assert_false(xdr_get_bytes(&xdr, &got, 8));
    assert_int_equal(xdr.error, XDR_TOO_LONG);
    uint32_t offset = xdr.error_offset;
    assert_false(xdr_get_u32(&xdr, &word));
    assert_false(xdr_get_u64(&xdr, &hyper));
    assert_false(xdr_get_bool(&xdr, &flag));
    assert_int_equal(word, 0);
    assert_true(hyper == 0);
    assert_false(flag);
    assert_int_equal(xdr.error, XDR_TOO_LONG);
    assert_int_equal(xdr.error_offset, offset);
    assert_false(xdr_ok(&xdr));

    uint8_t out[8];
    struct xdr to = xdr_writer(out, sizeof(out));
    assert_true(xdr_put_u32(&to, 1));
    assert_false(xdr_put_u64(&to, 1));
    assert_false(xdr_put_u32(&to, 1)); /* it would fit, but something before it is missing */
    assert_false(xdr_put_fixed(&to, bytes, 1));
    assert_int_equal(xdr_offset(&to), 4);
}

/* Invariant 4. */
static void oddities_are_noted(void **state)
{
    (void)state;
    static const uint8_t padded[] = {0, 0, 0, 1, 'a', 0, 1, 0};
    struct xdr xdr = xdr_reader(padded, sizeof(padded));
    struct xdr_bytes got;
    assert_true(xdr_get_bytes(&xdr, &got, 8));
    assert_int_equal(xdr.notes, XDR_NOTE_PADDING);

    static const uint8_t two[] = {0, 0, 0, 2};
    bool flag = false;
    xdr = xdr_reader(two, sizeof(two));
    assert_true(xdr_get_bool(&xdr, &flag));
    assert_true(flag);
    assert_int_equal(xdr.notes, XDR_NOTE_BOOL);
}

static void caps_bind_the_writer(void **state)
{
    (void)state;
    uint8_t out[16];
    struct xdr to = xdr_writer(out, sizeof(out));
    struct xdr_bytes five = {.data = (const uint8_t *)"abcde", .size = 5};
    assert_false(xdr_put_bytes(&to, five, 4));
    assert_int_equal(to.error, XDR_TOO_LONG);
    assert_int_equal(xdr_offset(&to), 0);
}

/* Data that is sent from where it lies: only its length is encoded, and nothing may follow it. */
static void deferred_bytes_end_the_message(void **state)
{
    (void)state;
    uint8_t out[64], data[40] = {1};
    struct xdr to = xdr_writer(out, sizeof(out));
    to.defer_bytes_min = 32;
    struct xdr_bytes small = {.data = data, .size = 31}, large = {.data = data, .size = 40};
    assert_true(xdr_put_bytes(&to, small, 64));
    assert_null(to.tail.data);
    assert_true(xdr_put_bytes(&to, large, 64));
    assert_ptr_equal(to.tail.data, data);
    assert_int_equal(to.tail.size, 40);
    assert_int_equal(xdr_offset(&to), 4 + 32 + 4);
    assert_false(xdr_put_u32(&to, 1));

    to = xdr_writer(out, sizeof(out));
    assert_true(xdr_put_bytes(&to, (struct xdr_bytes){.data = NULL, .size = 3}, 64));
    assert_null(to.tail.data);
    assert_int_equal(to.tail.size, 3);
}

static void lists_keep_their_bytes(void **state)
{
    (void)state;
    uint8_t out[16];
    struct xdr to = xdr_writer(out, sizeof(out));
    assert_true(xdr_put_list(&to, (struct xdr_bytes){0}));
    unit_same_bytes(out, xdr_offset(&to), (const uint8_t *)"\0\0\0\0", 4);

    const uint8_t *from = to.next;
    assert_true(xdr_put_bool(&to, true));
    assert_true(xdr_list_end(&to));
    struct xdr_bytes list = xdr_since(&to, from);
    unit_same_bytes(list.data, list.size, (const uint8_t *)"\0\0\0\1\0\0\0\0", 8);
    assert_false(xdr_put_list(&to, list));
    assert_int_equal(xdr_since(&to, from).size, 0);
}

static void errors_have_names(void **state)
{
    (void)state;
    for (enum xdr_error error = XDR_OK; error <= XDR_BAD_ENUM; error++) {
        assert_string_not_equal(xdr_error_name(error), "unknown error");
    }
    assert_string_equal(xdr_error_name((enum xdr_error)99), "unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_big_endian),
        cmocka_unit_test(example_of_the_rfc),
        cmocka_unit_test(lengths_are_checked),
        cmocka_unit_test(fixed_opaque),
        cmocka_unit_test(errors_stay),
        cmocka_unit_test(oddities_are_noted),
        cmocka_unit_test(caps_bind_the_writer),
        cmocka_unit_test(deferred_bytes_end_the_message),
        cmocka_unit_test(lists_keep_their_bytes),
        cmocka_unit_test(errors_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
