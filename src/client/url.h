/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nfs://HOST[:PORT]/PATH[?WORD=VALUE&...] as libnfs has them, and what nfs(5) options people want.
 *
 *     version=3|2           of NFS (also vers=); 3. With 2, MOUNT is version 1
 *     proto=tcp|udp         tcp
 *     nfsport= mountport= pmapport=    instead of asking the portmapper (PORT is the same as
 * nfsport) uid= gid=             who the server takes us for; otherwise who runs the program rsize=
 * wsize=         bytes of one READ or WRITE timeo= retrans=       as nfs(5); timeo in tenths of a
 * second soft, hard, insecure  with or without =1 or =0
 *
 * Words that only tune libnfs itself (readahead, dircache, tcp-syncnt, ...) are accepted and mean
 * nothing. Others are errors.
 */
#ifndef CLIENT_URL_H
#define CLIENT_URL_H

#include "base/err.h"

#include <stdbool.h>

#define CLIENT_HOST_BYTES_MAX 256U
#define CLIENT_PATH_BYTES_MAX 4096U

struct client_url {
    char host[CLIENT_HOST_BYTES_MAX]; /* without the brackets of an IPv6 address */
    char path[CLIENT_PATH_BYTES_MAX]; /* %XX decoded; starts with a slash, and has no other needless
                                       * ones, except one at the end if the URL had it */
    uint32_t version; /* of NFS: 2 or 3 */
    bool udp;
    bool soft;
    bool insecure;
    bool has_uid, has_gid;
    uint32_t uid, gid;
    uint16_t nfs_port, mount_port, pmap_port; /* 0: ask, ask, 111 */
    uint32_t rsize, wsize;                    /* 0: what suits the server */
    uint32_t timeo_ms, retrans;               /* 0: default */
};

/* Returns 0, or -EINVAL with what is wrong with it. */
int client_url_parse(const char *text, struct client_url *url, struct err *err) MUST_USE;

#endif
