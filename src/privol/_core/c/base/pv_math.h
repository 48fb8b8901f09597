/* Elementary functions with the same bits on every machine.
 *
 * The C library's exp and pow differ between versions and between processors of one version (they
 * dispatch to FMA variants), and a secret iterate must not depend on where it was computed. These
 * use only +, -, *, / and sqrt, which IEEE 754 fixes, and the package is compiled without
 * floating-point contraction.
 */
#ifndef PV_MATH_H
#define PV_MATH_H

#if defined(__FAST_MATH__) || (defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16)
#error "privol's proofs need IEEE 754 arithmetic: no -ffast-math, and on 32-bit x86 -msse2 -mfpmath=sse"
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double pv_from_bits(uint64_t b) {
    double x;
    memcpy(&x, &b, 8);
    return x;
}
static inline uint64_t pv_to_bits(double x) {
    uint64_t b;
    memcpy(&b, &x, 8);
    return b;
}

/* 1.5 * 2^52: adding and subtracting it rounds a double below 2^51 to the nearest integer, ties to even. */
#define PV_ROUND_MAGIC 6755399441055744.0

static inline double pv_round(double x) {
    double y = x + PV_ROUND_MAGIC;
    return y - PV_ROUND_MAGIC;
}

/* exp(x) within 1 ulp for |x| <= 708: x = k ln 2 + r with |r| <= ln 2 / 2, Taylor polynomial of degree 13 in r
 * (remainder below 2^-57), scaled by 2^k. */
static inline double pv_exp(double x) {
    if (!(x <= 709.0)) return x != x ? x : HUGE_VAL; /* callers only need "at least 1e307" */
    if (x < -708.0) return 0.0;                      /* ... and "at most 1e-307" */
    double k = pv_round(x * 1.4426950408889634074);
    double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double r2 = r * r;
    double a = 1.0 / 24 + r * (1.0 / 120) + r2 * (1.0 / 720 + r * (1.0 / 5040));
    double b = 1.0 / 40320 + r * (1.0 / 362880) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800));
    double c = 1.0 / 479001600 + r * (1.0 / 6227020800.0);
    double r4 = r2 * r2;
    double tail = r2 * (0.5 + r * (1.0 / 6)) + r4 * (a + r4 * (b + r4 * c));
    double e = 1.0 + (r + tail);
    return e * pv_from_bits((uint64_t)((int64_t)k + 1023) << 52);
}

/* exp(x) within 1 ulp for |x| <= PV_NEAR: Taylor polynomial of degree 10 (remainder below 2^-58). */
#define PV_NEAR 0.125
static inline double pv_exp_near(double x) {
    double x2 = x * x, x4 = x2 * x2;
    double a = (1.0 / 24 + x * (1.0 / 120)) + x2 * (1.0 / 720 + x * (1.0 / 5040));
    double b = (1.0 / 40320 + x * (1.0 / 362880)) + x2 * (1.0 / 3628800);
    double tail = x2 * (0.5 + x * (1.0 / 6)) + x4 * (a + x4 * b);
    return 1.0 + (x + tail);
}

/* log(x) of a positive normal double within 2^-50 (1 + |log x|): x = m 2^k with sqrt(1/2) <= m < sqrt(2), and
 * log m = 2 artanh(s) for s = (m - 1) / (m + 1), |s| < 0.1716, by its series to s^21 (remainder below 2^-61). */
static inline double pv_log(double x) {
    uint64_t bits = pv_to_bits(x) - UINT64_C(0x3FE6A09E667F3BCD);
    int64_t k = (int64_t)bits >> 52;
    double m = pv_from_bits((bits & UINT64_C(0x000FFFFFFFFFFFFF)) + UINT64_C(0x3FE6A09E667F3BCD));
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, s4 = s2 * s2;
    double even = 1.0 / 5 + s4 * (1.0 / 9 + s4 * (1.0 / 13 + s4 * (1.0 / 17 + s4 * (1.0 / 21))));
    double odd = 1.0 / 3 + s4 * (1.0 / 7 + s4 * (1.0 / 11 + s4 * (1.0 / 15 + s4 * (1.0 / 19))));
    double tail = 2.0 * s * (s2 * odd + s4 * even);
    return (double)k * 6.93147180369123816490e-01 + (2.0 * s + (tail + (double)k * 1.90821492927058770002e-10));
}

/* log(1 + u) for 0 <= u <= 1, relative error a few ulp: what u loses in the sum is put back to first order. */
static inline double pv_log_above_one(double u) {
    double sum = 1.0 + u;
    return pv_log(sum) + (u - (sum - 1.0)) / sum;
}

/* Logistic sigmoid 1 / (1 + exp(-x)); never overflows, relative error a few ulp in both tails. */
static inline double pv_sigmoid(double x) {
    if (x >= 0.0) return 1.0 / (1.0 + pv_exp(-x));
    double e = pv_exp(x);
    return e / (1.0 + e);
}

/* x^(2/3) of a positive normal double, within 3 ulp, in operations that compilers vectorise: r = x^(-1/3) from a third
 * of the upper half's bits, within a twentieth, three times r (1 - e)^(-1/3) for e = 1 - x r^3 by its series (remainder
 * 14/81 e^3), then x r. */
static inline double pv_two_thirds(double x) {
    uint64_t third = (pv_to_bits(x) >> 32) * UINT64_C(0x55555556) & UINT64_C(0xFFFFFFFF00000000);
    double r = pv_from_bits(UINT64_C(0x553EF0FF289DD796) - third);
    for (int i = 0; i < 3; ++i) {
        double e = 1.0 - (x * r) * (r * r);
        r += r * (e * (1.0 / 3 + e * (2.0 / 9)));
    }
    return x > 0.0 ? x * r : x;
}

#endif
