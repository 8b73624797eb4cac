/* SPDX-License-Identifier: Apache-2.0 */
/* Copies to an export. */
#include "cli/command.h"

#include "cli/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: holdfast put [-r] [-p] LOCAL ... nfs://HOST/PATH\n"
    "\n"
    "Copies files, or with -r trees, to an export. PATH is the file or directory to make,\n"
    "or a directory to put them in, as it must be if there are several. LOCAL may be \"-\",\n"
    "standard input.\n"
    "\n"
    "  -r   directories with all that is in them\n"
    "  -p   keep modes and times\n"
    "\n"
    "Everything is on stable storage when the command ends, as far as the server tells the\n"
    "truth.\n"
    "\n"
    "more: man 1 holdfast-put\n";

struct target {
    struct remote *remote;
    struct client_node dir;
    struct client_name name; /* of no bytes: each keeps its own, in dir */
    struct client_copy *copy;
    const struct remote_options *options;
    struct remote_progress *progress;
};

/* Is PATH a directory, or the name of something in one? */
static int find_target(struct target *target, bool several)
{
    struct remote *remote = target->remote;
    const char *path = remote->path;
    size_t size = strlen(path);
    bool must_be_dir = several || size == 0 || path[size - 1] == '/';

    int status = client_walk(remote->mount, path, true, &target->dir);
    if (status == 0 && target->dir.attr.type == NF3DIR) {
        target->name = (struct client_name){"", 0};
        return 0;
    }
    if (status != 0 && status != NFS3ERR_NOENT) {
        return status;
    }
    if (must_be_dir) {
        return status == 0 ? NFS3ERR_NOTDIR : status;
    }
    return client_walk_parent(remote->mount, path, &target->dir, &target->name);
}

static int put_stdin(const struct target *target)
{
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (target->name.size == 0) {
        close(fd);
        return NFS3ERR_ISDIR;
    }
    bool in_order = lseek(fd, 0, SEEK_CUR) != 0; /* a file, from its start, can be read again */
    int status = client_copy_put_file(target->copy, &target->dir.fh, target->name, fd, in_order,
                                      "standard input");
    return status != 0 ? status : client_copy_finish(target->copy);
}

static int put_one(const struct target *target, const char *local)
{
    struct stat st;

    if (strcmp(local, "-") == 0) {
        return put_stdin(target);
    }
    if (lstat(local, &st) != 0) {
        return -errno;
    }
    if (S_ISLNK(st.st_mode) && !target->options->flags['r'] && stat(local, &st) != 0) {
        return -errno;
    }
    if (S_ISDIR(st.st_mode) && !target->options->flags['r']) {
        return -EISDIR;
    }
    char *real = realpath(local, NULL); /* also to have a name for "." */
    if (real == NULL) {
        return -errno;
    }
    bool keep_link = target->options->flags['r'] && S_ISLNK(st.st_mode);
    const char *slash = strrchr(keep_link ? local : real, '/');
    const char *own = slash != NULL ? slash + 1 : keep_link ? local : real;
    struct client_name name = target->name.size > 0 ? target->name : client_name(own);
    target->progress->total_bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    int status = name.size == 0 ? -EINVAL
                                : client_copy_put_tree(target->copy, keep_link ? local : real,
                                                       &target->dir.fh, name);
    free(real);
    return status;
}

static int put_all(struct target *target, char **locals, int count)
{
    struct remote_progress *progress = target->progress;
    struct client_copy_options options = {
        .mount = target->remote->mount,
        .preserve = target->options->flags['p'],
        .problem = remote_problem,
        .progress = remote_progress,
        .owner = progress,
    };

    int status = find_target(target, count > 1);
    if (status == 0) {
        status = client_copy_open(&options, &target->copy);
    }
    if (status != 0) {
        remote_problem(progress, target->remote->name, status);
        return status;
    }
    for (int i = 0; i < count && target->remote->mount->lost == 0; i++) {
        uint64_t before = progress->problems;
        int problem = put_one(target, locals[i]);
        if (problem != 0 && progress->problems == before) {
            remote_problem(progress, locals[i], problem);
        }
        status = status == 0 ? problem : status;
    }
    client_copy_close(target->copy);
    return status;
}

int cmd_put(int argc, char **argv)
{
    struct remote_options options;
    struct remote_progress progress;
    struct remote remote;

    if (!remote_get_options(argc, argv, "rp", &options)) {
        return COMMAND_USAGE;
    }
    int count = argc - options.first - 1;
    if (options.help || count < 1) {
        fputs(help, options.help ? stdout : stderr);
        return options.help ? COMMAND_DONE : COMMAND_USAGE;
    }
    int status = remote_open(&remote, "put", argv[argc - 1]);
    if (status == COMMAND_DONE) {
        remote_progress_begin(&progress, "put");
        struct target target = {.remote = &remote, .options = &options, .progress = &progress};
        int problem = put_all(&target, argv + options.first, count);
        remote_progress_end(&progress);
        problem = problem == 0 && progress.problems > 0 ? -EIO : problem;
        status = remote_status(&remote, problem);
    }
    remote_close(&remote);
    return status;
}
