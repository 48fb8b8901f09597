/* The rows of run.h through least squares on private moments, in leaves of two rows summed up in doubles, and as printed, in
 * single steps, the last row in a new epoch; and the sum of a leaf at once. Contracts stand for the models, which
 * kernels/moments.c has, and with noise for the rounding, which kernels/lattice.c has. */
#include "runs/pv_least_squares.h"

#define DRAWN 16
#include "run.h"

enum { ROOM = 256, SIZE = DIM * DIM + DIM };

static double sums[ROOM], moments[SIZE], released_moments[SIZE], waiting[PV_MOMENT_ROWS * DIM], targets[PV_MOMENT_ROWS];
static double scratch[PV_MOMENT_ROWS * (DIM + 1)], leaf[SIZE];

/*@ requires \valid_read(moments + (0 .. 8)) && \valid(x + (0 .. 2));
  @ assigns x[0 .. 2], \result \from moments[0 .. 8];
  @ ensures \initialized(x + (0 .. 2)) && 0 <= \result <= 9; */
pv_status pv_ridge_solve(pv_ridge *ridge, const double *moments, double most, double shift, double radius, double *x);

/*@ requires \valid_read(moments + (0 .. 11)) && \valid(x + (0 .. 2));
  @ assigns x[0 .. 2], \result \from moments[0 .. 11];
  @ ensures \initialized(x + (0 .. 2)) && 0 <= \result <= 9; */
pv_status pv_ridge_solve_as_printed(pv_ridge *ridge, const double *moments, double shift, double *x);

#if NOISY
/*@ requires \valid_read(u + (0 .. 11)) || (d < 12 && \valid_read(u + (0 .. 8)));
  @ requires \valid(out + (0 .. 11)) || (d < 12 && \valid(out + (0 .. 8)));
  @ assigns out[0 .. d - 1], \result \from u[0 .. d - 1];
  @ ensures 0 <= \result <= 9; */
pv_status pv_draws_round(pv_draws *draws, uint64_t row, double std, const double *u, double s, int64_t d,
                         double magnitude, double *out);
#endif

int main(void) {
    static const double factors[ROWS + 1] = {0.5, 0.25, 0.125, 0.125};
    double shifts[ROWS];
    const int printed = Frama_C_interval(SHORT, 1), other = Frama_C_interval(SHORT, 1);
    const int64_t size = printed ? DIM * DIM + DIM : DIM * (DIM + 1) / 2 + DIM;
    pv_prefix_plan prefix = {0};
    //@ split printed;
    //@ split other;
    Frama_C_make_unknown((char *)shifts, sizeof shifts);
    pv_least_squares_plan plan = {plan_of(other), 1.0, 1.0, any(), shifts, ROWS, {0}, any(), any(), printed};
    plan.run.method = &pv_least_squares_method;
    prefix.design = PV_BLT;
    prefix.dim = size;
    prefix.width = DIM;
    prefix.leaf = printed ? 1 : 2;
    prefix.horizon = 2;
    prefix.steps = printed ? 2 : 1; /* the last row is of another epoch */
    prefix.next = &prefix;
    plan.ended = (pv_by_epoch){0, shifts, any()};
    prefix.order = 1;
    prefix.theta = prefix.omega = prefix.coefficients = prefix.decoder = factors;
    prefix.discount = 1.0;
    prefix.noisy = NOISY;
    prefix.std = 1.0;
    prefix.magnitude = 1e6;
    pv_least_squares it = {state_of(DIM)};
    pv_prefix_bind(&it.sums, &prefix, sums + ROOM - pv_prefix_size(&prefix));
    it.ridge.d = DIM;
    it.add = pv_moments_at(0);
    it.rows = waiting;
    it.targets = targets;
    it.moments = moments + SIZE - size;
    it.released = released_moments + SIZE - size;
    run(&it.run, &plan.run, size);
    pv_least_squares_end(&it, &plan);
    pv_rows rows = rows_of();
    pv_least_squares_leaf(&plan, it.add, &rows, y, 1, 2, &it.run, scratch, leaf);
    return 0;
}
