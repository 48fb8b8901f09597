/* Two dense rows of up to six features from one part of each kind, with any cells and places: its check; and what is
 * written where there is no fault. Histograms of up to three cells, and texts that are not empty, put together. */
#include "cells/pv_dense.h"
#include "cells/pv_lines.h"
#include "cells/pv_written.h"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one number too few */
#endif

enum { ROWS = 2, FEATURES = 6, CELLS = 2, WIDTH = 5, INTERVALS = 2, MOST = 3, BYTES = 6 };

static void dense(void) {
    int32_t cells[ROWS], places[CELLS * WIDTH];
    double values[CELLS * WIDTH - SHORT], steps[INTERVALS * WIDTH], share[CELLS], means[FEATURES],
        rows[ROWS * FEATURES];
    unsigned char states[CELLS];
    pv_part part = {0};
    const int kind = Frama_C_interval(0, PV_PART_FLAG), wide = Frama_C_interval(SHORT, 1),
              own = Frama_C_interval(0, 1 - SHORT);
    const int64_t width = wide ? Frama_C_long_interval(WIDTH, FEATURES) : Frama_C_long_interval(1, 2);
    //@ split kind;
    //@ split wide;
    //@ split own;
    //@ split width;
    Frama_C_make_unknown((char *)cells, sizeof cells);
    Frama_C_make_unknown((char *)places, sizeof places);
    Frama_C_make_unknown((char *)values, sizeof values);
    Frama_C_make_unknown((char *)steps, sizeof steps);
    Frama_C_make_unknown((char *)share, sizeof share);
    Frama_C_make_unknown((char *)means, sizeof means);
    Frama_C_make_unknown((char *)states, sizeof states);
    part.kind = kind;
    part.mask = Frama_C_unsigned_char_interval(0, 255);
    part.feature = Frama_C_long_interval(INT64_MIN, INT64_MAX);
    part.width = wide ? WIDTH : 1;
    part.n_cells = CELLS;
    part.intervals = INTERVALS;
    part.cells = own ? 0 : cells;
    part.places = places;
    part.values = kind == PV_PART_ENTRIES && own ? 0 : values;
    part.steps = steps;
    part.share = share;
    part.states = states;
    pv_part_fault(&part, ROWS, width);
    const int64_t features = kind == PV_PART_FUNCTIONS ? part.width : 1;
    part.feature = Frama_C_long_interval(0, width - features); /* what it has no fault with */
    //@ loop unroll 2;
    for (int i = 0; i < ROWS; ++i) cells[i] = Frama_C_int_interval(0, CELLS - 1);
    //@ loop unroll 10;
    for (int k = 0; k < CELLS * WIDTH; ++k)
        places[k] = Frama_C_int_interval(INT32_MIN, kind == PV_PART_FUNCTIONS ? INTERVALS - 1 : (int)width - 1);
    pv_dense(0, ROWS, 1, &part, width, means, rows);
    pv_dense_row(1, &part, width, means, rows);
}

static void histogram(void) {
    double values[ROWS], low[MOST], high[MOST], counts[MOST];
    int64_t weights[ROWS];
    const int64_t cells = Frama_C_long_interval(1, MOST);
    //@ split cells;
    Frama_C_make_unknown((char *)values, sizeof values);
    Frama_C_make_unknown((char *)weights, sizeof weights);
    Frama_C_make_unknown((char *)low, sizeof low);
    Frama_C_make_unknown((char *)high, sizeof high);
    Frama_C_make_unknown((char *)counts, sizeof counts);
    pv_count(ROWS, values, weights, cells, low + MOST - cells, high + MOST - cells, counts + MOST - cells);
}

static void together(void) {
    unsigned char text[BYTES], data[BYTES];
    int32_t starts[ROWS], sizes[ROWS], ends[ROWS + 1];
    const int32_t first = Frama_C_int_interval(1, BYTES), second = Frama_C_int_interval(1, BYTES);
    //@ split first;
    //@ split second;
    Frama_C_make_unknown((char *)text, sizeof text);
    starts[0] = Frama_C_int_interval(0, BYTES - first);
    starts[1] = Frama_C_int_interval(0, BYTES - second);
    sizes[0] = first;
    sizes[1] = second;
    if (first + second <= BYTES) pv_gather(text, ROWS, starts, sizes, ends, data + BYTES - first - second);
}

int main(void) {
    dense();
    histogram();
    together();
    return 0;
}
