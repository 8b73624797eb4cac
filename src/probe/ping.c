/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ping.h"

#include "client/rpc.h"
#include "client/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_US 1000LL
#define NS_PER_MS 1000000LL
#define UDP_WINDOW 65535U /* as many as are due */

static const struct {
    uint32_t prog;
    const char *name;
    uint32_t vers_min, vers_max; /* what may be there */
} programs[] = {
    {100000, "portmap", 2, 4}, {100003, "nfs", 2, 4},    {100005, "mount", 1, 3},
    {100021, "nlm", 1, 4},     {100024, "status", 1, 1}, {100012, "spray", 1, 1},
    {100227, "nfs_acl", 2, 3}, {100011, "rquota", 1, 2},
};

const char *ping_program_name(uint32_t prog)
{
    for (size_t i = 0; i < COUNT_OF(programs); i++) {
        if (programs[i].prog == prog) {
            return programs[i].name;
        }
    }
    return NULL;
}

const char *ping_state_name(enum ping_state state)
{
    static const char *const names[] = {
        [PING_ANSWERS] = "answers",        [PING_UNAVAILABLE] = "no such program",
        [PING_MISMATCH] = "wrong version", [PING_REFUSED] = "nobody listens",
        [PING_SILENT] = "no answer",       [PING_DENIED] = "refused",
    };
    return names[state];
}

/* ---- targets ---- */

static int compare_entries(const void *a, const void *b)
{
    const struct client_pmap_entry *left = a, *right = b;
    if (left->prog != right->prog) {
        return left->prog < right->prog ? -1 : 1;
    }
    if (left->vers != right->vers) {
        return left->vers < right->vers ? -1 : 1;
    }
    return (int)left->tcp - (int)right->tcp;
}

static void add_target(struct ping_result *result, uint32_t prog, uint32_t vers, bool tcp,
                       uint16_t port)
{
    if (result->target_count < PING_TARGET_COUNT_MAX) {
        result->targets[result->target_count++] =
            (struct ping_target){.prog = prog, .vers = vers, .tcp = tcp, .port = port};
    }
}

int ping_find_targets(const struct ping_options *options, struct ping_result *result,
                      struct err *err)
{
    struct client_address address = options->address;
    struct client_pmap_entry *entries = NULL;
    struct client_loop *loop;
    size_t count = 0;

    int error = client_loop_open(&loop);
    if (error != 0) {
        return err_set(err, error, "cannot make an event loop: %s", strerror(-error));
    }
    client_address_set_port(&address, 0);
    struct client_pmap_query query = {
        .loop = loop, .address = &address.sa, .address_bytes = address.bytes, .tcp = true};
    error = client_pmap_dump(&query, &entries, &count);
    client_loop_close(loop);
    if (error != 0) {
        free(entries);
        return err_set(err, error, "the portmapper: %s", strerror(-error));
    }
    if (count > 0) {
        qsort(entries, count, sizeof *entries, compare_entries);
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_entries(&entries[i], &entries[i - 1]) != 0) {
            add_target(result, entries[i].prog, entries[i].vers, entries[i].tcp, entries[i].port);
        }
    }
    free(entries);
    return 0;
}

void ping_guess_targets(uint16_t port, struct ping_result *result)
{
    for (size_t i = 0; i < COUNT_OF(programs); i++) {
        for (uint32_t vers = programs[i].vers_min; vers <= programs[i].vers_max; vers++) {
            add_target(result, programs[i].prog, vers, false, port);
            add_target(result, programs[i].prog, vers, true, port);
        }
    }
}

/* ---- calls ---- */

struct pinging;

/* One call: when it was due. */
struct due {
    struct pinging *pinging;
    int64_t due_ns;
};

/* A target under way. */
struct pinging {
    struct ping_target *target;
    const struct ping_options *options;
    struct client_loop *loop;
    struct client_rpc *rpc;
    struct client_timer timer;
    int64_t start_ns;
    uint32_t sent, done;
    struct due *dues;
};

