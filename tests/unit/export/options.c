/* SPDX-License-Identifier: Apache-2.0 */
/* Options: defaults, every word of the manual, and that no word is swallowed. */
#include "fixture.h"

static const char *text_of(const struct export_options *options)
{
    static char text[EXPORT_OPTIONS_TEXT_BYTES_MAX];

    assert_non_null(options);
    export_options_text(options, text);
    return text;
}

static void defaults_are_those_of_the_manual(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1\n/b 10.0.0.1()\n");
    for (const char *path = "/a"; path != NULL; path = path[1] == 'a' ? "/b" : NULL) {
        assert_string_equal(text_of(gets(f, path, "10.0.0.1")),
                            "ro,sync,secure,root_squash,no_all_squash,anonuid=65534,anongid=65534");
    }
}

static void words_set_what_they_say(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1(rw,async,insecure,no_root_squash,all_squash,anonuid=150,anongid=100)\n"
            "/b 10.0.0.1(ro,sync,secure,root_squash,no_all_squash)\n"
            "/c 10.0.0.1(anonuid=-2,anongid=4294967294)\n");
    assert_problems(f, NULL);
    assert_string_equal(text_of(gets(f, "/a", "10.0.0.1")),
                        "rw,async,insecure,no_root_squash,all_squash,anonuid=150,anongid=100");
    assert_string_equal(text_of(gets(f, "/b", "10.0.0.1")),
                        "ro,sync,secure,root_squash,no_all_squash,anonuid=65534,anongid=65534");
    assert_int_equal(gets(f, "/c", "10.0.0.1")->anonuid, 4294967294);
    assert_int_equal(gets(f, "/c", "10.0.0.1")->anongid, 4294967294);
}

static void contradictions_and_empty_words_are_warned_of(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1(rw,ro)\n"
            "/b 10.0.0.1(root_squash,rw,no_root_squash) 10.0.0.2(rw,rw)\n"
            "/c 10.0.0.1(rw,)\n"
            "/d 10.0.0.1(,rw) 10.0.0.2()\n"
            "/e 10.0.0.1(anonuid=5,anonuid=6)\n"
            "/f -ro 10.0.0.1(rw)\n"
            "/g 10.0.0.1(sec=sys,rw,sec=krb5,ro)\n"
            "/h 10.0.0.1(sec=sys,rw,sec=sys,ro)\n");
    assert_problems(f, "1:warning:'ro' takes back the 'rw'",
                    "2:warning:'no_root_squash' takes back the 'root_squash'",
                    "3:warning:no word behind", "4:warning:no word before",
                    "5:warning:'anonuid=' is given twice", "7:warning:'sec=krb5'",
                    "8:warning:'ro' takes back", NULL);
    assert_gets(f, "/a", "10.0.0.1", "ro");
    assert_false(gets(f, "/b", "10.0.0.1")->root_squash);
    assert_gets(f, "/c", "10.0.0.1", "rw");
    assert_gets(f, "/d", "10.0.0.1", "rw");
    assert_int_equal(gets(f, "/e", "10.0.0.1")->anonuid, 6);
    assert_gets(f, "/g", "10.0.0.1", "rw");
}

static void dash_list_is_a_default_that_clients_override(void **state)
{
    struct fixture *f = *state;

    load(f, "/srv/x/e -sync,ro 127.0.0.2 127.0.0.3(rw) 127.0.0.4\n"
            "/srv/x/f 127.0.0.2 -rw 127.0.0.3 -no_root_squash 127.0.0.4(ro) -ro\n"
            "/srv/x/g 127.0.0.2\n");
    assert_problems(f, "2:warning:-OPTIONS", NULL);
    assert_gets(f, "/srv/x/e", "127.0.0.2", "ro");
    assert_gets(f, "/srv/x/e", "127.0.0.3", "rw");
    assert_gets(f, "/srv/x/e", "127.0.0.4", "ro");
    assert_gets(f, "/srv/x/f", "127.0.0.2", "ro");
    assert_true(gets(f, "/srv/x/f", "127.0.0.3")->root_squash);
    assert_gets(f, "/srv/x/f", "127.0.0.3", "rw");
    assert_gets(f, "/srv/x/f", "127.0.0.4", "ro");
    assert_false(gets(f, "/srv/x/f", "127.0.0.4")->root_squash);
    assert_true(gets(f, "/srv/x/g", "127.0.0.2")->root_squash);
}

