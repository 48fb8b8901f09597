/* Numbers as smooth functions that are linear between knots. */
#ifndef PV_KNOTS_H
#define PV_KNOTS_H

#include <stdint.h>

/* Knots, ascending, at least two. */
typedef struct pv_knots {
    int64_t intervals;     /* between neighbours */
    const double *knots;   /* one more */
    const double *factors; /* of each interval: 0.5 where its width is no double, and halves are taken; else 1 */
    const double *lows;    /* its beginning and its width, by that factor */
    const double *widths;
} pv_knots;

/* What a cell of a column of numbers is, if not a number between the outer knots (0). */
typedef enum pv_state {
    PV_STATE_MISSING = 1,
    PV_STATE_UNKNOWN = 2, /* neither missing nor a number */
    PV_STATE_CLIPPED = 4, /* a number beyond them, which is as they are */
    PV_STATE_SPARED = 8
} pv_state;

/* The position of a number that is not NaN, as pv_between has it. */
static inline void pv_between_one(const pv_knots *knots, double x, int32_t *left, double *share, unsigned char *state) {
    const double first = knots->knots[0], last = knots->knots[knots->intervals];
    int32_t j = 0;
    *state = x < first || x > last ? PV_STATE_CLIPPED : 0;
    if (x < first) x = first;
    if (x > last) x = last;
    for (int64_t k = 1; k < knots->intervals; ++k) j += knots->knots[k] <= x;
    const double rest = 1.0 - (x * knots->factors[j] - knots->lows[j]) / knots->widths[j];
    *left = j;
    *share = 1.0 - rest; /* exactly the rest */
}

/* The position of each of n numbers: ``left``, its interval, and ``share``, the share of the interval below it, such
 * that share and 1 - share add up to 1, and their squares to at most 1. A NaN is missing. If ``cells`` is not NULL,
 * it has the kind of each cell (pv_cell): missing, ``right``, which counts as a number here, or anything else. If
 * ``states`` is missing or unknown, ``left`` is -1. */
void pv_between(const pv_knots *knots, int64_t n, const double *values, const unsigned char *cells, unsigned char right,
                int32_t *left, double *share, unsigned char *states);

#endif
