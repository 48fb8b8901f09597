/* Objectives: derivatives against differences, the same bits for any layout and level, and Cholesky's factor.
 * Buffers have exactly the size that the kernels request. */
#include "check.h"
#include "noise/pv_first_pass.h"
#include "offline/pv_newton.h"
#include "offline/pv_objective.h"

static const int CODES[] = {PV_LOGISTIC, PV_SMOOTH_HINGE, PV_SQUARED, PV_HUBER};

typedef struct data {
    int64_t n, d;
    double *dense, *y, *norms, *factors, *b;
    double *values;
    int32_t *indices, *indptr;
    int64_t *index, kept;
} data;

static data make(int64_t n, int64_t d, double density) {
    data x = {.n = n, .d = d};
    x.dense = doubles(n * d), x.y = doubles(n), x.norms = doubles(n), x.factors = doubles(n);
    x.b = random_doubles(d + 1, 1.0);
    x.values = doubles(n * d);
    x.indices = buffer(n * d, sizeof(int32_t)), x.indptr = buffer(n + 1, sizeof(int32_t));
    x.index = buffer(n, sizeof(int64_t));
    int32_t nnz = 0;
    for (int64_t i = 0; i < n; ++i) {
        x.indptr[i] = nnz;
        for (int64_t j = 0; j < d; ++j) {
            const double v = fabs(random_unit()) < density ? random_unit() : 0.0;
            x.dense[i * d + j] = v;
            if (v != 0.0) x.values[nnz] = v, x.indices[nnz++] = (int32_t)j;
        }
        x.y[i] = random_unit() > 0.0 ? 1.0 : -1.0;
        if (i % 7 != 3) x.index[x.kept++] = i;
    }
    x.indptr[n] = nnz;
    return x;
}

static void drop(data *x) {
    free(x->dense), free(x->y), free(x->norms), free(x->factors), free(x->b), free(x->values), free(x->indices);
    free(x->indptr), free(x->index);
}

static pv_objective bind(data *x, int code, int sparse, int level, int intercept, int all) {
    pv_objective o = {.level = level,
                      .n = all ? x->n : x->kept,
                      .index = all ? NULL : x->index,
                      .y = x->y,
                      .factors = x->factors,
                      .dim = x->d + intercept,
                      .intercept = intercept,
                      .l2 = 0.5,
                      .linear = x->b};
    o.rows.n = x->n, o.rows.d = x->d;
    if (sparse) {
        o.rows.is_csr = 1;
        o.rows.data = (const char *)x->values, o.rows.indices = x->indices, o.rows.indptr = x->indptr;
        o.rows.nnz = x->indptr[x->n];
    } else {
        o.rows.data = (const char *)x->dense, o.rows.row_stride = 8 * x->d, o.rows.col_stride = 8;
    }
    pv_rows_bind(&o.rows);
    pv_rows_use(&o.rows, level);
    pv_loss_bind(&o.loss, code, code == PV_SMOOTH_HINGE || code == PV_HUBER ? 0.5 : 0.0);
    o.many = pv_loss_rows_at(code, level);
    o.vectors = pv_vectors_at(level);
    CHECK(o.many != NULL);
    (void)pv_objective_factors(&o.rows, 1.0, x->norms, x->factors);
    return o;
}

/* Everything that the kernels compute at a point, one number after another. */
static int64_t describe(const pv_objective *o, const double *w, double *out) {
    const int64_t dim = o->dim, width = pv_hessian_width(dim);
    double *work = doubles(3 * dim), *p = doubles(o->n), *q = doubles(o->n), *curves = doubles(o->n), *gradient = out;
    double *product = gradient + dim, *diagonal = product + dim, *rest = diagonal + dim;
    double *large = doubles(pv_hessian_work(dim)), *hessian = doubles(width * width), *one = doubles(dim);
    const pv_risk risk = pv_objective_gradient(o, w, work, gradient, p, curves);
    pv_objective_product(o, curves, w, product);
    pv_objective_diagonal(o, curves, one, diagonal);
    for (int64_t i = 0; i < o->n; ++i) q[i] = 2.0 * p[i];
    *rest++ = risk.value;
    pv_objective_along(o, p, q, 0.25, rest, rest + 1);
    rest[2] = pv_objective_bound(o, w, work, one, rest + 3);
    for (int64_t j = 0; j < dim; ++j) CHECK(bits_of(one[j]) == bits_of(gradient[j]));
    CHECK(rest[3] > 0.0 && rest[3] < 1e-9 && rest[2] >= sqrt(o->vectors->sqnorm(gradient, dim)));
    rest += 4;
    pv_objective_hessian(o, curves, 3, large, hessian);
    for (int64_t j = 0; j < dim; ++j)
        for (int64_t k = 0; k <= j; ++k) *rest++ = hessian[j * width + k];
    pv_objective_hessian(o, curves, 1, large, hessian);
    for (int64_t j = 0; j < dim; ++j) {
        double sum = 0.0;
        for (int64_t k = 0; k < dim; ++k) sum += (k <= j ? hessian[j * width + k] : hessian[k * width + j]) * w[k];
        CHECK(fabs(sum - product[j]) <= 1e-11 * (1.0 + fabs(sum) + (double)o->n));
        CHECK(fabs(hessian[j * width + j] - diagonal[j]) <= 1e-12 * diagonal[j]);
        for (int64_t k = 0; k <= j; ++k) *rest++ = hessian[j * width + k];
    }
    /* the factor of H and the solution of H x = gradient */
    CHECK(pv_cholesky(hessian, dim, width, 0.25, o->vectors) == 1);
    memcpy(rest, gradient, (size_t)dim * sizeof(double));
    pv_cholesky_solve(hessian, dim, width, rest, o->vectors);
    pv_objective_product(o, curves, rest, one);
    for (int64_t j = 0; j < dim; ++j)
        CHECK(fabs(one[j] + 0.25 * rest[j] - gradient[j]) <= 1e-10 * (1.0 + fabs(gradient[j]) + (double)o->n));
    free(work), free(p), free(q), free(curves), free(large), free(hessian), free(one);
    return rest + dim - out;
}