static void the_manuals_sample_is_understood(void **state)
{
    struct fixture *f = *state;

    load(f, "# sample /etc/exports file\n"
            "/               master(rw) trusty(rw,no_root_squash)\n"
            "/projects       proj*.local.domain(rw)\n"
            "/usr            *.local.domain(ro) @trusted(rw)\n"
            "/home/joe       pc001(rw,all_squash,anonuid=150,anongid=100)\n"
            "/pub            *(ro,insecure,all_squash)\n"
            "/srv/www        -sync,rw server @trusted @external(ro)\n"
            "/foo            2001:db8:9:e54::/64(rw) 192.0.2.0/24(rw)\n"
            "/build          buildhost[0-9].local.domain(rw)\n");
    assert_int_equal(f->result, 0);
    assert_int_equal(f->table->entry_count, 8);
    assert_gets(f, "/foo", "2001:db8:9:e54::5", "rw");
    assert_gets(f, "/foo", "192.0.2.77", "rw");
    assert_gets(f, "/pub", "198.51.100.1", "ro");
    assert_true(f->table->entries[5].clients[0].options.rw);
    assert_false(f->table->entries[5].clients[2].options.rw);
}

static void words_without_effect_here_are_taken(void **state)
{
    struct fixture *f = *state;

    load(f,
         "/a 10.0.0.1(rw,wdelay,no_wdelay,no_subtree_check,hide,nocrossmnt,secure_locks,auth_nlm,"
         "no_acl,no_pnfs,sec=sys,xprtsec=none)\n");
    assert_problems(f, NULL);
    assert_gets(f, "/a", "10.0.0.1", "rw");
}

static void words_not_built_are_named(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1(rw,subtree_check)\n/b 10.0.0.1(pnfs)\n/c 10.0.0.1(security_label)\n"
            "/d 10.0.0.1(replicas=/x@y)\n");
    assert_int_equal(f->result, 0);
    assert_int_equal(f->table->entry_count, 4);
    assert_problems(f, "1:warning:subtree_check", "2:warning:pnfs", "3:warning:security_label",
                    "4:warning:replicas=/x@y", NULL);
}

static void words_for_mounts_and_locks_are_kept(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1(crossmnt,nohide,nordirplus,insecure_locks,mp=/mnt)\n"
            "/b 10.0.0.1(mountpoint) 10.0.0.2(no_auth_nlm) 10.0.0.3\n"
            "/c 10.0.0.1(mountpoint=mnt)\n");
    assert_problems(f, "3:error:mountpoint=mnt", NULL);
    assert_non_null(strstr(text_of(gets(f, "/a", "10.0.0.1")),
                           ",crossmnt,nohide,nordirplus,insecure_locks,mountpoint=/mnt"));
    assert_string_equal(gets(f, "/b", "10.0.0.1")->mountpoint, "");
    assert_null(gets(f, "/b", "10.0.0.3")->mountpoint);
    assert_false(gets(f, "/b", "10.0.0.2")->secure_locks);
    assert_true(gets(f, "/b", "10.0.0.3")->secure_locks);
    assert_true(gets(f, "/b", "10.0.0.3")->readdirplus);
    assert_false(gets(f, "/b", "10.0.0.3")->crossmnt);
}

static void words_that_protect_and_are_not_built_condemn_their_line(void **state)
{
    struct fixture *f = *state;

    load(f,
         "/a *(reexport=auto-fsidnum)\n/b *(squash_gids=0-15)\n/c *(refer=/x@y)\n/d *(sec=krb5)\n"
         "/e *(sec=krb5p:none)\n"
         "/f *(xprtsec=mtls)\n/g *(squash_uids=0-15)\n/h *(sec=bogus)\n");
    assert_int_equal(f->result, -EINVAL);
    assert_int_equal(f->table->entry_count, 0);
    for (unsigned line = 1; line <= 8; line++) {
        bool said = false;
        for (uint32_t i = 0; i < f->problems.count; i++) {
            char place[32];
            (void)snprintf(place, sizeof place, "exports:%u: error: ", line);
            said = said || strncmp(f->problems.items[i].text, place, strlen(place)) == 0;
        }
        assert_true(said);
    }
}

