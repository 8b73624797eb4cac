/* SPDX-License-Identifier: Apache-2.0 */
/* Lines and words: quoting, escapes, comments, continuation, and what a bad line may not do. */
#include "fixture.h"

static void quotes_and_octal_name_the_same_path(void **state)
{
    struct fixture *f = *state;

    load(f, "\"/srv/x/a b\" 127.0.0.1(rw)\n"
            "/srv/x/c\\040d 127.0.0.1(rw)\n"
            "\"/srv/x/h#1\" \\\n127.0.0.1(rw)\n"
            "/srv/\"x y\"/z 127.0.0.1(rw)\n"
            "\"/srv/x/e\\040f\" 127.0.0.1(rw)\n"
            "/srv/x/n\\043\\303\\244 127.0.0.1(rw)\n");
    assert_int_equal(f->result, 0);
    assert_problems(f, NULL);
    assert_gets(f, "/srv/x/a b", "127.0.0.1", "rw");
    assert_gets(f, "/srv/x/c d", "127.0.0.1", "rw");
    assert_gets(f, "/srv/x/h#1", "127.0.0.1", "rw");
    assert_gets(f, "/srv/x y/z", "127.0.0.1", "rw");
    assert_gets(f, "/srv/x/e f", "127.0.0.1", "rw");
    assert_gets(f, "/srv/x/n#\303\244", "127.0.0.1", "rw");
    assert_gets(f, "/srv/x/a", "127.0.0.1", "no export");
}

static void unquoted_blank_is_reported_not_exported(void **state)
{
    struct fixture *f = *state;

    load(f, "/srv/my files 127.0.0.1(rw)\n");
    /* "files" is a host name then; it is not found (RFC 6761 would have been "files.invalid"). */
    assert_gets(f, "/srv/my files", "127.0.0.1", "no export");
    assert_gets(f, "/srv/my", "127.0.0.1", "rw");
    assert_true(f->problems.count > 0);
}

static void escaped_blank_of_the_shell_is_a_warning(void **state)
{
    struct fixture *f = *state;

    load(f, "/srv/a\\ 127.0.0.1(rw)\n");
    assert_problems(f, "1:warning:\\040", NULL);
}

static void comments_start_outside_quotes_only(void **state)
{
    struct fixture *f = *state;

    load(f, "# all of it \\\n"
            "/a 127.0.0.1(rw) # the rest\n"
            "/b 127.0.0.1(rw)#(ro)\n"
            "/c#d 127.0.0.1(ro)\n"
            "   # indented\n"
            "\"/e#f\" 127.0.0.1(ro)\n");
    assert_gets(f, "/a", "127.0.0.1", "rw");
    assert_gets(f, "/b", "127.0.0.1", "rw");
    assert_gets(f, "/e#f", "127.0.0.1", "ro");
    assert_gets(f, "/c", "10.0.0.1", "ro"); /* the comment ate the client */
    assert_problems(f, "4:warning:everyone", NULL);
}

static void crlf_and_a_missing_final_newline_parse(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 127.0.0.1(rw)\r\n"
            "\r\n"
            "# c\r\n"
            "\"/b c\" \\\r\n\t127.0.0.1(rw)\r\n"
            "/d 127.0.0.1(rw)");
    assert_problems(f, NULL);
    assert_gets(f, "/a", "127.0.0.1", "rw");
    assert_gets(f, "/b c", "127.0.0.1", "rw");
    assert_gets(f, "/d", "127.0.0.1", "rw");
    assert_int_equal(f->table->entry_count, 3);
}

static void every_end_of_the_text_is_survived(void **state)
{
    struct fixture *f = *state;
    static const char *const ends[] = {
        "",
        " ",
        "\n",
        "\\",
        "\\\n",
        "\\\r",
        "\"",
        "\"\\",
        "\"\\\n",
        "#",
        "/a \\0",
        "/a \\04",
        "/a (",
        "/a -",
        "/a 10.0.0.1(\\",
        "\xef\xbb\xbf",
        "\xef\xbb",
        "/a \\",
        "/a \\\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        load(f, ends[i]);
    }
}

static void byte_order_mark_is_not_part_of_the_path(void **state)
{
    struct fixture *f = *state;

    load(f, "\xef\xbb\xbf/a 127.0.0.1(rw)\n");
    assert_problems(f, NULL);
    assert_gets(f, "/a", "127.0.0.1", "rw");
}

