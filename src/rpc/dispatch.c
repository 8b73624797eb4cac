/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call, from its bytes to its reply: head, program, arguments, reply cache, run, encode.
 *
 * Everything but the procedure itself is quick and runs as the owner of the loop. Around the
 * procedure the loop may be lost (internal.h, rule 2).
 */
#include "rpc/internal.h"

#include "base/log.h"
#include "proto/rpc.h"
#include "rpc/message.h"

#include <errno.h>
#include <stdlib.h>

#define WORKER_MEMORY_ALIGN 16U

void *rpc_call_memory(struct rpc_call *call, size_t size_bytes)
{
    struct task *task = CONTAINER_OF(call, struct task, call);
    struct worker *worker = task->worker;
    uint32_t room = (uint32_t)(size_bytes + WORKER_MEMORY_ALIGN - 1) & ~(WORKER_MEMORY_ALIGN - 1);

    CHECK_OP(size_bytes, <=, RPC_CALL_MEMORY_MAX);
    CHECK_OP(worker->memory_used + room, <=, WORKER_MEMORY_BYTES);
    void *memory = worker->memory + worker->memory_used;
    worker->memory_used += room;
    return memory;
}

static const struct rpc_program *find_program(const struct service *service, uint32_t prog)
{
    for (size_t i = 0; i < service->program_count; i++) {
        if (service->programs[i]->prog == prog) {
            return service->programs[i];
        }
    }
    return NULL;
}

/* RFC 5531 §9. NULL: the refusal has been written to out. */
static const struct rpc_procedure *find_procedure(const struct service *service,
                                                  struct rpc_call *call, struct xdr *out)
{
    const struct rpc_program *program = find_program(service, call->prog);
    if (program == NULL) {
        message_put_accept_error(out, call->xid, PROG_UNAVAIL);
        return NULL;
    }
    for (uint32_t i = 0; i < program->version_count; i++) {
        const struct rpc_version *version = &program->versions[i];
        if (version->vers != call->vers) {
            continue;
        }
        if (call->proc >= version->procedure_count ||
            version->procedures[call->proc].name == NULL) {
            message_put_accept_error(out, call->xid, PROC_UNAVAIL);
            return NULL;
        }
        call->service = program->service;
        return &version->procedures[call->proc];
    }
    message_put_prog_mismatch(out, call->xid, program->versions[0].vers,
                              program->versions[program->version_count - 1].vers);
    return NULL;
}

static struct xdr reply_writer(struct worker *worker)
{
    struct xdr out =
        xdr_writer(worker->reply_buffer + REPLY_MARK_BYTES, REPLY_BUFFER_BYTES - REPLY_MARK_BYTES);
    out.defer_bytes_min = TAIL_DEFER_BYTES;
    return out;
}

/* The same for results, which have a limit. */
static struct xdr result_writer(struct worker *worker, const struct rpc_procedure *procedure)
{
    struct xdr out = reply_writer(worker);
    uint32_t limit = procedure->reply_bytes_max > 0 ? procedure->reply_bytes_max : 1024;
    size_t size = (size_t)limit + MESSAGE_SUCCESS_BYTES;
    if (size < xdr_left(&out)) {
        out.end = out.start + size;
    }
    return out;
}

static struct reply reply_of(struct worker *worker, const struct xdr *out)
{
    return (struct reply){
        .bytes = worker->reply_buffer,
        .size = REPLY_MARK_BYTES + (uint32_t)xdr_offset(out),
        .tail = out->tail,
    };
}

static void send_reply(struct loop *loop, struct worker *worker, const struct dest *dest,
                       struct reply *reply)
{
    loop_count(&loop->stats.replies, 1);
    if (dest->conn != NULL) {
        conn_reply(loop, dest->conn, reply);
    } else {
        udp_reply(dest->udp, dest->from, reply, worker);
    }
}

/* What is no call of a procedure, but tells of the client. */
static void count_for_client(struct loop *loop, const struct dest *dest, bool is_copy)
{
    struct tally_client *client =
        dest->conn != NULL ? dest->conn->client
                           : tally_client_get(&loop->tally, &dest->from->peer, loop->now_ms);
    loop_count(is_copy ? &client->copies : &client->refused, 1);
    if (dest->conn == NULL) {
        tally_client_put(client);
    }
}

