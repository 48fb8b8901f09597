/* Step sizes, sensitivities and noise scales of the iterate-perturbing learners as functions of the row number.
 *
 * With A_t = A_0 + sum of the strong convexities of rows 1..t, the update of row t weighs the old
 * iterate by A_{t-1} and the new one by A_t, and replacing one row moves x_{t+1} by at most
 * (D + E_t) / A_t, E_t bounding what the rounding errors of rows 1..t add.
 */
#ifndef PV_SCHEDULE_H
#define PV_SCHEDULE_H

#include <stdint.h>

enum { PV_CONVEXITY_CONSTANT, PV_CONVEXITY_INVERSE_SQRT, PV_PUBLISHED_GRADIENT };
enum { PV_SHAPE_PAPER, PV_SHAPE_LIPSCHITZ, PV_SHAPE_SMOOTH };

typedef struct pv_schedule {
    int kind;
    double a0;                     /* A_0 */
    double l2;                     /* strong convexity alpha */
    int64_t first;                 /* rows before it do not move the iterate (published gradient step), else 1 */
    double diameter;               /* D: gradient diameter */
    double round0, round1, round2; /* E_t = round0 + round1 t + round2 sum_{i<=t} A_i */
    double cap;                    /* diameter of the feasible set */
    int shape;
    double gain; /* std_t = gain * w_t; 0: no noise */
} pv_schedule;

double pv_schedule_weight(const pv_schedule *s, int64_t t);        /* A_t */
double pv_schedule_weight_before(const pv_schedule *s, int64_t t); /* A_{t-1} in the update of row t */
double pv_schedule_sensitivity(const pv_schedule *s, int64_t t);   /* s_t */
double pv_schedule_std(const pv_schedule *s, int64_t t);           /* noise std of the release after row t */

/* Arrays over t = first..first+n-1, for calibration and reports. */
void pv_schedule_fill(const pv_schedule *s, int64_t first, int64_t stride, int64_t n, double *sensitivity, double *std);

#endif
