/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a directory, page by page, with READDIRPLUS where the server has it.
 *
 * Entries "." and ".." are left out. A page that has no entries and is not the end, or that ends
 * with the cookie it began with, is -EBADMSG: it would go on for ever.
 */
#ifndef CLIENT_DIR_H
#define CLIENT_DIR_H

#include "client/nfs3.h"

struct client_dir {
    struct client_mount *mount;
    struct client_fh fh;
    bool plus;
    struct client_answer page;
    struct xdr cursor;
    cookieverf3 cookieverf;
    cookie3 cookie;      /* of the last entry taken */
    cookie3 page_cookie; /* that the page was asked for with */
    bool has_page, eof;
};

struct client_entry {
    struct client_name name; /* valid until the next entry is asked for */
    fileid3 fileid;
    bool has_fh;
    struct client_node node; /* fh only with has_fh */
};

/* plus: attributes and handles are wanted. */
void client_dir_open(struct client_dir *dir, struct client_mount *mount, const struct client_fh *fh,
                     bool plus);
void client_dir_close(struct client_dir *dir);

/* *found is false at the end. Returns a status. */
int client_dir_next(struct client_dir *dir, struct client_entry *entry, bool *found) MUST_USE;

/* Handle and attributes, if the server did not give them with the page. */
int client_dir_complete(struct client_dir *dir, struct client_entry *entry) MUST_USE;

/* A name that can be a file's in a directory of our own: not empty, "." or "..", no slash, no NUL.
 */
bool client_name_is_safe(struct client_name name);

#endif
