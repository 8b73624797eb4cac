/* SPDX-License-Identifier: Apache-2.0 */
/* LOOKUP, READDIR, READDIRPLUS: RFC 1813 §3.3.3, §3.3.16, §3.3.17. */
#include "place.h"

#include "vfs/internal.h"

struct walk {
    struct place *place;
    struct vfs_handle dir;
    bool plus;
    uint32_t per_page;
    /* The page being taken. */
    uint32_t taken;
    uint64_t cookie;
    /* All pages. */
    uint8_t *seen; /* how often "nN" came, by N */
    uint32_t seen_max;
    uint32_t others;
    uint32_t pages;
    bool remove_after_page;
    char removed[64][VFS_NAME_BYTES_MAX + 1];
};

static bool take(void *arg, const struct vfs_entry *entry)
{
    struct walk *walk = arg;
    char name[256] = {0};
    if (walk->taken == walk->per_page) {
        return false;
    }
    memcpy(name, entry->name.data, entry->name.size);
    if (name[0] == 'n') {
        uint32_t number = (uint32_t)atoi(name + 1);
        assert_true(number < walk->seen_max);
        walk->seen[number]++;
    } else {
        walk->others++;
    }
    if (walk->plus) {
        assert_true(entry->has_handle);
        assert_true(entry->has_attr);
        assert_int_equal(entry->attr.fileid, entry->fileid);
    }
    if (walk->remove_after_page && name[0] == 'n') {
        strcpy(walk->removed[walk->taken], name);
    } else {
        walk->removed[walk->taken][0] = 0;
    }
    walk->taken++;
    walk->cookie = entry->cookie;
    return true;
}

/* One page; true at the end. */
static bool page(struct walk *walk)
{
    struct vfs_call call = place_root_call(walk->place);
    struct vfs_node dir = {0};
    bool eof = false;
    walk->taken = 0;
    assert_int_equal(place_get(&call, &walk->dir, &dir), 0);
    assert_int_equal(
        vfs_readdir(&call, &dir, walk->cookie, walk->plus, walk->per_page * 32, take, walk, &eof),
        0);
    assert_true(dir.has_attr);
    vfs_put(&dir);
    walk->pages++;
    return eof;
}

static void make_files(struct place *place, uint32_t count)
{
    int dir = open(place_local(place, ""), O_RDONLY | O_DIRECTORY);
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(mknodat(dir, name, S_IFREG | 0644, 0), 0);
    }
    close(dir);
}

static struct walk begin(struct place *place, uint32_t seen_max, uint32_t per_page, bool plus)
{
    return (struct walk){.place = place,
                         .dir = place_handle(place, ""),
                         .plus = plus,
                         .per_page = per_page,
                         .seen = calloc(seen_max, 1),
                         .seen_max = seen_max};
}

static void every_name_comes_once(void **state)
{
    struct place *place = *state;
    make_files(place, 2500);
    for (int plus = 0; plus < 2; plus++) {
        struct walk walk = begin(place, 2500, 23, plus != 0);
        while (!page(&walk)) {
            assert_true(walk.pages < 3000);
            /* The procedures may be mixed, and the server may restart. */
            walk.plus = walk.plus != (walk.pages % 7 == 0);
            if (walk.pages % 50 == 0) {
                place_reopen(place);
            }
        }
        assert_int_equal(walk.others, 2);
        for (uint32_t i = 0; i < 2500; i++) {
            assert_int_equal(walk.seen[i], 1);
        }
        free(walk.seen);
    }
}

static void a_walk_survives_inserts_and_deletes(void **state)
{
    struct place *place = *state;
    make_files(place, 1000);
    struct walk walk = begin(place, 100000, 17, false);
    uint32_t next = 1000;
    while (!page(&walk)) {
        char name[16];
        snprintf(name, sizeof name, "n%u", next++);
        place_write_local(place, name, "", 0644, 0, 0);
        /* One that may be seen or not, yet. */
        snprintf(name, sizeof name, "n%u", walk.pages);
        unlink(place_local(place, name));
        assert_true(walk.pages < 1000);
    }
    for (uint32_t i = 100; i < 1000; i++) {
        assert_int_equal(walk.seen[i], 1);
    }
    free(walk.seen);
}

static void removing_what_was_listed_does_not_rewind(void **state)
{
    struct place *place = *state;
    make_files(place, 500);
    struct walk walk = begin(place, 500, 20, true);
    walk.remove_after_page = true;
    bool eof;
    do {
        eof = page(&walk);
        for (uint32_t i = 0; i < walk.taken; i++) {
            if (walk.removed[i][0] != 0) {
                assert_int_equal(place_remove_name(place, 0, "", walk.removed[i]), 0);
            }
        }
        assert_true(walk.pages < 100);
    } while (!eof);
    for (uint32_t i = 0; i < 500; i++) {
        assert_int_equal(walk.seen[i], 1);
    }
    free(walk.seen);
    struct stat st;
    assert_int_equal(stat(place_local(place, ""), &st), 0);
    if (place->vfs->intents[1] != NULL) {
        return; /* it has .holdfast */
    }
    assert_int_equal(rmdir(place_local(place, "")), 0);
    assert_int_equal(mkdir(place_local(place, ""), 0755), 0);
}

