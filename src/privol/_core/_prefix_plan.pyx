"""The public numbers of a run of private prefix sums, checked: what the kernels rely on."""

import math

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t

from ..errors import InvalidParameter, StateError
from ._noise cimport pv_lattice_step

cnp.import_array()

LAST_STEP = 1 << 56  # 64 address rows a step
MOST_KEPT = 1 << 26  # values of a window
MAX_SHIFT = 40  # h = 2^shift g: the rest of a sum is exact in double precision

cdef dict DESIGNS = {
    "tree": PV_TREE, "honaker": PV_HONAKER, "smooth": PV_SMOOTH, "sqrt": PV_SQRT, "blt": PV_BLT,
    "independent": PV_INDEPENDENT, "banded": PV_BANDED,
}


def grid_of(double std, double total):
    """The grid g of the rows of an interval design: the least power of two with room for sums up to ``total``.

    Parameters
    ----------
    std : float
        Standard deviation of a draw, whose grid is h; 0: no noise, and g is the least that fits.
    total : float
        Bound of the magnitude of every exact sum.

    Returns
    -------
    float
        With total <= 2^61 g and h / 2^40 <= g <= h.

    Raises
    ------
    InvalidParameter
        If the sums do not fit into 62 bits on the noise's own grid.
    """
    cdef double g = 2.0 ** (math.frexp(total)[1] - 61)
    cdef double h = pv_lattice_step(std) if std > 0.0 else g
    if g > h:
        raise InvalidParameter(
            f"sums of up to {total:g} do not fit into 62 bits on the grid {h:g} of noise of standard deviation "
            f"{std:g}: lower epsilon, the bound or the horizon"
        )
    return max(g, h * 2.0**-MAX_SHIFT)


