/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which directories the opener may open for the server: what the admin has said, read by the
 * opener itself. The server, which strangers talk to, is asked for nothing but a choice among them.
 *
 * 1. A path is opened if it is one that the command line or the exports file exports, now or in
 *    the text that is being read anew (grants_read until grants_publish); or if something is
 *    mounted there, and it lies below such a directory, which has the option crossmnt.
 * 2. On the way there no symbolic link is followed that lies in an exported directory: clients
 *    write there, and would choose what is exported.
 * 3. A journal is opened if the command line or an export names it.
 * 4. What was opened is a descriptor from the first step on: nothing that is renamed or mounted
 *    meanwhile makes it something else.
 *
 * One thread.
 */
#ifndef DAEMON_GRANTS_H
#define DAEMON_GRANTS_H

#include "daemon/config.h"
#include "vfs/export.h"
#include "vfs/outside.h"

struct grants_root {
    uint64_t dev, ino;
};

/* One reading of what is exported. */
struct grants_table {
    struct export_table *table;
    uint32_t root_count;
    struct grants_root *roots; /* the directories of the entries */
    uint32_t crossing_count;
    char **crossings; /* paths, without symbolic links, of those with crossmnt */
};

struct grants {
    const struct config *config;
    struct grants_table now, next;
};

/* What the command line and the exports file say: 0 or -errno. Lines that are wrong grant nothing.
 */
int grants_begin(struct grants *grants, const struct config *config) MUST_USE;
/* What the files say, and the command line; until it is published what was granted before is
 * granted, too. Takes the descriptors over. */
int grants_read(struct grants *grants, const struct outside_files *files) MUST_USE;
void grants_publish(struct grants *grants);
void grants_end(struct grants *grants);

/* A journal that --journal or an export's option names, by these words; as outside_journal, but by
 * rule 2. -EACCES: none does. */
int grants_journal(const struct grants *grants, const char *path) MUST_USE;
/* O_PATH, the caller's; -EACCES: it is not granted; -ELOOP: rule 2; or what open(2) says. */
int grants_open(const struct grants *grants, const char *path) MUST_USE;

#endif
