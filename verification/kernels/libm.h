/* Functions of the C library without a contract of their own in Frama-C. */
#ifndef LIBM_H
#define LIBM_H

/*@ assigns \result \from x, y; */
double fmin(double x, double y);

/*@ assigns \result \from x, y; */
double fmax(double x, double y);

/*@ assigns \result \from x, y; */
double copysign(double x, double y);

/*@ assigns \result \from x, y, z; */
double fma(double x, double y, double z);

/*@ assigns \result \from x, n; */
double ldexp(double x, int n);

#endif
