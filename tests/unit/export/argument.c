/* SPDX-License-Identifier: Apache-2.0 */
/* The directories of `holdfast serve` on the command line. */
#include "fixture.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void directory_alone_is_for_this_machine(void **state)
{
    struct fixture *f = *state;

    load_argument(f, "/srv/x");
    assert_int_equal(f->result, 0);
    assert_problems(f, NULL);
    assert_gets(f, "/srv/x", "127.0.0.1", "rw");
    assert_gets(f, "/srv/x", "127.9.9.9", "rw");
    assert_gets(f, "/srv/x", "::1", "rw");
    assert_gets(f, "/srv/x", "10.0.0.1", "nothing");
    assert_false(gets(f, "/srv/x", "::1")->secure);
    assert_true(gets(f, "/srv/x", "::1")->root_squash);
    assert_true(gets(f, "/srv/x", "::1")->sync);
    assert_null(f->table->entries[0].clients[0].file);
}

static void brackets_hold_its_options(void **state)
{
    struct fixture *f = *state;

    load_argument(f, "/srv/x(ro,no_root_squash)");
    assert_gets(f, "/srv/x", "127.0.0.1", "ro");
    assert_false(gets(f, "/srv/x", "127.0.0.1")->root_squash);
    assert_gets(f, "/srv/x", "10.0.0.1", "nothing");
    load_argument(f, "/srv/y(async) 10.0.0.0/8 192.168.0.1(ro)");
    assert_gets(f, "/srv/y", "10.0.0.1", "rw");
    assert_false(gets(f, "/srv/y", "192.168.0.1")->sync);
    assert_gets(f, "/srv/y", "192.168.0.1", "ro");
    assert_gets(f, "/srv/y", "127.0.0.1", "nothing");
}

static void clients_stand_behind_it(void **state)
{
    struct fixture *f = *state;

    load_argument(f, "/srv/x 10.0.0.0/8(rw,secure) 2001:db8::/32");
    assert_problems(f, NULL);
    assert_gets(f, "/srv/x", "10.0.0.1", "rw");
    assert_true(gets(f, "/srv/x", "10.0.0.1")->secure);
    assert_gets(f, "/srv/x", "2001:db8::1", "rw");
    assert_gets(f, "/srv/x", "127.0.0.1", "nothing");
}

static void hash_is_no_comment_in_an_argument(void **state)
{
    struct fixture *f = *state;

    load_argument(f, "/srv/h#1 10.0.0.1");
    assert_gets(f, "/srv/h#1", "10.0.0.1", "rw");
}

static void mistakes_are_said(void **state)
{
    struct fixture *f = *state;
    static const char *const mistakes[] = {"",
                                           " ",
                                           "/srv(rww)",
                                           "/srv 10.0.0.300",
                                           "/srv\n/etc",
                                           "no-such-relative-directory",
                                           "/srv 10.0.0.1(rw"};

    for (size_t i = 0; i < COUNT_OF(mistakes); i++) {
        uint32_t before = f->problems.count;
        load_argument(f, mistakes[i]);
        assert_int_equal(f->result, -EINVAL);
        assert_true(f->problems.count > before);
        assert_memory_equal(f->problems.items[before].text, "command line: error: ", 21);
    }
    assert_int_equal(f->table->entry_count, 0);
}

static void blanks_around_brackets_are_a_slip(void **state)
{
    struct fixture *f = *state;
    static const char *const slips[][2] = {
        {"/srv (rw)", "this machine alone type '/srv(rw)', for everyone '/srv *(rw)'"},
        {"/srv  ( rw , sync )", "type '/srv(rw,sync)', for everyone '/srv *(rw,sync)'"},
        {"/srv(rw, sync)", "type '/srv(rw,sync)'"},
        {"/srv *(rw, sync) ::1(ro)", "type '/srv *(rw,sync) ::1(ro)'"},
    };

    for (size_t i = 0; i < COUNT_OF(slips); i++) {
        uint32_t before = f->problems.count;
        load_argument(f, slips[i][0]);
        assert_int_equal(f->result, -EINVAL);
        assert_int_equal(f->problems.count, before + 1);
        if (strstr(f->problems.items[before].text, slips[i][1]) == NULL) {
            fail_msg("%s: %s", slips[i][0], f->problems.items[before].text);
        }
    }
    assert_int_equal(f->table->entry_count, 0);
}

static void directories_given_twice_are_joined(void **state)
{
    struct fixture *f = *state;

    load_argument(f, "/srv 10.0.0.1(rw) 10.0.0.2(ro)");
    load_argument(f, "/srv 10.0.0.3(ro)");
    assert_int_equal(f->problems.count, 0);
    load_argument(f, "/srv 10.0.0.1(ro)");
    assert_int_equal(f->result, 0);
    assert_int_equal(f->problems.count, 1);
    assert_non_null(strstr(f->problems.items[0].text, "'10.0.0.1' is named for /srv"));
    assert_int_equal(f->table->entry_count, 1);
    assert_gets(f, "/srv", "10.0.0.1", "rw");
    assert_gets(f, "/srv", "10.0.0.2", "ro");
    assert_gets(f, "/srv", "10.0.0.3", "ro");
}

static void relative_directories_and_blanks_work(void **state)
{
    struct fixture *f = *state;
    char top[] = "/tmp/holdfast-argument-XXXXXX";
    char here[PATH_MAX];
    char want[PATH_MAX + 16];

    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(top));
    assert_int_equal(chdir(top), 0);
    assert_int_equal(mkdir("my files (rw)", 0700), 0);
    assert_int_equal(mkdir("sub", 0700), 0);
    load_argument(f, "my files (rw)");
    load_argument(f, "./sub/../sub(ro)");
    load_argument(f, ".");
    assert_problems(f, NULL);
    (void)snprintf(want, sizeof want, "%s/my files (rw)", top);
    assert_gets(f, want, "127.0.0.1", "rw");
    (void)snprintf(want, sizeof want, "%s/sub", top);
    assert_gets(f, want, "127.0.0.1", "ro");
    assert_gets(f, top, "127.0.0.1", "rw");
    assert_int_equal(rmdir("my files (rw)"), 0);
    assert_int_equal(rmdir("sub"), 0);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(rmdir(top), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(directory_alone_is_for_this_machine),
        TEST(brackets_hold_its_options),
        TEST(clients_stand_behind_it),
        TEST(hash_is_no_comment_in_an_argument),
        TEST(mistakes_are_said),
        TEST(blanks_around_brackets_are_a_slip),
        TEST(directories_given_twice_are_joined),
        TEST(relative_directories_and_blanks_work),
    };
    return cmocka_run_group_tests_name("exports: argument", tests, NULL, NULL);
}
