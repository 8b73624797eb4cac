/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is exported, to whom, and how: exports(5) as data, and the matching of clients.
 *
 * Pure with regard to the export's files: it parses text, resolves names and compares addresses.
 * vfs/node.h opens what it says.
 */
#ifndef VFS_EXPORT_H
#define VFS_EXPORT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

/* What one client may do on one export. */
struct export_options {
    bool rw;          /* default ro in a file, rw for DIR on the command line */
    bool sync;        /* default true */
    bool secure;      /* calls must come from a port below 1024; default true */
    bool root_squash; /* default true */
    bool all_squash;
    uint32_t anonuid; /* default 65534 */
    uint32_t anongid;
    bool has_fsid;
    bool fsid_is_root; /* fsid=0 or fsid=root */
    uint8_t fsid[16];  /* fsid=number: in the last four bytes, big-endian; fsid=UUID: as it is */
};

enum export_client_kind {
    EXPORT_EVERYONE, /* "*" or an empty client list */
    EXPORT_ADDRESS,  /* one address or a network, IPv4 or IPv6 */
    EXPORT_HOST,     /* a name, resolved when the table is made */
    EXPORT_WILDCARD, /* a name with * ? [..], matched against the client's name */
    EXPORT_NETGROUP
};

/* One client specification of one export line. Order of matching: exports(5). */
struct export_client {
    enum export_client_kind kind;
    char *text;           /* as written */
    uint8_t address[16];  /* IPv4 is kept as ::ffff:a.b.c.d */
    uint8_t prefix_bits;  /* 0..128 over that form */
    uint32_t resolved_count; /* EXPORT_HOST: addresses of 16 bytes each */
    uint8_t (*resolved)[16];
    struct export_options options;
    char *file; /* where it was written; NULL: the command line */
    unsigned line;
};

struct export_entry {
    char *path; /* absolute, no trailing slash except "/" */
    uint32_t client_count;
    struct export_client *clients;
};

struct export_table {
    uint32_t entry_count;
    struct export_entry *entries; /* each path once; clients of several lines joined in order */
};

/* Something the admin should know. Fatal ones make the table unusable. */
struct export_problem {
    bool fatal; /* a line could not be understood: it was left out */
    char text[512]; /* "FILE:LINE: ..." */
};

struct export_problems {
    uint32_t count;
    struct export_problem *items;
};

struct export_table *export_table_new(void);
void export_table_free(struct export_table *table);
void export_problems_free(struct export_problems *problems);

/* Adds the lines of exports(5) text. A line that cannot be understood is left out and reported; the
 * others stand. Returns 0, or -EINVAL when there was a fatal problem. */
int export_table_add_text(struct export_table *table, const char *file, const char *text,
                          size_t text_bytes, struct export_problems *problems) MUST_USE;

/* Reads a file for the above. */
int export_table_add_file(struct export_table *table, const char *file,
                          struct export_problems *problems) MUST_USE;

/* Adds "DIR", "DIR(options)" or "DIR CLIENT(options) ..." as given on the command line; a DIR alone
 * or DIR(options) with no client is given to localhost only (127.0.0.0/8 and ::1); the command line's
 * defaults are rw,sync,root_squash,insecure. See holdfast-serve(8). */
int export_table_add_argument(struct export_table *table, const char *argument,
                              struct export_problems *problems) MUST_USE;

/* The options of the client specification that matches best, or NULL: the client may not use this
 * export. IPv4-mapped IPv6 addresses count as IPv4. Thread-safe, allocates nothing, does not block
 * (names were resolved when the table was made). */
const struct export_options *export_entry_match(const struct export_entry *entry,
                                                const struct sockaddr *peer);

#endif
