/* Columns of numbers as rows. */
#ifndef PV_COLUMNS_H
#define PV_COLUMNS_H

#include <stdint.h>

/* Writes n rows of ``width`` doubles, of which column j holds number i at columns[j][i]: row i begins at
 * rows + i * stride, ``stride`` at least ``width``. */
void pv_rows_of(int64_t n, int64_t width, const double *const *columns, int64_t stride, double *rows);

#endif
