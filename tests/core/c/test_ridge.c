/* Moments, and ridge regression from them, on a small LAPACK of its own: its equations, and its two exits. */
#include "check.h"
#include "noise/pv_first_pass.h"
#include "prefix/pv_moments.h"
#include "prefix/pv_prefix.h"
#include "prefix/pv_ridge.h"

static void potrf(char *uplo, int *n, double *a, int *lda, int *info) {
    CHECK(*uplo == 'L' && *lda == *n);
    *info = 0;
    for (int k = 0; k < *n; ++k) {
        double pivot = a[k * *n + k];
        for (int j = 0; j < k; ++j) pivot -= a[j * *n + k] * a[j * *n + k];
        if (!(pivot > 0.0)) {
            *info = k + 1;
            return;
        }
        a[k * *n + k] = sqrt(pivot);
        for (int i = k + 1; i < *n; ++i) {
            double sum = a[k * *n + i];
            for (int j = 0; j < k; ++j) sum -= a[j * *n + i] * a[j * *n + k];
            a[k * *n + i] = sum / a[k * *n + k];
        }
    }
}

static void trtrs(char *uplo, char *trans, char *diag, int *n, int *nrhs, double *a, int *lda, double *b, int *ldb,
                  int *info) {
    CHECK(*uplo == 'L' && *diag == 'N' && *nrhs == 1 && *lda == *n && *ldb == *n);
    *info = 0;
    if (*trans == 'N') {
        for (int i = 0; i < *n; ++i) {
            for (int j = 0; j < i; ++j) b[i] -= a[j * *n + i] * b[j];
            b[i] /= a[i * *n + i];
        }
    } else {
        for (int i = *n - 1; i >= 0; --i) {
            for (int j = i + 1; j < *n; ++j) b[i] -= a[i * *n + j] * b[j];
            b[i] /= a[i * *n + i];
        }
    }
}

