/* Losses: slopes against differences of values, implicit steps against bisection in long double. */
#include "check.h"
#include "losses/pv_loss.h"
#include "base/pv_math.h"

/* 10^x; the C library's pow differs in the last digits between processors. */
static double power(double x) { return pv_exp(2.302585092994046 * x); }

static int is_classification(int code) { return code <= PV_SMOOTH_HINGE; }

static double random_target(int code) {
    if (is_classification(code)) return random_word() & 1 ? 1.0 : -1.0;
    return 2.0 * random_unit();
}

/* Slopes on both sides of p, from the definitions. */
static void slopes(int code, double width, long double p, long double y, long double *left, long double *right) {
    long double e = 1.0L - y * p, r = p - y, s;
    switch (code) {
    case PV_LOGISTIC: s = -y / (1.0L + expl(y * p)); break;
    case PV_HINGE:
        *left = y > 0 ? (e >= 0 ? -1.0L : 0.0L) : (e > 0 ? 1.0L : 0.0L);
        *right = y > 0 ? (e > 0 ? -1.0L : 0.0L) : (e >= 0 ? 1.0L : 0.0L);
        return;
    case PV_SMOOTH_HINGE: s = -y * fminl(fmaxl((e + width) / (2.0L * width), 0.0L), 1.0L); break;
    case PV_SQUARED: s = r; break;
    case PV_ABSOLUTE:
        *left = r > 0 ? 1.0L : -1.0L;
        *right = r >= 0 ? 1.0L : -1.0L;
        return;
    default: s = fminl(fmaxl(r, -(long double)width), width); break;
    }
    *left = *right = s;
}

static void values_and_slopes(int code, double width) {
    pv_loss loss;
    pv_loss_bind(&loss, code, width);
    for (int k = 0; k < 20000; ++k) {
        double p = 4.0 * random_unit(), y = random_target(code), step = 1e-6;
        if (k % 5 == 0) p = y * (1.0 + (k % 3 - 1) * width); /* the kinks */
        long double left, right;
        slopes(code, width, p, y, &left, &right);
        double g = loss.slope(&loss, p, y), v = loss.value(&loss, p, y);
        CHECK(g >= left - 1e-15L && g <= right + 1e-15L);
        CHECK(v >= 0.0);
        /* convexity: the tangent at p lies below the value at both sides, and touches to second order */
        for (int side = -1; side <= 1; side += 2) {
            double gap = loss.value(&loss, p + side * step, y) - v - side * g * step;
            CHECK(gap >= -4e-15);
            CHECK(left < right || gap <= 1e-14 + 1e-12 / fmin(width, 1.0));
        }
        if (loss.expand) {
            double slope, curve, above = loss.slope(&loss, p + step, y), below = loss.slope(&loss, p - step, y);
            pv_seen seen = PV_NOTHING_SEEN;
            loss.expand(&loss, p, y, &slope, &curve, &seen);
            CHECK(bits_of(slope) == bits_of(g));
            CHECK(fabs(curve - (above - below) / (2.0 * step)) <= 1e-9);
            /* from a point of the same search, near or far */
            double other = p + 0.3 * random_unit(), expected = loss.slope(&loss, other, y);
            loss.expand(&loss, other, y, &slope, &curve, &seen);
            CHECK(fabs(slope - expected) <= 1e-15 * fabs(expected));
            CHECK(fabs(curve - fabs(expected) * (1.0 - fabs(expected))) <= 2e-15);
            digest(slope);
        }
        if (loss.off) { /* a bound for the slope at a prediction with at most this error; for the kinks too */
            const double error = k % 3 ? power(-8.0 * (1.0 + random_unit())) : 0.0;
            if (k % 5 == 1) p = y * (1.0 + (k % 4 < 2 ? -1 : 1) * width) + error * random_unit();
            g = loss.slope(&loss, p, y);
            const double curve = code == PV_LOGISTIC ? fabs(g) * (1.0 - fabs(g)) : 0.0;
            for (int side = -1; side <= 1; ++side) {
                slopes(code, width, (long double)p + side * (long double)error, y, &left, &right);
                CHECK(fabsl(g - left) <= loss.off(&loss, p, y, g, curve, error) + 1e-18L);
            }
        }
        digest(g);
    }
}

