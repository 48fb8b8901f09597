/* Rows of index:value pairs, in texts of up to five bytes, whatever they are, with and without room for what is found.
 * A contract stands for pv_over_power, as in kernels/text.c. */
#include "cells/libsvm.c"

#include "__fc_builtin.h"

#ifndef SHORT
#define SHORT 0 /* the control: one byte too few */
#endif

enum { MOST = 5 };

/*@ assigns \result \from w, k; */
static inline double pv_over_power(uint64_t w, int k);

int main(void) {
    unsigned char text[MOST - SHORT];
    double labels[MOST + 1], values[MOST];
    int32_t indices[MOST];
    int64_t starts[MOST + 2], rows, entries;
    pv_svm svm = {0};
    const int64_t size = Frama_C_long_interval(SHORT * MOST, MOST);
    const int kept = Frama_C_interval(0, 1);
    //@ split size;
    //@ split kept;
    Frama_C_make_unknown((char *)text, sizeof text);
    pv_svm_bounds(text + MOST - size, size, &rows, &entries);
    svm.base = kept ? Frama_C_long_interval(0, 1) : 0;
    svm.n_features = kept ? Frama_C_long_interval(1, INT32_MAX) : INT64_C(1) << 62;
    if (kept) {
        svm.labels = labels;
        svm.values = values;
        svm.indices = indices;
        svm.starts = starts;
    }
    return pv_svm_rows(&svm, text + MOST - size, size);
}
