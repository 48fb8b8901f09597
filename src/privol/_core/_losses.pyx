"""Loss tables for the kernels: the built-in losses in C, a user's own loss through Python calls."""

import numpy as np

from libc.math cimport NAN

ctypedef double (*loss_function)(const pv_loss *, double, double) noexcept nogil


cdef class CustomCallbacks:
    """Calls a user's Python loss from the kernels, with the GIL held throughout; keeps the first exception."""

    cdef double call(self, object function, double p, double y) noexcept:
        cdef double result = NAN
        if self.error is None:
            try:
                result = function(p, y)
            except BaseException as error:  # noqa: re-raised by the caller of the kernel, after the block is undone
                self.error = error
        return result


cdef double custom_value(const pv_loss *loss, double p, double y) noexcept:
    cdef CustomCallbacks user = <CustomCallbacks>loss.user
    return user.call(user.value, p, y)


cdef double custom_slope(const pv_loss *loss, double p, double y) noexcept:
    # a nondecreasing function clamped stays nondecreasing, so the clamp keeps every property that the
    # guarantee needs even where the user's bound was wrong
    cdef CustomCallbacks user = <CustomCallbacks>loss.user
    cdef double g = user.call(user.gradient, p, y)
    if g > loss.lipschitz:
        return loss.lipschitz
    if g < -loss.lipschitz:
        return -loss.lipschitz
    return g


cdef CustomCallbacks callbacks_of(object loss):
    return CustomCallbacks() if loss.code >= PV_LOSS_COUNT else None


cdef int bind_loss(pv_loss *loss, object description, CustomCallbacks user) except -1:
    cdef int code = description.code
    if user is None:
        pv_loss_bind(loss, code, description.width)
    else:
        user.value = description.value_function
        user.gradient = description.gradient_function
        # they need the GIL, which run() keeps for a user's loss: the cast through void * says "on purpose"
        loss.value = <loss_function><void *>custom_value
        loss.slope = <loss_function><void *>custom_slope
        loss.implicit = pv_implicit_bracketed
        loss.expand = NULL
        loss.width = 0.0
        loss.lipschitz = description.lipschitz_constant
        loss.user = <void *>user
    return 0


def loss_values(loss, p, y):
    """Value and slope of a built-in loss by the kernel, for arrays of predictions and targets."""
    cdef pv_loss c
    cdef double[::1] ps = np.ascontiguousarray(p, dtype=np.float64)
    cdef double[::1] ys = np.ascontiguousarray(y, dtype=np.float64)
    cdef double[::1] value = np.empty(ps.shape[0])
    cdef double[::1] slope = np.empty(ps.shape[0])
    cdef Py_ssize_t i
    cdef CustomCallbacks user = callbacks_of(loss)
    bind_loss(&c, loss, user)
    for i in range(ps.shape[0]):
        value[i] = c.value(&c, ps[i], ys[i])
        slope[i] = c.slope(&c, ps[i], ys[i])
    if user is not None and user.error is not None:
        raise user.error
    return np.asarray(value), np.asarray(slope)


def implicit_slope(loss, double k, double b, double c, double y) -> float:
    """Slope of the loss at the root m of ``k m + c slope(m) = b`` by the kernel."""
    cdef pv_loss table
    cdef CustomCallbacks user = callbacks_of(loss)
    bind_loss(&table, loss, user)
    cdef double g = table.implicit(&table, k, b, c, y)
    if user is not None and user.error is not None:
        raise user.error
    return g
