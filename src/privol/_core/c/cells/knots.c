#include "cells/pv_knots.h"

#include <stddef.h>

int64_t pv_between(const pv_knots *knots, int64_t n, const double *values, int32_t *left, double *share,
                   unsigned char *beyond) {
    const double first = knots->knots[0], last = knots->knots[knots->intervals];
    int64_t none = 0;
    for (int64_t i = 0; i < n; ++i) {
        double x = values[i], rest;
        int32_t j = 0;
        if (x != x) {
            left[i] = -1;
            share[i] = 0;
            beyond[i] = 0;
            ++none;
            continue;
        }
        beyond[i] = x < first || x > last;
        if (x < first) x = first;
        if (x > last) x = last;
        for (int64_t k = 1; k < knots->intervals; ++k) j += knots->knots[k] <= x;
        rest = 1.0 - (x * knots->factors[j] - knots->lows[j]) / knots->widths[j];
        left[i] = j;
        share[i] = 1.0 - rest; /* exactly the rest */
    }
    return none;
}

void pv_functions(int64_t n, const int32_t *cells, const int32_t *left, const double *share, int64_t width,
                  const double *values, const double *steps, int64_t stride, double *rows) {
    for (int64_t i = 0; i < n; ++i, rows += stride) {
        const int64_t cell = cells == NULL ? i : cells[i];
        if (left[cell] < 0) continue;
        const double *value = values + left[cell] * width, *step = steps + left[cell] * width;
        for (int64_t k = 0; k < width; ++k) rows[k] = value[k] + step[k] * share[cell];
    }
}
