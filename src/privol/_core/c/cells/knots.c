#include "cells/pv_knots.h"

#include <stddef.h>

#include "cells/pv_written.h"

void pv_between(const pv_knots *knots, int64_t n, const double *values, const unsigned char *cells, unsigned char right,
                int32_t *left, double *share, unsigned char *states) {
    const double first = knots->knots[0], last = knots->knots[knots->intervals];
    for (int64_t i = 0; i < n; ++i) {
        double x = values[i], rest;
        int32_t j = 0;
        const int strange = cells != NULL && cells[i] != right && cells[i] != PV_CELL_MISSING;
        if (strange || x != x || (cells != NULL && cells[i] == PV_CELL_MISSING)) {
            left[i] = -1;
            share[i] = 0;
            states[i] = strange ? PV_STATE_UNKNOWN : PV_STATE_MISSING;
            continue;
        }
        states[i] = x < first || x > last ? PV_STATE_CLIPPED : 0;
        if (x < first) x = first;
        if (x > last) x = last;
        for (int64_t k = 1; k < knots->intervals; ++k) j += knots->knots[k] <= x;
        rest = 1.0 - (x * knots->factors[j] - knots->lows[j]) / knots->widths[j];
        left[i] = j;
        share[i] = 1.0 - rest; /* exactly the rest */
    }
}
