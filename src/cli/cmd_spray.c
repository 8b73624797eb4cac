/* SPDX-License-Identifier: Apache-2.0 */
/* Sprays a host with packets, as the classic command of that name. */
#include "cli/command.h"

#include "cli/options.h"
#include "probe/spray.h"
#include "report/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: holdfast spray HOST [-c COUNT] [-l LENGTH] [-d MICROSECONDS] [OPTIONS]\n"
    "\n"
    "Sends packets to a host that are not answered, and asks it how many arrived. HOST\n"
    "runs `holdfast serve` or any rpc.sprayd. 1162 packets of 86 bytes, if nothing else is\n"
    "said; if one of COUNT and LENGTH is given, the other makes 100 kB.\n"
    "\n"
    "  -c COUNT    packets\n"
    "  -l LENGTH   bytes of a packet, all heads included: 86 to 8845\n"
    "  -d MICROS   pause after each packet\n"
    "  --tcp       over one TCP connection\n"
    "  --both      let every packet come back (only from holdfast)\n"
    "  --ramp      find the rate at which packets begin to be lost\n"
    "  --port N    do not ask the portmapper\n"
    "  --json      every number\n"
    "\n"
    "exit status: 0 all arrived, 1 some did not, 2 usage, 3 could not run\n"
    "more: man 1 holdfast-spray\n";

enum { OPTION_TCP = 256, OPTION_BOTH, OPTION_RAMP, OPTION_PORT, OPTION_JSON };

struct arguments {
    struct spray_options spray;
    const char *host;
    uint16_t port;
    bool ramp, json;
};

/* ---- the command line ---- */

static bool set_option(void *owner, int option, struct options_value *value)
{
    struct arguments *arguments = owner;

    switch (option) {
    case 'c':
        return options_u32(value, 1, SPRAY_COUNT_MAX, &arguments->spray.count);
    case 'l':
        return options_u32(value, 1, SPRAY_LENGTH_MAX, &arguments->spray.length);
    case 'd':
        return options_u32(value, 0, 10000000, &arguments->spray.delay_us);
    case OPTION_PORT:
        return options_port(value, &arguments->port);
    case OPTION_TCP:
        arguments->spray.way = SPRAY_TCP;
        return true;
    case OPTION_BOTH:
        arguments->spray.way = SPRAY_BOTH;
        return true;
    case OPTION_RAMP:
        arguments->ramp = true;
        return true;
    default:
        arguments->json = true;
        return true;
    }
}

