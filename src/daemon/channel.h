/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between the server and its helpers, over a SOCK_SEQPACKET pair; a packet may bring a
 * descriptor along. */
#ifndef DAEMON_CHANNEL_H
#define DAEMON_CHANNEL_H

#include "base/check.h"

#include <stddef.h>
#include <sys/types.h>

/* pass_fd -1: none; it stays the caller's. 0 or -errno: the other end is gone. */
int channel_send(int fd, const void *bytes, size_t size_bytes, int pass_fd) MUST_USE;
/* The size, which is never more than asked for; 0: the other end is gone; -errno. *passed_fd is the
 * caller's, or -1. passed_fd NULL: none is taken. */
ssize_t channel_receive(int fd, void *bytes, size_t size_bytes, int *passed_fd) MUST_USE;

#endif
