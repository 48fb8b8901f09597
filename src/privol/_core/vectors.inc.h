/* Vectors of doubles, included by rows.c once per level: VECTOR(op), the functions' names; LEVEL and RETURN_SUM as for
 * rows_dense.inc.h. */

LEVEL static double VECTOR(sqnorm)(const double *x, int64_t n) { RETURN_SUM(x, x, n) }

LEVEL static void VECTOR(publish)(const double *restrict x, double f, double *restrict out, double *restrict sum, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
        out[j] = x[j] * f + 0.0;
        sum[j] += out[j];
    }
}
