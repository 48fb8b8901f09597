/* The rows of run.h through gradient descent, perturbed iterates and a bandit, which is also told values and receives a
 * report; and what others read of a run meanwhile. */
#include "runs/pv_bandit.h"
#include "runs/pv_gradient.h"
#include "runs/pv_iterate.h"

#include "run.h"

enum { GRADIENT, ITERATE, BANDIT, METHODS };

static double value[DIM];

int main(void) {
    const int method = Frama_C_interval(SHORT * BANDIT, METHODS - 1), other = Frama_C_interval(SHORT, 1);
    const pv_report report = {PV_REPORT_PLAIN, DIM, 1.0, 0.0, 0.0, 0.0, 0, 0, 1};
    //@ split method;
    //@ split other;
    Frama_C_make_unknown((char *)directions, sizeof directions);
    const pv_plan plan = plan_of(other);
    const pv_state state = state_of(DIM);
    double *a = first + WHOLE - DIM, *b = second + WHOLE - DIM, *c = third + WHOLE - DIM,
           *e = fourth + 2 * (WHOLE - DIM);
    if (method == GRADIENT) {
        pv_gradient_plan own = {plan, 1.0, 1.0, 1.0, other + 1, any(), any()};
        pv_gradient it = {state, a, b, 0};
        own.run.method = &pv_gradient_method;
        pv_gradient_tell(&it, &own, other ? c : 0);
        run(&it.run, &own.run, DIM);
    } else if (method == ITERATE) {
        pv_schedule schedule = {other, any(), any(), 1,     any(),
                                any(), any(), any(), any(), Frama_C_interval(PV_SHAPE_PAPER, PV_SHAPE_SMOOTH),
                                any()};
        pv_iterate_plan own = {plan, schedule, other ? pv_update_implicit : pv_update_gradient, other, 2};
        pv_iterate it = {state, a, any(), any(), {0}};
        own.run.method = &pv_iterate_method;
        run(&it.run, &own.run, DIM);
        pv_schedule_std(&own.schedule, Frama_C_long_interval(0, ROWS));
    } else {
        const int pair = other ? 0 : Frama_C_interval(0, 1), fixed = Frama_C_interval(0, 1);
        const double values[2] = {any(), any()};
        pv_bandit_plan own = {plan, report, 1.0, pair, other, -1.0, 1.0, any(), any(), any(), any(), fixed};
        pv_bandit it = {state, value + DIM - (other ? DIM : 1), a, b, e, c, 0, directions, POINTS, 0};
        own.run.method = &pv_bandit_method;
        own.report.d = other ? DIM : 1;
        pv_bandit_begin(&it, &own);
        run(&it.run, &own.run, DIM);
        it.used = POINTS - 1; /* one more round */
        pv_bandit_tell(&it, &own, Frama_C_interval(0, 1) ? values : 0);
        pv_bandit_receive(&it, &own, directions + (POINTS - 1) * DIM + DIM - own.report.d, pv_vectors_at(0));
    }
    pv_average_total(&plan, any());
    pv_peek(&state.t);
    pv_peek_real(&state.spent);
    return 0;
}
