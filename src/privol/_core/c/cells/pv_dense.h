/* Dense rows of centred features, from the cells of each column. */
#ifndef PV_DENSE_H
#define PV_DENSE_H

#include <stdint.h>

typedef enum pv_part_kind {
    PV_PART_NUMBERS, /* one feature: values[c * width] */
    PV_PART_ENTRIES, /* feature places[c * width + k] is values[c * width + k], or 1 where ``values`` is NULL, for each
                        * k below ``width``, a later one in place of an earlier one; a place below 0 is none */
    PV_PART_FUNCTIONS, /* features k below ``width``: values[j * width + k] + steps[j * width + k] * share[c], where j =
                        * places[c] is the interval; below 0 there is none */
    PV_PART_FLAG       /* one feature: 1 where states[c] has a bit of ``mask`` */
} pv_part_kind;

/* The contribution of a column to rows. Row i has cell c = cells[i], or i if ``cells`` is NULL. */
typedef struct pv_part {
    pv_part_kind kind;
    unsigned char mask;
    int64_t feature;   /* the first one, but of entries, whose places count from the row's beginning */
    int64_t width;     /* as said above */
    int64_t n_cells;   /* how many cells there are */
    int64_t intervals; /* of functions */
    const int32_t *cells, *places;
    const double *values, *steps, *share;
    const unsigned char *states;
} pv_part;

/* Whether a part leads outside its cells, its intervals or rows of ``width`` features: returns the first of the n
 * rows that does, or n plus the first of its cells that does; -1: none. */
int64_t pv_part_fault(const pv_part *part, int64_t n, int64_t width);

/* Writes rows from ``first`` up to, not including, ``stop``, the first of them at ``rows``, with ``width`` features
 * each: the sum of the parts' contributions, less the mean of each feature. */
void pv_dense(int64_t first, int64_t stop, int64_t n_parts, const pv_part *parts, int64_t width, const double *means,
              double *rows);

/* The same for row 0 alone, which is read next. */
void pv_dense_row(int64_t n_parts, const pv_part *parts, int64_t width, const double *means, double *row);

#endif
