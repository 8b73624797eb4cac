/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: made, matched with their replies, timed. The transports are in udp.c and tcp.c.
 */
#include "client/internal.h"

#include "proto/rpc.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#define NS_PER_MS 1000000LL
#define SILENCE_NS (10000 * NS_PER_MS)
#define REPLY_BYTES_MAX ((1U << 20) + (1U << 16))
#define ARGS_BYTES_MAX (1U << 16)  /* of a call that does not fit inline, borrowed bytes apart */
#define MACHINENAME_BYTES_MAX 255U /* RFC 5531 Appendix A */

/* ---- lists ---- */

void client_call_list_append(struct call_list *list, struct call *call)
{
    call->list = list;
    call->next = NULL;
    call->prev = list->last;
    if (list->last != NULL) {
        list->last->next = call;
    } else {
        list->first = call;
    }
    list->last = call;
    list->count++;
}

void client_call_list_remove(struct call *call)
{
    struct call_list *list = call->list;
    if (call->prev != NULL) {
        call->prev->next = call->next;
    } else {
        list->first = call->next;
    }
    if (call->next != NULL) {
        call->next->prev = call->prev;
    } else {
        list->last = call->prev;
    }
    list->count--;
    call->list = NULL;
}

static void list_prepend(struct call_list *list, struct call *call)
{
    call->list = list;
    call->prev = NULL;
    call->next = list->first;
    if (list->first != NULL) {
        list->first->prev = call;
    } else {
        list->last = call;
    }
    list->first = call;
    list->count++;
}

void client_call_list_prepend_all(struct call_list *to, struct call_list *from)
{
    while (from->last != NULL) {
        struct call *call = from->last;
        client_call_list_remove(call);
        list_prepend(to, call);
    }
}

/* ---- a call's memory and message ---- */

static struct call *call_new(struct client_rpc *rpc)
{
    struct call *call = rpc->unused.first;
    if (call != NULL) {
        client_call_list_remove(call);
    } else {
        call = malloc(sizeof *call);
    }
    if (call != NULL) {
        memset(call, 0, offsetof(struct call, inline_bytes));
        call->bytes = call->inline_bytes;
    }
    return call;
}

static void call_free(struct client_rpc *rpc, struct call *call)
{
    if (call->bytes != call->inline_bytes) {
        free(call->bytes);
    }
    if (rpc->unused.count < FREE_CALL_COUNT_MAX) {
        list_prepend(&rpc->unused, call);
    } else {
        free(call);
    }
}

/* RFC 5531 §9: head and arguments, behind room for a record mark. */
static void put_message(const struct client_rpc *rpc, struct xdr *xdr, const struct call *call,
                        const void *args)
{
    (void)xdr_put_u32(xdr, 0);
    (void)xdr_put_u32(xdr, call->xid);
    (void)xdr_put_u32(xdr, CALL);
    (void)xdr_put_u32(xdr, RPC_VERSION);
    (void)xdr_put_u32(xdr, rpc->options.prog);
    (void)xdr_put_u32(xdr, rpc->options.vers);
    (void)xdr_put_u32(xdr, call->proc);
    (void)xdr_put_raw(xdr, rpc->auth, rpc->auth_bytes);
    if (call->procedure != NULL && call->procedure->args != NULL) {
        (void)call->procedure->args->put(xdr, args);
    }
}

static int call_encode(struct client_rpc *rpc, struct call *call, const void *args)
{
    struct xdr xdr = xdr_writer(call->inline_bytes, INLINE_BYTES);
    xdr.defer_bytes_min = CLIENT_BORROWED_BYTES_MIN;
    put_message(rpc, &xdr, call, args);
    if (xdr.error == XDR_SHORT) {
        /* Long names, or a long opaque that is not the last: all in one piece. */
        call->bytes = malloc(ARGS_BYTES_MAX);
        if (call->bytes == NULL) {
            call->bytes = call->inline_bytes;
            return -ENOMEM;
        }
        xdr = xdr_writer(call->bytes, ARGS_BYTES_MAX);
        put_message(rpc, &xdr, call, args);
    }
    if (!xdr_ok(&xdr)) {
        return -EINVAL;
    }
    call->size_bytes = (uint32_t)xdr_offset(&xdr);
    call->tail = xdr.tail;
    record_mark(call->bytes, call->size_bytes - RPC_RECORD_MARK_BYTES + call_tail_bytes(call));
    return 0;
}