cdef class PrefixPlan:
    """The public numbers of a run of prefix sums.

    Parameters
    ----------
    design : {"tree", "honaker", "smooth", "sqrt", "blt", "independent", "banded"}
    width : int
        Coordinates of a row.
    horizon : int
        Rows that may be learnt.
    bound : float
        Rows are scaled to this L2 norm.
    std : float
        Standard deviation of every draw; 0: no noise.
    leaf : int
        Rows of a step.
    gram : bool
        Add up ``v v^T`` of a row v, as its upper triangle with off-diagonal entries times sqrt(2).
    ones : int
        "smooth": number of ones in a word.
    theta, omega : sequence of float
        "blt": decay and weight of the buffers.
    coefficients, decoder : sequence of float
        "sqrt": those of C and of B, for all steps; B's default to C's. "banded": those of C alone, for the first steps;
        the first one is 1.
    block : int or None
        "sqrt": steps for which the share of all earlier ones is computed at once, by a fast Fourier transform; 0: step
        by step. Default: 0 below 1024 steps, then near 8 times the root of their number.
    grid : float
        Interval designs: g; 0: :func:`grid_of` chooses it.
    discount : float
        "blt", "sqrt", "independent" and "banded": weight of the earlier sum at every step; above 0, at most 1.
    window : int
        The same designs: steps after which a leaf leaves the sum; 0: never. Not together with a discount.
    """

    def __init__(self, *, str design not None, int64_t width, int64_t horizon, double bound, double std, int64_t leaf=1,
                 bint gram=False, int ones=0, theta=(), omega=(), coefficients=(), decoder=None, double grid=0.0,
                 block=None, double discount=1.0, int64_t window=0):
        cdef double[::1] decay = np.array(theta, dtype=np.float64)
        cdef double[::1] weight = np.array(omega, dtype=np.float64)
        cdef double[::1] series = np.array(coefficients, dtype=np.float64)
        cdef double[::1] inverse = series if decoder is None else np.array(decoder, dtype=np.float64)
        if self.owners is not None:
            raise StateError("a plan cannot be started twice")
        if width < 1 or width > 1 << 32 or horizon < 1 or horizon > LAST_STEP or leaf < 1:
            raise InvalidParameter(f"no plan has rows of {width} coordinates, {horizon} rows, leaves of {leaf}")
        if not 1e-100 <= bound <= 1e100 or not (std == 0.0 or 1e-250 <= std <= 1e250):
            raise InvalidParameter(f"no plan has rows up to {bound:g} and noise of standard deviation {std:g}")
        if not 0.0 < discount <= 1.0 or window < 0 or (discount < 1.0 and window):
            raise InvalidParameter(f"no plan has a discount of {discount:g} and a window of {window} steps")
        self.owners = (decay, weight, series, inverse)
        self.design = design
        self.c.design = DESIGNS[design]
        self.c.width = width
        self.c.gram = gram
        self.c.dim = width * (width + 1) // 2 if gram else width
        if self.c.dim > 1 << 32:
            raise InvalidParameter(f"a gram of rows of {width} coordinates has {self.c.dim} entries, allowed are 2**32")
        self.c.horizon = horizon
        self.c.leaf = leaf
        self.c.steps = (horizon - 1) // leaf + 1
        self.c.bound = bound
        self.c.std = std
        self.c.noisy = std > 0.0
        self.c.discount = discount
        self.c.window = window if window < self.c.steps else 0
        if self.c.design <= PV_SMOOTH and (discount < 1.0 or window):
            raise InvalidParameter(f"the design {design} adds up intervals: it has no discount and no window")
        if self.c.design != PV_SQRT and self.c.window * self.c.dim > MOST_KEPT:
            raise InvalidParameter(f"a window of {window} steps of {self.c.dim} values is above {MOST_KEPT} values")
        largest = self.entry_bound() * leaf
        if self.c.design <= PV_SMOOTH:
            self.c.order = ones if design == "smooth" else int(self.c.steps).bit_length()
            if not 1 <= self.c.order <= 62:
                raise InvalidParameter(f"a word of the smooth design has 1 to 62 ones, found {ones}")
            self.c.grid = grid if grid > 0.0 else grid_of(std, self.entry_bound() * horizon)
            if math.frexp(self.c.grid)[0] != 0.5 or not self.entry_bound() * horizon <= 2.0**61.5 * self.c.grid:
                raise InvalidParameter(f"the grid {grid:g} is no power of two, or too fine for the sums of all rows")
            if std > 0.0:
                self.c.shift = round(math.log2(pv_lattice_step(std) / self.c.grid))
            if not 0 <= self.c.shift <= MAX_SHIFT:
                raise InvalidParameter(f"the grid {grid:g} does not fit noise of standard deviation {std:g}")
            self.c.magnitude = self.c.grid * 2.0**self.c.shift
        elif self.c.design == PV_BLT:
            self.c.order = decay.shape[0]
            if not 0 < decay.shape[0] == weight.shape[0] <= 64 or not all(0.0 < x < 1.0 for x in decay):
                raise InvalidParameter("theta and omega must have as many values, 1 to 64, theta between 0 and 1")
            self.c.theta, self.c.omega = &decay[0], &weight[0]
            gain = 1.0 + sum(abs(w) / (1.0 - t) for w, t in zip(weight, decay))
            self.c.magnitude = largest * gain * (1.0 + 1e-9)
        elif self.c.design == PV_SQRT:
            if series.shape[0] < self.c.steps:
                raise InvalidParameter(f"coefficients must have {self.c.steps} values, found {series.shape[0]}")
            if inverse.shape[0] < self.c.steps:
                raise InvalidParameter(f"decoder must have {self.c.steps} values, found {inverse.shape[0]}")
            self.c.coefficients, self.c.decoder = &series[0], &inverse[0]
            if block is None:
                block = 0 if self.c.steps < 1024 else 8 << (int(self.c.steps).bit_length() // 2)
            if not 0 <= block <= self.c.steps:
                raise InvalidParameter(f"a block has up to {self.c.steps} steps, found {block}")
            self.c.block = block
            self.c.magnitude = largest * float(np.sum(np.abs(series))) * (1.0 + 1e-9)
        elif self.c.design == PV_BANDED:
            if not 1 <= series.shape[0] <= self.c.steps or series[0] != 1.0:
                raise InvalidParameter(
                    f"coefficients must be 1 and up to {self.c.steps - 1} more, found {series.shape[0]}"
                )
            inverse = -np.asarray(series)
            self.owners = (decay, weight, series, inverse)
            self.c.order = series.shape[0] - 1
            self.c.coefficients, self.c.decoder = &series[0], &inverse[0]
            self.c.magnitude = largest * float(np.sum(np.abs(series))) * (1.0 + 1e-9)
        else:
            self.c.magnitude = largest * (1.0 + 1e-9)

    def followed_by(self, PrefixPlan plan):
        """Let the row after the last one begin an epoch of another plan or, with None, of this one again.

        The exact sums of the ended epoch are then wiped; what it released last stays in the sums that follow.
        """
        cdef PrefixPlan following = self if plan is None else plan
        if self.c.next != NULL:
            raise StateError("a plan is followed by one other")
        if (
            following.c.dim != self.c.dim or following.c.width != self.c.width or following.c.leaf != self.c.leaf
            or following.c.noisy != self.c.noisy or following.c.gram != self.c.gram
            or following.c.bound != self.c.bound or following.design != self.design
        ):
            raise InvalidParameter("the next plan must be of the same rows, sums and design, with noise like this")
        if self.c.discount < 1.0 or self.c.window or following.c.discount < 1.0 or following.c.window:
            raise InvalidParameter("sums that forget are of one plan: what was released before would stay in them")
        self.c.next = &following.c
        self.following = plan

    cdef double entry_bound(self) except -1.0:
        """Bound of the magnitude of a coordinate of what a row adds, rounding included."""
        return (self.c.bound * self.c.bound if self.c.gram else self.c.bound) * (1.0 + 1e-9)

    @property
    def dim(self) -> int:
        """Coordinates of a sum."""
        return self.c.dim

    @property
    def horizon(self) -> int:
        """Rows that may be learnt."""
        return self.c.horizon

    @property
    def steps(self) -> int:
        """Steps that may be made."""
        return self.c.steps

    @property
    def std(self) -> float:
        """Standard deviation of every draw."""
        return self.c.std

    @property
    def grid(self) -> float:
        """The grid g of the rows; 0 for designs that are computed in double precision."""
        return self.c.grid

    def numbers(self):
        """All numbers as one array: a checkpoint and the run that continues from it must agree on them."""
        plan = (self.c.design, self.c.width, self.c.gram, self.c.horizon, self.c.leaf, self.c.order, self.c.block,
                self.c.bound, self.c.std, self.c.grid, self.c.discount, self.c.window)
        rest = self.following.numbers() if self.following is not None else [self.c.next != NULL]
        return np.concatenate([np.array(plan, dtype=np.float64), *(np.asarray(owner) for owner in self.owners), rest])

    # ---- for runs of the plan -------------------------------------------------------------------------

    cdef int look_far(self, pv_prefix *s) except -1:
        """Give a square-root sum the contributions it lacks (PV_NEED_FAR), in an epoch of this plan or a later one."""
        if s.plan != &self.c:
            return self.following.look_far(s)
        inside, outside = self.owners[2:]
        self.convolve(s, inside, s.past, s.far)
        self.convolve(s, outside, s.noisy_past, s.noisy_far)
        s.far_step = s.made
        return 0

    cdef int convolve(self, const pv_prefix *s, given, double *past, double *out) except -1:
        """The contribution of all steps so far to the next block's: cyclic convolution, a few columns at a time."""
        cdef int64_t m = s.made
        cdef int64_t block = self.c.block
        cdef int64_t d = self.c.dim
        cdef cnp.npy_intp[2] shape
        shape[0], shape[1] = m, d
        before = cnp.PyArray_SimpleNewFromData(2, shape, cnp.NPY_DOUBLE, past)
        shape[0] = block
        share = cnp.PyArray_SimpleNewFromData(2, shape, cnp.NPY_DOUBLE, out)
        n = 1 << int(m + block - 1).bit_length()  # beyond n, indices wrap around to those below m, which nobody reads
        series = np.zeros(n)
        known = min(m + block, self.c.steps)
        series[:known] = np.asarray(given)[:known]
        transform = np.fft.rfft(series)
        for first in range(0, d, 16):
            columns = np.fft.rfft(before[:, first:first + 16].T, n)
            columns *= transform
            found = np.fft.irfft(columns, n)
            share[:, first:first + 16] = found[:, m:m + block].T
            columns.fill(0.0)
            found.fill(0.0)
        return 0

    cdef cnp.ndarray memory_of(self, const double *memory):
        """Copy of a run's memory, for checkpoints: integers, which no conversion changes."""
        kept = np.empty(pv_prefix_kept_size(&self.c), dtype=np.int64)
        pv_prefix_keep(&self.c, memory, cnp.PyArray_DATA(kept))
        return kept

    cdef int fill_memory(self, double *memory, kept) except -1:
        """Take over what ``memory_of`` gave."""
        cdef cnp.ndarray given = np.ascontiguousarray(kept).view(np.int64)
        if given.ndim != 1 or <size_t>given.shape[0] != pv_prefix_kept_size(&self.c):
            raise StateError("the checkpoint is damaged")
        pv_prefix_restore(&self.c, cnp.PyArray_DATA(given), memory)
        return 0

    cdef object counts(self, const pv_prefix *s):
        """The position of a run between two rows: for checkpoints, with its memory."""
        return np.array([s.rows, s.step, s.in_leaf, s.word, s.far_step, s.epoch], dtype=np.int64)

    cdef int64_t epoch_of(self, counts) except -1:
        """The epoch in a result of ``counts`` for a run that this plan began, after checking all of it."""
        cdef PrefixPlan plan = self
        if np.shape(counts) != (6,):
            raise StateError("the checkpoint is damaged")
        rows, step, in_leaf, word, far_step, epoch = (int(c) for c in counts)
        later = epoch
        while later > 0 and plan.following is not None:
            plan, later = plan.following, later - 1
        ones = plan.c.order if plan.c.design == PV_SMOOTH else 0
        if (
            min(rows, step, in_leaf, word, far_step, epoch) < 0 or rows > plan.c.horizon or step > plan.c.steps
            or in_leaf >= plan.c.leaf or far_step > step or word.bit_count() != ones
            or later > (LAST_STEP // plan.c.horizon if plan.c.next != NULL else 0)
        ):
            raise StateError("the checkpoint is damaged")
        return epoch

    cdef int restore(self, pv_prefix *s, counts) except -1:
        """Restore a result of ``counts`` within its epoch; the caller handles the memory."""
        s.rows, s.step, s.in_leaf, s.word, s.far_step = (int(c) for c in counts[:5])
        s.made = s.step
        return 0


cdef class ByEpoch:
    """A public number for each of the epochs 0, 1, ... of a run.

    Parameters
    ----------
    at : sequence of float
        The numbers of the first epochs, at least one.
    more : float
        What is added from each epoch to the next, from the last listed one on.
    """

    def __init__(self, at, double more=0.0):
        cdef double[::1] numbers = np.array(at, dtype=np.float64)
        if numbers.shape[0] < 1:
            raise InvalidParameter("at least one number is needed")
        self.owner = numbers
        self.c.last = numbers.shape[0] - 1
        self.c.at = &numbers[0]
        self.c.more = more
