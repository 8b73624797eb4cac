/* SPDX-License-Identifier: Apache-2.0 */
/* The direct way, and the switch. */
#include "vfs/outside.h"

#include "vfs/export_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FILE_DEFAULT "/etc/exports"
#define DIRECTORY "/etc/exports.d"
#define SUFFIX ".exports"
#define HOST_BUFFER_BYTES 16384
#define EXT4_MAGIC 0xef53
#define PASSWD_BYTES_MIN 1024U
#define PASSWD_BYTES_MAX (1U << 20)
#define FIRST_COUNT 64
#define ASKED_COUNT_MAX 65536 /* NGROUPS_MAX */

/* ---- paths ---- */

int outside_look_at(int fd, struct outside_look *look)
{
    char link[64];
    struct statx st;
    if (statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_INO | STATX_TYPE | STATX_MNT_ID,
              &st) != 0) {
        return -errno;
    }
    look->mount_id = st.stx_mnt_id;
    look->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
    look->ino = st.stx_ino;
    look->is_directory = S_ISDIR(st.stx_mode);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, look->real, sizeof look->real - 1);
    if (bytes < 0) {
        return -errno;
    }
    look->real[bytes] = '\0';
    return bytes < (ssize_t)sizeof look->real - 1 ? 0 : -ENAMETOOLONG;
}

/* "<none>" or a number, in a file that any kernel of the last years has. */
static bool names_a_task(const char *path)
{
    char text[16] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    return got <= 0 || text[0] != '<';
}

bool outside_has_journal(int fd)
{
    char path[64];
    char device[PATH_MAX];
    char task[PATH_MAX + 64];
    struct stat st;
    struct statfs fs;
    bool is_ext = fstatfs(fd, &fs) == 0 && (uint32_t)fs.f_type == EXT4_MAGIC;
    if (!is_ext || fstat(fd, &st) != 0 || access("/sys/fs/ext4/features", F_OK) != 0) {
        return true;
    }
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
    if (realpath(path, device) == NULL) {
        return true;
    }
    snprintf(task, sizeof task, "/sys/fs/ext4%s", strrchr(device, '/'));
    if (access(task, F_OK) != 0) {
        return false; /* ext2 has the same magic */
    }
    snprintf(task, sizeof task, "/sys/fs/ext4%s/journal_task", strrchr(device, '/'));
    return names_a_task(task);
}

static int look_direct(void *arg, const char *path, struct outside_look *look)
{
    (void)arg;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int err = outside_look_at(fd, look);
    close(fd);
    return err;
}

static int open_itself(void *arg, const char *path, struct outside_tree *tree)
{
    (void)arg;
    *tree = (struct outside_tree){.fd = open(path, O_PATH | O_CLOEXEC)};
    if (tree->fd < 0) {
        return -errno;
    }
    int err = outside_look_at(tree->fd, &tree->look);
    if (err != 0) {
        close(tree->fd);
    }
    tree->has_journal = err == 0 && outside_has_journal(tree->fd);
    return err;
}

static int open_direct(void *arg, const char *path, struct outside_tree *tree)
{
    (void)arg;
    *tree = (struct outside_tree){.fd = -1};
    int err = look_direct(NULL, path, &tree->look);
    if (err != 0) {
        return err;
    }
    tree->fd = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    tree->is_clone = tree->fd >= 0;
    if (tree->fd < 0 && (errno == EPERM || errno == ENOSYS || errno == EINVAL)) {
        tree->fd = open(path, O_PATH | O_CLOEXEC);
    }
    if (tree->fd < 0) {
        return -errno;
    }
    tree->has_journal = outside_has_journal(tree->fd);
    return 0;
}

static void release_direct(void *arg, uint32_t place)
{
    (void)arg;
    (void)place;
}

static int journal_direct(void *arg, const char *path)
{
    (void)arg;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT &&
        strncmp(path, OUTSIDE_DEVICES, sizeof OUTSIDE_DEVICES - 1) != 0) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    return fd < 0 ? -errno : fd;
}

/* ---- exports files ---- */

static void add_file(struct outside_files *files, const char *name)
{
    if (files->count < OUTSIDE_FILE_COUNT_MAX) {
        struct outside_file *file = &files->items[files->count++];
        (void)snprintf(file->name, sizeof file->name, "%s", name);
        file->fd = open(name, O_RDONLY | O_CLOEXEC);
        file->fd = file->fd < 0 ? -errno : file->fd;
    }
}