static const struct option words[] = {
    {"tcp", no_argument, NULL, OPTION_TCP},
    {"both", no_argument, NULL, OPTION_BOTH},
    {"ramp", no_argument, NULL, OPTION_RAMP},
    {"port", required_argument, NULL, OPTION_PORT},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static const struct options command_line = {
    .command = "spray",
    .letters = ":c:l:d:h",
    .words = words,
    .help = help,
    .operand = "HOST",
    .set = set_option,
};

/* ---- text ---- */

/* What the classic command does not know. */
static void print_split(const struct spray_options *options, const struct spray_result *result)
{
    uint64_t missing = result->refused + result->lost + result->far_dropped;

    if (missing > 0 && result->has_report) {
        printf("\t%" PRIu64 " refused by this machine, %" PRIu64 " lost on the way, %" PRIu64
               " found the far socket full\n",
               result->refused, result->lost, result->far_dropped);
    } else if (result->refused > 0) {
        printf("\t%" PRIu64 " refused by this machine, %" PRIu64 " lost beyond it\n",
               result->refused, result->lost);
    }
    if (result->reordered > 0) {
        printf("\t%" PRIu64 " packets out of order\n", result->reordered);
    }
    if (result->extra > 0) {
        printf("\t%" PRIu64 " packets more than were sent: duplicates, or another sender\n",
               result->extra);
    }
    if (options->way == SPRAY_BOTH) {
        uint64_t back = result->counted > result->echoed ? result->counted - result->echoed : 0;
        printf("\t%" PRIu64 " packets came back, %" PRIu64 " lost on the way back\n",
               result->echoed, back);
    }
}

static void print_result(const struct arguments *arguments, const struct spray_result *result)
{
    const struct spray_options *options = &arguments->spray;
    double per_second = spray_packets_per_second(result);

    if (result->counted < options->count) {
        uint64_t dropped = options->count - result->counted;
        printf("\n\t%" PRIu64 " packets (%.3f%%) dropped by %s\n", dropped,
               100.0 * (double)dropped / options->count, arguments->host);
    } else {
        printf("\n\tno packets dropped by %s\n", arguments->host);
    }
    printf("\t%.0f packets/sec, %.0f bytes/sec\n", (double)(uint64_t)per_second,
           (double)(uint64_t)(per_second * options->length));
    print_split(options, result);
}

/* ---- running ---- */

static int spray(const struct arguments *arguments, struct err *err)
{
    struct spray_result result;

    if (!arguments->json) {
        printf("sending %u packets of length %u to %s ...", arguments->spray.count,
               arguments->spray.length, arguments->host);
        fflush(stdout);
    }
    int error = spray_run(&arguments->spray, &result, err);
    if (error != 0) {
        fputs(arguments->json ? "" : "\n", stdout);
        return COMMAND_CANNOT;
    }
    if (arguments->json) {
        struct report *report = report_new();
        report_add_text(report, "host", arguments->host);
        spray_report_result(report, &arguments->spray, &result);
        (void)report_write_json(report, stdout);
        report_free(report);
    } else {
        print_result(arguments, &result);
    }
    bool all = result.counted >= arguments->spray.count &&
               (arguments->spray.way != SPRAY_BOTH || result.echoed >= arguments->spray.count);
    return all ? COMMAND_DONE : COMMAND_FINDING;
}

static void print_step(void *owner, const struct spray_step *step)
{
    (void)owner;
    printf("\t%8.0f packets/sec: %7.3f%% of %" PRIu64 " dropped\n", step->reached_per_second,
           100 * step->loss, step->result.sent + step->result.refused);
    fflush(stdout);
}

static void print_knee(const struct spray_ramp *ramp)
{
    if (ramp->lossy_per_second == 0) {
        printf("\tno loss up to %.0f packets/sec, the fastest this machine sends\n",
               ramp->clean_per_second);
    } else if (ramp->clean_per_second == 0) {
        printf("\tloss at every rate, from %.0f packets/sec on\n", ramp->lossy_per_second);
    } else {
        printf("\tloss begins between %.0f and %.0f packets/sec (%.3f%% there)\n",
               ramp->clean_per_second, ramp->lossy_per_second, 100 * ramp->loss);
    }
}

static int ramp(const struct arguments *arguments, struct err *err)
{
    static struct spray_ramp result;
    bool json = arguments->json;

    if (!json) {
        printf("ramp of packets of length %u to %s ...\n", arguments->spray.length,
               arguments->host);
    }
    if (spray_ramp(&arguments->spray, &result, json ? NULL : print_step, NULL, err) != 0) {
        return COMMAND_CANNOT;
    }
    if (json) {
        struct report *report = report_new();
        report_add_text(report, "host", arguments->host);
        report_add_real(report, "clean_packets_per_second", result.clean_per_second);
        report_add_real(report, "lossy_packets_per_second", result.lossy_per_second);
        report_add_real(report, "loss", result.loss);
        struct report *steps = report_add_array(report, "steps");
        for (uint32_t i = 0; i < result.step_count; i++) {
            const struct spray_result *one = &result.steps[i].result;
            struct spray_options options = arguments->spray;
            options.count = (uint32_t)(one->sent + one->refused);
            spray_report_result(report_add_object(steps, NULL), &options, one);
        }
        (void)report_write_json(report, stdout);
        report_free(report);
    } else {
        print_knee(&result);
    }
    return result.lossy_per_second > 0 ? COMMAND_FINDING : COMMAND_DONE;
}

int cmd_spray(int argc, char **argv)
{
    struct client_address addresses[CLIENT_ADDRESS_COUNT_MAX];
    struct arguments arguments = {0};
    struct err err = {0};
    size_t count = 0;
    int status;

    if (!options_parse(&command_line, argc, argv, &arguments, &arguments.host, &status)) {
        return status;
    }
    status = COMMAND_CANNOT;
    if (arguments.ramp && arguments.spray.way != SPRAY_UDP) {
        fputs("holdfast spray: --ramp is for UDP, one way\n", stderr);
        return COMMAND_USAGE;
    }
    spray_fill_options(&arguments.spray);
    if (client_address_find(arguments.host, addresses, &count, &err) == 0) {
        for (size_t i = 0; i < count && status == COMMAND_CANNOT; i++) {
            uint16_t port = arguments.port;
            err.code = 0;
            if (port == 0 && spray_find_port(&addresses[i], arguments.spray.way == SPRAY_TCP, &port,
                                             &err) != 0) {
                continue;
            }
            arguments.spray.address = addresses[i];
            client_address_set_port(&arguments.spray.address, port);
            status = arguments.ramp ? ramp(&arguments, &err) : spray(&arguments, &err);
        }
    }
    if (status == COMMAND_CANNOT) {
        fprintf(stderr, "holdfast spray: %s: %s\n", arguments.host, err.text);
    }
    return status;
}
