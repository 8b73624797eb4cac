/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/load.h"

#include "client/nfs2.h"
#include "client/wait.h"
#include "proto/nfs2.h"

#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_US 1000LL
#define NS_PER_MS 1000000LL
#define SAMPLE_COUNT_MAX 2000000U
#define TURN_MS 20
#define FEW_ANSWERS 20U /* too few to say anything, if calls were lost */
#define UDP_HEADER_BYTES 8U
#define READ_REPLY_BYTES 128U /* of a READ's reply before the data, as most servers have it */
#define IPV4_HEADER_BYTES 20U
#define IPV6_HEADERS_BYTES 48U /* with the fragment header */

/* One of the requests in flight. */
struct slot {
    struct load *load;
    struct client_timer timer;
    uint64_t offset;
};

struct load {
    const struct load_options *options;
    struct load_result *result;
    struct client_loop *loop;
    struct client_rpc *rpc;
    struct slot *slots;
    uint8_t *data;
    uint64_t next_offset;
    uint64_t random;
    int64_t start_ns, end_ns;
    int64_t progress_ns; /* the last reply that was not waited for by a timer */
    uint32_t open_count; /* slots with a timer */
    uint32_t calling;
    bool stopping;
};

uint32_t load_fragments(uint32_t datagram_bytes, uint32_t mtu, bool ipv6)
{
    uint32_t header = ipv6 ? IPV6_HEADERS_BYTES : IPV4_HEADER_BYTES;
    if (mtu <= header + 8 || datagram_bytes + (ipv6 ? 40 : header) <= mtu) {
        return 1;
    }
    uint32_t each = (mtu - header) & ~7U;
    uint32_t last = mtu - header; /* the last one need not be a multiple */
    uint32_t rest = datagram_bytes > last ? datagram_bytes - last : 0;
    return (rest + each - 1) / each + 1;
}

/* ---- requests ---- */

/* xorshift64: any sequence will do, the same every time. */
static uint64_t next_random(struct load *load)
{
    load->random ^= load->random << 13;
    load->random ^= load->random >> 7;
    load->random ^= load->random << 17;
    return load->random;
}

static uint64_t next_offset(struct load *load)
{
    const struct load_options *options = load->options;
    uint64_t blocks = options->file_bytes / options->block_bytes;
    if (options->random) {
        return next_random(load) % blocks * options->block_bytes;
    }
    uint64_t offset = load->next_offset;
    load->next_offset =
        offset / options->block_bytes + 1 < blocks ? offset + options->block_bytes : 0;
    return offset;
}

static void fail(struct load *load, int status)
{
    if (!load->stopping && load->result->status == 0) {
        load->result->status = status;
        load->stopping = true;
    }
}

static int status_and_bytes(const struct load *load, const struct client_reply *reply,
                            uint32_t *bytes)
{
    *bytes = 0;
    if (reply->error != 0) {
        return reply->error;
    }
    if (load->options->kind == LOAD_READ) {
        const struct READ3res *res = reply->res;
        *bytes = res->status == NFS3_OK ? res->resok.data.size : 0;
        return (int)res->status;
    }
    const struct WRITE3res *res = reply->res;
    *bytes = res->status == NFS3_OK ? res->resok.count : 0;
    return (int)res->status;
}

static void send_next(struct slot *slot);

static bool is_over(const struct load *load, int64_t now_ns)
{
    struct client_rpc_stats stats;
    if (now_ns < load->end_ns) {
        return false;
    }
    client_rpc_stats(load->rpc, &stats);
    bool few =
        load->result->calls < FEW_ANSWERS && (stats.timeouts > 0 || load->result->calls == 0);
    return !few || now_ns >= load->start_ns + load->options->duration_ms_max * NS_PER_MS;
}

