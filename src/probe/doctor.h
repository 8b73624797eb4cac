/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks up the layers to an export: interface, neighbour, echo, path MTU, UDP, portmapper, MOUNT,
 * NFS, and then short baselines. Stops where a layer fails, since what is above cannot work then.
 * Ends with findings, the one that costs most first. Blocks.
 */
#ifndef PROBE_DOCTOR_H
#define PROBE_DOCTOR_H

#include "probe/baseline.h"
#include "probe/link.h"

#define DOCTOR_STEP_COUNT_MAX 24U
#define DOCTOR_FINDING_COUNT_MAX 16U

enum doctor_state {
    DOCTOR_GOOD,
    DOCTOR_ODD,    /* works, but see the findings */
    DOCTOR_FAILED, /* nothing above it was looked at */
    DOCTOR_UNSEEN  /* could not be looked at from here */
};

struct doctor_step {
    char layer[24];
    enum doctor_state state;
    char text[PROBE_TEXT_BYTES];
};

struct doctor_finding {
    double gain; /* how many times faster it would be, as far as can be said; 0: cannot be said */
    bool broken; /* it does not work at all: comes before all others */
    char finding[PROBE_TEXT_BYTES];
    char evidence[PROBE_TEXT_BYTES];
    char change[PROBE_TEXT_BYTES];
};

struct doctor_options {
    struct client_url url;
    uint32_t echo_timeout_ms; /* 0: 1000 */
    /* Told before each layer; may be NULL. */
    void (*progress)(void *owner, const char *what);
    /* Told what is known of a layer, as soon as it is; may be NULL. */
    void (*known)(void *owner, const struct doctor_step *step);
    /* As in baseline_options: the directory that it works in, and whether to go on. */
    void (*making)(void *owner, const char *dir_name);
    bool (*stopping)(void *owner);
    void *owner;
};

struct doctor {
    const struct doctor_options *options;
    struct doctor_step steps[DOCTOR_STEP_COUNT_MAX];
    uint32_t step_count;
    struct doctor_finding findings[DOCTOR_FINDING_COUNT_MAX]; /* in order */
    uint32_t finding_count;
    bool stopped; /* at the last step */
    struct client_address address;
    struct link_state link;
    uint32_t path_mtu; /* bytes of an IP packet; 0: not known */
    double echo_ms;    /* a small one; negative: not known */
    bool has_baseline;
    struct baseline baseline;
};

/* Always has something to tell. The caller closes. */
void doctor_run(const struct doctor_options *options, struct doctor *doctor);
void doctor_close(struct doctor *doctor);

const char *doctor_state_name(enum doctor_state state);
void doctor_report(struct report *report, struct doctor *doctor);

#endif