unsigned client_call_iovecs(const struct call *call, uint32_t skip, struct iovec iovecs[3])
{
    static const uint8_t zeros[4];
    const struct iovec parts[3] = {
        {call->bytes, call->size_bytes},
        {(void *)(uintptr_t)call->tail.data, call->tail.size},
        {(void *)(uintptr_t)zeros, xdr_padding(call->tail.size)},
    };
    unsigned count = 0;
    for (unsigned i = 0; i < COUNT_OF(parts); i++) {
        if (skip >= parts[i].iov_len) {
            skip -= (uint32_t)parts[i].iov_len;
            continue;
        }
        iovecs[count].iov_base = (uint8_t *)parts[i].iov_base + skip;
        iovecs[count].iov_len = parts[i].iov_len - skip;
        skip = 0;
        count++;
    }
    return count;
}

/* ---- calls by xid ---- */

static struct call *call_find(const struct client_rpc *rpc, uint32_t xid)
{
    struct call *call = rpc->buckets[xid % BUCKET_COUNT];
    while (call != NULL && call->xid != xid) {
        call = call->chain;
    }
    return call;
}

/* Out of its list and its bucket: nobody finds it any more. */
static void call_unlink(struct client_rpc *rpc, struct call *call)
{
    struct call **at = &rpc->buckets[call->xid % BUCKET_COUNT];
    while (*at != call) {
        at = &(*at)->chain;
    }
    *at = call->chain;
    client_call_list_remove(call);
}

/* ---- telling ---- */

void client_tell(struct client_rpc *rpc, enum client_event_kind kind, const struct call *call,
                 int error, uint32_t bytes)
{
    if (rpc->options.on_event == NULL) {
        return;
    }
    struct client_event event = {
        .kind = kind,
        .error = error,
        .bytes = bytes,
        .now_ns = client_loop_now_ns(rpc->loop),
    };
    if (call != NULL) {
        event.xid = call->xid;
        event.proc = call->proc;
        event.transmission = call->transmissions;
        event.wait_ns = kind == CLIENT_TIMED_OUT ? call->timeout_ns
                        : kind == CLIENT_REPLIED ? event.now_ns - call->sent_ns
                                                 : 0;
    } else if (kind == CLIENT_CONNECTED) {
        event.transmission = (uint32_t)rpc->stats.connections;
    }
    rpc->options.on_event(rpc->options.owner, &event);
}

static void tell_unasked(struct client_rpc *rpc, uint32_t xid, uint32_t bytes)
{
    /* Distance in the order of xids: below xid_next and not before the first. */
    bool ours = xid - rpc->xid_first < rpc->xid_next - rpc->xid_first;
    *(ours ? &rpc->stats.late_duplicates : &rpc->stats.strays) += 1;
    if (rpc->options.on_event != NULL) {
        struct client_event event = {
            .kind = ours ? CLIENT_LATE_DUPLICATE : CLIENT_STRAY,
            .xid = xid,
            .bytes = bytes,
            .now_ns = client_loop_now_ns(rpc->loop),
        };
        rpc->options.on_event(rpc->options.owner, &event);
    }
}

/* ---- timers ---- */

static void timer_reach(struct client_rpc *rpc, int64_t deadline_ns)
{
    if (rpc->timer.place == 0 || deadline_ns < rpc->timer.deadline_ns) {
        client_timer_set(rpc->loop, &rpc->timer, deadline_ns);
    }
}

static int64_t first_timeout_ns(const struct client_rpc *rpc, uint32_t proc)
{
    uint32_t class = client_rto_class(rpc->options.prog, rpc->options.vers, proc);
    if (rpc->options.tcp || class == RTO_CLASS_NONE) {
        return rpc->timeo_ns;
    }
    return client_rto_timeout_ns(&rpc->rto[class], rpc->timeo_ns, rpc->rto_ns_min,
                                 rpc->timeout_ns_max);
}

uint32_t client_rpc_timeout_ms(const struct client_rpc *rpc, uint32_t proc)
{
    return (uint32_t)(first_timeout_ns(rpc, proc) / NS_PER_MS);
}

