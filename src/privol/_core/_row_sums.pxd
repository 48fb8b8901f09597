from libc.stdint cimport int64_t

from ._objective cimport Objective


cdef class RowSums:
    cdef readonly Objective objective
    cdef readonly int64_t n, dim
    cdef list owners
    cdef object points, predictions    # of the two points used last
    cdef object curvatures, work, scratch
    cdef int latest, curved            # which of the two; and which has curvatures, -1: neither
    cdef object zeros(self, int64_t n)
    cdef int slot(self, object w) except? -1
    cdef int known(self, object w) except -1
    cdef double *curves(self, object w) except NULL
