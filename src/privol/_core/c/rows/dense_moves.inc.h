/* Contiguous rows times a number, included once per level and element type: REAL, NAME and LEVEL as for
 * rows_dense.inc.h; ENTRIES(n, body) is a loop like PIECES, in which ENTRY(x) reads from a row. */

LEVEL static void NAME(axpy)(const pv_rows *r, int64_t i, double a, double *restrict w) {
    const REAL *x = (const REAL *)(r->data + i * r->row_stride);
    ENTRIES(r->d, TO(w) += a * ENTRY(x);)
}

LEVEL static void NAME(scaled)(const pv_rows *r, int64_t i, double a, double *restrict w) {
    const REAL *x = (const REAL *)(r->data + i * r->row_stride);
    ENTRIES(r->d, TO(w) = a * ENTRY(x) + 0.0;)
}
