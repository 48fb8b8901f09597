/* The rows of run.h through the regularised leader, on sums by a BLT or of single steps, or by the square root or a band,
 * the last row in a new epoch: followed, or tuned to itself; the gradients of all rows at one point; and a gradient that it
 * is told, in a leaf that ends as it is. With noise, a contract stands for the rounding, which kernels/lattice.c has. */
#include "runs/pv_leader.h"

#include "run.h"

#ifndef OTHERS
#define OTHERS 0 /* whether sums are by the square root or a band */
#endif

enum { ROOM = 160 };

static double sums[ROOM], shown[WHOLE], quick[WHOLE], slow[WHOLE];

#if OUTPUTS > 1 /* of the number of a class */
double floor(double x) { return (double)(int64_t)x; }
#endif

#if NOISY
/*@ requires \valid_read(u + (0 .. DIM - 1)) && \initialized(u + (0 .. DIM - 1)) && \valid(out + (0 .. DIM - 1));
  @ assigns out[0 .. DIM - 1], \result \from u[0 .. DIM - 1];
  @ ensures 0 <= \result <= 9; */
pv_status pv_draws_round(pv_draws *draws, uint64_t row, double std, const double *u, double s, int64_t d,
                         double magnitude, double *out);
#endif

/* A gradient from elsewhere, or none, is the first row of a leaf of two, which ends as it is. */
static void told(pv_leader *it, const pv_leader_plan *plan, pv_prefix_plan *prefix) {
    double gradient[DIM];
    Frama_C_make_unknown((char *)gradient, sizeof gradient);
    prefix->leaf = 2;
    it->run.t = 0;
    pv_prefix_bind(&it->sums, prefix, sums + ROOM - pv_prefix_size(prefix));
    pv_leader_tell(it, plan, Frama_C_interval(0, 1) ? gradient : 0);
    pv_leader_end_leaf(it);
}

int main(void) {
    static const double factors[ROWS + 1] = {0.5, 0.25, 0.125, 0.125};
    static const int64_t until[2] = {1, ROWS};
    double held[2], threshold[2], lag[2], walk[2], slopes[OUTPUTS], sum[DIM], weights[2];
    const int later = Frama_C_interval(0, 1 - SHORT), other = Frama_C_interval(SHORT, 1);
    const int design = OTHERS ? (later ? PV_BANDED : PV_SQRT) : (later ? PV_BLT : PV_INDEPENDENT);
    pv_prefix_plan prefix = {0};
    //@ split later;
    //@ split other;
    Frama_C_make_unknown((char *)held, sizeof held);
    Frama_C_make_unknown((char *)threshold, sizeof threshold);
    Frama_C_make_unknown((char *)lag, sizeof lag);
    Frama_C_make_unknown((char *)walk, sizeof walk);
    Frama_C_make_unknown((char *)weights, sizeof weights);
    pv_leader_plan plan = {plan_of(other), {0}, 1.0, any(), 0.0, {0}, {0}, any(), any()};
    plan.run.method = &pv_leader_method;
    plan.run.outputs.weights = weights;
    if (other) plan.tuning = (pv_tuning){2, until, held, threshold, lag, walk, any(), any(), any(), any()};
    prefix.design = design;
    prefix.dim = DIM;
    prefix.width = DIM;
    prefix.leaf = 1;
    prefix.steps = prefix.horizon = 2; /* the last row is of another epoch */
    prefix.next = &prefix;
    plan.reach = any();
    plan.rows = plan.variance = (pv_by_epoch){0, weights, any()};
    prefix.order = design == PV_BLT ? 4 : design == PV_BANDED ? 2 : 0;
    prefix.theta = prefix.omega = prefix.coefficients = prefix.decoder = factors;
    prefix.discount = 1.0;
    prefix.noisy = NOISY;
    prefix.std = 1.0;
    prefix.magnitude = 1e6;
    pv_leader it = {state_of(pv_prefix_stride(&prefix))};
    pv_prefix_bind(&it.sums, &prefix, sums + ROOM - pv_prefix_size(&prefix));
    it.gradient = first + WHOLE - DIM;
    it.point = second + WHOLE - pv_prefix_stride(&prefix);
    it.start = third + WHOLE - pv_prefix_stride(&prefix);
    it.quick = quick + WHOLE - DIM;
    it.slow = slow + WHOLE - DIM;
    it.shown = shown + WHOLE - DIM;
    run(&it.run, &plan.run, DIM);
    pv_rows rows = rows_of();
    pv_leader_sum(&plan, it.point, &rows, y, &it.run, slopes, sum);
    told(&it, &plan, &prefix);
    return 0;
}
