/* The magnitude and the potential of coin betting with a uniform prior on the betting fractions |beta| <= a:
 *
 *     psi(x, y, a) = 1/(2a) int_{-a}^{a} exp(beta x - beta^2 y) d beta
 *     m(x, y, a)   = d psi / d x = 1/(2a) int_{-a}^{a} beta exp(beta x - beta^2 y) d beta
 *
 * for finite x, y >= 0 and a > 0. The relative error of m, where it is neither too large for a double nor subnormal, and
 * the absolute errors of log |m| and log psi divided by max(1, |log|), are below 1e-13 (docs/proofs/magnitude.md). m is odd
 * in x bit for bit. The bits are the same on every processor.
 */
#ifndef PV_MAGNITUDE_H
#define PV_MAGNITUDE_H

#include <stdint.h>

typedef enum pv_coin { PV_COIN_MAGNITUDE, PV_COIN_LOG_MAGNITUDE, PV_COIN_LOG_POTENTIAL, PV_COINS } pv_coin;

/* m, with the sign of x; +-HUGE_VAL if it is too large for a double. */
double pv_magnitude(double x, double y, double a);
/* log |m|; -HUGE_VAL for x = 0. */
double pv_log_magnitude(double x, double y, double a);
double pv_log_potential(double x, double y, double a);

/* out[i] = what(x[i sx], y[i sy], a[i sa]), i < n, at one of the levels of pv_first_pass_levels; a stride of 0
 * repeats one number. */
typedef void (*pv_coin_function)(pv_coin what, const double *x, int64_t sx, const double *y, int64_t sy,
                                 const double *a, int64_t sa, double *out, int64_t n);
pv_coin_function pv_coin_level(int level);

#endif
