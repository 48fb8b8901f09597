/* Sums over and of vectors of doubles, included by rows.c once per level that has its own: VECTOR(op), the functions'
 * names; LEVEL and RETURN_SUM as for rows_dense.inc.h. */

LEVEL static double VECTOR(sqnorm)(const double *x, int64_t n){RETURN_SUM(x, x, n)}

LEVEL static double VECTOR(dot)(const double *x, const double *y, int64_t n){RETURN_SUM(x, y, n)}

LEVEL static void VECTOR(combine)(const double *weights, const double *const *x, int64_t count, double *restrict out,
                                  int64_t n) {
    int64_t c = 0;
    for (; c + 16 <= n; c += 16) { /* sums of 16 columns stay in registers */
        double sum[16];
        for (int l = 0; l < 16; ++l) sum[l] = weights[0] * x[0][c + l];
        for (int64_t k = 1; k < count; ++k)
            for (int l = 0; l < 16; ++l) sum[l] += weights[k] * x[k][c + l];
        for (int l = 0; l < 16; ++l) out[c + l] = sum[l] + 0.0;
    }
    for (; c < n; ++c) {
        double sum = weights[0] * x[0][c];
        for (int64_t k = 1; k < count; ++k) sum += weights[k] * x[k][c];
        out[c] = sum + 0.0;
    }
}
