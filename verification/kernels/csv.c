/* CSV of two columns, numbers, texts or passed over, in texts of up to six bytes, whatever they are: rows of any number,
 * and how many lines are not empty, of up to four bytes. Contracts stand for pv_over_power and for the slow reading of a
 * number, whose parts kernels/text.c has; that its cell does not end before it begins is not in it. */
#include "cells/csv.c"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one byte too few */
#endif

enum { MOST = 6, WIDTH = 2, ROWS = 3, FEW = 4 };

static unsigned char text[MOST - SHORT];

/*@ requires &text[0] <= p <= &text[0] + MOST && &text[0] <= end <= &text[0] + MOST;
  @ requires \valid(x) && \valid(csv->gaps + k);
  @ assigns \result, *x, csv->gaps[k] \from *p; */
static int number(const pv_csv *csv, int32_t k, const unsigned char *p, const unsigned char *end, double *x);

/*@ assigns \result \from w, k; */
static inline double pv_over_power(uint64_t w, int k);

/* The first such byte, as the standard has it: Eva does not see by its contract that it is before the end. */
void *memchr(const void *s, int c, size_t n) {
    const unsigned char *p = s;
    for (size_t i = 0; i < n; ++i)
        if (p[i] == (unsigned char)c) return (void *)(p + i);
    return 0;
}

static unsigned char any(void) { return Frama_C_unsigned_char_interval(0, 255); }

int main(void) {
    unsigned char gaps[WIDTH];
    double numbers[WIDTH * ROWS];
    int32_t at[WIDTH], starts[WIDTH * ROWS], sizes[WIDTH * ROWS];
    const int64_t size = Frama_C_long_interval(SHORT * MOST, MOST);
    const int64_t rows = Frama_C_long_interval(SHORT * ROWS, ROWS);
    //@ split size;
    //@ split rows;
    Frama_C_make_unknown((char *)text, sizeof text);
    Frama_C_make_unknown((char *)numbers, sizeof numbers);
    pv_written written = {0, 0, 0, {0}, any(), any()};
    Frama_C_make_unknown((char *)written.begins, sizeof written.begins);
    at[0] = Frama_C_int_interval(-3, 1);
    at[1] = Frama_C_int_interval(-3, 1);
    const pv_csv lines = {&written, any(), WIDTH, at, rows, numbers, gaps, starts, sizes};
    const int64_t few = size < FEW ? size : FEW;
    pv_filled_lines(text + MOST - few, few, Frama_C_interval(0, 1));
    return pv_csv_rows(&lines, text + MOST - size, size);
}
