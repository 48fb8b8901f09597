/* Dense rows of features around their means, from what the cells of each column say. */
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

/* What a column brings into rows. Row i has cell c = cells[i], or i where ``cells`` is NULL. */
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

/* Where a part leads out of its cells, its intervals or rows of ``width`` features: of n rows the first such one, or of
 * its cells the first such one and n more; -1: nowhere. */
int64_t pv_part_fault(const pv_part *part, int64_t n, int64_t width);

/* Writes rows ``first`` to ``stop`` (not included), the first of them at ``rows``, ``width`` features each: what the
 * parts say, 0 where none says anything, and less the mean of the feature. */
void pv_dense(int64_t first, int64_t stop, int64_t n_parts, const pv_part *parts, int64_t width, const double *means,
              double *rows);

/* The same of row 0 alone, which is read next. */
void pv_dense_row(int64_t n_parts, const pv_part *parts, int64_t width, const double *means, double *row);

#endif
