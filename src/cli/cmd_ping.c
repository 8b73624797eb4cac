/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the null procedure of everything a host offers. */
#include "cli/command.h"

#include "probe/ping.h"
#include "report/tree.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: holdfast ping HOST [-c COUNT] [-i MILLISECONDS] [--port N] [--json]\n"
    "\n"
    "Calls the null procedure of every RPC program and version that HOST's portmapper\n"
    "lists, over UDP and TCP, and shows how long the answers took. Calls go out by the\n"
    "clock; times run from when a call was due.\n"
    "\n"
    "  -c COUNT    calls to each (20)\n"
    "  -i MILLIS   between two calls to the same (50; fractions allowed)\n"
    "  -t MILLIS   what takes longer is lost (1000)\n"
    "  --port N    do not ask the portmapper: try what NFS servers have, at port N\n"
    "  --json      every number\n"
    "\n"
    "exit status: 0 all answered, 1 something did not, 2 usage, 3 could not run\n"
    "more: man 1 holdfast-ping\n";

enum { OPTION_PORT = 256, OPTION_JSON };

struct arguments {
    struct ping_options ping;
    const char *host;
    uint16_t port;
    bool json, help;
};

static bool get_number(const char *text, double min, double max, double *number)
{
    char *end;
    errno = 0;
    *number = strtod(text, &end);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *number >= min &&
           *number <= max;
}

static bool set_option(struct arguments *arguments, int option)
{
    double number = 0;
    bool good = true;

    switch (option) {
    case 'c':
        good = get_number(optarg, 1, PING_COUNT_MAX, &number);
        arguments->ping.count = (uint32_t)number;
        break;
    case 'i':
        good = get_number(optarg, 0.01, 100000, &number);
        arguments->ping.interval_us = (uint32_t)(number * 1000);
        break;
    case 't':
        good = get_number(optarg, 1, 100000, &number);
        arguments->ping.timeout_ms = (uint32_t)number;
        break;
    case OPTION_PORT:
        good = get_number(optarg, 1, UINT16_MAX, &number);
        arguments->port = (uint16_t)number;
        break;
    case OPTION_JSON:
        arguments->json = true;
        break;
    case 'h':
        arguments->help = true;
        break;
    default:
        good = false;
        break;
    }
    return good;
}

static bool parse(int argc, char **argv, struct arguments *arguments)
{
    static const struct option words[] = {
        {"port", required_argument, NULL, OPTION_PORT},
        {"json", no_argument, NULL, OPTION_JSON},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;

    *arguments =
        (struct arguments){.ping = {.count = 20, .interval_us = 50000, .timeout_ms = 1000}};
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":c:i:t:h", words, NULL)) != -1) {
        if (!set_option(arguments, option)) {
            fprintf(stderr, "holdfast ping: cannot use %s%s; see `holdfast ping --help`\n",
                    argv[optind - 1], option == ':' ? " without a value" : "");
            return false;
        }
    }
    if (arguments->help) {
        return true;
    }
    if (argc - optind != 1) {
        fputs("holdfast ping: one HOST; see `holdfast ping --help`\n", stderr);
        return false;
    }
    arguments->host = argv[optind];
    return true;
}

/* ---- text ---- */

static void print_time(struct samples *samples, double part)
{
    int64_t ns = samples_percentile(samples, part);
    if (ns < 0) {
        printf(" %9s", "lost");
    } else {
        printf(" %9.1f", (double)ns / 1000);
    }
}

static void print_target(struct ping_target *target)
{
    const char *name = ping_program_name(target->prog);
    char number[16];

    (void)snprintf(number, sizeof number, "%u", target->prog);
    printf("%-9s %4u  %s %5u ", name != NULL ? name : number, target->vers,
           target->tcp ? "tcp" : "udp", target->port);
    if (target->state == PING_ANSWERS) {
        printf(" %6u %5u", target->samples.count, target->samples.lost);
        static const double parts[] = {0, 0.5, 0.9, 0.99, 1};
        for (size_t i = 0; i < COUNT_OF(parts); i++) {
            print_time(&target->samples, parts[i]);
        }
    } else {
        printf(" %s", ping_state_name(target->state));
        if (target->text[0] != '\0') {
            printf(": %s", target->text);
        }
    }
    putchar('\n');
}

static void print_result(struct ping_result *result)
{
    printf("%-9s %4s  %s %5s  %6s %5s %9s %9s %9s %9s %9s µs\n", "program", "vers", "via", "port",
           "answer", "lost", "min", "median", "p90", "p99", "max");
    for (uint32_t i = 0; i < result->target_count; i++) {
        print_target(&result->targets[i]);
    }
}

/* ---- running ---- */

static int ping(const struct arguments *arguments, struct ping_result *result, struct err *err)
{
    int error = 0;

    result->target_count = 0;
    if (arguments->port != 0) {
        ping_guess_targets(arguments->port, result);
    } else {
        error = ping_find_targets(&arguments->ping, result, err);
    }
    if (error == 0) {
        error = ping_run(&arguments->ping, arguments->port != 0, result, err);
    }
    if (error == 0 && result->target_count == 0) {
        error = err_set(err, -ENOENT, "no RPC program answers");
    }
    return error;
}

int cmd_ping(int argc, char **argv)
{
    static struct ping_result result;
    struct client_address addresses[CLIENT_ADDRESS_COUNT_MAX];
    struct arguments arguments;
    struct err err = {0};
    size_t count = 0;

    if (!parse(argc, argv, &arguments)) {
        return COMMAND_USAGE;
    }
    if (arguments.help) {
        fputs(help, stdout);
        return COMMAND_DONE;
    }
    int error = client_address_find(arguments.host, addresses, &count, &err);
    for (size_t i = 0; i < count; i++) {
        arguments.ping.address = addresses[i];
        error = ping(&arguments, &result, &err);
        if (error == 0) {
            break;
        }
    }
    if (error != 0) {
        fprintf(stderr, "holdfast ping: %s: %s\n", arguments.host, err.text);
        return COMMAND_CANNOT;
    }
    int status = COMMAND_DONE;
    for (uint32_t i = 0; i < result.target_count; i++) {
        const struct ping_target *target = &result.targets[i];
        if (target->state != PING_ANSWERS || target->samples.lost > 0) {
            status = COMMAND_FINDING;
        }
    }
    if (arguments.json) {
        struct report *report = report_new();
        report_add_text(report, "host", arguments.host);
        report_add_u64(report, "count", arguments.ping.count);
        report_add_u64(report, "interval_us", arguments.ping.interval_us);
        ping_report(report, &result);
        if (!report_write_json(report, stdout)) {
            status = COMMAND_CANNOT;
        }
        report_free(report);
    } else {
        print_result(&result);
    }
    ping_result_close(&result);
    return status;
}