struct pending *pending_new(const struct task *task, struct reply *reply)
{
    struct pending *pending = malloc(sizeof *pending);
    if (pending == NULL) {
        if (reply != NULL) {
            reply_drop(reply);
        }
        return NULL;
    }
    pending->next = NULL;
    pending->dest = task->dest;
    pending->entry = task->entry;
    pending->procedure = task->call.procedure;
    pending->xid = task->call.xid;
    pending->lsn = reply != NULL ? task->call.lsn : 0;
    pending->error = 0;
    pending->lost = task->lost;
    pending->was_parked = false;
    pending->sample = task->sample;
    pending->out = NULL;
    if (task->dest.udp != NULL) {
        pending->from = *task->dest.from;
        pending->dest.from = &pending->from;
    }
    if (reply != NULL) {
        bool is_udp = task->dest.udp != NULL;
        if (is_udp &&
            !reply_load_file(reply, reply->bytes + reply->size, REPLY_BUFFER_BYTES - reply->size)) {
            reply_drop(reply);
        } else {
            pending->out = out_new(reply, 0);
        }
    }
    return pending;
}

/* The loop is lost: the reply goes home through its inbox. */
static void finish_lost(struct loop *loop, struct task *task, struct reply *reply)
{
    struct pending *pending = pending_new(task, reply);
    if (pending == NULL) {
        /* The connection would wait for this task for ever; nothing but a retry helps. */
        static struct log_limit limit;
        log_write_limited(&limit, LOG_ERROR, "out of memory for a reply; waiting for some");
        while ((pending = pending_new(task, NULL)) == NULL) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
    }
    loop_post(loop, pending);
}

/* There is no reply, and nothing to wait for. */
static void finish_silent(struct loop *loop, struct task *task)
{
    drc_forget(loop->server->drc, task->entry);
    task->sample.failed = true;
    if (task->dest.conn != NULL) {
        tally_conn_add(loop, task->dest.conn, &task->sample, false);
    } else {
        udp_tally(loop, &task->from.peer, &task->sample, false);
    }
}

/* Sends, and has it counted when that is done. */
static void finish_sending(struct loop *loop, struct task *task, struct reply *reply)
{
    struct conn *conn = task->dest.conn;
    if (conn == NULL) {
        send_reply(loop, task->worker, &task->dest, reply);
        udp_tally(loop, &task->from.peer, &task->sample, true);
        return;
    }
    tally_conn_sample(loop, conn, &task->sample, reply->size + out_tail_bytes(&reply->tail));
    send_reply(loop, task->worker, &task->dest, reply);
}

static void finish(struct loop *loop, struct task *task, struct reply *reply)
{
    struct worker *worker = task->worker;
    struct rpc_server *server = loop->server;
    uint64_t lsn = task->call.lsn;

    if (lsn > 0 && park_waits(server, lsn)) {
        struct pending *pending = pending_new(task, reply);
        if (pending == NULL) {
            drc_forget(server->drc, task->entry);
            return;
        }
        if (task->dest.conn != NULL) {
            task->dest.conn->pending_count++;
        }
        loop_count(&loop->stats.parked, 1);
        if (!park(loop, pending, &pending->error)) {
            pending->lsn = 0;
            loop_deliver(loop, worker, pending);
        }
        return;
    }
    struct pending failed = {.procedure = task->call.procedure, .xid = task->call.xid};
    if (lsn > 0 && (failed.error = park_error(server, lsn)) != 0) {
        reply_drop(reply);
        drc_forget(server->drc, task->entry);
        task->entry = NULL;
        task->sample.failed = true;
        dispatch_failure(worker, &failed, reply);
    }
    if (task->entry != NULL) {
        struct conn *conn = task->dest.conn;
        uint64_t sent_end =
            conn != NULL ? conn->stream_bytes + reply->size + out_tail_bytes(&reply->tail) : 0;
        drc_done(server->drc, task->entry, reply->bytes + REPLY_MARK_BYTES,
                 reply->size - REPLY_MARK_BYTES, sent_end);
    }
    if (reply->size > 0) {
        finish_sending(loop, task, reply);
    } else {
        finish_silent(loop, task);
    }
}

