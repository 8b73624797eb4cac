/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting the calls of a connection when their replies have gone out. The replies of a turn leave
 * together, so their samples wait in the loop; those that the socket did not take wait with the
 * connection.
 */
#include "rpc/internal.h"

#include <string.h>

void tally_conn_find(struct loop *loop, struct conn *conn)
{
    if (conn->client != NULL) {
        if (!conn->client->is_others || loop->now_ms < loop->tally.full_until_ms) {
            return;
        }
        loop_count(&conn->client->connections, UINT64_MAX);
        tally_client_put(conn->client);
    }
    conn->client = tally_client_get(&loop->tally, &conn->peer, loop->now_ms);
    loop_count(&conn->client->connections, 1);
}

static void add_sample(struct loop *loop, const struct conn *conn, const struct sample *sample,
                       uint64_t sent)
{
    tally_add(&loop->tally, conn->client, sample, 1, sent, loop->now_ms);
}

void tally_conn_closed(struct loop *loop, struct conn *conn)
{
    const struct sample *sample;
    if (loop->turn == &conn->source) {
        tally_add(&loop->tally, conn->client, loop->samples, loop->sample_count, 0, loop->now_ms);
        loop->sample_count = 0;
    }
    while ((sample = tally_unsent_take(&conn->unsent, UINT64_MAX)) != NULL) {
        add_sample(loop, conn, sample, 0);
    }
    loop_count(&conn->client->connections, UINT64_MAX);
}

static void add_unsent(struct loop *loop, struct conn *conn, const struct sample *sample)
{
    if (!tally_unsent_add(&conn->unsent, sample)) {
        add_sample(loop, conn, sample, 0);
    }
}

void tally_conn_sample(struct loop *loop, struct conn *conn, struct sample *sample,
                       uint64_t reply_bytes)
{
    if (conn->closed || loop->turn != &conn->source) {
        tally_conn_add(loop, conn, sample, false);
        return;
    }
    CHECK_OP(loop->sample_count, <, TURN_CALL_COUNT_MAX);
    sample->stream_end = conn->stream_bytes + reply_bytes;
    loop->samples[loop->sample_count++] = *sample;
}

void tally_conn_add(struct loop *loop, struct conn *conn, struct sample *sample, bool has_reply)
{
    sample->stream_end = conn->stream_bytes;
    if (conn->closed || !has_reply) {
        add_sample(loop, conn, sample, 0);
    } else if (sample->stream_end <= conn->sent_bytes) {
        add_sample(loop, conn, sample, loop_stamp(loop));
    } else {
        add_unsent(loop, conn, sample);
    }
}

void tally_conn_sent(struct loop *loop, struct conn *conn, bool turn_ends)
{
    uint32_t done = 0;
    if (loop->sample_count == 0) {
        return;
    }
    uint64_t now = loop_stamp(loop);
    while (done < loop->sample_count && loop->samples[done].stream_end <= conn->sent_bytes) {
        done++;
    }
    tally_add(&loop->tally, conn->client, loop->samples, done, now, loop->now_ms);
    for (; turn_ends && done < loop->sample_count; done++) {
        add_unsent(loop, conn, &loop->samples[done]);
    }
    loop->sample_count -= done;
    if (loop->sample_count > 0) {
        memmove(loop->samples, loop->samples + done, loop->sample_count * sizeof *loop->samples);
    }
}

void tally_conn_drained(struct loop *loop, struct conn *conn)
{
    const struct sample *sample;
    if (conn->unsent.count == 0 || conn->closed) {
        return;
    }
    uint64_t now = loop_stamp(loop);
    while ((sample = tally_unsent_take(&conn->unsent, conn->sent_bytes)) != NULL) {
        add_sample(loop, conn, sample, now);
    }
}