/* Slope at the root of k m + c slope(m) = b: the root by bisection, the slope from the equation. */
static long double reference(int code, double width, double k, double b, double c, double y) {
    if (code == PV_SQUARED) return ((long double)b - (long double)k * y) / ((long double)k + c);
    long double bound = code == PV_HUBER ? width : 1.0L;
    long double lo = (b - c * bound) / k - 1e-3L, hi = (b + c * bound) / k + 1e-3L;
    lo -= fabsl(lo) * 1e-15L;
    hi += fabsl(hi) * 1e-15L;
    for (int i = 0; i < 20000; ++i) {
        long double m = lo + 0.5L * (hi - lo), left, right;
        if (m <= lo || m >= hi) break;
        slopes(code, width, m, y, &left, &right);
        if ((long double)k * m + c * left > b)
            hi = m;
        else if ((long double)k * m + c * right < b)
            lo = m;
        else
            return left == right ? left : fminl(fmaxl(((long double)b - (long double)k * m) / c, left), right);
    }
    long double left, right, unused;
    slopes(code, width, lo, y, &left, &unused);
    slopes(code, width, hi, y, &unused, &right);
    if (right - left < 1e-9L) return 0.5L * (left + right);
    return fminl(fmaxl(((long double)b - (long double)k * lo) / c, left), right);
}

static void implicit_steps(int code, double width) {
    pv_loss loss;
    pv_loss_bind(&loss, code, width);
    pv_loss bracketed = loss;
    bracketed.lipschitz = code == PV_HUBER ? width : 1.0;
    /* at least the inverse curvature where the slope changes; at a kink the slope is free: (b - k m) / c, m fixed */
    const double stiffness = code == PV_LOGISTIC || code == PV_HUBER ? 1.0
                             : code == PV_SMOOTH_HINGE               ? 2.0 * width
                                                                     : 0.0;
    for (int n = 0; n < 4000; ++n) {
        double k = power(6.0 * random_unit()), c = power(9.0 * random_unit());
        if (n % 7 == 0) c = k * power(9.0 + 3.0 * random_unit()); /* steps for which careless brackets cycle */
        double y = random_target(code), b = k * 5.0 * random_unit();
        if (n % 3 == 0) b = (k + c) * random_unit();
        if (n % 11 == 0) b = k * y + c * (n % 2 ? 1.0 : -1.0); /* the ends of the bracket */
        long double exact = reference(code, width, k, b, c, y);
        /* the change of the slope by rounding of b, k m and c g */
        long double bound = code == PV_SQUARED ? 1e-15L * ((fabsl(b) + k * fabsl(y)) / (k + c) + fabsl(exact)) : 0;
        if (code != PV_SQUARED) {
            long double noise = 4e-16L * (fabsl(b) + k * (fabsl(y) + 1 + width) + c * fabsl(exact));
            bound = 4e-16L + noise / (c + k * stiffness);
        }
        double g = loss.implicit(&loss, k, b, c, y);
        CHECK(fabsl(g - exact) <= bound);
        if (code == PV_LOGISTIC) CHECK(g * y <= 0.0 && fabs(g) <= 1.0);
        if (code != PV_SQUARED) {
            double h = pv_implicit_bracketed(&bracketed, k, b, c, y);
            CHECK(fabs(h) <= bracketed.lipschitz);
            CHECK(fabsl(h - exact) <= 4 * bound + 8e-16L * (fabsl(b) / c + k * fabsl((b - c * exact) / k) / c));
        }
        digest(g);
    }
    CHECK(pv_implicit_bracketed(&bracketed, 2.0, 1.0, 0.0, 1.0) == 0.0);
}

static double broken_slope(const pv_loss *loss, double p, double y) {
    (void)loss, (void)p, (void)y;
    return (double)NAN;
}

static void user_loss_that_fails(void) {
    pv_loss loss = {.slope = broken_slope, .implicit = pv_implicit_bracketed, .lipschitz = 1.0};
    CHECK(isnan(loss.implicit(&loss, 1.0, 0.5, 2.0, 1.0)));
}

int main(void) {
    static const double widths[] = {0.5, 1.0, 0.05};
    for (int code = 0; code < PV_LOSS_COUNT; ++code)
        for (int64_t w = 0; w < LENGTH(widths); ++w) {
            values_and_slopes(code, widths[w]);
            implicit_steps(code, widths[w]);
        }
    user_loss_that_fails();
    return finish("loss");
}
