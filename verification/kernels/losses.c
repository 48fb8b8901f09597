/* Every built-in loss, one by one and in blocks of up to 64 rows, at any predictions, targets and numbers of an implicit
 * step, NaN and infinities included; the bracketed search; and up to three scores of a row. A contract stands for pv_exp,
 * which kernels/elementary.c has. */
#include "losses/loss.c"
#include "losses/loss_rows.c"
#include "losses/outputs.c"

#include "__fc_builtin.h"
#include "libm.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { MOST = 3 };

/*@ assigns \result \from x; */
static inline double pv_exp(double x);

static double any(void) {
    double x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

static void single(const pv_loss *loss) {
    double slope, curve;
    pv_seen seen = PV_NOTHING_SEEN;
    const double p = any(), y = any(), k = any(), b = any(), c = any();
    loss->value(loss, p, y);
    loss->slope(loss, p, y);
    loss->implicit(loss, k, b, c, y);
    pv_implicit_bracketed(loss, k, b, c, y);
    if (loss->expand) {
        loss->expand(loss, p, y, &slope, &curve, &seen);
        loss->expand(loss, b, y, &slope, &curve, &seen);
    }
    if (loss->off) loss->off(loss, p, y, k, b, c);
    pv_custom_off(loss, p, y, k, b, c);
}

static void block(const pv_loss *loss, int code) {
    double p[PV_LOSS_ROWS - SHORT], y[PV_LOSS_ROWS], slope[PV_LOSS_ROWS], curve[PV_LOSS_ROWS];
    const pv_loss_rows many = pv_loss_rows_at(code, 0);
    Frama_C_make_unknown((char *)p, sizeof p);
    Frama_C_make_unknown((char *)y, sizeof y);
    if (many) many(loss, Frama_C_long_interval(0, PV_LOSS_ROWS), p, y, slope, curve);
}

static void scores(const pv_loss *loss) {
    double found[MOST], weights[MOST];
    const int64_t n = Frama_C_long_interval(2, MOST);
    const int softmax = Frama_C_interval(0, 1), weighted = Frama_C_interval(0, 1);
    //@ split n;
    Frama_C_make_unknown((char *)found, sizeof found);
    Frama_C_make_unknown((char *)weights, sizeof weights);
    const pv_outputs outputs = {n, softmax, weighted ? weights : 0};
    const double y = Frama_C_double_interval(0.0, (double)(n - 1)); /* an index */
    pv_outputs_weight(&outputs, y);
    pv_outputs_value(&outputs, loss, found + MOST - n, y);
    pv_outputs_slopes(&outputs, loss, found + MOST - n, y);
}

int main(void) {
    pv_loss loss;
    const int code = Frama_C_interval(SHORT * PV_HUBER, PV_LOSS_COUNT - 1);
    //@ split code;
    pv_loss_bind(&loss, code, any());
    loss.lipschitz = any();
    loss.curvature = any();
    single(&loss);
    block(&loss, code);
    scores(&loss);
    return 0;
}
