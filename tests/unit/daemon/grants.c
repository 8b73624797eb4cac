/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths the opener opens for a server that may be anybody (rules of daemon/grants.h). */
#include "lib/unit.h"

#include "daemon/grants.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 256

struct scene {
    char base[64];
    char file[PATH_BYTES]; /* the exports file */
    struct config config;
    struct grants grants;
};

static const char *in(const struct scene *scene, const char *name)
{
    static char paths[4][PATH_BYTES];
    static unsigned next;
    char *path = paths[next++ % COUNT_OF(paths)];
    snprintf(path, PATH_BYTES, "%s/%s", scene->base, name);
    return path;
}

static void make(const struct scene *scene, const char *name)
{
    assert_int_equal(mkdir(in(scene, name), 0755), 0);
}

static void write_exports(const struct scene *scene, const char *first, const char *second)
{
    FILE *out = fopen(scene->file, "w");
    assert_non_null(out);
    fprintf(out, "%s/%s *(rw)\n", scene->base, first);
    if (second != NULL) {
        fprintf(out, "%s/%s *(ro,crossmnt)\n", scene->base, second);
    }
    fclose(out);
}

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    strcpy(scene->base, "/tmp/holdfast-grants-XXXXXX");
    assert_non_null(mkdtemp(scene->base));
    snprintf(scene->file, sizeof scene->file, "%s/exports", scene->base);
    scene->config.exports_file = scene->file;
    make(scene, "a");
    make(scene, "a/deep");
    make(scene, "b");
    make(scene, "out");
    make(scene, "out/deep");
    *state = scene;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    grants_end(&scene->grants);
    nftw(scene->base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(scene);
    return 0;
}

static void begin(struct scene *scene)
{
    assert_int_equal(grants_begin(&scene->grants, &scene->config), 0);
}

static void read_anew(struct scene *scene)
{
    static struct outside_files files;
    assert_int_equal(outside_direct.files(NULL, scene->file, &files), 0);
    assert_int_equal(grants_read(&scene->grants, &files), 0);
}

/* 0: opened, and it is that directory. */
static int try_open(const struct scene *scene, const char *name, const char *leads_to)
{
    struct stat st, right;
    int fd = grants_open(&scene->grants, in(scene, name));
    if (fd < 0) {
        return fd;
    }
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(stat(in(scene, leads_to), &right), 0);
    assert_int_equal(st.st_ino, right.st_ino);
    close(fd);
    return 0;
}

static void what_is_exported_is_opened_and_nothing_else(void **state)
{
    struct scene *scene = *state;
    char argument[PATH_BYTES];
    char *arguments[] = {argument};
    snprintf(argument, sizeof argument, "%s/b(ro)", scene->base);
    scene->config.directories = arguments;
    scene->config.directory_count = 1;
    write_exports(scene, "a", NULL);
    begin(scene);
    assert_int_equal(try_open(scene, "a", "a"), 0);
    assert_int_equal(try_open(scene, "b", "b"), 0);
    static const char *const others[] = {"",       "out", "a/deep", "a/..", "a/../out",
                                         "a/.",    "a/",  "aa",     ".",    "../..",
                                         "exports"};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_int_equal(try_open(scene, others[i], "out"), -EACCES);
    }
    assert_int_equal(grants_open(&scene->grants, "/"), -EACCES);
    assert_int_equal(grants_open(&scene->grants, "/etc"), -EACCES);
    assert_int_equal(grants_open(&scene->grants, ""), -EACCES);
    assert_int_equal(grants_open(&scene->grants, "a"), -EACCES);
}

static void the_admins_symbolic_links_are_followed(void **state)
{
    struct scene *scene = *state;
    write_exports(scene, "link", "chain/deep");
    assert_int_equal(symlink(in(scene, "a"), in(scene, "link")), 0);
    assert_int_equal(symlink("./b/../out", in(scene, "chain")), 0);
    begin(scene);
    assert_int_equal(try_open(scene, "link", "a"), 0);
    assert_int_equal(try_open(scene, "chain/deep", "out/deep"), 0);
    assert_int_equal(unlink(in(scene, "link")), 0);
    assert_int_equal(symlink("link", in(scene, "link")), 0);
    assert_int_equal(try_open(scene, "link", "a"), -ELOOP);
}

/* Whoever may write in the export a can make any link there. */
static void a_clients_symbolic_link_is_not_followed(void **state)
{
    struct scene *scene = *state;
    for (int before = 0; before <= 1; before++) { /* there already when the server starts? */
        make(scene, "a/sub");
        write_exports(scene, before ? "a" : "a/sub/deep", before ? "a/sub/deep" : "a");
        make(scene, "a/sub/deep");
        if (!before) {
            begin(scene);
            assert_int_equal(try_open(scene, "a/sub/deep", "a/sub/deep"), 0);
        }
        assert_int_equal(rename(in(scene, "a/sub"), in(scene, before ? "a/old" : "a/older")), 0);
        assert_int_equal(symlink(in(scene, "out"), in(scene, "a/sub")), 0);
        if (before) {
            begin(scene);
        }
        assert_int_equal(try_open(scene, "a/sub/deep", "out/deep"), -ELOOP);
        grants_end(&scene->grants);
        assert_int_equal(unlink(in(scene, "a/sub")), 0);
    }
}

