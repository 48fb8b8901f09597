#include "prefix/pv_ridge.h"

#include <math.h>

static const double SQRT_HALF = 0.70710678118654757;

enum { STEPS = 100 };                /* of Newton's method, which converges in a few */
static const double CLOSE = 0x1p-40; /* relative distance from the radius at which it stops */

int64_t pv_ridge_work(int64_t d) { return 4 * d + 1 + 6 * d + 2 * d * d; }

int64_t pv_ridge_integers(int64_t d) { return 3 + 5 * d; }

int64_t pv_moments_size(int64_t d) { return d * (d + 1) / 2 + d; }

int64_t pv_all_moments_size(int64_t d) { return d * d + d; }

void pv_all_moments(const double *v, double y, int64_t d, double *out) {
    for (int64_t i = 0; i < d; ++i)
        for (int64_t j = 0; j < d; ++j) *out++ = v[i] * v[j];
    for (int64_t j = 0; j < d; ++j) *out++ = y * v[j];
}

/* Lower triangle, by columns, of V + shift I. */
static void unpack(const double *moments, int64_t d, double shift, double *a) {
    for (int64_t i = 0; i < d; ++i) {
        double *column = a + i * d;
        column[i] = moments[0] + shift;
        for (int64_t j = i + 1; j < d; ++j) column[j] = SQRT_HALF * moments[j - i];
        moments += d - i;
    }
}

static double length(const double *x, int64_t d) {
    double largest = 0.0, sum = 0.0;
    for (int64_t i = 0; i < d; ++i) largest = fabs(x[i]) > largest ? fabs(x[i]) : largest;
    if (!(largest > 0.0)) return largest;
    for (int64_t i = 0; i < d; ++i) sum += (x[i] / largest) * (x[i] / largest);
    return largest * sqrt(sum);
}

static void shrink(double *x, int64_t d, double radius) {
    const double norm = length(x, d);
    if (norm > radius)
        for (int64_t i = 0; i < d; ++i) x[i] *= radius / norm;
}

static int all_finite(const double *x, int64_t n) {
    double sum = 0.0; /* zero, unless an entry is not finite */
    for (int64_t i = 0; i < n; ++i) sum += x[i] * 0.0;
    return sum == 0.0;
}

/* By Cholesky factors; nu grows from 0 to the root of 1 / radius = 1 / ||x(nu)||, from the left (More and Sorensen
 * 1983). Returns 0 if the matrix is not positive definite. */
static int by_cholesky(pv_ridge *ridge, const double *moments, double shift, double radius, double *x) {
    int d = ridge->d, one = 1, info;
    const double *u = moments + pv_moments_size(d) - d;
    double *q = ridge->work, nu = 0.0;
    char lower = 'L', plain = 'N', transposed = 'T';
    for (int k = 0; k < STEPS; ++k) {
        unpack(moments, d, shift + nu, ridge->matrix);
        ridge->lapack.potrf(&lower, &d, ridge->matrix, &d, &info);
        if (info != 0) return 0;
        for (int64_t i = 0; i < d; ++i) x[i] = u[i];
        ridge->lapack.trtrs(&lower, &plain, &plain, &d, &one, ridge->matrix, &d, x, &d, &info);
        if (info != 0) return 0;
        ridge->lapack.trtrs(&lower, &transposed, &plain, &d, &one, ridge->matrix, &d, x, &d, &info);
        if (info != 0) return 0;
        const double norm = length(x, d);
        if (!(norm < HUGE_VAL)) return 0;
        if (norm <= radius * (1.0 + CLOSE)) break;
        for (int64_t i = 0; i < d; ++i) q[i] = x[i] / norm;
        ridge->lapack.trtrs(&lower, &plain, &plain, &d, &one, ridge->matrix, &d, q, &d, &info);
        if (info != 0) return 0;
        const double slope = length(q, d);
        nu += (norm - radius) / radius / (slope * slope);
    }
    shrink(x, d, radius);
    return 1;
}

/* By eigenvalues. Returns 0 if LAPACK failed. */
static int by_eigenvalues(pv_ridge *ridge, const double *moments, double most, double shift, double radius, double *x) {
    int d = ridge->d, info, lwork = 1 + 6 * d + 2 * d * d, liwork = 3 + 5 * d;
    const double *u = moments + pv_moments_size(d) - d;
    double *value = ridge->work, *c = value + d, *y = c + d, *work = y + 2 * d, nu = 0.0;
    char vectors = 'V', lower = 'L';
    unpack(moments, d, 0.0, ridge->matrix);
    ridge->lapack.syevd(&vectors, &lower, &d, ridge->matrix, &d, value, work, &lwork, ridge->integers, &liwork, &info);
    if (info != 0) return 0;
    for (int64_t k = 0; k < d; ++k) {
        value[k] = (value[k] < 0.0 ? 0.0 : value[k] > most ? most : value[k]) + shift;
        c[k] = 0.0;
        for (int64_t i = 0; i < d; ++i) c[k] += ridge->matrix[k * d + i] * u[i];
    }
    for (int step = 0; step < STEPS; ++step) {
        double slope = 0.0;
        for (int64_t k = 0; k < d; ++k) y[k] = c[k] / (value[k] + nu);
        const double norm = length(y, d);
        if (!(norm < HUGE_VAL)) return 0;
        if (norm <= radius * (1.0 + CLOSE)) break;
        for (int64_t k = 0; k < d; ++k) slope += (y[k] / norm) * (y[k] / norm) / (value[k] + nu);
        nu += (norm - radius) / radius / slope;
    }
    for (int64_t i = 0; i < d; ++i) x[i] = 0.0;
    for (int64_t k = 0; k < d; ++k)
        for (int64_t i = 0; i < d; ++i) x[i] += y[k] * ridge->matrix[k * d + i];
    shrink(x, d, radius);
    return 1;
}

pv_status pv_ridge_solve(pv_ridge *ridge, const double *moments, double most, double shift, double radius, double *x) {
    const int64_t d = ridge->d;
    if (!all_finite(moments, pv_moments_size(d))) return PV_NOT_FINITE;
    if (!by_cholesky(ridge, moments, shift, radius, x)) {
        ++ridge->n_indefinite;
        if (!by_eigenvalues(ridge, moments, most, shift, radius, x)) return PV_NOT_FINITE;
    }
    return all_finite(x, d) ? PV_OK : PV_NOT_FINITE;
}

pv_status pv_ridge_solve_as_printed(pv_ridge *ridge, const double *moments, double shift, double *x) {
    int d = ridge->d, one = 1, info;
    double *a = ridge->matrix;
    char lower = 'L';
    if (!all_finite(moments, pv_all_moments_size(d))) return PV_NOT_FINITE;
    for (int64_t i = 0; i < d; ++i)
        for (int64_t j = 0; j < d; ++j)
            a[i * d + j] = 0.5 * (moments[i * d + j] + moments[j * d + i]) + (i == j ? shift : 0.0);
    ridge->lapack.potrf(&lower, &d, a, &d, &info);
    ridge->n_indefinite += info != 0;
    for (int64_t i = 0; i < d; ++i) {
        for (int64_t j = 0; j < d; ++j) a[j * d + i] = moments[i * d + j] + (i == j ? shift : 0.0); /* by columns */
        x[i] = moments[(int64_t)d * d + i];
    }
    ridge->lapack.gesv(&d, &one, a, &d, ridge->integers, x, &d, &info);
    if (info != 0 || !all_finite(x, d))
        for (int64_t i = 0; i < d; ++i) x[i] = 0.0;
    return PV_OK;
}
