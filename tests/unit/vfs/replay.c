/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay. A child process serves, makes changes, and ends like a killed server, without a
 * checkpoint. Then the file system is put back to what it could have been had the power failed:
 * the test undoes by hand what might not have reached the disk. Numbers are those at the head of
 * src/vfs/replay.c.
 */
#include "place.h"

#include "vfs/internal.h"

#include <sys/wait.h>

static char journal_path[400];

static void find_journal(struct place *place)
{
    snprintf(journal_path, sizeof journal_path, "%s/journal", place->base);
    place->journal = journal_path;
}

static struct place *new_place(void)
{
    struct place *place = calloc(1, sizeof *place);
    place_make(place, NULL, "rw,no_root_squash,sync");
    place_close(place);
    find_journal(place);
    int fd = open(journal_path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(posix_fallocate(fd, 0, PLACE_JOURNAL_BYTES), 0);
    close(fd);
    return place;
}

static void free_place(struct place *place)
{
    place_remove(place);
    free(place);
}

/* ---- in the child: changes, each durable when it returns ---- */

static struct vfs_node node_of(struct place *place, struct vfs_call *call, const char *path)
{
    struct vfs_node node = {0};
    struct vfs_handle handle = place_handle(place, path);
    assert_int_equal(place_get(call, &handle, &node), 0);
    return node;
}

static void done(struct place *place, const struct vfs_call *call, int err)
{
    assert_int_equal(err, 0);
    assert_true(call->lsn > 0);
    assert_int_equal(place_wait(place, call->lsn), 0);
}

static void create(struct place *place, const char *dir, const char *name)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node parent = node_of(place, &call, dir);
    struct vfs_node node = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0640, .set_uid = true, .uid = 7};
    done(place, &call,
         vfs_create(&call, &parent, PLACE_NAME(name), VFS_GUARDED, &sattr, NULL, &node));
    vfs_put(&node);
    vfs_put(&parent);
}

static void make_dir(struct place *place, const char *dir, const char *name)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node parent = node_of(place, &call, dir);
    struct vfs_node node = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = 0750};
    done(place, &call, vfs_mkdir(&call, &parent, PLACE_NAME(name), &sattr, &node));
    vfs_put(&node);
    vfs_put(&parent);
}

static void make_link(struct place *place, const char *path, const char *name)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node root = node_of(place, &call, "");
    struct vfs_node node = node_of(place, &call, path);
    done(place, &call, vfs_link(&call, &node, &root, PLACE_NAME(name)));
    vfs_put(&node);
    vfs_put(&root);
}

static void remove_file(struct place *place, const char *dir, const char *name)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node parent = node_of(place, &call, dir);
    done(place, &call, vfs_remove(&call, &parent, PLACE_NAME(name)));
    vfs_put(&parent);
}

static void remove_dir(struct place *place, const char *dir, const char *name)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node parent = node_of(place, &call, dir);
    done(place, &call, vfs_rmdir(&call, &parent, PLACE_NAME(name)));
    vfs_put(&parent);
}

static void move(struct place *place, const char *from_dir, const char *from, const char *to_dir,
                 const char *to)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node a = node_of(place, &call, from_dir);
    struct vfs_node b = node_of(place, &call, to_dir);
    done(place, &call, vfs_rename(&call, &a, PLACE_NAME(from), &b, PLACE_NAME(to)));
    vfs_put(&a);
    vfs_put(&b);
}

static void put(struct place *place, const char *path, uint64_t offset, const char *text,
                enum vfs_stable stable)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = node_of(place, &call, path);
    uint32_t written = 0;
    enum vfs_stable committed;
    int err = vfs_write(&call, &node, offset, (const uint8_t *)text, (uint32_t)strlen(text), stable,
                        &written, &committed);
    assert_int_equal(written, strlen(text));
    if (stable == VFS_UNSTABLE) {
        assert_int_equal(err, 0);
        assert_int_equal(call.lsn, 0);
    } else {
        done(place, &call, err);
    }
    vfs_put(&node);
}

static void commit(struct place *place, const char *path)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = node_of(place, &call, path);
    done(place, &call, vfs_commit(&call, &node, 0, 0));
    vfs_put(&node);
}

static void set(struct place *place, const char *path, const struct vfs_sattr *sattr)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = node_of(place, &call, path);
    done(place, &call, vfs_setattr(&call, &node, sattr, NULL));
    vfs_put(&node);
}

static void set_mtime(struct place *place, const char *path, time_t seconds)
{
    struct vfs_sattr sattr = {.mtime_how = VFS_TIME_SET, .mtime = {seconds, 5}};
    set(place, path, &sattr);
}

