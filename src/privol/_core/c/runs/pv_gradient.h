/* Noisy gradient descent: the gradient of each step is perturbed, and everything after it is public. */
#ifndef PV_GRADIENT_H
#define PV_GRADIENT_H

#include <stdint.h>
#include "runs/pv_run.h"

typedef struct pv_gradient_plan {
    pv_plan run;
    double std;         /* of the noise on the sum of a step's gradients, one for all steps; 0: none */
    double sensitivity; /* of all sums, to what the budget covers: one row, or all rows of a user */
    double bound;       /* gradients are scaled to this L2 norm */
    int64_t batch;      /* rows of a step */
    double l2;          /* strong convexity: step j has length 1 / (l2 j) */
    double length;      /* l2 = 0: length / sqrt(j) */
} pv_gradient_plan;

typedef struct pv_gradient {
    pv_state run;
    double *sum;   /* secret: gradients of the rows since the last step */
    double *point; /* public: where they are taken */
    int64_t steps; /* made; all but that of the horizon are of plan->batch rows */
} pv_gradient;

extern const pv_method pv_gradient_method;

/* Learn a gradient taken elsewhere at the point, as one row; NULL: the null row. pv_run handles what becomes
 * pending. */
void pv_gradient_tell(pv_gradient *it, const pv_gradient_plan *plan, const double *gradient);

#endif
