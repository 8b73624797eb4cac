/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words every file needs: assertions that are always on, and a few attributes.
 *
 * CHECK is for our own mistakes only. No byte that came from the network or a disk may reach one;
 * the fuzzers prove it.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stddef.h>
#include <stdint.h>

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define UNUSED __attribute__((unused))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define CONTAINER_OF(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Prints the failed expression with its place and aborts. */
_Noreturn void check_failed(const char *file, int line, const char *text);
/* The same for a comparison, with both values. */
_Noreturn void check_failed_values(const char *file, int line, const char *text, intmax_t left,
                                   intmax_t right);

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (UNLIKELY(!(x))) {                                                                      \
            check_failed(__FILE__, __LINE__, #x);                                                  \
        }                                                                                          \
    } while (0)

#define CHECK_OP(a, op, b)                                                                         \
    do {                                                                                           \
        if (UNLIKELY(!((a)op(b)))) {                                                               \
            check_failed_values(__FILE__, __LINE__, #a " " #op " " #b, (intmax_t)(a),              \
                                (intmax_t)(b));                                                    \
        }                                                                                          \
    } while (0)

#endif
