/* SPDX-License-Identifier: Apache-2.0 */
#include "os/signals.h"

#include <stddef.h>

void signals_hold(sigset_t *before)
{
    sigset_t held;

    sigfillset(&held);
    sigdelset(&held, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &held, before);
}

void signals_release(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}
