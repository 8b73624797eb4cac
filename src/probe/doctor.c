/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/doctor.h"

#include "client/mount.h"
#include "client/pmap.h"
#include "probe/ping.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ECHO_MS 1000U
#define ECHO_COUNT 5
#define WHOLE_TRIES 3 /* of a packet size, before it is called too large */
#define SMALL_PACKET_BYTES 84U
#define BURST_COUNT 100U
#define BURST_INTERVAL_US 5000U
#define SLOW_NULL_MS 10 /* above an echo: it is not the network */
#define FILL_MS 2000U
#define NFS_PORT 2049
#define SLOW_MBIT 1000
#define LOSSY_PART 0.01
#define GAIN_MIN 1.2 /* less is not worth a finding */

const char *doctor_state_name(enum doctor_state state)
{
    static const char *const names[] = {"good", "odd", "failed", "not seen"};
    return names[state];
}

/* ---- telling ---- */

__attribute__((format(printf, 4, 5))) static void
step(struct doctor *doctor, const char *layer, enum doctor_state state, const char *format, ...)
{
    va_list arguments;
    if (doctor->step_count == DOCTOR_STEP_COUNT_MAX) {
        return;
    }
    struct doctor_step *step = &doctor->steps[doctor->step_count++];
    step->state = state;
    (void)snprintf(step->layer, sizeof step->layer, "%s", layer);
    va_start(arguments, format);
    (void)vsnprintf(step->text, sizeof step->text, format, arguments);
    va_end(arguments);
    doctor->stopped = doctor->stopped || state == DOCTOR_FAILED;
    if (doctor->options->known != NULL) {
        doctor->options->known(doctor->options->owner, step);
    }
}

static struct doctor_finding *finding(struct doctor *doctor, const char *what)
{
    static struct doctor_finding overflow;
    struct doctor_finding *finding = doctor->finding_count < DOCTOR_FINDING_COUNT_MAX
                                         ? &doctor->findings[doctor->finding_count++]
                                         : &overflow;
    *finding = (struct doctor_finding){.gain = 0};
    (void)snprintf(finding->finding, sizeof finding->finding, "%s", what);
    return finding;
}

static void broken(struct doctor *doctor, const char *what, const char *change)
{
    struct doctor_finding *found = finding(doctor, what);
    found->broken = true;
    text_add(found->evidence, "%s", doctor->steps[doctor->step_count - 1].text);
    text_add(found->change, "%s", change);
}

/* ---- the link ---- */

static void look_at_name(const struct doctor_options *options, struct doctor *doctor)
{
    struct client_address addresses[CLIENT_ADDRESS_COUNT_MAX];
    struct err err = {0};
    size_t count = 0;
    char text[64];

    if (client_address_find(options->url.host, addresses, &count, &err) != 0) {
        step(doctor, "name", DOCTOR_FAILED, "%.400s", err.text);
        broken(doctor, "the host's name leads nowhere", "check the name and the resolver");
        return;
    }
    doctor->address = addresses[0];
    step(doctor, "name", DOCTOR_GOOD, "%s is %s%s", options->url.host,
         client_address_text(&doctor->address, text),
         count > 1 ? ", and has other addresses that were not looked at" : "");
}

static void judge_link(struct doctor *doctor)
{
    const struct link_state *link = &doctor->link;
    const struct link_counters *counters = &link->counters;
    uint64_t bad = counters->rx_errors + counters->tx_errors + counters->collisions;
    uint64_t all = counters->rx_packets > 0 ? counters->rx_packets : 1;

    if (strcmp(link->duplex, "half") == 0) {
        struct doctor_finding *found = finding(doctor, "the interface runs half duplex");
        text_add(found->evidence, "%s: half duplex, %llu collisions", link->name,
                 (unsigned long long)counters->collisions);
        text_add(found->change, "set both ends of the cable to negotiate, or both to full duplex");
    }
    if (bad > 0 && (double)bad / (double)all > 1e-4) {
        struct doctor_finding *found = finding(doctor, "the interface has errors");
        text_add(found->evidence,
                 "%s: %llu receive errors, %llu send errors, %llu collisions, %llu "
                 "packets received",
                 link->name, (unsigned long long)counters->rx_errors,
                 (unsigned long long)counters->tx_errors, (unsigned long long)counters->collisions,
                 (unsigned long long)counters->rx_packets);
        text_add(found->change, "look at cable, switch port and duplex");
    }
    if (link->speed_mbit > 0 && link->speed_mbit < SLOW_MBIT) {
        struct doctor_finding *found = finding(doctor, "the interface is slow");
        text_add(found->evidence, "%s runs at %lld Mbit/s: %.1f MB/s at the very most", link->name,
                 (long long)link->speed_mbit, (double)link->speed_mbit / 8);
        text_add(found->change, "look at cable and switch port, if it should be faster");
    }
}

