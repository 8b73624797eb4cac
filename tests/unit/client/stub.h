/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of the test's own on loopback: a thread that reads calls and says what the test wants,
 * however wrong. A script is a function; it returns when it is done, or when stub_stop has closed
 * its socket.
 */
#ifndef CLIENT_STUB_H
#define CLIENT_STUB_H

#include "lib/unit.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

struct stub {
    int fd; /* listens, or is the UDP socket */
    struct sockaddr_in address;
    pthread_t thread;
    void (*script)(struct stub *stub);
    void *state; /* the script's */
    atomic_uint calls;
    atomic_uint connections;
};

struct stub_call {
    uint32_t xid, prog, vers, proc;
    const uint8_t *args;
    size_t args_bytes;
    struct sockaddr_in from;
    uint8_t bytes[70000];
    size_t size_bytes;
};

void stub_start(struct stub *stub, int type, void (*script)(struct stub *stub));
void stub_stop(struct stub *stub);

/* -1 when the stub is stopped. */
int stub_accept(struct stub *stub);
/* One call, over TCP in one or more fragments. False at the end. */
bool stub_read(struct stub *stub, int fd, struct stub_call *call);
bool stub_receive(struct stub *stub, struct stub_call *call);

/* A reply that was accepted with SUCCESS and has these results. Returns its size. */
size_t stub_success(uint8_t *out, uint32_t xid, const uint8_t *results, size_t results_bytes);

/* A message with record marks; the fragments end at the cuts. */
void stub_write(int fd, const uint8_t *bytes, size_t size_bytes, const size_t *cuts,
                size_t cut_count);
void stub_write_raw(int fd, const uint8_t *bytes, size_t size_bytes);
void stub_send(struct stub *stub, const struct stub_call *call, const uint8_t *bytes,
               size_t size_bytes);

/* A word as the wire has it. */
void stub_word(uint8_t *out, uint32_t value);
uint32_t stub_word_at(const uint8_t *bytes);

#endif
