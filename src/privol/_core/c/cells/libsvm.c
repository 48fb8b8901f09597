#include "cells/pv_lines.h"

void pv_svm_bounds(const unsigned char *text, int64_t size, int64_t *rows, int64_t *entries) {
    int64_t lines = 0, pairs = 0;
    for (int64_t i = 0; i < size; ++i) {
        lines += text[i] == '\n';
        pairs += text[i] == ':';
    }
    *rows = lines + 1;
    *entries = pairs;
}

static int is_blank(unsigned char c) { return c == ' ' || c == '\t'; }
static int is_end(unsigned char c) { return is_blank(c) || c == '\n' || c == '\r'; }

/* The number that begins here and ends at a blank or a line end; returns its end, NULL if there is no number. */
static const unsigned char *number(const unsigned char *p, const unsigned char *end, double *x) {
    const unsigned char *stop = pv_plain(p, end, '.', '.', x);
    if (stop != NULL && (stop == end || is_end(*stop))) return stop;
    stop = p;
    while (stop < end && !is_end(*stop)) ++stop;
    return pv_number(p, stop, '.', '.', x) == PV_SAID ? stop : NULL;
}

int pv_svm_rows(pv_svm *svm, const unsigned char *text, int64_t size) {
    const unsigned char *p = text, *end = text + size;
    const int64_t base = svm->base, most = svm->base + svm->n_features;
    int64_t rows = 0, entries = 0, low = INT64_MAX, high = base - 1;
    while (p < end) {
        double x;
        int64_t before = base - 1;
        while (p < end && is_blank(*p)) ++p;
        if (p == end) break;
        if (*p != '\n' && *p != '\r') {
            p = number(p, end, &x);
            if (p == NULL) return 0;
            if (svm->labels != NULL) {
                svm->labels[rows] = x;
                svm->starts[rows] = entries;
            }
            ++rows;
            for (;;) {
                int64_t index = 0;
                const unsigned char *first;
                while (p < end && is_blank(*p)) ++p;
                if (p == end || *p == '\n' || *p == '\r') break;
                for (first = p; p < end && pv_is_digit(*p) && p - first < 18; ++p) index = 10 * index + (*p - '0');
                if (p == first || p == end || *p != ':') return 0;
                if (index <= before || index >= most) return 0;
                if (before < base && index < low) low = index;
                before = index;
                p = number(p + 1, end, &x);
                if (p == NULL) return 0;
                if (svm->labels != NULL) {
                    svm->values[entries] = x;
                    svm->indices[entries] = (int32_t)(index - base);
                }
                ++entries;
            }
            if (before > high) high = before;
        }
        if (p < end && *p == '\r') {
            ++p;
            if (p == end || *p != '\n') return 0;
        }
        p += p < end;
    }
    if (svm->labels != NULL) svm->starts[rows] = entries;
    svm->rows = rows, svm->entries = entries, svm->low = low, svm->high = high;
    return 1;
}
