/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the null procedure of everything a host offers. */
#include "cli/command.h"

#include "cli/options.h"
#include "probe/ping.h"
#include "report/tree.h"

#include <errno.h>
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
    bool json;
};

static bool set_option(void *owner, int option, struct options_value *value)
{
    struct arguments *arguments = owner;
    double millis = 0;
    bool good;

    switch (option) {
    case 'c':
        return options_u32(value, 1, PING_COUNT_MAX, &arguments->ping.count);
    case 'i':
        good = options_number(value, 0.01, 100000, &millis);
        arguments->ping.interval_us = (uint32_t)(millis * 1000);
        return good;
    case 't':
        return options_u32(value, 1, 100000, &arguments->ping.timeout_ms);
    case OPTION_PORT:
        return options_port(value, &arguments->port);
    default:
        arguments->json = true;
        return true;
    }
}

static const struct option words[] = {
    {"port", required_argument, NULL, OPTION_PORT},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static const struct options command_line = {
    .command = "ping",
    .letters = ":c:i:t:h",
    .words = words,
    .help = help,
    .operand = "HOST",
    .set = set_option,
};

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
    struct arguments arguments = {.ping = {.count = 20, .interval_us = 50000, .timeout_ms = 1000}};
    struct err err = {0};
    size_t count = 0;
    int status;

    if (!options_parse(&command_line, argc, argv, &arguments, &arguments.host, &status)) {
        return status;
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
    status = COMMAND_DONE;
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
