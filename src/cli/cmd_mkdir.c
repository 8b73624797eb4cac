/* SPDX-License-Identifier: Apache-2.0 */
/* Makes directories on an export. */
#include "cli/command.h"

#include "cli/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char help[] = "usage: holdfast mkdir [-p] [-m MODE] nfs://HOST/PATH ...\n"
                           "\n"
                           "Makes a directory.\n"
                           "\n"
                           "  -p        those above it, too; one that is there is no error\n"
                           "  -m MODE   in octal; otherwise 777 without the umask\n"
                           "\n"
                           "more: man 1 holdfast-mkdir\n";

/* One directory in another; with `there` it may be there already. */
static int make(struct client_mount *mount, struct client_node *dir, struct client_name name,
                uint32_t mode, bool there)
{
    struct client_answer answer = {0};
    struct MKDIR3args args = {.where = client_dirop(&dir->fh, name),
                              .attributes = {.mode = {true, {mode}}}};
    struct client_node made;

    int status = client_nfs3(mount, NFSPROC3_MKDIR, &args, &answer);
    if (status == NFS3ERR_EXIST && there) {
        status = 0;
    }
    if (status == 0 && there) {
        status = client_lookup(mount, &dir->fh, name, &made);
        if (status == 0 && !made.has_attr) {
            status = client_getattr(mount, &made);
        }
        if (status == 0 && made.attr.type != NF3DIR) {
            status = NFS3ERR_EXIST;
        }
        *dir = made;
    }
    client_answer_free(&answer);
    return status;
}

/* -p: one component after the other. */
static int make_all(const struct remote *remote, uint32_t mode, uint32_t mode_above)
{
    struct client_node dir = {.fh = remote->mount->root};
    const char *path = remote->path;
    int status = 0;

    while (status == 0 && *path != '\0') {
        uint32_t size = (uint32_t)strcspn(path, "/");
        struct client_name name = {path, size};
        path += size + strspn(path + size, "/");
        status = make(remote->mount, &dir, name, *path == '\0' ? mode : mode_above, true);
    }
    return status;
}

static int make_url(const struct remote *remote, bool parents, uint32_t mode, uint32_t mode_above)
{
    struct client_node dir;
    struct client_name name;

    if (parents) {
        return make_all(remote, mode, mode_above);
    }
    int status = client_walk_parent(remote->mount, remote->path, &dir, &name);
    if (status != 0) {
        return status == -EINVAL ? NFS3ERR_EXIST : status; /* the export itself */
    }
    return make(remote->mount, &dir, name, mode, false);
}

int cmd_mkdir(int argc, char **argv)
{
    struct remote_options options;
    mode_t mask = umask(0);
    uint32_t mode_above = (0777 & ~mask) | 0300; /* mkdir(1) of POSIX */
    uint32_t mode = 0777 & ~mask;
    int worst = COMMAND_DONE;

    umask(mask);
    if (!remote_get_options(argc, argv, "pm:", &options)) {
        return COMMAND_USAGE;
    }
    if (options.help || options.first == argc) {
        fputs(help, options.help ? stdout : stderr);
        return options.help ? COMMAND_DONE : COMMAND_USAGE;
    }
    if (options.flags['m']) {
        char *end;
        mode = (uint32_t)strtoul(options.value, &end, 8);
        if (*options.value == '\0' || *end != '\0' || mode > 07777) {
            fprintf(stderr, "holdfast mkdir: '%s' is no octal mode\n", options.value);
            return COMMAND_USAGE;
        }
    }
    for (int i = options.first; i < argc; i++) {
        struct remote remote;
        int status = remote_open(&remote, "mkdir", argv[i]);
        if (status == COMMAND_DONE) {
            int problem = make_url(&remote, options.flags['p'], mode, mode_above);
            if (problem != 0) {
                remote_tell("mkdir", remote.name, problem);
            }
            status = remote_status(&remote, problem);
        }
        remote_close(&remote);
        worst = status > worst ? status : worst;
    }
    return worst;
}
