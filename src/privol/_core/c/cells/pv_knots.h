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

/* What a cell of a column of numbers is, besides a number between the outer knots: 0. */
typedef enum pv_state {
    PV_STATE_MISSING = 1,
    PV_STATE_UNKNOWN = 2, /* neither missing nor a number */
    PV_STATE_CLIPPED = 4, /* a number beyond them, which is as they are */
    PV_STATE_SPARED = 8
} pv_state;

/* Where each of n numbers lies: ``left``, its interval, and ``share``, how much of that is below it, so that share and
 * 1 - share add up to 1 and their squares to no more. A NaN is missing. Where ``cells`` is not NULL it says what each
 * cell is (pv_cell): missing, or ``right``, which are numbers here, or something else. Where ``states`` says missing or
 * unknown ``left`` is -1. */
void pv_between(const pv_knots *knots, int64_t n, const double *values, const unsigned char *cells, unsigned char right,
                int32_t *left, double *share, unsigned char *states);

#endif
