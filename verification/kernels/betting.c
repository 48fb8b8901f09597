/* Coin betting in its parts: the work for any finite x, y from 0 on and a above 0; the integral for each number of nodes;
 * the last step, for the magnitude with logarithms from -1e6 on. And up to three experts with any numbers. A contract
 * stands for pv_exp, which kernels/elementary.c has. */
#include "betting/experts.c"
#undef NEAR
#include "betting/magnitude.c"

#include "__fc_builtin.h"
#include "libm.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number is not there */
#endif

enum { MOST = 3 };

static const double LARGEST = 0x1.fffffffffffffp1023;

/*@ assigns \result \from x; */
static inline double pv_exp(double x);

/* What the C library's may make of a finite number. */
double frexp(double x, int *e) {
    *e = Frama_C_interval(-1073, 1024);
    return x == 0.0 ? x : Frama_C_double_interval(-1.0, 1.0);
}

static double any(void) {
    double x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

static void coin(void) {
    coin_work work, other;
    const int what = Frama_C_interval(0, PV_COINS - 1), rule = Frama_C_interval(1, 3);
    const double x = Frama_C_double_interval(0.0, LARGEST), y = Frama_C_double_interval(0.0, LARGEST);
    const double a = Frama_C_double_interval(0x1p-1074, LARGEST);
    //@ split what;
    //@ split rule;
    prepare(&work, what, x, y, a);
    Frama_C_make_unknown((char *)&other, sizeof other);
    other.rule = 8 * rule;
    other.shift = Frama_C_interval(-10000, 10000);
    integral_baseline(&other, what == PV_COIN_LOG_POTENTIAL);
    if (what == PV_COIN_MAGNITUDE) other.hi = Frama_C_double_interval(-1e6, LARGEST);
    finish(&other, what, x);
}

/* The entries: logarithms at any numbers, magnitudes where the work is the usual one and its logarithm not below -1e6. */
static void whole(void) {
    const double x[MOST] = {any(), any(), any()}, a = Frama_C_double_interval(0x1p-1074, LARGEST);
    double out[MOST];
    const double z = Frama_C_double_interval(-LARGEST, LARGEST), y = Frama_C_double_interval(0.0, LARGEST);
    pv_log_magnitude(z, y, a);
    pv_log_potential(z, y, a);
    const double usual = Frama_C_double_interval(0x1p-60, 1e6), far = Frama_C_double_interval(0x1p-50, 1e6);
    const double width = Frama_C_double_interval(0x1p-20, 1.0);
    pv_magnitude(usual, far, width);
    pv_magnitude(-usual, 0.0, width);
    pv_magnitude(0.0, far, width);
    pv_coin_level(0)(PV_COIN_LOG_POTENTIAL, x, 1, &y, 0, &a, 0, out + SHORT, MOST);
}

static void experts(void) {
    pv_experts_plan plan;
    pv_experts known;
    Frama_C_make_unknown((char *)&plan, sizeof plan);
    Frama_C_make_unknown((char *)&known, sizeof known - SHORT * sizeof(double));
    const int64_t n = Frama_C_long_interval(1, MOST);
    //@ split n;
    plan.n = n;
    pv_experts_learn(&known, &plan, any(), any());
    pv_experts_magnitude(&known, &plan);
}

int main(void) {
    coin();
    whole();
    experts();
    return 0;
}