static void an_end_cookie_stays_at_the_end(void **state)
{
    struct place *place = *state;
    make_files(place, 3);
    struct walk walk = begin(place, 3, 100, false);
    assert_true(page(&walk));
    assert_int_equal(walk.taken, 5);
    assert_true(page(&walk));
    assert_int_equal(walk.taken, 0);
    free(walk.seen);
}

struct dots {
    uint64_t dot, dot_dot;
};

static bool take_dots(void *arg, const struct vfs_entry *entry)
{
    struct dots *dots = arg;
    if (entry->name.size == 1 && entry->name.data[0] == '.') {
        dots->dot = entry->fileid;
    }
    if (entry->name.size == 2 && memcmp(entry->name.data, "..", 2) == 0) {
        dots->dot_dot = entry->fileid;
    }
    return true;
}

static struct dots dots_of(struct place *place, const char *path, bool plus)
{
    struct dots dots = {0};
    struct vfs_handle handle = place_handle(place, path);
    struct vfs_call call = place_root_call(place);
    struct vfs_node dir = {0};
    bool eof;
    assert_int_equal(place_get(&call, &handle, &dir), 0);
    assert_int_equal(vfs_readdir(&call, &dir, 0, plus, 4096, take_dots, &dots, &eof), 0);
    vfs_put(&dir);
    return dots;
}

static void nothing_above_the_root_is_seen(void **state)
{
    struct place *place = *state;
    struct vfs_node root = place_node(place, ""), up = place_node(place, "..");
    assert_true(root.object == up.object);
    uint64_t fileid = root.attr.fileid;
    vfs_put(&root);
    vfs_put(&up);
    assert_int_equal(mkdir(place_local(place, "d"), 0755), 0);
    up = place_node(place, "d/../..");
    assert_int_equal(up.attr.fileid, fileid);
    vfs_put(&up);
    struct vfs_node dot = place_node(place, "d/.");
    struct vfs_node d = place_node(place, "d");
    assert_true(dot.object == d.object);
    vfs_put(&dot);
    vfs_put(&d);
    for (int plus = 0; plus < 2; plus++) {
        struct dots dots = dots_of(place, "", plus != 0);
        assert_int_equal(dots.dot, fileid);
        assert_int_equal(dots.dot_dot, fileid);
        dots = dots_of(place, "d", plus != 0);
        assert_int_equal(dots.dot_dot, fileid);
    }
    /* A directory moved out of the export leads nowhere. */
    char outside[400];
    struct vfs_handle handle = place_handle(place, "d");
    snprintf(outside, sizeof outside, "%s/outside", place->base);
    assert_int_equal(rename(place_local(place, "d"), outside), 0);
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = {0};
    assert_int_equal(place_get(&call, &handle, &d), 0);
    assert_int_not_equal(vfs_lookup(&call, &d, PLACE_NAME(".."), &node), 0);
    assert_null(node.object);
    vfs_put(&d);
}

static void lookups_are_judged_by_the_callers_rights(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkdir(place_local(place, "d"), 0700), 0);
    place_write_local(place, "d/f", "x", 0644, 0, 0);
    struct vfs_handle handle = place_handle(place, "d");
    struct vfs_call call = place_call(place, 1000, 1000);
    struct vfs_node dir = {0}, node = {0};
    struct dots dots = {0};
    bool eof;
    assert_int_equal(place_get(&call, &handle, &dir), 0);
    assert_int_equal(vfs_lookup(&call, &dir, PLACE_NAME("f"), &node), -EACCES);
    assert_true(dir.has_attr);
    assert_int_equal(vfs_readdir(&call, &dir, 0, true, 4096, take_dots, &dots, &eof), -EACCES);
    vfs_put(&dir);
    assert_int_equal(chmod(place_local(place, "d"), 0711), 0);
    call = place_call(place, 1000, 1000);
    assert_int_equal(place_get(&call, &handle, &dir), 0);
    assert_int_equal(vfs_lookup(&call, &dir, PLACE_NAME("f"), &node), 0);
    assert_int_equal(vfs_readdir(&call, &dir, 0, false, 4096, take_dots, &dots, &eof), -EACCES);
    assert_int_equal(vfs_lookup(&call, &node, PLACE_NAME("x"), &dir), -ENOTDIR);
    vfs_put(&node);
    vfs_put(&dir);
}

/* 0 and the fileid, or -errno. */
static int look(struct place *place, uint32_t uid, const struct vfs_handle *dir_handle,
                const char *name, uint64_t *fileid)
{
    struct vfs_call call = place_call(place, uid, uid);
    struct vfs_node dir = {0}, node = {0};
    int err = place_get(&call, dir_handle, &dir);
    if (err == 0) {
        err = vfs_lookup(&call, &dir, PLACE_NAME(name), &node);
        *fileid = node.attr.fileid;
    }
    vfs_put(&node);
    vfs_put(&dir);
    return err;
}

