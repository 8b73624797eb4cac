/* SPDX-License-Identifier: Apache-2.0 */
#include "client/dir.h"

#include <errno.h>

#define PAGE_BYTES_MAX (1U << 20)

void client_dir_open(struct client_dir *dir, struct client_mount *mount, const struct client_fh *fh,
                     bool plus)
{
    *dir = (struct client_dir){.mount = mount, .fh = *fh, .plus = plus};
}

void client_dir_close(struct client_dir *dir)
{
    client_answer_free(&dir->page);
}

bool client_name_is_safe(struct client_name name)
{
    bool dots = name.size <= 2 && memcmp(name.bytes, "..", name.size) == 0; /* and the empty name */
    return !dots && memchr(name.bytes, '/', name.size) == NULL &&
           memchr(name.bytes, '\0', name.size) == NULL;
}

/* RFC 1813 §3.3.17, and §3.3.16 where the server does not have that. */
static int ask_page(struct client_dir *dir, uint32_t bytes)
{
    if (dir->plus) {
        struct READDIRPLUS3args args = {.dir = client_fh3(&dir->fh),
                                        .cookie = dir->cookie,
                                        .dircount = bytes,
                                        .maxcount = bytes};
        memcpy(args.cookieverf, dir->cookieverf, sizeof args.cookieverf);
        int status = client_nfs3(dir->mount, NFSPROC3_READDIRPLUS, &args, &dir->page);
        if (status != NFS3ERR_NOTSUPP && status != -EOPNOTSUPP) {
            return status;
        }
        dir->plus = false;
    }
    struct READDIR3args args = {.dir = client_fh3(&dir->fh), .cookie = dir->cookie, .count = bytes};
    memcpy(args.cookieverf, dir->cookieverf, sizeof args.cookieverf);
    return client_nfs3(dir->mount, NFSPROC3_READDIR, &args, &dir->page);
}

static int next_page(struct client_dir *dir)
{
    uint32_t bytes = dir->mount->dirsize;
    struct xdr_bytes list;
    int status;

    while ((status = ask_page(dir, bytes)) == NFS3ERR_TOOSMALL && bytes < PAGE_BYTES_MAX) {
        bytes *= 2;
    }
    if (status != 0) {
        return status;
    }
    if (dir->plus) {
        const struct READDIRPLUS3res *res = dir->page.res;
        memcpy(dir->cookieverf, res->resok.cookieverf, sizeof dir->cookieverf);
        list = res->resok.reply.entries;
        dir->eof = res->resok.reply.eof;
    } else {
        const struct READDIR3res *res = dir->page.res;
        memcpy(dir->cookieverf, res->resok.cookieverf, sizeof dir->cookieverf);
        list = res->resok.reply.entries;
        dir->eof = res->resok.reply.eof;
    }
    dir->cursor = xdr_reader(list.data, list.size);
    dir->has_page = true;
    return 0;
}

/* One entry of the page; false at its end. */
static bool take_entry(struct client_dir *dir, struct client_entry *entry)
{
    struct xdr_bytes name;

    *entry = (struct client_entry){0};
    if (dir->plus) {
        struct entryplus3 plus;
        if (!entryplus3_next(&dir->cursor, &plus)) {
            return false;
        }
        name = plus.name;
        entry->fileid = plus.fileid;
        dir->cookie = plus.cookie;
        client_node_set_attr(&entry->node, &plus.name_attributes);
        if (plus.name_handle.handle_follows) {
            client_fh_set(&entry->node.fh, &plus.name_handle.handle);
            entry->has_fh = true;
        }
    } else {
        struct entry3 plain;
        if (!entry3_next(&dir->cursor, &plain)) {
            return false;
        }
        name = plain.name;
        entry->fileid = plain.fileid;
        dir->cookie = plain.cookie;
    }
    entry->name = (struct client_name){(const char *)name.data, name.size};
    return true;
}

int client_dir_next(struct client_dir *dir, struct client_entry *entry, bool *found)
{
    for (;;) {
        while (dir->has_page && take_entry(dir, entry)) {
            bool dots = entry->name.size > 0 && entry->name.size <= 2 &&
                        memcmp(entry->name.bytes, "..", entry->name.size) == 0;
            if (!dots) {
                *found = true;
                return 0;
            }
        }
        if (dir->has_page && dir->eof) {
            *found = false;
            return 0;
        }
        if (dir->has_page && dir->page_cookie == dir->cookie) {
            return -EBADMSG;
        }
        dir->page_cookie = dir->cookie;
        int status = next_page(dir);
        if (status != 0) {
            return status;
        }
    }
}

int client_dir_complete(struct client_dir *dir, struct client_entry *entry)
{
    int status = 0;

    if (!entry->has_fh) {
        status = client_lookup(dir->mount, &dir->fh, entry->name, &entry->node);
        entry->has_fh = status == 0;
    }
    if (status == 0 && !entry->node.has_attr) {
        status = client_getattr(dir->mount, &entry->node);
    }
    return status;
}
