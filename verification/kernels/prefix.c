/* Five rows of two coordinates, of which one is null, through every design without noise: all memory of a run, which ends
 * where the array does, and the sums of integers. */
#include "prefix/pv_prefix.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { DIM = 2, STEPS = 5, ROOM = 128 };

static double memory[ROOM - SHORT];

int main(void) {
    const int design = Frama_C_interval(0, PV_DESIGNS - 1);
    //@ split design;
    const double factors[STEPS + 1] = {0.5, 0.25, 0.125, 0.125, 0.125, 0.125};
    pv_prefix_plan plan = {0};
    plan.design = design;
    plan.dim = plan.width = DIM;
    plan.leaf = 1;
    plan.steps = plan.horizon = STEPS;
    plan.grid = 0x1p-20;
    plan.shift = 10;
    plan.order = design == PV_SMOOTH ? 4 : design == PV_INDEPENDENT || design == PV_SQRT ? 0 : 3;
    plan.theta = plan.omega = plan.coefficients = plan.decoder = factors;
    plan.discount = 1.0;
    plan.window = design > PV_SMOOTH ? 3 : 0;
    const size_t size = pv_prefix_size(&plan);
    pv_prefix state;
    pv_prefix_bind(&state, &plan, memory + ROOM - size);
    //@ loop unroll 6;
    for (int i = 0; i <= STEPS; ++i) {
        double row[DIM];
        row[0] = Frama_C_double_interval(-1.0, 1.0);
        row[1] = Frama_C_double_interval(-1.0, 1.0);
        if (pv_prefix_add(&state, i == 2 ? 0 : row) != PV_OK) break;
        if (pv_prefix_settle(&state, 0) != PV_OK) break;
    }
    return (int)state.made;
}
