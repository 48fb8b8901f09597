/* Elementary functions and schedules against long double and against their defining recurrences. */
#include <float.h>

#include "check.h"
#include "base/pv_math.h"
#include "runs/pv_schedule.h"

static double ulps(double got, long double exact) {
    double e = (double)exact;
    return (double)(fabsl(got - exact) / (nextafter(fabs(e), HUGE_VAL) - fabs(e)));
}

static void elementary(void) {
    for (int k = 0; k < 200000; ++k) {
        double x = 708.0 * random_unit() * (k % 3 ? 1.0 : 1e-3);
        CHECK(ulps(pv_exp(x), expl(x)) <= 1.0);
        CHECK(ulps(pv_sigmoid(x), 1.0L / (1.0L + expl(-(long double)x))) <= 4.0);
        const double digits = 1.0 + fabs(random_unit());
        /* in separate calls: its arguments come in any order */
        const int exponent = (int)(random_word() % 2040) - 1020;
        double y = ldexp(digits, exponent);
        const long double root = cbrtl(y); /* not powl, which has a double's precision where musl runs on ARM */
        CHECK(ulps(pv_two_thirds(y), root * root) <= 3.0);
        double small = PV_NEAR * random_unit();
        CHECK(ulps(pv_exp_near(small), expl(small)) <= 1.0);
        const double near = k % 2 ? y : 1.0 + 0.5 * random_unit();
        CHECK(fabsl(pv_log(near) - logl(near)) <= 0x1p-51L * (1.0L + fabsl(logl(near))));
        double z = 1e9 * random_unit();
        CHECK(pv_round(z) == nearbyint(z));
        digest(pv_exp(x));
        const double share = pv_exp(-fabs(x)); /* from 1 down to 1e-307 */
        CHECK(ulps(pv_log_above_one(share), log1pl(share)) <= 4.0);
        digest(pv_log_above_one(share));
        digest(pv_sigmoid(x));
        digest(pv_two_thirds(y));
        digest(pv_exp_near(small));
        digest(pv_log(near));
    }
    CHECK(pv_exp(0.0) == 1.0 && pv_exp(-1e9) == 0.0 && pv_exp(1e9) > 1e307 && isnan(pv_exp(NAN)));
    CHECK(pv_log(1.0) == 0.0 && pv_log(DBL_MIN) < -708.0 && pv_log(DBL_MAX) > 709.0);
    CHECK(pv_log_above_one(0.0) == 0.0 && isnan(pv_log_above_one(NAN)));
    CHECK(pv_sigmoid(1e9) == 1.0 && pv_sigmoid(-1e9) == 0.0 && pv_sigmoid(0.0) == 0.5);
    CHECK(pv_round(0.5) == 0.0 && pv_round(1.5) == 2.0 && pv_round(-2.5) == -2.0);
    CHECK(pv_two_thirds(0.0) == 0.0 && fabs(pv_two_thirds(27.0) - 9.0) <= 4e-15);
}

/* A_t - A_{t-1} is the strong convexity of row t. */
static double convexity(const pv_schedule *s, int64_t t) {
    if (s->kind == PV_CONVEXITY_INVERSE_SQRT) return 2.0 * s->l2 * (sqrt((double)t) - sqrt((double)(t - 1)));
    return s->l2;
}

static void one_schedule(const pv_schedule *s) {
    long double weight = s->a0, sum = 0;
    double before = HUGE_VAL;
    for (int64_t t = 1; t <= 3000; ++t) {
        weight += convexity(s, t);
        sum += weight;
        double a = pv_schedule_weight(s, t), sensitivity = pv_schedule_sensitivity(s, t), std = pv_schedule_std(s, t);
        CHECK(fabsl(a - weight) <= 1e-12L * weight);
        CHECK(pv_schedule_weight_before(s, t) == pv_schedule_weight(s, t - 1));
        double extra = s->round0 + s->round1 * (double)t + s->round2 * (double)sum;
        double exact = fmin((s->diameter + extra) / a, s->cap);
        CHECK(sensitivity >= exact * (1 - 1e-12));
        CHECK(sensitivity <=
              exact * (1 + 1e-12) + s->round2 * (double)t); /* the sum of A_i may be bounded from above */
        CHECK(sensitivity <= s->cap);
        CHECK(s->round2 > 0 || sensitivity <= before);
        before = sensitivity;
        double power = s->shape == PV_SHAPE_SMOOTH ? 0.5 : 2.0 / 3.0;
        double shape = s->shape == PV_SHAPE_PAPER ? 1.0 / (double)t : pow(sensitivity, power);
        CHECK(fabs(std - s->gain * shape) <= 1e-14 * std);
        digest(a);
        digest(sensitivity);
        digest(std);
    }
    for (int64_t n = 0; n <= 5; ++n) {
        double *sensitivity = doubles(n), *std = doubles(n);
        pv_schedule_fill(s, 17, 13, n, sensitivity, std);
        for (int64_t i = 0; i < n; ++i) {
            CHECK(sensitivity[i] == pv_schedule_sensitivity(s, 17 + 13 * i));
            CHECK(std[i] == pv_schedule_std(s, 17 + 13 * i));
        }
        free(sensitivity);
        free(std);
    }
}

static void schedules(void) {
    for (int kind = PV_CONVEXITY_CONSTANT; kind <= PV_CONVEXITY_INVERSE_SQRT; ++kind)
        for (int shape = PV_SHAPE_PAPER; shape <= PV_SHAPE_SMOOTH; ++shape)
            for (int rounded = 0; rounded < 2; ++rounded) {
                pv_schedule s = {.kind = kind,
                                 .a0 = 2.5,
                                 .l2 = 0.01,
                                 .first = 1,
                                 .diameter = 2.0,
                                 .cap = 0.7,
                                 .shape = shape,
                                 .gain = 3.0};
                if (rounded) s.round0 = 1e-13, s.round1 = 1e-14, s.round2 = 1e-15;
                one_schedule(&s);
                s.gain = 0.0;
                CHECK(pv_schedule_std(&s, 5) == 0.0);
            }
    /* the published gradient step 2 / (alpha t): x_{t+1} = x_t - g / A_t, whose weights A_{t-1} = A_t - alpha */
    pv_schedule s = {.kind = PV_PUBLISHED_GRADIENT, .l2 = 0.5, .first = 3, .diameter = 2.0, .cap = 9.0, .gain = 1.0};
    CHECK(pv_schedule_weight(&s, 8) == 2.0 && pv_schedule_weight_before(&s, 8) == 1.5);
    CHECK(pv_schedule_sensitivity(&s, 2) == 0.0 && pv_schedule_sensitivity(&s, 8) == 1.0);
}

int main(void) {
    elementary();
    schedules();
    return finish("math");
}
