/* Learners that perturb released iterates: the secret iterate, its updates, and the noise schedule of its releases. */
#ifndef PV_ITERATE_H
#define PV_ITERATE_H

#include <stdint.h>
#include "runs/pv_run.h"
#include "runs/pv_schedule.h"

typedef struct pv_iterate_plan pv_iterate_plan;

/* One update: the new iterate is (a x - slope v) / k. nn = ||x||^2, b = v.x, q = ||v||^2. */
typedef void (*pv_update)(const pv_iterate_plan *plan, double a, double a1, double nn, double b, double q, double y,
                          double *slope, double *k);

struct pv_iterate_plan {
    pv_plan run;
    pv_schedule schedule;
    pv_update update;
    int constrained; /* implicit step on the L2 ball: the exact constrained step, else prox, then project */
    int64_t refresh; /* rows between recomputations of the norm */
};

/* Results of pv_schedule_fill for the next releases, computed for several of them at once so that divisions overlap.
 * */
#define PV_SCALES 32
typedef struct pv_scales {
    int64_t row; /* of entry `used` */
    int used, filled;
    double sensitivity[PV_SCALES], std[PV_SCALES];
} pv_scales;

typedef struct pv_iterate {
    pv_state run;
    /* secret: the iterate x = s u, its squared norm in units of s^2 */
    double *u, s, nn;
    pv_scales scales;
} pv_iterate;

extern const pv_method pv_iterate_method;

void pv_update_implicit(const pv_iterate_plan *, double, double, double, double, double, double, double *, double *);
void pv_update_gradient(const pv_iterate_plan *, double, double, double, double, double, double, double *, double *);

/* Publish the iterate after row it->run.t with a given noise std (for a last release that was calibrated again). */
pv_status pv_iterate_release(pv_iterate *it, const pv_iterate_plan *plan, double std, double sensitivity,
                             pv_draws *draws);

/* x = s u into out. */
void pv_iterate_read(const pv_iterate *it, int64_t d, double *out);

#endif
