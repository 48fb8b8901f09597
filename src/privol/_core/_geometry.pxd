from libc.stdint cimport int64_t

cdef extern from "rows/pv_geometry.h" nogil:
    enum:
        PV_BOX
        PV_SIMPLEX
        PV_WHOLE_SPACE

    ctypedef struct pv_set:
        int code
        double size
        const double *low
        const double *high

    void pv_project(const pv_set *set, double *x, int64_t d, double *work) noexcept

# Set the set from its description; the result owns its arrays.
cdef object bind_set(pv_set *set, object description, int64_t d)
