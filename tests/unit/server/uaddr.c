/* SPDX-License-Identifier: Apache-2.0 */
/* Universal addresses, RFC 5665 §5.2.3.3, §5.2.3.4: good ones there and back, bad ones refused. */
#include "lib/unit.h"

#include "server/uaddr.h"

#include <stdio.h>

static bool parse(const char *text, int family, struct uaddr *uaddr)
{
    struct xdr_bytes bytes = {.data = (const uint8_t *)text, .size = (uint32_t)strlen(text)};
    return uaddr_parse(bytes, family, uaddr);
}

static void good_ones_there_and_back(void **state)
{
    static const struct {
        const char *text;
        int family;
        uint16_t port;
    } cases[] = {
        {"192.0.2.7.8.1", AF_INET, 2049},
        {"0.0.0.0.0.111", AF_INET, 111},
        {"255.255.255.255.255.255", AF_INET, 65535},
        {"127.0.0.1.0.0", AF_INET, 0},
        {"::1.8.1", AF_INET6, 2049},
        {"::.0.111", AF_INET6, 111},
        {"2001:db8::7.255.255", AF_INET6, 65535},
        {"2001:db8:1:2:3:4:5:6.3.231", AF_INET6, 999},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct uaddr uaddr;
        char text[UADDR_BYTES_MAX];
        assert_true(parse(cases[i].text, cases[i].family, &uaddr));
        assert_int_equal(uaddr.port, cases[i].port);
        uaddr_format(&uaddr, cases[i].family, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void bad_ones_are_refused(void **state)
{
    static const char *const bad_ipv4[] = {
        "", ".", "..", "8.1", "192.0.2.7", "192.0.2.7.8", "192.0.2.7.8.", "192.0.2.7.8.256",
        "192.0.2.7.256.1", "192.0.2.7.08.1", "192.0.2.7.8.01", "192.0.2.7.8.-1", "192.0.2.7.8.+1",
        "192.0.2.7.8. 1", "192.0.2.7.8.1x", "192.0.2.7.8.0x1", "192.0.2.7.8.1.1", "192.0.2.256.8.1",
        "localhost.8.1", "::1.8.1", "192.0.2.7.8.99999999999999999999999999999999",
        "192.0.2.7.8.1.........................................................................",
    };
    static const char *const bad_ipv6[] = {
        "", "::1", "::1.8", "::1.8.256", "192.0.2.7.8.1", ":::1.8.1", "fe80::1%lo.8.1",
    };
    struct uaddr uaddr;
    struct xdr_bytes nul = {.data = (const uint8_t *)"::1.8.1\0", .size = 8};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad_ipv4); i++) {
        if (parse(bad_ipv4[i], AF_INET, &uaddr)) {
            fail_msg("taken for an IPv4 universal address: %s", bad_ipv4[i]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(bad_ipv6); i++) {
        if (parse(bad_ipv6[i], AF_INET6, &uaddr)) {
            fail_msg("taken for an IPv6 universal address: %s", bad_ipv6[i]);
        }
    }
    assert_false(uaddr_parse(nul, AF_INET6, &uaddr));
}

static void the_any_address_is_known(void **state)
{
    struct uaddr uaddr;

    (void)state;
    assert_true(parse("0.0.0.0.8.1", AF_INET, &uaddr));
    assert_true(uaddr_is_any(&uaddr.address, AF_INET));
    assert_true(parse("::.8.1", AF_INET6, &uaddr));
    assert_true(uaddr_is_any(&uaddr.address, AF_INET6));
    assert_true(parse("127.0.0.1.8.1", AF_INET, &uaddr));
    assert_false(uaddr_is_any(&uaddr.address, AF_INET));
    assert_true(parse("::1.8.1", AF_INET6, &uaddr));
    assert_false(uaddr_is_any(&uaddr.address, AF_INET6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ones_there_and_back),
        cmocka_unit_test(bad_ones_are_refused),
        cmocka_unit_test(the_any_address_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
