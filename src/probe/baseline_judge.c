/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the numbers mean, in words: the block size to choose for each transport and why, what losses
 * cost, what a round trip costs, what stable storage costs.
 */
#include "probe/baseline.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLEAN_PART 0.001 /* resent calls; fewer is noise */
#define LOSSY_PART 0.01  /* from here on losses are told */
#define SILENT_NS_MIN 500000000LL
#define LOSSES_MIN 3       /* one may be a machine that paused */
#define LOST_TIME_PART 0.1 /* of the time is spent waiting for timers, or it is not the losses */
#define AS_GOOD_PART 0.95  /* of the best rate */
#define MUCH_FASTER 1.3
#define GAIN_MAX 1000.0    /* more cannot be said of what hardly works */
#define STORAGE_MS_MIN 0.1 /* waits that are shorter are not told from noise */
#define SAME_FACTOR 1.25   /* one procedure, as many bytes */
#define UNLIKE_FACTOR 2.0  /* two procedures */

const char *baseline_size_text(uint64_t bytes, char text[32])
{
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) {
        (void)snprintf(text, 32, "%llu MiB", (unsigned long long)(bytes >> 20));
    } else if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) {
        (void)snprintf(text, 32, "%llu KiB", (unsigned long long)(bytes >> 10));
    } else {
        (void)snprintf(text, 32, "%llu bytes", (unsigned long long)bytes);
    }
    return text;
}

const char *baseline_rate_text(double rate, char text[32])
{
    static const char *const units[] = {"B/s", "KB/s", "MB/s", "GB/s"};
    size_t unit = 0;
    while (rate >= 1000 && unit + 1 < COUNT_OF(units)) {
        rate /= 1000;
        unit++;
    }
    (void)snprintf(text, 32,
                   rate < 10    ? "%.2f %s"
                   : rate < 100 ? "%.1f %s"
                                : "%.0f %s",
                   rate, units[unit]);
    return text;
}

static struct baseline_advice *add(struct baseline *baseline)
{
    static struct baseline_advice overflow;
    if (baseline->advice_count == BASELINE_ADVICE_COUNT_MAX) {
        return &overflow;
    }
    return &baseline->advice[baseline->advice_count++];
}

static const char *size_of(const struct baseline_point *point, char text[32])
{
    return baseline_size_text(point->block_bytes, text);
}

static const char *rate_of(const struct baseline_point *point, char text[32])
{
    if (point->result.bytes == 0) {
        return "nothing";
    }
    return baseline_rate_text(baseline_rate(point), text);
}

/* ---- the happy medium ---- */

/* Faster; of those that are as fast, the one that loses less, and then the larger block: fewer
 * calls for the same data. */
static bool is_better(const struct baseline_point *a, const struct baseline_point *b)
{
    double rate_a = baseline_rate(a), rate_b = baseline_rate(b);
    if (rate_a < rate_b * AS_GOOD_PART || rate_b < rate_a * AS_GOOD_PART) {
        return rate_a > rate_b;
    }
    bool clean_a = baseline_resent_part(a) < CLEAN_PART,
         clean_b = baseline_resent_part(b) < CLEAN_PART;
    if (clean_a != clean_b) {
        return clean_a;
    }
    return a->block_bytes > b->block_bytes;
}

static void choose(struct baseline *baseline)
{
    for (uint32_t i = 0; i < baseline->point_count; i++) {
        const struct baseline_point *point = &baseline->points[i];
        const struct baseline_point **best = &baseline->best[point->kind][point->transport];
        if (point->result.bytes > 0 && !point->random &&
            (*best == NULL || is_better(point, *best))) {
            *best = point;
        }
    }
}

