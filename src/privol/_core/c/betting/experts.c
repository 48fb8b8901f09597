#include "betting/pv_experts.h"

#include <math.h>

#include "base/pv_math.h"

#define MOST_STEPS 200
#define NEAR 1e-14

/* h_k, the rate of expert k in units of 1 / R_k; shrink = 1 / sqrt(drift (1 + travelled)) */
static inline double rate(const pv_experts_plan *plan, int64_t k, double shrink) {
    const double h = plan->speed[k] * shrink;
    return h < plan->most ? h : plan->most;
}

static double shrink_of(const pv_experts *experts, const pv_experts_plan *plan) {
    return 1.0 / sqrt(plan->drift * (1.0 + experts->travelled));
}

void pv_experts_learn(pv_experts *experts, const pv_experts_plan *plan, double gain, double square) {
    const double shrink = shrink_of(experts, plan), noise = square * plan->drift;
    for (int64_t k = 0; k < plan->n; ++k) experts->loss[k] += rate(plan, k, shrink) * noise - gain;
    experts->travelled += square;
}

double pv_experts_magnitude(const pv_experts *experts, const pv_experts_plan *plan) {
    const int64_t n = plan->n;
    const double shrink = shrink_of(experts, plan);
    double z[PV_EXPERTS_MOST], b[PV_EXPERTS_MOST], p[PV_EXPERTS_MOST], least = HUGE_VAL;
    for (int64_t k = 0; k < n; ++k) {
        const double h = rate(plan, k, shrink);
        b[k] = h / plan->radius[k];
        z[k] = (h * experts->loss[k] - plan->log_prior[k]) / b[k]; /* the lambda at which the weight of k alone is 1 */
        least = z[k] < least ? z[k] : least;
    }
    /* Lambda is counted from the least of these: no exponent is above 0, and if losses are so large that their
     * differences are lost, the expert with the least loss has all the weight. */
    for (int64_t k = 0; k < n; ++k) z[k] = b[k] * (least - z[k]);
    /* log(sum p) is convex and increasing in lambda, and at least 0 here: Newton's steps descend to its root. */
    double sum = 1.0, lambda = 0.0;
    for (int step = 0; step < MOST_STEPS; ++step) {
        double slope = 0.0;
        sum = 0.0;
        for (int64_t k = 0; k < n; ++k) {
            p[k] = pv_exp(z[k] + lambda * b[k]);
            sum += p[k];
            slope += p[k] * b[k];
        }
        if (!(sum > 1.0 + NEAR)) break;
        const double next = lambda - pv_log(sum) * sum / slope;
        if (!(next < lambda)) break; /* only rounding is left of the step */
        lambda = next;
    }
    double mean = 0.0;
    for (int64_t k = 0; k < n; ++k) mean += p[k] * plan->radius[k];
    return mean / sum;
}
