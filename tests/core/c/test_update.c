/* Update rules: the point that they describe satisfies the optimality conditions of its minimisation problem. */
#include "check.h"
#include "runs/pv_iterate.h"
#include "base/pv_math.h"

/* 10^x; the C library's pow differs in the last digits between processors. */
static double power(double x) { return pv_exp(2.302585092994046 * x); }

typedef struct step {
    double a, a1, nn, b, q, y; /* ||x||^2, <v, x>, ||v||^2 */
} step;

/* x in the ball of radius r, v of any length; every fourth x is on the sphere, like most iterates of a run. */
static step random_step(double r, int n, int classification) {
    double u = n % 4 == 0 ? 1.0 : fabs(random_unit()), cosine = random_unit();
    step s;
    s.nn = u * u * r * r;
    s.q = power(3.0 * random_unit());
    s.b = cosine * sqrt(s.nn * s.q);
    s.a1 = power(6.0 * random_unit());
    s.a = n % 5 == 0 ? s.a1 : s.a1 * fabs(random_unit());
    s.y = classification ? (random_word() & 1 ? 1.0 : -1.0) : 3.0 * random_unit();
    return s;
}

static long double norm_moved(const step *s, double g) {
    long double m = (long double)s->a * s->a * s->nn - 2.0L * s->a * g * s->b + (long double)g * g * s->q;
    return sqrtl(fmaxl(m, 0));
}

/* g is a slope of the loss at m, up to a relative error `tolerance` of m. */
static void slope_at(const pv_loss *loss, long double m, long double tolerance, double y, double g) {
    double low = (double)(m - tolerance), high = (double)(m + tolerance);
    CHECK(loss->slope(loss, low, y) - 1e-13 * (1.0 + fabs(g)) <= g);
    CHECK(g <= loss->slope(loss, high, y) + 1e-13 * (1.0 + fabs(g)));
}

static void one(const pv_iterate_plan *plan, const step *s) {
    const double r = plan->run.set.size;
    double g = (double)NAN, k = (double)NAN;
    plan->update(plan, s->a, s->a1, s->nn, s->b, s->q, s->y, &g, &k);
    const long double moved = norm_moved(s, g), m = ((long double)s->a * s->b - (long double)s->q * g) / k;
    const long double size = (fabsl((long double)s->a * s->b) + s->q * fabsl((long double)g)) / k;
    /* cancellation in ||a x - g v||^2 can change the norm by the root of the rounding */
    const long double spread = 1e-15L * ((long double)s->a * s->a * s->nn + (long double)g * g * s->q);
    CHECK(k >= s->a1);
    digest(g);
    digest(k);
    if (plan->run.set.code == PV_L2_BALL) {
        CHECK(moved * moved <= (long double)r * r * k * k * (1 + 1e-12L) + spread);
        if (k > s->a1) CHECK(moved * moved >= (long double)r * r * k * k * (1 - 1e-12L) - spread);
    } else {
        CHECK(k == s->a1);
    }
    if (plan->update == pv_update_gradient) {
        CHECK(g == plan->run.loss.slope(&plan->run.loss, s->b, s->y));
    } else if (plan->constrained) {
        slope_at(&plan->run.loss, m, 1e-10L * (size + fabsl(m) + sqrtl((long double)s->q) * r), s->y, g);
    } else { /* the free minimiser: its slope belongs to the point before projection */
        const long double free_m = m * k / s->a1;
        slope_at(&plan->run.loss, free_m, 1e-12L * size * k / s->a1, s->y, g);
    }
}

int main(void) {
    for (int code = 0; code < PV_LOSS_COUNT; ++code)
        for (int kind = 0; kind < 4; ++kind) {
            pv_iterate_plan plan = {.constrained = kind == 0,
                                    .update = kind == 3 ? pv_update_gradient : pv_update_implicit};
            plan.run.set = (pv_set){.code = kind == 2 ? PV_L1_BALL : PV_L2_BALL};
            pv_loss_bind(&plan.run.loss, code, 0.5);
            for (int n = 0; n < 20000; ++n) {
                plan.run.set.size = n % 3 ? 1.0 : power(2.0 * random_unit());
                step s = random_step(plan.run.set.size, n, code <= PV_SMOOTH_HINGE);
                one(&plan, &s);
            }
            double g = 1.0, k = 0.0; /* a row of zeros moves nothing */
            plan.run.set.size = 1.0;
            plan.update(&plan, 1.0, 2.0, 0.25, 0.0, 0.0, 1.0, &g, &k);
            CHECK(g == 0.0 && k == 2.0);
        }
    return finish("update");
}