/* nfs(5): over UDP each timeout is twice the last, over TCP it grows by timeo. */
static int64_t next_timeout_ns(const struct client_rpc *rpc, int64_t timeout_ns)
{
    timeout_ns = rpc->options.tcp ? timeout_ns + rpc->timeo_ns : timeout_ns * 2;
    return timeout_ns > rpc->timeout_ns_max ? rpc->timeout_ns_max : timeout_ns;
}

/* How long a call that cannot even be sent may wait: as if it had been sent all its times. */
static int64_t patience_ns(const struct client_rpc *rpc)
{
    int64_t timeout_ns = rpc->timeo_ns;
    int64_t sum_ns = timeout_ns;
    for (uint32_t i = 0; i < rpc->options.retrans; i++) {
        timeout_ns = next_timeout_ns(rpc, timeout_ns);
        sum_ns += timeout_ns;
    }
    return sum_ns;
}

void client_call_sent(struct client_rpc *rpc, struct call *call, int64_t now_ns)
{
    bool again = call->transmissions++ > 0;

    client_call_list_remove(call);
    client_call_list_append(&rpc->sent, call);
    call->sent_ns = now_ns;
    if (!again) {
        call->first_sent_ns = now_ns;
        call->timeout_ns = first_timeout_ns(rpc, call->proc);
    }
    call->deadline_ns = now_ns + call->timeout_ns;
    timer_reach(rpc, call->deadline_ns);
    if (!rpc->options.soft && !rpc->not_responding) {
        timer_reach(rpc, call->first_sent_ns + SILENCE_NS);
    }
    uint32_t bytes = call->size_bytes - RPC_RECORD_MARK_BYTES + call_tail_bytes(call);
    *(again ? &rpc->stats.retransmitted : &rpc->stats.sent) += 1;
    rpc->stats.bytes_sent += bytes;
    client_tell(rpc, again ? CLIENT_RETRANSMITTED : CLIENT_SENT, call, 0, bytes);
}

/* Fewer calls on the way; once for what was lost together. */
static void window_cut(struct client_rpc *rpc, const struct call *call, int64_t now_ns)
{
    if (rpc->options.udp_window == 0 && call->sent_ns > rpc->window_cut_ns) {
        rpc->window_256ths = rpc->window_256ths < 512 ? 256 : rpc->window_256ths / 2;
        rpc->window_cut_ns = now_ns;
    }
}

static void window_grow(struct client_rpc *rpc)
{
    /* One more call per window of replies, and only if the window is what holds calls back. */
    if (rpc->options.udp_window == 0 && rpc->sent.count + 1 >= rpc->window_256ths / 256 &&
        rpc->window_256ths / 256 < CLIENT_CALL_COUNT_MAX) {
        rpc->window_256ths += 65536 / rpc->window_256ths;
    }
}

/* Before those that were not sent yet, but not into the middle of a message. */
static void queue_again(struct client_rpc *rpc, struct call *call)
{
    struct call *half_sent = rpc->offset > 0 ? rpc->queue.first : NULL;

    client_call_list_remove(call);
    list_prepend(&rpc->queue, call);
    if (half_sent != NULL) {
        client_call_list_remove(half_sent);
        list_prepend(&rpc->queue, half_sent);
    }
    client_flush_queue(rpc->loop, &rpc->flush);
}

/* Over UDP a call that has to wait for its place in the window, for the first time or to be sent
 * again, is not lost, and says nothing of the network: its own timer stands still meanwhile. */
static void call_timed_out(struct client_rpc *rpc, struct call *call, int64_t now_ns)
{
    bool was_sent = call->transmissions > 0 && (rpc->options.tcp || call->list == &rpc->sent);

    call->timeouts++;
    rpc->stats.timeouts++;
    client_tell(rpc, CLIENT_TIMED_OUT, call, 0, 0);
    if (was_sent && !rpc->options.tcp) {
        uint32_t class = client_rto_class(rpc->options.prog, rpc->options.vers, call->proc);
        client_rto_timed_out(&rpc->rto[class], call->timeouts); /* of no class: nobody asks */
        window_cut(rpc, call, now_ns);
    }
    if (!was_sent || call->timeouts > rpc->options.retrans) {
        if (rpc->options.soft) {
            client_call_fail(rpc, call, -ETIMEDOUT);
            return;
        }
        if (!rpc->not_responding) {
            rpc->not_responding = true;
            client_tell(rpc, CLIENT_NOT_RESPONDING, call, 0, 0);
        }
    }
    if (was_sent) {
        call->timeout_ns = next_timeout_ns(rpc, call->timeout_ns);
    }
    bool may_wait = !was_sent || !rpc->options.tcp;
    call->deadline_ns = now_ns + (may_wait ? patience_ns(rpc) : call->timeout_ns);
    if (call->list == &rpc->sent) {
        queue_again(rpc, call);
    }
    timer_reach(rpc, call->deadline_ns);
}

