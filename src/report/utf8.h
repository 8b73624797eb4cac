/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_UTF8_H
#define REPORT_UTF8_H

#include <stddef.h>

/* How many bytes the UTF-8 character at the start has; 0: it is none (RFC 3629 §4). size > 0. */
size_t utf8_bytes(const unsigned char *bytes, size_t size);

#endif
