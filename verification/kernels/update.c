/* The updates of perturbed iterates, explicit and implicit, on the sphere too, with every built-in loss and any numbers,
 * NaN and infinities included. A contract stands for pv_exp, which kernels/elementary.c has. */
#include "losses/loss.c"
#include "runs/update.c"

#include "__fc_builtin.h"
#include "libm.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

/*@ assigns \result \from x; */
static inline double pv_exp(double x);

static double any(void) {
    double x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

int main(void) {
    const int kind = Frama_C_interval(0, PV_LOSS_COUNT - 1);
    double slope, k[2 - SHORT];
    pv_iterate_plan plan = {0};
    //@ split kind;
    pv_loss_bind(&plan.run.loss, kind, 1.0);
    plan.run.set = (pv_set){PV_L2_BALL, any(), 0, 0};
    plan.constrained = Frama_C_interval(0, 1);
    pv_update_implicit(&plan, any(), any(), any(), any(), any(), any(), &slope, k + 1);
    pv_update_gradient(&plan, any(), any(), any(), any(), any(), any(), &slope, k);
    return 0;
}