static void look_at_link(struct doctor *doctor)
{
    struct link_state *link = &doctor->link;
    struct err err = {0};
    char speed[64] = "";

    if (link_find(&doctor->address, link, &err) != 0) {
        step(doctor, "route", DOCTOR_FAILED, "%.400s", err.text);
        broken(doctor, "there is no route to the host", "look at `ip route get`");
        return;
    }
    if (link->speed_mbit > 0) {
        (void)snprintf(speed, sizeof speed, ", %lld Mbit/s %s duplex", (long long)link->speed_mbit,
                       link->duplex[0] != '\0' ? link->duplex : "unknown");
    }
    uint32_t before = doctor->finding_count;
    judge_link(doctor);
    bool odd = doctor->finding_count > before || !link->up;
    step(doctor, "interface", odd ? DOCTOR_ODD : DOCTOR_GOOD,
         "%s, MTU %u%s, %llu errors and %llu drops among %llu packets received", link->name,
         link->mtu, speed, (unsigned long long)link->counters.rx_errors,
         (unsigned long long)link->counters.rx_dropped,
         (unsigned long long)link->counters.rx_packets);
}

/* ---- echo and path MTU ---- */

/* One that is lost is tried again: packets are lost for other reasons than their size. */
static bool passes_whole(const struct doctor *doctor, uint32_t bytes, uint32_t timeout_ms)
{
    bool back = false;
    double ms;

    for (int i = 0; i < WHOLE_TRIES && !back; i++) {
        back = link_echo(&doctor->address, bytes, true, timeout_ms, &ms) == LINK_ECHO_BACK;
    }
    return back;
}

/* Largest packet that comes back whole, by halves. */
static uint32_t find_path_mtu(struct doctor *doctor, uint32_t timeout_ms)
{
    uint32_t good = SMALL_PACKET_BYTES;
    uint32_t bad = doctor->link.mtu < 65000 ? doctor->link.mtu + 1 : 65000;

    if (passes_whole(doctor, bad - 1, timeout_ms)) {
        return bad - 1;
    }
    while (bad - good > 1) {
        uint32_t middle = good + (bad - good) / 2;
        *(passes_whole(doctor, middle, timeout_ms) ? &good : &bad) = middle;
    }
    return good;
}

static void judge_large_echo(struct doctor *doctor, uint32_t timeout_ms)
{
    static const uint32_t sizes[] = {1500, 4096, 8336};
    char lost[64] = "";
    double ms;

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        int back = 0;
        for (int n = 0; n < ECHO_COUNT; n++) {
            back += link_echo(&doctor->address, sizes[i], false, timeout_ms, &ms) == LINK_ECHO_BACK;
        }
        if (back < ECHO_COUNT) {
            size_t at = strlen(lost);
            (void)snprintf(lost + at, sizeof lost - at, "%s%u of %d of %u bytes",
                           at > 0 ? ", " : "", (unsigned)(ECHO_COUNT - back), ECHO_COUNT, sizes[i]);
        }
    }
    bool same = doctor->path_mtu >= doctor->link.mtu || doctor->path_mtu >= 65000 - 1;
    step(doctor, "packet sizes", lost[0] == '\0' && same ? DOCTOR_GOOD : DOCTOR_ODD,
         "packets up to %u bytes pass whole%s%s", doctor->path_mtu,
         lost[0] != '\0' ? "; echoes lost: " : "; larger ones in fragments", lost);
    if (lost[0] != '\0') {
        struct doctor_finding *found = finding(doctor, "large packets are lost");
        text_add(found->evidence, "echoes lost: %s; small ones come back", lost);
        text_add(found->change,
                 "use TCP, or blocks over UDP that need no fragments; look for a firewall "
                 "that drops fragments, and for a receiver without room for bursts");
    }
    if (!same) {
        struct doctor_finding *found =
            finding(doctor, "somewhere on the way packets must be smaller");
        text_add(found->evidence, "MTU %u here, but %u bytes are the most that pass whole",
                 doctor->link.mtu, doctor->path_mtu);
        text_add(found->change,
                 "set the same MTU on the whole way, above all if jumbo frames are meant");
    }
}

