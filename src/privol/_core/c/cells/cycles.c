#include "cells/pv_cycles.h"

#define LARGEST 0x1p52
/* Both values are off by less than 2^-50 in all (docs/proofs/encoding.md); shorter by this they cannot leave the circle. */
#define SHRUNK (1.0 - 0x1p-48)
#define TWO_PI 6.283185307179586

void pv_cycles(int64_t n, const double *seconds, double period, double start, const double *turn, double *cosine,
               double *sine) {
    const double cycles = 1.0 / period, parts = PV_TURN / period, part = period / PV_TURN, angle = TWO_PI / period;
    for (int64_t i = 0; i < n; ++i) {
        const double t = seconds[i] - start;
        if (!(seconds[i] >= -LARGEST && seconds[i] <= LARGEST)) {
            cosine[i] = sine[i] = 0.0;
            continue;
        }
        /* with the quotient or one beside it, the difference is exact */
        double here = t - (double)(int64_t)(t * cycles) * period;
        if (here < 0.0) here += period;
        const int64_t k = (int64_t)(here * parts);
        const double x = (here - (double)k * part) * angle, y = x * x;
        const double s = x + x * y * (-1.0 / 6.0 + y * (1.0 / 120.0 - y * (1.0 / 5040.0)));
        const double c = y * (-0.5 + y * (1.0 / 24.0 - y * (1.0 / 720.0))); /* cosine - 1 */
        const double *known = turn + 2 * (k & (PV_TURN - 1));
        cosine[i] = (known[0] + (known[0] * c - known[1] * s)) * SHRUNK;
        sine[i] = (known[1] + (known[1] * c + known[0] * s)) * SHRUNK;
    }
}
