/* The rows of run.h through the regularised leader, on sums by a BLT or of single steps, without noise: followed, or tuned
 * to itself; and the gradients of all rows at one point. */
#include "runs/pv_leader.h"

#include "run.h"

enum { ROOM = 160 };

static double sums[ROOM], shown[WHOLE], quick[WHOLE], slow[WHOLE];

int main(void) {
    static const double factors[ROWS + 1] = {0.5, 0.25, 0.125, 0.125};
    static const int64_t until[2] = {1, ROWS};
    double held[2], threshold[2], lag[2], walk[2], slope, sum[DIM];
    const int design = Frama_C_interval(0, 1 - SHORT), other = Frama_C_interval(SHORT, 1);
    pv_prefix_plan prefix = {0};
    //@ split design;
    //@ split other;
    Frama_C_make_unknown((char *)held, sizeof held);
    Frama_C_make_unknown((char *)threshold, sizeof threshold);
    Frama_C_make_unknown((char *)lag, sizeof lag);
    Frama_C_make_unknown((char *)walk, sizeof walk);
    pv_leader_plan plan = {plan_of(other), {0}, 1.0, any(), 0.0, {0}, {0}, any(), any()};
    plan.run.method = &pv_leader_method;
    plan.run.outputs.n = 1;
    if (other) plan.tuning = (pv_tuning){2, until, held, threshold, lag, walk, any(), any(), any(), any()};
    prefix.design = design ? PV_BLT : PV_INDEPENDENT;
    prefix.dim = DIM;
    prefix.width = DIM;
    prefix.leaf = 1;
    prefix.steps = prefix.horizon = ROWS;
    prefix.order = design ? 4 : 0;
    prefix.theta = prefix.omega = prefix.coefficients = prefix.decoder = factors;
    prefix.discount = 1.0;
    pv_leader it = {state_of(pv_prefix_stride(&prefix))};
    pv_prefix_bind(&it.sums, &prefix, sums + ROOM - pv_prefix_size(&prefix));
    it.gradient = first + WHOLE - DIM;
    it.point = second + WHOLE - pv_prefix_stride(&prefix);
    it.start = third + WHOLE - pv_prefix_stride(&prefix);
    it.quick = quick + WHOLE - DIM;
    it.slow = slow + WHOLE - DIM;
    it.shown = shown + WHOLE - DIM;
    run(&it.run, &plan.run);
    pv_rows rows = {ROWS, COLUMNS, (const char *)data, 8 * COLUMNS, 8, 0, 0, 0, 0, 0, 0, 0};
    pv_rows_bind(&rows);
    pv_leader_sum(&plan, it.point, &rows, y, &it.run, &slope, sum);
    return 0;
}
