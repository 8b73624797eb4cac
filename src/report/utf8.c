/* SPDX-License-Identifier: Apache-2.0 */
#include "report/utf8.h"

#include "base/check.h"

size_t utf8_bytes(const unsigned char *bytes, size_t size)
{
    static const struct {
        unsigned char first_min, first_max, second_min, second_max;
        size_t bytes;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (bytes[0] < 0x80) {
        return 1;
    }
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        if (bytes[0] < forms[i].first_min || bytes[0] > forms[i].first_max ||
            size < forms[i].bytes || bytes[1] < forms[i].second_min ||
            bytes[1] > forms[i].second_max) {
            continue;
        }
        for (size_t j = 2; j < forms[i].bytes; j++) {
            if ((bytes[j] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return forms[i].bytes;
    }
    return 0;
}
