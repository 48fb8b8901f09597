/* The magnitude and the potential against the defining integrals in long double, at every level, also for arguments
 * at the limits of doubles. */
#include <float.h>

#include "check.h"
#include "noise/pv_first_pass.h"
#include "betting/pv_magnitude.h"

static double between(double low, double high) { return low + (high - low) * (0.5 + 0.5 * random_unit()); }
/* Between 2^low and 2^high, in operations with the same result everywhere: this enters the digest. */
static double power(double low, double high) {
    const double e = between(low, high), whole = floor(e);
    return ldexp(1.0 + (e - whole), (int)whole);
}

/* Five Gauss-Legendre nodes on each of 200 parts of the support, for a |x| <= 1000. */
static void integrals(double x, double y, double a, long double *m, long double *psi) {
    const long double p = (long double)a * fabsl((long double)x), q = (long double)a * a * y;
    const long double mode = q > 0 && p < 2 * q ? p / (2 * q) : 1, height = p * mode - q * mode * mode;
    const long double slope = p - 2 * q * mode, width = 100 / (slope + sqrtl(slope * slope + 200 * q) + 1e-30L);
    const long double low = fmaxl(0, mode - width), high = fminl(1, mode + width), step = (high - low) / 400;
    static const long double node[] = {-0.906179845938663993L, -0.538469310105683091L, 0, 0.538469310105683091L,
                                       0.906179845938663993L};
    static const long double weight[] = {0.236926885056189088L, 0.478628670499366468L, 0.568888888888888889L,
                                         0.478628670499366468L, 0.236926885056189088L};
    long double odd = 0, even = 0;
    for (int k = 0; k < 1000; ++k) {
        const long double s = low + step * ((long double)(2 * (k / 5) + 1) + node[k % 5]);
        const long double top = expl(p * s - q * s * s - height) * weight[k % 5];
        odd += -s * top * expm1l(-2 * p * s);
        even += top * (1 + expl(-2 * p * s));
    }
    *m = height + logl(odd * step / 2 * a);
    *psi = height + logl(even * step / 2);
}

static void points(void) {
    for (int k = 0; k < 1500; ++k) {
        const double a = power(-20, 0), p = power(-10, k % 2 ? 10 : 5), q = k % 5 ? power(-10, 12) : 0.0;
        const double x = k % 3 ? p / a : -p / a, y = q / a / a;
        long double m, psi;
        integrals(x, y, a, &m, &psi);
        const double got = pv_magnitude(x, y, a);
        CHECK(fabsl(pv_log_magnitude(x, y, a) - m) <= 1e-12L * fmaxl(1, fabsl(m)));
        CHECK(fabsl(pv_log_potential(x, y, a) - psi) <= 1e-12L * fmaxl(1, fabsl(psi)));
        CHECK(signbit(got) == signbit(x));
        if (fabsl(m) < 700) CHECK(fabsl(logl(fabsl((long double)got)) - m) <= 1e-12L);
        CHECK(pv_magnitude(-x, y, a) == -got);
        digest(got);
        digest(pv_log_magnitude(x, y, a));
        digest(pv_log_potential(x, y, a));
    }
}

/* Every level and every stride gives the bits of single calls. */
static void levels(void) {
    enum { N = 1000 };
    double *x = doubles(N), *y = doubles(N), *a = doubles(N), *out = doubles(N);
    for (int k = 0; k < N; ++k) {
        a[k] = power(-20, 0);
        x[k] = power(-10, 8) / a[k] * (k % 3 ? 1.0 : -1.0);
        y[k] = k % 7 ? power(-10, 12) / a[k] / a[k] : 0.0;
    }
    for (int level = 0; level < pv_first_pass_levels(); ++level) {
        const pv_coin_function run = pv_coin_level(level);
        run(PV_COIN_MAGNITUDE, x, 1, y, 1, a, 1, out, N);
        for (int k = 0; k < N; ++k) CHECK(out[k] == pv_magnitude(x[k], y[k], a[k]));
        run(PV_COIN_LOG_MAGNITUDE, x, 1, y + 3, 0, a, 1, out, N);
        for (int k = 0; k < N; ++k) CHECK(out[k] == pv_log_magnitude(x[k], y[3], a[k]));
        run(PV_COIN_LOG_POTENTIAL, x + 1, 0, y, 1, a + 2, 0, out, N);
        for (int k = 0; k < N; ++k) CHECK(out[k] == pv_log_potential(x[1], y[k], a[2]));
    }
    free(x);
    free(y);
    free(a);
    free(out);
}

/* No argument gives NaN, and none violates the order in x. */
static void extremes(void) {
    static const double ends[] = {DBL_TRUE_MIN, 1e-310, DBL_MIN, 1e-300, 1e-200, 1e-154, 1e-100,
                                  1e-30,        1e-3,   0.3,     1.0,    7.0,    40.0,   1e3,
                                  1e8,          1e30,   1e100,   1e154,  1e200,  1e300,  DBL_MAX};
    for (int64_t i = 0; i < LENGTH(ends); ++i)
        for (int64_t j = -1; j < LENGTH(ends); ++j) {
            double before = -HUGE_VAL, larger = -HUGE_VAL;
            for (int64_t k = 0; k < LENGTH(ends); ++k) {
                const double x = ends[k], y = j < 0 ? 0.0 : ends[j], a = ends[i];
                const double m = pv_magnitude(x, y, a), log_m = pv_log_magnitude(x, y, a);
                const double log_psi = pv_log_potential(x, y, a);
                CHECK(m >= 0.0 && log_m >= before && log_psi >= larger - 1e-12);
                CHECK(isfinite(log_m) || log_m == HUGE_VAL);
                if (fabs(log_m) < 700.0) CHECK(fabs(log(m) - log_m) <= 1e-12 * fmax(1.0, fabs(log_m)));
                before = log_m;
                larger = log_psi;
                digest(m);
                digest(log_m);
                digest(log_psi);
            }
        }
    CHECK(pv_magnitude(0.0, 1.0, 1.0) == 0.0 && pv_log_magnitude(0.0, 1.0, 1.0) == -HUGE_VAL);
    CHECK(fabs(pv_log_potential(0.0, 0.0, 1.0)) <= 1e-15);
}

int main(void) {
    points();
    levels();
    extremes();
    return finish("magnitude");
}
