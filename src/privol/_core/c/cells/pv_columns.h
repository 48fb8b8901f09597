/* Columns of numbers as rows. */
#ifndef PV_COLUMNS_H
#define PV_COLUMNS_H

#include <stdint.h>

/* Writes n rows of ``width`` doubles; columns[j][i] becomes number j of row i. Row i begins at rows + i * stride,
 * where ``stride`` is at least ``width``. */
void pv_rows_of(int64_t n, int64_t width, const double *const *columns, int64_t stride, double *rows);

#endif
