"""Magnitude and potential of coin betting with a uniform prior on the betting fractions."""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport isfinite
from libc.stdint cimport int64_t

from ..errors import InvalidParameter

cdef extern from "betting/pv_magnitude.h" nogil:
    ctypedef enum pv_coin:
        PV_COIN_MAGNITUDE
        PV_COIN_LOG_MAGNITUDE
        PV_COIN_LOG_POTENTIAL

    ctypedef void (*pv_coin_function)(pv_coin what, const double *x, int64_t sx, const double *y, int64_t sy,
                                      const double *a, int64_t sa, double *out, int64_t n) noexcept nogil

    double pv_magnitude(double x, double y, double a) noexcept
    double pv_log_magnitude(double x, double y, double a) noexcept
    double pv_log_potential(double x, double y, double a) noexcept
    pv_coin_function pv_coin_level(int level) noexcept

cdef extern from "noise/pv_first_pass.h" nogil:
    int pv_first_pass_levels() noexcept

cdef int64_t _BLOCK = 65536  # triples between two checks for signals

cdef dict _ALLOWED = {
    "x": "finite numbers",
    "y": "finite numbers of at least 0",
    "a": "finite numbers above 0",
}


cdef inline bint allowed(double value, int rank) noexcept nogil:
    # rank: 0 for x, 1 for y, 2 for a
    return isfinite(value) and (rank == 0 or value > 0.0 or (rank == 1 and value == 0.0))


cdef object refuse(str name, object values, int64_t at):
    array = np.asarray(values)
    where = ""
    if array.ndim:
        where = f" at {name}[{', '.join(map(str, np.unravel_index(at, array.shape)))}]"
    return InvalidParameter(f"{name} must be {_ALLOWED[name]}, found {float(array.flat[at])}{where}")


cdef int64_t first_refused(const double[::1] values, int rank) noexcept nogil:
    cdef int64_t i
    for i in range(values.shape[0]):
        if not allowed(values[i], rank):
            return i
    return -1


cdef object one(int what, double x, double y, double a):
    if not allowed(x, 0):
        raise refuse("x", x, 0)
    if not allowed(y, 1):
        raise refuse("y", y, 0)
    if not allowed(a, 2):
        raise refuse("a", a, 0)
    if what == PV_COIN_MAGNITUDE:
        return pv_magnitude(x, y, a)
    if what == PV_COIN_LOG_MAGNITUDE:
        return pv_log_magnitude(x, y, a)
    return pv_log_potential(x, y, a)


cdef object evaluate(int what, object x, object y, object a, int level):
    cdef const double[::1] values
    cdef const double *data[3]
    cdef int64_t stride[3]
    cdef int64_t at, n, m
    cdef int i
    cdef double[::1] out
    cdef pv_coin_function run
    if level < 0 and isinstance(x, float) and isinstance(y, float) and isinstance(a, float):
        return one(what, x, y, a)
    given = []
    for name, value in (("x", x), ("y", y), ("a", a)):
        array = np.asarray(value)
        if array.dtype.kind not in "iuf":
            raise InvalidParameter(f"{name} must be {_ALLOWED[name]}, found an array of dtype {array.dtype}")
        given.append(array)
    try:
        shape = np.broadcast_shapes(*(array.shape for array in given))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in given)
        raise InvalidParameter(f"x, y and a must broadcast against each other, found shapes {shapes}") from None
    owners = []  # owners of the memory that data points to
    for i, name in enumerate(_ALLOWED):
        array = np.ascontiguousarray(given[i], dtype=np.float64).reshape(given[i].shape)
        values = array.reshape(-1)
        at = first_refused(values, i)
        if at >= 0:
            raise refuse(name, array, at)
        stride[i] = array.size != 1
        if stride[i] and array.shape != shape:
            array = np.ascontiguousarray(np.broadcast_to(array, shape))
            values = array.reshape(-1)
        owners.append(array)
        data[i] = &values[0] if values.shape[0] else NULL
    result = np.empty(shape)
    out = result.reshape(-1)
    n = out.shape[0]
    at = 0
    run = pv_coin_level(pv_first_pass_levels() - 1 if level < 0 else level)
    while at < n:
        m = min(n - at, _BLOCK)
        with nogil:
            run(<pv_coin>what, data[0] + at * stride[0], stride[0], data[1] + at * stride[1], stride[1],
                data[2] + at * stride[2], stride[2], &out[at], m)
        at += m
        PyErr_CheckSignals()
    del owners
    return result if result.ndim else float(result)


def magnitude(x, y, a):
    """The derivative in x of the potential: a coin bettor's next signed bet, per unit of initial wealth.

    ``m = (1/2a) * integral of beta exp(beta x - beta^2 y) over |beta| <= a``. The relative error is below 1e-13 if m is
    a normal number, and the bits are the same on every processor.

    Parameters
    ----------
    x : float or array_like
        Sum of the coins' outcomes; finite.
    y : float or array_like
        Sum of their variance proxies, which damps the bet; finite and at least 0.
    a : float or array_like
        Largest betting fraction; finite and above 0. The three broadcast against each other.

    Returns
    -------
    float or ndarray of float64
        Odd and increasing in x; infinite, with the sign of x, above the largest double, where :func:`log_magnitude`
        still has it. A float for three numbers.

    Raises
    ------
    InvalidParameter
        For the first element out of its range, before anything is computed.
    """
    return evaluate(PV_COIN_MAGNITUDE, x, y, a, -1)


def log_magnitude(x, y, a):
    """Logarithm of ``|magnitude(x, y, a)|``, -inf at x = 0; its error is below 1e-13 max(1, |result|).

    Parameters, shapes and errors as for :func:`magnitude`.
    """
    return evaluate(PV_COIN_LOG_MAGNITUDE, x, y, a, -1)


def log_potential(x, y, a):
    """Logarithm of the potential ``(1/2a) * integral of exp(beta x - beta^2 y) over |beta| <= a``.

    It is the logarithm of the wealth of a bettor who starts with 1. Error, parameters and shapes as for
    :func:`log_magnitude`.
    """
    return evaluate(PV_COIN_LOG_POTENTIAL, x, y, a, -1)


def at_every_level(x, y, a):
    """Rows (magnitude, log_magnitude, log_potential), one for each instruction-set level here, slowest first."""
    return [[evaluate(what, x, y, a, level) for what in range(3)] for level in range(pv_first_pass_levels())]
