/* Plain rows of text, CSV and index:value pairs; anything unusual is left to slower readers. */
#ifndef PV_LINES_H
#define PV_LINES_H

#include <stdint.h>

#include "cells/pv_written.h"

#define PV_PASSED_OVER (-1)

/* The destinations of the cells of CSV. */
typedef struct pv_csv {
    const pv_written *written;
    unsigned char sep; /* no character of a number, no blank that has to be kept, no line end, no quote */
    int64_t width;     /* columns of the text */
    const int32_t *at; /* of each: its place among the numbers, PV_PASSED_OVER, or -2 - its place among the texts */
    int64_t rows;
    double *numbers;     /* number k of row i at k * rows + i; NaN where it is missing */
    unsigned char *gaps; /* of each column of numbers: set to 1 where one is missing */
    int32_t *starts;     /* text k of row i at k * rows + i: where it begins, and how long it is */
    int32_t *sizes;
} pv_csv;

/* How many lines of a text contain anything but blanks. Lines end in LF or CR LF. */
int64_t pv_filled_lines(const unsigned char *text, int64_t size, int blanks);

/* Reads exactly that many rows of a text without quotes, below 2^31 bytes. Returns 0 if anything is unusual: the
 * number of cells, a number that pv_number does not read, a lone CR. */
int pv_csv_rows(const pv_csv *csv, const unsigned char *text, int64_t size);

/* Copies the texts that begin at ``starts`` one after the other, and writes where each ends: n + 1 numbers, from 0.
 * */
void pv_gather(const unsigned char *text, int64_t n, const int32_t *starts, const int32_t *sizes, int32_t *ends,
               unsigned char *data);

/* Rows of libsvm. */
typedef struct pv_svm {
    int64_t base;       /* the least index */
    int64_t n_features; /* at most 2^31 - 1 */
    double *labels;     /* where they are not NULL: as many as pv_svm_bounds says */
    double *values;
    int32_t *indices;
    int64_t *starts;                  /* of each row, and the end of the last one */
    int64_t rows, entries, low, high; /* found: of the indices the least and the greatest, from ``base`` on */
} pv_svm;

/* The most rows and entries that a text can have. */
void pv_svm_bounds(const unsigned char *text, int64_t size, int64_t *rows, int64_t *entries);

/* Reads a text. Returns 0 if anything is unusual: a comment, a qid, an index that does not ascend or is out of
 * range. */
int pv_svm_rows(pv_svm *svm, const unsigned char *text, int64_t size);

#endif