static void same_bits(int64_t n, int64_t d, double density) {
    data x = make(n, d, density);
    double *w = random_doubles(d + 1, 1.0);
    const int64_t room = 3 * (d + 1) + 5 + (d + 1) * (d + 2) + d + 1;
    double *first = doubles(room), *next = doubles(room);
    for (int64_t c = 0; c < LENGTH(CODES); ++c)
        for (int intercept = d == 0; intercept < 2; ++intercept)
            for (int all = 0; all < 2; ++all) {
                int64_t size = 0;
                for (int level = 0; level < pv_first_pass_levels(); ++level)
                    for (int sparse = 0; sparse < 2; ++sparse) {
                        const pv_objective o = bind(&x, CODES[c], sparse, level, intercept, all);
                        const int64_t found = describe(&o, w, size ? next : first);
                        CHECK(found <= room && (size == 0 || (found == size)));
                        if (size) CHECK(memcmp(first, next, (size_t)size * sizeof(double)) == 0);
                        size = found;
                    }
                for (int64_t j = 0; j < size; ++j) digest(first[j]);
            }
    drop(&x), free(w), free(first), free(next);
}

/* The gradient is that of the values, the curvature that of the slopes. */
static void differences(void) {
    data x = make(200, 5, 2.0);
    double w[6], at[6], work[18], gradient[6], other[6], p[200], curves[200];
    for (int64_t c = 0; c < LENGTH(CODES); ++c) {
        const pv_objective o = bind(&x, CODES[c], 0, 0, 1, 1);
        for (int j = 0; j < 6; ++j) w[j] = random_unit();
        (void)pv_objective_gradient(&o, w, work, gradient, p, curves);
        for (int j = 0; j < 6; ++j) {
            memcpy(at, w, sizeof(at));
            at[j] = w[j] + 0x1p-20;
            const double up = pv_objective_gradient(&o, at, work, other, NULL, NULL).value;
            at[j] = w[j] - 0x1p-20;
            const double down = pv_objective_gradient(&o, at, work, other, NULL, NULL).value;
            CHECK(fabs((up - down) * 0x1p19 - gradient[j]) < 1e-4);
        }
    }
    drop(&x);
}

/* Losses one row at a time, as in the tables. */
static void losses(void) {
    for (int64_t c = 0; c < LENGTH(CODES); ++c)
        for (int n = 1; n <= PV_LOSS_ROWS; n += 21) {
            pv_loss loss;
            double p[PV_LOSS_ROWS], y[PV_LOSS_ROWS], slope[PV_LOSS_ROWS], curve[PV_LOSS_ROWS];
            pv_loss_bind(&loss, CODES[c], CODES[c] == PV_LOGISTIC || CODES[c] == PV_SQUARED ? 0.0 : 0.3);
            double value = 0.0, given[PV_LOSS_ROWS], target[PV_LOSS_ROWS];
            for (int i = 0; i < n; ++i) {
                given[i] = p[i] = (i % 5 ? 3.0 : 900.0) * random_unit();
                target[i] = y[i] = random_unit() > 0.0 ? 1.0 : -1.0;
                value += loss.value(&loss, p[i], y[i]);
            }
            const double found = pv_loss_rows_at(CODES[c], 0)(&loss, n, p, y, slope, curve);
            CHECK(fabs(found - value) <= 1e-12 * (1.0 + value));
            for (int i = 0; i < n; ++i) {
                const double s = loss.slope(&loss, given[i], target[i]);
                CHECK(fabs(slope[i] - s) <= 1e-15 * fabs(s) + 1e-300);
                CHECK(curve[i] >= 0.0 && curve[i] <= 2.0);
                if (loss.expand) {
                    double other, exact;
                    pv_seen seen = PV_NOTHING_SEEN;
                    loss.expand(&loss, given[i], target[i], &other, &exact, &seen);
                    CHECK(fabs(curve[i] - exact) <= 1e-15);
                }
            }
        }
    CHECK(pv_loss_rows_at(PV_HINGE, 0) == NULL && pv_loss_rows_at(PV_ABSOLUTE, 0) == NULL);
    CHECK(pv_loss_rows_at(PV_LOSS_COUNT, 0) == NULL && pv_loss_rows_at(-1, 0) == NULL);
}

int main(void) {
    losses();
    differences();
    same_bits(1, 1, 2.0);
    same_bits(3, 0, 2.0);
    same_bits(70, 8, 2.0);
    same_bits(530, 13, 0.7);
    same_bits(600, 40, 0.05);
    same_bits(4300, 3, 0.5);
    double singular[8 * 8] = {1.0, 0.0};
    singular[8] = 1.0, singular[9] = 1.0;
    CHECK(pv_cholesky(singular, 2, 8, 0.0, pv_vectors_at(0)) == 0);
    singular[0] = 1.0, singular[8] = 1.5, singular[9] = 2.25 + 0x1p-51; /* only the last digit remains */
    CHECK(pv_cholesky(singular, 2, 8, 0.0, pv_vectors_at(0)) == 0);
    return finish("objective");
}
