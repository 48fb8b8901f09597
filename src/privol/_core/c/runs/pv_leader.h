/* Follow the regularised leader: running sums of gradients are perturbed by one private prefix sum, and every point
 * is computed from its releases. Gradients are taken at these points, so at public ones. */
#ifndef PV_LEADER_H
#define PV_LEADER_H

#include <stdint.h>
#include "prefix/pv_prefix.h"
#include "runs/pv_run.h"

/* How a leader that tunes itself follows: the strong convexity and the threshold of each step, and the model shown.
 * */
typedef struct pv_tuning {
    int64_t n;               /* parts of the run; 0: it does not tune itself */
    const int64_t *until;    /* the last step of each, ascending; that of the last part is the run's */
    const double *held;      /* strong convexity */
    const double *threshold; /* of a feature's squared sums, over all scores: below it they count as noise */
    const double *lag;       /* the square that noise gives a coordinate of both averages' difference, times held^2 */
    const double *walk;      /* and what single rows may give all of them together */
    double power, quickest, slowest; /* the point after step s counts (power + 1) / (power + s) in an average, at least
                                      * 1 / quickest in the quick one, 1 / slowest in the slow one */
    double sure;                     /* what is beyond that many times the noise is a drift */
} pv_tuning;

typedef struct pv_leader_plan {
    pv_plan run;
    pv_tuning tuning;
    double bound;          /* gradients are scaled to this L2 norm */
    double regularization; /* strong convexity at the beginning, around the starting point */
    double reach;          /* that of later epochs is chosen anew, for this distance from the starting point; 0: kept */
    pv_by_epoch rows, variance; /* in epochs before: rows, and the variance that their sums leave behind */
    double l2;                  /* what every row adds to it, around 0 */
    double cost;                /* mu^2 of the whole run: all of it is spent with the first row */
} pv_leader_plan;

typedef struct pv_leader {
    pv_state run;
    pv_prefix sums;
    double *gradient;    /* secret: of the row that is learnt */
    double *point;       /* public: where gradients are taken */
    double *start;       /* public: the starting point */
    double *quick;       /* public: the average of the last points, where the leader tunes itself */
    double *slow;        /* public: that of more of them */
    double *shown;       /* public: what is made of both, which is released */
    int64_t followed;    /* steps of the sums that the point is of, all epochs together */
    const double *given; /* secret: what null rows add, the sum of a step that others have added up; NULL: 0 */
} pv_leader;

extern const pv_method pv_leader_method;

/* sum = the gradients of all rows of a block at a point, each taken and bounded as `learn` does, added in the order of the
 * rows. Counts scaled rows and null rows; `slopes` has room for one slope per output. */
pv_status pv_leader_sum(const pv_leader_plan *plan, const double *point, const pv_rows *rows, const double *y,
                        pv_state *counts, double *slopes, double *sum);

/* Learn a gradient taken elsewhere at the point, as one row; NULL: the null row. pv_run handles what becomes
 * pending. */
pv_status pv_leader_tell(pv_leader *it, const pv_leader_plan *plan, const double *gradient);

/* A leaf that has begun becomes a step as it is: no more rows follow. pv_run handles what becomes pending. */
void pv_leader_end_leaf(pv_leader *it);

#endif
