/* SPDX-License-Identifier: Apache-2.0 */
/* Lists directories of an export, or, at nfs://HOST/, the exports of a host. */
#include "cli/command.h"

#include "cli/attributes.h"
#include "cli/remote.h"
#include "client/dir.h"
#include "report/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const char help[] =
    "usage: holdfast ls [-l] [-d] [-U] [--json] nfs://HOST/PATH ...\n"
    "\n"
    "Lists a directory, or names a file. nfs://HOST/ lists what HOST exports, if \"/\" is\n"
    "no export itself.\n"
    "\n"
    "  -l        long: mode, links, uid, gid, size, time of change\n"
    "  -d        a directory itself, not what is in it\n"
    "  -U        in the order of the directory; does not wait for its end\n"
    "  --json    all attributes\n"
    "\n"
    "more: man 1 holdfast-ls\n";

struct item {
    char *name;
    uint32_t name_bytes;
    struct client_node node;
};

struct listing {
    const struct remote_options *options;
    struct remote *remote;
    struct report *entries; /* NULL: text */
    struct item *items;
    size_t count, capacity;
};

/* ---- printing ---- */

static void print_item(const struct listing *listing, const struct item *item)
{
    struct client_name name = {item->name, item->name_bytes};
    const struct fattr3 *attr = &item->node.attr;
    char mode[11], time[64];

    if (listing->entries != NULL) {
        struct report *entry = report_add_object(listing->entries, NULL);
        report_add_bytes(entry, "name", item->name, item->name_bytes);
        if (item->node.has_attr) {
            attributes_report(entry, attr);
        }
        return;
    }
    if (listing->options->flags['l']) {
        attributes_mode_text(attr, mode);
        attributes_time_text(&attr->mtime, false, time);
        printf("%s %3u %5u %5u ", mode, attr->nlink, attr->uid, attr->gid);
        if (attr->type == NF3BLK || attr->type == NF3CHR) {
            printf("%4u, %4u", attr->rdev.specdata1, attr->rdev.specdata2);
        } else {
            printf("%10" PRIu64, attr->size);
        }
        printf(" %s ", time);
    }
    remote_print_name(stdout, name);
    if (listing->options->flags['l'] && attr->type == NF3LNK) {
        char *target;
        if (client_readlink(listing->remote->mount, &item->node.fh, &target) == 0) {
            fputs(" -> ", stdout);
            remote_print_name(stdout, client_name(target));
            free(target);
        }
    }
    putchar('\n');
}

/* ---- collecting ---- */

static int keep(struct listing *listing, const struct client_entry *entry)
{
    if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity == 0 ? 256 : listing->capacity * 2;
        struct item *items = reallocarray(listing->items, capacity, sizeof *items);
        if (items == NULL) {
            return -ENOMEM;
        }
        listing->items = items;
        listing->capacity = capacity;
    }
    struct item *item = &listing->items[listing->count];
    *item = (struct item){.node = entry->node, .name_bytes = entry->name.size};
    item->name = malloc(entry->name.size + 1);
    if (item->name == NULL) {
        return -ENOMEM;
    }
    memcpy(item->name, entry->name.bytes, entry->name.size);
    listing->count++;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct item *left = a, *right = b;
    uint32_t common = left->name_bytes < right->name_bytes ? left->name_bytes : right->name_bytes;
    int order = memcmp(left->name, right->name, common);
    return order != 0
               ? order
               : (left->name_bytes > right->name_bytes) - (left->name_bytes < right->name_bytes);
}

