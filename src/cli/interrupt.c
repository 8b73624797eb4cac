/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"

#include "base/check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction before[COUNT_OF(numbers)];
static bool holding;
static volatile sig_atomic_t seen; /* the signal */
static char left[256];             /* what is said at the second */
static size_t left_bytes;

static void noted(int number)
{
    if (seen != 0) {
        (void)!write(STDERR_FILENO, left, left_bytes);
        (void)signal(number, SIG_DFL);
        (void)raise(number); /* when this handler returns */
        return;
    }
    seen = number;
}

void interrupt_hold(const char *what)
{
    struct sigaction action = {.sa_handler = noted};

    if (holding) {
        return;
    }
    (void)snprintf(left, sizeof left, "\nholdfast: %.127s is left behind\n", what);
    left_bytes = strlen(left);
    holding = true;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        (void)sigaction(numbers[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) { /* nohup */
            (void)sigaction(numbers[i], &action, NULL);
        }
    }
}

bool interrupt_seen(void)
{
    return seen != 0;
}

void interrupt_making(void *owner, const char *what)
{
    (void)owner;
    interrupt_hold(what);
}

bool interrupt_stopping(void *owner)
{
    (void)owner;
    return interrupt_seen();
}

void interrupt_release(void)
{
    int number = seen;

    for (size_t i = 0; holding && i < COUNT_OF(numbers); i++) {
        (void)sigaction(numbers[i], &before[i], NULL);
    }
    holding = false;
    seen = 0;
    if (number != 0) {
        (void)raise(number); /* so that a shell knows how it ended */
    }
}
