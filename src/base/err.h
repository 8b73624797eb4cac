/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error for people: used only at the edges (options, exports files, opening sockets and state).
 * Everything inside speaks 0 or -errno.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/check.h"

struct err {
    int code;       /* -errno, 0 when nothing went wrong */
    char text[512]; /* one line, no newline; says what was tried and on what */
};

/* Fills *err (which may be NULL) and returns code, so that `return err_set(err, -EINVAL, ...)`
 * reads as one thought. Later calls replace the text. */
int err_set(struct err *err, int code, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
