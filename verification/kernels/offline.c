/* The objective of three rows with two columns and Huber's loss, dense and sparse, all of them or, with factors and an
 * intercept, two: sums, bounds, products and Hessian; and Cholesky factors of up to three columns. */
#include "offline/pv_newton.h"
#include "offline/pv_objective.h"

#include "__fc_builtin.h"
#include "libm.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { ROWS = 3, COLUMNS = 2, MOST = COLUMNS + 1, TILE = 8, WORK = TILE * TILE + 2 * 64 * TILE + 2 * TILE };

static double any(void) {
    double x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

static double work[WORK - SHORT], hessian[TILE * TILE];

static void objective(void) {
    double data[ROWS * COLUMNS], y[ROWS], factors[ROWS], norms[ROWS], linear[MOST], w[MOST], gradient[MOST];
    double predictions[ROWS], curvatures[ROWS], allowance;
    const int64_t some[2] = {0, 2};
    const int32_t pointers[ROWS + 1] = {0, 2, 2, 3}, columns[ROWS] = {0, 1, 1};
    pv_objective o = {0};
    pv_margins margins;
    const int sparse = Frama_C_interval(SHORT, 1), part = Frama_C_interval(SHORT, 1);
    //@ split sparse;
    //@ split part;
    Frama_C_make_unknown((char *)data, sizeof data);
    Frama_C_make_unknown((char *)y, sizeof y);
    Frama_C_make_unknown((char *)linear, sizeof linear);
    Frama_C_make_unknown((char *)w, sizeof w);
    Frama_C_make_unknown((char *)curvatures, sizeof curvatures);
    o.rows = (pv_rows){ROWS, COLUMNS, (const char *)data, 8 * COLUMNS, 8, pointers, columns, ROWS, sparse, 0, 0, 0};
    pv_rows_bind(&o.rows);
    pv_objective_factors(&o.rows, any(), norms, factors);
    pv_loss_bind(&o.loss, PV_HUBER, any());
    o.many = pv_loss_rows_at(PV_HUBER, 0);
    o.vectors = pv_vectors_at(0);
    o.n = part ? 2 : ROWS;
    o.index = part ? some : 0;
    o.y = y;
    o.factors = part ? factors : 0;
    o.dim = COLUMNS + part;
    o.intercept = part;
    o.l2 = any();
    o.linear = part ? linear : 0;
    double *own = work + WORK - SHORT - 3 * o.dim;
    pv_objective_gradient(&o, w, own, gradient, predictions, curvatures);
    pv_objective_sums(&o, w, own, predictions, curvatures);
    pv_objective_margins(&o, w, own, &margins);
    pv_sums_join(own, own, o.dim);
    pv_objective_bound(&o, w, own, gradient, &allowance);
    pv_objective_product(&o, curvatures, w, gradient);
    pv_objective_diagonal(&o, curvatures, own, gradient);
    pv_objective_hessian(&o, curvatures, Frama_C_long_interval(1, 2), work, hessian);
    pv_objective_along(&o, predictions, curvatures, any(), gradient, &allowance);
}

static void newton(void) {
    double a[MOST * MOST], x[MOST], y[MOST];
    const int64_t dim = Frama_C_long_interval(1, MOST);
    //@ split dim;
    Frama_C_make_unknown((char *)a, sizeof a);
    Frama_C_make_unknown((char *)x, sizeof x);
    Frama_C_make_unknown((char *)y, sizeof y);
    const pv_vectors *vectors = pv_vectors_at(0);
    if (pv_cholesky(a, dim, MOST, any(), vectors)) pv_cholesky_solve(a, dim, MOST, x, vectors);
    pv_add(any(), x, y, dim);
    pv_scale_add(x, any(), y, dim);
    pv_divide(x, y, a, dim);
}

int main(void) {
    objective();
    newton();
    return 0;
}
