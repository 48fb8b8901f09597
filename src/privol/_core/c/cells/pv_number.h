/* Numbers written in decimal digits, each read as the nearest double: the same on every machine. */
#ifndef PV_NUMBER_H
#define PV_NUMBER_H

#include "base/pv_math.h"

typedef enum pv_said {
    PV_SAID,     /* it says this */
    PV_SAID_NOT, /* it says something else */
    PV_SAID_OPEN /* it may: for another reader */
} pv_said;

#define PV_DIGITS 19 /* this many fit into 64 bits */
#define PV_FIVES 26  /* 5 to this power fits into 61 bits */

static inline int pv_is_digit(unsigned char c) { return (unsigned)(c - '0') < 10; }

#define PV_BYTES(c) (UINT64_C(0x0101010101010101) * (c))

/* Eight bytes as a number, little-endian. */
static inline uint64_t pv_eight(const unsigned char *p) {
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 |
           (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

/* Appends the digits that begin at p to w, modulo 2^64, and returns their end. Eight bytes are read at a time,
 * without a branch on the number of digits, which no processor can predict. */
static inline const unsigned char *pv_digits(const unsigned char *p, const unsigned char *end, uint64_t *w) {
    static const uint64_t tens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    while (end - p >= 8) {
        const uint64_t held = pv_eight(p) ^ PV_BYTES(0x30); /* for digits, their values */
        const uint64_t others = (((held & PV_BYTES(0x7F)) + PV_BYTES(0x76)) | held) & PV_BYTES(0x80);
        uint64_t before = (others - 1) & ~others, n,
                 x; /* the bits below the first other one; all where there is none */
        n = ((before & PV_BYTES(0x80)) >> 7) * PV_BYTES(1) >> 56;
        x = n == 0 ? 0 : held << (64 - 8 * n); /* leading zeros */
        x = (10 * x + (x >> 8)) & UINT64_C(0x00FF00FF00FF00FF);
        x = (100 * x + (x >> 16)) & UINT64_C(0x0000FFFF0000FFFF);
        x = (10000 * x + (x >> 32)) & UINT64_C(0xFFFFFFFF);
        *w = *w * tens[n] + x;
        p += n;
        if (n < 8) return p;
    }
    for (; p < end && pv_is_digit(*p); ++p) *w = 10 * *w + (uint64_t)(*p - '0');
    return p;
}

/* w / 10^k, correctly rounded, for w above 0 and k from 1 to PV_FIVES. */
static inline double pv_over_power(uint64_t w, int k) {
    uint64_t d = 1, q, r;
    int sticky, shift = -k;
    for (int i = 0; i < k; ++i) d *= 5;
    q = w / d, r = w % d;
    while (q < UINT64_C(1) << 54) { /* one bit at a time: w = (q + r / d) d 2^(shift + k) */
        const uint64_t twice = 2 * r;
        const uint64_t bit = twice >= d;
        q = 2 * q + bit;
        r = twice - (bit ? d : 0);
        --shift;
    }
    sticky = r != 0;
    while (q >= UINT64_C(1) << 55) {
        sticky |= (int)(q & 1);
        q >>= 1;
        ++shift;
    }
    /* 55 bits: two too many. Ties go to the even number. */
    q = (q >> 2) + (uint64_t)((q & 2) && ((q & 5) || sticky));
    return (double)q * pv_from_bits((uint64_t)(shift + 2 + 1023) << 52);
}

/* w 10^e; returns 0 if that is left to another reader. */
static inline int pv_scaled(uint64_t w, int64_t e, double *x) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (w == 0 || e == 0) {
        *x = (double)w; /* rounds once */
        return 1;
    }
    if (w <= UINT64_C(1) << 53 && e >= -22 && e <= 22) { /* both doubles are exact: one rounding */
        *x = e < 0 ? (double)w / powers[-e] : (double)w * powers[e];
        return 1;
    }
    if (e < 0 && e >= -PV_FIVES) {
        *x = pv_over_power(w, (int)-e);
        return 1;
    }
    return 0;
}

/* Whether a text is a word given in lower case, ignoring its own case. */
static inline int pv_word_is(const unsigned char *p, const unsigned char *end, const char *word) {
    for (; p < end && *word; ++p, ++word)
        if ((*p | 0x20) != (unsigned char)*word) return 0;
    return p == end && !*word;
}

/* Whether a text without surrounding blanks is a number: [+-]?(d+[mark]?d*|[mark]d+)([eE][+-]?d+)?, with either of
 * two decimal marks. Infinities and NaN are left open, as are digits and exponents that this code cannot read
 * exactly. */
static inline pv_said pv_number(const unsigned char *p, const unsigned char *end, unsigned char mark,
                                unsigned char other, double *x) {
    const unsigned char *start;
    uint64_t w = 0;
    int64_t digits, point = 0, e = 0;
    int minus = 0;
    if (p < end && (*p == '-' || *p == '+')) minus = *p++ == '-';
    for (start = p; p < end && pv_is_digit(*p); ++p) w = 10 * w + (uint64_t)(*p - '0');
    digits = p - start;
    if (p < end && (*p == mark || *p == other)) {
        const unsigned char *behind = ++p;
        p = pv_digits(p, end, &w);
        point = p - behind;
        digits += point;
    }
    if (digits == 0)
        return p == start && (pv_word_is(p, end, "inf") || pv_word_is(p, end, "nan") || pv_word_is(p, end, "infinity"))
                   ? PV_SAID_OPEN
                   : PV_SAID_NOT;
    if (p < end && (*p == 'e' || *p == 'E')) {
        const unsigned char *first;
        int down = 0;
        ++p;
        if (p < end && (*p == '-' || *p == '+')) down = *p++ == '-';
        for (first = p; p < end && pv_is_digit(*p); ++p)
            if (e < 100000) e = 10 * e + (*p - '0');
        if (p == first) return PV_SAID_NOT;
        if (down) e = -e;
    }
    if (p != end) return PV_SAID_NOT;
    if (digits > PV_DIGITS || !pv_scaled(w, e - point, x)) return PV_SAID_OPEN;
    if (minus) *x = -*x;
    return PV_SAID;
}

/* The end of a number without an exponent that begins here, and its value; NULL if it cannot be read exactly. Most
 * numbers can be; the caller checks what follows. */
static inline const unsigned char *pv_plain(const unsigned char *p, const unsigned char *end, unsigned char mark,
                                            unsigned char other, double *x) {
    const int minus = p < end && *p == '-';
    const unsigned char *start = p += minus;
    uint64_t w = 0;
    int64_t digits, point = 0;
    for (; p < end && pv_is_digit(*p); ++p) w = 10 * w + (uint64_t)(*p - '0');
    digits = p - start;
    if (p < end && (*p == mark || *p == other)) {
        const unsigned char *behind = ++p;
        p = pv_digits(p, end, &w);
        point = p - behind;
        digits += point;
    }
    if (digits == 0 || digits > PV_DIGITS || !pv_scaled(w, -point, x)) return NULL;
    if (minus) *x = -*x;
    return p;
}

#endif
