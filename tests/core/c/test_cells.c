/* Cells and lines: numbers against strtod, times against a calendar as in the C library, and mutated texts in
 * buffers of exactly their size, so that the sanitizer detects a read beyond them. */
#include "cells/pv_buckets.h"
#include "cells/pv_columns.h"
#include "cells/pv_cycles.h"
#include "cells/pv_dense.h"
#include "cells/pv_knots.h"
#include "cells/pv_lines.h"
#include "cells/pv_moment.h"
#include "cells/pv_number.h"
#include "cells/pv_written.h"
#include "check.h"

static const unsigned char markers[] = "?NAnull";
static const int64_t marker_ends[] = {1, 3, 7};

static pv_written form(unsigned char mark, unsigned char other) {
    pv_written written = {markers, marker_ends, 3, {0}, mark, other};
    written.begins['?'] = written.begins['N'] = written.begins['n'] = 1;
    return written;
}

static unsigned char *exactly(const char *text, int64_t size) {
    unsigned char *p = (unsigned char *)buffer(size, 1);
    if (size) memcpy(p, text, (size_t)size);
    return p;
}

static void check_number(const char *text) {
    const int64_t size = (int64_t)strlen(text);
    unsigned char *p = exactly(text, size);
    double x = 0;
    const pv_said said = pv_number(p, p + size, '.', '.', &x);
    CHECK(said != PV_SAID_NOT);
    if (said == PV_SAID) CHECK(bits_of(x) == bits_of(strtod(text, NULL)));
    const unsigned char *stop = pv_plain(p, p + size, '.', '.', &x);
    if (stop == p + size) CHECK(bits_of(x) == bits_of(strtod(text, NULL)));
    free(p);
}

static int64_t below(int64_t n) { return (int64_t)(random_word() % (uint64_t)n); }

static void numbers(void) {
    char text[80];
    int64_t read = 0;
    for (int trial = 0; trial < 60000; ++trial) {
        int n = 0;
        if (below(3) == 0) text[n++] = below(2) ? '-' : '+';
        const int64_t whole = below(12), part = below(whole ? 10 : 9) + (whole == 0);
        for (int64_t k = 0; k < whole; ++k) text[n++] = (char)('0' + below(10));
        if (part) text[n++] = '.';
        for (int64_t k = 0; k < part; ++k) text[n++] = (char)('0' + below(10));
        text[n] = 0;
        if (below(2)) {
            const int power = (int)below(80) - 40;
            n += snprintf(text + n, 20, "%c%+d", below(2) ? 'e' : 'E', power);
        }
        check_number(text);
    }
    for (int trial = 0; trial < 60000; ++trial) { /* of 17 digits, of all sizes; and half-way cases */
        const uint64_t exponent = (uint64_t)(1023 - 60 + below(120));
        const double x = pv_from_bits((random_word() & UINT64_C(0x000FFFFFFFFFFFFF)) | exponent << 52);
        snprintf(text, sizeof text, trial % 2 ? "%.17g" : "%.18f", x);
        check_number(text);
        unsigned char *p = exactly(text, (int64_t)strlen(text));
        double y;
        read += pv_number(p, p + strlen(text), '.', '.', &y) == PV_SAID;
        free(p);
        const uint64_t half = (UINT64_C(1) << 53) + 2 * (random_word() >> 12) + 1; /* between two doubles, times 2^-k */
        snprintf(text, sizeof text, "%llu", (unsigned long long)half);
        check_number(text);
        snprintf(text, sizeof text, "%llu.5", (unsigned long long)(half >> 1));
        check_number(text);
        snprintf(text, sizeof text, "%llu.25", (unsigned long long)(half >> 2));
        check_number(text);
    }
    CHECK(read > 30000);
    const char *wrong[] = {"",     "-",   "+",   ".",     "-.", "e5",     "1e", "1e+",     "1 2", "1_0",
                           "0x10", "1,5", "--1", "1.2.3", "1d", "nan(1)", "in", "infinit", "ill"};
    const char *open[] = {"inf", "-Infinity", "NaN", "12345678901234567890", "1e400", "1e-40"};
    for (int64_t i = 0; i < LENGTH(wrong); ++i) {
        double x;
        const int64_t size = (int64_t)strlen(wrong[i]);
        unsigned char *p = exactly(wrong[i], size);
        CHECK(pv_number(p, p + size, '.', '.', &x) == PV_SAID_NOT);
        free(p);
    }
    for (int64_t i = 0; i < LENGTH(open); ++i) {
        double x;
        CHECK(pv_number((const unsigned char *)open[i], (const unsigned char *)open[i] + strlen(open[i]), '.', '.',
                        &x) == PV_SAID_OPEN);
    }
}

