/* With p = a |x|, q = a^2 y and s = beta / a: m = sign(x) a K and psi = P for
 *
 *     K = int_0^1 s sinh(ps) e^{-q s^2} ds,   P = int_0^1 cosh(ps) e^{-q s^2} ds,
 *
 * each as e^E I / 2, E exact to two doubles. Where the mode s = p/2q lies far enough inside (0, 1) for what is cut off at
 * s = 1 to be below 2^-57, I is elementary; else it is a Gauss-Legendre sum of positive terms, of the integral itself or
 * of what is cut off. docs/proofs/magnitude.md has the cases and their errors. */
#include "betting/pv_magnitude.h"

#include "noise/pv_first_pass.h"
#include "base/pv_level.h"
#include "base/pv_math.h"

#if defined(__GNUC__) || defined(__clang__)
#define PV_INLINE inline __attribute__((always_inline))
#else
#define PV_INLINE inline
#endif

#include "betting/magnitude_nodes.inc.h"

#define ROOT_PI 1.7724538509055160273
#define LN2_HIGH 6.93147180369123816490e-01 /* times integers below 2^20 exact */
#define LN2_LOW 1.90821492927058770002e-10
#define ROOTS_INSIDE 13.0 /* twice 6.5: the mode is 6.5 / sqrt(q) away from s = 1 */
#define DEPTH 40.0        /* where the integrand has fallen by e^-40, integration ends */
#define DEEPER 44.0       /* ... or by e^-44 for the part cut off, which starts at e^-42.25 or below */
#define SMALL_Q 9.0

typedef struct coin_work {
    double hi, lo;       /* E */
    double full, factor; /* I = full + factor times the integral over u */
    double p, q, r, reach, side;
    int rule, both; /* nodes, 0 for none; whether e^{-2ps} counts */
    double scale;   /* the outcome is scale 2^shift I e^E */
    int shift;
} coin_work;

/* e^x = 2^k e^r; the bits of x / ln 2 + PV_ROUND_MAGIC end with k. For |x| <= 700. */
static PV_INLINE double power_of(double shifted) { return pv_from_bits((pv_to_bits(shifted) + 1023) << 52); }

/* e^r - 1, |r| <= ln 2 / 2 (1 + 2^-20), relative error below 2^-52 */
static PV_INLINE double expm1_near(double r) {
    const double *c = exp_terms, r2 = r * r, r4 = r2 * r2;
    const double low = (c[0] + c[1] * r) + r2 * (c[2] + c[3] * r);
    const double high = (c[4] + c[5] * r) + r2 * (c[6] + c[7] * r) + r4 * (c[8] + c[9] * r);
    return r + r2 * (low + r4 * high);
}

static PV_INLINE double exp_of(double x) {
    const double shifted = x * 1.4426950408889634074 + PV_ROUND_MAGIC, k = shifted - PV_ROUND_MAGIC;
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW, power = power_of(shifted);
    return power + power * expm1_near(r);
}

/* e^x - 1 for -700 <= x <= 0, to a few units in the last place even if it is small: then k = 0. */
static PV_INLINE double expm1_of(double x) {
    const double shifted = x * 1.4426950408889634074 + PV_ROUND_MAGIC, k = shifted - PV_ROUND_MAGIC;
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW, power = power_of(shifted);
    return (power - 1.0) + power * expm1_near(r);
}

typedef struct pair {
    double hi, lo;
} pair;

static inline pair split(double x) { /* |x| < 2^996 */
    const double c = 134217729.0 * x, hi = c - (c - x);
    return (pair){hi, x - hi};
}

/* x y exactly, where the product's last bits are not below 2^-1074 (Dekel 1971): libm's fma is as exact, but slow on
 * processors without one. */
static inline pair product(double x, double y) {
    const pair a = split(x), b = split(y);
    const double hi = x * y;
    return (pair){hi, ((a.hi * b.hi - hi) + a.hi * b.lo + a.lo * b.hi) + a.lo * b.lo};
}

