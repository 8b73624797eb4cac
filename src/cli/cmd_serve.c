/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include "daemon/config.h"
#include "daemon/serve.h"

#include <stdio.h>

static const char help[] =
    "usage: holdfast serve [OPTIONS] EXPORT ...\n"
    "\n"
    "Serves directories over NFS, in the foreground, until SIGTERM or SIGINT.\n"
    "EXPORT is DIR, \"DIR(options)\" or \"DIR CLIENT(options) ...\"; without clients it\n"
    "is for this machine only. Options not given: rw,sync,root_squash,insecure.\n"
    "\n"
    "  --exports FILE     serve what an exports(5) file says, too\n"
    "  --skip-bad-lines   start although FILE has errors, without those lines\n"
    "  --port N           NFS and MOUNT at this port (2049; 0: any free one)\n"
    "  --bind ADDR        only at this address; may be given again\n"
    "  --portmap MODE     port 111: auto (serve or register), on (or fail), off\n"
    "  --state DIR        what must survive a restart (/var/lib/holdfast)\n"
    "  --grace SECONDS    after a start, only give locks back for so long (90)\n"
    "  --journal WHERE    off, auto (a log in each file system), or a file or device\n"
    "  --async-window MS  how long async changes may stay out of it (1000)\n"
    "  --metrics ADDR:PORT  numbers for Prometheus over HTTP (off)\n"
    "  --manage-gids      look the groups of users up here, on all exports\n"
    "  --sandbox MODE     auto: what the kernel has; on: or fail; off\n"
    "  --log-level LEVEL  error, warning, notice, info or debug\n"
    "\n"
    "  holdfast serve /srv/files\n"
    "  holdfast serve \"/srv/files 192.168.1.0/24(rw)\" \"/srv/iso *(ro)\"\n"
    "\n"
    "more: man 8 holdfast-serve, man 5 holdfast-exports\n";

int cmd_serve(int argc, char **argv)
{
    struct config config;
    struct err err = {0};

    if (config_parse(argc, argv, &config, &err) != 0) {
        fprintf(stderr, "holdfast serve: %s; see `holdfast serve --help`\n", err.text);
        return COMMAND_USAGE;
    }
    if (config.help) {
        fputs(help, stdout);
        return COMMAND_DONE;
    }
    if (serve_run(&config, &err) != 0) {
        log_error("%s", err.text);
        return COMMAND_CANNOT;
    }
    return COMMAND_DONE;
}
