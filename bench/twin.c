/* SPDX-License-Identifier: Apache-2.0 */
#include "twin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS 1000000000ULL
#define WARM_UP_NS (SECOND_NS / 5)

void twin_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("client: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(3);
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static void begin(struct twin *twin, uint64_t now_ns)
{
    twin->calls = 0;
    twin->begin_ns = now_ns;
    twin->cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void twin_open(struct twin *twin, int argc, char **argv)
{
    static const char *const ops[] = {"null", "getattr", "read"};
    unsigned op = 0;

    while (argc >= 7 && op < 3 && strcmp(argv[2], ops[op]) != 0) {
        op++;
    }
    if (argc < 7 || op == 3 || strlen(argv[3]) > 2 * sizeof(twin->handle)) {
        twin_die("see bench/twin.h");
    }
    *twin = (struct twin){
        .port = (uint16_t)strtoul(argv[1], NULL, 10),
        .op = op,
        .in_flight = (uint32_t)strtoul(argv[4], NULL, 10),
        .size_bytes = (uint32_t)strtoul(argv[5], NULL, 10),
        .seconds_ns = (uint64_t)(strtod(argv[6], NULL) * (double)SECOND_NS),
        .gathered = argc > 7 && strcmp(argv[7], "gathered") == 0,
    };
    for (const char *digits = argv[3]; digits[0] != '\0' && digits[1] != '\0'; digits += 2) {
        const char byte[3] = {digits[0], digits[1], '\0'};
        twin->handle[twin->handle_bytes++] = (uint8_t)strtoul(byte, NULL, 16);
    }
    begin(twin, read_clock(CLOCK_MONOTONIC));
    twin->end_ns = twin->begin_ns + WARM_UP_NS + twin->seconds_ns;
}

bool twin_goes_on(struct twin *twin)
{
    uint64_t now_ns = read_clock(CLOCK_MONOTONIC);
    if (!twin->is_warm && now_ns >= twin->begin_ns + WARM_UP_NS) {
        twin->is_warm = true;
        begin(twin, now_ns);
    }
    if (now_ns < twin->end_ns) {
        return true;
    }
    double cpu_us = (double)(read_clock(CLOCK_PROCESS_CPUTIME_ID) - twin->cpu_ns) / 1e3;
    double seconds = (double)(now_ns - twin->begin_ns) / 1e9;
    double calls = twin->calls > 0 ? (double)twin->calls : 1;
    printf("{\"calls\":%.0f,\"seconds\":%.3f,\"calls_per_s\":%.0f,\"cpu_us_per_call\":%.4f,"
           "\"cores\":%.3f}\n",
           calls, seconds, calls / seconds, cpu_us / calls, cpu_us / seconds / 1e6);
    return false;
}

uint64_t twin_next_offset(struct twin *twin)
{
    uint64_t offset = twin->next_offset;
    twin->next_offset += twin->size_bytes;
    if (twin->next_offset + twin->size_bytes > TWIN_SPAN_BYTES) {
        twin->next_offset = 0;
    }
    return offset;
}