static void what_is_read_anew_counts_at_once_and_the_old_until_then(void **state)
{
    struct scene *scene = *state;
    write_exports(scene, "a", NULL);
    begin(scene);
    write_exports(scene, "b", NULL);
    assert_int_equal(try_open(scene, "b", "b"), -EACCES); /* nobody has read it */
    read_anew(scene);
    assert_int_equal(try_open(scene, "a", "a"), 0);
    assert_int_equal(try_open(scene, "b", "b"), 0);
    grants_publish(&scene->grants);
    assert_int_equal(try_open(scene, "a", "a"), -EACCES);
    assert_int_equal(try_open(scene, "b", "b"), 0);
    grants_publish(&scene->grants); /* nothing new: nothing changes */
    assert_int_equal(try_open(scene, "b", "b"), 0);
}

static void mounts_below_crossmnt_are_opened(void **state)
{
    struct scene *scene = *state;
    if (mount("tmpfs", in(scene, "a/deep"), "tmpfs", 0, NULL) != 0) {
        skip(); /* only root mounts */
    }
    assert_int_equal(mkdir(in(scene, "a/deep/dir"), 0755), 0);
    assert_int_equal(mount("tmpfs", in(scene, "out/deep"), "tmpfs", 0, NULL), 0);
    write_exports(scene, "b", "a");
    begin(scene);
    int below = try_open(scene, "a/deep", "a/deep");
    int no_mount = try_open(scene, "a/deep/dir", "a/deep/dir");
    int elsewhere = try_open(scene, "out/deep", "out/deep");
    assert_int_equal(symlink(in(scene, "out"), in(scene, "a/link")), 0);
    int over_link = try_open(scene, "a/link/deep", "out/deep");
    int over_dots = try_open(scene, "a/../out/deep", "out/deep");
    int to_above = try_open(scene, "a/deep/../../out/deep", "out/deep");
    write_exports(scene, "a", "b"); /* without crossmnt */
    read_anew(scene);
    grants_publish(&scene->grants);
    int without = try_open(scene, "a/deep", "a/deep");
    assert_int_equal(umount(in(scene, "a/deep")), 0);
    assert_int_equal(umount(in(scene, "out/deep")), 0);
    assert_int_equal(below, 0);
    assert_int_equal(no_mount, -EACCES);
    assert_int_equal(elsewhere, -EACCES);
    assert_int_equal(over_link, -ELOOP);
    assert_int_equal(over_dots, -EXDEV);
    assert_int_equal(to_above, -EXDEV);
    assert_int_equal(without, -EACCES);
}

static int try_journal(const struct scene *scene, const char *name)
{
    int fd = grants_journal(&scene->grants, in(scene, name));
    if (fd >= 0) {
        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
        return 0;
    }
    return fd;
}

static void only_a_journal_that_is_named_is_one(void **state)
{
    struct scene *scene = *state;
    char named[PATH_BYTES];
    FILE *out = fopen(scene->file, "w");
    assert_non_null(out);
    fprintf(out, "%s/a *(rw,journal=%s/out/other)\n%s/b *(rw,journal=%s/a/inner)\n", scene->base,
            scene->base, scene->base, scene->base);
    fclose(out);
    snprintf(named, sizeof named, "%s/out/named", scene->base);
    scene->config.journal = named;
    begin(scene);
    assert_int_equal(try_journal(scene, "out/named"), 0); /* made, */
    assert_int_equal(try_journal(scene, "out/named"), 0); /* and found */
    assert_int_equal(try_journal(scene, "out/other"), 0);
    static const char *const others[] = {"exports", "out/third", "out/./named", "a/inner2"};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_int_equal(try_journal(scene, others[i]), -EACCES);
    }
    assert_int_equal(grants_journal(&scene->grants, "/etc/passwd"), -EACCES);
    assert_int_equal(symlink(scene->file, in(scene, "a/inner")), 0); /* by a client */
    assert_int_equal(try_journal(scene, "a/inner"), -ELOOP);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_exported_is_opened_and_nothing_else),
        TEST(the_admins_symbolic_links_are_followed),
        TEST(a_clients_symbolic_link_is_not_followed),
        TEST(what_is_read_anew_counts_at_once_and_the_old_until_then),
        TEST(mounts_below_crossmnt_are_opened),
        TEST(only_a_journal_that_is_named_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
