/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands on nfs:// URLs share: options, the mount, messages, progress.
 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "client/copy.h"
#include "client/nfs3.h"

#include <stdio.h>

/* Single letters, as getopt(3) names them; --help and --json where the letter stands for them. */
struct remote_options {
    bool flags[128];   /* by letter */
    const char *value; /* of the one letter that has one */
    bool help;
    bool json;
    int first; /* of the arguments behind the options */
};

/* `letters` as for getopt, with 'j' for --json if it may be given. False: told what is wrong. */
bool remote_get_options(int argc, char **argv, const char *letters, struct remote_options *options);

/* "holdfast ls: PATH: STATUS" on stderr. */
void remote_tell(const char *command, const char *path, int status);

struct remote {
    const char *command;
    struct client_mount *mount;
    const char *path; /* below the export */
    char name[CLIENT_HOST_BYTES_MAX + CLIENT_PATH_BYTES_MAX +
              16]; /* nfs://HOST/PATH, for messages */
};

/* Parses the URL and mounts. Returns 0 or -errno; tells nothing. */
int remote_try(struct remote *remote, const char *command, const char *url, struct err *err);
/* The same, and tells. Returns COMMAND_DONE or another status. */
int remote_open(struct remote *remote, const char *command, const char *url);
void remote_close(struct remote *remote);

/* Names with what would upset a terminal replaced, if the file is one. */
void remote_print_name(FILE *file, struct client_name name);

/* The status of a command that has met a problem on a mount: lost connections are COMMAND_CANNOT.
 */
int remote_status(const struct remote *remote, int status);

/* ---- progress of copies, on stderr if that is a terminal ---- */

struct remote_progress {
    const char *command;
    bool shown;
    int64_t start_ns, next_ns;
    uint64_t total_bytes; /* 0: not known */
    uint64_t problems;
};
void remote_progress_begin(struct remote_progress *progress, const char *command);
/* For client_copy_options, with the above as the owner. */
void remote_progress(void *progress, const struct client_copy_counts *counts);
void remote_problem(void *progress, const char *path, int status);
void remote_progress_end(struct remote_progress *progress);

#endif
