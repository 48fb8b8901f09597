/* Projections of any vector of up to three coordinates, NaN and infinities included, onto every set of any size. */
#include "rows/pv_geometry.h"

#include "rows/pv_rows.h"

#include "__fc_builtin.h"
#include "libm.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { MOST = 3 };

int main(void) {
    const int64_t d = Frama_C_long_interval(1, MOST);
    const int code = Frama_C_interval(0, PV_SET_COUNT);
    //@ split d;
    //@ split code;
    double x[MOST], work[2 * MOST - SHORT], low[MOST], high[MOST], size;
    Frama_C_make_unknown((char *)x, sizeof x);
    Frama_C_make_unknown((char *)work, sizeof work);
    Frama_C_make_unknown((char *)low, sizeof low);
    Frama_C_make_unknown((char *)high, sizeof high);
    Frama_C_make_unknown((char *)&size, sizeof size);
    const pv_set set = {code, size, low + MOST - d, high + MOST - d};
    pv_project(&set, x + MOST - d, d, work + 2 * (MOST - d)); /* all vectors end where their arrays do */
    return 0;
}