/* After the echoes, which have made the kernel ask for the neighbour. */
static void look_at_neighbour(struct doctor *doctor)
{
    const struct link_state *link = &doctor->link;
    enum link_neighbour neighbour = link_neighbour(link, &doctor->address);
    if (neighbour == LINK_NEIGHBOUR_FAILED) {
        step(doctor, "neighbour", DOCTOR_FAILED, "%s does not answer on %s",
             link->has_gateway ? "the gateway" : "the host", link->name);
        broken(doctor, "nobody answers at the next address on the way",
               "is it switched on, and on this network? `ip neigh` shows the entry");
    } else if (neighbour == LINK_NEIGHBOUR_GOOD) {
        step(doctor, "neighbour", DOCTOR_GOOD, "%s is known on %s",
             link->has_gateway ? "the gateway" : "the host", link->name);
    }
}

static void look_at_echo(const struct doctor_options *options, struct doctor *doctor)
{
    uint32_t timeout_ms = options->echo_timeout_ms > 0 ? options->echo_timeout_ms : ECHO_MS;
    enum link_echo result = LINK_ECHO_LOST;
    double ms = 0, best_ms = -1;
    int back = 0;

    for (int i = 0; i < ECHO_COUNT && result != LINK_ECHO_NOT_ALLOWED; i++) {
        result = link_echo(&doctor->address, SMALL_PACKET_BYTES, false, timeout_ms, &ms);
        if (result == LINK_ECHO_BACK) {
            back++;
            best_ms = best_ms < 0 || ms < best_ms ? ms : best_ms;
        }
    }
    doctor->echo_ms = best_ms;
    if (result == LINK_ECHO_NOT_ALLOWED) {
        step(doctor, "echo", DOCTOR_UNSEEN, "ICMP needs root here, or net.ipv4.ping_group_range");
        return;
    }
    if (back == 0) {
        look_at_neighbour(doctor);
        step(doctor, "echo", doctor->stopped ? DOCTOR_FAILED : DOCTOR_ODD,
             "no ICMP echo comes back%s", doctor->stopped ? "" : "; many hosts do not answer");
        return;
    }
    look_at_neighbour(doctor);
    step(doctor, "echo", back == ECHO_COUNT ? DOCTOR_GOOD : DOCTOR_ODD,
         "%d of %d come back, the quickest in %.3f ms", back, ECHO_COUNT, best_ms);
    if (back < ECHO_COUNT) {
        struct doctor_finding *found = finding(doctor, "even small packets are lost");
        text_add(found->evidence, "%d of %d echoes of %u bytes came back", back, ECHO_COUNT,
                 SMALL_PACKET_BYTES);
        text_add(found->change, "look at the network before NFS: cable, switch, load");
    }
    doctor->path_mtu = find_path_mtu(doctor, timeout_ms);
    judge_large_echo(doctor, timeout_ms);
}

/* ---- RPC ---- */

static bool has_nfs(const struct ping_result *result, uint32_t vers, bool tcp)
{
    for (uint32_t i = 0; i < result->target_count; i++) {
        const struct ping_target *target = &result->targets[i];
        if (target->prog == 100003 && target->vers == vers && target->tcp == tcp) {
            return true;
        }
    }
    return false;
}

/* The programs to call: what the portmapper lists, or the port that the URL names. */
static bool find_programs(const struct doctor_options *options, struct doctor *doctor,
                          const struct ping_options *ping, struct ping_result *result)
{
    struct err err = {0};

    if (options->url.nfs_port != 0 && options->url.mount_port != 0) {
        ping_guess_targets(options->url.nfs_port, result);
        step(doctor, "portmapper", DOCTOR_UNSEEN, "not asked: the URL names the ports");
        return true;
    }
    if (ping_find_targets(ping, result, &err) != 0) {
        ping_guess_targets(options->url.nfs_port != 0 ? options->url.nfs_port : NFS_PORT, result);
        step(doctor, "portmapper", DOCTOR_ODD, "%.400s", err.text);
        struct doctor_finding *found = finding(doctor, "no portmapper answers");
        text_add(found->evidence, "%.400s", err.text);
        text_add(found->change,
                 "NFSv4 needs none; for NFSv3 let the server run one, open port 111, or "
                 "mount with port= and mountport=");
        return true;
    }
    for (uint32_t i = 0; options->url.nfs_port != 0 && i < result->target_count; i++) {
        if (result->targets[i].prog == 100003) {
            result->targets[i].port = options->url.nfs_port; /* what the mount will use */
        }
    }
    step(doctor, "portmapper", DOCTOR_GOOD, "lists %u programs; NFSv3 over%s%s%s",
         result->target_count, has_nfs(result, 3, true) ? " tcp" : "",
         has_nfs(result, 3, false) ? " udp" : "",
         has_nfs(result, 3, true) || has_nfs(result, 3, false) ? "" : " nothing");
    return true;
}