/* Handles the calls of a list that are due, and lets the timer reach the earliest of the others. */
static void time_out_due(struct client_rpc *rpc, struct call_list *list, int64_t now_ns)
{
    struct call_list due = {0};
    struct call *next;

    for (struct call *call = list->first; call != NULL; call = next) {
        next = call->next;
        if (call->deadline_ns <= now_ns) {
            client_call_list_remove(call);
            client_call_list_append(&due, call);
        } else {
            timer_reach(rpc, call->deadline_ns);
        }
    }
    while (due.last != NULL) { /* from the last on: each is put before those already handled */
        struct call *call = due.last;
        client_call_list_remove(call);
        client_call_list_append(list, call);
        call_timed_out(rpc, call, now_ns);
    }
}

/* Timers may be minutes long (over TCP); who waits wants to know before. */
static void tell_silence(struct client_rpc *rpc, int64_t now_ns)
{
    const struct call *oldest = rpc->sent.first != NULL ? rpc->sent.first : rpc->queue.first;

    if (oldest == NULL || oldest->transmissions == 0 || rpc->options.soft || rpc->not_responding) {
        return;
    }
    int64_t since_ns = rpc->replied_ns > oldest->first_sent_ns ? rpc->replied_ns
                                                               : oldest->first_sent_ns;
    int64_t due_ns = since_ns + SILENCE_NS;
    if (due_ns > now_ns) {
        timer_reach(rpc, due_ns);
        return;
    }
    rpc->not_responding = true;
    client_tell(rpc, CLIENT_NOT_RESPONDING, oldest, 0, 0);
}

static void timer_expired(struct client_timer *timer)
{
    struct client_rpc *rpc = CONTAINER_OF(timer, struct client_rpc, timer);
    int64_t now_ns = client_loop_now_ns(rpc->loop);

    tell_silence(rpc, now_ns);
    if (rpc->offset > 0 && rpc->queue.first->deadline_ns <= now_ns) {
        client_tcp_lost(rpc, -ETIMEDOUT); /* half a call on the stream cannot be taken back */
    }
    time_out_due(rpc, &rpc->queue, now_ns);
    time_out_due(rpc, &rpc->sent, now_ns);
}

/* ---- replies ---- */

static void call_answer(struct client_rpc *rpc, struct call *call, struct client_reply *reply)
{
    call_unlink(rpc, call);
    reply->xid = call->xid;
    reply->proc = call->proc;
    reply->transmissions = call->transmissions;
    reply->queued_ns = call->queued_ns;
    reply->first_sent_ns = call->first_sent_ns;
    reply->sent_ns = call->sent_ns;
    call->replied(call->owner, reply);
    call_free(rpc, call);
}

void client_call_fail(struct client_rpc *rpc, struct call *call, int error)
{
    struct client_reply reply = {.error = error, .fault = CLIENT_FAULT_TRANSPORT};
    call_answer(rpc, call, &reply);
}

void client_fail_all(struct client_rpc *rpc, int error)
{
    struct call_list all = {0};

    CHECK_OP(rpc->offset, ==, 0);
    client_call_list_prepend_all(&all, &rpc->queue);
    client_call_list_prepend_all(&all, &rpc->sent);
    while (all.first != NULL) {
        client_call_fail(rpc, all.first, error);
    }
}

