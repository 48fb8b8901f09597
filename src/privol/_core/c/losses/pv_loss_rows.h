/* The smooth built-in losses of many rows at once: the same bits at every instruction-set level. */
#ifndef PV_LOSS_ROWS_H
#define PV_LOSS_ROWS_H

#include <stdint.h>
#include "losses/pv_loss.h"

/* Most rows of a call. */
#define PV_LOSS_ROWS 64

/* slope[i] and curve[i], the first and second derivatives at p[i] (at the ends of a bend, that inside), and the sum of
 * the losses, for n <= PV_LOSS_ROWS rows. The arrays have room for PV_LOSS_ROWS numbers; what lies beyond n is lost.
 *
 * A slope s at the double p is the exact derivative there within PV_SLOPE_ERROR |s| + 2^-1000, of the smoothed hinge
 * within PV_SLOPE_ERROR + 2^-1000. A curvature of the logistic loss is within 2^-40 of itself + 2^-1000. */
typedef double (*pv_loss_rows)(const pv_loss *loss, int64_t n, double *p, double *y, double *slope, double *curve);

#define PV_SLOPE_ERROR 0x1p-50

/* Of the user's own loss, whose slope has the bound L and the curvature c, what is taken of the function that computes
 * it: within PV_CUSTOM_ERROR (L + c (1 + |p| + |y|)) of the exact slope at the double p. */
#define PV_CUSTOM_ERROR 0x1p-46

/* Null for losses with a kink and for those of the user's own. */
pv_loss_rows pv_loss_rows_at(int code, int level);

#endif
