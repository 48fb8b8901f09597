/* Vectors of doubles, included by rows.c once per level: VECTOR(op), the functions' names; LEVEL and RETURN_SUM as for
 * rows_dense.inc.h. */

LEVEL static double VECTOR(sqnorm)(const double *x, int64_t n){RETURN_SUM(x, x, n)}

LEVEL static double VECTOR(dot)(const double *x, const double *y, int64_t n){RETURN_SUM(x, y, n)}

LEVEL static void VECTOR(publish)(const double *restrict x, double f, double weight, double *restrict out,
                                  double *restrict sum, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
        out[j] = x[j] * f + 0.0;
        sum[j] += weight * out[j];
    }
}

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

/* Row i of the triangle, its diagonal first, then the products with the targets; four rows in one pass, then those that
 * are left: the same operations in the same order. */
LEVEL static void VECTOR(moments)(const double *restrict v, const double *restrict y, int64_t k, int64_t d, int fresh,
                                  double *restrict sum) {
    static const double root = 1.4142135623730951;
    for (int64_t i = 0; i <= d; ++i) {
        const int64_t first = i < d ? i + 1 : 0, n = d - first;
        double f[PV_MOMENT_ROWS];
        int64_t r = fresh != 0;
        for (int64_t l = 0; l < k; ++l) f[l] = i < d ? root * v[l * d + i] : y[l];
        if (i < d) {
            double square = fresh ? v[i] * v[i] : *sum;
            for (int64_t l = r; l < k; ++l) square += v[l * d + i] * v[l * d + i];
            *sum++ = square;
        }
        if (fresh)
            for (int64_t j = 0; j < n; ++j) sum[j] = f[0] * v[first + j];
        for (; r + 4 <= k; r += 4) {
            const double *restrict a = v + r * d + first, *restrict b = a + d, *restrict e = b + d, *restrict g = e + d;
            const double f0 = f[r], f1 = f[r + 1], f2 = f[r + 2], f3 = f[r + 3];
            for (int64_t j = 0; j < n; ++j) sum[j] = (((sum[j] + f0 * a[j]) + f1 * b[j]) + f2 * e[j]) + f3 * g[j];
        }
        for (; r < k; ++r) {
            const double *restrict a = v + r * d + first;
            for (int64_t j = 0; j < n; ++j) sum[j] += f[r] * a[j];
        }
        sum += n;
    }
}

/* Four buffers in one pass, then those that are left: the same operations in the same order. */
LEVEL static void VECTOR(mix)(const double *theta, const double *omega, int q, const double *restrict w,
                              double *restrict buffers, double *restrict x, int64_t n) {
    int j = 0;
    for (int64_t c = 0; c < n; ++c) x[c] = w[c];
    for (; j + 4 <= q; j += 4) {
        const double *t = theta + j, *o = omega + j, t0 = t[0], t1 = t[1], t2 = t[2], t3 = t[3];
        const double o0 = o[0], o1 = o[1], o2 = o[2], o3 = o[3];
        double *restrict a = buffers + j * n, *restrict b = a + n, *restrict e = b + n, *restrict f = e + n;
        for (int64_t c = 0; c < n; ++c) {
            x[c] = (((x[c] + o0 * a[c]) + o1 * b[c]) + o2 * e[c]) + o3 * f[c];
            a[c] = t0 * a[c] + w[c];
            b[c] = t1 * b[c] + w[c];
            e[c] = t2 * e[c] + w[c];
            f[c] = t3 * f[c] + w[c];
        }
    }
    for (; j < q; ++j) {
        const double t = theta[j], o = omega[j];
        double *restrict b = buffers + j * n;
        for (int64_t c = 0; c < n; ++c) {
            x[c] += o * b[c];
            b[c] = t * b[c] + w[c];
        }
    }
}

LEVEL static void VECTOR(unmix)(const double *theta, const double *omega, int q, double *restrict y,
                                double *restrict buffers, double *restrict sum, int64_t n) {
    if (q == 4) {
        const double t0 = theta[0], t1 = theta[1], t2 = theta[2], t3 = theta[3];
        const double o0 = omega[0], o1 = omega[1], o2 = omega[2], o3 = omega[3];
        double *restrict a = buffers, *restrict b = a + n, *restrict e = b + n, *restrict f = e + n;
        for (int64_t c = 0; c < n; ++c) {
            y[c] = (((y[c] - o0 * a[c]) - o1 * b[c]) - o2 * e[c]) - o3 * f[c];
            a[c] = t0 * a[c] + y[c];
            b[c] = t1 * b[c] + y[c];
            e[c] = t2 * e[c] + y[c];
            f[c] = t3 * f[c] + y[c];
            sum[c] += y[c];
        }
        return;
    }
    for (int j = 0; j < q; ++j) {
        const double o = omega[j], *restrict b = buffers + j * n;
        for (int64_t c = 0; c < n; ++c) y[c] -= o * b[c];
    }
    for (int j = 0; j < q; ++j) {
        const double t = theta[j];
        double *restrict b = buffers + j * n;
        for (int64_t c = 0; c < n; ++c) b[c] = t * b[c] + y[c];
    }
    for (int64_t c = 0; c < n; ++c) sum[c] += y[c];
}