/* RFC 5531 §9: what the head of a reply says. True: results follow. */
static bool judge_head(const struct rpc_msg *msg, struct client_reply *reply)
{
    static const struct {
        int error;
        enum client_rpc_fault fault;
    } accept_errors[] = {
        [PROG_UNAVAIL] = {-EPROTONOSUPPORT, CLIENT_FAULT_PROG_UNAVAIL},
        [PROG_MISMATCH] = {-EPROTONOSUPPORT, CLIENT_FAULT_PROG_MISMATCH},
        [PROC_UNAVAIL] = {-EOPNOTSUPP, CLIENT_FAULT_PROC_UNAVAIL},
        [GARBAGE_ARGS] = {-EINVAL, CLIENT_FAULT_GARBAGE_ARGS},
        [SYSTEM_ERR] = {-EREMOTEIO, CLIENT_FAULT_SYSTEM_ERR},
    };
    const struct reply_body *body = &msg->body.rbody;

    if (body->stat == MSG_DENIED) {
        bool auth = body->rreply.stat == AUTH_ERROR;
        reply->error = auth ? -EACCES : -EPROTONOSUPPORT;
        reply->fault = auth ? CLIENT_FAULT_AUTH : CLIENT_FAULT_RPC_MISMATCH;
        reply->auth_stat = auth ? body->rreply.why : 0;
        reply->low = auth ? 0 : body->rreply.mismatch.low;
        reply->high = auth ? 0 : body->rreply.mismatch.high;
        return false;
    }
    enum accept_stat stat = body->areply.reply_data.stat;
    if (stat == SUCCESS) {
        return true;
    }
    reply->error = accept_errors[stat].error;
    reply->fault = accept_errors[stat].fault;
    if (stat == PROG_MISMATCH) {
        reply->low = body->areply.reply_data.mismatch.low;
        reply->high = body->areply.reply_data.mismatch.high;
    }
    return false;
}

static void judge(struct client_rpc *rpc, const struct call *call, struct xdr *xdr,
                  struct client_reply *reply)
{
    struct rpc_msg msg;
    bool broken = !rpc_msg_get(xdr, &msg);

    if (!broken && judge_head(&msg, reply)) {
        const struct proto_codec *codec = call->procedure != NULL ? call->procedure->res : NULL;
        uint8_t *start = xdr->next;
        if (codec != NULL) {
            broken = !codec->get(xdr, rpc->res);
            reply->res = rpc->res;
            reply->codec = codec;
        }
        reply->results = (struct xdr_bytes){start, (uint32_t)(xdr->end - start)};
    }
    if (broken) {
        reply->error = -EBADMSG;
        reply->fault = CLIENT_FAULT_REPLY;
    }
}

bool client_message(struct client_rpc *rpc, const uint8_t *bytes, size_t size_bytes, int64_t now_ns)
{
    struct xdr xdr = xdr_reader(bytes, size_bytes);
    uint32_t xid, mtype;

    rpc->stats.bytes_received += size_bytes;
    (void)xdr_get_u32(&xdr, &xid);
    if (!xdr_get_u32(&xdr, &mtype) || mtype != REPLY) {
        rpc->stats.strays++;
        client_tell(rpc, CLIENT_STRAY, NULL, 0, (uint32_t)size_bytes);
        return false;
    }
    struct call *call = call_find(rpc, xid);
    bool half_sent = call != NULL && rpc->offset > 0 && call == rpc->queue.first;
    if (call == NULL || call->transmissions == 0 || half_sent) {
        tell_unasked(rpc, xid, (uint32_t)size_bytes);
        return true;
    }
    rpc->contact = true;
    rpc->replied_ns = now_ns;
    rpc->stats.replied++;
    client_tell(rpc, CLIENT_REPLIED, call, 0, (uint32_t)size_bytes);
    if (rpc->not_responding) {
        rpc->not_responding = false;
        client_tell(rpc, CLIENT_RESPONDING, call, 0, 0);
    }
    if (!rpc->options.tcp) {
        uint32_t class = client_rto_class(rpc->options.prog, rpc->options.vers, call->proc);
        client_rto_replied(&rpc->rto[class], now_ns - call->sent_ns, call->transmissions);
        window_grow(rpc);
        if (rpc->queue.count > 0) {
            client_flush_queue(rpc->loop, &rpc->flush);
        }
    }
    struct client_reply reply = {.received_ns = now_ns};
    xdr = xdr_reader(bytes, size_bytes);
    judge(rpc, call, &xdr, &reply);
    if (reply.error != -EBADMSG) {
        rpc->broken_streams = 0;
        rpc->pause_ns = 0;
    }
    call_answer(rpc, call, &reply);
    return true;
}

/* ---- the contract ---- */

