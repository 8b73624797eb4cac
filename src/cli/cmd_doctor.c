/* SPDX-License-Identifier: Apache-2.0 */
/* Walks up the layers to an export, and says what is wrong. */
#include "cli/command.h"

#include "cli/interrupt.h"
#include "cli/options.h"
#include "probe/doctor.h"
#include "report/tree.h"

#include <stdio.h>
#include <unistd.h>

static const char help[] =
    "usage: holdfast doctor [--json] nfs://HOST/PATH\n"
    "\n"
    "Walks up the layers to an export: name, route and interface, neighbour, ICMP echo,\n"
    "packet sizes, portmapper, NFS over TCP and UDP, MOUNT, then short measurements in a\n"
    "directory that it makes in PATH and removes. Stops at the layer that fails. Ends with\n"
    "what it found, the costliest first: evidence, what to change, what that would gain.\n"
    "\n"
    "  --json    every number\n"
    "\n"
    "exit status: 0 nothing found, 1 something found, 2 usage\n"
    "more: man 1 holdfast-doctor\n";

/* What the callbacks need to know. */
struct shown {
    bool terminal; /* standard error is one: there is a line of progress */
    bool steps;    /* as they become known */
};

static void wipe(const struct shown *shown)
{
    if (shown->terminal) {
        fputs("\r\033[K", stderr);
    }
}

static void progress(void *owner, const char *what)
{
    const struct shown *shown = owner;
    if (shown->terminal) {
        fprintf(stderr, "\r\033[Klooking at: %s", what);
    }
}

static void known(void *owner, const struct doctor_step *step)
{
    const struct shown *shown = owner;
    if (shown->steps) {
        wipe(shown);
        printf("%-13s %-9s %s\n", step->layer, doctor_state_name(step->state), step->text);
        (void)fflush(stdout);
    }
}

static void print_findings(const struct doctor *doctor)
{
    if (doctor->stopped) {
        puts("\nWhat lies above cannot work before this does.");
    }
    for (uint32_t i = 0; i < doctor->finding_count; i++) {
        const struct doctor_finding *found = &doctor->findings[i];
        printf("\n%u. %s\n    seen: %s\n    do:   %s\n", i + 1, found->finding, found->evidence,
               found->change);
        if (found->gain > 0) {
            printf("    gain: about %.1f times faster\n", found->gain);
        }
    }
    if (doctor->finding_count == 0) {
        puts("\nNothing is wrong that can be seen from here.");
    }
}

static int run(struct doctor_options *options, const char *url, bool json)
{
    struct shown shown = {.terminal = isatty(STDERR_FILENO) == 1, .steps = !json};
    struct doctor doctor;

    options->progress = progress;
    options->known = known;
    options->making = interrupt_making;
    options->stopping = interrupt_stopping;
    options->owner = &shown;
    doctor_run(options, &doctor);
    wipe(&shown);
    if (interrupt_seen() && doctor.baseline.left_behind[0] != '\0') {
        fprintf(stderr, "holdfast doctor: %s\n", doctor.baseline.left_behind);
    }
    interrupt_release();
    int status = doctor.finding_count > 0 || doctor.stopped ? COMMAND_FINDING : COMMAND_DONE;
    if (json) {
        struct report *report = report_new();
        report_add_text(report, "url", url);
        doctor_report(report, &doctor);
        status = report_write_json(report, stdout) ? status : COMMAND_CANNOT;
        report_free(report);
    } else {
        print_findings(&doctor);
    }
    doctor_close(&doctor);
    return status;
}

static bool set_option(void *owner, int option, struct options_value *value)
{
    bool *json = owner;

    (void)option;
    (void)value;
    *json = true;
    return true;
}

int cmd_doctor(int argc, char **argv)
{
    static const struct option words[] = {
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    static const struct options command_line = {
        .command = "doctor",
        .letters = ":h",
        .words = words,
        .help = help,
        .operand = "nfs://HOST/PATH",
        .set = set_option,
    };
    struct doctor_options doctor = {0};
    struct err err = {0};
    const char *url = NULL;
    bool json = false;
    int status;

    if (!options_parse(&command_line, argc, argv, &json, &url, &status)) {
        return status;
    }
    if (client_url_parse(url, &doctor.url, &err) != 0) {
        fprintf(stderr, "holdfast doctor: %s: %s\n", url, err.text);
        return COMMAND_USAGE;
    }
    return run(&doctor, url, json);
}
