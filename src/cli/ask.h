/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the server that runs on this machine. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <stdio.h>

/* Sends a line to the server that uses the state directory (NULL: the default one), and writes its
 * answer to `out`. Returns the exit status; COMMAND_CANNOT, with a message that begins with `name`,
 * if no server answers. */
int ask_server(const char *state, const char *line, const char *name, FILE *out);

#endif
