/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands. Each gets its own name as argv[0], and returns the program's exit status. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

enum command_status {
    COMMAND_DONE = 0,
    COMMAND_FINDING = 1, /* what the command is there to report */
    COMMAND_USAGE = 2,
    COMMAND_CANNOT = 3 /* it could not run */
};

int cmd_baseline(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_exports(int argc, char **argv);
int cmd_get(int argc, char **argv);
int cmd_journal(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_mkdir(int argc, char **argv);
int cmd_ping(int argc, char **argv);
int cmd_put(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_spray(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_status(int argc, char **argv);

#endif
