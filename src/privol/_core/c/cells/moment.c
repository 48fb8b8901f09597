#include "cells/pv_moment.h"

#include "cells/pv_number.h"

#define DAY 86400
#define EXACT 15 /* digits of a fraction; further ones are ignored */

/* A fixed number of digits, as a number; -1 if they are not there. */
static int64_t part(const unsigned char **p, const unsigned char *end, int n) {
    int64_t found = 0;
    if (end - *p < n) return -1;
    for (int i = 0; i < n; ++i) {
        if (!pv_is_digit((*p)[i])) return -1;
        found = 10 * found + ((*p)[i] - '0');
    }
    *p += n;
    return found;
}

static int sign(const unsigned char **p, const unsigned char *end, char c) {
    if (*p == end || **p != (unsigned char)c) return 0;
    ++*p;
    return 1;
}

/* Days since 1970, by a calendar whose years begin in March, so that a leap day is the last day; 0: no such date. */
static int days_of(int64_t year, int64_t month, int64_t day, int64_t *days) {
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (year < 1 || month < 1 || month > 12 || day < 1) return 0;
    if (day > lengths[month - 1] + (leap && month == 2)) return 0;
    const int64_t years = year - (month <= 2);
    *days = 365 * years + years / 4 - years / 100 + years / 400;
    *days += (153 * ((month + 9) % 12) + 2) / 5 + day - 719469;
    return 1;
}

int pv_moment(const unsigned char *p, const unsigned char *end, double *seconds) {
    int64_t days, hour = 0, minute = 0, second = 0, zone = 0, fraction = 0, ten = 1;
    const int64_t year = part(&p, end, 4);
    if (year < 0 || !sign(&p, end, '-')) return 0;
    const int64_t month = part(&p, end, 2);
    if (month < 0 || !sign(&p, end, '-')) return 0;
    const int64_t day = part(&p, end, 2);
    if (day < 0 || !days_of(year, month, day, &days)) return 0;
    if (p < end) {
        if (!sign(&p, end, 'T') && !sign(&p, end, 't') && !sign(&p, end, ' ')) return 0;
        if ((hour = part(&p, end, 2)) < 0 || hour > 23 || !sign(&p, end, ':')) return 0;
        if ((minute = part(&p, end, 2)) < 0 || minute > 59) return 0;
        if (sign(&p, end, ':')) {
            if ((second = part(&p, end, 2)) < 0 || second > 60) return 0;
            if (sign(&p, end, '.') || sign(&p, end, ',')) {
                const unsigned char *first = p;
                for (; p < end && pv_is_digit(*p); ++p)
                    if (p - first < EXACT) fraction = 10 * fraction + (*p - '0'), ten *= 10;
                if (p == first) return 0;
            }
        }
        if (p < end) {
            const int blank = sign(&p, end, ' ');
            if (p == end) return !blank; /* a blank at the end is not part of the text */
            if (sign(&p, end, '+') || (zone = sign(&p, end, '-') ? -1 : 0) != 0) {
                const int64_t ahead = part(&p, end, 2), behind = zone;
                int64_t minutes = 0;
                if (ahead < 0 || ahead > 23) return 0;
                if (p < end) {
                    (void)sign(&p, end, ':');
                    if ((minutes = part(&p, end, 2)) < 0 || minutes > 59) return 0;
                }
                zone = (60 * ahead + minutes) * 60;
                if (behind) zone = -zone;
            } else if (!sign(&p, end, 'Z') && !sign(&p, end, 'z')) {
                return 0;
            }
            if (p != end) return 0;
        }
    }
    /* whole numbers below 2^53; numerator and denominator of the fraction are exact too */
    *seconds = (double)(days * DAY + hour * 3600 + minute * 60 + second - zone) + (double)fraction / (double)ten;
    return 1;
}
