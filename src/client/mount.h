/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An export in reach, by NFSv3 or NFSv2: the way from a URL to a root handle (portmapper, MOUNT,
 * FSINFO), and what all calls to it share.
 */
#ifndef CLIENT_MOUNT_H
#define CLIENT_MOUNT_H

#include "client/address.h"
#include "client/rpc.h"
#include "client/url.h"
#include "client/wait.h"
#include "proto/nfs3.h"

/* A handle that is kept. */
struct client_fh {
    uint32_t size;
    uint8_t bytes[NFS3_FHSIZE];
};

struct client_mount_options {
    const struct client_url *url;
    /* Told about everything that happens on the NFS connection. May be NULL. */
    void (*on_event)(void *owner, const struct client_event *event);
    void *owner;
};

struct client_mount {
    struct client_loop *loop;
    struct client_rpc *rpc; /* NFS; spoken to in version 3 whatever it speaks (nfs2.h) */
    struct client_url url;
    struct client_address address; /* of NFS */
    uint16_t mount_port;
    struct client_cred cred;                 /* for further connections too */
    char export_path[CLIENT_PATH_BYTES_MAX]; /* what MNT was asked for */
    const char *rest; /* of url.path, below the export: "" or a relative path */
    struct client_fh root;
    uint32_t rsize, wsize; /* bytes of READ and WRITE */
    uint32_t dirsize;      /* bytes of READDIR */
    int lost;              /* -errno of a call that got no answer; 0: there was none */
};

/* The export that the URL's path is in: the longest that the server lists, else the longest part of
 * the path that MNT accepts. Waits. */
int client_mount_open(const struct client_mount_options *options, struct client_mount **mount,
                      struct err *err) MUST_USE;

/* Says UMNT, without insisting. NULL is allowed. */
void client_mount_close(struct client_mount *mount);

/* What the server exports (MOUNT EXPORT), for a URL whose path does not matter. Calls `each` for
 * every export, with its groups as one line. */
int client_mount_exports(const struct client_url *url,
                         void (*each)(void *owner, const char *path, const char *groups),
                         void *owner, struct err *err) MUST_USE;

static inline struct nfs_fh3 client_fh3(const struct client_fh *fh)
{
    return (struct nfs_fh3){{fh->bytes, fh->size}};
}

/* From the wire; its size was checked by the decoder. */
void client_fh_set(struct client_fh *fh, const struct nfs_fh3 *from);

#endif