static int list_directory(struct listing *listing, const struct client_node *node)
{
    bool unsorted = listing->options->flags['U'];
    bool attributes = listing->options->flags['l'] || listing->entries != NULL;
    struct client_dir dir;
    struct client_entry entry;
    bool found = true;
    int status;

    client_dir_open(&dir, listing->remote->mount, &node->fh, attributes);
    while ((status = client_dir_next(&dir, &entry, &found)) == 0 && found) {
        if (attributes) {
            status = client_dir_complete(&dir, &entry);
            if (status == NFS3ERR_NOENT || status == NFS3ERR_STALE) {
                continue; /* it is gone since the page was read */
            }
        }
        struct item item = {(char *)(uintptr_t)entry.name.bytes, entry.name.size, entry.node};
        if (status == 0 && unsorted) {
            print_item(listing, &item);
        } else if (status == 0) {
            status = keep(listing, &entry);
        }
        if (status != 0) {
            break;
        }
    }
    client_dir_close(&dir);
    if (listing->count > 0) {
        qsort(listing->items, listing->count, sizeof *listing->items, compare);
    }
    for (size_t i = 0; i < listing->count; i++) {
        print_item(listing, &listing->items[i]);
        free(listing->items[i].name);
    }
    free(listing->items);
    return status;
}

static int list(struct listing *listing)
{
    struct remote *remote = listing->remote;
    struct client_node node;
    bool itself = listing->options->flags['d'];

    int status = client_walk(remote->mount, remote->path, !itself, &node);
    if (status != 0) {
        return status;
    }
    if (node.attr.type == NF3DIR && !itself) {
        return list_directory(listing, &node);
    }
    const char *path = remote->path;
    struct item item = {(char *)(uintptr_t)path, (uint32_t)strlen(path), node};
    if (path[0] == '\0') {
        item.name = (char *)(uintptr_t) ".";
        item.name_bytes = 1;
    }
    print_item(listing, &item);
    return 0;
}

/* ---- exports ---- */

static void print_export(void *owner, const char *path, const char *groups)
{
    struct report *entries = owner;
    if (entries == NULL) {
        remote_print_name(stdout, client_name(path));
        printf(" %s\n", groups[0] != '\0' ? groups : "(everyone)");
        return;
    }
    struct report *entry = report_add_object(entries, NULL);
    report_add_text(entry, "export", path);
    report_add_text(entry, "groups", groups);
}

static int list_exports(const struct client_url *url, struct report *entries)
{
    struct err err = {0};

    if (client_mount_exports(url, print_export, entries, &err) != 0) {
        fprintf(stderr, "holdfast ls: %s\n", err.text);
        return COMMAND_CANNOT;
    }
    return COMMAND_DONE;
}

static int list_url(const char *text, const struct remote_options *options, struct report *entries)
{
    struct remote remote;
    struct client_url url;
    int status = COMMAND_DONE;

    bool whole_host = client_url_parse(text, &url, NULL) == 0 && strcmp(url.path, "/") == 0;
    if (whole_host) {
        int error = remote_try(&remote, "ls", text, NULL);
        if (error == -ENOENT || error == -EACCES) {
            return list_exports(&url, entries);
        }
        status = error == 0 ? COMMAND_DONE : remote_open(&remote, "ls", text);
    } else {
        status = remote_open(&remote, "ls", text);
    }
    if (status == COMMAND_DONE) {
        struct listing listing = {.options = options, .remote = &remote, .entries = entries};
        int problem = list(&listing);
        if (problem != 0) {
            remote_tell("ls", remote.name, problem);
        }
        status = remote_status(&remote, problem);
    }
    remote_close(&remote);
    return status;
}

int cmd_ls(int argc, char **argv)
{
    struct remote_options options;
    int worst = COMMAND_DONE;

    if (!remote_get_options(argc, argv, "ldUj", &options)) {
        return COMMAND_USAGE;
    }
    if (options.help || options.first == argc) {
        fputs(help, options.help ? stdout : stderr);
        return options.help ? COMMAND_DONE : COMMAND_USAGE;
    }
    struct report *report = options.json ? report_new() : NULL;
    struct report *entries = report_add_array(report, "entries");
    for (int i = options.first; i < argc; i++) {
        if (argc - options.first > 1 && report == NULL) {
            printf("%s%s:\n", i > options.first ? "\n" : "", argv[i]);
        }
        int status = list_url(argv[i], &options, entries);
        worst = status > worst ? status : worst;
    }
    if (options.json && !report_write_json(report, stdout)) {
        worst = COMMAND_CANNOT;
    }
    report_free(report);
    return worst;
}
