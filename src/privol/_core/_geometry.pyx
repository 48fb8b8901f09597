"""Feasible sets for the kernels, and the projections onto them."""

import numpy as np

from libc.stdint cimport int64_t


cdef object bind_set(pv_set *set, object description, int64_t d):
    cdef double[::1] low
    cdef double[::1] high
    set.code = description.code
    set.size = 0.0
    set.low = NULL
    set.high = NULL
    if set.code == PV_WHOLE_SPACE:
        return None
    if set.code != PV_BOX:
        set.size = description.total if set.code == PV_SIMPLEX else description.radius
        return None
    bounds = description.bounds(d)
    low = np.array(bounds[0], dtype=np.float64)
    high = np.array(bounds[1], dtype=np.float64)
    set.low = &low[0]
    set.high = &high[0]
    return low, high


def project(domain, x):
    """Project a vector onto a set with the kernel."""
    cdef double[::1] out = np.array(x, dtype=np.float64)
    cdef double[::1] work = np.empty(2 * out.shape[0])
    cdef pv_set set
    owner = bind_set(&set, domain, out.shape[0])
    if out.shape[0]:
        with nogil:
            pv_project(&set, &out[0], out.shape[0], &work[0])
    del owner
    return np.asarray(out)