/* Jacobi's rotations; touches all of its permitted work space. */
static void syevd(char *jobz, char *uplo, int *n, double *a, int *lda, double *w, double *work, int *lwork, int *iwork,
                  int *liwork, int *info) {
    const int d = *n;
    CHECK(*jobz == 'V' && *uplo == 'L' && *lda == d && *lwork == 1 + 6 * d + 2 * d * d && *liwork == 3 + 5 * d);
    for (int i = 0; i < *lwork; ++i) work[i] = 1.0;
    for (int i = 0; i < *liwork; ++i) iwork[i] = 1;
    double *v = work; /* columns are eigenvectors */
    for (int i = 0; i < d; ++i)
        for (int j = 0; j < d; ++j) {
            v[i * d + j] = i == j;
            if (j < i) a[i * d + j] = a[j * d + i];
        }
    for (int sweep = 0; sweep < 60; ++sweep)
        for (int p = 0; p < d; ++p)
            for (int q = p + 1; q < d; ++q) {
                if (a[q * d + p] == 0.0) continue;
                double theta = (a[q * d + q] - a[p * d + p]) / (2.0 * a[q * d + p]);
                double t = (theta >= 0 ? 1.0 : -1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
                double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
                for (int k = 0; k < d; ++k) {
                    double x = a[p * d + k], y = a[q * d + k];
                    a[p * d + k] = c * x - s * y, a[q * d + k] = s * x + c * y;
                    x = v[p * d + k], y = v[q * d + k];
                    v[p * d + k] = c * x - s * y, v[q * d + k] = s * x + c * y;
                }
                for (int k = 0; k < d; ++k) {
                    double x = a[k * d + p], y = a[k * d + q];
                    a[k * d + p] = c * x - s * y, a[k * d + q] = s * x + c * y;
                }
            }
    for (int i = 0; i < d; ++i) w[i] = a[i * d + i];
    memcpy(a, v, (size_t)(d * d) * sizeof(double));
    *info = 0;
}

/* Gaussian elimination with pivots. */
static void gesv(int *n, int *nrhs, double *a, int *lda, int *pivots, double *b, int *ldb, int *info) {
    const int d = *n;
    (void)nrhs, (void)lda, (void)ldb;
    *info = 0;
    for (int k = 0; k < d; ++k) {
        int p = k;
        for (int i = k; i < d; ++i) p = fabs(a[k * d + i]) > fabs(a[k * d + p]) ? i : p;
        pivots[k] = p;
        if (a[k * d + p] == 0.0) {
            *info = k + 1;
            return;
        }
        for (int j = 0; j < d; ++j) {
            const double held = a[j * d + k];
            a[j * d + k] = a[j * d + p], a[j * d + p] = held;
        }
        const double held = b[k];
        b[k] = b[p], b[p] = held;
        for (int i = k + 1; i < d; ++i) {
            const double f = a[k * d + i] / a[k * d + k];
            for (int j = k; j < d; ++j) a[j * d + i] -= f * a[j * d + k];
            b[i] -= f * b[k];
        }
    }
    for (int k = d - 1; k >= 0; --k) {
        for (int j = k + 1; j < d; ++j) b[k] -= a[j * d + k] * b[j];
        b[k] /= a[k * d + k];
    }
}

static pv_ridge make(int d) {
    pv_ridge ridge = {.lapack = {potrf, trtrs, syevd, gesv}, .d = d, .matrix = doubles(d * d)};
    ridge.work = doubles(pv_ridge_work(d));
    ridge.integers = buffer(pv_ridge_integers(d), sizeof(int));
    return ridge;
}

static void drop(pv_ridge *ridge) { free(ridge->matrix), free(ridge->work), free(ridge->integers); }

/* (V + shift I) x by the moments' layout, for the upper triangle by rows. */
static void apply(const double *moments, int64_t d, double shift, const double *x, double *out) {
    for (int64_t i = 0; i < d; ++i) out[i] = shift * x[i];
    for (int64_t i = 0; i < d; ++i, moments += d - i + 1)
        for (int64_t j = i; j < d; ++j) {
            double entry = i == j ? moments[0] : moments[j - i] / sqrt(2.0);
            out[i] += entry * x[j];
            if (i != j) out[j] += entry * x[i];
        }
}

static void solves(int d, int rows, double noise, double radius) {
    const int64_t size = pv_moments_size(d);
    double *moments = doubles(size), *one = doubles(size), *x = doubles(d), *out = doubles(d);
    for (int64_t k = 0; k < size; ++k) moments[k] = noise * random_unit();
    for (int r = 0; r < rows; ++r) {
        double *v = random_doubles(d, 1.0 / sqrt((double)d)), y = random_unit();
        pv_prefix_svec(v, d, one);
        for (int64_t j = 0; j < d; ++j) one[size - d + j] = y * v[j];
        for (int64_t k = 0; k < size; ++k) moments[k] += one[k];
        free(v);
    }
    pv_ridge ridge = make(d);
    const double shift = 0.1, *u = moments + size - d;
    CHECK(pv_ridge_solve(&ridge, moments, (double)rows, shift, radius, x) == PV_OK);
    double norm = 0.0, slack = 0.0, along = 0.0;
    for (int64_t j = 0; j < d; ++j) norm += x[j] * x[j];
    norm = sqrt(norm);
    CHECK(norm <= radius * (1.0 + 1e-15) && isfinite(norm));
    if (ridge.n_indefinite == 0) { /* (V + shift I) x + nu x = u with nu >= 0, and nu = 0 within the ball */
        apply(moments, d, shift, x, out);
        for (int64_t j = 0; j < d; ++j) along += (u[j] - out[j]) * x[j];
        const double nu = norm > 0.0 ? along / (norm * norm) : 0.0;
        for (int64_t j = 0; j < d; ++j) slack = fmax(slack, fabs(u[j] - out[j] - nu * x[j]));
        CHECK(slack < 1e-9 * (1.0 + rows) && nu > -1e-9 * rows && (nu < 1e-9 * rows || norm > radius * (1.0 - 1e-9)));
    }
    for (int64_t j = 0; j < d; ++j) digest(x[j]);
    drop(&ridge), free(moments), free(one), free(x), free(out);
}

/* V = diag(-5, 2, 50): eigenvalues 0, 2, 10 after clipping to [0, 10]. */
static void indefinite(void) {
    double moments[9] = {-5, 0, 0, 2, 0, 50, 1, 3, 22}, x[3];
    pv_ridge ridge = make(3);
    CHECK(pv_ridge_solve(&ridge, moments, 10.0, 1.0, 100.0, x) == PV_OK && ridge.n_indefinite == 1);
    CHECK(fabs(x[0] - 1.0) < 1e-14 && fabs(x[1] - 1.0) < 1e-14 && fabs(x[2] - 2.0) < 1e-14);
    CHECK(pv_ridge_solve(&ridge, moments, 10.0, 1.0, 1.0, x) == PV_OK);
    const double norm = sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
    const double nu = 1.0 / x[0] - 1.0;
    CHECK(fabs(norm - 1.0) < 1e-11 && nu > 0.0);
    CHECK(fabs(x[1] - 3.0 / (3.0 + nu)) < 1e-10 && fabs(x[2] - 22.0 / (11.0 + nu)) < 1e-10);
    moments[3] = (double)NAN;
    CHECK(pv_ridge_solve(&ridge, moments, 10.0, 1.0, 1.0, x) == PV_NOT_FINITE);
    drop(&ridge);
}

static THREAD int calls_until_failure;

static void trtrs_that_fails(char *uplo, char *trans, char *diag, int *n, int *nrhs, double *a, int *lda, double *b,
                             int *ldb, int *info) {
    trtrs(uplo, trans, diag, n, nrhs, a, lda, b, ldb, info);
    if (calls_until_failure-- == 0) *info = 1;
}

static void syevd_that_fails(char *jobz, char *uplo, int *n, double *a, int *lda, double *w, double *work, int *lwork,
                             int *iwork, int *liwork, int *info) {
    syevd(jobz, uplo, n, a, lda, w, work, lwork, iwork, liwork, info);
    *info = 1;
}

/* Where LAPACK fails, eigenvalues take over from factors, at whichever call; if they fail too, there is no model. */
static void failures(void) {
    const double moments[9] = {1, 0, 0, 2, 0, 50, 1, 3, 22}, huge[2] = {0.0, 1e200};
    double expected[3], x[3];
    pv_ridge ridge = make(3), one = make(1);
    CHECK(pv_ridge_solve(&ridge, moments, 50.0, 1.0, 1.0, expected) == PV_OK && ridge.n_indefinite == 0);
    ridge.lapack.trtrs = trtrs_that_fails;
    for (int call = 0; call < 3; ++call) {
        calls_until_failure = call;
        CHECK(pv_ridge_solve(&ridge, moments, 50.0, 1.0, 1.0, x) == PV_OK && ridge.n_indefinite == call + 1);
        for (int j = 0; j < 3; ++j) CHECK(fabs(x[j] - expected[j]) < 1e-10);
    }
    calls_until_failure = 0;
    ridge.lapack.syevd = syevd_that_fails;
    CHECK(pv_ridge_solve(&ridge, moments, 50.0, 1.0, 1.0, x) == PV_NOT_FINITE);
    /* a solution beyond the range, by either way */
    CHECK(pv_ridge_solve(&one, huge, 1.0, 1e-200, 1.0, x) == PV_NOT_FINITE && one.n_indefinite == 1);
    drop(&ridge), drop(&one);
}

/* A matrix that is neither symmetric nor definite; one that is definite; one that is singular. */
static void as_printed(void) {
    double moments[6] = {1, 4, -2, -3, 6, 2}, x[2], one[6];
    const double v[2] = {2.0, -3.0};
    pv_ridge ridge = make(2);
    CHECK(pv_all_moments_size(2) == 6);
    pv_all_moments(v, 5.0, 2, one);
    CHECK(one[0] == 4.0 && one[1] == -6.0 && one[2] == -6.0 && one[3] == 9.0 && one[4] == 10.0 && one[5] == -15.0);
    CHECK(pv_ridge_solve_as_printed(&ridge, moments, 1.0, x) == PV_OK && ridge.n_indefinite == 1);
    CHECK(fabs(2.0 * x[0] + 4.0 * x[1] - 6.0) < 1e-14 && fabs(-2.0 * x[0] - 2.0 * x[1] - 2.0) < 1e-14);
    CHECK(pv_ridge_solve_as_printed(&ridge, moments, 10.0, x) == PV_OK && ridge.n_indefinite == 1);
    CHECK(fabs(11.0 * x[0] + 4.0 * x[1] - 6.0) < 1e-14 && fabs(-2.0 * x[0] + 7.0 * x[1] - 2.0) < 1e-14);
    moments[0] = moments[1] = moments[2] = moments[3] = -1.0;
    CHECK(pv_ridge_solve_as_printed(&ridge, moments, 2.0, x) == PV_OK && x[0] == 0.0 && x[1] == 0.0);
    moments[5] = (double)NAN;
    CHECK(pv_ridge_solve_as_printed(&ridge, moments, 2.0, x) == PV_NOT_FINITE);
    const double beyond[6] = {1e-200, 0, 0, 1e-200, 1e200, 1e200}; /* a solution that is no double is none */
    CHECK(pv_ridge_solve_as_printed(&ridge, beyond, 0.0, x) == PV_OK && x[0] == 0.0 && x[1] == 0.0);
    drop(&ridge);
}

/* Moments of several rows at once have the bits of one row after another, at every level, and touch nothing beyond.
 * */
static void moments_of_rows(int64_t d, int64_t k, int fresh) {
    const int64_t size = d * (d + 1) / 2 + d;
    double *v = random_doubles(k * d, 1.0), *y = random_doubles(k, 1.0), *start = random_doubles(size, 1.0);
    double *expected = doubles(size), *sum = doubles(size);
    memcpy(expected, start, (size_t)size * sizeof(double));
    for (int64_t r = 0; r < k; ++r) {
        const double *row = v + r * d;
        double *at = expected;
        for (int64_t i = 0; i <= d; ++i) {
            const double f = i < d ? 1.4142135623730951 * row[i] : y[r];
            for (int64_t j = i < d ? i : 0; j < d; ++j, ++at) {
                const double w = (j == i ? row[i] : f) * row[j];
                *at = fresh && r == 0 ? w : *at + w;
            }
        }
    }
    for (int level = 0; level < pv_first_pass_levels(); ++level) {
        memcpy(sum, start, (size_t)size * sizeof(double));
        pv_moments_at(level)(v, y, k, d, fresh, sum);
        CHECK(memcmp(sum, expected, (size_t)size * sizeof(double)) == 0);
    }
    free(v), free(y), free(start), free(expected), free(sum);
}

int main(void) {
    for (int64_t d = 1; d <= 21; ++d)
        for (int64_t k = 1; k <= PV_MOMENT_ROWS; ++k) {
            moments_of_rows(d, k, 0);
            moments_of_rows(d, k, 1);
        }
    indefinite();
    failures();
    as_printed();
    for (int d = 1; d < 20; ++d)
        for (int k = 0; k < 12; ++k) solves(d, 1 + 7 * k, k % 3 ? 0.0 : 40.0 * fabs(random_unit()), k % 2 ? 1e3 : 0.3);
    double moments[2] = {0.0, 0.0}, x[1];
    pv_ridge ridge = make(1);
    CHECK(pv_ridge_solve(&ridge, moments, 1.0, 1e-300, 1e-3, x) == PV_OK && x[0] == 0.0);
    drop(&ridge);
    return finish("ridge");
}