static inline pair sum_of(double x, double y) { /* exactly (Knuth) */
    const double s = x + y, b = s - x;
    return (pair){s, (x - (s - b)) + (y - b)};
}

/* x^2 / (4y) to two doubles */
static inline pair mode_height(double x, double y) {
    const double d = 4.0 * y;
    const pair square = product(x, x);
    const double hi = square.hi / d;
    const pair back = product(hi, d);
    return (pair){hi, (((square.hi - back.hi) - back.lo) + square.lo) / d};
}

/* a, x and y such that nothing below overflows or loses digits: |log2 p|, |log2 q| <= 402 or q = 0, |log2| of the rest at
 * most 700; x > 0 or, for the potential, x = 0. Without scale and shift. */
static inline void choose(coin_work *work, int potential, double x, double y, double a) {
    const pair p = product(a, x), square = product(a, a);
    pair q = product(square.hi, y);
    q.lo += square.lo * y;
    const pair difference = sum_of(p.hi, -2.0 * q.hi);
    const double r = difference.hi + (difference.lo + (p.lo - 2.0 * q.lo)); /* p - 2q, the slope at s = 1 */
    work->p = p.hi + p.lo;
    work->q = q.hi + q.lo;
    work->r = r;
    work->full = 0.0;
    work->factor = 1.0;
    work->side = 1.0;
    work->both = 1;
    if (r >= 0.0 || work->q < SMALL_Q) { /* s = 1 - u from the end inwards */
        const pair end = sum_of(p.hi, -q.hi);
        work->hi = end.hi;
        work->lo = end.lo + (p.lo - q.lo);
        work->reach = 1.0;
        work->rule = work->p <= 0.5 && work->q <= 0.25 ? 8 : work->p <= 16.0 && work->q <= SMALL_Q ? 16 : 24;
        if (r + work->q > DEPTH) { /* r U + q U^2 = DEPTH; with U < 1, e^{-2ps} is below e^-DEPTH everywhere */
            work->reach = 2.0 * DEPTH / (r + sqrt(r * r + 4.0 * DEPTH * work->q));
            work->both = 0;
        }
        return;
    }
    const double root = sqrt(work->q);
    const pair mode = mode_height(x, y);
    work->hi = mode.hi;
    work->lo = mode.lo;
    work->full = potential ? ROOT_PI / root : 0.5 * ROOT_PI * work->p / (work->q * root);
    if (-r >= ROOTS_INSIDE * root) {
        work->rule = 0;
        return;
    }
    /* from 0 to infinity, without what lies beyond s = 1 */
    const double gap = r * r / (4.0 * work->q), depth = DEEPER - gap;
    work->rule = gap >= 25.0 ? 8 : gap >= 6.25 ? 16 : 24;
    work->factor = -pv_exp(-gap);
    work->side = -1.0;
    work->reach = 2.0 * depth / (-r + sqrt(r * r + 4.0 * depth * work->q));
    work->both = work->p < 0.5 * DEPTH;
}

