/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees: walked by one call at a time, while the files found on the way are copied beside.
 *
 * What may only be done to a local directory when everything in it is there (its mode, if that
 * takes away our own rights, and its times) is put off until the end.
 */
#include "client/copy_internal.h"
#include "client/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A directory that is to be finished at the end; the last one first. */
struct later {
    struct later *next;
    bool remote;
    struct client_fh fh;
    mode_t mode;
    struct timespec times[2]; /* atime, mtime */
    char path[];
};

static int later_add(struct client_copy *copy, struct later *later, const char *path)
{
    struct later *kept = malloc(sizeof *kept + strlen(path) + 1);
    if (kept == NULL) {
        return -ENOMEM;
    }
    *kept = *later;
    strcpy(kept->path, path);
    kept->next = copy->later;
    copy->later = kept;
    return 0;
}

static char *path_join(const char *path, struct client_name name)
{
    size_t size = strlen(path);
    char *joined = malloc(size + name.size + 2);
    if (joined != NULL) {
        bool slash = size == 0 || path[size - 1] == '/';
        (void)snprintf(joined, size + name.size + 2, "%s%s%.*s", path, slash ? "" : "/",
                       (int)name.size, name.bytes);
    }
    return joined;
}

/* ---- from the server ---- */

struct get {
    struct client_copy *copy;
    int dir_fd;       /* the local directory it goes to */
    const char *path; /* the whole local path, for messages and for the end */
    uint32_t depth;
};

static void get_object(const struct get *to, const struct client_node *node, const char *name);

static int get_entry(const struct get *to, struct client_dir *dir, struct client_entry *entry)
{
    char name[NAME_MAX + 1];

    if (!client_name_is_safe(entry->name) || entry->name.size > NAME_MAX) {
        return entry->name.size > NAME_MAX ? -ENAMETOOLONG : -EBADMSG;
    }
    int status = client_dir_complete(dir, entry);
    if (status != 0) {
        return status;
    }
    memcpy(name, entry->name.bytes, entry->name.size);
    name[entry->name.size] = '\0';
    get_object(to, &entry->node, name);
    return 0;
}

static void get_entries(const struct get *to, const struct client_node *node)
{
    struct client_copy *copy = to->copy;
    struct client_dir dir;
    struct client_entry entry;
    bool found = true;

    client_dir_open(&dir, copy->mount, &node->fh, true);
    while (copy->fatal == 0) {
        int status = client_dir_next(&dir, &entry, &found);
        if (status != 0) {
            copy_problem(copy, to->path, status);
            break;
        }
        if (!found) {
            break;
        }
        status = get_entry(to, &dir, &entry);
        if (status != 0) {
            char *path = path_join(to->path, entry.name);
            copy_problem(copy, path != NULL ? path : to->path, status);
            free(path);
        }
    }
    client_dir_close(&dir);
}

