/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The twin of client.c on libnfs' raw API. "as-is": the event loop that libnfs documents, poll(2)
 * and rpc_service. "gathered": with wire.c under it, which sends what a turn has queued together
 * and reads ahead, as load.c does; the best that can be made of libnfs without changing it.
 */
#include "ops.h"
#include "twin.h"

#include <poll.h>

struct client {
    struct twin twin;
    struct rpc_context *rpc;
    bool large;
    bool over;
};

static void issue(struct client *client);

static void send_gathered(struct client *client)
{
    if (rpc_service(client->rpc, POLLOUT) != 0 || !wire_flush(rpc_get_fd(client->rpc))) {
        twin_die("connection broken: %s", rpc_get_error(client->rpc));
    }
}

static bool is_right(const struct twin *twin, const void *data)
{
    if (twin->op == TWIN_GETATTR) {
        const struct GETATTR3res *res = data;
        return res->status == NFS3_OK && res->GETATTR3res_u.resok.obj_attributes.type == NF3REG;
    }
    if (twin->op == TWIN_READ) {
        const struct READ3res *res = data;
        return res->status == NFS3_OK && res->READ3res_u.resok.count == twin->size_bytes &&
               res->READ3res_u.resok.data.data_len == twin->size_bytes;
    }
    return true;
}

static void answered(struct rpc_context *rpc, int status, void *data, void *arg)
{
    struct client *client = arg;
    if (client->over) {
        return;
    }
    if (status != RPC_STATUS_SUCCESS || !is_right(&client->twin, data)) {
        twin_die("a wrong answer: %s", rpc_get_error(rpc));
    }
    client->twin.calls++;
    issue(client);
    if (client->twin.gathered && client->large) {
        send_gathered(client); /* a turn takes long: the server would have nothing to do */
    }
}

static void issue(struct client *client)
{
    struct twin *twin = &client->twin;
    nfs_fh3 fh = {.data = {.data_len = twin->handle_bytes, .data_val = (char *)twin->handle}};
    int error = 0;

    if (twin->op == TWIN_NULL) {
        error = rpc_nfs3_null_async(client->rpc, answered, client);
    } else if (twin->op == TWIN_GETATTR) {
        struct GETATTR3args args = {.object = fh};
        error = rpc_nfs3_getattr_async(client->rpc, answered, &args, client);
    } else {
        struct READ3args args = {
            .file = fh, .offset = twin_next_offset(twin), .count = twin->size_bytes};
        error = rpc_nfs3_read_async(client->rpc, answered, &args, client);
    }
    if (error != 0) {
        twin_die("libnfs: %s", rpc_get_error(client->rpc));
    }
}

static void connected(struct rpc_context *rpc, int status, void *data, void *arg)
{
    (void)rpc;
    (void)data;
    *(int *)arg = status;
}

static void service(struct client *client)
{
    struct pollfd poll_fd = {.fd = rpc_get_fd(client->rpc),
                             .events = (short)rpc_which_events(client->rpc)};
    if (poll(&poll_fd, 1, WIRE_SILENCE_S * 1000) <= 0 ||
        rpc_service(client->rpc, poll_fd.revents) != 0) {
        twin_die("connection broken: %s", rpc_get_error(client->rpc));
    }
}

static void service_gathered(struct client *client)
{
    int fd = rpc_get_fd(client->rpc);
    uint64_t now_ns;
    if (!wire_wait(fd, &now_ns) || rpc_service(client->rpc, POLLIN | POLLOUT) != 0 ||
        !wire_flush(fd)) {
        twin_die("connection broken: %s", rpc_get_error(client->rpc));
    }
}

int main(int argc, char **argv)
{
    static struct client client;
    int status = -1;

    twin_open(&client.twin, argc, argv);
    client.rpc = rpc_init_context();
    if (client.rpc == NULL || rpc_connect_async(client.rpc, "127.0.0.1", client.twin.port,
                                                connected, &status) != 0) {
        twin_die("cannot connect");
    }
    service(&client);
    if (status != RPC_STATUS_SUCCESS) {
        twin_die("cannot connect: %s", rpc_get_error(client.rpc));
    }
    client.large = client.twin.op == TWIN_READ && client.twin.size_bytes >= WIRE_DIRECT_BYTES;
    if (client.twin.gathered) {
        wire_begin(rpc_get_fd(client.rpc), client.large ? 4096 : 256 * 1024);
    }
    for (uint32_t i = 0; i < client.twin.in_flight; i++) {
        issue(&client);
    }
    if (client.twin.gathered) {
        send_gathered(&client);
    }
    while (twin_goes_on(&client.twin)) {
        if (client.twin.gathered) {
            service_gathered(&client);
        } else {
            service(&client);
        }
    }
    client.over = true;
    rpc_disconnect(client.rpc, "over");
    return 0;
}
