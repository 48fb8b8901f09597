/* Status codes of all kernels: zero is success, the first failure ends the loop. */
#ifndef PV_STATUS_H
#define PV_STATUS_H

typedef enum pv_status {
    PV_OK = 0,
    PV_NEED_BITS,  /* the noise buffer lacks the words of the next release: refill and call again */
    PV_UNDECIDED,  /* some coordinates are too close to a rounding boundary: resolve and call again */
    PV_HORIZON,    /* the declared number of rows is used up */
    PV_BAD_ROW,    /* a row is not finite (or beyond 1e150 in magnitude) */
    PV_BAD_INDEX,  /* CSR column index out of range */
    PV_UNSORTED,   /* CSR column indices of a row are not strictly ascending */
    PV_BAD_INDPTR, /* CSR row pointers decrease or leave the data */
    PV_NOT_FINITE, /* the iterate is NaN: a user's loss raised or returned NaN */
    PV_NEED_FAR /* what is computed outside of the kernel for several rows at once is used up (pv_prefix.h, pv_bandit.h) */
} pv_status;

#endif