/* Numbers outside the ordinary ranges, from their digits and exponents. Returns whether the work is complete. */
static void prepare_extreme(coin_work *work, pv_coin what, double x, double y, double a) {
    const int potential = what == PV_COIN_LOG_POTENTIAL;
    int ea, ex, ey;
    const double ma = frexp(a, &ea);
    double mx = frexp(x, &ex), my = frexp(y, &ey);
    int ep = ea + ex, eq = 2 * ea + ey; /* p = ma mx 2^ep, q = ma^2 my 2^eq */
    work->rule = 0;
    work->lo = 0.0;
    if (x != 0.0 && ep > 400 && (y == 0.0 || ep > eq - 10) &&
        ma * mx >= 2.0 * ma * ma * (y == 0.0 ? 0.0 : ldexp(my, eq - ep))) {
        /* the largest term is at s = 1, and only E > 2^389 matters */
        work->hi = ldexp(ma * mx - ma * ma * (y == 0.0 ? 0.0 : ldexp(my, eq - ep)), ep);
        work->full = 1.0;
        work->scale = 1.0;
        work->shift = 0;
        return;
    }
    if (y != 0.0 && eq > 400) { /* the mode is far inside the interval */
        if (ey & 1) {
            my *= 2.0;
            --ey;
        }
        const pair mode = mode_height(mx, my);
        work->hi = ldexp(mode.hi, 2 * ex - ey);
        work->lo = work->hi < 1e300 ? ldexp(mode.lo, 2 * ex - ey) : 0.0;
        work->full = ROOT_PI / (ma * sqrt(my));
        work->scale = 0.5;
        work->shift = -(ea + ey / 2);
        if (!potential) {
            work->full *= 0.5 * mx / my;
            work->shift += ex - ey;
        }
        return;
    }
    work->scale = 0.5;
    work->shift = 0;
    if (!potential) {
        work->scale = 0.5 * ma;
        work->shift = ea;
    }
    if (x != 0.0 && ep < -100) { /* m is proportional to x within p^2 */
        if (!potential) work->shift += ep + 100;
        ep = -100;
    }
    if (eq < -120) my = 0.0; /* e^-q is 1 within 2^-119 */
    choose(work, potential, x == 0.0 ? 0.0 : ldexp(mx, ep), my == 0.0 ? 0.0 : ldexp(my, eq), ma);
}

static inline int within(double x, double low, double high) { return x >= low && x <= high; }

static inline void prepare(coin_work *work, pv_coin what, double x, double y, double a) {
    const double p = a * x, q = a * a * y;
    if (within(a, 0x1p-300, 0x1p300) && (x == 0.0 || within(p, 0x1p-100, 0x1p400)) &&
        (y == 0.0 || within(q, 0x1p-100, 0x1p400))) {
        work->scale = what == PV_COIN_LOG_POTENTIAL ? 0.5 : 0.5 * a;
        work->shift = 0;
        choose(work, what == PV_COIN_LOG_POTENTIAL, x, y, a);
    } else {
        prepare_extreme(work, what, x, y, a);
    }
}

static inline double finish(const coin_work *work, pv_coin what, double x) {
    const double f = work->scale * work->full;
    if (what != PV_COIN_MAGNITUDE) {
        const double n = (double)work->shift;
        return work->hi + ((n * LN2_HIGH + pv_log(f)) + (n * LN2_LOW + work->lo));
    }
    if (work->hi > 1e5) return copysign(HUGE_VAL, x);
    const double k = pv_round(work->hi * 1.4426950408889634074);
    const double r = ((work->hi - k * LN2_HIGH) - k * LN2_LOW) + work->lo;
    const double value = f + f * expm1_near(r);
    const int shift = (int)k + work->shift;
    if (shift >= -1022 && shift <= 1023) return copysign(value * power_of((double)shift + PV_ROUND_MAGIC), x);
    return copysign(ldexp(value, shift), x);
}

#define NAME(op) op##_baseline
#define LEVEL
#include "betting/magnitude.inc.h"

#if PV_TARGETS
#define NAME(op) op##_v3
#define LEVEL PV_V3
#include "betting/magnitude.inc.h"

#define NAME(op) op##_v4
#define LEVEL PV_V4
#include "betting/magnitude.inc.h"
#endif

static const pv_coin_function levels[] = {
    many_baseline,
#if PV_TARGETS
    many_v3,
    many_v4,
#endif
};

pv_coin_function pv_coin_level(int level) { return levels[level]; }

static double one(pv_coin what, double x, double y, double a) {
#if PV_TARGETS
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return one_v3(what, x, y, a);
#endif
    return one_baseline(what, x, y, a);
}

double pv_magnitude(double x, double y, double a) { return one(PV_COIN_MAGNITUDE, x, y, a); }
double pv_log_magnitude(double x, double y, double a) { return one(PV_COIN_LOG_MAGNITUDE, x, y, a); }
double pv_log_potential(double x, double y, double a) { return one(PV_COIN_LOG_POTENTIAL, x, y, a); }
