/* SPDX-License-Identifier: Apache-2.0 */
/* Telling the service manager how we are: sd_notify(3), the protocol, without the library. */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include "base/check.h"

/* Connects to $NOTIFY_SOCKET, while it can be seen. Without one the others do nothing, and they
 * never fail: nobody would be there to be told. */
void notify_open(void);
/* Sends lines like "READY=1\nSTATUS=...". */
void notify_send(const char *lines);
/* RELOADING=1, to be followed by READY=1. */
void notify_reloading(void);

#endif