static void moments(void) {
    char text[60];
    int64_t days = -719162; /* of 0001-01-01 */
    for (int year = 1; year <= 2600; year += year < 1890 || year > 2110 ? 7 : 1) {
        days = -719162;
        for (int y = 1; y < year; ++y) days += 365 + ((y % 4 == 0 && y % 100 != 0) || y % 400 == 0);
        for (int month = 1; month <= 12; ++month) {
            const int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
            const int length = month == 2 ? 28 + leap : 30 + ((month + (month > 7)) % 2);
            for (int day = 0; day <= 32; ++day) {
                double seconds = 0;
                const int size = snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
                unsigned char *p = exactly(text, size);
                const int is = pv_moment(p, p + size, &seconds);
                CHECK(is == (day >= 1 && day <= length));
                if (is) CHECK(bits_of(seconds) == bits_of((double)days * 86400));
                days += is;
                free(p);
            }
        }
    }
    const struct {
        const char *text;
        double seconds;
    } right[] = {{"1970-01-02T00:00", 86400},           {"1970-01-01 00:01:02.5", 62.5},
                 {"1970-01-01t01:00:00,250Z", 3600.25}, {"1970-01-01 01:00 +01", 0},
                 {"1970-01-01 00:00:60-0130", 5460},    {"1970-01-01 00:00:00.12345678901234567z", 0.123456789012345},
                 {"1969-12-31 23:59:59+00:30", -1801}};
    const char *wrong[] = {
        "1970-1-01",           "1970-01-01T",          "1970-01-01 24:00",    "1970-01-01 00:60",
        "1970-01-01 00:00:61", "1970-01-01 00:00:00.", "1970-01-01 00:00+24", "1970-01-01 00:00+01:60",
        "1970-01-01Z",         "0000-01-01",           "1970-01-01 00:00 ",   "1970-01-01 00:00ZZ",
        "1970-01-01 00:00+1",  "1970/01/01",           "1970-01-011",         "1970-01/01",
        "1970-01-1",           "1970-00-01",           "1970-13-01",          "1970-01-01 x0:00",
        "1970-01-01 00.00",    "1970-01-01 00:x0",     "1970-01-01 00:00:0x", "1970-01-01 00:00+01:x",
        "1970-01-01 00:00x"};
    for (int64_t i = 0; i < LENGTH(right); ++i) {
        double seconds = 0;
        const int64_t size = (int64_t)strlen(right[i].text);
        unsigned char *p = exactly(right[i].text, size);
        CHECK(pv_moment(p, p + size, &seconds));
        CHECK(seconds == right[i].seconds);
        free(p);
    }
    for (int64_t i = 0; i < LENGTH(wrong); ++i) {
        double seconds = 0;
        const int64_t size = (int64_t)strlen(wrong[i]);
        unsigned char *p = exactly(wrong[i], size);
        CHECK(!pv_moment(p, p + size, &seconds));
        free(p);
    }
}

