/* Follow the regularised leader: running sums of gradients are perturbed by one private prefix sum, and every point is
 * computed from what that has released. Gradients are taken at such points, hence at public ones. */
#ifndef PV_LEADER_H
#define PV_LEADER_H

#include <stdint.h>
#include "pv_prefix.h"
#include "pv_run.h"

typedef struct pv_leader_plan {
    pv_plan run;
    pv_prefix_plan sums;
    double bound;          /* gradients are scaled to this L2 norm */
    double regularization; /* strong convexity at the beginning, around the starting point */
    double l2;             /* what every row adds to it, around 0 */
    double cost;           /* mu^2 of the whole run: all of it is spent with the first row */
} pv_leader_plan;

typedef struct pv_leader {
    pv_state run;
    pv_prefix sums;
    double *gradient; /* secret: of the row that is learnt */
    double *point;    /* public: where gradients are taken */
    double *centre;   /* public: regularization times the starting point */
    int64_t followed; /* step of the sums that the point is of */
} pv_leader;

extern const pv_method pv_leader_method;

/* Learn a gradient that somebody else took at the point, as one row; NULL: the null row. What becomes pending is left to
 * pv_run. */
pv_status pv_leader_tell(pv_leader *it, const pv_leader_plan *plan, const double *gradient);

/* A leaf that has begun becomes a step as it is: rows are at an end. What becomes pending is left to pv_run. */
void pv_leader_end_leaf(pv_leader *it, const pv_leader_plan *plan);

#endif
