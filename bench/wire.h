/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket under libnfs, with fewer system calls.
 *
 * libnfs 4.0 spends one send per request and two recv per reply; at 1.2 us a system call the
 * generator would be the bottleneck. libnfs finds our send, recv and bind before libc's, because
 * the program defines them. For a wired descriptor requests are gathered until wire_flush, replies
 * are read many at a time by wire_wait, and what is larger than WIRE_DIRECT_BYTES goes straight
 * between libnfs' buffer and the socket. Any other descriptor behaves as ever.
 *
 * One thread.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#define WIRE_DIRECT_BYTES 65536

/* Takes a connected descriptor under control: blocking from now on, TCP_NODELAY, and a receive time
 * limit so that a silent server is noticed. in_bytes: how much to read ahead; small where replies
 * are large, so that most of a reply is not copied twice. */
void wire_begin(int fd, uint32_t in_bytes);

/* Blocks until there is something to read, and reads it: libnfs will find it. False: the server has
 * closed the connection or was silent for WIRE_SILENCE_S. *now_ns is when the bytes were here. */
bool wire_wait(int fd, uint64_t *now_ns);
#define WIRE_SILENCE_S 30

/* Sends what was gathered. False: the connection is broken. */
bool wire_flush(int fd);

/* CLOCK_MONOTONIC. */
uint64_t wire_now_ns(void);

#endif