/* The point of the same series whose block is the next one up (or down). */
static const struct baseline_point *neighbour(const struct baseline *baseline,
                                              const struct baseline_point *point, bool up)
{
    const struct baseline_point *found = NULL;
    for (uint32_t i = 0; i < baseline->point_count; i++) {
        const struct baseline_point *other = &baseline->points[i];
        bool series = other->kind == point->kind && other->transport == point->transport &&
                      other->random == point->random && other->in_flight == point->in_flight;
        bool beyond =
            up ? other->block_bytes > point->block_bytes : other->block_bytes < point->block_bytes;
        if (series && beyond &&
            (found == NULL || (other->block_bytes < found->block_bytes) == up)) {
            found = other;
        }
    }
    return found;
}

static void say_losses(char text[PROBE_TEXT_BYTES], const struct baseline_point *point)
{
    const struct load_result *result = &point->result;
    char size[32], rate[32];

    text_add(text, "%s: %s", size_of(point, size), rate_of(point, rate));
    if (result->calls == 0) {
        text_add(text, ", no reply came whole in %.1f s", (double)result->elapsed_ns / 1e9);
    }
    if (result->fragments > 1) {
        text_add(text, ", %s in %u IP fragments", point->kind == LOAD_READ ? "a reply" : "a call",
                 result->fragments);
    }
    if (result->calls == 0) {
        return;
    }
    if (baseline_resent_part(point) >= CLEAN_PART) {
        text_add(text, ", %.0f of 100 calls sent again, %.1f s of %.1f s spent waiting for timers",
                 100 * baseline_resent_part(point), (double)result->waited_ns / 1e9,
                 (double)result->elapsed_ns / 1e9);
    } else {
        text_add(text, ", nothing sent again");
    }
}

static void judge_block(struct baseline *baseline, const struct baseline_point *best)
{
    struct baseline_advice *advice = add(baseline);
    const struct baseline_point *larger = neighbour(baseline, best, true);
    const struct baseline_point *smaller = neighbour(baseline, best, false);
    bool udp = best->transport == BASELINE_UDP;
    char size[32], rate[32];

    text_add(advice->finding, "%s over %s: %s is the block size to choose, with %s at %u at a time",
             best->kind == LOAD_READ ? "reading" : "writing",
             baseline_transport_name(best->transport), size_of(best, size), rate_of(best, rate),
             best->in_flight);
    say_losses(advice->evidence, best);
    if (larger != NULL) {
        text_add(advice->evidence, "; ");
        say_losses(advice->evidence, larger);
    }
    if (smaller != NULL) {
        text_add(advice->evidence, "; ");
        say_losses(advice->evidence, smaller);
    }
    text_add(advice->change, "mount with proto=%s,%s=%u", udp ? "udp" : "tcp",
             best->kind == LOAD_READ ? "rsize" : "wsize", best->block_bytes);
}

/* ---- losses ---- */

/* Nothing came, for long enough to say so, and not because the server was gone. */
static bool is_silent(const struct baseline_point *point)
{
    return point->result.calls == 0 && point->result.status == -ETIMEDOUT &&
           point->result.elapsed_ns > SILENT_NS_MIN;
}

/* Calls are sent again also where a busy server is late: what losses cost is the waiting. */
static bool is_slow_by_losses(const struct baseline_point *point)
{
    const struct load_result *result = &point->result;
    return result->retransmitted >= LOSSES_MIN && baseline_resent_part(point) >= LOSSY_PART &&
           (double)result->waited_ns >= LOST_TIME_PART * (double)result->elapsed_ns;
}

static const struct baseline_point *worst_loss(const struct baseline *baseline, enum load_kind kind)
{
    const struct baseline_point *worst = NULL;
    for (uint32_t i = 0; i < baseline->point_count; i++) {
        const struct baseline_point *point = &baseline->points[i];
        bool lossy = point->transport == BASELINE_UDP && point->kind == kind && !point->random &&
                     (is_silent(point) || is_slow_by_losses(point));
        if (lossy && (worst == NULL || baseline_rate(point) <= baseline_rate(worst))) {
            worst = point;
        }
    }
    return worst;
}

