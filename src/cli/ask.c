/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"

#include "cli/command.h"
#include "daemon/config.h"
#include "daemon/control.h"

#include <string.h>

int ask_server(const char *state, const char *line, const char *name, FILE *out)
{
    char state_dir[PATH_MAX];
    struct err err = {0};

    if (state == NULL && config_default_state_dir(state_dir, &err) != 0) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return COMMAND_CANNOT;
    }
    state = state == NULL ? state_dir : state;
    int status = control_call(state, line, name, out);
    if (status < 0) {
        fprintf(stderr, "%s: no server answers at %s/" CONTROL_SOCKET ": %s\n", name, state,
                strerror(-status));
        return COMMAND_CANNOT;
    }
    return status;
}