/* exports(5): "/etc/exports.d/": names that end in ".exports" and do not begin with a dot. */
static int is_export_file(const struct dirent *entry)
{
    size_t bytes = strlen(entry->d_name);
    size_t suffix_bytes = strlen(SUFFIX);

    return entry->d_name[0] != '.' && bytes > suffix_bytes &&
           strcmp(entry->d_name + bytes - suffix_bytes, SUFFIX) == 0;
}

static int files_direct(void *arg, const char *file, struct outside_files *files)
{
    struct dirent **names = NULL;
    char path[sizeof DIRECTORY + sizeof names[0]->d_name + 1];

    (void)arg;
    files->count = 0;
    add_file(files, file);
    if (strcmp(file, FILE_DEFAULT) != 0) {
        return 0;
    }
    int count = scandir(DIRECTORY, &names, is_export_file, versionsort);
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof path, DIRECTORY "/%s", names[i]->d_name);
        free(names[i]);
        add_file(files, path);
    }
    free(names);
    return 0;
}

/* ---- hosts ---- */

static int addresses_direct(void *arg, const char *host, struct outside_addresses *addresses)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;

    (void)arg;
    addresses->count = 0;
    int error = getaddrinfo(host, NULL, &hints, &list);
    if (error != 0) {
        return error;
    }
    for (const struct addrinfo *ai = list;
         ai != NULL && addresses->count < OUTSIDE_ADDRESS_COUNT_MAX; ai = ai->ai_next) {
        addresses->count +=
            export_address(ai->ai_addr, addresses->items[addresses->count]) ? 1 : 0;
    }
    freeaddrinfo(list);
    return 0;
}

static bool leads_back(const char *name, const uint8_t address[16])
{
    struct outside_addresses *found = malloc(sizeof *found);
    bool does = false;

    if (found != NULL && addresses_direct(NULL, name, found) == 0) {
        for (uint32_t i = 0; i < found->count && !does; i++) {
            does = memcmp(found->items[i], address, 16) == 0;
        }
    }
    free(found);
    return does;
}

static void add_name(struct outside_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (strcasecmp(names->names[i], name) == 0) {
            return;
        }
    }
    if (names->count < OUTSIDE_NAME_COUNT_MAX && name[0] != '\0' &&
        strlen(name) < OUTSIDE_NAME_BYTES_MAX) {
        strcpy(names->names[names->count++], name);
    }
}

/* Other names that /etc/hosts, NIS or DNS have for it. */
static void add_aliases(struct outside_names *names)
{
    struct hostent host, *found = NULL;
    char buffer[HOST_BUFFER_BYTES];
    int error;

    if (gethostbyname_r(names->names[0], &host, buffer, sizeof buffer, &found, &error) != 0 ||
        found == NULL) {
        return;
    }
    add_name(names, found->h_name);
    for (char **alias = found->h_aliases; *alias != NULL; alias++) {
        add_name(names, *alias);
    }
}

static int names_direct(void *arg, const uint8_t address[16], struct outside_names *names)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    bool ipv4 = export_is_ipv4(address, 128);
    char name[NI_MAXHOST];

    (void)arg;
    *names = (struct outside_names){0};
    memcpy(&in.sin_addr, address + 12, 4);
    memcpy(&in6.sin6_addr, address, 16);
    const struct sockaddr *peer = ipv4 ? (struct sockaddr *)(void *)&in
                                       : (struct sockaddr *)(void *)&in6;
    socklen_t bytes = ipv4 ? sizeof in : sizeof in6;
    if (getnameinfo(peer, bytes, name, sizeof name, NULL, 0, NI_NAMEREQD) != 0) {
        return 0;
    }
    if (!leads_back(name, address)) {
        (void)snprintf(names->unproven, sizeof names->unproven, "%.255s", name);
        return 0;
    }
    add_name(names, name);
    if (names->count > 0) {
        add_aliases(names);
    }
    return 0;
}

/*
 * exports(5): "Only the host part of each netgroup member is considered. Empty host parts or those
 * containing a single dash are ignored." innetgr(3) has another opinion of empty ones, they fit
 * every host: its yes is looked into. The list is one per process.
 */
