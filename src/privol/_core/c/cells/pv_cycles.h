/* The position of times in a cycle: cosine and sine of an angle. */
#ifndef PV_CYCLES_H
#define PV_CYCLES_H

#include <stdint.h>

/* Number of parts of a turn whose cosines and sines are given. */
#define PV_TURN 256

/* Writes cosine and sine of the position of times in a cycle of ``period`` seconds that began at ``start``, both
 * whole numbers and the period below 2^30; 0 and 0 for a time that is NaN or beyond 2^52. Their exact squares add up
 * to at most 1. ``turn`` has cosine and sine at each part of a turn, with errors below 2^-52. Only the four basic
 * operations are used: the same bits on every processor. */
void pv_cycles(int64_t n, const double *seconds, double period, double start, const double *turn, double *cosine,
               double *sine);

#endif
