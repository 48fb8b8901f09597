/* Update rules of the iterate-perturbing learners, for the L2 ball exactly: other sets are projected by the loop. */
#include <math.h>

#include "pv_iterate.h"

/* ||a x - g v||^2, not below zero. */
static inline double moved(double a, double nn, double b, double q, double g) {
    double m = a * a * nn - 2.0 * a * g * b + g * g * q;
    return m > 0.0 ? m : 0.0;
}

/* On the sphere k = ||a x - g v|| / r, which leaves one equation in the new prediction m:
 *     phi(m) = k(g(m)) m + q g(m) - a b = 0,  k' = (g q - a b) g' / (r^2 k).
 * Newton from the unconstrained solution scaled onto the sphere; quadratic, so a step below 2^-33 leaves an error
 * below rounding and the slope is extrapolated along it. Returns 0 if it did not settle at once. */
static int newton_on_sphere(const pv_plan *plan, double a, double k0, double nn, double b, double q, double y,
                            double *slope, double *k) {
    const pv_loss *loss = &plan->loss;
    const double r = plan->set.size;
    double g = *slope, curve, m = (a * b - q * g) / (sqrt(moved(a, nn, b, q, g)) / r);
    for (int i = 0; i < 6; ++i) {
        loss->expand(loss, m, y, &g, &curve);
        double at = sqrt(moved(a, nn, b, q, g)) / r;
        double f = (at * m + q * g) - a * b;
        double rate = at + curve * (q + m * (g * q - a * b) / (r * r * at));
        double step = -f / rate;
        if (!(rate > 0.0 && fabs(step) < HUGE_VAL)) return 0;
        if (fabs(step) <= 1.1641532182693481e-10) { /* 2^-33 */
            g += curve * step;
            *k = sqrt(moved(a, nn, b, q, g)) / r;
            if (*k < k0) return 0;
            *slope = g;
            return 1;
        }
        m += step;
    }
    return 0;
}

/* The implicit step constrained to the ball of radius r: the multiplier adds to k, so k is the root of
 * psi(k) = ||a x - g(k) v|| / r - k,  g(k) the implicit slope at k. psi decreases; the fixed-point map
 * k -> ||a x - g(k) v|| / r has derivative q phi'' m^2 / (q r^2 (k + q phi'')) in [0, 1), so iterating it from
 * the left end climbs to the root; secant steps inside the bracket make it superlinear. */
static void constrained(const pv_plan *plan, double a, double k0, double nn, double b, double q, double y,
                        double *slope, double *k) {
    const pv_loss *loss = &plan->loss;
    const double r = plan->set.size;
    if (loss->expand && newton_on_sphere(plan, a, k0, nn, b, q, y, slope, k)) return;
    double lo = k0, flo = sqrt(moved(a, nn, b, q, *slope)) / r - k0; /* > 0 */
    double hi = HUGE_VAL, at = lo + flo, g = *slope;
    for (int i = 0; i < 200; ++i) {
        g = loss->implicit(loss, at, a * b, q, y);
        double f = sqrt(moved(a, nn, b, q, g)) / r - at;
        if (!(fabs(f) > 2.2e-16 * at)) break; /* converged, or NaN from a user's loss */
        double before = at;
        if (f > 0) {
            double secant = f < flo ? at + f * (at - lo) / (flo - f) : at + f;
            lo = at; flo = f;
            at = secant;
        } else {
            hi = at;
            at = lo + flo * (at - lo) / (flo - f);
        }
        if (!(at > lo && at < hi)) at = hi < HUGE_VAL ? lo + 0.5 * (hi - lo) : lo + flo;
        if (i > 20 && hi < HUGE_VAL && (i & 1)) at = lo + 0.5 * (hi - lo);
        if (at == before || at <= lo || at >= hi) break;
        if (fabs(at - before) <= 4.5e-16 * at) {
            g = loss->implicit(loss, at, a * b, q, y);
            break;
        }
    }
    *slope = g;
    *k = sqrt(moved(a, nn, b, q, g)) / r; /* on the sphere by construction */
    if (*k < k0) *k = k0;
}

void pv_update_implicit(const pv_plan *plan, double a, double a1, double nn, double b, double q, double y,
                        double *slope, double *k) {
    *slope = q > 0.0 ? plan->loss.implicit(&plan->loss, a1, a * b, q, y) : 0.0;
    *k = a1;
    if (plan->set.code == PV_L2_BALL && moved(a, nn, b, q, *slope) > plan->set.size * plan->set.size * a1 * a1)
        constrained(plan, a, a1, nn, b, q, y, slope, k);
}

void pv_update_gradient(const pv_plan *plan, double a, double a1, double nn, double b, double q, double y,
                        double *slope, double *k) {
    *slope = q > 0.0 ? plan->loss.slope(&plan->loss, b, y) : 0.0;
    *k = a1;
    if (plan->set.code == PV_L2_BALL) {
        double norm = sqrt(moved(a, nn, b, q, *slope)) / plan->set.size;
        if (norm > a1) *k = norm;
    }
}