static bool netgroup_direct(void *arg, const char *group, const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char buffer[4096];
    char *host, *user, *domain;
    bool found = false;

    (void)arg;
    if (name != NULL && innetgr(group, name, NULL, NULL) != 1) {
        return false;
    }
    pthread_mutex_lock(&lock);
    if (setnetgrent(group) == 1) {
        while (!found && getnetgrent_r(&host, &user, &domain, buffer, sizeof buffer) == 1) {
            found = host != NULL && *host != '\0' && strcmp(host, "-") != 0 &&
                    (name == NULL || strcasecmp(host, name) == 0);
        }
    }
    endnetgrent();
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- users ---- */

/* The name and the first group of a user; the name is freed by the caller. NULL: there is none. */
static char *find_user(uint32_t uid, gid_t *gid)
{
    char *name = NULL;
    for (size_t bytes = PASSWD_BYTES_MIN; bytes <= PASSWD_BYTES_MAX; bytes *= 4) {
        struct passwd user, *found = NULL;
        char *buffer = malloc(bytes);
        int error = buffer != NULL ? getpwuid_r(uid, &user, buffer, bytes, &found) : 0;
        if (found != NULL) {
            name = strdup(user.pw_name);
            *gid = user.pw_gid;
        }
        free(buffer);
        if (error != ERANGE) {
            break;
        }
    }
    return name;
}

/* All groups of a user: an array to be freed, or NULL. */
static gid_t *find_gids(const char *name, gid_t gid, int *count)
{
    gid_t *gids = NULL;
    int room = FIRST_COUNT, found;
    do {
        free(gids);
        gids = calloc((size_t)room, sizeof *gids);
        *count = room;
        found = gids != NULL ? getgrouplist(name, gid, gids, count) : 0;
        room = *count > room ? *count : 2 * room;
    } while (found < 0 && room <= ASKED_COUNT_MAX);
    if (gids == NULL || found < 0) {
        free(gids);
        return NULL;
    }
    return gids;
}

static int groups_direct(void *arg, uint32_t uid, struct outside_groups *groups)
{
    gid_t gid = 0;
    int count = 0;

    (void)arg;
    char *name = find_user(uid, &gid);
    gid_t *gids = name != NULL ? find_gids(name, gid, &count) : NULL;
    groups->count = (uint32_t)count;
    for (uint32_t i = 0; gids != NULL && i < groups->count && i < OUTSIDE_GROUP_COUNT_MAX; i++) {
        groups->gids[i] = gids[i];
    }
    int err = gids != NULL ? 0 : -ENOENT;
    free(gids);
    free(name);
    return err;
}

/* ---- the switch ---- */

/* Only how a directory is opened differs. */
#define DIRECT_OPS(open_function)                                                                  \
    {.look = look_direct,                                                                          \
     .open = (open_function),                                                                      \
     .release = release_direct,                                                                    \
     .journal = journal_direct,                                                                    \
     .files = files_direct,                                                                        \
     .addresses = addresses_direct,                                                                \
     .names = names_direct,                                                                        \
     .netgroup = netgroup_direct,                                                                  \
     .groups = groups_direct}

const struct outside_ops outside_direct = DIRECT_OPS(open_direct);
const struct outside_ops outside_without_clones = DIRECT_OPS(open_itself);

static const struct outside_ops *ops_in_use = &outside_direct;
static void *arg_in_use;

void outside_use(const struct outside_ops *ops, void *arg)
{
    ops_in_use = ops;
    arg_in_use = arg;
}

int outside_look(const char *path, struct outside_look *look)
{
    return ops_in_use->look(arg_in_use, path, look);
}

int outside_open(const char *path, struct outside_tree *tree)
{
    return ops_in_use->open(arg_in_use, path, tree);
}

void outside_release(uint32_t place)
{
    ops_in_use->release(arg_in_use, place);
}

int outside_journal(const char *path)
{
    return ops_in_use->journal(arg_in_use, path);
}

int outside_files(const char *file, struct outside_files *files)
{
    return ops_in_use->files(arg_in_use, file, files);
}

int outside_addresses(const char *host, struct outside_addresses *addresses)
{
    return ops_in_use->addresses(arg_in_use, host, addresses);
}

int outside_names(const uint8_t address[16], struct outside_names *names)
{
    return ops_in_use->names(arg_in_use, address, names);
}

bool outside_netgroup(const char *group, const char *name)
{
    return ops_in_use->netgroup(arg_in_use, group, name);
}

int outside_groups(uint32_t uid, struct outside_groups *groups)
{
    return ops_in_use->groups(arg_in_use, uid, groups);
}
