/* Feasible convex sets and the Euclidean projections onto them. */
#ifndef PV_GEOMETRY_H
#define PV_GEOMETRY_H

#include <stdint.h>

enum { PV_L2_BALL, PV_L1_BALL, PV_BOX, PV_SIMPLEX, PV_WHOLE_SPACE, PV_SET_COUNT };

typedef struct pv_set {
    int code;
    double size;              /* radius of a ball; total of the simplex */
    const double *low, *high; /* box, d values each */
} pv_set;

/* Project x (d values) in place; work has room for 2 d values. */
void pv_project(const pv_set *set, double *x, int64_t d, double *work);

#endif
