/* Six rows of two coordinates, of which one is null, through every design, the last one in a new epoch: all memory of a run,
 * which ends where the array does, the sums of integers, and copies for a checkpoint; and two rows as a block. With noise,
 * a function stands for the rounding. */
#include "prefix/pv_prefix.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

#ifndef NOISY
#define NOISY 0 /* whether sums get noise: a contract stands for it */
#endif

enum { DIM = 2, STEPS = 5, ROOM = 128, ROWS = 2, GRAM = DIM * (DIM + 1) / 2 };

static double memory[ROOM - SHORT], kept[ROOM];

int pv_draws_level(const pv_draws *draws) { return 0; }

#if NOISY /* in place of what kernels/lattice.c has: a standard deviation of 1, and nothing beyond 16 of them */
pv_status pv_draws_round(pv_draws *draws, uint64_t row, double std, const double *u, double s, int64_t d,
                         double magnitude, double *out) {
    //@ loop unroll 2;
    for (int64_t c = 0; c < d; ++c) out[c] = s * u[c] + Frama_C_double_interval(-16.0 * std, 16.0 * std);
    return Frama_C_interval(0, 1) ? PV_OK : PV_NEED_BITS;
}
#endif

/* A block of dense rows, of the rows themselves or of their products; where sums are integers, rows are within the bound,
 * as Eva does not see that scaled ones are. */
static void block(pv_prefix_plan plan, pv_draws *draws) {
    double data[ROWS * DIM], out[ROWS * GRAM];
    int64_t i = 0, written = 0;
    pv_prefix state;
    Frama_C_make_unknown((char *)data, sizeof data);
    if (plan.design <= PV_SMOOTH)
        //@ loop unroll 4;
        for (int k = 0; k < ROWS * DIM; ++k) data[k] = Frama_C_double_interval(-0.5, 0.5);
    plan.gram = Frama_C_interval(0, 1);
    //@ split plan.gram;
    plan.dim = plan.gram ? GRAM : DIM;
    plan.bound = 1.0;
    pv_rows rows = {ROWS, DIM, (const char *)data, 8 * DIM, 8, 0, 0, 0, 0, 0, 0, 0};
    pv_rows_bind(&rows);
    pv_prefix_bind(&state, &plan, memory + ROOM - pv_prefix_size(&plan));
    pv_prefix_run(&state, &rows, &i, &written, draws, out + ROWS * (GRAM - plan.dim));
}

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
    plan.discount = design > PV_SMOOTH ? Frama_C_double_interval(0.5, 1.0) : 1.0;
    plan.window = design > PV_SMOOTH ? 3 : 0;
    plan.next = &plan; /* the last row begins an epoch */
    const size_t size = pv_prefix_size(&plan);
    pv_prefix state;
    pv_draws draws = {0};
    plan.noisy = NOISY;
    plan.std = 1.0;
    plan.magnitude = 8.0;
    pv_prefix_bind(&state, &plan, memory + ROOM - size);
    //@ loop unroll 6;
    for (int i = 0; i <= STEPS; ++i) {
        double row[DIM];
        row[0] = Frama_C_double_interval(-1.0, 1.0);
        row[1] = Frama_C_double_interval(-1.0, 1.0);
        if (pv_prefix_add(&state, i == 2 ? 0 : row) != PV_OK) break;
        if (pv_prefix_settle(&state, NOISY ? &draws : 0) != PV_OK) break;
    }
    double *own = kept + ROOM - pv_prefix_kept_size(&plan);
    pv_prefix_keep(&plan, memory + ROOM - size, own);
    pv_prefix_restore(&plan, own, memory + ROOM - size);
    if (!NOISY) block(plan, &draws);
    return (int)state.made;
}
