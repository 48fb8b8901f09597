/* Contiguous rows, included by rows.c once per level and element type. The includer defines REAL; NAME(op), the
 * functions' names; LEVEL, their attributes; RETURN_SUM(a, b, n), which returns the sum of a[j] b[j], j < n, in the
 * lanes. */

LEVEL static double NAME(dot)(const pv_rows *r, int64_t i, const double *w) {
    const REAL *x = (const REAL *)(r->data + i * r->row_stride);
    RETURN_SUM(x, w, r->d)
}

LEVEL static double NAME(sqnorm)(const pv_rows *r, int64_t i) {
    const REAL *x = (const REAL *)(r->data + i * r->row_stride);
    RETURN_SUM(x, x, r->d)
}

#include "rows/dense_moves.inc.h"
