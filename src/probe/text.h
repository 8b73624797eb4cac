/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences that grow. */
#ifndef PROBE_TEXT_H
#define PROBE_TEXT_H

#define PROBE_TEXT_BYTES 512U

/* Adds to the text; what there is no room for is cut. */
__attribute__((format(printf, 2, 3))) void text_add(char text[PROBE_TEXT_BYTES], const char *format,
                                                    ...);

#endif
