from libc.stdint cimport int64_t

cdef extern from "losses/pv_loss.h" nogil:
    enum:
        PV_CUSTOM
        PV_LOSS_COUNT

    ctypedef struct pv_loss:
        double (*value)(const pv_loss *, double, double) noexcept nogil
        double (*slope)(const pv_loss *, double, double) noexcept nogil
        double (*implicit)(const pv_loss *, double, double, double, double) noexcept nogil
        void (*expand)(const pv_loss *, double, double, double *, double *) noexcept nogil
        double (*off)(const pv_loss *, double, double, double, double, double) noexcept nogil
        double width
        double lipschitz
        double curvature
        void *user

    void pv_loss_bind(pv_loss *loss, int code, double width) noexcept
    double pv_custom_off(const pv_loss *loss, double p, double y, double slope, double curve, double error) noexcept
    double pv_implicit_bracketed(const pv_loss *loss, double k, double b, double c, double y) noexcept


cdef class CustomCallbacks:
    cdef object value
    cdef object gradient
    cdef object error
    cdef double call(self, object function, double p, double y) noexcept
    cdef double finite(self, object function, double p, double y) noexcept

# Callbacks for the user's Python functions, None for a built-in loss.
cdef CustomCallbacks callbacks_of(object loss)
cdef int bind_loss(pv_loss *loss, object description, CustomCallbacks user) except -1
# Values, slopes and curvatures of a user's loss, as pv_loss_rows gives them for built-in ones; the GIL must be held.
cdef double custom_rows(const pv_loss *loss, int64_t n, double *p, double *y, double *slope, double *curve) noexcept
