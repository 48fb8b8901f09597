/* Texts of up to eight bytes, whatever they are: numbers with any decimal marks, moments, blanks at the ends, what a cell
 * without them means, and its hash; two cells at once where their ends are no blanks. Two texts count as missing, of one
 * and two bytes. A contract stands for pv_over_power: its loop ends because a quotient's digits run out. Nine bytes would
 * reach the eight digits that are read at once. */
#include "cells/moment.c"
#include "cells/written.c"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one byte too few */
#endif

enum { MOST = 8, MISSING = 3 };

/*@ assigns \result \from w, k; */
static inline double pv_over_power(uint64_t w, int k);

static unsigned char any(void) { return Frama_C_unsigned_char_interval(0, 255); }

static void one(const pv_written *written) {
    unsigned char text[MOST - SHORT];
    double x;
    const int64_t size = Frama_C_long_interval(SHORT * MOST, MOST);
    const unsigned char *end = text + MOST;
    //@ split size;
    Frama_C_make_unknown((char *)text, sizeof text);
    const unsigned char *begin = end - size;
    pv_plain(begin, end, written->mark, written->other, &x);
    told(written, begin, end, &x);
    hash_of(begin, size);
    if (size == MOST) pv_eight(begin);
    pv_trimmed(&begin, &end);
}

static void two(const pv_written *written) {
    unsigned char text[MOST / 2], kinds[2];
    double values[2];
    uint32_t hashes[2];
    const int32_t first = Frama_C_int_interval(0, MOST / 2), hashed = Frama_C_interval(0, 1);
    //@ split first;
    //@ split hashed;
    Frama_C_make_unknown((char *)text, sizeof text);
    const int32_t ends[3] = {0, first, MOST / 2};
    //@ loop unroll 2;
    for (int i = 0; i < 2; ++i)
        if (ends[i] < ends[i + 1]) text[ends[i]] = text[ends[i + 1] - 1] = Frama_C_unsigned_char_interval('!', 255);
    pv_look(written, 2, ends, text, values, kinds, hashed ? hashes : 0);
}

int main(void) {
    unsigned char missing[MISSING];
    const int64_t till[2] = {1, MISSING};
    pv_written written = {missing, till, 2, {0}, any(), any()};
    Frama_C_make_unknown((char *)missing, sizeof missing);
    Frama_C_make_unknown((char *)written.begins, sizeof written.begins);
    one(&written);
    if (!SHORT) two(&written);
    return 0;
}
