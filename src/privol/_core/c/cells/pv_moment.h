/* Dates and times in the extended format of ISO 8601. */
#ifndef PV_MOMENT_H
#define PV_MOMENT_H

/* Whether a text without surrounding blanks is a date, or a date and a time with or without seconds, a fraction and
 * a zone; and its seconds since 1970 in UTC, without leap seconds. A time without a zone is in UTC. */
int pv_moment(const unsigned char *p, const unsigned char *end, double *seconds);

#endif
