/* Columns of up to three cells: numbers between knots, categories by hashes, columns as rows, and
 * times in cycles, within a million of them. */
#include "cells/pv_buckets.h"
#include "cells/pv_columns.h"
#include "cells/pv_cycles.h"
#include "cells/pv_knots.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { MOST = 3 };

static void between(int64_t n) {
    double values[MOST], share[MOST], knots[MOST + 1 - SHORT], factors[MOST], lows[MOST], widths[MOST];
    unsigned char cells[MOST], states[MOST];
    int32_t left[MOST];
    Frama_C_make_unknown((char *)values, sizeof values);
    Frama_C_make_unknown((char *)knots, sizeof knots);
    Frama_C_make_unknown((char *)factors, sizeof factors);
    Frama_C_make_unknown((char *)lows, sizeof lows);
    Frama_C_make_unknown((char *)widths, sizeof widths);
    Frama_C_make_unknown((char *)cells, sizeof cells);
    const pv_knots code = {Frama_C_long_interval(1, MOST), knots, factors, lows, widths};
    const unsigned char right = Frama_C_unsigned_char_interval(0, 255);
    pv_between(&code, n, values, Frama_C_interval(0, 1) ? cells : 0, right, left, share, states);
}

static void places(int64_t n) {
    int32_t own[MOST], found[MOST];
    unsigned char cells[MOST];
    uint32_t hashes[MOST];
    Frama_C_make_unknown((char *)own, sizeof own);
    Frama_C_make_unknown((char *)cells, sizeof cells);
    Frama_C_make_unknown((char *)hashes, sizeof hashes);
    const uint32_t buckets = Frama_C_unsigned_int_interval(1, MOST), shared = Frama_C_unsigned_int_interval(0, 1 << 30);
    const int32_t others = Frama_C_int_interval(0, 1 << 30), missing = Frama_C_int_interval(INT32_MIN, INT32_MAX);
    const pv_buckets code = {buckets, Frama_C_interval(0, 1) ? own : 0, shared, others, missing};
    pv_places(&code, n, cells, hashes, found);
}

static void rows(int64_t n) {
    const int64_t width = Frama_C_long_interval(0, MOST), stride = Frama_C_long_interval(0, MOST + 1);
    //@ split n;
    //@ split width;
    //@ split stride;
    double cells[MOST * MOST], out[MOST * (MOST + 1)];
    const double *columns[MOST];
    Frama_C_make_unknown((char *)cells, sizeof cells);
    //@ loop unroll 3;
    for (int j = 0; j < MOST; ++j) columns[j] = cells + (j + 1) * MOST - n;
    if (stride >= width) pv_rows_of(n, width, columns + MOST - width, stride, out + MOST * (MOST + 1) - n * stride);
}

static const double FAR = 0x1p20; /* cycles: Eva does not see that a time less all whole cycles is within one */

static void cycles(int64_t n) {
    static const double periods[] = {60.0, 3600.0, 86400.0, 604800.0, 31556952.0};
    double seconds[MOST], turn[2 * PV_TURN], cosine[MOST], sine[MOST];
    const int which = Frama_C_interval(0, 4);
    //@ split which;
    const double far = FAR * periods[which];
    Frama_C_make_unknown((char *)turn, sizeof turn);
    //@ loop unroll 3;
    for (int i = 0; i < MOST; ++i) seconds[i] = Frama_C_double_interval(-far, far);
    pv_cycles(n, seconds + MOST - n, periods[which], Frama_C_double_interval(-far, far), turn, cosine + MOST - n,
              sine + MOST - n);
}

int main(void) {
    const int64_t n = Frama_C_long_interval(0, MOST);
    between(n);
    places(n);
    rows(n);
    cycles(n);
    return 0;
}