static void words_behind_another_flavor_are_for_that_flavor(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1(sec=sys,ro,sec=krb5,rw,no_root_squash)\n"
            "/b 10.0.0.1(sec=krb5:sys,rw)\n");
    assert_int_equal(f->result, 0);
    assert_gets(f, "/a", "10.0.0.1", "ro");
    assert_true(gets(f, "/a", "10.0.0.1")->root_squash);
    assert_gets(f, "/b", "10.0.0.1", "rw");
    assert_problems(f, "1:warning:krb5", "2:warning:krb5", NULL);
}

static void unknown_words_are_named_with_a_guess(void **state)
{
    struct fixture *f = *state;

    load(f, "/a *(no_rot_squash)\n/b *(rw=host)\n/c *(anonuid)\n/d *(somethingelse)\n/e *(RW)\n");
    assert_problems(f, "1:error:'no_root_squash'", "2:error:'rw=host'", "3:error:'anonuid='",
                    "4:error:'somethingelse'", "5:error:'RW'", NULL);
    assert_int_equal(f->table->entry_count, 0);
}

static void ids_are_checked(void **state)
{
    struct fixture *f = *state;

    load(f, "/a *(anonuid=)\n/b *(anonuid=-1)\n/c *(anongid=4294967295)\n/d *(anonuid=1x)\n"
            "/e *(anonuid=99999999999999999999)\n/f *(anonuid=0)\n");
    assert_problems(f, "1:error:anonuid=", "2:error:-1", "3:error:4294967295", "4:error:1x",
                    "5:error:9999", "6:warning:root", NULL);
}

static void fsid_has_three_forms(void **state)
{
    struct fixture *f = *state;
    static const uint8_t small[16] = {[12] = 0, 0, 1, 2};
    static const uint8_t uuid[16] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0,
                                     0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0};

    load(f, "/a 10.0.0.1(fsid=258)\n/b 10.0.0.1(fsid=12345678-9abc-def0-1234-56789abcdef0)\n"
            "/c 10.0.0.1(fsid=root)\n/d 10.0.0.1(fsid=0x103)\n/e 10.0.0.1(fsid=x)\n"
            "/f 10.0.0.1(fsid=)\n");
    assert_problems(f, "5:error:fsid=x", "6:error:fsid=", NULL);
    assert_memory_equal(gets(f, "/a", "10.0.0.1")->fsid, small, 16);
    assert_memory_equal(gets(f, "/b", "10.0.0.1")->fsid, uuid, 16);
    assert_true(gets(f, "/c", "10.0.0.1")->fsid_is_root);
    assert_non_null(strstr(text_of(gets(f, "/a", "10.0.0.1")), ",fsid=258"));
    assert_non_null(
        strstr(text_of(gets(f, "/b", "10.0.0.1")), ",fsid=12345678-9abc-def0-1234-56789abcdef0"));
    assert_non_null(strstr(text_of(gets(f, "/c", "10.0.0.1")), ",fsid=root"));
    assert_non_null(strstr(text_of(gets(f, "/d", "10.0.0.1")), ",fsid=259"));
}

static void fsid_belongs_to_the_directory(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1\n/a 10.0.0.2(fsid=7)\n/a 10.0.0.3(ro)\n"
            "/b 10.0.0.1(fsid=7)\n/a 10.0.0.4(fsid=8)\n/c 10.0.0.1(fsid=0) 10.0.0.2(fsid=1)\n");
    assert_problems(f, "4:error:/a", "5:error:another", "6:error:another", NULL);
    for (const char *client = "10.0.0.1"; client != NULL;
         client = strcmp(client, "10.0.0.1") == 0 ? "10.0.0.3" : NULL) {
        assert_true(gets(f, "/a", client)->has_fsid);
        assert_int_equal(gets(f, "/a", client)->fsid[15], 7);
    }
    assert_gets(f, "/a", "10.0.0.4", "nothing");
    assert_gets(f, "/b", "10.0.0.1", "no export");
    assert_gets(f, "/c", "10.0.0.1", "no export");
}

