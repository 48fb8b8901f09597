/* The stream loop that all learners share.
 *
 * Order at row t, as the privacy arguments need it: the row is scaled to its bound, and the method learns it; only
 * then, if a release is due, the method's perturbation is made and its projected result is published. What a method
 * keeps secret and what it perturbs is its own matter; the loop sees only the released point.
 */
#ifndef PV_RUN_H
#define PV_RUN_H

#include <math.h>
#include <stdint.h>
#include "noise/pv_draws.h"
#include "rows/pv_geometry.h"
#include "losses/pv_loss.h"
#include "losses/pv_outputs.h"
#include "rows/pv_rows.h"
#include "base/pv_shared.h"
#include "base/pv_status.h"

typedef struct pv_plan pv_plan;
typedef struct pv_state pv_state;

/* The operations of a learner. Its own plan and state begin with a pv_plan and a pv_state. */
typedef struct pv_method {
    /* Learn row i as row state->t of the run: y is its target within its bound, norm the squared norm of the row as
     * given, -1 for the null row. Sets state->pending if a draw is due, whether or not a release is. PV_NOT_FINITE:
     * nothing may be released any more. */
    pv_status (*learn)(pv_state *state, const pv_plan *plan, const pv_rows *rows, int64_t i, double y, double norm);
    /* What is pending after row state->t: draw, move on, and publish if the row is state->next_release. After any
     * status but PV_OK it is called again and starts from the beginning, so its draws come before the changes that
     * depend on them. */
    pv_status (*release)(pv_state *state, const pv_plan *plan, pv_draws *draws);
    /* Address rows of the next draws, in order, from the pending one on: at most `capacity`. Returns how many. */
    int64_t (*upcoming)(const pv_state *state, const pv_plan *plan, int64_t capacity, uint64_t *rows);
    /* The public model that evaluates the next row to be learnt; NULL: the released one. */
    const double *(*shown)(const pv_state *state, const pv_plan *plan);
} pv_method;

struct pv_plan {
    const pv_method *method;
    pv_loss loss;
    pv_outputs outputs;
    pv_set set;
    int64_t d;      /* model coordinates, the intercept included; of several scores, one score's after the other's */
    int intercept;  /* 1: the last coordinate of each score multiplies the constant 1 */
    double x_bound; /* rows are scaled to this L2 norm (the constant not counted) */
    int signs;      /* targets are -1 and +1, or indices of classes where there are several scores */
    double y_bound; /* real targets are clipped to it */
    int noisy;      /* draws are made */
    int64_t horizon;
    int64_t every;           /* release after rows every, 2 every, ...; 0: the explicit list */
    const int64_t *releases; /* ascending row numbers */
    int64_t n_releases_planned;
    int64_t last_row; /* no release after it (published loop: horizon - 1) */
    double magnitude; /* public bound of every coordinate of what is perturbed */
    unsigned stream;  /* noise stream */
    /* 0: the average is of all releases alike; 1: release k counts k times, 2: k (k + 1) / 2 times, 3: k + 1 times, the
     * number of the iterate that the point after row k is */
    int averaging;
};

struct pv_state {
    /* Vectors have pv_whole(d) values, zeros at the end, as do what learners add if they are passed over whole. */
    double *work; /* scratch, three vectors; may hold secrets */
    /* released (public) */
    double *released, *released_sum;
    /* These, `spent` and the diagnostics are read by other threads (pv_shared.h). */
    int64_t t, n_released, next_release; /* next_release: row number, or horizon + 1 */
    int64_t list_position;
    int pending;               /* row t is learnt, its draw or release is not yet made */
    double spent, spent_tail;  /* compensated sum of (s_t / std_t)^2 over releases */
    int64_t n_clipped, n_null; /* private diagnostics */
};

/* Destination of the released model's evaluation (functions of raw rows, not private): row i of `rows` is evaluated
 * just before row i of the block is learnt. */
typedef struct pv_progress {
    const pv_rows *rows; /* as many as are learnt; NULL: those that are learnt */
    const double *y;     /* their targets */
    double *scores;      /* its scores, when scaled to its bound; NaN for the null row */
    double *losses;      /* its loss then, weighted, without the regulariser; NaN for the null row */
} pv_progress;

/* Learn rows *i..n-1 with targets y. A row with an unusable entry or a NaN target is learnt as the null row. Stops
 * at the first status other than PV_OK, with *i the row to continue at; what is pending is made first. */
