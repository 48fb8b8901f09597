"""How cells are written, for readers of whole lines."""

from libc.stdint cimport int64_t


cdef extern from "cells/pv_written.h":
    ctypedef struct pv_written:
        const unsigned char *missing
        const int64_t *ends
        int64_t n_missing
        unsigned char begins[256]
        unsigned char mark
        unsigned char other


cdef class Form:
    cdef pv_written written
    cdef bytes texts
    cdef object ends
