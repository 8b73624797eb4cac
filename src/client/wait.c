/* SPDX-License-Identifier: Apache-2.0 */
#include "client/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000LL
#define ALIGNMENT 16U

/* Room for the results as bytes and, before them, as a struct. */
static bool make_room(struct client_answer *answer, size_t bytes)
{
    if (answer->memory_bytes >= bytes) {
        return true;
    }
    void *memory = realloc(answer->memory, bytes);
    if (memory == NULL) {
        return false;
    }
    answer->memory = memory;
    answer->memory_bytes = bytes;
    return true;
}

static void keep(struct client_answer *answer, const struct client_reply *reply)
{
    const struct proto_codec *codec = reply->codec;
    size_t struct_bytes = codec != NULL ? codec->size_bytes : 0;
    struct_bytes += -struct_bytes & (ALIGNMENT - 1);

    if (!make_room(answer, struct_bytes + reply->results.size)) {
        answer->error = -ENOMEM;
        return;
    }
    uint8_t *bytes = (uint8_t *)answer->memory + struct_bytes;
    if (reply->results.size > 0) {
        memcpy(bytes, reply->results.data, reply->results.size);
    }
    answer->results = (struct xdr_bytes){bytes, reply->results.size};
    if (codec != NULL) {
        struct xdr xdr = xdr_reader(bytes, reply->results.size);
        memset(answer->memory, 0, struct_bytes);
        (void)codec->get(&xdr, answer->memory); /* it did once already */
        answer->res = answer->memory;
    }
}

static void replied(void *owner, const struct client_reply *reply)
{
    struct client_answer *answer = owner;

    answer->done = true;
    answer->error = reply->error;
    answer->fault = reply->fault;
    answer->low = reply->low;
    answer->high = reply->high;
    if (reply->error == 0) {
        keep(answer, reply);
    }
    if (answer->error != 0) {
        (void)client_reply_text(reply, answer->text);
    }
}

int client_wait_begin(struct client_rpc *rpc, uint32_t proc, const void *args,
                      struct client_answer *answer)
{
    answer->done = false;
    answer->error = 0;
    answer->fault = CLIENT_NO_FAULT;
    answer->res = NULL;
    answer->results = (struct xdr_bytes){0};
    int error = client_rpc_call(rpc, proc, args, replied, answer);
    if (error != 0) {
        bool unavailable = error == -EOPNOTSUPP; /* in NFSv2; nobody was asked */
        struct client_reply reply = {.error = error,
                                     .fault = unavailable ? CLIENT_FAULT_PROC_UNAVAIL
                                                          : CLIENT_FAULT_TRANSPORT};
        replied(answer, &reply);
    }
    return error;
}

int client_wait_end(struct client_loop *loop, struct client_answer *answer)
{
    while (!answer->done) {
        int error = client_loop_turn(loop, -1);
        CHECK_OP(error, ==, 0); /* epoll on descriptors of our own */
    }
    return answer->error;
}

int client_wait(struct client_loop *loop, struct client_rpc *rpc, uint32_t proc, const void *args,
                struct client_answer *answer)
{
    int error = client_wait_begin(rpc, proc, args, answer);
    return error != 0 ? error : client_wait_end(loop, answer);
}

void client_answer_free(struct client_answer *answer)
{
    free(answer->memory);
    *answer = (struct client_answer){0};
}

void client_wait_ms(struct client_loop *loop, uint32_t ms)
{
    int64_t end_ns = client_loop_fresh_ns(loop) + ms * NS_PER_MS;
    for (int64_t left_ns = ms * NS_PER_MS; left_ns > 0;
         left_ns = end_ns - client_loop_fresh_ns(loop)) {
        int error = client_loop_turn(loop, (int)(left_ns / NS_PER_MS) + 1);
        CHECK_OP(error, ==, 0);
    }
}
