/* Vectors of doubles, included by rows.c once per level: VECTOR(op), the functions' names; LEVEL and RETURN_SUM as for
 * rows_dense.inc.h. */

LEVEL static double VECTOR(sqnorm)(const double *x, int64_t n) { RETURN_SUM(x, x, n) }

LEVEL static void VECTOR(publish)(const double *restrict x, double f, double *restrict out, double *restrict sum, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
        out[j] = x[j] * f + 0.0;
        sum[j] += out[j];
    }
}

/* Eight coordinates at a time through all buffers: they stay in registers. The last, fewer ones by the same operations. */
LEVEL static void VECTOR(mix)(const double *theta, const double *omega, int q, const double *restrict w,
                              double *restrict buffers, double *restrict x, int64_t n) {
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES) {
        double sum[LANES], row[LANES];
        for (int l = 0; l < LANES; ++l) sum[l] = row[l] = w[c + l];
        for (int j = 0; j < q; ++j) {
            double *restrict b = buffers + j * n + c;
            for (int l = 0; l < LANES; ++l) sum[l] += omega[j] * b[l];
            for (int l = 0; l < LANES; ++l) b[l] = theta[j] * b[l] + row[l];
        }
        for (int l = 0; l < LANES; ++l) x[c + l] = sum[l];
    }
    for (; c < n; ++c) {
        double sum = w[c];
        for (int j = 0; j < q; ++j) {
            double *b = buffers + j * n + c;
            sum += omega[j] * *b;
            *b = theta[j] * *b + w[c];
        }
        x[c] = sum;
    }
}

LEVEL static void VECTOR(unmix)(const double *theta, const double *omega, int q, const double *restrict r,
                                double *restrict buffers, double *restrict sum, int64_t n) {
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES) {
        double y[LANES];
        for (int l = 0; l < LANES; ++l) y[l] = r[c + l];
        for (int j = 0; j < q; ++j)
            for (int l = 0; l < LANES; ++l) y[l] -= omega[j] * buffers[j * n + c + l];
        for (int j = 0; j < q; ++j)
            for (int l = 0; l < LANES; ++l) buffers[j * n + c + l] = theta[j] * buffers[j * n + c + l] + y[l];
        for (int l = 0; l < LANES; ++l) sum[c + l] += y[l];
    }
    for (; c < n; ++c) {
        double y = r[c];
        for (int j = 0; j < q; ++j) y -= omega[j] * buffers[j * n + c];
        for (int j = 0; j < q; ++j) buffers[j * n + c] = theta[j] * buffers[j * n + c] + y;
        sum[c] += y;
    }
}