pv_status pv_run(pv_state *state, const pv_plan *plan, const pv_rows *rows, const double *y, int64_t *i,
                 pv_draws *draws, const pv_progress *progress);

/* Evaluate the released model on rows that are not learnt. */
void pv_evaluate(const pv_state *state, const pv_plan *plan, const pv_progress *progress);

/* First number of the release schedule after t, or INT64_MAX. */
int64_t pv_next_planned(const pv_plan *plan, int64_t t, int64_t *list_position);

/* First release row after row t, or horizon + 1. */
int64_t pv_next_release(const pv_plan *plan, int64_t t, int64_t *list_position);

/* `upcoming` for methods that draw only when they release. */
int64_t pv_upcoming_releases(const pv_state *state, const pv_plan *plan, int64_t capacity, uint64_t *rows);

/* ---- for the methods' operations ---- */

/* A target within its bound, whatever the caller did. */
double pv_admissible(const pv_plan *plan, double y);

/* Prediction of the single score of w for row i times f. */
static inline double pv_predict(const double *w, const pv_plan *plan, const pv_rows *rows, int64_t i, double f) {
    double p = f * rows->ops->dot(rows, i, w);
    return plan->intercept ? p + w[plan->d - 1] : p;
}

/* All scores of w for row i times f. */
static inline void pv_scores(const double *w, const pv_plan *plan, const pv_rows *rows, int64_t i, double f,
                             double *scores) {
    const int64_t n = plan->outputs.n, width = plan->d / n;
    for (int64_t k = 0; k < n; ++k, w += width) {
        const double p = f * rows->ops->dot(rows, i, w);
        scores[k] = plan->intercept ? p + w[width - 1] : p;
    }
}

/* The factor that scales a row to its bound, counted if it is not 1; *norm, the row's squared norm, becomes that of
 * the scaled row. */
static inline double pv_scale_row(pv_state *state, const pv_plan *plan, double *norm) {
    /* without a branch: rows of length 1 are beyond a bound of 1 by a rounding every other time */
    const double most = plan->x_bound * plan->x_bound, scaled = plan->x_bound / sqrt(*norm);
    const int beyond = *norm > most;
    const double f = beyond ? scaled : 1.0;
    *norm = beyond ? most : *norm; /* not f * f * norm, which may underflow on the way */
    pv_tally(&state->n_clipped, beyond);
    return f;
}

/* The largest slope that keeps the gradient of a row with that squared norm within a bound. If the norm is nearly
 * lost to underflow, the row is at most 1e-145 long, and its gradient is 0. */
static inline double pv_most_slope(double bound, double square) { return square > 1e-290 ? bound / sqrt(square) : 0.0; }

/* Add the cost of a draw to the amount spent. Kahan's compensated sum: the total does not depend on how the rows
 * were cut into calls. */
void pv_spend(pv_state *state, double cost);

/* Bring x into the set, up to the returned factor: for the L2 ball the caller must scale by it, for other sets x is
 * projected in place with 2 d values of scratch. */
double pv_into_set(const pv_plan *plan, double *x, double *work, const pv_vectors *vectors);
double pv_into_set_known(const pv_plan *plan, double *x, double square, double *work); /* square: its pv_sqnorm */

/* The weight of release k in the average, and of the first k releases together. */
static inline double pv_average_weight(const pv_plan *plan, double k) {
    switch (plan->averaging) {
    case 1: return k;
    case 2: return 0.5 * (k * (k + 1.0));
    case 3: return k + 1.0;
    default: return 1.0;
    }
}
static inline double pv_average_total(const pv_plan *plan, double k) {
    switch (plan->averaging) {
    case 1: return 0.5 * (k * (k + 1.0));
    case 2: return k * (k + 1.0) * (k + 2.0) / 6.0;
    case 3: return 0.5 * (k * (k + 3.0));
    default: return k;
    }
}

/* Release the point f x after row state->t. */
void pv_publish(pv_state *state, const pv_plan *plan, const double *x, double f, const pv_vectors *vectors);
/* and copy = f x, both of n values: d, or whole registers of them with zeros at the end */
void pv_publish_two(pv_state *state, const pv_plan *plan, const double *x, double f, double *copy, int64_t n,
                    const pv_vectors *vectors);

#endif
