/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a unit test includes: cmocka and what cmocka wants before it, and a few helpers that print
 * both sides when they differ.
 */
#ifndef LIB_UNIT_H
#define LIB_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The bytes of pairs of hex digits; blanks are skipped. In exactly as much memory as they need, so
 * that a sanitizer sees the first byte read too many. The caller frees. */
uint8_t *unit_hex(const char *hex, size_t *size_bytes);

/* Fails the test, with both as hex and the first difference, unless they are the same. */
void unit_same_bytes(const uint8_t *got, size_t got_bytes, const uint8_t *want, size_t want_bytes);

/* A copy in exactly as much memory as it needs. */
uint8_t *unit_copy(const uint8_t *bytes, size_t size_bytes);

/* A random number that depends on *state only; *state starts as the seed, not 0. */
uint64_t unit_random(uint64_t *state);

#endif
