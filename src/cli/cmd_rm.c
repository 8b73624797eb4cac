/* SPDX-License-Identifier: Apache-2.0 */
/* Removes from an export. */
#include "cli/command.h"

#include "cli/remote.h"
#include "client/dir.h"

#include <errno.h>

static const char help[] = "usage: holdfast rm [-r] [-f] nfs://HOST/PATH ...\n"
                           "\n"
                           "Removes a file, or with -r a directory and all that is in it.\n"
                           "\n"
                           "  -r   directories, too\n"
                           "  -f   what is not there is no error\n"
                           "\n"
                           "more: man 1 holdfast-rm\n";

static void problem(void *owner, const char *path, int status)
{
    const struct remote *remote = owner;
    remote_tell(remote->command, path, status);
}

static int remove_url(struct remote *remote, const struct remote_options *options)
{
    struct client_mount *mount = remote->mount;
    struct client_answer answer = {0};
    struct client_node dir, node;
    struct client_name name;

    int status = client_walk_parent(mount, remote->path, &dir, &name);
    if (status == -EINVAL) {
        status = NFS3ERR_PERM; /* the export itself */
    }
    if (status == 0 && !client_name_is_safe(name)) {
        fprintf(stderr, "holdfast rm: %s: refused: its last part is \".\" or \"..\"\n",
                remote->name);
        return -EINVAL;
    }
    if (status == 0) {
        status = client_lookup(mount, &dir.fh, name, &node);
    }
    if (status == NFS3ERR_NOENT && options->flags['f']) {
        return 0;
    }
    if (status == 0 && options->flags['r']) {
        return client_remove_tree(mount, &dir.fh, name, remote->name, problem, remote);
    }
    if (status == 0) {
        struct REMOVE3args args = {client_dirop(&dir.fh, name)};
        status = client_nfs3(mount, NFSPROC3_REMOVE, &args, &answer);
        client_answer_free(&answer);
    }
    if (status != 0) {
        remote_tell("rm", remote->name, status);
    }
    return status;
}

int cmd_rm(int argc, char **argv)
{
    struct remote_options options;
    int worst = COMMAND_DONE;

    if (!remote_get_options(argc, argv, "rf", &options)) {
        return COMMAND_USAGE;
    }
    if (options.help || options.first == argc) {
        fputs(help, options.help ? stdout : stderr);
        return options.help ? COMMAND_DONE : COMMAND_USAGE;
    }
    for (int i = options.first; i < argc; i++) {
        struct remote remote;
        int status = remote_open(&remote, "rm", argv[i]);
        if (status == COMMAND_DONE) {
            status = remote_status(&remote, remove_url(&remote, &options));
        }
        remote_close(&remote);
        worst = status > worst ? status : worst;
    }
    return worst;
}