static void looks(void) {
    static const char all[] = " 12 ?nullNA -1.5e3\t2020-02-30x\0011970-01-01\xc2\xa0 3";
    static const int32_t ends[] = {0, 4, 5, 9, 11, 19, 29, 30, 31, 41, 43, 45, 45};
    static const unsigned char said[] = {PV_CELL_NUMBER, PV_CELL_MISSING, PV_CELL_MISSING, PV_CELL_MISSING,
                                         PV_CELL_NUMBER, PV_CELL_TEXT,    PV_CELL_TEXT,    PV_CELL_OPEN,
                                         PV_CELL_TIME,   PV_CELL_OPEN,    PV_CELL_NUMBER,  PV_CELL_MISSING};
    const pv_written written = form('.', '.');
    const int64_t n = LENGTH(ends) - 1;
    unsigned char *data = exactly(all, ends[n]), *cells = (unsigned char *)buffer(n, 1);
    double *values = doubles(n);
    uint32_t *hashes = (uint32_t *)buffer(n, 4);
    CHECK(pv_look(&written, n, ends, data, values, cells, hashes) == 2);
    for (int64_t i = 0; i < n; ++i) {
        CHECK(cells[i] == said[i]);
        CHECK((values[i] == values[i]) == (said[i] == PV_CELL_NUMBER || said[i] == PV_CELL_TIME));
    }
    CHECK(values[0] == 12 && values[4] == -1500 && values[8] == 0 && values[10] == 3);
    CHECK(hashes[1] == 0 && hashes[7] == 0 && hashes[0] != hashes[10]);
    free(data), free(cells), free(values), free(hashes);
}

static void counts(void) {
    const double low[] = {-8, -2, -1, -1, 0, 4}, high[] = {-2, -1, -1, 0, 4, 9};
    const double values[] = {-100, -8, -2, -1.5, -1, -0.5, 0, 3.9, 4, 9, 100, (double)NAN, 5};
    const double expected[] = {2, 2, 1, 1, 2, 3};
    int64_t weights[LENGTH(values)];
    double found[LENGTH(low)] = {0};
    for (int64_t i = 0; i < LENGTH(values); ++i) weights[i] = i + 1 < LENGTH(values);
    pv_count(LENGTH(values), values, weights, LENGTH(low), low, high, found);
    for (int64_t j = 0; j < LENGTH(low); ++j) CHECK(found[j] == expected[j]);
}

static void rows_of_columns(void) {
    for (int trial = 0; trial < 300; ++trial) {
        const int64_t n = below(700), width = 1 + below(trial % 10 ? 20 : 600), stride = width + below(3);
        const double **columns = (const double **)buffer(width, sizeof(double *));
        double *rows = doubles(n * stride);
        for (int64_t k = 0; k < n * stride; ++k) rows[k] = -7;
        for (int64_t j = 0; j < width; ++j) columns[j] = random_doubles(n, 1);
        pv_rows_of(n, width, columns, stride, rows);
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < stride; ++j) CHECK(rows[i * stride + j] == (j < width ? columns[j][i] : -7));
        for (int64_t j = 0; j < width; ++j) {
            double *column;
            memcpy(&column, &columns[j], sizeof column);
            free(column);
        }
        free(columns), free(rows);
    }
}

