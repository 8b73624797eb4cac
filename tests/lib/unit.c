/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/unit.h"

#include <ctype.h>

static int nibble(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    int letter = tolower((unsigned char)digit);
    assert_in_range(letter, 'a', 'f');
    return letter - 'a' + 10;
}

uint8_t *unit_hex(const char *hex, size_t *size_bytes)
{
    uint8_t *bytes = malloc(strlen(hex) / 2 + 1);
    assert_non_null(bytes);
    size_t digits = 0;
    for (const char *at = hex; *at != '\0'; at++) {
        if (isspace((unsigned char)*at)) {
            continue;
        }
        int value = nibble(*at);
        bytes[digits / 2] = (uint8_t)(digits % 2 == 0 ? value << 4 : bytes[digits / 2] | value);
        digits++;
    }
    assert_int_equal(digits % 2, 0);
    *size_bytes = digits / 2;
    uint8_t *exact = unit_copy(bytes, *size_bytes);
    free(bytes);
    return exact;
}

uint8_t *unit_copy(const uint8_t *bytes, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes > 0 ? size_bytes : 1);
    assert_non_null(copy);
    if (size_bytes > 0) {
        memcpy(copy, bytes, size_bytes);
    }
    return copy;
}

static void print_bytes(const char *which, const uint8_t *bytes, size_t size_bytes)
{
    print_error("%s %zu bytes:", which, size_bytes);
    for (size_t i = 0; i < size_bytes; i++) {
        print_error("%s%02x", i % 32 == 0 ? "\n    " : i % 4 == 0 ? " " : "", bytes[i]);
    }
    print_error("\n");
}

void unit_same_bytes(const uint8_t *got, size_t got_bytes, const uint8_t *want, size_t want_bytes)
{
    size_t same = 0;
    while (same < got_bytes && same < want_bytes && got[same] == want[same]) {
        same++;
    }
    if (same == got_bytes && same == want_bytes) {
        return;
    }
    print_bytes("got", got, got_bytes);
    print_bytes("want", want, want_bytes);
    fail_msg("bytes differ at %zu", same);
}

uint64_t unit_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
