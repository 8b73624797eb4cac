/* SPDX-License-Identifier: Apache-2.0 */
/* Clients: what each form means, and which of several forms wins. */
#include "fixture.h"

#include "vfs/export_internal.h"

#include <sys/un.h>

static void addresses_of_both_families(void **state)
{
    struct fixture *f = *state;

    load(f, "/srv/x/e ::1(rw) 127.0.0.0/8(ro)\n"
            "/srv/x/f 0:0:0:0:0:0:0:1(rw)\n"
            "/srv/x/g 2001:db8::/32(rw)\n");
    assert_problems(f, NULL);
    assert_gets(f, "/srv/x/e", "::1", "rw");
    assert_gets(f, "/srv/x/e", "127.0.0.1", "ro");
    assert_gets(f, "/srv/x/e", "::2", "nothing");
    assert_gets(f, "/srv/x/f", "::1", "rw");
    assert_gets(f, "/srv/x/g", "2001:db8:ffff::1", "rw");
    assert_gets(f, "/srv/x/g", "2001:db9::1", "nothing");
}

static void ipv4_means_the_same_over_a_dual_stack_socket(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.1.2.3(rw) 10.0.0.0/8(ro)\n"
            "/b ::ffff:10.1.2.3(rw)\n"
            "/c ::ffff:10.0.0.0/104(rw)\n");
    assert_gets(f, "/a", "::ffff:10.1.2.3", "rw");
    assert_gets(f, "/a", "::ffff:10.200.0.1", "ro");
    assert_gets(f, "/b", "10.1.2.3", "rw");
    assert_gets(f, "/c", "10.9.9.9", "rw");
    assert_gets(f, "/c", "11.9.9.9", "nothing");
}

static void ipv6_networks_do_not_hold_ipv4_clients(void **state)
{
    struct fixture *f = *state;

    load(f, "/a ::/0(rw)\n/b 0.0.0.0/0(rw)\n/c ::/80(rw)\n");
    assert_gets(f, "/a", "2001:db8::1", "rw");
    assert_gets(f, "/a", "10.0.0.1", "nothing");
    assert_gets(f, "/a", "::ffff:10.0.0.1", "nothing");
    assert_gets(f, "/b", "10.0.0.1", "rw");
    assert_gets(f, "/b", "2001:db8::1", "nothing");
    assert_gets(f, "/c", "10.0.0.1", "nothing");
}

static void prefix_and_dotted_mask_are_the_same(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 192.168.4.0/255.255.252.0(rw)\n/b 192.168.4.0/22(rw)\n"
            "/c 10.0.0.0/0(rw)\n/d 10.0.0.1/32(rw)\n/e 10.0.0.0/0.0.0.0(rw)\n");
    for (const char *path = "/a"; path != NULL; path = path[1] == 'a' ? "/b" : NULL) {
        assert_gets(f, path, "192.168.3.255", "nothing");
        assert_gets(f, path, "192.168.4.0", "rw");
        assert_gets(f, path, "192.168.7.255", "rw");
        assert_gets(f, path, "192.168.8.0", "nothing");
    }
    assert_gets(f, "/c", "1.2.3.4", "rw");
    assert_gets(f, "/d", "10.0.0.1", "rw");
    assert_gets(f, "/d", "10.0.0.0", "nothing");
    assert_gets(f, "/e", "1.2.3.4", "rw");
    assert_problems(f, "3:warning:10.0.0.0/0", "5:warning:10.0.0.0/0.0.0.0", NULL);
}

static void odd_prefixes_are_exact(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 2001:db8:8000::/33(rw)\n/b 10.0.0.128/25(rw)\n/c fe80::/10(rw)\n");
    assert_problems(f, NULL);
    assert_gets(f, "/a", "2001:db8:8000::1", "rw");
    assert_gets(f, "/a", "2001:db8:7fff::1", "nothing");
    assert_gets(f, "/b", "10.0.0.128", "rw");
    assert_gets(f, "/b", "10.0.0.127", "nothing");
    assert_gets(f, "/c", "febf::1", "rw");
    assert_gets(f, "/c", "fec0::1", "nothing");
}

static void things_that_are_no_client_are_errors(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 256.0.0.1\n/a 10.0.0\n/a 010.0.0.1\n/a 10.0.0.0/33\n/a 10.0.0.0/-1\n"
            "/a 10.0.0.0/\n/a ::1/129\n/a 10.0.0.0/255.0.255.0\n/a [::1]\n/a :::\n/a fe80::1%lo\n"
            "/a @\n/a gss/krb5\n/a ho;st\n/a 192.168.1.*\n/a host/24\n/a 10.0.0.0/8/8\n");
    for (uint32_t i = 0; i < f->problems.count; i++) {
        char place[32];
        (void)snprintf(place, sizeof place, "exports:%u: error: ", i + 1);
        assert_memory_equal(f->problems.items[i].text, place, strlen(place));
    }
    assert_int_equal(f->problems.count, 17);
    assert_int_equal(f->table->entry_count, 0);
}