static const struct proto_procedure *find_procedure(const struct proto_version *version,
                                                    uint32_t proc)
{
    if (version == NULL) {
        return NULL;
    }
    if (proc < version->procedure_count && version->procedures[proc].proc == proc) {
        return &version->procedures[proc]; /* no hole before it, as usual */
    }
    for (uint32_t i = 0; i < version->procedure_count; i++) {
        if (version->procedures[i].proc == proc) {
            return &version->procedures[i];
        }
    }
    return NULL;
}

int client_rpc_call_as(struct client_rpc *rpc, const struct proto_procedure *procedure,
                       uint32_t proc, const void *args, client_reply_fn *replied, void *owner)
{
    if (rpc->closing) {
        return -ECANCELED;
    }
    if (rpc->queue.count + rpc->sent.count >= CLIENT_CALL_COUNT_MAX) {
        return -EAGAIN;
    }
    struct call *call = call_new(rpc);
    if (call == NULL) {
        return -ENOMEM;
    }
    call->xid = rpc->xid_next;
    call->proc = proc;
    call->procedure = procedure;
    int error = call_encode(rpc, call, args);
    if (error != 0) {
        call_free(rpc, call);
        return error;
    }
    rpc->xid_next++;
    call->replied = replied;
    call->owner = owner;
    call->queued_ns = client_loop_now_ns(rpc->loop);
    call->timeout_ns = patience_ns(rpc);
    call->deadline_ns = call->queued_ns + call->timeout_ns;
    timer_reach(rpc, call->deadline_ns);
    call->chain = rpc->buckets[call->xid % BUCKET_COUNT];
    rpc->buckets[call->xid % BUCKET_COUNT] = call;
    client_call_list_append(&rpc->queue, call);
    client_flush_queue(rpc->loop, &rpc->flush);
    return 0;
}

int client_rpc_call(struct client_rpc *rpc, uint32_t proc, const void *args,
                    client_reply_fn *replied, void *owner)
{
    if (rpc->options.speak != NULL) {
        return rpc->options.speak(rpc, proc, args, replied, owner);
    }
    const struct proto_procedure *procedure = find_procedure(rpc->version, proc);
    if (procedure == NULL && proc != 0) {
        return rpc->closing ? -ECANCELED : -EOPNOTSUPP;
    }
    return client_rpc_call_as(rpc, procedure, proc, args, replied, owner);
}

static void flush(struct client_flush *flush)
{
    struct client_rpc *rpc = CONTAINER_OF(flush, struct client_rpc, flush);
    if (rpc->options.tcp) {
        client_tcp_flush(rpc);
    } else {
        client_udp_flush(rpc);
    }
}

/* RFC 5531 Appendix A and §8.2. A machine name that is too long is cut. */
static bool encode_auth(struct client_rpc *rpc)
{
    const struct client_cred *cred = &rpc->options.cred;
    uint8_t body[RPC_AUTH_BODY_MAX];
    char name[MACHINENAME_BYTES_MAX + 1] = "";
    struct opaque_auth auth = {.flavor = AUTH_NONE};
    struct opaque_auth verf = {.flavor = AUTH_NONE};
    struct xdr xdr = xdr_writer(body, sizeof body);

    if (!cred->none) {
        (void)gethostname(name, sizeof name - 1);
        struct authsys_parms parms = {
            .stamp = (uint32_t)getpid(),
            .machinename = {(const uint8_t *)name, (uint32_t)strlen(name)},
            .uid = cred->uid,
            .gid = cred->gid,
            .gids_count = cred->gid_count,
        };
        memcpy(parms.gids, cred->gids, sizeof parms.gids);
        if (!authsys_parms_put(&xdr, &parms)) {
            return false;
        }
        auth = (struct opaque_auth){AUTH_SYS, {body, (uint32_t)xdr_offset(&xdr)}};
    }
    xdr = xdr_writer(rpc->auth, sizeof rpc->auth);
    (void)opaque_auth_put(&xdr, &auth);
    bool ok = opaque_auth_put(&xdr, &verf);
    rpc->auth_bytes = (uint32_t)xdr_offset(&xdr);
    return ok;
}

static const struct proto_version *find_version(uint32_t prog, uint32_t vers)
{
    for (uint32_t i = 0; i < proto_spec_count; i++) {
        for (uint32_t j = 0; j < proto_specs[i]->version_count; j++) {
            const struct proto_version *version = &proto_specs[i]->versions[j];
            if (version->prog == prog && version->vers == vers) {
                return version;
            }
        }
    }
    return NULL;
}