static void knots(void) {
    for (int trial = 0; trial < 2000; ++trial) {
        const int64_t intervals = 1 + below(6), n = below(40);
        const int huge = trial % 5 == 0;
        double *at = doubles(intervals + 1), *factors = doubles(intervals), *lows = doubles(intervals);
        double *widths = doubles(intervals), *values = random_doubles(n, huge ? 1.79e308 : 8.0), *share = doubles(n);
        int32_t *left = (int32_t *)buffer(n, 4);
        unsigned char *states = (unsigned char *)buffer(n, 1), *said = (unsigned char *)buffer(n, 1);
        for (int64_t k = 0; k <= intervals; ++k)
            at[k] = huge ? (k == 0 ? -1.7e308 : 1.7e308 / (double)(intervals - k + 1)) : (double)(k - 3) * 1.25;
        for (int64_t k = 0; k < intervals; ++k) {
            factors[k] = at[k + 1] - at[k] > 1.7e308 ? 0.5 : 1.0;
            lows[k] = at[k] * factors[k];
            widths[k] = at[k + 1] * factors[k] - lows[k];
        }
        for (int64_t i = 0; i < n; ++i) {
            if (below(5) == 0)
                values[i] = (double)NAN;
            else if (below(5) == 0)
                values[i] = at[below(intervals + 1)];
            said[i] = (unsigned char)(trial % 3 ? PV_CELL_NUMBER : below(4));
        }
        const pv_knots code = {intervals, at, factors, lows, widths};
        pv_between(&code, n, values, trial % 3 == 1 ? NULL : said, PV_CELL_NUMBER, left, share, states);
        for (int64_t i = 0; i < n; ++i) {
            const double x = fmin(fmax(values[i], at[0]), at[intervals]);
            if (said[i] != PV_CELL_NUMBER && said[i] != PV_CELL_MISSING) {
                CHECK(left[i] == -1 && states[i] == PV_STATE_UNKNOWN);
                continue;
            }
            if (values[i] != values[i] || said[i] == PV_CELL_MISSING) {
                CHECK(left[i] == -1 && states[i] == PV_STATE_MISSING);
                continue;
            }
            CHECK(states[i] == (x != values[i] ? PV_STATE_CLIPPED : 0));
            CHECK(at[left[i]] <= x && (x < at[left[i] + 1] || left[i] == intervals - 1));
            CHECK(share[i] >= 0 && share[i] <= 1 && (1 - share[i]) + share[i] == 1);
        }
        free(at), free(factors), free(lows), free(widths), free(values), free(share);
        free(left), free(states), free(said);
    }
}

static void places(void) {
    for (int trial = 0; trial < 500; ++trial) {
        const int64_t n = below(40), buckets = 1 + below(9);
        int32_t *own = (int32_t *)buffer(buckets, 4), *found = (int32_t *)buffer(n, 4);
        uint32_t *hashes = (uint32_t *)buffer(n, 4);
        unsigned char *said = (unsigned char *)buffer(n, 1);
        const pv_buckets code = {(uint32_t)buckets, trial % 4 ? own : NULL, (uint32_t)below(4), 100, -1};
        for (int64_t k = 0; k < buckets; ++k) own[k] = below(2) ? PV_SHARED : (int32_t)below(50) - 5;
        for (int64_t i = 0; i < n; ++i) {
            hashes[i] = (uint32_t)below(1 << 30) << 2;
            said[i] = (unsigned char)below(4);
        }
        pv_places(&code, n, said, hashes, found);
        for (int64_t i = 0; i < n; ++i) {
            const int32_t mine = code.own ? own[hashes[i] % (uint64_t)buckets] : PV_SHARED;
            const int32_t rest = code.shared ? 100 + (int32_t)(hashes[i] % (uint64_t)code.shared) : 100;
            CHECK(found[i] == (said[i] == PV_CELL_MISSING ? -1 : mine == PV_SHARED ? rest : mine));
            digest(found[i]);
        }
        free(own), free(found), free(hashes), free(said);
    }
}

