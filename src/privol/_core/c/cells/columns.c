#include "cells/pv_columns.h"

/* So many cells of the result are in the nearest cache while its columns come. */
#define NEAR 2048
#define FEWEST 8 /* a line of the cache */

void pv_rows_of(int64_t n, int64_t width, const double *const *columns, int64_t stride, double *rows) {
    const int64_t near = width > 0 ? NEAR / width / FEWEST * FEWEST : n;
    const int64_t step = near > FEWEST ? near : FEWEST;
    for (int64_t start = 0; start < n; start += step) {
        const int64_t stop = n - start < step ? n : start + step;
        for (int64_t j = 0; j < width; ++j) {
            const double *column = columns[j];
            double *cell = rows + start * stride + j;
            for (int64_t i = start; i < stop; ++i, cell += stride) *cell = column[i];
        }
    }
}
