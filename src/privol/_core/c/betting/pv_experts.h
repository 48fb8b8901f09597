/* Magnitudes along one direction q, |q| <= 1, as experts: expert k proposes the point R_k q, and the learner plays the mean
 * of the R_k by weights that follow the regularised leader, each expert's rate in proportion to 1 / R_k
 * (docs/proofs/experts.md).
 *
 * With h_k = R_k times the rate of expert k and l_k its corrected loss over R_k, the weights are
 * p_k = exp(log_prior_k - h_k l_k + lambda h_k / R_k), lambda such that they sum to 1.
 */
#ifndef PV_EXPERTS_H
#define PV_EXPERTS_H

#include <stdint.h>

#define PV_EXPERTS_MOST 64

typedef struct pv_experts_plan {
    int64_t n; /* 1 to PV_EXPERTS_MOST */
    double radius[PV_EXPERTS_MOST], log_prior[PV_EXPERTS_MOST];
    double speed[PV_EXPERTS_MOST]; /* h_k = min(most, speed_k / sqrt(drift (1 + travelled))) */
    double most;
    double
        drift; /* of the corrected loss, by a report and |q|^2: half the noise's proxy, and the square of the bound */
} pv_experts_plan;

typedef struct pv_experts {
    double loss[PV_EXPERTS_MOST];
    double travelled; /* sum of |q|^2 */
} pv_experts;

/* A report r at the direction q: gain = -<r, q>, square = |q|^2. */
void pv_experts_learn(pv_experts *experts, const pv_experts_plan *plan, double gain, double square);

/* The mean of the radii. */
double pv_experts_magnitude(const pv_experts *experts, const pv_experts_plan *plan);

#endif