void dispatch_failure(struct worker *worker, const struct pending *pending, struct reply *reply)
{
    struct xdr out = reply_writer(worker);
    void *res = worker->memory;

    *reply = (struct reply){0};
    if (pending->procedure->fail == NULL) {
        return;
    }
    memset(res, 0, pending->procedure->res_bytes);
    pending->procedure->fail(res, pending->error);
    message_put_success(&out, pending->xid);
    if (pending->procedure->encode(&out, res)) {
        *reply = reply_of(worker, &out);
    }
}

/* Runs the procedure, during which the loop may be taken away. */
static void run_procedure(struct loop *loop, struct task *task, const void *args, void *res)
{
    uint64_t run = loop_enter(loop);
    task->call.procedure->run(&task->call, args, res);
    task->lost = !loop_leave(loop, run);
}

/* Encodes what the procedure has answered. False: there is no reply to send. */
static bool encode_reply(struct task *task, const void *res, struct reply *reply)
{
    struct rpc_call *call = &task->call;
    struct worker *worker = task->worker;
    struct xdr out = result_writer(worker, call->procedure);

    *reply = (struct reply){.file = call->file, .memory = call->memory};
    if (call->drop) {
        reply_drop(reply);
        return false;
    }
    message_put_success(&out, call->xid);
    if (!call->procedure->encode(&out, res)) {
        static struct log_limit limit;
        log_write_limited(&limit, LOG_ERROR, "%s: the reply could not be encoded: %s",
                          call->procedure->name, xdr_error_name(out.error));
        reply_drop(reply);
        out = reply_writer(worker);
        message_put_accept_error(&out, call->xid, SYSTEM_ERR);
        *reply = reply_of(worker, &out);
        return true;
    }
    struct rpc_file file = reply->file;
    struct rpc_memory memory = reply->memory;
    *reply = reply_of(worker, &out);
    reply->file = file;
    reply->memory = memory;
    return true;
}

/* Whoever keeps replies hears of this one. */
static void tell_reply(struct rpc_server *server, const struct task *task,
                       const struct reply *reply)
{
    struct rpc_kept_reply kept;
    if (server->options.replied == NULL) {
        return;
    }
    bool keeps = task->entry != NULL && reply != NULL && reply->size > REPLY_MARK_BYTES &&
                 out_tail_bytes(&reply->tail) == 0;
    if (keeps) {
        drc_identify(task->entry, &kept);
        kept.bytes = reply->bytes + REPLY_MARK_BYTES;
        kept.size = reply->size - REPLY_MARK_BYTES;
    }
    server->options.replied(server->options.arg, keeps ? &kept : NULL);
}

/* What is to be counted of a call that has run. */
static void note_end(struct task *task, const struct reply *reply)
{
    const struct rpc_call *call = &task->call;
    struct sample *sample = &task->sample;

    sample->procedure = call->procedure;
    sample->group = call->group;
    sample->failed = call->failed || reply == NULL;
    sample->bytes_out =
        reply != NULL ? reply->size - REPLY_MARK_BYTES + out_tail_bytes(&reply->tail) : 0;
    sample->ended = ticks_now();
}

