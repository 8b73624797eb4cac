/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from an export. */
#include "cli/command.h"

#include "cli/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: holdfast get [-r] [-p] nfs://HOST/PATH [LOCAL]\n"
    "\n"
    "Copies a file, or with -r a tree, from an export. LOCAL is the file or directory to\n"
    "make, or a directory to put it in; \".\" if it is not given; \"-\": a file's data goes\n"
    "to standard output.\n"
    "\n"
    "  -r   directories with all that is in them\n"
    "  -p   keep modes and times\n"
    "\n"
    "more: man 1 holdfast-get\n";

/* Where it goes: LOCAL, or below LOCAL if that is a directory. */
static int choose_target(const struct remote *remote, const char *local, char target[PATH_MAX])
{
    struct stat st;

    if (stat(local, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return snprintf(target, PATH_MAX, "%s", local) < PATH_MAX ? 0 : -ENAMETOOLONG;
    }
    const char *path = remote->mount->url.path;
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    int size = snprintf(target, PATH_MAX, "%s/%.*s", local, (int)(end - start), path + start);
    return size < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int get_to_stdout(struct client_copy *copy, const struct remote *remote,
                         const struct client_node *node)
{
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int status = client_copy_get_file(copy, node, fd, true, remote->name);
    return status != 0 ? status : client_copy_finish(copy);
}

static int get(struct remote *remote, const struct remote_options *options, const char *local,
               struct remote_progress *progress)
{
    struct client_copy_options copy_options = {
        .mount = remote->mount,
        .preserve = options->flags['p'],
        .problem = remote_problem,
        .progress = remote_progress,
        .owner = progress,
    };
    struct client_copy *copy = NULL;
    struct client_node node;
    char target[PATH_MAX];
    bool to_stdout = strcmp(local, "-") == 0;

    int status = client_walk(remote->mount, remote->path, true, &node);
    if (status == 0 && node.attr.type == NF3DIR && (!options->flags['r'] || to_stdout)) {
        status = NFS3ERR_ISDIR;
    }
    if (status == 0 && !to_stdout) {
        status = choose_target(remote, local, target);
    }
    if (status == 0) {
        copy_options.preserve = copy_options.preserve && !to_stdout;
        status = client_copy_open(&copy_options, &copy);
    }
    if (status != 0) {
        remote_problem(progress, remote->name, status);
        return status;
    }
    progress->total_bytes = node.attr.type == NF3REG ? node.attr.size : 0;
    status =
        to_stdout ? get_to_stdout(copy, remote, &node) : client_copy_get_tree(copy, &node, target);
    if (status != 0 && progress->problems == 0) {
        remote_problem(progress, to_stdout ? remote->name : target, status);
    }
    client_copy_close(copy);
    return status;
}

int cmd_get(int argc, char **argv)
{
    struct remote_options options;
    struct remote_progress progress;
    struct remote remote;

    if (!remote_get_options(argc, argv, "rp", &options)) {
        return COMMAND_USAGE;
    }
    int count = argc - options.first;
    if (options.help || count < 1 || count > 2) {
        fputs(help, options.help ? stdout : stderr);
        return options.help ? COMMAND_DONE : COMMAND_USAGE;
    }
    int status = remote_open(&remote, "get", argv[options.first]);
    if (status == COMMAND_DONE) {
        remote_progress_begin(&progress, "get");
        int problem = get(&remote, &options, count == 2 ? argv[options.first + 1] : ".", &progress);
        remote_progress_end(&progress);
        problem = problem == 0 && progress.problems > 0 ? -EIO : problem;
        status = remote_status(&remote, problem);
    }
    remote_close(&remote);
    return status;
}
