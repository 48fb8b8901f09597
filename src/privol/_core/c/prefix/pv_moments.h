/* Moments of rows v with targets y: v v^T as pv_prefix_svec has it, then y v. */
#ifndef PV_MOMENTS_H
#define PV_MOMENTS_H

#include <stdint.h>

#define PV_MOMENT_ROWS 16 /* rows in a call */

/* The moments of k rows of d values, 1 to PV_MOMENT_ROWS of them, are added to sum one after the other. If sum is
 * fresh, those of the first row are written instead. */
typedef void (*pv_moments)(const double *v, const double *y, int64_t k, int64_t d, int fresh, double *sum);

/* One for each instruction-set level, all with the same bits. */
pv_moments pv_moments_at(int level);

#endif
