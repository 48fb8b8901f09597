/* Cells that are text: one look finds what each of them means. */
#ifndef PV_WRITTEN_H
#define PV_WRITTEN_H

#include <stdint.h>

#include "cells/pv_number.h"

/* The kind of a cell. */
typedef enum pv_cell {
    PV_CELL_MISSING,
    PV_CELL_NUMBER,
    PV_CELL_TIME,
    PV_CELL_TEXT,
    PV_CELL_OPEN /* it takes a slower reader to tell: odd blanks, very long numbers, infinities, NaN */
} pv_cell;

/* How cells are written. Surrounding blanks do not matter. */
typedef struct pv_written {
    const unsigned char *missing; /* the texts that count as missing besides the empty one, one behind the other */
    const int64_t *ends;          /* where each of them ends */
    int64_t n_missing;
    unsigned char begins[256]; /* whether one of them begins with this byte */
    unsigned char mark, other; /* what stands before decimals; twice the same where only one thing may */
} pv_written;

/* A text without surrounding blanks; 0 if one of its ends is not a plain character. */
static inline int pv_trimmed(const unsigned char **p, const unsigned char **end) {
    const unsigned char *a = *p, *b = *end;
    while (a < b && (*a == ' ' || *a == '\t')) ++a;
    while (a < b && (b[-1] == ' ' || b[-1] == '\t')) --b;
    *p = a, *end = b;
    /* from '!' to '~' */
    return a == b || ((unsigned)(*a - 0x21) < 0x5E && (unsigned)(b[-1] - 0x21) < 0x5E);
}

/* Whether a text without surrounding blanks counts as missing. */
int pv_is_missing(const pv_written *written, const unsigned char *p, const unsigned char *end);

/* What each of n texts means.
 *
 * Text i is data[ends[i]] to data[ends[i + 1]]. ``values`` gets numbers, and times in seconds since 1970; NaN for all
 * others. ``hashes``, if not NULL, gets murmurhash3 (32 bits, x86, seed 0) of each text without surrounding blanks, 0
 * if the text is missing or left open. Returns how many are left open. */
int64_t pv_look(const pv_written *written, int64_t n, const int32_t *ends, const unsigned char *data, double *values,
                unsigned char *cells, uint32_t *hashes);

/* Adds ``weights`` of numbers to the cells of a histogram: ascending intervals [low, high), the last one closed, or
 * points, whose bounds are equal. A number outside counts in the nearest cell, and NaN nowhere. */
void pv_count(int64_t n, const double *values, const int64_t *weights, int64_t m, const double *low, const double *high,
              double *counts);

#endif
