/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGINT, SIGTERM and SIGHUP while there is something on a server that must be removed again. The
 * first signal is only noted; the second ends the program at once, with a line that names what is
 * left. One thread.
 */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on. `what` is copied: a name of at most 127 bytes. */
void interrupt_hold(const char *what);

/* A signal was noted. */
bool interrupt_seen(void);

/* Both, as the probes ask for them (`making` and `stopping` of their options). */
void interrupt_making(void *owner, const char *what);
bool interrupt_stopping(void *owner);

/* Signals are as before; one that was noted ends the program here. Also without interrupt_hold. */
void interrupt_release(void);

#endif