/* Cache, run, encode, finish. The arguments have been decoded into args. */
static bool execute(struct loop *loop, struct task *task, const void *args, const uint8_t *message,
                    uint32_t message_bytes)
{
    struct rpc_call *call = &task->call;
    struct worker *worker = task->worker;
    const struct rpc_procedure *procedure = call->procedure;
    struct reply reply;

    if (procedure->cached && !(call->peer->is_tcp && procedure->cached_over_udp_only)) {
        struct conn *conn = task->dest.conn;
        if (conn != NULL && conn->origin == NULL) {
            conn->origin = drc_origin_new(conn->source.fd);
        }
        struct drc_key key = {
            .peer = call->peer,
            .origin = conn != NULL ? conn->origin : NULL,
            .xid = call->xid,
            .prog = call->prog,
            .vers = call->vers,
            .proc = call->proc,
            .message = message,
            .message_bytes = message_bytes,
            .now_ms = loop->now_ms,
        };
        uint32_t reply_bytes = 0;
        enum drc_verdict verdict = drc_begin(loop->server->drc, &key, &task->entry,
                                             worker->reply_buffer + REPLY_MARK_BYTES, &reply_bytes);
        if (verdict != DRC_NEW) {
            count_for_client(loop, &task->dest, true);
        }
        if (verdict == DRC_DROP) {
            loop_count(&loop->stats.cache_dropped, 1);
            return true;
        }
        if (verdict == DRC_REPLY) {
            loop_count(&loop->stats.cache_hits, 1);
            reply = (struct reply){.bytes = worker->reply_buffer,
                                   .size = REPLY_MARK_BYTES + reply_bytes};
            send_reply(loop, worker, &task->dest, &reply);
            return true;
        }
    }
    void *res = rpc_call_memory(call, procedure->res_bytes);
    memset(res, 0, procedure->res_bytes);
    run_procedure(loop, task, args, res);
    bool has_reply = encode_reply(task, res, &reply);
    tell_reply(loop->server, task, has_reply ? &reply : NULL);
    note_end(task, has_reply ? &reply : NULL);
    if (task->lost) {
        finish_lost(loop, task, has_reply ? &reply : NULL);
        return false;
    }
    loop->stamp = task->sample.ended;
    if (has_reply) {
        finish(loop, task, &reply);
    } else {
        finish_silent(loop, task);
    }
    return true;
}

/* Finds out what the call wants. False: it has been answered (out) or is not worth an answer. */
static bool understand(struct loop *loop, const struct service *service, struct task *task,
                       struct xdr *in, struct xdr *out, void **args)
{
    struct rpc_call *call = &task->call;
    uint32_t auth_stat = 0;

    switch (message_get_call(in, call, &auth_stat)) {
    case MESSAGE_NOISE:
        loop_count(&loop->stats.garbage, 1);
        return false;
    case MESSAGE_RPC_MISMATCH:
        message_put_rpc_mismatch(out, call->xid);
        return false;
    case MESSAGE_AUTH_ERROR:
        loop_count(&loop->stats.refused_auth, 1);
        message_put_auth_error(out, call->xid, auth_stat);
        return false;
    case MESSAGE_CALL:
        break;
    }
    call->procedure = find_procedure(service, call, out);
    if (call->procedure == NULL) {
        return false;
    }
    *args = rpc_call_memory(call, call->procedure->args_bytes);
    memset(*args, 0, call->procedure->args_bytes);
    if (!call->procedure->decode(in, *args)) {
        loop_count(&loop->stats.garbage, 1);
        message_put_accept_error(out, call->xid, GARBAGE_ARGS);
        return false;
    }
    return true;
}

bool dispatch(struct loop *loop, struct worker *worker, const struct service *service,
              const struct dest *dest, const struct rpc_peer *peer, struct rxbuf *rx,
              const uint8_t *message, uint32_t message_bytes, uint64_t batch)
{
    struct task *task = &worker->task;
    struct xdr in = xdr_reader(message, message_bytes);
    struct xdr out = reply_writer(worker);
    void *args = NULL;
    bool kept = true;

    task->call = (struct rpc_call){.server = loop->server, .peer = peer, .batch = batch};
    task->worker = worker;
    task->dest = *dest;
    task->entry = NULL;
    task->lost = false;
    task->sample.arrived = dest->conn != NULL ? dest->conn->arrived : dest->udp->arrived;
    task->sample.started = loop->stamp;
    task->sample.durable = 0;
    task->sample.bytes_in = message_bytes;
    if (dest->udp != NULL) {
        task->from = *dest->from;
        task->dest.from = &task->from;
        task->call.peer = &task->from.peer;
    }
    worker->memory_used = 0;
    loop_count(&loop->stats.calls, 1);
    rxbuf_get(rx);
    if (understand(loop, service, task, &in, &out, &args)) {
        kept = execute(loop, task, args, message, message_bytes);
    } else {
        count_for_client(loop, &task->dest, false);
        if (xdr_offset(&out) > 0) {
            struct reply reply = reply_of(worker, &out);
            send_reply(loop, worker, &task->dest, &reply);
        }
    }
    rxbuf_put(worker->server, kept ? loop : NULL, rx);
    return kept;
}
