/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast: finds the subcommand. */
#include "cli/command.h"

#include "base/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"serve", cmd_serve, "serve directories to NFS clients"},
    {"journal", cmd_journal, "look into the log of changes of a server"},
    {"exports", cmd_exports, "check an exports file, list it, explain what a host gets"},
    {"status", cmd_status, "show what the running server does, and how fast"},
    {"ls", cmd_ls, "list a directory of any NFS server, or its exports"},
    {"stat", cmd_stat, "show the attributes of a file there"},
    {"get", cmd_get, "copy files and trees from there"},
    {"put", cmd_put, "copy files and trees to there"},
    {"rm", cmd_rm, "remove files and trees there"},
    {"mkdir", cmd_mkdir, "make directories there"},
    {"ping", cmd_ping, "call every RPC program of a host, and time the answers"},
    {"baseline", cmd_baseline, "measure what a server gives, and choose a block size"},
    {"doctor", cmd_doctor, "walk up the layers to an export, and say what is wrong"},
    {"spray", cmd_spray, "send many packets to a host, and count what arrives"},
};

static void print_help(FILE *file)
{
    fputs("usage: holdfast COMMAND [ARGUMENTS]\n"
          "An NFS server for Linux. One port, no other daemon needed.\n"
          "\n"
          "commands:\n",
          file);
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    fputs("\n"
          "  holdfast COMMAND --help    what a command takes\n"
          "  holdfast --version         which version this is\n"
          "exit status: 0 done, 1 something was found, 2 usage, 3 could not run\n"
          "\n"
          "for a start: mkdir -p /srv/files && holdfast serve /srv/files\n",
          file);
}

/* Of 0 to 2, those that are closed would become descriptors of sockets and files: they are made
 * such that every use of them fails. */
static void keep_standard_fds(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0) {
            _exit(COMMAND_CANNOT);
        }
    }
}

/* Output that was lost is a failure, whatever else was done. `serve` is not there for what it
 * prints. */
static int end(const char *name, int status)
{
    if ((ferror(stdout) || fflush(stdout) != 0) && strcmp(name, "serve") != 0) {
        fprintf(stderr, "holdfast %s: cannot write to standard output\n", name);
        return status == COMMAND_DONE ? COMMAND_CANNOT : status;
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";

    keep_standard_fds();

    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        puts("holdfast " HOLDFAST_VERSION);
        return COMMAND_DONE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help(stdout);
        return COMMAND_DONE;
    }
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (strcmp(word, commands[i].name) == 0) {
            return end(argv[1], commands[i].run(argc - 1, argv + 1));
        }
    }
    if (argc < 2) {
        print_help(stderr);
    } else {
        fprintf(stderr, "holdfast: no command '%s'; `holdfast --help` shows what there is\n", word);
    }
    return COMMAND_USAGE;
}