static void judge_losses(struct baseline *baseline, enum load_kind kind)
{
    const struct baseline_point *worst = worst_loss(baseline, kind);
    const struct baseline_point *tcp = baseline->best[kind][BASELINE_TCP];
    const struct baseline_point *udp = baseline->best[kind][BASELINE_UDP];
    char size[32], rate[32];

    if (worst == NULL) {
        return;
    }
    struct baseline_advice *advice = add(baseline);
    text_add(advice->finding, "%s over UDP lose datagrams: with %s, %s falls to %s",
             worst->result.fragments > 1 ? "large blocks" : "even small blocks",
             size_of(worst, size), kind == LOAD_READ ? "reading" : "writing", rate_of(worst, rate));
    say_losses(advice->evidence, worst);
    if (worst->result.fragments > 1) {
        text_add(advice->evidence, "; one lost fragment loses the whole block, and it is %s again",
                 kind == LOAD_READ ? "read" : "written");
    }
    const struct baseline_point *better =
        tcp != NULL && (udp == NULL || baseline_rate(tcp) >= baseline_rate(udp)) ? tcp : udp;
    double rate_now = baseline_rate(worst);
    advice->gain = better == NULL ? 0 : rate_now > 0 ? baseline_rate(better) / rate_now : GAIN_MAX;
    advice->gain = advice->gain > GAIN_MAX ? GAIN_MAX : advice->gain;
    if (better == tcp && tcp != NULL) {
        text_add(advice->change,
                 "use TCP (%s here): it sends again only what was lost, so blocks may be large",
                 rate_of(tcp, rate));
    } else if (udp != NULL && baseline_resent_part(udp) < CLEAN_PART) {
        text_add(advice->change, "use blocks of at most %s over UDP", size_of(udp, size));
    } else {
        text_add(advice->change, "find where datagrams are lost: `holdfast spray --ramp`");
    }
}

/* ---- latency ---- */

static void judge_latency(struct baseline *baseline, const struct baseline_point *best)
{
    const struct baseline_point *alone = NULL;
    char rate[32], alone_rate[32];

    for (uint32_t i = 0; i < baseline->point_count; i++) {
        const struct baseline_point *point = &baseline->points[i];
        if (point->kind == best->kind && point->transport == best->transport && !point->random &&
            point->in_flight == 1 && point->block_bytes == best->block_bytes) {
            alone = point;
        }
    }
    if (alone == NULL || alone == best || alone->result.bytes == 0 ||
        baseline_rate(best) < MUCH_FASTER * baseline_rate(alone)) {
        return;
    }
    struct baseline_advice *advice = add(baseline);
    text_add(advice->finding,
             "one request at a time gets %s, %u get %s: the way there and back counts",
             rate_of(alone, alone_rate), best->in_flight, rate_of(best, rate));
    int64_t median_ns =
        samples_percentile(&((struct baseline_point *)(uintptr_t)alone)->result.samples, 0.5);
    text_add(advice->evidence, "a request alone is answered in %.2f ms", (double)median_ns / 1e6);
    text_add(advice->change, "let programs read ahead, or several work at once");
}

/* ---- stable storage ---- */

/* A wait is there every time, and what else takes time is not: the quickest of each are compared.
 * factor: how far apart two operations may be that both do not wait. */
static bool waits(struct baseline_small *small, enum baseline_op op, enum baseline_op like,
                  double factor)
{
    double op_ms = (double)samples_percentile(&small->ops[op], 0) / 1e6;
    double like_ms = (double)samples_percentile(&small->ops[like], 0) / 1e6;
    return op_ms - like_ms > STORAGE_MS_MIN && op_ms > factor * like_ms;
}

