/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is exported, to whom, and how: exports(5) as data, and the matching of clients.
 *
 * Pure with regard to the export's files: it parses text, resolves names and compares addresses.
 * vfs/node.h opens what it says. holdfast-exports(5) is the grammar.
 *
 * A table is made in this order: export_table_new, export_table_add_* as often as there are files
 * and arguments, export_table_resolve once. After that it does not change, and any number of
 * threads may match against it.
 */
#ifndef VFS_EXPORT_H
#define VFS_EXPORT_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

/* Limits; what goes beyond one is a problem that names it. */
#define EXPORT_FILE_BYTES_MAX (4U << 20)
#define EXPORT_PATH_BYTES_MAX 1024U  /* MNTPATHLEN, RFC 1813 §5.1.1 */
#define EXPORT_CLIENT_BYTES_MAX 255U /* MNTNAMLEN, RFC 1813 §5.1.1 */
#define EXPORT_ENTRY_COUNT_MAX 4096U
#define EXPORT_CLIENT_COUNT_MAX 4096U    /* of one entry */
#define EXPORT_PROBLEM_COUNT_MAX 1000U
#define EXPORT_ASYNC_WINDOW_MS_MAX 60000U

struct export_peer;
struct outside_files;

/* What one client may do on one export. */
struct export_options {
    bool rw;          /* default ro in a file, rw for DIR on the command line */
    bool sync;        /* default true */
    bool secure;      /* calls must come from a port below 1024; default true in a file */
    bool root_squash; /* default true */
    bool all_squash;
    uint32_t anonuid; /* default 65534 */
    uint32_t anongid;
    bool crossmnt;     /* clients go on into what is mounted below */
    bool nohide;       /* and into this one from the export above */
    bool readdirplus;  /* default true */
    bool acl;          /* NFS_ACL is answered; default true */
    bool secure_locks; /* a lock wants the right to read; default true */
    bool manage_gids;  /* groups are those of the server's user database */
    const char *mountpoint; /* only while something is mounted there; "": on the directory itself;
                             * NULL: always. The table's memory */
    bool has_async_window;
    uint32_t async_window_ms; /* how long what `async` acknowledged may stay out of the journal */
    const char *journal; /* the log of its file system: "off", "auto" or a path; NULL: what the
                          * server was told. The same for all clients of an entry. The table's
                          * memory */
    bool has_fsid;     /* the same for all clients of an entry, and no two entries have the same */
    bool fsid_is_root; /* fsid=0 or fsid=root */
    uint8_t fsid[16];  /* fsid=number: in the last four bytes, big-endian; fsid=UUID: as it is */
};

/* In the order of matching, see export_entry_match. */
enum export_client_kind {
    EXPORT_ADDRESS,  /* one IPv4 or IPv6 address */
    EXPORT_HOST,     /* a name; as good as an address */
    EXPORT_NETWORK,  /* ADDRESS/PREFIX or ADDRESS/MASK */
    EXPORT_WILDCARD, /* a name with * ? [..] */
    EXPORT_NETGROUP, /* @NAME */
    EXPORT_EVERYONE  /* "*", or a line that names no client */
};

/* One client specification of one export line. */
struct export_client {
    enum export_client_kind kind;
    char *text;              /* as written, without options; "*" for everyone */
    uint8_t address[16];     /* IPv4 is kept as ::ffff:a.b.c.d */
    uint8_t prefix_bits;     /* 0..128 over that form; 128 for an address */
    uint32_t resolved_count; /* EXPORT_HOST: its addresses, sorted */
    uint8_t (*resolved)[16];
    struct export_options options;
    char *file; /* where it was written; NULL: the command line */
    unsigned line;
    uint32_t number; /* counted over the table, by export_table_resolve */
};

struct export_entry {
    char *path; /* absolute, no "." or "..", no trailing slash except "/" */
    uint32_t client_count;
    struct export_client *clients;
};

/* Counted. */
struct export_table {
    atomic_uint ref_count;
    uint32_t entry_count;
    struct export_entry *entries; /* each path once; clients of several lines joined in order */
    uint32_t client_count;        /* of all entries, after export_table_resolve */
    uint32_t string_count;
    char **strings; /* what options point to */
};

/* Something the admin should know. */
struct export_problem {
    bool fatal;     /* a line could not be understood: it was left out */
    char text[512]; /* "FILE:LINE: error: ..." or "FILE:LINE: warning: ...", no newline */
};

/* Starts as {0}. */
struct export_problems {
    uint32_t count;
    struct export_problem *items;
};

struct export_table *export_table_new(void);
struct export_table *export_table_get(struct export_table *table);
/* Gives a reference up. NULL is fine. */
void export_table_free(struct export_table *table);
void export_problems_free(struct export_problems *problems);

/* Adds the lines of exports(5) text. A line that cannot be understood is left out and reported; the
 * others stand. Returns 0, -EINVAL when there was a fatal problem, or -ENOMEM. Does not block. */
int export_table_add_text(struct export_table *table, const char *file, const char *text,
                          size_t text_bytes, struct export_problems *problems) MUST_USE;

