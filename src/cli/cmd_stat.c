/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what an NFS server says of an object. */
#include "cli/command.h"

#include "cli/attributes.h"
#include "cli/remote.h"
#include "report/tree.h"

#include <inttypes.h>
#include <stdlib.h>

static const char help[] =
    "usage: holdfast stat [-L] [--json] nfs://HOST/PATH ...\n"
    "\n"
    "Shows the attributes and the file handle of an object, as the server gives them.\n"
    "\n"
    "  -L        what a symbolic link leads to, not the link\n"
    "  --json    as JSON\n"
    "\n"
    "more: man 1 holdfast-stat\n";

static void handle_text(const struct client_fh *fh, char text[2 * NFS3_FHSIZE + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (uint32_t i = 0; i < fh->size; i++) {
        text[2 * i] = digits[fh->bytes[i] >> 4];
        text[2 * i + 1] = digits[fh->bytes[i] & 15];
    }
    text[2 * fh->size] = '\0';
}

static void print_node(const struct remote *remote, const struct client_node *node,
                       const char *target, const char *handle)
{
    const struct fattr3 *attr = &node->attr;
    const struct {
        const char *name;
        const struct nfstime3 *time;
    } times[] = {{"accessed", &attr->atime}, {"modified", &attr->mtime}, {"changed", &attr->ctime}};
    char mode[11], time[64];

    attributes_mode_text(attr, mode);
    fputs("   path: ", stdout);
    remote_print_name(stdout, client_name(remote->name));
    if (target != NULL) {
        fputs(" -> ", stdout);
        remote_print_name(stdout, client_name(target));
    }
    printf("\n   type: %s   mode: %04o %s   links: %u\n", attributes_type_name(attr->type),
           attr->mode & 07777, mode, attr->nlink);
    printf("   size: %" PRIu64 "   used: %" PRIu64 "   uid: %u   gid: %u\n", attr->size, attr->used,
           attr->uid, attr->gid);
    if (attr->type == NF3BLK || attr->type == NF3CHR) {
        printf(" device: %u, %u\n", attr->rdev.specdata1, attr->rdev.specdata2);
    }
    printf(" fileid: %" PRIu64 "   fsid: %" PRIx64 "\n handle: %s\n", attr->fileid, attr->fsid,
           handle);
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        attributes_time_text(times[i].time, true, time);
        printf("%s: %s\n", times[i].name, time);
    }
}

static int show(struct remote *remote, bool follow, struct report *objects)
{
    struct client_node node;
    char handle[2 * NFS3_FHSIZE + 1];
    char *target = NULL;

    int status = client_walk(remote->mount, remote->path, follow, &node);
    if (status == 0 && node.attr.type == NF3LNK) {
        status = client_readlink(remote->mount, &node.fh, &target);
    }
    if (status != 0) {
        return status;
    }
    handle_text(&node.fh, handle);
    if (objects != NULL) {
        struct report *object = report_add_object(objects, NULL);
        report_add_bytes(object, "path", remote->name, strlen(remote->name));
        if (target != NULL) {
            report_add_bytes(object, "target", target, strlen(target));
        }
        attributes_report(object, &node.attr);
        report_add_text(object, "handle", handle);
    } else {
        print_node(remote, &node, target, handle);
    }
    free(target);
    return 0;
}

int cmd_stat(int argc, char **argv)
{
    struct remote_options options;
    int worst = COMMAND_DONE;

    if (!remote_get_options(argc, argv, "Lj", &options)) {
        return COMMAND_USAGE;
    }
    if (options.help || options.first == argc) {
        fputs(help, options.help ? stdout : stderr);
        return options.help ? COMMAND_DONE : COMMAND_USAGE;
    }
    struct report *report = options.json ? report_new() : NULL;
    struct report *objects = report_add_array(report, "objects");
    for (int i = options.first; i < argc; i++) {
        struct remote remote;
        int status = remote_open(&remote, "stat", argv[i]);
        if (status == COMMAND_DONE) {
            int problem = show(&remote, options.flags['L'], objects);
            if (problem != 0) {
                remote_tell("stat", remote.name, problem);
            }
            status = remote_status(&remote, problem);
        }
        remote_close(&remote);
        worst = status > worst ? status : worst;
    }
    if (options.json && !report_write_json(report, stdout)) {
        worst = COMMAND_CANNOT;
    }
    report_free(report);
    return worst;
}
