/* Where times are in a cycle: cosine and sine of an angle. */
#ifndef PV_CYCLES_H
#define PV_CYCLES_H

#include <stdint.h>

/* Parts of a turn whose cosines and sines are given. */
#define PV_TURN 256

/* Writes cosine and sine of where times are in a cycle of ``period`` seconds that began at ``start``, both whole numbers
 * and the period below 2^30; 0 and 0 of a time that is NaN or beyond 2^52. Their squares, exactly, add up to no more
 * than 1. ``turn`` has cosine and sine of each part of a turn, off by less than 2^-52. Only the four operations are
 * used: the same bits on every processor. */
void pv_cycles(int64_t n, const double *seconds, double period, double start, const double *turn, double *cosine,
               double *sine);

#endif
