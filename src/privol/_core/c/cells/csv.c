#include <math.h>
#include <string.h>

#include "cells/pv_lines.h"

int64_t pv_filled_lines(const unsigned char *text, int64_t size, int blanks) {
    const unsigned char *p = text, *end = text + size;
    int64_t lines = 0;
    while (p < end) {
        const unsigned char *found = (const unsigned char *)memchr(p, '\n', (size_t)(end - p));
        const unsigned char *stop = found == NULL ? end : found;
        if (blanks)
            while (p < stop && (*p == ' ' || (*p >= '\t' && *p <= '\r'))) ++p;
        lines += stop > p && !(stop - p == 1 && *p == '\r');
        p = stop + (found != NULL);
    }
    return lines;
}

static int number(const pv_csv *csv, int32_t k, const unsigned char *p, const unsigned char *end, double *x) {
    if (!pv_trimmed(&p, &end)) return 0;
    if (pv_is_missing(csv->written, p, end)) {
        csv->gaps[k] = 1;
        *x = (double)NAN;
        return 1;
    }
    return pv_number(p, end, csv->written->mark, csv->written->other, x) == PV_SAID;
}

int pv_csv_rows(const pv_csv *csv, const unsigned char *text, int64_t size) {
    const unsigned char *p = text, *end = text + size;
    const pv_written *written = csv->written;
    const unsigned char sep = csv->sep;
    const int64_t last = csv->width - 1;
    int64_t row = 0;
    while (p < end) {
        if (*p == '\n') {
            ++p;
            continue;
        }
        if (*p == '\r' && p + 1 < end && p[1] == '\n') {
            p += 2;
            continue;
        }
        if (row == csv->rows) return 0;
        for (int64_t j = 0; j <= last; ++j) {
            const int32_t k = csv->at[j];
            const unsigned char *start = p, *stop = NULL;
            /* a single digit: many tables consist mostly of indicators */
            if (j < last && end - p >= 2 && p[1] == sep) {
                if (k >= 0 && pv_is_digit(*p) && !written->begins[*p]) {
                    csv->numbers[k * csv->rows + row] = *p - '0';
                    p += 2;
                    continue;
                }
            }
            if (k >= 0 && p < end && !written->begins[*p])
                stop = pv_plain(p, end, written->mark, written->other, &csv->numbers[k * csv->rows + row]);
            if (stop != NULL && (stop == end || *stop == sep || *stop == '\n' || *stop == '\r')) {
                p = stop;
            } else {
                while (p < end && *p != sep && *p != '\n' && *p != '\r') ++p;
                if (k >= 0) {
                    if (!number(csv, k, start, p, &csv->numbers[k * csv->rows + row])) return 0;
                } else if (k != PV_PASSED_OVER) {
                    const int64_t at = (-2 - k) * csv->rows + row;
                    csv->starts[at] = (int32_t)(start - text);
                    csv->sizes[at] = (int32_t)(p - start);
                }
            }
            if (j < last) {
                if (p == end || *p != sep) return 0;
                ++p;
            }
        }
        if (p < end && *p == '\r') ++p;
        if (p < end && *p != '\n') return 0;
        if (p == end && p[-1] == '\r') return 0;
        p += p < end;
        ++row;
    }
    return row == csv->rows;
}

void pv_gather(const unsigned char *text, int64_t n, const int32_t *starts, const int32_t *sizes, int32_t *ends,
               unsigned char *data) {
    int32_t at = 0;
    for (int64_t i = 0; i < n; ++i) {
        ends[i] = at;
        memcpy(data + at, text + starts[i], (size_t)sizes[i]);
        at += sizes[i];
    }
    ends[n] = at;
}
