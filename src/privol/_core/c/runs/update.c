/* Update rules of the iterate-perturbing learners, exact for the L2 ball; the loop projects onto other sets. */
#include <math.h>

#include "runs/pv_iterate.h"

/* ||a x - g v||^2, not below zero. */
static inline double moved(double a, double nn, double b, double q, double g) {
    double m = a * a * nn - 2.0 * a * g * b + g * g * q;
    return m > 0.0 ? m : 0.0;
}

/* On the sphere k = ||a x - g v|| / r, which leaves one equation in the new prediction m:
 *     phi(m) = k(g(m)) m + q g(m) - a b = 0,  k' = -m g' / r^2,  phi' = k + g' (q - m^2 / r^2) >= k.
 * Newton from the old prediction scaled onto the sphere. The first step, which is never the last, takes the tangent of
 * the root at k0 for k. After a step s the error is below s^2 (1 + sqrt(q) / (r k)), so a small one ends the search and
 * the slope is extrapolated along it. Returns 0 if it did not settle at once, or the solution lies inside the ball (k
 * below k0). */
static int newton_on_sphere(const pv_iterate_plan *plan, double a, double k0, double nn, double b, double q, double y,
                            double *slope, double *k) {
    const pv_loss *loss = &plan->run.loss;
    const double r = plan->run.set.size, inverse = 1.0 / r, inverse2 = inverse * inverse;
    const double tangent = 0.5 * inverse2 / k0;
    double g, curve, m = b * (r / sqrt(nn));
    pv_seen seen = PV_NOTHING_SEEN;
    for (int i = 0; i < 7; ++i) {
        loss->expand(loss, m, y, &g, &curve, &seen);
        double square = moved(a, nn, b, q, g);
        double at = i == 0 ? 0.5 * k0 + tangent * square : sqrt(square) * inverse;
        double rate = at + curve * (q - m * m * inverse2);
        double step = (a * b - at * m - q * g) / rate;
        if (!(rate > 0.0 && fabs(step) < HUGE_VAL)) return 0;
        if (i > 0 && step * step * (r * at + 1.0 + q) <= 3.5527136788005009e-15 * r * at) { /* 2^-48 */
            g += curve * step;
            at = sqrt(moved(a, nn, b, q, g)) / r;
            if (!(at >= k0)) return 0;
            *slope = g;
            *k = at; /* on the sphere by construction */
            return 1;
        }
        m += step;
    }
    return 0;
}

/* The implicit step constrained to the ball of radius r: the multiplier adds to k, so k is where the sign of
 * psi(k) = ||a x - g(k) v|| / r - k changes, g(k) the implicit slope at k. There is one such k, as ||x(k)|| falls with k;
 * below it psi itself may rise, where the climb k -> k + psi(k) would be slow, so it strides until the root is
 * bracketed; then secant steps, with bisection every other time once they have had their chance. */
static void constrained(const pv_iterate_plan *plan, double a, double k0, double nn, double b, double q, double y,
                        double *slope, double *k) {
    const pv_loss *loss = &plan->run.loss;
    const double r = plan->run.set.size;
    double lo = k0, flo = sqrt(moved(a, nn, b, q, *slope)) / r - k0; /* > 0 */
    double hi = HUGE_VAL, at = lo + flo, g = *slope;
    for (int i = 0; i < 200; ++i) {
        g = loss->implicit(loss, at, a * b, q, y);
        double f = sqrt(moved(a, nn, b, q, g)) / r - at;
        if (!(fabs(f) > 2.2e-16 * at)) break; /* converged, or NaN from a user's loss */
        double before = at;
        if (f > 0) {
            double secant = f < flo ? at + f * (at - lo) / (flo - f) : at + 4.0 * (f + (at - lo));
            lo = at;
            flo = f;
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

/* k of the point (a x - g v) / k: at least a1, and large enough to stay in the ball. */
static inline double scaled_into_ball(const pv_iterate_plan *plan, double a, double a1, double nn, double b, double q,
                                      double g) {
    double k = sqrt(moved(a, nn, b, q, g)) / plan->run.set.size;
    return k > a1 ? k : a1;
}

void pv_update_implicit(const pv_iterate_plan *plan, double a, double a1, double nn, double b, double q, double y,
                        double *slope, double *k) {
    const double rr = plan->run.set.size * plan->run.set.size;
    *slope = 0.0;
    *k = a1;
    if (!(q > 0.0)) return;
    /* Near the sphere, a step outwards mostly ends on it: try that first, at the cost of one solution instead of
     * two. Losses with `expand` have slopes between 0 and -y; moved() is convex in them, and inside at 0. */
    if (plan->constrained && plan->run.loss.expand && nn > 0.98 * rr && moved(a, nn, b, q, -y) > rr * a1 * a1 &&
        newton_on_sphere(plan, a, a1, nn, b, q, y, slope, k))
        return;
    *slope = plan->run.loss.implicit(&plan->run.loss, a1, a * b, q, y);
    *k = a1;
    if (plan->constrained) {
        if (moved(a, nn, b, q, *slope) > rr * a1 * a1) constrained(plan, a, a1, nn, b, q, y, slope, k);
    } else if (plan->run.set.code == PV_L2_BALL) {
        *k = scaled_into_ball(plan, a, a1, nn, b, q, *slope);
    }
}

void pv_update_gradient(const pv_iterate_plan *plan, double a, double a1, double nn, double b, double q, double y,
                        double *slope, double *k) {
    *slope = q > 0.0 ? plan->run.loss.slope(&plan->run.loss, b, y) : 0.0;
    *k = plan->run.set.code == PV_L2_BALL ? scaled_into_ball(plan, a, a1, nn, b, q, *slope) : a1;
}