/* NFS NULL, a hundred of each. */
static void look_at_rpc(const struct doctor_options *options, struct doctor *doctor)
{
    struct ping_options ping = {.address = doctor->address,
                                .count = BURST_COUNT,
                                .interval_us = BURST_INTERVAL_US,
                                .timeout_ms = 1000};
    struct ping_result *result = calloc(1, sizeof *result);
    struct err err = {0};
    bool answers = false;

    if (result == NULL || !find_programs(options, doctor, &ping, result) ||
        ping_run(&ping, true, result, &err) != 0) {
        step(doctor, "RPC", DOCTOR_FAILED, "%.400s", err.text);
        free(result);
        return;
    }
    for (uint32_t i = 0; i < result->target_count; i++) {
        struct ping_target *target = &result->targets[i];
        uint32_t lost = target->samples.lost, all = target->samples.count + lost;
        if (target->prog != 100003 || target->vers != 3 || target->state != PING_ANSWERS) {
            continue;
        }
        answers = true;
        bool lossy = (double)lost > LOSSY_PART * (double)all;
        double half_ms = (double)samples_percentile(&target->samples, 0.5) / 1e6;
        bool slow = doctor->echo_ms >= 0 && half_ms > SLOW_NULL_MS + 2 * doctor->echo_ms;
        step(doctor, target->tcp ? "NFS over tcp" : "NFS over udp",
             lossy || slow ? DOCTOR_ODD : DOCTOR_GOOD,
             "%u of %u NULL calls answered, half of them within %.3f ms", target->samples.count,
             all, half_ms);
        if (slow) {
            struct doctor_finding *found = finding(doctor, "calls wait for a processor");
            text_add(found->evidence, "NULL, which does nothing, takes %.1f ms over %s, an echo "
                     "%.3f",
                     half_ms, target->tcp ? "tcp" : "udp", doctor->echo_ms);
            text_add(found->change, "see what else runs on the server, and on this machine");
        }
        if (lossy) {
            struct doctor_finding *found = finding(doctor, "small calls are lost");
            text_add(found->evidence, "%u of %u NULL calls over %s got no answer", lost, all,
                     target->tcp ? "tcp" : "udp");
            text_add(found->change,
                     "`holdfast spray` says whether the way or the server's socket loses "
                     "them");
        }
    }
    ping_result_close(result);
    free(result);
    if (!answers) {
        step(doctor, "NFS", DOCTOR_FAILED, "NFSv3 does not answer, neither over TCP nor over UDP");
        broken(doctor, "the host runs no NFSv3 that this machine can reach",
               "is the server started, and port 2049 open?");
    }
}

struct exports_seen {
    uint32_t count;
    char list[256];
};

static void see_export(void *owner, const char *path, const char *groups)
{
    struct exports_seen *seen = owner;
    size_t at = strlen(seen->list);
    (void)groups;
    seen->count++;
    (void)snprintf(seen->list + at, sizeof seen->list - at, "%s%s", at > 0 ? ", " : "", path);
}

static void look_at_exports(const struct doctor_options *options, struct doctor *doctor)
{
    struct exports_seen seen = {0};
    struct err err = {0};

    if (client_mount_exports(&options->url, see_export, &seen, &err) != 0) {
        step(doctor, "MOUNT", DOCTOR_FAILED, "%.400s", err.text);
        broken(doctor, "MOUNT does not answer", "is mountd started, and its port open?");
        return;
    }
    step(doctor, "MOUNT", seen.count > 0 ? DOCTOR_GOOD : DOCTOR_ODD, "%u exports: %s", seen.count,
         seen.list);
}

/* ---- baselines ---- */

static void take_advice(struct doctor *doctor)
{
    const struct baseline *baseline = &doctor->baseline;
    const struct baseline_small *small = &baseline->small;

    for (uint32_t i = 0; i < baseline->advice_count; i++) {
        const struct baseline_advice *advice = &baseline->advice[i];
        if (advice->gain < GAIN_MIN) {
            continue; /* what is as it should be is in the baseline's own words */
        }
        struct doctor_finding *found = finding(doctor, advice->finding);
        found->gain = advice->gain;
        text_add(found->evidence, "%.500s", advice->evidence);
        text_add(found->change, "%.500s", advice->change);
    }
    const struct baseline_point *read = baseline->best[LOAD_READ][BASELINE_TCP];
    const struct baseline_point *udp = baseline->best[LOAD_READ][BASELINE_UDP];
    char rate[32], udp_rate[32];
    step(doctor, "throughput", DOCTOR_GOOD, "reading: %s over tcp, %s over udp",
         read != NULL ? baseline_rate_text(baseline_rate(read), rate) : "not",
         udp != NULL ? baseline_rate_text(baseline_rate(udp), udp_rate) : "not");
    if (small->file_count > 0) {
        step(doctor, "small files", small->waits ? DOCTOR_ODD : DOCTOR_GOOD,
             "%.2f ms to unpack one, of which %.2f ms are waiting for stable storage",
             small->per_file_ms, small->storage_ms);
    }
}

