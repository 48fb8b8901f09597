/* Reports of every kind, of up to three coordinates within a bound of 1, from two address rows of any words and numbers;
 * the address rows of the next ones; and what clips any vector to any bound. A contract stands for pv_wipe. */
#include "reports/pv_report.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { MOST = 3, ROWS = 2, WORDS = 8 };

/*@ requires n == 0 || \valid((unsigned char *)p + (0 .. n - 1));
  @ assigns ((unsigned char *)p)[0 .. n - 1] \from \nothing; */
void pv_wipe(void *p, size_t n);

static double any(void) {
    double x;
    Frama_C_make_unknown((char *)&x, sizeof x);
    return x;
}

int main(void) {
    double v[MOST], out[MOST - SHORT], x[WORDS], value[WORDS];
    int64_t coord[WORDS];
    uint64_t word[WORDS], numbers[ROWS], next[ROWS];
    unsigned char words[8 * WORDS * ROWS];
    const int kind = Frama_C_interval(SHORT * PV_REPORT_SIGN, PV_REPORT_SIGN);
    int64_t d = Frama_C_long_interval(1, MOST);
    //@ split kind;
    //@ split d;
    if ((kind == PV_REPORT_SIGN && d > 1) || (kind == PV_REPORT_CAP && d < 2)) return 0;
    //@ loop unroll 3;
    for (int j = 0; j < MOST; ++j) v[j] = Frama_C_double_interval(-1.0, 1.0);
    Frama_C_make_unknown((char *)coord, sizeof coord);
    Frama_C_make_unknown((char *)value, sizeof value);
    Frama_C_make_unknown((char *)numbers, sizeof numbers);
    Frama_C_make_unknown((char *)words, sizeof words);
    pv_report plan = {kind, d, 1.0, 1.0, 0x1p-10, any(), 0, pv_report_words(kind, d), 1};
    plan.scale = Frama_C_double_interval(1e-280, 1e280);
    plan.threshold = Frama_C_unsigned_long_interval(0, UINT64_C(1) << 63);
    if (kind == PV_REPORT_CAP) plan.trials = Frama_C_long_interval(1, ROWS);
    pv_undecided und = {0, 0, WORDS, coord, word, x, Frama_C_long_interval(0, d), value};
    pv_draws draws = {words, 0, numbers, ROWS, ROWS, 0, &und, 0.0, pv_first_pass_level(0)};
    const uint64_t row = Frama_C_unsigned_long_interval(1, PV_REPORT_ROW_MASK);
    pv_report_upcoming(&plan, Frama_C_unsigned_long_interval(1, UINT64_MAX), row, ROWS, next);
    pv_report_draw(&plan, &draws, row, v + MOST - d, out + MOST - SHORT - d);
    pv_report_next(&draws, row);
    Frama_C_make_unknown((char *)v, sizeof v);
    pv_report_clip(any(), d, v + MOST - d, out + MOST - d);
    return 0;
}