static void bad_lines_do_not_wipe_the_others(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 127.0.0.1(rw)\n"
            "this is no line\n"
            "/b 127.0.0.1(rw) 300.1.2.3(rw)\n"
            "/c 127.0.0.1(rwx)\n"
            "\"/d 127.0.0.1(rw)\n"
            "/e 127.0.0.1(rw\n"
            "/f 127.0.0.1(rw, sync)\n"
            "/g 127.0.0.1(rw)x\n"
            "/../h 127.0.0.1(rw)\n"
            "/i\\000 127.0.0.1(rw)\n"
            "/j 127.0.0.1(rw)\n");
    assert_int_equal(f->result, -EINVAL);
    assert_int_equal(f->table->entry_count, 2);
    assert_gets(f, "/a", "127.0.0.1", "rw");
    assert_gets(f, "/j", "127.0.0.1", "rw");
    assert_problems(f, "2:error:'this'", "3:error:300.1.2.3", "4:error:rwx", "5:error:quote",
                    "6:error:not closed", "7:error:blanks", "7:error:blanks", "8:error:behind",
                    "9:error:..", "10:error:\\000", NULL);
}

static void bad_line_takes_its_continuation_with_it(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 300.0.0.1(rw) \\\n"
            "  127.0.0.1(bogus) \\\n"
            "  127.0.0.2(rw)\n"
            "/b 127.0.0.1(rw)\n");
    assert_problems(f, "1:error:300.0.0.1", "2:error:bogus", NULL);
    assert_gets(f, "/a", "127.0.0.2", "no export");
    assert_gets(f, "/b", "127.0.0.1", "rw");
}

static void nul_bytes_are_an_error_of_their_line(void **state)
{
    struct fixture *f = *state;
    static const char text[] = "/a\0b 127.0.0.1(rw)\n/c 127.0.0.1(rw)\n";

    load_bytes(f, text, sizeof text - 1);
    assert_problems(f, "1:error:NUL", NULL);
    assert_gets(f, "/c", "127.0.0.1", "rw");
    assert_int_equal(f->table->entry_count, 1);
}

static void control_bytes_do_not_reach_the_terminal(void **state)
{
    struct fixture *f = *state;

    load(f, "\x1b[2J 127.0.0.1(rw)\n");
    assert_int_equal(f->problems.count, 1);
    assert_null(strchr(f->problems.items[0].text, 0x1b));
}

static void paths_are_tidied(void **state)
{
    struct fixture *f = *state;

    load(f, "/ 127.0.0.1(ro)\n//srv//x/./y/ 127.0.0.1(rw)\n/srv/..a 127.0.0.1(rw)\n/. ::1(rw)\n");
    assert_problems(f, NULL);
    assert_gets(f, "/", "127.0.0.1", "ro");
    assert_gets(f, "/", "::1", "rw");
    assert_gets(f, "/srv/x/y", "127.0.0.1", "rw");
    assert_gets(f, "/srv/..a", "127.0.0.1", "rw");
}

static void lines_of_one_directory_are_joined(void **state)
{
    struct fixture *f = *state;

    load(f, "/a 10.0.0.1(rw)\n/b 10.0.0.1(ro)\n/a/ 10.0.0.2(ro) 10.0.0.1(ro)\n");
    assert_problems(f, "3:warning:exports:1", NULL);
    assert_int_equal(f->table->entry_count, 2);
    assert_gets(f, "/a", "10.0.0.1", "rw");
    assert_gets(f, "/a", "10.0.0.2", "ro");
}

static void clients_know_their_line(void **state)
{
    struct fixture *f = *state;

    load(f, "\n/a 10.0.0.1(rw) \\\n\t10.0.0.2(rw)\n");
    const struct export_entry *entry = &f->table->entries[0];
    assert_int_equal(entry->client_count, 2);
    assert_int_equal(entry->clients[0].line, 2);
    assert_int_equal(entry->clients[1].line, 3);
    assert_string_equal(entry->clients[0].file, "exports");
}

