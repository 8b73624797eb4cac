/* SPDX-License-Identifier: Apache-2.0 */
/* Signals are for the main thread: others are started between these two. */
#ifndef OS_SIGNALS_H
#define OS_SIGNALS_H

#include <signal.h>

/* Keeps signals from the calling thread and those that it starts; `before` is what was. But SIGSYS,
 * by which a filter of system calls says no (daemon/sandbox.h): where that is blocked the process
 * ends. */
void signals_hold(sigset_t *before);
void signals_release(const sigset_t *before);

#endif