static void set_size(struct place *place, const char *path, uint64_t size)
{
    struct vfs_sattr sattr = {.set_size = true, .size = size};
    set(place, path, &sattr);
}

/* ---- in the parent: the file system, by hand ---- */

static void local_move(struct place *place, const char *from, const char *to)
{
    char old[700];
    snprintf(old, sizeof old, "%s", place_local(place, from));
    assert_int_equal(rename(old, place_local(place, to)), 0);
}

static void local_link(struct place *place, const char *from, const char *to)
{
    char old[700];
    snprintf(old, sizeof old, "%s", place_local(place, from));
    assert_int_equal(link(old, place_local(place, to)), 0);
}

static ino_t inode(struct place *place, const char *path)
{
    struct stat st;
    return lstat(place_local(place, path), &st) == 0 ? st.st_ino : 0;
}

/* As if it had never left the pool. */
static void back_to_pool(struct place *place, const char *path)
{
    static unsigned number = 90000;
    char name[64];
    struct stat st;
    assert_int_equal(lstat(place_local(place, path), &st), 0);
    snprintf(name, sizeof name, HIDDEN_NAME "/pool/%c%u", S_ISDIR(st.st_mode) ? 'd' : 'f',
             ++number);
    if (S_ISREG(st.st_mode)) {
        assert_int_equal(truncate(place_local(place, path), 0), 0);
    }
    assert_int_equal(chown(place_local(place, path), 0, 0), 0);
    assert_int_equal(chmod(place_local(place, path), 0), 0);
    local_move(place, path, name);
}

static void holds(struct place *place, const char *path, const char *text)
{
    char got[256] = "";
    int fd = open(place_local(place, path), O_RDONLY);
    assert_true(fd >= 0);
    ssize_t size = read(fd, got, sizeof got - 1);
    close(fd);
    assert_int_equal(size, strlen(text));
    assert_string_equal(got, text);
}

/* A life that ends without a word: this program again, in a process of its own, because cmocka
 * would go on with the tests in a child that fails. */
static void live(struct place *place, const char *script)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "replay", script, place->base, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- scenarios ---- */

static void make_things(struct place *place)
{
    make_dir(place, "", "d");
    create(place, "d", "f");
    put(place, "d/f", 3, "hello", VFS_FILE_SYNC);
    set_mtime(place, "d/f", 1000);
    set_mtime(place, "d", 2000);
}

static void check_things(struct place *place)
{
    struct stat st;
    assert_int_equal(stat(place_local(place, "d/f"), &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0640);
    assert_int_equal(st.st_uid, 7);
    assert_int_equal(st.st_size, 8);
    assert_int_equal(st.st_nlink, 1);
    assert_int_equal(st.st_mtim.tv_sec, 1000);
    assert_int_equal(st.st_mtim.tv_nsec, 5);
    assert_int_equal(stat(place_local(place, "d"), &st), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0750);
    assert_int_equal(st.st_mtim.tv_sec, 2000);
}

/* Also the handles are good. */
static void creates_come_back(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "make_things");
    ino_t file = inode(place, "d/f"), dir = inode(place, "d");
    back_to_pool(place, "d/f");
    back_to_pool(place, "d");
    place_open(place);
    assert_int_equal(inode(place, "d/f"), file);
    assert_int_equal(inode(place, "d"), dir);
    check_things(place);
    free_place(place);
}

/* 1 */
static void replay_may_be_cut(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "make_things");
    local_move(place, "d/f", HIDDEN_NAME "/staging/s1");
    back_to_pool(place, "d");
    place_open(place);
    check_things(place);
    place_close(place);
    place_open(place); /* nothing to do */
    check_things(place);
    free_place(place);
}

/* Twice killed before anybody could do anything. */
static void nothing(struct place *place)
{
    (void)place;
}

static void lives_without_changes(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "make_things");
    live(place, "nothing");
    live(place, "nothing");
    place_open(place);
    check_things(place);
    free_place(place);
}

static void make_and_remove(struct place *place)
{
    create(place, "", "a");
    make_dir(place, "", "d");
    create(place, "d", "b");
    local_link(place, "a", "../kept-a");
    local_link(place, "d/b", "../kept-b");
    remove_file(place, "d", "b");
    remove_dir(place, "", "d");
    remove_file(place, "", "a");
}

static void removes_stay(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "make_and_remove");
    local_move(place, "../kept-a", "a");
    place_open(place);
    assert_int_equal(inode(place, "a"), 0);
    free_place(place);
}

static void make_for_renames(struct place *place)
{
    create(place, "", "a");
    create(place, "", "b");
    put(place, "a", 0, "was a", VFS_FILE_SYNC);
    put(place, "b", 0, "was b", VFS_FILE_SYNC);
    local_link(place, "b", "../kept-b");
    move(place, "", "a", "", "b");
}

