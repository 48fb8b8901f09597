#include "cells/pv_cycles.h"

#define LARGEST 0x1p52
/* The error of each value is below 2^-50 in total (docs/proofs/encoding.md); shortened by this they stay within the
 * circle. */
#define SHRUNK (1.0 - 0x1p-48)
#define TWO_PI 6.283185307179586
#define TOGETHER 64

/* The nearest whole number to x, for |x| < 2^51. */
static inline double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

void pv_cycles(int64_t n, const double *seconds, double period, double start, const double *turn, double *cosine,
               double *sine) {
    const double cycles = 1.0 / period, parts = PV_TURN / period, part = period / PV_TURN, angle = TWO_PI / period;
    double rest[TOGETHER], scale[TOGETHER];
    int32_t at[TOGETHER];
    for (int64_t first = 0; first < n; first += TOGETHER) {
        const int64_t some = n - first < TOGETHER ? n - first : TOGETHER;
        for (int64_t i = 0; i < some; ++i) {
            const double given = seconds[first + i];
            const int there = given >= -LARGEST && given <= LARGEST;
            const double t = there ? given - start : 0.0;
            /* exact, even for the whole number beside the nearest one */
            const double here = t - nearest(t * cycles) * period, k = nearest(here * parts);
            rest[i] = (here - k * part) * angle;
            at[i] = (int32_t)k;
            scale[i] = there ? SHRUNK : 0.0;
        }
        for (int64_t i = 0; i < some; ++i) {
            const double x = rest[i], y = x * x;
            const double s = x + x * y * (-1.0 / 6.0 + y * (1.0 / 120.0 - y * (1.0 / 5040.0)));
            const double c = y * (-0.5 + y * (1.0 / 24.0 - y * (1.0 / 720.0))); /* cosine - 1 */
            const double *known = turn + 2 * (at[i] & (PV_TURN - 1));
            cosine[first + i] = (known[0] + (known[0] * c - known[1] * s)) * scale[i];
            sine[first + i] = (known[1] + (known[1] * c + known[0] * s)) * scale[i];
        }
    }
}
