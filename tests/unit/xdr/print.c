/* SPDX-License-Identifier: Apache-2.0 */
#include "xdr/print.h"
#include "lib/unit.h"

static char *text;
static size_t text_bytes;

static FILE *begin(void)
{
    FILE *out = open_memstream(&text, &text_bytes);
    assert_non_null(out);
    return out;
}

static void end(FILE *out, const char *want)
{
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, want);
    free(text);
}

static void one_member_a_line(void **state)
{
    (void)state;
    FILE *out = begin();
    xdr_print_head(out, 0, "attributes");
    xdr_print_u64(out, 4, "size", UINT64_MAX);
    xdr_print_i64(out, 4, "state", -1);
    xdr_print_bool(out, 4, "eof", true);
    xdr_print_enum(out, 4, "status", "NFS3ERR_IO", 5);
    end(out, "attributes:\n"
             "    size: 18446744073709551615\n"
             "    state: -1\n"
             "    eof: true\n"
             "    status: NFS3ERR_IO (5)\n");
}

static void bytes_cannot_break_the_line(void **state)
{
    (void)state;
    FILE *out = begin();
    static const uint8_t name[] = "a\"b\\c\n\x1b[31m\xff";
    xdr_print_text(out, 0, "name", (struct xdr_bytes){.data = name, .size = sizeof(name)});
    end(out, "name: \"a\\\"b\\\\c\\x0a\\x1b[31m\\xff\\x00\"\n");
}

static void long_opaque_is_cut(void **state)
{
    (void)state;
    uint8_t bytes[XDR_PRINT_HEX_MAX + 1];
    memset(bytes, 0xab, sizeof(bytes));
    char want[256] = "verf: ";
    for (unsigned i = 0; i < XDR_PRINT_HEX_MAX; i++) {
        strcat(want, "ab");
    }
    strcat(want, "... 65 bytes\n");
    FILE *out = begin();
    xdr_print_hex(out, 0, "verf", bytes, sizeof(bytes));
    end(out, want);
    out = begin();
    xdr_print_hex(out, 0, "verf", bytes, 2);
    end(out, "verf: abab\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_member_a_line),
        cmocka_unit_test(bytes_cannot_break_the_line),
        cmocka_unit_test(long_opaque_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