/* Whatever is remembered of names (names.c): local processes' changes show in the next lookup. */
static void local_changes_of_names_are_seen_at_once(void **state)
{
    struct place *place = *state;
    struct vfs_handle root = place_handle(place, "");
    uint64_t a, b, seen = 0;
    struct stat st;
    place_write_local(place, "a", "x", 0644, 0, 0);
    place_write_local(place, "b", "x", 0644, 0, 0);
    assert_int_equal(stat(place_local(place, "a"), &st), 0);
    a = st.st_ino;
    assert_int_equal(stat(place_local(place, "b"), &st), 0);
    b = st.st_ino;
    for (int round = 0; round < 60; round++) {
        if (round % 3 == 0) {
            usleep(round < 30 ? 1000 : 70000); /* past the tick, or not */
        }
        for (int repeat = 0; repeat < 3; repeat++) {
            assert_int_equal(look(place, 0, &root, "a", &seen), 0);
            assert_int_equal(seen, a);
            assert_int_equal(look(place, 1000, &root, "b", &seen), 0);
            assert_int_equal(seen, b);
            assert_int_equal(look(place, 1000, &root, "c", &seen), -ENOENT);
        }
        assert_int_equal(rename(place_local(place, "a"), place_local(place, "c")), 0);
        assert_int_equal(look(place, 1000, &root, "a", &seen), -ENOENT);
        assert_int_equal(look(place, 0, &root, "c", &seen), 0);
        assert_int_equal(seen, a);
        assert_int_equal(rename(place_local(place, "b"), place_local(place, "a")), 0);
        assert_int_equal(rename(place_local(place, "c"), place_local(place, "b")), 0);
        uint64_t swap = a;
        a = b;
        b = swap;
    }
}

static void local_changes_of_rights_are_seen_at_once(void **state)
{
    struct place *place = *state;
    assert_int_equal(mkdir(place_local(place, "d"), 0755), 0);
    place_write_local(place, "d/f", "x", 0644, 0, 0);
    struct vfs_handle dir = place_handle(place, "d");
    uint64_t fileid;
    for (int round = 0; round < 40; round++) {
        if (round % 2 == 0) {
            usleep(round < 20 ? 1000 : 70000);
        }
        assert_int_equal(look(place, 1000, &dir, "f", &fileid), 0);
        assert_int_equal(look(place, 1000, &dir, "f", &fileid), 0);
        assert_int_equal(look(place, 1000, &dir, "g", &fileid), -ENOENT);
        assert_int_equal(chmod(place_local(place, "d"), 0700), 0);
        assert_int_equal(look(place, 1000, &dir, "f", &fileid), -EACCES);
        assert_int_equal(look(place, 1000, &dir, "g", &fileid), -EACCES);
        assert_int_equal(look(place, 0, &dir, "f", &fileid), 0);
        assert_int_equal(chmod(place_local(place, "d"), 0755), 0);
    }
}

static void mnt_paths(void **state)
{
    struct place *place = *state;
    char path[700];
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = {0};
    assert_int_equal(mkdir(place_local(place, "a"), 0755), 0);
    assert_int_equal(mkdir(place_local(place, "a/b"), 0700), 0);
    assert_int_equal(symlink("a", place_local(place, "l")), 0);
    assert_int_equal(symlink("../state", place_local(place, "up")), 0);
    assert_int_equal(symlink("loop", place_local(place, "loop")), 0);
    place_write_local(place, "f", "x", 0644, 0, 0);
    static const struct {
        const char *tail;
        int result;
    } cases[] = {{"", 0},          {"/", 0},           {"//a/./b/", 0},
                 {"/a/b", 0},      {"/l", 0},          {"/l/b", 0},
                 {"/f", -ENOTDIR}, {"/none", -ENOENT}, {"/a/../..", -ENOENT},
                 {"/up", -ENOENT}, {"/loop", -ELOOP},  {"/a/../l/../f", -ENOTDIR}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        snprintf(path, sizeof path, "%s%s", place->path, cases[i].tail);
        int err = vfs_root(&call, PLACE_NAME(path), &node);
        if (err != cases[i].result) {
            fail_msg("%s: %d instead of %d", cases[i].tail, err, cases[i].result);
        }
        vfs_put(&node);
    }
    snprintf(path, sizeof path, "%sx", place->path);
    assert_int_equal(vfs_root(&call, PLACE_NAME(path), &node), -ENOENT);
    assert_int_equal(vfs_root(&call, PLACE_NAME("relative"), &node), -EACCES);
    assert_int_equal(vfs_root(&call, PLACE_NAME(""), &node), -EACCES);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_name_comes_once),
        TEST(a_walk_survives_inserts_and_deletes),
        TEST(removing_what_was_listed_does_not_rewind),
        TEST(an_end_cookie_stays_at_the_end),
        TEST(nothing_above_the_root_is_seen),
        TEST(lookups_are_judged_by_the_callers_rights),
        TEST(local_changes_of_names_are_seen_at_once),
        TEST(local_changes_of_rights_are_seen_at_once),
        TEST(mnt_paths),
    };
    return place_possible() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
