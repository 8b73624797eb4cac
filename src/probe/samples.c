/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/samples.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int samples_open(struct samples *samples, uint32_t capacity)
{
    *samples = (struct samples){.capacity = capacity};
    samples->ns = calloc(capacity > 0 ? capacity : 1, sizeof *samples->ns);
    return samples->ns == NULL ? -ENOMEM : 0;
}

void samples_close(struct samples *samples)
{
    free(samples->ns);
    samples->ns = NULL;
}

void samples_add(struct samples *samples, int64_t ns)
{
    if (samples->count < samples->capacity) {
        samples->ns[samples->count++] = ns;
        samples->sorted = false;
    }
}

void samples_add_lost(struct samples *samples)
{
    samples->lost++;
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

int64_t samples_percentile(struct samples *samples, double part)
{
    uint64_t all = (uint64_t)samples->count + samples->lost;

    if (!samples->sorted && samples->count > 0) {
        qsort(samples->ns, samples->count, sizeof *samples->ns, compare);
        samples->sorted = true;
    }
    double exact = ceil(part * (double)all - 1e-9);
    uint64_t rank = exact < 1 ? 1 : (uint64_t)exact;
    return all == 0 || rank > samples->count ? -1 : samples->ns[rank - 1];
}