static void the_manuals_order_decides_not_the_line(void **state)
{
    struct fixture *f = *state;

    load(f, "/a *(ro) 10.0.0.0/8(rw) 10.0.0.1(ro)\n"
            "/b 10.0.0.0/8(ro) 10.1.0.0/16(rw)\n"
            "/c 10.0.0.0/8(ro) 10.0.0.1/32(rw)\n"
            "/d 127.0.0.1(ro) localhost(rw)\n");
    assert_gets(f, "/a", "11.0.0.1", "ro");
    assert_gets(f, "/a", "10.0.0.2", "rw");
    assert_gets(f, "/a", "10.0.0.1", "ro");
    /* Of one kind the first counts, not the narrowest. */
    assert_gets(f, "/b", "10.1.0.1", "ro");
    assert_gets(f, "/c", "10.0.0.1", "ro");
    assert_gets(f, "/d", "127.0.0.1", "ro");
}

static void host_names_are_their_addresses(void **state)
{
    struct fixture *f = *state;

    load(f, "/a localhost(rw) *(ro)\n");
    assert_problems(f, NULL);
    assert_gets(f, "/a", "127.0.0.1", "rw");
    assert_gets(f, "/a", "127.0.0.2", "ro");
}

static void names_that_mean_nothing_match_nobody(void **state)
{
    struct fixture *f = *state;

    load(f, "/a no-such-host.invalid(rw)\n"
            "/b *.example.org(rw)\n"
            "/c @no-such-netgroup(rw)\n"
            "/d buildhost[0-9].local.domain(rw)\n");
    assert_int_equal(f->result, 0);
    assert_problems(f, "1:warning:no-such-host", "3:warning:@no-such-netgroup", NULL);
    assert_gets(f, "/a", "10.0.0.1", "nothing");
    assert_gets(f, "/b", "10.0.0.1", "nothing");
    assert_gets(f, "/c", "10.0.0.1", "nothing");
    assert_gets(f, "/d", "10.0.0.1", "nothing");
}

static void patterns_are_those_of_nfs_utils(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool fits;
    } cases[] = {
        {"*.org", "a.b.org", true},      {"*.org", "org", false},         {"*", "", true},
        {"a*b*c", "aXbXbXc", true},      {"a*b*c", "aXcXb", false},       {"?.org", "..org", true},
        {"p?7", "pc7", true},            {"p?7", "p7", false},            {"*.ORG", "x.org", true},
        {"pc[0-9]", "pc5", true},        {"pc[0-9]", "pcx", false},       {"[a-cx]y", "xy", true},
        {"[^a]x", "bx", true},           {"[^a]x", "ax", false},          {"[!a]x", "ax", true},
        {"[!a]x", "bx", false},          {"[]a]x", "]x", true},           {"[A-C]x", "bx", true},
        {"[a", "a", true},               {"a**", "a", true},              {"[a-]", "-", true},
        {"****************b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (export_pattern_fits(cases[i].pattern, cases[i].name) != cases[i].fits) {
            fail_msg("%s and %s", cases[i].pattern, cases[i].name);
        }
    }
}

static void other_address_families_match_nothing(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un local = {.sun_family = AF_UNIX};

    load(f, "/a *(rw)\n");
    assert_null(export_entry_match(&f->table->entries[0], (struct sockaddr *)(void *)&local));
}

static void doubled_clients_are_a_warning(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1(rw) ::ffff:10.0.0.1(ro)\n/a 10.0.0.0/8 10.0.0.0/255.0.0.0(rw)\n/a * *\n");
    assert_problems(f, "1:warning:::ffff:10.0.0.1", "2:warning:10.0.0.0/255.0.0.0",
                    "3:warning:already", NULL);
    assert_gets(f, "/a", "10.0.0.1", "rw");
    assert_gets(f, "/a", "10.0.0.2", "ro");
}

static void the_longest_path_is_the_export_of_a_path(void **state)
{
    struct fixture *f = *state;

    load(f, "/srv *\n/srv/a/b *\n/other *\n");
    assert_string_equal(export_table_find(f->table, "/srv/a/b/c")->path, "/srv/a/b");
    assert_string_equal(export_table_find(f->table, "/srv/a/b")->path, "/srv/a/b");
    assert_string_equal(export_table_find(f->table, "/srv/a/bc")->path, "/srv");
    assert_null(export_table_find(f->table, "/srvx"));
    assert_null(export_table_find(f->table, "/"));
    load(f, "/ *\n");
    assert_string_equal(export_table_find(f->table, "/srvx")->path, "/");
    assert_string_equal(export_table_find(f->table, "/")->path, "/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(addresses_of_both_families),
        TEST(ipv4_means_the_same_over_a_dual_stack_socket),
        TEST(ipv6_networks_do_not_hold_ipv4_clients),
        TEST(prefix_and_dotted_mask_are_the_same),
        TEST(odd_prefixes_are_exact),
        TEST(things_that_are_no_client_are_errors),
        TEST(the_manuals_order_decides_not_the_line),
        TEST(host_names_are_their_addresses),
        TEST(names_that_mean_nothing_match_nobody),
        TEST(patterns_are_those_of_nfs_utils),
        TEST(other_address_families_match_nothing),
        TEST(doubled_clients_are_a_warning),
        TEST(the_longest_path_is_the_export_of_a_path),
    };
    return cmocka_run_group_tests_name("exports: clients", tests, NULL, NULL);
}