static void answered(void *owner, const struct client_reply *reply)
{
    struct slot *slot = owner;
    struct load *load = slot->load;
    struct load_result *result = load->result;
    uint32_t bytes;

    load->calling--;
    int status = status_and_bytes(load, reply, &bytes);
    if (load->stopping) {
        return;
    }
    if (status != 0 || bytes == 0) {
        fail(load, status != 0 ? status : -EIO);
        return;
    }
    result->calls++;
    result->bytes += bytes;
    result->answer_bytes = bytes > result->answer_bytes ? bytes : result->answer_bytes;
    samples_add(&result->samples, reply->received_ns - reply->first_sent_ns);
    if (reply->transmissions > 1) {
        int64_t from_ns =
            reply->first_sent_ns > load->progress_ns ? reply->first_sent_ns : load->progress_ns;
        result->waited_ns += reply->sent_ns > from_ns ? reply->sent_ns - from_ns : 0;
    }
    load->progress_ns = reply->received_ns;
    if (is_over(load, reply->received_ns)) {
        load->stopping = true;
    } else if (load->options->delay_us > 0) {
        client_timer_set(load->loop, &slot->timer,
                         reply->received_ns + load->options->delay_us * NS_PER_US);
    } else {
        send_next(slot);
    }
}

static int call(struct slot *slot)
{
    struct load *load = slot->load;
    const struct load_options *options = load->options;

    if (options->kind == LOAD_READ) {
        struct READ3args args = {client_fh3(&options->file), slot->offset, options->block_bytes};
        return client_rpc_call(load->rpc, NFSPROC3_READ, &args, answered, slot);
    }
    struct WRITE3args args = {
        .file = client_fh3(&options->file),
        .offset = slot->offset,
        .count = options->block_bytes,
        .stable = UNSTABLE,
        .data = {load->data, options->block_bytes},
    };
    return client_rpc_call(load->rpc, NFSPROC3_WRITE, &args, answered, slot);
}

static void send_next(struct slot *slot)
{
    struct load *load = slot->load;

    slot->offset = next_offset(load);
    int error = call(slot);
    if (error != 0) {
        fail(load, error);
        return;
    }
    load->calling++;
}

static void delay_over(struct client_timer *timer)
{
    struct slot *slot = CONTAINER_OF(timer, struct slot, timer);
    if (!slot->load->stopping) {
        send_next(slot);
    }
}

/* ---- what was seen on the way ---- */

static void seen(void *owner, const struct client_event *event)
{
    struct load *load = owner;
    bool ours = load->options->kind == LOAD_READ ? event->kind == CLIENT_REPLIED
                                                 : event->kind == CLIENT_SENT;
    if (ours && event->bytes + UDP_HEADER_BYTES > load->result->datagram_bytes) {
        load->result->datagram_bytes = event->bytes + UDP_HEADER_BYTES;
    }
}

/* What this machine thinks of the way there; the server's own view of the way back is not known,
 * but rarely another. */
static uint32_t path_mtu(const struct client_address *address)
{
    int mtu = 0;
    socklen_t bytes = sizeof mtu;
    bool ipv6 = address->sa.sa_family == AF_INET6;
    int fd = socket(address->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return 0;
    }
    if (connect(fd, &address->sa, address->bytes) != 0 ||
        getsockopt(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_MTU : IP_MTU, &mtu, &bytes) !=
            0) {
        mtu = 0;
    }
    close(fd);
    return mtu > 0 ? (uint32_t)mtu : 0;
}

static void keep_stats(struct load *load)
{
    struct load_result *result = load->result;
    const struct client_address *address = &load->options->mount->address;
    struct client_rpc_stats stats;

    client_rpc_stats(load->rpc, &stats);
    result->retransmitted = stats.retransmitted;
    result->timeouts = stats.timeouts;
    result->late_duplicates = stats.late_duplicates;
    result->refused = stats.refused;
    if (stats.timeouts > 0 && stats.outstanding > 0) {
        result->waited_ns += load->start_ns + result->elapsed_ns - load->progress_ns;
    }
    if (load->options->tcp) {
        result->datagram_bytes = 0;
        return;
    }
    if (result->datagram_bytes == 0) {
        /* Not one reply came. */
        result->datagram_bytes = load->options->block_bytes + READ_REPLY_BYTES + UDP_HEADER_BYTES;
    }
    result->mtu = path_mtu(address);
    result->fragments =
        load_fragments(result->datagram_bytes, result->mtu, address->sa.sa_family == AF_INET6);
}

