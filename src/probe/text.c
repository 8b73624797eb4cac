/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_add(char text[PROBE_TEXT_BYTES], const char *format, ...)
{
    va_list arguments;
    size_t at = strlen(text);
    va_start(arguments, format);
    (void)vsnprintf(text + at, PROBE_TEXT_BYTES - at, format, arguments);
    va_end(arguments);
}
