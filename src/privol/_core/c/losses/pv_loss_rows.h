/* The smooth built-in losses for many rows at once: the same bits at every instruction-set level. */
#ifndef PV_LOSS_ROWS_H
#define PV_LOSS_ROWS_H

#include <stdint.h>
#include "losses/pv_loss.h"

/* Most rows in a call. */
#define PV_LOSS_ROWS 64

/* slope[i] and curve[i] are the first and second derivatives at p[i] (at the ends of a bend, the one inside), and
 * the result is the sum of the losses, for n <= PV_LOSS_ROWS rows. The arrays have room for PV_LOSS_ROWS numbers,
 * and entries beyond n are overwritten.
 *
 * A slope s at the double p is within PV_SLOPE_ERROR |s| + 2^-1000 of the exact derivative there, for the smoothed
 * hinge within PV_SLOPE_ERROR + 2^-1000. A curvature of the logistic loss has a relative error of 2^-40, plus 2^-1000.
 * */
typedef double (*pv_loss_rows)(const pv_loss *loss, int64_t n, double *p, double *y, double *slope, double *curve);

#define PV_SLOPE_ERROR 0x1p-50

/* For a user's own loss with the slope bound L and the curvature c: the assumed error of the function that computes
 * it, within PV_CUSTOM_ERROR (L + c (1 + |p| + |y|)) of the exact slope at the double p. */
#define PV_CUSTOM_ERROR 0x1p-46

/* Null for losses with a kink and for the user's own. */
pv_loss_rows pv_loss_rows_at(int code, int level);

#endif
