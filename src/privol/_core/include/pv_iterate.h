/* The stream loop shared by all learners that perturb iterates.
 *
 * Order at row t, as the privacy argument needs it: the row is scaled to its bound, the secret
 * iterate moves, and only where the schedule says so the new iterate is perturbed, rounded to the
 * lattice, projected and published.
 */
#ifndef PV_ITERATE_H
#define PV_ITERATE_H

#include <stdint.h>
#include "pv_bits.h"
#include "pv_draws.h"
#include "pv_geometry.h"
#include "pv_loss.h"
#include "pv_rows.h"
#include "pv_schedule.h"
#include "pv_status.h"

typedef struct pv_plan pv_plan;

/* One update: the new iterate is (a x - slope v) / k. nn = ||x||^2, b = v.x, q = ||v||^2. */
typedef void (*pv_update)(const pv_plan *plan, double a, double a1, double nn, double b, double q, double y,
                          double *slope, double *k);

struct pv_plan {
    pv_loss loss;
    pv_set set;
    pv_schedule schedule;
    pv_update update;
    int constrained;    /* implicit step on the L2 ball: the exact constrained step, else prox, then project */
    int64_t d;          /* model coordinates, the intercept included */
    int intercept;      /* 1: the last coordinate multiplies the constant 1 */
    double x_bound;     /* rows are scaled to this L2 norm (the constant not counted) */
    int signs;          /* targets are -1 and +1 */
    double y_bound;     /* real targets are clipped to it */
    int noisy;          /* releases are perturbed */
    int64_t horizon;
    int64_t every;      /* release after rows every, 2 every, ...; 0: the explicit list */
    const int64_t *releases; /* ascending row numbers */
    int64_t n_releases_planned;
    int64_t last_row;   /* no release after it (published loop: horizon - 1) */
    int64_t refresh;    /* rows between recomputations of the norm */
    double magnitude;   /* public bound of every coordinate of an iterate */
    unsigned stream;    /* noise stream */
};

/* What pv_schedule_fill gives for the next releases, drawn up for several of them at once: divisions overlap. */
#define PV_SCALES 32
typedef struct pv_scales {
    int64_t row; /* of entry `used` */
    int used, filled;
    double sensitivity[PV_SCALES], std[PV_SCALES];
} pv_scales;

typedef struct pv_iterate {
    /* secret: the iterate x = s u, its squared norm in units of s^2 */
    double *u, s, nn;
    double *work;
    /* released (public) */
    double *released, *released_sum;
    int64_t t, n_released, next_release; /* next_release: row number, or horizon + 1 */
    int64_t list_position;
    int pending;              /* row t is learnt, its release is not yet drawn */
    double spent, spent_tail; /* compensated sum of (s_t / std_t)^2 over releases */
    int64_t n_clipped, n_null; /* private diagnostics */
    pv_scales scales;
} pv_iterate;

/* Where the evaluation of the released model goes (functions of raw rows, not private): row i of `rows` is evaluated just
 * before row i of the block is learnt. */
typedef struct pv_progress {
    const pv_rows *rows; /* as many as are learnt; NULL: those that are learnt */
    const double *y;     /* their targets */
    double *scores;      /* prediction for the row scaled to its bound; NaN for the null row */
    double *losses;      /* loss of that prediction, without the regulariser; NaN for the null row */
} pv_progress;

void pv_update_implicit(const pv_plan *, double, double, double, double, double, double, double *, double *);
void pv_update_gradient(const pv_plan *, double, double, double, double, double, double, double *, double *);

/* First release row after row t, or horizon + 1. */
int64_t pv_next_release(const pv_plan *plan, int64_t t, int64_t *list_position);

/* Rows of the next releases, from it->next_release (or the pending row) on: at most `capacity`. Returns how many. */
int64_t pv_iterate_upcoming(const pv_iterate *it, const pv_plan *plan, int64_t capacity, uint64_t *rows);

/* Learn rows *i..n-1 with targets y. A row with an unusable entry or a NaN target is learnt as the null row. Stops at
 * the first status other than PV_OK with *i the row to continue at; a release that is due is made first. */
pv_status pv_iterate_run(pv_iterate *it, const pv_plan *plan, const pv_rows *rows, const double *y, int64_t *i,
                         pv_draws *draws, const pv_progress *progress);

/* Evaluate the released model on rows that are not learnt now. */
void pv_iterate_evaluate(const pv_iterate *it, const pv_plan *plan, const pv_progress *progress);

/* Publish the iterate after row it->t with a given noise std (the re-calibrated last release). */
pv_status pv_iterate_release(pv_iterate *it, const pv_plan *plan, double std, double sensitivity, pv_draws *draws);

/* x = s u into out. */
void pv_iterate_read(const pv_iterate *it, int64_t d, double *out);

#endif