/* Over an existing one. */
static void renames_stay(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "make_for_renames");
    local_move(place, "b", "a");
    local_move(place, "../kept-b", "b");
    place_open(place);
    assert_int_equal(inode(place, "a"), 0);
    holds(place, "b", "was a");
    free_place(place);
}

/* a/x and b/y change places, and so do a and b. */
static void swap_all(struct place *place)
{
    make_dir(place, "", "a");
    make_dir(place, "", "b");
    create(place, "a", "x");
    create(place, "b", "y");
    put(place, "a/x", 0, "x", VFS_FILE_SYNC);
    put(place, "b/y", 0, "y", VFS_FILE_SYNC);
    move(place, "a", "x", "", "t");
    move(place, "b", "y", "a", "x");
    move(place, "", "t", "b", "y");
    move(place, "", "a", "", "t");
    move(place, "", "b", "", "a");
    move(place, "", "t", "", "b");
    move(place, "", "a", "b", "inside");
}

static void swaps_stay(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "swap_all");
    ino_t outer = inode(place, "b"), inner = inode(place, "b/inside");
    assert_int_equal(chmod(place_local(place, "b"), 0755), 0);
    local_move(place, "b/inside", "a");
    local_move(place, "a", "t"); /* as it was before all of it */
    local_move(place, "b", "a");
    local_move(place, "t", "b");
    local_move(place, "a/x", "t");
    local_move(place, "b/y", "a/x");
    local_move(place, "t", "b/y");
    place_open(place);
    assert_int_equal(inode(place, "b"), outer);
    assert_int_equal(inode(place, "b/inside"), inner);
    assert_int_equal(inode(place, "a"), 0);
    assert_int_equal(inode(place, "t"), 0);
    holds(place, "b/x", "y");
    holds(place, "b/inside/y", "x");
    free_place(place);
}

static void make_links(struct place *place)
{
    create(place, "", "a");
    make_link(place, "a", "b");
    make_link(place, "a", "c");
    remove_file(place, "", "a");
}

static void links_come_back(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "make_links");
    ino_t file = inode(place, "b");
    local_move(place, "b", "a");
    assert_int_equal(unlink(place_local(place, "c")), 0);
    place_open(place);
    assert_int_equal(inode(place, "a"), 0);
    assert_int_equal(inode(place, "b"), file);
    assert_int_equal(inode(place, "c"), file);
    free_place(place);
}

static char large[JOURNAL_DATA_BYTES_MAX + 1000]; /* more than goes into any log */

static void write_data(struct place *place)
{
    memset(large, 'L', sizeof large - 1);
    create(place, "", "small");
    put(place, "small", 0, "0123456789", VFS_FILE_SYNC);
    set_size(place, "small", 4);
    put(place, "small", 6, "x", VFS_DATA_SYNC);
    create(place, "", "committed");
    put(place, "committed", 0, "one ", VFS_UNSTABLE);
    put(place, "committed", 4, "two", VFS_UNSTABLE);
    commit(place, "committed");
    create(place, "", "large");
    put(place, "large", 0, "old", VFS_FILE_SYNC);
    put(place, "large", 0, large, VFS_UNSTABLE);
    commit(place, "large");
}

static void data_comes_back(void **state)
{
    (void)state;
    struct place *place = new_place();
    struct stat st;
    live(place, "write_data");
    assert_int_equal(truncate(place_local(place, "small"), 0), 0);
    assert_int_equal(truncate(place_local(place, "committed"), 2), 0);
    place_open(place);
    assert_int_equal(stat(place_local(place, "small"), &st), 0);
    assert_int_equal(st.st_size, 7);
    holds(place, "committed", "one two");
    /* What was synced whole is newer than what is in the log. */
    assert_int_equal(stat(place_local(place, "large"), &st), 0);
    assert_int_equal(st.st_size, sizeof large - 1);
    char head[4] = "";
    int fd = open(place_local(place, "large"), O_RDONLY);
    assert_int_equal(read(fd, head, 3), 3);
    close(fd);
    assert_string_equal(head, "LLL");
    free_place(place);
}

static void make_one(struct place *place)
{
    create(place, "", "x");
    put(place, "x", 0, "mine", VFS_FILE_SYNC);
}

/* 4: a rename that reached the file system and not the log. */
static void unlogged_rename(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "make_one");
    ino_t file = inode(place, "x");
    local_move(place, "x", "y");
    place_open(place);
    assert_int_equal(inode(place, "x"), 0);
    assert_int_equal(inode(place, "y"), file);
    holds(place, "y", "mine");
    free_place(place);
}

