/* SPDX-License-Identifier: Apache-2.0 */
#include "caller.h"

#include "proto/pmap.h"

#include <time.h>

#define WAIT_MS 10000

static void on_event(void *owner, const struct client_event *event)
{
    struct caller *caller = owner;
    assert_in_range(event->kind, 0, CALLER_EVENT_KINDS - 1);
    caller->events[event->kind]++;
    if (event->kind == CLIENT_SENT && caller->xid_first_sent == 0) {
        caller->xid_first_sent = event->xid;
    }
    if (event->kind == CLIENT_TIMED_OUT && caller->wait_count < COUNT_OF(caller->waits_ns)) {
        caller->waits_ns[caller->wait_count++] = event->wait_ns;
    }
}

void caller_open(struct caller *caller, const struct stub *stub,
                 const struct client_rpc_options *options)
{
    struct client_rpc_options mine = *options;
    struct err err = {0};

    *caller = (struct caller){0};
    assert_int_equal(client_loop_open(&caller->loop), 0);
    mine.loop = caller->loop;
    mine.address = (const struct sockaddr *)&stub->address;
    mine.address_bytes = sizeof stub->address;
    mine.prog = mine.prog == 0 ? PMAP_PROG : mine.prog;
    mine.vers = mine.vers == 0 ? PMAP_VERS : mine.vers;
    mine.on_event = on_event;
    mine.owner = caller;
    if (client_rpc_open(&mine, &caller->rpc, &err) != 0) {
        fail_msg("%s", err.text);
    }
}

void caller_close(struct caller *caller)
{
    client_rpc_close(caller->rpc);
    client_loop_close(caller->loop);
}

void caller_reply(void *owner, const struct client_reply *reply)
{
    struct answer *answer = owner;
    answer->count++;
    answer->error = reply->error;
    answer->fault = reply->fault;
    answer->low = reply->low;
    answer->high = reply->high;
    answer->auth_stat = reply->auth_stat;
    answer->transmissions = reply->transmissions;
    answer->xid = reply->xid;
    if (reply->error == 0 && reply->res != NULL) {
        answer->word = ((const struct proto_u32 *)reply->res)->value;
    }
}

void caller_getport(struct caller *caller, uint32_t prog, struct answer *answer)
{
    struct mapping mapping = {.prog = prog};
    *answer = (struct answer){0};
    assert_int_equal(client_rpc_call(caller->rpc, PMAPPROC_GETPORT, &mapping, caller_reply, answer),
                     0);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void caller_turn(struct caller *caller, int for_ms)
{
    int64_t end_ms = now_ms() + for_ms;
    for (int64_t left_ms = for_ms; left_ms > 0; left_ms = end_ms - now_ms()) {
        assert_int_equal(client_loop_turn(caller->loop, (int)left_ms), 0);
    }
}

void caller_wait(struct caller *caller, const struct answer *answer)
{
    int64_t end_ms = now_ms() + WAIT_MS;
    while (answer->count == 0) {
        assert_int_equal(client_loop_turn(caller->loop, 100), 0);
        assert_true(now_ms() < end_ms);
    }
    assert_int_equal(answer->count, 1);
}