/* An existing directory is used as it is; anything else with that name is in the way. */
static int open_local_dir(int dir_fd, const char *name, mode_t mode)
{
    if (mkdirat(dir_fd, name, mode) != 0 && errno != EEXIST) {
        return -errno;
    }
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Whether two directories are one; when nothing of ours is under way that changes them. */
static bool is_same_directory(struct client_copy *copy, int fd, const struct client_node *there)
{
    struct client_node node = *there;
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_ino == there->attr.fileid &&
           client_copy_finish(copy) == 0 && fstat(fd, &st) == 0 &&
           client_getattr(copy->mount, &node) == 0 && copy_is_same(&st, &node.attr);
}

static int get_directory(const struct get *to, const struct client_node *node, const char *name)
{
    struct client_copy *copy = to->copy;
    const struct fattr3 *attr = &node->attr;
    mode_t mode = attr->mode & (copy->options.preserve ? 07777 : 0777 & ~copy->umask);

    if (to->depth >= CLIENT_COPY_DEPTH_MAX) {
        return -ELOOP;
    }
    if (to->depth > 0 && is_same_directory(copy, copy->root.fd, node)) {
        return CLIENT_COPY_SAME;
    }
    int fd = open_local_dir(to->dir_fd, name, mode | S_IRWXU);
    if (fd < 0) {
        return fd;
    }
    if (to->depth == 0) {
        copy->root.fd = fd;
        if (is_same_directory(copy, fd, node)) {
            close(fd);
            return CLIENT_COPY_SAME;
        }
    }
    struct get below = {copy, fd, to->path, to->depth + 1};
    get_entries(&below, node);
    close(fd);
    copy->counts.directories++;
    struct later later = {
        .mode = mode,
        .times = {{attr->atime.seconds, attr->atime.nseconds},
                  {attr->mtime.seconds, attr->mtime.nseconds}},
    };
    return copy->options.preserve || mode != (mode | S_IRWXU) ? later_add(copy, &later, to->path)
                                                              : 0;
}

static int get_symlink(const struct get *to, const struct client_node *node, const char *name)
{
    char *target;
    int status = client_readlink(to->copy->mount, &node->fh, &target);
    if (status != 0) {
        return status;
    }
    if (symlinkat(target, to->dir_fd, name) != 0) {
        status = -errno;
        struct stat st;
        if (status == -EEXIST && fstatat(to->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(st.st_mode) && unlinkat(to->dir_fd, name, 0) == 0) {
            status = symlinkat(target, to->dir_fd, name) == 0 ? 0 : -errno;
        }
    }
    to->copy->counts.symlinks += status == 0 ? 1 : 0;
    free(target);
    return status;
}

static int get_regular(const struct get *to, const struct client_node *node, const char *name)
{
    struct stat st;
    if (fstatat(to->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        copy_is_same(&st, &node->attr)) {
        return CLIENT_COPY_SAME;
    }
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(to->dir_fd, name, flags, node->attr.mode & 0777);
    return fd < 0 ? -errno : client_copy_get_file(to->copy, node, fd, false, to->path);
}

static void get_object(const struct get *to, const struct client_node *node, const char *name)
{
    char *path = path_join(to->path, client_name(name));
    struct get here = {to->copy, to->dir_fd, path, to->depth};
    int status;

    if (path == NULL) {
        copy_problem(to->copy, to->path, -ENOMEM);
        return;
    }
    switch (node->attr.type) {
    case NF3REG:
        status = get_regular(&here, node, name);
        break;
    case NF3DIR:
        status = get_directory(&here, node, name);
        break;
    case NF3LNK:
        status = get_symlink(&here, node, name);
        break;
    default: /* devices, sockets and pipes are not copied */
        status = -EOPNOTSUPP;
        break;
    }
    if (status != 0) {
        copy_problem(to->copy, path, status);
    }
    free(path);
}

static void finish_local(struct client_copy *copy, const struct later *later)
{
    if (chmod(later->path, later->mode) != 0 ||
        (copy->options.preserve &&
         utimensat(AT_FDCWD, later->path, later->times, AT_SYMLINK_NOFOLLOW) != 0)) {
        copy_problem(copy, later->path, -errno);
    }
}

/* "a/b/" and "a/b" are b in a. */
static int split(const char *local, char **above, const char **name)
{
    size_t size = strlen(local);
    while (size > 1 && local[size - 1] == '/') {
        size--;
    }
    char *path = strndup(local, size);
    if (path == NULL) {
        return -ENOMEM;
    }
    char *slash = strrchr(path, '/');
    *name = local + (slash == NULL ? 0 : slash - path + 1);
    if (slash == NULL) {
        strcpy(path, size > 0 ? "." : "");
    } else {
        slash[slash == path ? 1 : 0] = '\0';
    }
    *above = path;
    return 0;
}

static int finish_later(struct client_copy *copy);

int client_copy_get_tree(struct client_copy *copy, const struct client_node *node,
                         const char *local)
{
    char *above;
    const char *rest;
    char name[NAME_MAX + 1];

    int status = split(local, &above, &rest);
    if (status != 0) {
        return status;
    }
    size_t size = strcspn(rest, "/");
    if (size == 0 || size > NAME_MAX) {
        free(above);
        return size == 0 ? -EINVAL : -ENAMETOOLONG;
    }
    memcpy(name, rest, size);
    name[size] = '\0';
    int dir_fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        status = -errno;
    } else {
        struct get to = {copy, dir_fd, strcmp(above, ".") == 0 ? "" : above, 0};
        get_object(&to, node, name);
        close(dir_fd);
        status = finish_later(copy);
    }
    free(above);
    return status;
}

/* ---- to the server ---- */

struct put {
    struct client_copy *copy;
    const struct client_fh *dir; /* the remote directory it goes to */
    struct client_name name;     /* and as what */
    const char *path;            /* local, for messages */
    uint32_t depth;
};

static void put_object(const struct put *to, int dir_fd, const char *local_name);

static struct sattr3 mode_only(mode_t mode)
{
    return (struct sattr3){.mode = {true, {mode}}};
}

/* MKDIR, or the directory that is there. */
static int make_directory(const struct put *to, mode_t mode, struct client_fh *fh)
{
    struct client_mount *mount = to->copy->mount;
    struct client_answer answer = {0};
    struct client_node node = {0};
    struct MKDIR3args args = {client_dirop(to->dir, to->name), mode_only(mode)};

    int status = client_nfs3(mount, NFSPROC3_MKDIR, &args, &answer);
    const struct MKDIR3res *res = answer.res;
    if (status == 0 && res->resok.obj.handle_follows) {
        client_fh_set(fh, &res->resok.obj.handle);
    } else if (status == 0 || status == NFS3ERR_EXIST) {
        status = client_lookup(mount, to->dir, to->name, &node);
        if (status == 0 && !node.has_attr) {
            status = client_getattr(mount, &node);
        }
        if (status == 0 && node.attr.type != NF3DIR) {
            status = NFS3ERR_NOTDIR;
        }
        *fh = node.fh;
    }
    client_answer_free(&answer);
    return status;
}

static void put_entries(const struct put *to, const struct client_fh *fh, DIR *dir)
{
    struct client_copy *copy = to->copy;

    while (copy->fatal == 0) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            if (errno != 0) {
                copy_problem(copy, to->path, -errno);
            }
            return;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        struct client_name name = client_name(entry->d_name);
        char *path = path_join(to->path, name);
        struct put below = {copy, fh, name, path, to->depth + 1};
        if (path == NULL) {
            copy_problem(copy, to->path, -ENOMEM);
            return;
        }
        put_object(&below, dirfd(dir), entry->d_name);
        free(path);
    }
}

static int put_directory(const struct put *to, int dir_fd, const char *local_name,
                         const struct stat *st)
{
    struct client_copy *copy = to->copy;
    mode_t mode = st->st_mode & (copy->options.preserve ? 07777 : 0777 & ~copy->umask);
    struct client_fh fh;

    if (to->depth >= CLIENT_COPY_DEPTH_MAX) {
        return -ELOOP;
    }
    int fd = openat(dir_fd, local_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        int error = -errno;
        if (fd >= 0) {
            close(fd);
        }
        return error;
    }
    int status = to->depth > 0 && is_same_directory(copy, fd, &copy->root.node)
                     ? CLIENT_COPY_SAME
                     : make_directory(to, mode | S_IRWXU, &fh);
    if (status == 0 && to->depth == 0) {
        copy->root.node = (struct client_node){.fh = fh};
        status = client_getattr(copy->mount, &copy->root.node);
        if (status == 0 && is_same_directory(copy, fd, &copy->root.node)) {
            status = CLIENT_COPY_SAME;
        }
    }
    if (status == 0) {
        put_entries(to, &fh, dir);
        copy->counts.directories++;
    }
    closedir(dir);
    struct later later = {
        .remote = true, .fh = fh, .mode = mode, .times = {st->st_atim, st->st_mtim}};
    if (status == 0 && (copy->options.preserve || mode != (mode | S_IRWXU))) {
        status = later_add(copy, &later, to->path);
    }
    return status;
}

static int put_symlink(const struct put *to, int dir_fd, const char *local_name)
{
    struct client_mount *mount = to->copy->mount;
    struct client_answer answer = {0};
    char target[PATH_MAX];

    ssize_t size = readlinkat(dir_fd, local_name, target, sizeof target);
    if (size < 0) {
        return -errno;
    }
    struct SYMLINK3args args = {
        client_dirop(to->dir, to->name),
        {mode_only(0777), {(const uint8_t *)target, (uint32_t)size}},
    };
    int status = client_nfs3(mount, NFSPROC3_SYMLINK, &args, &answer);
    struct client_node node;
    if (status == NFS3ERR_EXIST && client_lookup(mount, to->dir, to->name, &node) == 0 &&
        node.has_attr && node.attr.type == NF3LNK) {
        struct REMOVE3args old = {client_dirop(to->dir, to->name)};
        status = client_nfs3(mount, NFSPROC3_REMOVE, &old, &answer);
        if (status == 0) {
            status = client_nfs3(mount, NFSPROC3_SYMLINK, &args, &answer);
        }
    }
    to->copy->counts.symlinks += status == 0 ? 1 : 0;
    client_answer_free(&answer);
    return status;
}

static void put_object(const struct put *to, int dir_fd, const char *local_name)
{
    struct stat st;
    int status = 0;

    if (fstatat(dir_fd, local_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        status = -errno;
    } else if (S_ISREG(st.st_mode)) {
        int fd = openat(dir_fd, local_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        status = fd < 0 ? -errno
                        : client_copy_put_file(to->copy, to->dir, to->name, fd, false, to->path);
    } else if (S_ISDIR(st.st_mode)) {
        status = put_directory(to, dir_fd, local_name, &st);
    } else if (S_ISLNK(st.st_mode)) {
        status = put_symlink(to, dir_fd, local_name);
    } else {
        status = -EOPNOTSUPP;
    }
    if (status != 0) {
        copy_problem(to->copy, to->path, status);
    }
}

static void finish_remote(struct client_copy *copy, const struct later *later)
{
    struct client_answer answer = {0};
    struct SETATTR3args args = {.object = client_fh3(&later->fh),
                                .new_attributes = mode_only(later->mode)};
    if (copy->options.preserve) {
        const struct timespec *times = later->times;
        args.new_attributes.atime =
            (struct set_atime){SET_TO_CLIENT_TIME, {copy_time(&times[0])}};
        args.new_attributes.mtime =
            (struct set_mtime){SET_TO_CLIENT_TIME, {copy_time(&times[1])}};
    }
    int status = client_nfs3(copy->mount, NFSPROC3_SETATTR, &args, &answer);
    if (status != 0) {
        copy_problem(copy, later->path, status);
    }
    client_answer_free(&answer);
}

int client_copy_put_tree(struct client_copy *copy, const char *local, const struct client_fh *dir,
                         struct client_name name)
{
    struct put to = {copy, dir, name, local, 0};
    put_object(&to, AT_FDCWD, local);
    return finish_later(copy);
}

/* Waits for the files, then finishes the directories, the deepest first. */
static int finish_later(struct client_copy *copy)
{
    int status = client_copy_finish(copy);

    while (copy->later != NULL) {
        struct later *later = copy->later;
        copy->later = later->next;
        if (later->remote && copy->fatal == 0) {
            finish_remote(copy, later);
        } else if (!later->remote) {
            finish_local(copy, later);
        }
        free(later);
    }
    return status != 0 ? status : copy->fatal;
}
