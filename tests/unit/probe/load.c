/* SPDX-License-Identifier: Apache-2.0 */
/* How many IP fragments a datagram takes. */
#include "probe/load.h"

#include "lib/unit.h"

static void a_datagram_that_fits_is_one(void **state)
{
    (void)state;
    assert_int_equal(load_fragments(1480, 1500, false), 1);
    assert_int_equal(load_fragments(1460, 1500, true), 1);
    assert_int_equal(load_fragments(60000, 0, false), 1); /* the MTU is not known */
}

/* Counted with tcpdump: 1480 bytes a fragment over Ethernet; what a Linux server sent for READs of
 * 2, 4 and 8 KiB. */
static void fragments_carry_multiples_of_eight(void **state)
{
    (void)state;
    assert_int_equal(load_fragments(1481, 1500, false), 2);
    assert_int_equal(load_fragments(2048 + 136, 1500, false), 2);
    assert_int_equal(load_fragments(4096 + 136, 1500, false), 3);
    assert_int_equal(load_fragments(8192 + 136, 1500, false), 6);
    assert_int_equal(load_fragments(2960, 1500, false), 2);
    assert_int_equal(load_fragments(2961, 1500, false), 3);
    /* An MTU of 1006: 986 bytes are no multiple of 8; all but the last fragment carry 984. */
    assert_int_equal(load_fragments(984 + 986, 1006, false), 2);
    assert_int_equal(load_fragments(984 + 987, 1006, false), 3);
}

static void ipv6_fragments_have_a_header_more(void **state)
{
    (void)state;
    assert_int_equal(load_fragments(1461, 1500, true), 2);
    assert_int_equal(load_fragments(1448 * 2, 1500, true), 2);
    assert_int_equal(load_fragments(1448 + 1452, 1500, true), 2);
    assert_int_equal(load_fragments(1448 + 1453, 1500, true), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_datagram_that_fits_is_one),
        cmocka_unit_test(fragments_carry_multiples_of_eight),
        cmocka_unit_test(ipv6_fragments_have_a_header_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
