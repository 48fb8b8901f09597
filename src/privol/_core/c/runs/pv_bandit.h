/* Descent on loss values alone: the learner asks for one value, or two, at points next to its own, and a device
 * answers with a randomized number. Directions are public.
 */
#ifndef PV_BANDIT_H
#define PV_BANDIT_H

#include <stdint.h>
#include "reports/pv_report.h"
#include "runs/pv_run.h"

typedef struct pv_bandit_plan {
    pv_plan run;
    pv_report report; /* of one number: a value less the middle of its interval, or half a difference by its distance;
                         whole: of d, the estimate of the gradient */
    double cost;      /* of the first report */
    int pair;         /* values at both sides of the point; else at one */
    int whole;        /* reports are of the whole estimate: d / distance times the one value, along the direction */
    double low, high; /* a value is clipped to this interval */
    double inner;     /* a ball of this radius around 0 is in the set: points asked for are drawn to 0 so that they stay
                         within it; infinite: they may leave it */
    double distance,
        most;      /* round t asks at a distance of distance t^(-1/4), of a pair distance t^(-1/2), fixed: distance;
                               and at most at `most` */
    double length; /* the step: length t^(-3/4), of a pair length t^(-1/2); fixed: length */
    int fixed;
} pv_bandit_plan;

typedef struct pv_bandit {
    pv_state run;
    double *value;             /* secret: what is to be randomized, of as many values as reports have, between its row
                                  and its report, else 0 */
    double *point, *direction; /* public: w, and the unit vector of the current round */
    double *asked;             /* public: where values are taken; of a pair two points */
    double *sum;               /* public: theta */
    int64_t steps;             /* reports */
    double *directions;        /* public: of the rounds to come */
    int64_t filled, used;      /* vectors of them */
} pv_bandit;

extern const pv_method pv_bandit_method;

/* Sets the points of the next round from the next direction, when a run begins. */
void pv_bandit_begin(pv_bandit *it, const pv_bandit_plan *plan);

/* Learn values (one, or those at both points) that somebody else took, as one row; NULL: the null row. PV_NOT_FINITE: a
 * value is NaN; nothing was learnt. */
pv_status pv_bandit_tell(pv_bandit *it, const pv_bandit_plan *plan, const double *values);

/* Learn a report that a device made, with as many values as reports have. PV_NEED_FAR: no direction is left, and
 * nothing was learnt. */
pv_status pv_bandit_receive(pv_bandit *it, const pv_bandit_plan *plan, const double *report, const pv_vectors *vectors);

#endif