static void blank_before_the_bracket_is_everyone_and_a_warning(void **state)
{
    struct fixture *f = *state;

    load(f, "\n/srv/x/e 10.9.9.0/24 (rw,insecure)\n");
    assert_int_equal(f->result, 0);
    assert_problems(f, "2:warning:10.9.9.0/24(rw,insecure)", NULL);
    assert_gets(f, "/srv/x/e", "10.9.9.9", "ro");
    assert_true(gets(f, "/srv/x/e", "10.9.9.9")->secure);
    assert_gets(f, "/srv/x/e", "127.0.0.1", "rw");
    assert_gets(f, "/srv/x/e", "2001:db8::1", "rw");
    assert_false(gets(f, "/srv/x/e", "127.0.0.1")->secure);
}

static void nobody_named_is_everyone_and_a_warning(void **state)
{
    struct fixture *f = *state;

    load(f, "/a\n/b (rw)\n/c -rw\n/d *\n/e(rw)\n");
    assert_problems(f, "1:warning:everyone", "2:warning:everyone", "3:warning:everyone",
                    "5:warning:brackets", "5:warning:everyone", NULL);
    assert_gets(f, "/a", "10.0.0.1", "ro");
    assert_gets(f, "/b", "10.0.0.1", "rw");
    assert_gets(f, "/c", "10.0.0.1", "rw");
    assert_gets(f, "/d", "10.0.0.1", "ro");
    assert_gets(f, "/e(rw)", "10.0.0.1", "ro");
}

static void limits_are_said(void **state)
{
    struct fixture *f = *state;
    static char text[4096];
    size_t used = 0;

    used += (size_t)snprintf(text, sizeof text, "/");
    memset(text + used, 'p', EXPORT_PATH_BYTES_MAX);
    used += EXPORT_PATH_BYTES_MAX;
    used += (size_t)snprintf(text + used, sizeof text - used, " 10.0.0.1\n/a ");
    memset(text + used, 'h', EXPORT_CLIENT_BYTES_MAX + 1);
    used += EXPORT_CLIENT_BYTES_MAX + 1;
    load_bytes(f, text, used);
    assert_problems(f, "1:error:1025 bytes", "2:error:256 bytes", NULL);
    assert_int_equal(f->table->entry_count, 0);
}

static void problems_are_counted_up_to_a_limit(void **state)
{
    struct fixture *f = *state;
    static char text[(EXPORT_PROBLEM_COUNT_MAX + 10) * 2];

    for (size_t i = 0; i < sizeof text; i += 2) {
        memcpy(text + i, "x\n", 2);
    }
    load_bytes(f, text, sizeof text);
    assert_int_equal(f->problems.count, EXPORT_PROBLEM_COUNT_MAX);
    assert_non_null(strstr(f->problems.items[EXPORT_PROBLEM_COUNT_MAX - 1].text, "not shown"));
}

static void files_that_cannot_be_read_are_errors(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(export_table_add_file(f->table, "/nonexistent/exports", &f->problems),
                     -ENOENT);
    assert_non_null(strstr(f->problems.items[0].text, "/nonexistent/exports: error: "));
    assert_non_null(strstr(f->problems.items[0].text, "No such file"));
    assert_int_equal(export_table_add_file(f->table, "/", &f->problems), -EISDIR);
    assert_int_equal(export_table_add_file(f->table, "/dev/zero", &f->problems), -EFBIG);
    assert_int_equal(export_table_add_file(f->table, "/dev/null", &f->problems), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(quotes_and_octal_name_the_same_path),
        TEST(unquoted_blank_is_reported_not_exported),
        TEST(escaped_blank_of_the_shell_is_a_warning),
        TEST(comments_start_outside_quotes_only),
        TEST(crlf_and_a_missing_final_newline_parse),
        TEST(every_end_of_the_text_is_survived),
        TEST(byte_order_mark_is_not_part_of_the_path),
        TEST(bad_lines_do_not_wipe_the_others),
        TEST(bad_line_takes_its_continuation_with_it),
        TEST(nul_bytes_are_an_error_of_their_line),
        TEST(control_bytes_do_not_reach_the_terminal),
        TEST(paths_are_tidied),
        TEST(lines_of_one_directory_are_joined),
        TEST(clients_know_their_line),
        TEST(blank_before_the_bracket_is_everyone_and_a_warning),
        TEST(nobody_named_is_everyone_and_a_warning),
        TEST(limits_are_said),
        TEST(problems_are_counted_up_to_a_limit),
        TEST(files_that_cannot_be_read_are_errors),
    };
    return cmocka_run_group_tests_name("exports: lines", tests, NULL, NULL);
}
