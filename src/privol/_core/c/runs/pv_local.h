/* Learners that see only reports: the gradient of every row is taken at a public point, scaled to its bound and
 * randomized, as its user's device would do; everything after that is public.
 */
#ifndef PV_LOCAL_H
#define PV_LOCAL_H

#include <stdint.h>
#include "betting/pv_experts.h"
#include "reports/pv_report.h"
#include "runs/pv_run.h"

/* How a report changes the point. */
typedef enum pv_update {
    PV_GREEDY, /* w <- Proj(keep w - step r) */
    PV_LAZY,   /* theta <- theta - r, w <- Proj(step theta) */
    PV_COIN,   /* w = wealth m(X, Y, a) q: the direction q by scale-free steps, the magnitude by coin betting */
    PV_EXPERTS /* the same direction, the magnitude a mean of experts */
} pv_update;

/* Length of the step to the point of report t + 1. */
typedef enum pv_pace {
    PV_CONSTANT, /* length */
    PV_ROOT,     /* length / sqrt(t) */
    PV_INVERSE,  /* length / t, and a greedy point is first drawn to 0 by (t - 1) / t */
    PV_ADAPTIVE  /* length / sqrt(base + the squared norms of the reports before) */
} pv_pace;

typedef struct pv_local_plan {
    pv_plan run;
    pv_report report;
    double cost; /* of the first report: a row is in one of them, so it costs what all cost together */
    pv_update update;
    pv_pace pace;
    double length, base;
    /* PV_COIN */
    double a;        /* the bets are from -a to a */
    double drift;    /* Y grows by drift |q|^2 a report, or by drift where counted */
    double observed; /* Y grows by observed (r q)^2 instead, where this is above 0 */
    int counted;
    double wealth;           /* at the start */
    double cap;              /* of |m|; infinite: none */
    pv_experts_plan experts; /* PV_EXPERTS */
} pv_local_plan;

typedef struct pv_local {
    pv_state run;
    double *gradient;   /* secret: between its row and its report, else 0 */
    double *point;      /* public: where gradients are taken */
    double *sum;        /* public: PV_LAZY: minus the sum of all reports; PV_COIN, PV_EXPERTS: the direction q */
    double squares;     /* of the norms of all reports */
    double x, y;        /* gains of the direction, and PV_COIN: what noise may have had a part in */
    pv_experts experts; /* PV_EXPERTS */
    int64_t steps;      /* reports */
} pv_local;

extern const pv_method pv_local_method;

/* Add the gradient of row i, scaled to its bound, at a point: as a learner computes it, and a device that a learner
 * asks. norm: the row's squared norm, -1 for the null row. Only the state's counters of rows are used.
 * PV_NOT_FINITE: from a user's loss. */
pv_status pv_local_gradient(pv_state *state, const pv_plan *run, double bound, const double *point, const pv_rows *rows,
                            int64_t i, double y, double norm, double *gradient);

/* Learn a gradient taken elsewhere at the point, as one row; NULL: the null row. pv_run handles what becomes
 * pending. */
void pv_local_tell(pv_local *it, const pv_local_plan *plan, const double *gradient);

/* Learn a report that a device made: coordinates of at most PV_REPORT_MAX. */
#define PV_REPORT_MAX 1e100
void pv_local_receive(pv_local *it, const pv_local_plan *plan, const double *report, const pv_vectors *vectors);

#endif