static void judge_storage(struct baseline *baseline)
{
    struct baseline_small *small = &baseline->small;
    double stable = baseline_median_ms(small, BASELINE_WRITE_FILE_SYNC);
    double unstable = baseline_median_ms(small, BASELINE_WRITE_UNSTABLE);
    double create = baseline_median_ms(small, BASELINE_CREATE);
    double lookup = baseline_median_ms(small, BASELINE_LOOKUP);

    /* There are servers whose creates do not wait, but none that waits only there. A create may be
     * slow for other reasons: ext4 looks long for an inode when many were just removed. */
    small->waits = waits(small, BASELINE_WRITE_FILE_SYNC, BASELINE_WRITE_UNSTABLE, SAME_FACTOR);
    bool creates_wait = waits(small, BASELINE_CREATE, BASELINE_LOOKUP, UNLIKE_FACTOR);
    struct baseline_advice *advice = add(baseline);
    if (!small->waits) {
        small->storage_ms = 0;
        text_add(advice->finding,
                 "the server does not keep small files waiting for stable storage");
        text_add(advice->evidence,
                 "WRITE FILE_SYNC %.2f ms, UNSTABLE %.2f ms; CREATE %.2f ms, LOOKUP "
                 "%.2f ms",
                 stable, unstable, create, lookup);
        text_add(advice->change,
                 "its export is async, or its storage as fast as memory; which of the "
                 "two only its administrator can say");
        return;
    }
    text_add(advice->finding,
             "synchronous writing costs %.2f ms of the %.2f ms that unpacking a small "
             "file takes",
             small->storage_ms, small->per_file_ms);
    text_add(advice->evidence,
             "CREATE %.2f ms, COMMIT %.2f ms, SETATTR %.2f ms, but LOOKUP %.2f ms, "
             "GETATTR %.2f ms",
             create, baseline_median_ms(small, BASELINE_COMMIT),
             baseline_median_ms(small, BASELINE_SETATTR), lookup,
             baseline_median_ms(small, BASELINE_GETATTR));
    if (!creates_wait) {
        text_add(advice->evidence, "; creates do not wait");
    }
    double rest = small->per_file_ms - small->storage_ms;
    advice->gain = small->per_file_ms / (rest > 0.01 ? rest : 0.01);
    text_add(advice->change,
             "storage that makes a flush cheap (a journal on a fast device, a cache that "
             "survives a power cut), or async and its risk: up to %.1f times faster",
             advice->gain);
}

static void judge_unpacking(struct baseline *baseline)
{
    const struct unpack_result *alone = &baseline->unpacked[0], *best = alone;

    for (uint32_t i = 1; i < baseline->unpacked_count; i++) {
        const struct unpack_result *result = &baseline->unpacked[i];
        best = unpack_rate(result) > unpack_rate(best) ? result : best;
    }
    if (alone->files_max != 1 || unpack_rate(best) < MUCH_FASTER * unpack_rate(alone)) {
        return;
    }
    struct baseline_advice *advice = add(baseline);
    advice->gain = unpack_rate(best) / unpack_rate(alone);
    text_add(advice->finding,
             "unpacking %u files at a time is %.1f times as fast as one after the other: it is "
             "waiting that takes the time, not the wire",
             best->files_max, advice->gain);
    text_add(advice->evidence, "%.0f files/s; one after the other %.0f", unpack_rate(best),
             unpack_rate(alone));
    text_add(advice->change, "let several processes copy or unpack, each a part");
}

void baseline_judge(struct baseline *baseline)
{
    choose(baseline);
    for (int kind = LOAD_READ; kind <= LOAD_WRITE; kind++) {
        for (int transport = 0; transport < BASELINE_TRANSPORT_COUNT; transport++) {
            const struct baseline_point *best = baseline->best[kind][transport];
            if (best != NULL) {
                judge_block(baseline, best);
            }
        }
        judge_losses(baseline, (enum load_kind)kind);
        if (baseline->best[kind][BASELINE_TCP] != NULL) {
            judge_latency(baseline, baseline->best[kind][BASELINE_TCP]);
        }
    }
    if (baseline->small.file_count > 0) {
        judge_storage(baseline);
    }
    if (baseline->unpacked_count > 0) {
        judge_unpacking(baseline);
    }
}
