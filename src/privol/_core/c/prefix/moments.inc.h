/* Included by moments.c once per level: MOMENTS, the function's name, and LEVEL, its attributes. */

/* Row i of the triangle, its diagonal first, then the products with the targets; four rows in one pass, then the
 * remaining ones: the same operations in the same order. */
LEVEL static void MOMENTS(const double *restrict v, const double *restrict y, int64_t k, int64_t d, int fresh,
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
