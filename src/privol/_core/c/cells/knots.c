#include "cells/pv_knots.h"

#include <stddef.h>

#include "cells/pv_written.h"

void pv_between(const pv_knots *knots, int64_t n, const double *values, const unsigned char *cells, unsigned char right,
                int32_t *left, double *share, unsigned char *states) {
    for (int64_t i = 0; i < n; ++i) {
        const double x = values[i];
        const int strange = cells != NULL && cells[i] != right && cells[i] != PV_CELL_MISSING;
        if (strange || x != x || (cells != NULL && cells[i] == PV_CELL_MISSING)) {
            left[i] = -1;
            share[i] = 0;
            states[i] = strange ? PV_STATE_UNKNOWN : PV_STATE_MISSING;
            continue;
        }
        pv_between_one(knots, x, &left[i], &share[i], &states[i]);
    }
}
