/* Included by rows.c once per element type REAL, with NAME(op) giving the function's name: any column stride, the same
 * lanes in the same order. */

static double NAME(dot_strided)(const pv_rows *r, int64_t i, const double *w) {
    const char *p = r->data + i * r->row_stride;
    double acc[LANES] = {0};
    for (int64_t j = 0; j < r->d; ++j) acc[j % LANES] += (double)*(const REAL *)(p + j * r->col_stride) * w[j];
    return reduce(acc);
}

static void NAME(axpy_strided)(const pv_rows *r, int64_t i, double a, double *restrict w) {
    const char *p = r->data + i * r->row_stride;
    for (int64_t j = 0; j < r->d; ++j) w[j] += a * (double)*(const REAL *)(p + j * r->col_stride);
}

static void NAME(scaled_strided)(const pv_rows *r, int64_t i, double a, double *restrict w) {
    const char *p = r->data + i * r->row_stride;
    for (int64_t j = 0; j < r->d; ++j) w[j] = a * (double)*(const REAL *)(p + j * r->col_stride) + 0.0;
}

static double NAME(sqnorm_strided)(const pv_rows *r, int64_t i) {
    const char *p = r->data + i * r->row_stride;
    double acc[LANES] = {0};
    for (int64_t j = 0; j < r->d; ++j) {
        double x = (double)*(const REAL *)(p + j * r->col_stride);
        acc[j % LANES] += x * x;
    }
    return reduce(acc);
}