static void journal_belongs_to_the_directory(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1 10.0.0.2(journal=/dev/nvme0n1p3)\n/a 10.0.0.3(journal=/dev/nvme0n1p3)\n"
            "/a 10.0.0.4(journal=auto)\n/b *(journal=off)\n/c *(journal=nvme)\n/d *(journal=)\n"
            "/e *(journal)\n");
    assert_problems(f, "3:error:another journal=", "5:error:journal=nvme",
                    "6:error:journal=", "7:error:'journal='", NULL);
    for (const char *client = "10.0.0.1"; client != NULL;
         client = strcmp(client, "10.0.0.1") == 0 ? "10.0.0.3" : NULL) {
        assert_string_equal(gets(f, "/a", client)->journal, "/dev/nvme0n1p3");
    }
    assert_non_null(strstr(text_of(gets(f, "/a", "10.0.0.1")), ",journal=/dev/nvme0n1p3"));
    assert_gets(f, "/a", "10.0.0.4", "nothing");
    assert_string_equal(gets(f, "/b", "10.0.0.1")->journal, "off");
}

/* What is written as a line of a file means the same there. */
static void values_can_be_written(void **state)
{
    struct fixture *f = *state;
    char text[EXPORT_CLIENT_TEXT_BYTES_MAX];

    load(f, "/a \"-journal=/my #1 log\" 10.0.0.1(rw)\n/b -journal=/log(1) 10.0.0.1(rw)\n");
    assert_problems(f, "2:error:brackets", NULL);
    assert_gets(f, "/b", "10.0.0.1", "no export");
    const struct export_entry *entry = export_table_find(f->table, "/a");
    assert_non_null(entry);
    export_client_text(entry, &entry->clients[0], text);
    text[strcspn(text, " ")] = '\t'; /* another name for the same, so that both can be there */
    text[1] = 'c';
    load(f, text);
    assert_string_equal(gets(f, "/c", "10.0.0.1")->journal, "/my #1 log");
    assert_true(gets(f, "/c", "10.0.0.1")->rw);
}

static void the_async_window_has_a_unit(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1(async_window=2s) 10.0.0.2(async_window=250ms) 10.0.0.3(async_window=0) "
            "10.0.0.4(async_window=60000)\n"
            "/b *(async_window=61s)\n/c *(async_window=1m)\n/d *(async_window=)\n"
            "/e *(async_window=99999999999999999999)\n/f *(async_window=1.5s)\n");
    assert_problems(f, "2:error:61s", "3:error:1m", "4:error:async_window=", "5:error:9999",
                    "6:error:1.5s", NULL);
    assert_int_equal(gets(f, "/a", "10.0.0.1")->async_window_ms, 2000);
    assert_int_equal(gets(f, "/a", "10.0.0.2")->async_window_ms, 250);
    assert_int_equal(gets(f, "/a", "10.0.0.4")->async_window_ms, 60000);
    assert_true(gets(f, "/a", "10.0.0.3")->has_async_window);
    assert_int_equal(gets(f, "/a", "10.0.0.3")->async_window_ms, 0);
    assert_non_null(strstr(text_of(gets(f, "/a", "10.0.0.1")), ",async_window=2000ms"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_those_of_the_manual),
        TEST(words_set_what_they_say),
        TEST(contradictions_and_empty_words_are_warned_of),
        TEST(dash_list_is_a_default_that_clients_override),
        TEST(the_manuals_sample_is_understood),
        TEST(words_without_effect_here_are_taken),
        TEST(words_not_built_are_named),
        TEST(words_for_mounts_and_locks_are_kept),
        TEST(words_that_protect_and_are_not_built_condemn_their_line),
        TEST(words_behind_another_flavor_are_for_that_flavor),
        TEST(unknown_words_are_named_with_a_guess),
        TEST(ids_are_checked),
        TEST(fsid_has_three_forms),
        TEST(fsid_belongs_to_the_directory),
        TEST(journal_belongs_to_the_directory),
        TEST(values_can_be_written),
        TEST(the_async_window_has_a_unit),
    };
    return cmocka_run_group_tests_name("exports: options", tests, NULL, NULL);
}
