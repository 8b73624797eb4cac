/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include "vfs/internal.h"

#include <arpa/inet.h>
#include <ftw.h>

bool place_possible(void)
{
    if (geteuid() != 0) {
        fprintf(stderr, "these tests need root\n");
        return false;
    }
    return true;
}

static void on_durable(void *arg, uint64_t lsn, int error)
{
    struct place *place = arg;
    pthread_mutex_lock(&place->lock);
    place->durable_lsn[lsn >> VFS_LANE_SHIFT] = lsn;
    if (error != 0) {
        place->durable_error = error;
    }
    pthread_cond_broadcast(&place->changed);
    pthread_mutex_unlock(&place->lock);
}

static int on_sync(void *arg, int fd, int how)
{
    struct place *place = arg;
    return place->sync(place, fd, how);
}

int place_wait(struct place *place, uint64_t lsn)
{
    pthread_mutex_lock(&place->lock);
    while (place->durable_lsn[lsn >> VFS_LANE_SHIFT] < lsn) {
        pthread_cond_wait(&place->changed, &place->lock);
    }
    int error = place->durable_error;
    place->durable_error = 0;
    pthread_mutex_unlock(&place->lock);
    return error;
}

/* A small one in the place, if the environment wants one: the smallest that a server makes by
 * itself takes longer to write than most tests run. */
static const char *journal_of(struct place *place)
{
    if (place->journal != NULL || getenv("HOLDFAST_TEST_JOURNAL") == NULL) {
        return place->journal;
    }
    snprintf(place->journal_file, sizeof place->journal_file, "%s/journal", place->base);
    cred_take_root();
    int fd = open(place->journal_file, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd >= 0) {
        assert_int_equal(posix_fallocate(fd, 0, PLACE_JOURNAL_BYTES), 0);
        close(fd);
    }
    place->journal = place->journal_file;
    return place->journal;
}

void place_open(struct place *place)
{
    struct err err = {0};
    struct vfs_options options = {.state_dir = place->state,
                                  .table = place->table,
                                  .fd_count_max = place->fd_count_max,
                                  .journal_path = journal_of(place),
                                  .durable = on_durable,
                                  .sync = place->sync != NULL ? on_sync : NULL,
                                  .arg = place};
    memset(place->durable_lsn, 0, sizeof place->durable_lsn);
    place->durable_error = 0;
    if (vfs_open(&options, &place->vfs, &err) != 0) {
        fail_msg("vfs_open: %s", err.text);
    }
}

void place_close(struct place *place)
{
    vfs_close(place->vfs);
    place->vfs = NULL;
}

void place_reopen(struct place *place)
{
    place_close(place);
    place_open(place);
}