/* Rows of parts of all kinds, written a few at a time, against rows that are written one feature at a time. */
static void dense(void) {
    for (int trial = 0; trial < 1500; ++trial) {
        const int64_t n = below(trial % 20 == 5 ? 3000 : 30), width = 1 + below(trial % 10 ? 40 : 3000);
        const int64_t n_parts = below(6);
        pv_part parts[6];
        double *means = random_doubles(width, 1), *rows = doubles(n * width), *expected = doubles(n * width);
        void *held[6][6] = {{NULL}};
        for (int64_t k = 0; k < width; ++k)
            if (below(3) == 0) means[k] = 0;
        for (int64_t i = 0; i < n * width; ++i) expected[i] = 0;
        for (int64_t j = 0; j < n_parts; ++j) {
            const int64_t cells = trial % 2 ? 1 + below(20) : n, own = 1 + below(width < 7 ? width : 7);
            const int64_t intervals = 1 + below(4);
            int32_t *at = (int32_t *)buffer(n, 4), *places = (int32_t *)buffer(cells * own, 4);
            double *values = random_doubles(cells * own + intervals * own, 1), *share = random_doubles(cells, 1);
            double *steps = random_doubles(intervals * own, 1);
            unsigned char *states = (unsigned char *)buffer(cells, 1);
            const pv_part_kind kind = (pv_part_kind)below(4);
            const int ones = below(2) == 0;
            for (int64_t i = 0; i < n; ++i) at[i] = (int32_t)below(cells);
            for (int64_t c = 0; c < cells; ++c) states[c] = (unsigned char)below(8);
            for (int64_t c = 0; c < cells * own; ++c)
                places[c] = (int32_t)below(1 + (kind == PV_PART_ENTRIES ? width : intervals)) - 1;
            parts[j] = (pv_part){kind,
                                 3,
                                 below(width - own + 1),
                                 own,
                                 cells,
                                 intervals,
                                 trial % 2 ? at : NULL,
                                 places,
                                 kind == PV_PART_ENTRIES && ones ? NULL : values,
                                 steps,
                                 share,
                                 states};
            held[j][0] = at, held[j][1] = places, held[j][2] = values, held[j][3] = share, held[j][4] = steps;
            held[j][5] = states;
            CHECK(pv_part_fault(&parts[j], n, width) == -1);
            for (int64_t i = 0; i < n; ++i) {
                const int64_t c = trial % 2 ? at[i] : i;
                double *row = expected + i * width, *mine = row + parts[j].feature;
                for (int64_t k = 0; k < own; ++k) {
                    const int32_t place = places[kind == PV_PART_ENTRIES ? c * own + k : c];
                    if (kind == PV_PART_ENTRIES && place >= 0) row[place] = ones ? 1.0 : values[c * own + k];
                    if (kind == PV_PART_FUNCTIONS && place >= 0)
                        mine[k] = values[place * own + k] + steps[place * own + k] * share[c];
                }
                if (kind == PV_PART_NUMBERS) *mine = values[c * own];
                if (kind == PV_PART_FLAG && states[c] & 3) *mine = 1.0;
            }
            if (n > 0) { /* an index outside a part is detected */
                pv_part wrong = parts[j];
                const int64_t bad = below(n);
                const int32_t right = at[bad];
                at[bad] += (int32_t)cells;
                wrong.cells = at;
                CHECK(pv_part_fault(&wrong, n, width) == bad);
                at[bad] = -1;
                CHECK(pv_part_fault(&wrong, n, width) == bad);
                at[bad] = right;
                wrong = parts[j];
                wrong.feature = width;
                CHECK(pv_part_fault(&wrong, n, width) == (kind == PV_PART_ENTRIES ? -1 : 0));
                wrong = parts[j];
                wrong.cells = NULL, wrong.n_cells = n - 1;
                CHECK(pv_part_fault(&wrong, n, width) == n - 1);
            }
        }
        for (int64_t i = 0; i < n;) {
            const int64_t some = below(2) ? n - i : 1 + below(n - i);
            pv_dense(i, i + some, n_parts, parts, width, means, rows + i * width);
            i += some;
        }
        for (int64_t i = 0; i < n * width; ++i) {
            CHECK(bits_of(rows[i]) == bits_of(expected[i] - means[i % width]));
            digest(rows[i]);
        }
        for (int64_t j = 0; j < n_parts; ++j)
            for (int k = 0; k < 6; ++k) free(held[j][k]);
        free(means), free(rows), free(expected);
    }
}

