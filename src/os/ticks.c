/* SPDX-License-Identifier: Apache-2.0 */
#include "os/ticks.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#define MEASURE_NS 5000000 /* an error of 0.1 us is 1/50,000 */
#define CLOCK_SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

struct ticks ticks = {.scale = UINT64_C(1) << TICKS_SHIFT};

#ifdef __x86_64__
/* CPUID 80000007h, EDX bit 8: the counter runs at one rate, whatever the processor does. */
static bool is_steady(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0x80000007U, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
}

/* The kernel has found out whether the processors' counters agree. A lone one agrees with itself:
 * so a guest whose kernel keeps its time otherwise is spared a system call for each reading. */
static bool is_trusted(void)
{
    if (sysconf(_SC_NPROCESSORS_CONF) == 1) {
        return true;
    }
    static const char *const trusted[] = {"tsc\n", "kvm-clock\n", "hyperv_clocksource_tsc_page\n"};
    char name[64] = "";
    int fd = open(CLOCK_SOURCE, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, name, sizeof name - 1) : -1;

    if (fd >= 0) {
        close(fd);
    }
    for (size_t i = 0; n > 0 && i < COUNT_OF(trusted); i++) {
        if (strcmp(name, trusted[i]) == 0) {
            return true;
        }
    }
    return false;
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* A reading of both at once: of some, the one that was interrupted least. */
static void read_both(uint64_t *counter, uint64_t *ns)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = __builtin_ia32_rdtsc();
        uint64_t now = clock_ns();
        uint64_t after = __builtin_ia32_rdtsc();
        if (after - before < least) {
            least = after - before;
            *counter = before + least / 2;
            *ns = now;
        }
    }
}

static void measure(void)
{
    uint64_t from = 0, from_ns = 0, to = 0, to_ns = 0;

    if (!is_steady() || !is_trusted()) {
        return;
    }
    read_both(&from, &from_ns);
    (void)nanosleep(&(struct timespec){.tv_nsec = MEASURE_NS}, NULL);
    read_both(&to, &to_ns);
    if (to <= from || to_ns <= from_ns) {
        return;
    }
    ticks.scale = ((to_ns - from_ns) << TICKS_SHIFT) / (to - from);
    ticks.counter = ticks.scale > 0;
    if (!ticks.counter) {
        ticks.scale = UINT64_C(1) << TICKS_SHIFT;
    }
}
#else
static void measure(void) {}
#endif

void ticks_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, measure);
}
