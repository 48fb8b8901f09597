"""Loss tables for the kernels: the built-in losses in C, a user's own loss through Python calls."""

import numpy as np

from libc.math cimport NAN, fabs, fmax, fmin, isfinite
from libc.stdint cimport int64_t

from ..errors import InvalidParameter

ctypedef double (*loss_function)(const pv_loss *, double, double) noexcept nogil


cdef class CustomCallbacks:
    """Calls a user's Python loss from the kernels, with the GIL held throughout, and keeps the first exception."""

    cdef double call(self, object function, double p, double y) noexcept:
        cdef double result = NAN
        if self.error is None:
            try:
                result = function(p, y)
            except BaseException as error:  # noqa: re-raised by the caller of the kernel, after the block is undone
                self.error = error
        return result

    cdef double finite(self, object function, double p, double y) noexcept:
        """Call for a finite number; of any other outcome only its kind is kept, because the row is private."""
        if self.error is not None:
            return NAN
        cdef double result = self.call(function, p, y)
        if self.error is not None or not isfinite(result):
            try:
                self.error = without_rows(self.error)
            except BaseException as error:  # noqa: raised by the caller of the kernel as well
                self.error = error
            return NAN
        return result


cdef object without_rows(object error):
    """A user's loss's outcome (None: a number that is not finite) as an error that reveals nothing about its row."""
    if error is not None and not isinstance(error, Exception):  # an interrupt: its traceback contains a prediction
        error.__context__ = error.__cause__ = None
        return error.with_traceback(None)
    what = "returned a number that is not finite" if error is None else f"raised {type(error).__name__}"
    return InvalidParameter(
        f"the user's loss {what}, for a row that is not named, as it is private: its functions must return finite "
        "numbers for every prediction and admissible target"
    )


cdef double custom_value(const pv_loss *loss, double p, double y) noexcept:
    cdef CustomCallbacks user = <CustomCallbacks>loss.user
    return user.call(user.value, p, y)


cdef double custom_slope(const pv_loss *loss, double p, double y) noexcept:
    # clamping a nondecreasing function keeps it nondecreasing, so every property that the guarantee needs holds even if
    # the user's bound was wrong
    cdef CustomCallbacks user = <CustomCallbacks>loss.user
    return clamped(user.call(user.gradient, p, y), loss.lipschitz)


cdef inline double clamped(double g, double most) noexcept:
    if g > most:
        return most
    if g < -most:
        return -most
    return g


cdef double custom_rows(const pv_loss *loss, int64_t n, double *p, double *y, double *slope, double *curve) noexcept:
    # the curvature is a difference quotient over a small part of the loss's narrowest bend, wider than the rounding of
    # p: it steers a solver, and no certificate rests on it
    cdef CustomCallbacks user = <CustomCallbacks>loss.user
    cdef double most = loss.lipschitz, bend = 1.0 if loss.curvature <= most else most / loss.curvature
    cdef double value = 0.0, near, rise, g
    cdef object of_value = user.value, of_gradient = user.gradient
    cdef int64_t i
    for i in range(n):
        value += user.finite(of_value, p[i], y[i])
        g = user.finite(of_gradient, p[i], y[i])
        slope[i] = clamped(g, most)
        near = p[i] + fmax(2.0 ** -20 * bend, 2.0 ** -36 * (fabs(p[i]) + fabs(y[i])))
        g = user.finite(of_gradient, near, y[i])
        rise = (clamped(g, most) - slope[i]) / (near - p[i])
        curve[i] = fmin(rise, loss.curvature) if rise > 0.0 else 0.0
    return value


cdef CustomCallbacks callbacks_of(object loss):
    return CustomCallbacks() if loss.code == PV_CUSTOM else None


cdef int bind_loss(pv_loss *loss, object description, CustomCallbacks user) except -1:
    cdef int code = description.code
    if not 0 <= code < PV_LOSS_COUNT and (user is None or code != PV_CUSTOM):
        raise InvalidParameter(
            f"the kernels do not know the loss {description.name!r}, whose code is {code}: give a losses.Custom for a "
            "loss of your own"
        )
    if user is None:
        pv_loss_bind(loss, code, description.width)
    else:
        user.value = description.value_function
        user.gradient = description.gradient_function
        # they need the GIL, which run() holds for a user's loss: the cast through void * marks this as intended
        loss.value = <loss_function><void *>custom_value
        loss.slope = <loss_function><void *>custom_slope
        loss.implicit = pv_implicit_bracketed
        loss.expand = NULL
        loss.off = pv_custom_off
        loss.width = 0.0
        loss.lipschitz = description.lipschitz_constant
        loss.curvature = description.curvature
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
    """Slope of the loss at the root m of ``k m + c slope(m) = b``, by the kernel."""
    cdef pv_loss table
    cdef CustomCallbacks user = callbacks_of(loss)
    bind_loss(&table, loss, user)
    cdef double g = table.implicit(&table, k, b, c, y)
    if user is not None and user.error is not None:
        raise user.error
    return g
