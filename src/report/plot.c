/* SPDX-License-Identifier: Apache-2.0 */
#include "report/plot.h"

#include <math.h>

#define WIDTH 760.0
#define HEIGHT 320.0
#define LEFT 70.0
#define RIGHT 150.0
#define TOP 30.0
#define BOTTOM 45.0
#define Y_TICK_COUNT 5

static const char *const colours[PLOT_SERIES_COUNT_MAX] = {
    "#0b62a4", "#c7472e", "#3a8f3a", "#8a5a9e", "#b8860b", "#444444", "#0a9396", "#d6336c",
};

void page_escape(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc(*text, file);
            break;
        }
    }
}

void page_text(FILE *file, const char *element, const char *text)
{
    fprintf(file, "<%s>", element);
    page_escape(file, text);
    fprintf(file, "</%s>\n", element);
}

void page_begin(FILE *file, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n", file);
    page_text(file, "title", title);
    fputs("<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;"
          "padding:0 1em;color:#222}table{border-collapse:collapse;font-variant-numeric:"
          "tabular-nums}td,th{padding:.1em .8em;text-align:right;border-bottom:1px solid #ddd}"
          "td:first-child,th:first-child{text-align:left}svg text{font:12px system-ui,sans-serif}"
          "dt{font-weight:600;margin-top:1em}</style></head><body>\n",
          file);
    page_text(file, "h1", title);
}

void page_end(FILE *file)
{
    fputs("</body></html>\n", file);
}

/* ---- plots ---- */

struct axes {
    double x_min, x_max; /* logarithms */
    double y_max;
};

static double at_x(const struct axes *axes, double x)
{
    double span = axes->x_max - axes->x_min;
    double part = span > 0 ? (log2(x) - axes->x_min) / span : 0.5;
    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct axes *axes, double y)
{
    return HEIGHT - BOTTOM - y / axes->y_max * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, at least so much. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value)));
    double digit = value / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static struct axes find_axes(const struct plot *plot)
{
    struct axes axes = {.x_min = INFINITY, .x_max = -INFINITY, .y_max = 0};
    for (size_t i = 0; i < plot->series_count; i++) {
        const struct plot_series *series = &plot->series[i];
        for (size_t n = 0; n < series->count; n++) {
            axes.x_min = fmin(axes.x_min, log2(series->x[n]));
            axes.x_max = fmax(axes.x_max, log2(series->x[n]));
            axes.y_max = fmax(axes.y_max, series->y[n] / plot->y_unit);
        }
    }
    double step = axes.y_max > 0 ? round_up(axes.y_max / Y_TICK_COUNT) : 1.0 / Y_TICK_COUNT;
    axes.y_max = step * Y_TICK_COUNT;
    return axes;
}

static void write_axes(FILE *file, const struct plot *plot, const struct axes *axes)
{
    for (int i = 0; i <= Y_TICK_COUNT; i++) {
        double value = axes->y_max * i / Y_TICK_COUNT;
        double y = at_y(axes, value);
        fprintf(file, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>",
                LEFT, WIDTH - RIGHT, y, y);
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 6,
                y + 4, value);
    }
    for (size_t i = 0; i < plot->x_tick_count; i++) {
        double log_x = log2(plot->x_ticks[i]);
        if (log_x >= axes->x_min && log_x <= axes->x_max) {
            fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
                    at_x(axes, plot->x_ticks[i]), HEIGHT - BOTTOM + 16);
            page_escape(file, plot->x_labels[i]);
            fputs("</text>\n", file);
        }
    }
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 8);
    page_escape(file, plot->x_name);
    fprintf(file, "</text><text x=\"%.1f\" y=\"16\">", LEFT - 50);
    page_escape(file, plot->y_name);
    fputs("</text>\n", file);
}

static void write_series(FILE *file, const struct plot *plot, const struct axes *axes, size_t i)
{
    const struct plot_series *series = &plot->series[i];
    const char *colour = colours[i % PLOT_SERIES_COUNT_MAX];

    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (size_t n = 0; n < series->count; n++) {
        fprintf(file, "%.1f,%.1f ", at_x(axes, series->x[n]),
                at_y(axes, series->y[n] / plot->y_unit));
    }
    fputs("\"/>\n", file);
    for (size_t n = 0; n < series->count; n++) {
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>",
                at_x(axes, series->x[n]), at_y(axes, series->y[n] / plot->y_unit), colour);
    }
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">", WIDTH - RIGHT + 10,
            TOP + 18 * (double)(i + 1), colour);
    page_escape(file, series->name);
    fputs("</text>\n", file);
}

void plot_write_svg(FILE *file, const struct plot *plot)
{
    struct axes axes = find_axes(plot);

    page_text(file, "h2", plot->title);
    fprintf(file, "<svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" role=\"img\">\n", WIDTH, HEIGHT,
            WIDTH);
    write_axes(file, plot, &axes);
    for (size_t i = 0; i < plot->series_count; i++) {
        write_series(file, plot, &axes, i);
    }
    fputs("</svg>\n", file);
}