void place_plan(struct place *place, const char *base, const char *options)
{
    struct export_problems problems = {0};
    char line[1024];
    *place = (struct place){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    snprintf(place->base, sizeof place->base, "%s", base);
    snprintf(place->path, sizeof place->path, "%s/export", place->base);
    snprintf(place->state, sizeof place->state, "%s/state", place->base);
    place->table = export_table_new();
    snprintf(line, sizeof line, "%s *(%s)\n", place->path, options);
    assert_int_equal(export_table_add_text(place->table, "test", line, strlen(line), &problems), 0);
    export_problems_free(&problems);
    place->peer = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(700), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    place->batch = 1;
}

void place_make(struct place *place, const char *base, const char *options)
{
    char made[256];
    const char *where = getenv("HOLDFAST_TEST_DIR");
    if (base == NULL) {
        snprintf(made, sizeof made, "%s/holdfast-vfs.XXXXXX", where != NULL ? where : "/var/tmp");
        assert_non_null(mkdtemp(made));
        assert_int_equal(chmod(made, 0755), 0);
    }
    place_plan(place, base != NULL ? base : made, options);
    assert_int_equal(mkdir(place->path, 0755), 0);
    assert_int_equal(chmod(place->path, 0777), 0);
    place_open(place);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st;
    (void)kind;
    (void)walk;
    remove(path);
    return 0;
}

void place_remove(struct place *place)
{
    place_close(place);
    export_table_free(place->table);
    cred_take_root();
    nftw(place->base, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static int setup(void **state, const char *options)
{
    struct place *place = calloc(1, sizeof *place);
    place_make(place, NULL, options);
    *state = place;
    return 0;
}

int place_setup(void **state)
{
    return setup(state, "rw,no_root_squash,async");
}

int place_setup_sync(void **state)
{
    return setup(state, "rw,no_root_squash,sync");
}

int place_teardown(void **state)
{
    place_remove(*state);
    free(*state);
    return 0;
}

struct vfs_call place_call(struct place *place, uint32_t uid, uint32_t gid)
{
    return (struct vfs_call){.vfs = place->vfs,
                             .peer = (const struct sockaddr *)&place->peer,
                             .batch = ++place->batch,
                             .uid = uid,
                             .gid = gid};
}

struct vfs_call place_root_call(struct place *place)
{
    return place_call(place, 0, 0);
}

struct vfs_node place_node(struct place *place, const char *path)
{
    struct vfs_call call = place_root_call(place);
    struct vfs_node node = {0};
    char text[1024];
    char *rest = text;
    assert_int_equal(vfs_root(&call, PLACE_NAME(place->path), &node), 0);
    snprintf(text, sizeof text, "%s", path);
    for (char *name = strsep(&rest, "/"); name != NULL; name = strsep(&rest, "/")) {
        if (name[0] == 0) {
            continue;
        }
        struct vfs_node child = {0};
        int err = vfs_lookup(&call, &node, PLACE_NAME(name), &child);
        if (err != 0) {
            fail_msg("lookup of %s in %s: %s", name, path, strerror(-err));
        }
        vfs_put(&node);
        node = child;
    }
    return node;
}

struct vfs_handle place_handle(struct place *place, const char *path)
{
    struct vfs_handle handle;
    struct vfs_node node = place_node(place, path);
    vfs_node_handle(&node, &handle);
    vfs_put(&node);
    return handle;
}

int place_get(struct vfs_call *call, const struct vfs_handle *handle, struct vfs_node *node)
{
    return vfs_get(call, (struct vfs_bytes){handle->bytes, handle->size}, node);
}

const char *place_local(struct place *place, const char *path)
{
    static char texts[4][1400];
    static unsigned next;
    char *text = texts[next++ % 4];
    cred_take_root();
    snprintf(text, sizeof texts[0], "%s/%s", place->path, path);
    return text;
}

void place_write_local(struct place *place, const char *path, const char *text, mode_t mode,
                       uint32_t uid, uint32_t gid)
{
    int fd = open(place_local(place, path), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchown(fd, uid, gid), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

int place_create(struct place *place, uint32_t uid, const char *dir, const char *name,
                 uint32_t mode)
{
    struct vfs_node node = place_node(place, dir);
    struct vfs_handle handle;
    vfs_node_handle(&node, &handle);
    vfs_put(&node);
    struct vfs_call call = place_call(place, uid, uid);
    struct vfs_node made = {0};
    struct vfs_sattr sattr = {.set_mode = true, .mode = mode};
    int err = place_get(&call, &handle, &node);
    if (err == 0) {
        err = vfs_create(&call, &node, PLACE_NAME(name), VFS_GUARDED, &sattr, NULL, &made);
    }
    vfs_put(&made);
    vfs_put(&node);
    return err;
}

int place_remove_name(struct place *place, uint32_t uid, const char *dir, const char *name)
{
    struct vfs_node node = place_node(place, dir);
    struct vfs_handle handle;
    vfs_node_handle(&node, &handle);
    vfs_put(&node);
    struct vfs_call call = place_call(place, uid, uid);
    int err = place_get(&call, &handle, &node);
    if (err == 0) {
        err = vfs_remove(&call, &node, PLACE_NAME(name));
    }
    vfs_put(&node);
    return err;
}
