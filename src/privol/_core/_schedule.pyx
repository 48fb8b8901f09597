"""Step weights, sensitivities and noise scales by row number."""

import numpy as np

from libc.stdint cimport int64_t


cdef class Schedule:
    """Step weights, sensitivities and noise scales as functions of the row number.

    Parameters
    ----------
    kind : int
        0: constant strong convexity ``l2``; 1: ``2 l2 (sqrt(t) - sqrt(t - 1))``; 2: published gradient step.
    a0 : float
        A_0, the weight of the start.
    l2 : float
    first : int
        Earlier rows do not move the iterate.
    diameter : float
        Gradient diameter D.
    rounding : tuple of three floats
        (e0, e1, e2) of E_t = e0 + e1 t + e2 sum of A_i up to t.
    cap : float
        Diameter of the feasible set.
    shape : int
        0 paper, 1 lipschitz, 2 smooth.
    gain : float
        Factor of the noise scale; 0 for no noise.
    """

    def __init__(self, *, int kind, double a0, double l2, int64_t first, double diameter, tuple rounding,
                 double cap, int shape, double gain):
        self.c.kind = kind
        self.c.a0 = a0
        self.c.l2 = l2
        self.c.first = first
        self.c.diameter = diameter
        self.c.round0, self.c.round1, self.c.round2 = rounding
        self.c.cap = cap
        self.c.shape = shape
        self.c.gain = gain

    def with_gain(self, double gain) -> Schedule:
        """The same schedule with another noise factor."""
        cdef Schedule other = Schedule.__new__(Schedule)
        other.c = self.c
        other.c.gain = gain
        return other

    def weight(self, int64_t t) -> float:
        """A_t."""
        return pv_schedule_weight(&self.c, t)

    def sensitivity(self, int64_t t) -> float:
        """Largest change of x_{t+1} when one of rows 1..t is replaced."""
        return pv_schedule_sensitivity(&self.c, t)

    def std(self, int64_t t) -> float:
        """Standard deviation of the noise of the release after row t."""
        return pv_schedule_std(&self.c, t)

    @property
    def first(self) -> int:
        """First row that moves the iterate."""
        return self.c.first

    @property
    def gain(self) -> float:
        """Factor of the noise scale; 0: no noise."""
        return self.c.gain

    def rounding(self, int64_t t) -> float:
        """The addition of rounding alone to the sensitivity after row t."""
        cdef pv_schedule c = self.c
        c.diameter = 0.0
        return pv_schedule_sensitivity(&c, t)

    def arrays(self, int64_t first, int64_t stride, int64_t n):
        """Sensitivities and standard deviations at rows first, first + stride, ... (n of them)."""
        cdef double[::1] sensitivity = np.empty(n)
        cdef double[::1] std = np.empty(n)
        if n:
            with nogil:
                pv_schedule_fill(&self.c, first, stride, n, &sensitivity[0], &std[0])
        return np.asarray(sensitivity), np.asarray(std)

    def at(self, const int64_t[::1] rows not None):
        """Sensitivities and standard deviations at the given rows."""
        cdef double[::1] sensitivity = np.empty(rows.shape[0])
        cdef double[::1] std = np.empty(rows.shape[0])
        cdef int64_t i
        with nogil:
            for i in range(rows.shape[0]):
                sensitivity[i] = pv_schedule_sensitivity(&self.c, rows[i])
                std[i] = pv_schedule_std(&self.c, rows[i])
        return np.asarray(sensitivity), np.asarray(std)