static void answered(void *owner, const struct client_reply *reply)
{
    struct due *due = owner;
    struct pinging *pinging = due->pinging;
    struct ping_target *target = pinging->target;
    int64_t wait_ns = reply->received_ns - due->due_ns;

    pinging->done++;
    if (reply->error != 0) {
        samples_add_lost(&target->samples);
    } else if (wait_ns > pinging->options->timeout_ms * NS_PER_MS) {
        samples_add_lost(&target->samples);
        target->late++;
    } else {
        samples_add(&target->samples, wait_ns);
    }
}

/* Sends all that is due, and waits for the next. */
static void send_due(struct client_timer *timer)
{
    struct pinging *pinging = CONTAINER_OF(timer, struct pinging, timer);
    int64_t interval_ns = pinging->options->interval_us * NS_PER_US;
    int64_t now_ns = client_loop_fresh_ns(pinging->loop);

    while (pinging->sent < pinging->options->count) {
        int64_t due_ns = pinging->start_ns + pinging->sent * interval_ns;
        if (due_ns > now_ns) {
            client_timer_set(pinging->loop, timer, due_ns);
            return;
        }
        struct due *due = &pinging->dues[pinging->sent];
        *due = (struct due){pinging, due_ns};
        if (client_rpc_call(pinging->rpc, 0, NULL, answered, due) != 0) {
            samples_add_lost(&pinging->target->samples);
            pinging->done++;
        }
        pinging->sent++;
    }
}

static int open_target(const struct ping_options *options, struct client_loop *loop,
                       struct ping_target *target, struct client_rpc **rpc, struct err *err)
{
    struct client_address address = options->address;
    client_address_set_port(&address, target->port);
    struct client_rpc_options rpc_options = {
        .loop = loop,
        .address = &address.sa,
        .address_bytes = address.bytes,
        .prog = target->prog,
        .vers = target->vers,
        .tcp = target->tcp,
        .cred = {.none = true},
        .insecure = true,
        .soft = true,
        .once = true,
        .fail_before_contact = true,
        .timeo_ms = options->timeout_ms,
        .udp_window = UDP_WINDOW,
    };
    return client_rpc_open(&rpc_options, rpc, err);
}

/* The first call: is it there at all? A lost datagram must not decide that, so there are three. */
static void look(struct client_loop *loop, struct client_rpc *rpc, struct ping_target *target)
{
    struct client_answer answer = {0};
    int64_t start_ns = client_loop_fresh_ns(loop);
    int error = -ETIMEDOUT;

    for (int i = 0; i < 3 && error == -ETIMEDOUT; i++) {
        error = client_wait(loop, rpc, 0, NULL, &answer);
    }
    target->connect_ns = error == 0 && target->tcp ? client_loop_now_ns(loop) - start_ns : -1;
    target->low = answer.low;
    target->high = answer.high;
    (void)snprintf(target->text, sizeof target->text, "%s", error != 0 ? answer.text : "");
    target->state = error == 0                                         ? PING_ANSWERS
                    : answer.fault == CLIENT_FAULT_PROG_UNAVAIL        ? PING_UNAVAILABLE
                    : answer.fault == CLIENT_FAULT_PROG_MISMATCH       ? PING_MISMATCH
                    : error == -ECONNREFUSED || error == -EHOSTUNREACH ? PING_REFUSED
                    : error == -ETIMEDOUT                              ? PING_SILENT
                                                                       : PING_DENIED;
    client_answer_free(&answer);
}

static bool is_absent(const struct ping_target *target)
{
    return target->state == PING_UNAVAILABLE || target->state == PING_MISMATCH ||
           target->state == PING_REFUSED || target->state == PING_SILENT;
}

static int prepare(const struct ping_options *options, struct client_loop *loop,
                   struct ping_target *target, struct pinging *pinging, struct err *err)
{
    *pinging = (struct pinging){.target = target, .options = options, .loop = loop};
    int error = samples_open(&target->samples, options->count);
    if (error == 0) {
        error = open_target(options, loop, target, &pinging->rpc, err);
    }
    if (error == 0) {
        look(loop, pinging->rpc, target);
        pinging->dues = calloc(options->count, sizeof *pinging->dues);
        error = pinging->dues == NULL ? -ENOMEM : 0;
    }
    if (error == 0) {
        error = client_timer_open(loop, &pinging->timer, send_due);
    }
    return error;
}