/* 2, 3: removed and made again by changes that are not in the log. */
static void unlogged_replacement(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "make_one");
    place_write_local(place, "new", "other", 0644, 0, 0);
    local_move(place, "new", "x");
    place_open(place);
    holds(place, "x", "other");
    free_place(place);
}

static void make_and_unmake(struct place *place)
{
    create(place, "", "x");
    remove_file(place, "", "x");
}

/* 5: what the log does not know is not removed. */
static void unlogged_create(void **state)
{
    (void)state;
    struct place *place = new_place();
    live(place, "make_and_unmake");
    place_write_local(place, "x", "other", 0644, 0, 0);
    place_open(place);
    holds(place, "x", "other");
    free_place(place);
}

/* A server without the log must not serve what is not complete. */
static void the_log_is_missed(void **state)
{
    (void)state;
    struct err err = {0};
    struct place *place = new_place();
    live(place, "make_things");
    struct vfs_options options = {.state_dir = place->state, .table = place->table};
    struct vfs *vfs = NULL;
    assert_int_equal(vfs_open(&options, &vfs, &err), -EUCLEAN);
    assert_non_null(strstr(err.text, journal_path));
    place_open(place);
    place_close(place); /* cleanly: now it is not needed any more */
    assert_int_equal(vfs_open(&options, &vfs, &err), 0);
    vfs_close(vfs);
    place_open(place);
    check_things(place);
    free_place(place);
}

static void it_is_hidden(void **state)
{
    (void)state;
    struct place *place = new_place();
    place_open(place);
    struct vfs_call call = place_root_call(place);
    struct vfs_node root = node_of(place, &call, "");
    struct vfs_node node = {0};
    struct vfs_bytes hidden = PLACE_NAME(HIDDEN_NAME);
    struct vfs_sattr sattr = {0};
    assert_int_equal(access(place_local(place, HIDDEN_NAME), F_OK), 0);
    assert_int_equal(vfs_lookup(&call, &root, hidden, &node), -ENOENT);
    assert_int_equal(vfs_mkdir(&call, &root, hidden, &sattr, &node), -EACCES);
    assert_int_equal(vfs_create(&call, &root, hidden, VFS_UNCHECKED, &sattr, NULL, &node), -EACCES);
    assert_int_equal(vfs_rmdir(&call, &root, hidden), -ENOENT);
    assert_int_equal(vfs_rename(&call, &root, hidden, &root, PLACE_NAME("x")), -ENOENT);
    create(place, "", "x");
    assert_int_equal(vfs_rename(&call, &root, PLACE_NAME("x"), &root, hidden), -EACCES);
    char path[400];
    snprintf(path, sizeof path, "%s/" HIDDEN_NAME "/pool", place->path);
    assert_int_equal(vfs_root(&call, PLACE_NAME(path), &node), -ENOENT);
    make_dir(place, "", "d"); /* elsewhere it is a name as any other */
    create(place, "d", HIDDEN_NAME);
    vfs_put(&root);
    free_place(place);
}

/* In the child. */
static int live_here(const char *name, const char *base)
{
    static const struct {
        const char *name;
        void (*run)(struct place *place);
    } scripts[] = {
        {"nothing", nothing},
        {"make_things", make_things},
        {"make_and_remove", make_and_remove},
        {"make_for_renames", make_for_renames},
        {"swap_all", swap_all},
        {"make_links", make_links},
        {"write_data", write_data},
        {"make_one", make_one},
        {"make_and_unmake", make_and_unmake},
    };
    struct place *place = calloc(1, sizeof *place);
    (void)alarm(60);
    place_plan(place, base, "rw,no_root_squash,sync");
    find_journal(place);
    place_open(place);
    for (size_t i = 0; i < COUNT_OF(scripts); i++) {
        if (strcmp(scripts[i].name, name) == 0) {
            scripts[i].run(place);
            _exit(0);
        }
    }
    _exit(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creates_come_back),     cmocka_unit_test(replay_may_be_cut),
        cmocka_unit_test(lives_without_changes), cmocka_unit_test(removes_stay),
        cmocka_unit_test(renames_stay),          cmocka_unit_test(swaps_stay),
        cmocka_unit_test(links_come_back),       cmocka_unit_test(data_comes_back),
        cmocka_unit_test(unlogged_rename),       cmocka_unit_test(unlogged_replacement),
        cmocka_unit_test(unlogged_create),       cmocka_unit_test(the_log_is_missed),
        cmocka_unit_test(it_is_hidden),
    };
    if (argc == 3) {
        return live_here(argv[1], argv[2]);
    }
    if (!place_possible()) {
        return 77;
    }
    return cmocka_run_group_tests_name("vfs/replay", tests, NULL, NULL);
}
