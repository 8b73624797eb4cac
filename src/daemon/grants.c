/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/grants.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINK_COUNT_MAX 40 /* path_resolution(7) */

/* ---- walking ---- */

static bool is_root(const struct grants_table *table, const struct stat *st)
{
    for (uint32_t i = 0; i < table->root_count; i++) {
        if (table->roots[i].dev == st->st_dev && table->roots[i].ino == st->st_ino) {
            return true;
        }
    }
    return false;
}

struct walk {
    int fd;          /* where it is */
    bool is_inside;  /* an exported directory is behind it */
    unsigned links;  /* followed so far */
    char rest[2 * PATH_MAX];
};

/* Takes the first name off the rest; false: there is none. */
static bool next_name(struct walk *walk, char name[NAME_MAX + 1], int *err)
{
    char *at = walk->rest + strspn(walk->rest, "/");
    size_t bytes = strcspn(at, "/");

    *err = bytes > NAME_MAX ? -ENAMETOOLONG : 0;
    if (bytes == 0 || *err != 0) {
        return false;
    }
    memcpy(name, at, bytes);
    name[bytes] = '\0';
    memmove(walk->rest, at + bytes, strlen(at + bytes) + 1);
    return true;
}

/* The link that fd is of takes the place of its name. */
static int follow(struct walk *walk, int fd)
{
    char target[2 * PATH_MAX];
    size_t rest_bytes = strlen(walk->rest);

    if (walk->is_inside || ++walk->links > LINK_COUNT_MAX) {
        return -ELOOP;
    }
    ssize_t bytes = readlinkat(fd, "", target, PATH_MAX);
    if (bytes <= 0) {
        return bytes < 0 ? -errno : -ENOENT;
    }
    if ((size_t)bytes + rest_bytes >= sizeof target) {
        return -ENAMETOOLONG;
    }
    memcpy(target + bytes, walk->rest, rest_bytes + 1);
    memcpy(walk->rest, target, (size_t)bytes + rest_bytes + 1);
    if (target[0] == '/') {
        close(walk->fd);
        walk->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    return walk->fd < 0 ? -errno : 0;
}

static int step(const struct grants *grants, struct walk *walk, const char *name)
{
    struct stat st;

    /* As open(2) with O_PATH, and what is mounted on demand is. */
    int fd = (int)syscall(SYS_open_tree, walk->fd, name, OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (fd < 0 && (errno == EPERM || errno == ENOSYS)) {
        fd = openat(walk->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) {
        return -errno;
    }
    if (fstat(fd, &st) != 0) {
        int err = -errno;
        close(fd);
        return err;
    }
    if (S_ISLNK(st.st_mode)) {
        int err = follow(walk, fd);
        close(fd);
        return err;
    }
    walk->is_inside =
        walk->is_inside || is_root(&grants->now, &st) || is_root(&grants->next, &st);
    close(walk->fd);
    walk->fd = fd;
    return 0;
}

static int walk_to(const struct grants *grants, const char *path)
{
    struct walk walk = {.fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    char name[NAME_MAX + 1];
    struct stat st;

    int err = walk.fd < 0 || fstat(walk.fd, &st) != 0 ? -errno : 0;
    if (err == 0 && (path[0] != '/' || strlen(path) >= PATH_MAX)) {
        err = path[0] == '/' ? -ENAMETOOLONG : -ENOENT;
    }
    if (err == 0) {
        strcpy(walk.rest, path);
        walk.is_inside = is_root(&grants->now, &st) || is_root(&grants->next, &st);
    }
    while (err == 0 && next_name(&walk, name, &err)) {
        err = step(grants, &walk, name);
    }
    if (err != 0 && walk.fd >= 0) {
        close(walk.fd);
    }
    return err != 0 ? err : walk.fd;
}

/* ---- what is granted ---- */

static bool has_entry(const struct grants_table *table, const char *path)
{
    for (uint32_t i = 0; table->table != NULL && i < table->table->entry_count; i++) {
        if (strcmp(table->table->entries[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* The export with crossmnt that begins the path, and what follows it; NULL: there is none. */
static const char *crossing_above(const struct grants_table *table, const char *path,
                                  const char **rest)
{
    for (uint32_t i = 0; i < table->crossing_count; i++) {
        const char *above = table->crossings[i];
        size_t bytes = strcmp(above, "/") == 0 ? 0 : strlen(above);
        if (strncmp(above, path, bytes) == 0 && path[bytes] == '/' && path[bytes + 1] != '\0') {
            *rest = path + bytes + 1;
            return above;
        }
    }
    return NULL;
}

/* The kernel gives paths of what is mounted without symbolic links; and without "..", which would
 * lead out of the export. */
static int open_mount(const char *above, const char *rest)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS};
    struct statx st;

    int above_fd = (int)syscall(SYS_openat2, AT_FDCWD, above, &how, sizeof how);
    if (above_fd < 0) {
        return -errno;
    }
    how.resolve |= RESOLVE_BENEATH;
    rest += strspn(rest, "/");
    int fd = (int)syscall(SYS_openat2, above_fd, rest, &how, sizeof how);
    int err = fd < 0 ? -errno : 0;
    close(above_fd);
    if (fd < 0) {
        return err;
    }
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) != 0 ||
        (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0) {
        close(fd);
        return -EACCES;
    }
    return fd;
}

int grants_open(const struct grants *grants, const char *path)
{
    if (has_entry(&grants->now, path) || has_entry(&grants->next, path)) {
        return walk_to(grants, path);
    }
    const char *rest = NULL;
    const char *above = crossing_above(&grants->now, path, &rest);
    above = above != NULL ? above : crossing_above(&grants->next, path, &rest);
    return above != NULL ? open_mount(above, rest) : -EACCES;
}

static bool has_journal(const struct grants_table *table, const char *path)
{
    bool found = false;

    for (uint32_t i = 0; table->table != NULL && i < table->table->entry_count; i++) {
        const struct export_entry *entry = &table->table->entries[i];
        for (uint32_t j = 0; j < entry->client_count && !found; j++) {
            const char *journal = entry->clients[j].options.journal;
            found = journal != NULL && strcmp(journal, path) == 0;
        }
    }
    return found;
}

/* The name is the last of the path. */
static int make_file(const struct grants *grants, char *path)
{
    char *slash = strrchr(path, '/');
    const char *name = slash + 1;

    *slash = '\0';
    int dir_fd = walk_to(grants, slash == path ? "/" : path);
    if (dir_fd < 0) {
        return dir_fd;
    }
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    fd = fd < 0 ? -errno : fd;
    close(dir_fd);
    return fd;
}

int grants_journal(const struct grants *grants, const char *path)
{
    const char *journal = grants->config->journal;
    char whole[2 * PATH_MAX] = "";
    char link[64];

    if ((journal == NULL || strcmp(journal, path) != 0) && !has_journal(&grants->now, path) &&
        !has_journal(&grants->next, path)) {
        return -EACCES;
    }
    if (path[0] != '/' && getcwd(whole, PATH_MAX) == NULL) {
        return -errno;
    }
    size_t used = strlen(whole);
    (void)snprintf(whole + used, sizeof whole - used, used > 0 ? "/%s" : "%s", path);
    int at = walk_to(grants, whole);
    if (at == -ENOENT && strncmp(whole, OUTSIDE_DEVICES, sizeof OUTSIDE_DEVICES - 1) != 0) {
        return make_file(grants, whole);
    }
    if (at < 0) {
        return at;
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    int fd = open(link, O_RDWR | O_CLOEXEC);
    fd = fd < 0 ? -errno : fd;
    close(at);
    return fd;
}

/* ---- reading ---- */

static void table_free(struct grants_table *table)
{
    for (uint32_t i = 0; i < table->crossing_count; i++) {
        free(table->crossings[i]);
    }
    free(table->crossings);
    free(table->roots);
    export_table_free(table->table);
    *table = (struct grants_table){0};
}

/* Lines that are wrong, and directories that are none, are for the server to complain of. */
static int fill(const struct config *config, const struct outside_files *files,
                struct export_table *table)
{
    struct export_problems problems = {0};
    int err = 0;

    for (uint32_t i = 0; i < config->directory_count && err != -ENOMEM; i++) {
        err = export_table_add_argument(table, config->directories[i], &problems);
    }
    if (files != NULL && err != -ENOMEM) {
        err = export_table_add_files(table, files, &problems);
    }
    export_problems_free(&problems);
    return err == -ENOMEM ? err : 0;
}

static int note_roots(struct grants_table *table)
{
    uint32_t count = table->table->entry_count;
    struct stat st;

    table->roots = calloc(count + 1, sizeof *table->roots);
    for (uint32_t i = 0; table->roots != NULL && i < count; i++) {
        if (stat(table->table->entries[i].path, &st) == 0) {
            table->roots[table->root_count++] = (struct grants_root){st.st_dev, st.st_ino};
        }
    }
    return table->roots == NULL ? -ENOMEM : 0;
}

static bool has_crossmnt(const struct export_entry *entry)
{
    bool found = false;

    for (uint32_t i = 0; i < entry->client_count; i++) {
        found = found || entry->clients[i].options.crossmnt;
    }
    return found;
}

static int note_crossings(const struct grants *grants, struct grants_table *table)
{
    const struct export_table *exports = table->table;
    struct outside_look *look = malloc(sizeof *look);
    int err = look == NULL ? -ENOMEM : 0;

    table->crossings = calloc(exports->entry_count + 1, sizeof *table->crossings);
    err = table->crossings == NULL ? -ENOMEM : err;
    for (uint32_t i = 0; err == 0 && i < exports->entry_count; i++) {
        int fd = has_crossmnt(&exports->entries[i]) ? walk_to(grants, exports->entries[i].path)
                                                    : -ENOENT;
        if (fd >= 0 && outside_look_at(fd, look) == 0) {
            char *copy = strdup(look->real);
            err = copy == NULL ? -ENOMEM : 0;
            table->crossings[table->crossing_count] = copy;
            table->crossing_count += copy == NULL ? 0 : 1;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    free(look);
    return err;
}

int grants_read(struct grants *grants, const struct outside_files *files)
{
    struct grants_table *next = &grants->next;

    table_free(next);
    next->table = export_table_new();
    int err = next->table == NULL ? -ENOMEM : fill(grants->config, files, next->table);
    if (err == 0) {
        err = note_roots(next);
    }
    if (err == 0) {
        err = note_crossings(grants, next);
    }
    if (err != 0) {
        table_free(next);
    }
    return err;
}

void grants_publish(struct grants *grants)
{
    if (grants->next.table != NULL) {
        table_free(&grants->now);
        grants->now = grants->next;
        grants->next = (struct grants_table){0};
    }
}

int grants_begin(struct grants *grants, const struct config *config)
{
    struct outside_files *files = NULL;
    int err = 0;

    *grants = (struct grants){.config = config};
    if (config->exports_file != NULL) {
        files = malloc(sizeof *files);
        err = files == NULL ? -ENOMEM
                            : outside_direct.files(NULL, config->exports_file, files);
    }
    if (err == 0) {
        err = grants_read(grants, files);
    }
    grants_publish(grants);
    free(files);
    return err;
}

void grants_end(struct grants *grants)
{
    table_free(&grants->now);
    table_free(&grants->next);
}