/* Reads a file for the above; for /etc/exports then those of /etc/exports.d whose names end in
 * ".exports", in the order of versions, as nfs-utils does. Another -errno: it cannot be read, which
 * is a fatal problem too. */
int export_table_add_file(struct export_table *table, const char *file,
                          struct export_problems *problems) MUST_USE;

/* The same for files that are open (vfs/outside.h), whose descriptors it takes over. */
int export_table_add_files(struct export_table *table, const struct outside_files *files,
                           struct export_problems *problems) MUST_USE;

/* Adds "DIR", "DIR(options)" or "DIR CLIENT(options) ..." as given on the command line; a DIR alone
 * or DIR(options) with no client is given to localhost only (127.0.0.0/8 and ::1); the command
 * line's defaults are rw,sync,root_squash,insecure, and what stands in DIR(options) is a default
 * for the clients behind it. DIR may be relative. See holdfast-serve(8). */
int export_table_add_argument(struct export_table *table, const char *argument,
                              struct export_problems *problems) MUST_USE;

/* Looks up host names, which may take as long as DNS does. A name that means nothing matches
 * nobody, with a warning. Returns 0 or -ENOMEM. */
int export_table_resolve(struct export_table *table, struct export_problems *problems) MUST_USE;

/* Takes out the exports whose directory is none, with an error at the place of the first client.
 * Returns 0, -EINVAL if there was one, or -ENOMEM. */
int export_table_check_directories(struct export_table *table,
                                   struct export_problems *problems) MUST_USE;

/* Takes "." and doubled and final slashes out of an absolute path. */
void export_path_tidy(char *path);

/* The export a path is in: the entry with the longest path that is the path itself or a directory
 * above it; NULL if there is none. Compares names only. */
const struct export_entry *export_table_find(const struct export_table *table, const char *path);

/* The same for one client: the entry with the longest such path that names it, and where. */
const struct export_entry *export_table_find_for(const struct export_table *table, const char *path,
                                                 const struct sockaddr *peer,
                                                 const struct export_peer *names,
                                                 const struct export_client **client);

/*
 * The client specification that matches best, or NULL: the client may not use this export.
 *
 * exports(5): a single host goes before a network, a network before a name with wildcards, that
 * before a netgroup, and everyone comes last; of the same kind the first as written wins. A network
 * is what was written with a slash, also when its prefix leaves one address.
 *
 * IPv4-mapped IPv6 addresses count as IPv4, and no IPv6 network contains them.
 *
 * names: what the client is called, NULL if that is not known; then *needs_names (which may be
 * NULL) says whether the answer could be another one if it were. Thread-safe, allocates nothing,
 * does not block.
 */
const struct export_client *export_entry_match_client(const struct export_entry *entry,
                                                      const struct sockaddr *peer,
                                                      const struct export_peer *names,
                                                      bool *needs_names);

/* A client's names, and which clients with wildcards and netgroups of a table they fit. */
#define EXPORT_PEER_NAME_COUNT_MAX 16U
struct export_peer {
    struct export_table *table; /* a reference: whose numbers fits is for */
    char unproven[256];  /* a name that does not lead back to the address, and does not count */
    uint32_t name_count; /* names that do; the first is the one of the address */
    char *names[EXPORT_PEER_NAME_COUNT_MAX];
    bool fits[]; /* by export_client.number */
};

/* Asks DNS, /etc/hosts, NIS or whatever nsswitch.conf(5) says; may take long. NULL: no memory. The
 * table is resolved. export_peer_free takes NULL. */
struct export_peer *export_peer_find(struct export_table *table, const struct sockaddr *address);
void export_peer_free(struct export_peer *peer);

/* The options of the above for a client without names, or NULL. */
const struct export_options *export_entry_match(const struct export_entry *entry,
                                                const struct sockaddr *peer);

/* Whether some export is for this client. names, needs_names: as above. */
bool export_table_names(const struct export_table *table, const struct sockaddr *peer,
                        const struct export_peer *names, bool *needs_names);

/* Does this one specification match? For explaining what export_entry_match_client did. */
bool export_client_matches(const struct export_client *client, const struct sockaddr *peer,
                           const struct export_peer *names);

/* The options as exports(5) words, "rw,sync,...", always NUL-terminated. */
#define EXPORT_OPTIONS_TEXT_BYTES_MAX 2560U
void export_options_text(const struct export_options *options,
                         char text[EXPORT_OPTIONS_TEXT_BYTES_MAX]);

/* A client as a line of an exports file that means the same. */
#define EXPORT_CLIENT_TEXT_BYTES_MAX                                                               \
    (4U * (EXPORT_PATH_BYTES_MAX + EXPORT_CLIENT_BYTES_MAX + EXPORT_OPTIONS_TEXT_BYTES_MAX) + 32U)
void export_client_text(const struct export_entry *entry, const struct export_client *client,
                        char text[EXPORT_CLIENT_TEXT_BYTES_MAX]);

#endif
