#include "offline/pv_newton.h"

#include <math.h>

int pv_cholesky(double *a, int64_t dim, int64_t width, double shift, const pv_vectors *vectors) {
    for (int64_t j = 0; j < dim; ++j) {
        double *row = a + j * width;
        for (int64_t k = 0; k < j; ++k) {
            const double *other = a + k * width;
            row[k] = (row[k] - vectors->dot(row, other, k)) / other[k];
        }
        const double whole = row[j] + shift, pivot = whole - vectors->dot(row, row, j);
        if (!(pivot > 0x1p-52 * whole && pivot < HUGE_VAL)) return 0; /* the rest is rounding */
        row[j] = sqrt(pivot);
    }
    return 1;
}

void pv_cholesky_solve(const double *l, int64_t dim, int64_t width, double *x, const pv_vectors *vectors) {
    for (int64_t j = 0; j < dim; ++j) x[j] = (x[j] - vectors->dot(l + j * width, x, j)) / l[j * width + j];
    for (int64_t j = dim - 1; j >= 0; --j) {
        x[j] /= l[j * width + j];
        pv_add(-x[j], l + j * width, x, j);
    }
}

void pv_add(double a, const double *restrict x, double *restrict y, int64_t n) {
    for (int64_t j = 0; j < n; ++j) y[j] += a * x[j];
}

void pv_scale_add(const double *restrict x, double a, double *restrict y, int64_t n) {
    for (int64_t j = 0; j < n; ++j) y[j] = x[j] + a * y[j];
}

void pv_divide(const double *restrict r, const double *restrict diagonal, double *restrict z, int64_t n) {
    for (int64_t j = 0; j < n; ++j) z[j] = r[j] / diagonal[j];
}
