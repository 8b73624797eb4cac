/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include "server/lockd.h"
#include "vfs/export.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATE_DIR_ROOT "/var/lib/holdfast"

enum option_code {
    OPTION_EXPORTS = 256,
    OPTION_SKIP_BAD_LINES,
    OPTION_PORT,
    OPTION_BIND,
    OPTION_PORTMAP,
    OPTION_STATE,
    OPTION_GRACE,
    OPTION_JOURNAL,
    OPTION_ASYNC_WINDOW,
    OPTION_METRICS,
    OPTION_MANAGE_GIDS,
    OPTION_SANDBOX,
    OPTION_LOG_LEVEL,
    OPTION_HELP
};

static const struct option options[] = {
    {"exports", required_argument, NULL, OPTION_EXPORTS},
    {"skip-bad-lines", no_argument, NULL, OPTION_SKIP_BAD_LINES},
    {"port", required_argument, NULL, OPTION_PORT},
    {"bind", required_argument, NULL, OPTION_BIND},
    {"portmap", required_argument, NULL, OPTION_PORTMAP},
    {"state", required_argument, NULL, OPTION_STATE},
    {"grace", required_argument, NULL, OPTION_GRACE},
    {"journal", required_argument, NULL, OPTION_JOURNAL},
    {"async-window", required_argument, NULL, OPTION_ASYNC_WINDOW},
    {"metrics", required_argument, NULL, OPTION_METRICS},
    {"manage-gids", no_argument, NULL, OPTION_MANAGE_GIDS},
    {"sandbox", required_argument, NULL, OPTION_SANDBOX},
    {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* The index of word in a list that ends with NULL; -1 if it is not there. */
static int index_of(const char *word, const char *const *list)
{
    for (int i = 0; list[i] != NULL; i++) {
        if (strcmp(word, list[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static int set_port(struct config *config, const char *text, struct err *err)
{
    char *end;

    errno = 0;
    unsigned long port = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || port > 65535) {
        return err_set(err, -EINVAL, "--port '%s' is no port: 1 to 65535, or 0 for any free one",
                       text);
    }
    config->port = (uint16_t)port;
    return 0;
}

static int set_bind(struct config *config, const char *text, struct err *err)
{
    if (config->bind_count == CONFIG_BIND_COUNT_MAX) {
        return err_set(err, -EINVAL, "more than %u --bind", CONFIG_BIND_COUNT_MAX);
    }
    config->binds[config->bind_count++] = text;
    return 0;
}

static int set_portmap(struct config *config, const char *text, struct err *err)
{
    static const char *const modes[] = {"auto", "on", "off", NULL};

    int mode = index_of(text, modes);
    if (mode < 0) {
        return err_set(err, -EINVAL, "--portmap '%s': one of auto, on, off", text);
    }
    config->portmap = (enum config_portmap)mode;
    return 0;
}

static int set_sandbox(struct config *config, const char *text, struct err *err)
{
    static const char *const modes[] = {"auto", "on", "off", NULL};

    int mode = index_of(text, modes);
    if (mode < 0) {
        return err_set(err, -EINVAL, "--sandbox '%s': one of auto, on, off", text);
    }
    config->sandbox = (enum config_sandbox)mode;
    return 0;
}

static int set_grace(struct config *config, const char *text, struct err *err)
{
    char *end;

    errno = 0;
    unsigned long seconds = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 ||
        seconds > CONFIG_GRACE_SECONDS_MAX) {
        return err_set(err, -EINVAL, "--grace '%s' is no number of seconds from 0 to %u", text,
                       CONFIG_GRACE_SECONDS_MAX);
    }
    config->grace_seconds = (uint32_t)seconds;
    return 0;
}

/* off: groups of fsync; auto: in each file system; else a path. */
static int set_journal(struct config *config, const char *text, struct err *err)
{
    if (text[0] == '\0') {
        return err_set(err, -EINVAL, "--journal: off, auto, or a file or block device");
    }
    config->journal = strcmp(text, "off") == 0 ? NULL : text;
    return 0;
}

static int set_async_window(struct config *config, const char *text, struct err *err)
{
    char *end;

    errno = 0;
    unsigned long window_ms = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 ||
        window_ms > EXPORT_ASYNC_WINDOW_MS_MAX) {
        return err_set(err, -EINVAL, "--async-window '%s': milliseconds, up to %u", text,
                       EXPORT_ASYNC_WINDOW_MS_MAX);
    }
    config->async_window_ms = (uint32_t)window_ms;
    return 0;
}

static int set_log_level(struct config *config, const char *text, struct err *err)
{
    static const char *const levels[] = {"error", "warning", "notice", "info", "debug", NULL};

    int level = index_of(text, levels);
    if (level < 0) {
        return err_set(err, -EINVAL, "--log-level '%s': one of error, warning, notice, info, debug",
                       text);
    }
    config->log_level = (enum log_level)(LOG_ERROR + level);
    return 0;
}

static int set_state_dir(char state_dir[PATH_MAX], const char *first, const char *second,
                         struct err *err)
{
    int bytes = snprintf(state_dir, PATH_MAX, "%s%s", first, second);

    if (bytes <= 0 || bytes >= PATH_MAX) {
        return err_set(err, -EINVAL, "--state: the name of the directory is %s",
                       bytes <= 0 ? "empty" : "too long");
    }
    return 0;
}

int config_default_state_dir(char state_dir[PATH_MAX], struct err *err)
{
    const char *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");

    if (geteuid() == 0) {
        return set_state_dir(state_dir, STATE_DIR_ROOT, "", err);
    }
    if (xdg != NULL && xdg[0] == '/') {
        return set_state_dir(state_dir, xdg, "/holdfast", err);
    }
    if (home != NULL && home[0] == '/') {
        return set_state_dir(state_dir, home, "/.local/state/holdfast", err);
    }
    return err_set(
        err, -EINVAL,
        "no place for the state: neither XDG_STATE_HOME nor HOME is set; give --state DIR");
}

static int apply(struct config *config, int code, char **argv, struct err *err)
{
    switch (code) {
    case OPTION_EXPORTS:
        if (config->exports_file != NULL) {
            return err_set(err, -EINVAL, "--exports is given twice");
        }
        config->exports_file = optarg;
        return 0;
    case OPTION_SKIP_BAD_LINES:
        config->skip_bad_lines = true;
        return 0;
    case OPTION_PORT:
        return set_port(config, optarg, err);
    case OPTION_BIND:
        return set_bind(config, optarg, err);
    case OPTION_PORTMAP:
        return set_portmap(config, optarg, err);
    case OPTION_STATE:
        return set_state_dir(config->state_dir, optarg, "", err);
    case OPTION_GRACE:
        return set_grace(config, optarg, err);
    case OPTION_JOURNAL:
        return set_journal(config, optarg, err);
    case OPTION_ASYNC_WINDOW:
        return set_async_window(config, optarg, err);
    case OPTION_METRICS:
        config->metrics = optarg;
        return 0;
    case OPTION_MANAGE_GIDS:
        config->manage_gids = true;
        return 0;
    case OPTION_SANDBOX:
        return set_sandbox(config, optarg, err);
    case OPTION_LOG_LEVEL:
        return set_log_level(config, optarg, err);
    case OPTION_HELP:
        config->help = true;
        return 0;
    case ':':
        return err_set(err, -EINVAL, "%s wants a value", argv[optind - 1]);
    default:
        if (optopt > 0 && optopt < OPTION_EXPORTS) {
            return err_set(err, -EINVAL, "no option -%c", optopt);
        }
        return err_set(err, -EINVAL, "no option %s", argv[optind - 1]);
    }
}

int config_parse(int argc, char **argv, struct config *config, struct err *err)
{
    int error = 0;

    *config = (struct config){.port = CONFIG_PORT_DEFAULT,
                              .grace_seconds = LOCKD_GRACE_SECONDS,
                              .async_window_ms = CONFIG_ASYNC_WINDOW_MS_DEFAULT,
                              .log_level = LOG_NOTICE};
    optind = 0; /* glibc: begin anew, however often we are called */
    while (error == 0 && !config->help) {
        int code = getopt_long(argc, argv, ":", options, NULL);
        if (code == -1) {
            break;
        }
        error = apply(config, code, argv, err);
    }
    if (error != 0 || config->help) {
        return error;
    }
    config->directories = argv + optind;
    config->directory_count = (uint32_t)(argc - optind);
    if (config->directory_count == 0 && config->exports_file == NULL) {
        return err_set(err, -EINVAL, "nothing to serve: name a directory, or --exports FILE");
    }
    return config->state_dir[0] == '\0' ? config_default_state_dir(config->state_dir, err) : 0;
}
