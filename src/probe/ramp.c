/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for the rate at which packets begin to be lost.
 *
 * A step sends at one rate for STEP_SECONDS. A single lost packet among many is not a knee: a step
 * is clean if it lost no more than LOSS_MAX of its packets.
 */
#include "probe/spray.h"

#include <errno.h>

#define FIRST_PER_SECOND 500.0
#define LAST_PER_SECOND 2e6
#define STEP_SECONDS 0.25
#define STEP_PACKETS_MIN 100U
#define LOSS_MAX 0.001
#define BISECTIONS 5U
#define GROWTH_MIN 1.1 /* of the reached rate; less, twice in a row: we cannot send faster */

static double sent_per_second(const struct spray_options *options,
                              const struct spray_result *result)
{
    return result->send_s > 0 ? options->count / result->send_s : 0;
}

static double loss_of(const struct spray_result *result)
{
    uint64_t all = result->sent + result->refused;
    uint64_t lost = result->lost + result->far_dropped + result->refused;
    return all > 0 ? (double)lost / (double)all : 0;
}

struct climb {
    struct spray_options options;
    struct spray_ramp *ramp;
    void (*each)(void *owner, const struct spray_step *step);
    void *owner;
    struct err *err;
};

/* *reached is the rate that packets were really sent at. */
static int step(struct climb *climb, double per_second, double *reached, double *loss)
{
    struct spray_ramp *ramp = climb->ramp;
    struct spray_options *options = &climb->options;
    struct spray_step *one = &ramp->steps[ramp->step_count];

    options->packets_per_second = per_second;
    options->count = (uint32_t)(per_second * STEP_SECONDS);
    options->count = options->count < STEP_PACKETS_MIN ? STEP_PACKETS_MIN : options->count;
    one->wanted_per_second = per_second;
    int error = spray_run(options, &one->result, climb->err);
    if (error != 0) {
        return error;
    }
    *reached = sent_per_second(options, &one->result);
    *loss = loss_of(&one->result);
    ramp->step_count++;
    one->reached_per_second = *reached;
    one->loss = *loss;
    if (climb->each != NULL) {
        climb->each(climb->owner, one);
    }
    return 0;
}

/* The lowest rate with loss, and the highest without below that: other traffic makes single steps
 * lossy or lucky. */
static void find_knee(struct spray_ramp *ramp)
{
    for (uint32_t i = 0; i < ramp->step_count; i++) {
        const struct spray_step *one = &ramp->steps[i];
        if (one->loss > LOSS_MAX &&
            (ramp->lossy_per_second == 0 || one->reached_per_second < ramp->lossy_per_second)) {
            ramp->lossy_per_second = one->reached_per_second;
            ramp->loss = one->loss;
        }
    }
    for (uint32_t i = 0; i < ramp->step_count; i++) {
        const struct spray_step *one = &ramp->steps[i];
        if (one->loss <= LOSS_MAX && one->reached_per_second > ramp->clean_per_second &&
            (ramp->lossy_per_second == 0 || one->reached_per_second < ramp->lossy_per_second)) {
            ramp->clean_per_second = one->reached_per_second;
        }
    }
}

int spray_ramp(const struct spray_options *options, struct spray_ramp *ramp,
               void (*each)(void *owner, const struct spray_step *step), void *owner,
               struct err *err)
{
    struct climb climb = {*options, ramp, each, owner, err};
    double low = 0, high = 0, fastest = 0;
    uint32_t stuck = 0;

    *ramp = (struct spray_ramp){0};
    climb.options.delay_us = 0;
    for (double rate = FIRST_PER_SECOND; rate <= LAST_PER_SECOND && high == 0; rate *= 2) {
        double reached, loss;
        int error = step(&climb, rate, &reached, &loss);
        if (error != 0) {
            return error;
        }
        if (loss > LOSS_MAX) {
            high = rate;
        } else {
            low = rate;
        }
        stuck = reached < GROWTH_MIN * fastest ? stuck + 1 : 0;
        fastest = reached > fastest ? reached : fastest;
        if (stuck == 2) {
            break;
        }
    }
    for (uint32_t i = 0; i < BISECTIONS && high > 0 && low > 0; i++) {
        double middle = (low + high) / 2;
        double reached, loss;
        int error = step(&climb, middle, &reached, &loss);
        if (error != 0) {
            return error;
        }
        *(loss > LOSS_MAX ? &high : &low) = middle;
    }
    find_knee(ramp);
    return 0;
}
