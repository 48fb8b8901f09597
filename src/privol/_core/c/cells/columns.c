#include "cells/pv_columns.h"

#include "cells/pv_far.h"

/* This many cells of the result stay in the nearest cache while its columns are copied. */
#define NEAR 2048
#define FEWEST 8 /* a cache line */

static void write_rows(int64_t first, int64_t stop, int64_t width, const double *const *columns, int64_t stride,
                       double *rows) {
    for (int64_t j = 0; j < width; ++j) {
        const double *column = columns[j];
        double *cell = rows + j;
        for (int64_t i = first; i < stop; ++i, cell += stride) *cell = column[i];
    }
}

void pv_rows_of(int64_t n, int64_t width, const double *const *columns, int64_t stride, double *rows) {
    double near[NEAR];
    const int64_t fit = width > 0 ? NEAR / width / FEWEST * FEWEST : n;
    const int64_t step = fit > FEWEST ? fit : FEWEST;
    for (int64_t start = 0; start < n; start += step) {
        const int64_t stop = n - start < step ? n : start + step;
        if (stride == width && step * width <= NEAR) {
            write_rows(start, stop, width, columns, width, near);
            pv_copy_far(near, (stop - start) * width, rows + start * stride);
        } else
            write_rows(start, stop, width, columns, stride, rows + start * stride);
    }
    pv_far_end();
}