/* Positions of times in a cycle, against the C library's values; a non-time has none. */
static void cycles(void) {
    const double periods[] = {86400, 604800, 31556952}, pi = 3.14159265358979324;
    double *turn = doubles(2 * PV_TURN), cosine_of = -1, sine_of = 0; /* of half a turn */
    turn[0] = 1, turn[1] = 0;
    for (int64_t size = 1; size < PV_TURN; size *= 2) { /* by halves: C libraries do not agree on the last bit */
        for (int64_t k = 0; k < size; ++k) {
            const int64_t at = PV_TURN / size * k, next = at + PV_TURN / size / 2;
            turn[2 * next] = turn[2 * at] * cosine_of - turn[2 * at + 1] * sine_of;
            turn[2 * next + 1] = turn[2 * at + 1] * cosine_of + turn[2 * at] * sine_of;
        }
        sine_of = sqrt((1 - cosine_of) / 2), cosine_of = sqrt((1 + cosine_of) / 2);
    }
    for (int trial = 0; trial < 300; ++trial) {
        const int64_t n = below(50);
        const double period = periods[trial % 3], start = trial % 2 ? 0.0 : -259200.0;
        double *seconds = doubles(n), *cosine = doubles(n), *sine = doubles(n);
        for (int64_t i = 0; i < n; ++i) {
            seconds[i] = (double)(below(INT64_C(2000000000000)) - INT64_C(1000000000000));
            if (below(2)) seconds[i] /= (double)(1 + below(1000));
            if (below(9) == 0) {
                const double cycles = (double)(below(100) - 50);
                seconds[i] = start + period * cycles - (below(2) ? 0x1p-30 : 0.0);
            }
            if (below(20) == 0) seconds[i] = (double[]){NAN, INFINITY, -INFINITY, 0x1p53, -1e300}[below(5)];
        }
        pv_cycles(n, seconds, period, start, turn, cosine, sine);
        for (int64_t i = 0; i < n; ++i) {
            const int there = fabs(seconds[i]) <= 0x1p52;
            double here = there ? fmod(seconds[i] - start, period) : 0.0;
            if (here < 0) here += period;
            CHECK(fabs(cosine[i] - (there ? cos(here * (2 * pi / period)) : 0.0)) < 1e-14);
            CHECK(fabs(sine[i] - (there ? sin(here * (2 * pi / period)) : 0.0)) < 1e-14);
            CHECK(cosine[i] * cosine[i] + sine[i] * sine[i] <= 1.0);
            digest(cosine[i]), digest(sine[i]);
        }
        free(seconds), free(cosine), free(sine);
    }
    free(turn);
}

static void filled_lines(void) {
    const struct {
        const char *text;
        int64_t lines, beyond_blanks;
    } cases[] = {{"", 0, 0},
                 {"a", 1, 1},
                 {"\n", 0, 0},
                 {"a\n\nb", 2, 2},
                 {"\r\n", 0, 0},
                 {" \r\n", 1, 0},
                 {"a\r\n\r\nb\r\n", 2, 2},
                 {"\n\n\n", 0, 0},
                 {"\t\n x", 2, 1},
                 {"\v\f \r", 1, 0},
                 {"\r", 0, 0},
                 {" \n1\n\t1", 3, 2}};
    for (int64_t i = 0; i < LENGTH(cases); ++i) {
        const int64_t size = (int64_t)strlen(cases[i].text);
        unsigned char *p = exactly(cases[i].text, size);
        CHECK(pv_filled_lines(p, size, 0) == cases[i].lines);
        CHECK(pv_filled_lines(p, size, 1) == cases[i].beyond_blanks);
        free(p);
    }
}