static void fill_defaults(struct client_rpc *rpc)
{
    struct client_rpc_options *options = &rpc->options;
    bool tcp = options->tcp;

    options->timeo_ms = options->timeo_ms > 0 ? options->timeo_ms : tcp ? 60000 : 1100;
    options->retrans = options->once ? 0 : options->retrans > 0 ? options->retrans : tcp ? 2 : 3;
    options->soft = options->soft || options->once;
    options->timeout_ms_max = options->timeout_ms_max > 0 ? options->timeout_ms_max
                              : tcp                       ? 600000
                                                          : 60000;
    options->rto_ms_min = options->rto_ms_min > 0 ? options->rto_ms_min : 100;
    options->reply_bytes_max =
        options->reply_bytes_max > 0 ? options->reply_bytes_max : REPLY_BYTES_MAX;
    rpc->timeo_ns = options->timeo_ms * NS_PER_MS;
    rpc->timeout_ns_max = options->timeout_ms_max * NS_PER_MS;
    rpc->rto_ns_min = options->rto_ms_min * NS_PER_MS;
    rpc->window_256ths = options->udp_window > 0 ? options->udp_window * 256 : 512;
    rpc->window_cut_ns = INT64_MIN;
    rpc->version = find_version(options->prog, options->vers);
}

int client_rpc_open(const struct client_rpc_options *options, struct client_rpc **opened,
                    struct err *err)
{
    struct client_rpc *rpc = calloc(1, sizeof *rpc);
    if (rpc == NULL) {
        return err_set(err, -ENOMEM, "out of memory");
    }
    CHECK(options->address_bytes <= sizeof rpc->address);
    rpc->options = *options;
    rpc->loop = options->loop;
    memcpy(&rpc->address, options->address, options->address_bytes);
    rpc->options.address = &rpc->address.sa;
    if (options->source != NULL) {
        memcpy(&rpc->source, options->source, options->address_bytes);
        rpc->options.source = &rpc->source.sa;
    }
    rpc->flush.run = flush;
    rpc->watch.fd = -1;
    fill_defaults(rpc);

    size_t res_bytes = 1;
    for (uint32_t i = 0; rpc->version != NULL && i < rpc->version->procedure_count; i++) {
        const struct proto_codec *codec = rpc->version->procedures[i].res;
        res_bytes = codec != NULL && codec->size_bytes > res_bytes ? codec->size_bytes : res_bytes;
    }
    rpc->res = calloc(1, res_bytes);
    int error = rpc->res == NULL ? -ENOMEM : 0;
    if (error == 0 && !encode_auth(rpc)) {
        error = -EINVAL;
    }
    if (error == 0 && getrandom(&rpc->xid_first, sizeof rpc->xid_first, 0) < 0) {
        error = -errno;
    }
    rpc->xid_next = rpc->xid_first;
    if (error == 0) {
        error = client_timer_open(rpc->loop, &rpc->timer, timer_expired);
    }
    if (error == 0) {
        error = client_timer_open(rpc->loop, &rpc->pause, client_tcp_pause_expired);
    }
    if (error == 0 && !options->tcp) {
        error = client_udp_open(rpc);
    }
    if (error != 0) {
        client_rpc_close(rpc);
        return err_set(err, error, "cannot make a socket: %s", strerror(-error));
    }
    *opened = rpc;
    return 0;
}

void client_rpc_close(struct client_rpc *rpc)
{
    if (rpc == NULL) {
        return;
    }
    if (rpc->options.tcp) {
        client_tcp_close(rpc);
    } else {
        client_udp_close(rpc);
    }
    rpc->closing = true;
    client_fail_all(rpc, -ECANCELED);
    client_timer_close(rpc->loop, &rpc->timer);
    client_timer_close(rpc->loop, &rpc->pause);
    client_flush_clear(rpc->loop, &rpc->flush);
    while (rpc->unused.first != NULL) {
        struct call *call = rpc->unused.first;
        client_call_list_remove(call);
        free(call);
    }
    free(rpc->rx);
    free(rpc->res);
    free(rpc);
}

void client_rpc_stats(const struct client_rpc *rpc, struct client_rpc_stats *stats)
{
    *stats = rpc->stats;
    stats->outstanding = rpc->queue.count + rpc->sent.count;
    stats->window = rpc->options.tcp ? 0 : rpc->window_256ths / 256;
}