static void look_at_baseline(const struct doctor_options *options, struct doctor *doctor)
{
    struct err err = {0};
    struct baseline_options baseline = {
        .url = options->url,
        .transports = {true, true},
        .kinds = {true, true},
        .sequential = true,
        .blocks = {1024, 2048, 4096, 8192, 32768, 1 << 20},
        .block_count = 6,
        .in_flight = {1, 8},
        .in_flight_count = 2,
        .duration_ms = 100,
        .file_bytes = 8 << 20,
        .fill_ms_max = FILL_MS,
        .small_file_count = 30,
        .making = options->making,
        .stopping = options->stopping,
        .owner = options->owner,
    };

    int error = baseline_run(&baseline, &doctor->baseline, &err);
    if (error == -EINTR) {
        step(doctor, "export", DOCTOR_UNSEEN, "%s", err.text);
    } else if (error != 0) {
        step(doctor, "export", DOCTOR_FAILED, "%.400s", err.text);
        broken(doctor, "the export cannot be used",
               "look at the server's exports: does this host "
               "get it, to write, and may this user? And did the server go away meanwhile?");
        if (doctor->baseline.left_behind[0] != '\0') {
            text_add(doctor->findings[doctor->finding_count - 1].evidence, "; %.300s",
                     doctor->baseline.left_behind);
        }
    } else {
        take_advice(doctor);
    }
    doctor->has_baseline = true;
}

/* ---- together ---- */

static int by_weight(const void *a, const void *b)
{
    const struct doctor_finding *left = a, *right = b;
    if (left->broken != right->broken) {
        return left->broken ? -1 : 1;
    }
    return (left->gain < right->gain) - (left->gain > right->gain);
}

void doctor_run(const struct doctor_options *options, struct doctor *doctor)
{
    static const char *const layers[] = {"name", "link", "echo", "RPC", "exports", "baselines"};

    *doctor = (struct doctor){.options = options, .echo_ms = -1};
    for (size_t i = 0; i < COUNT_OF(layers) && !doctor->stopped; i++) {
        if (options->progress != NULL) {
            options->progress(options->owner, layers[i]);
        }
        switch (i) {
        case 0:
            look_at_name(options, doctor);
            break;
        case 1:
            look_at_link(doctor);
            break;
        case 2:
            look_at_echo(options, doctor);
            break;
        case 3:
            look_at_rpc(options, doctor);
            break;
        case 4:
            look_at_exports(options, doctor);
            break;
        default:
            look_at_baseline(options, doctor);
            break;
        }
    }
    qsort(doctor->findings, doctor->finding_count, sizeof doctor->findings[0], by_weight);
}

void doctor_close(struct doctor *doctor)
{
    if (doctor->has_baseline) {
        baseline_close(&doctor->baseline);
    }
}

void doctor_report(struct report *report, struct doctor *doctor)
{
    struct report *steps = report_add_array(report, "layers");
    for (uint32_t i = 0; i < doctor->step_count; i++) {
        struct report *object = report_add_object(steps, NULL);
        report_add_text(object, "layer", doctor->steps[i].layer);
        report_add_text(object, "state", doctor_state_name(doctor->steps[i].state));
        report_add_text(object, "text", doctor->steps[i].text);
    }
    report_add_bool(report, "stopped", doctor->stopped);
    if (doctor->path_mtu > 0) {
        report_add_u64(report, "path_mtu", doctor->path_mtu);
    }
    struct report *findings = report_add_array(report, "findings");
    for (uint32_t i = 0; i < doctor->finding_count; i++) {
        const struct doctor_finding *found = &doctor->findings[i];
        struct report *object = report_add_object(findings, NULL);
        report_add_text(object, "finding", found->finding);
        report_add_text(object, "evidence", found->evidence);
        report_add_text(object, "change", found->change);
        if (found->gain > 0) {
            report_add_real(object, "times_faster", found->gain);
        }
    }
    if (doctor->has_baseline && !doctor->stopped) {
        baseline_report(report_add_object(report, "baseline"), &doctor->baseline);
    }
}