/* Every readable text has as many cells as the plainest reader finds; none is read beyond its end. */
static void tables(void) {
    static const char *lines[] = {
        "1,2.5,a b\n", "-0.125,?,\n", " 7 ,1e3,x\r\n", "\n", "\r\n", "123456789.25,12,long text\n", "5,6,7"};
    static const char odd[] = "\r\n,\",?-+.eE 0123456789x\xe9\0";
    const int32_t at[] = {0, 1, -2};
    const pv_written written = form('.', '.');
    int64_t read = 0;
    for (int trial = 0; trial < 10000; ++trial) {
        char text[400];
        int64_t size = 0;
        for (int64_t k = below(8); k >= 0; --k) {
            const char *line = lines[below(k ? LENGTH(lines) - 1 : LENGTH(lines))];
            memcpy(text + size, line, strlen(line));
            size += (int64_t)strlen(line);
        }
        for (int64_t k = below(3); trial % 2 && k > 0; --k) {
            const int64_t place = below(size);
            text[place] = odd[below(LENGTH(odd))];
        }
        unsigned char *p = exactly(text, size);
        const int64_t rows = pv_filled_lines(p, size, 0);
        double *found = doubles(2 * rows);
        unsigned char gaps[2] = {0, 0};
        int32_t *starts = (int32_t *)buffer(rows, 4), *sizes = (int32_t *)buffer(rows, 4);
        const pv_csv csv = {&written, ',', 3, at, rows, found, gaps, starts, sizes};
        if (pv_csv_rows(&csv, p, size)) {
            int64_t total = 0;
            int gap = 0;
            ++read;
            for (int64_t i = 0; i < rows; ++i) {
                total += sizes[i];
                gap |= found[rows + i] != found[rows + i];
                digest(found[i]);
            }
            CHECK(gaps[1] == gap);
            int32_t *ends = (int32_t *)buffer(rows + 1, 4);
            unsigned char *data = (unsigned char *)buffer(total, 1);
            pv_gather(p, rows, starts, sizes, ends, data);
            CHECK(ends[rows] == total);
            free(ends), free(data);
        } else {
            CHECK(trial % 2);
        }
        free(p), free(found), free(starts), free(sizes);
    }
    CHECK(read > 5000);
}

static void sparse_rows(void) {
    static const char *lines[] = {"1 1:2 3:-4.5\n",           "-1\n", "+1 2:1e-3 \r\n", "\n", "  \n",
                                  "0.5\t1:0 9:12345678901\n", "1 4:5"};
    static const char odd[] = "\r\n:# 0123456789-+.x\0";
    int64_t read = 0;
    for (int trial = 0; trial < 10000; ++trial) {
        char text[400];
        int64_t size = 0, rows, entries;
        for (int64_t k = below(8); k >= 0; --k) {
            const char *line = lines[below(k ? LENGTH(lines) - 1 : LENGTH(lines))];
            memcpy(text + size, line, strlen(line));
            size += (int64_t)strlen(line);
        }
        for (int64_t k = below(3); trial % 2 && k > 0; --k) {
            const int64_t place = below(size);
            text[place] = odd[below(LENGTH(odd))];
        }
        unsigned char *p = exactly(text, size);
        pv_svm_bounds(p, size, &rows, &entries);
        pv_svm svm = {
            1, 9, doubles(rows), doubles(entries), (int32_t *)buffer(entries, 4), (int64_t *)buffer(rows + 1, 8), 0, 0,
            0, 0};
        if (pv_svm_rows(&svm, p, size)) {
            int64_t low = INT64_MAX, high = 0;
            ++read;
            CHECK(svm.rows <= rows && svm.entries <= entries);
            CHECK(svm.starts[svm.rows] == svm.entries);
            for (int64_t i = 0; i < svm.rows; ++i) {
                CHECK(svm.starts[i] <= svm.starts[i + 1]);
                for (int64_t k = svm.starts[i]; k < svm.starts[i + 1]; ++k) {
                    CHECK(svm.indices[k] >= 0 && svm.indices[k] < 9);
                    CHECK(k == svm.starts[i] || svm.indices[k] > svm.indices[k - 1]);
                    low = svm.indices[k] + 1 < low ? svm.indices[k] + 1 : low;
                    high = svm.indices[k] + 1 > high ? svm.indices[k] + 1 : high;
                    digest(svm.values[k]);
                }
            }
            CHECK(svm.low == low && svm.high == high);
        } else {
            CHECK(trial % 2);
        }
        free(p), free(svm.labels), free(svm.values), free(svm.indices), free(svm.starts);
    }
    CHECK(read > 5000);
}

int main(void) {
    cycles();
    dense();
    places();
    knots();
    numbers();
    moments();
    looks();
    counts();
    rows_of_columns();
    filled_lines();
    tables();
    sparse_rows();
    return finish("cells");
}
