/* SPDX-License-Identifier: Apache-2.0 */
/* Plots as SVG, and a page to put them on that needs nothing else. */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include "base/check.h"

#include <stdio.h>

#define PLOT_SERIES_COUNT_MAX 8U

struct plot_series {
    const char *name;
    const double *x; /* above 0 */
    const double *y; /* 0 and above */
    size_t count;
};

struct plot {
    const char *title;
    const char *x_name, *y_name;
    const char *const *x_labels; /* of the values of x_ticks */
    const double *x_ticks;
    size_t x_tick_count;
    double y_unit; /* values are divided by it */
    const struct plot_series *series;
    size_t series_count;
};

/* x by its logarithm, y from 0. */
void plot_write_svg(FILE *file, const struct plot *plot);

/* HTML around what is written between the two. `title` and texts are escaped. */
void page_begin(FILE *file, const char *title);
void page_end(FILE *file);
/* One element with a text in it: page_text(file, "p", text). */
void page_text(FILE *file, const char *element, const char *text);
void page_escape(FILE *file, const char *text);

#endif