/* ---- running ---- */

static int prepare(struct load *load, struct err *err)
{
    const struct load_options *options = load->options;
    const struct client_mount *mount = options->mount;
    const struct client_rpc_options rpc_options = {
        .loop = load->loop,
        .address = &mount->address.sa,
        .address_bytes = mount->address.bytes,
        .prog = NFS_PROGRAM,
        .vers = mount->url.version,
        .speak = mount->url.version == NFS_VERSION ? client_nfs2_call : NULL,
        .tcp = options->tcp,
        .cred = mount->cred,
        .insecure = mount->url.insecure,
        .fail_before_contact = true,
        .timeo_ms = options->timeo_ms,
        .rto_ms_min = options->tcp ? 0 : options->timeo_ms,
        .udp_window = options->in_flight,
        .receive_buffer_bytes = options->receive_buffer_bytes,
        .on_event = seen,
        .owner = load,
    };
    load->slots = calloc(options->in_flight, sizeof *load->slots);
    load->data = malloc(options->block_bytes);
    if (load->slots == NULL || load->data == NULL ||
        samples_open(&load->result->samples, SAMPLE_COUNT_MAX) != 0) {
        return err_set(err, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < options->block_bytes; i++) {
        load->data[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    for (; load->open_count < options->in_flight; load->open_count++) {
        struct slot *slot = &load->slots[load->open_count];
        slot->load = load;
        if (client_timer_open(load->loop, &slot->timer, delay_over) != 0) {
            return err_set(err, -ENOMEM, "out of memory");
        }
    }
    return client_rpc_open(&rpc_options, &load->rpc, err);
}

static bool is_unwanted(const struct load_options *options)
{
    return options->stopping != NULL && options->stopping(options->owner);
}

static int run(struct load *load, struct err *err)
{
    int error = 0;

    if (load->options->delay_us > 0) {
        client_wait_ms(load->loop, load->options->delay_us / 1000 + 1); /* after another point */
    }
    load->start_ns = load->progress_ns = client_loop_fresh_ns(load->loop);
    load->end_ns = load->start_ns + load->options->duration_ms * NS_PER_MS;
    for (uint32_t i = 0; i < load->options->in_flight && !load->stopping; i++) {
        send_next(&load->slots[i]);
    }
    /* The last replies are not waited for: what did not come in time does not count. */
    while (error == 0 && !load->stopping && !is_over(load, client_loop_now_ns(load->loop))) {
        error = client_loop_turn(load->loop, TURN_MS);
        load->stopping = load->stopping || is_unwanted(load->options);
    }
    load->result->elapsed_ns = client_loop_fresh_ns(load->loop) - load->start_ns;
    if (load->result->calls == 0 && load->result->status == 0) {
        load->result->status = -ETIMEDOUT;
    }
    load->stopping = true;
    keep_stats(load);
    return error == 0 ? 0 : err_set(err, error, "cannot wait: %s", strerror(-error));
}

int load_run(const struct load_options *options, struct load_result *result, struct err *err)
{
    struct load load = {
        .options = options,
        .result = result,
        .loop = options->mount->loop,
        .random = 0x9e3779b97f4a7c15U,
    };
    *result = (struct load_result){0};
    CHECK(options->block_bytes > 0 && options->block_bytes <= options->file_bytes);
    int error = prepare(&load, err);
    if (error == 0) {
        error = run(&load, err);
    }
    load.stopping = true;
    client_rpc_close(load.rpc);
    for (uint32_t i = 0; i < load.open_count; i++) {
        client_timer_close(load.loop, &load.slots[i].timer);
    }
    free(load.slots);
    free(load.data);
    return error;
}

void load_result_close(struct load_result *result)
{
    samples_close(&result->samples);
}
