/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one .c file with LLVMFuzzerTestOneInput: it returns 0 and aborts (FUZZ_CHECK, a
 * sanitizer, or a CHECK of the code under test) when something is wrong. It allocates no more than
 * the size of its input calls for, keeps nothing from one input to the next, and needs no files.
 *
 * libFuzzer drives it for long runs (run.sh); replay.c hands it the kept corpus in every test run.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

#define FUZZ_CHECK(x)                                                                              \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