static void drop_absent_targets(struct ping_result *result)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < result->target_count; i++) {
        if (is_absent(&result->targets[i])) {
            samples_close(&result->targets[i].samples);
        } else {
            result->targets[kept++] = result->targets[i];
        }
    }
    result->target_count = kept;
}

static bool all_done(const struct pinging *pinging, const struct ping_result *result)
{
    for (uint32_t i = 0; i < result->target_count; i++) {
        if (result->targets[i].state == PING_ANSWERS &&
            pinging[i].done < pinging[i].options->count) {
            return false;
        }
    }
    return true;
}

int ping_run(const struct ping_options *options, bool drop_absent, struct ping_result *result,
             struct err *err)
{
    struct client_loop *loop = NULL;
    uint32_t opened = 0;

    struct pinging *pinging = calloc(PING_TARGET_COUNT_MAX, sizeof *pinging);
    int error = pinging == NULL ? -ENOMEM : client_loop_open(&loop);
    while (error == 0 && opened < result->target_count) {
        error = prepare(options, loop, &result->targets[opened], &pinging[opened], err);
        opened++;
    }
    /* The targets take turns within the interval. */
    int64_t start_ns = error == 0 ? client_loop_fresh_ns(loop) + NS_PER_MS : 0;
    for (uint32_t i = 0; error == 0 && i < opened; i++) {
        if (result->targets[i].state == PING_ANSWERS) {
            pinging[i].start_ns = start_ns + options->interval_us * NS_PER_US * i / opened;
            client_timer_set(loop, &pinging[i].timer, pinging[i].start_ns);
        }
    }
    while (error == 0 && !all_done(pinging, result)) {
        error = client_loop_turn(loop, -1);
    }
    for (uint32_t i = 0; i < opened; i++) {
        client_timer_close(loop, &pinging[i].timer);
        client_rpc_close(pinging[i].rpc);
        free(pinging[i].dues);
    }
    client_loop_close(loop);
    free(pinging);
    if (error == 0 && drop_absent) {
        drop_absent_targets(result);
    }
    return error == 0 ? 0 : err_set(err, error, "cannot ping: %s", strerror(-error));
}

void ping_result_close(struct ping_result *result)
{
    for (uint32_t i = 0; i < result->target_count; i++) {
        samples_close(&result->targets[i].samples);
    }
}

/* ---- report ---- */

static void report_percentile(struct report *object, const char *key, struct samples *samples,
                              double part)
{
    int64_t ns = samples_percentile(samples, part);
    if (ns < 0) {
        report_add_null(object, key);
    } else {
        report_add_real(object, key, (double)ns / 1000);
    }
}

void ping_report(struct report *report, struct ping_result *result)
{
    struct report *targets = report_add_array(report, "targets");

    for (uint32_t i = 0; i < result->target_count; i++) {
        struct ping_target *target = &result->targets[i];
        struct report *object = report_add_object(targets, NULL);
        const char *name = ping_program_name(target->prog);
        report_add_u64(object, "program", target->prog);
        if (name != NULL) {
            report_add_text(object, "name", name);
        }
        report_add_u64(object, "version", target->vers);
        report_add_text(object, "transport", target->tcp ? "tcp" : "udp");
        report_add_u64(object, "port", target->port);
        report_add_text(object, "state", ping_state_name(target->state));
        if (target->state == PING_MISMATCH) {
            report_add_u64(object, "low", target->low);
            report_add_u64(object, "high", target->high);
        }
        if (target->state != PING_ANSWERS) {
            continue;
        }
        if (target->connect_ns >= 0) {
            report_add_real(object, "connect_us", (double)target->connect_ns / 1000);
        }
        report_add_u64(object, "answered", target->samples.count);
        report_add_u64(object, "lost", target->samples.lost);
        report_add_u64(object, "late", target->late);
        report_percentile(object, "min_us", &target->samples, 0);
        report_percentile(object, "p50_us", &target->samples, 0.5);
        report_percentile(object, "p90_us", &target->samples, 0.9);
        report_percentile(object, "p99_us", &target->samples, 0.99);
        report_percentile(object, "p999_us", &target->samples, 0.999);
        report_percentile(object, "max_us", &target->samples, 1);
    }
}
