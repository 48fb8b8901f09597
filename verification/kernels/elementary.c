/* Elementary functions at any numbers; where the exponential is taken, at any finite ones: Eva does not see that its first
 * line returns NaN. */
#include "base/pv_math.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: NaN there too */
#endif

static double any(void) {
    double x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

int main(void) {
    const double x = Frama_C_double_interval(-0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023);
    pv_sigmoid(x);
    pv_exp(SHORT ? any() : x);
    pv_exp_near(any());
    pv_log(any());
    pv_log_above_one(any());
    pv_two_thirds(any());
    return 0;
}
