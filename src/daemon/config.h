/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `holdfast serve` as one plain struct: what the admin said, with the defaults
 * filled in. Says nothing about whether it can be done. holdfast-serve(8) is the contract.
 */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include "base/err.h"
#include "base/log.h"

#include <limits.h>
#include <stdbool.h>

#define CONFIG_BIND_COUNT_MAX 16U
#define CONFIG_GRACE_SECONDS_MAX 3600U
#define CONFIG_ASYNC_WINDOW_MS_DEFAULT 1000U
#define CONFIG_PORT_DEFAULT 2049U /* RFC 1813 §2.1 */

enum config_portmap { CONFIG_PORTMAP_AUTO, CONFIG_PORTMAP_ON, CONFIG_PORTMAP_OFF };

enum config_sandbox { CONFIG_SANDBOX_AUTO, CONFIG_SANDBOX_ON, CONFIG_SANDBOX_OFF };

struct config {
    char **directories; /* each as for export_table_add_argument */
    uint32_t directory_count;
    const char *exports_file; /* NULL: none */
    bool skip_bad_lines;
    uint16_t port; /* 0: any free one */
    const char *binds[CONFIG_BIND_COUNT_MAX];
    uint32_t bind_count; /* 0: all addresses of the machine */
    enum config_portmap portmap;
    const char *journal; /* as vfs_options.journal_path */
    const char *metrics; /* as for metrics_bind; NULL: none */
    uint32_t async_window_ms;
    bool manage_gids; /* as vfs_options.manage_gids */
    char state_dir[PATH_MAX];
    uint32_t grace_seconds; /* 0: no grace period */
    enum config_sandbox sandbox;
    enum log_level log_level;
    bool help; /* asked for; nothing else is checked then */
};

/* Reads the arguments behind the word `serve`; argv[0] is that word. The strings in *config are
 * those of argv. Returns 0, or -EINVAL with what is wrong. */
int config_parse(int argc, char **argv, struct config *config, struct err *err) MUST_USE;


/* Where --state is if it is not given: /var/lib/holdfast for root, else below the user's home. */
int config_default_state_dir(char state_dir[PATH_MAX], struct err *err) MUST_USE;

#endif
