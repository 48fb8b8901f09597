"""Turns one dict into a row of features, with the same bits as whole columns give, but without their cost."""

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport PyObject
from libc.math cimport fabs, isinf
from libc.stdint cimport int32_t, int64_t

from ..errors import InvalidParameter

from ._rows cimport PV_ENTRY_MAX, exact, is_plain_cell, next_cell
from ._text cimport (
    PV_CELL_MISSING, PV_CELL_NUMBER, PV_CELL_OPEN, PV_CELL_TIME, PV_PART_ENTRIES, PV_PART_FLAG, PV_PART_FUNCTIONS,
    PV_PART_NUMBERS, PV_STATE_MISSING, PV_STATE_UNKNOWN, PV_TURN, Form, pv_between, pv_between_one, pv_cycles,
    pv_dense_row, pv_knots, pv_look, pv_part, pv_part_kind,
)

cnp.import_array()

cdef extern from "Python.h":
    # Borrowed references: the row keeps its cells alive only until other code runs, so each is held before Python is
    # called.
    PyObject *PyTuple_GET_ITEM(tuple names, Py_ssize_t j)
    PyObject *PyDict_GetItemWithError(dict x, PyObject *name) except? NULL
    bint PyFloat_CheckExact(PyObject *value)
    bint PyUnicode_CheckExact(PyObject *value)
    bint PyLong_CheckExact(PyObject *value)
    bint PyBool_Check(PyObject *value)
    double PyFloat_AS_DOUBLE(PyObject *value)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    PyObject *Py_None

cdef enum Kind:
    OF_NUMBERS
    OF_TEXT
    OF_KNOTS

cdef enum Shape:
    COSINE
    SPLINE
    LINEAR
    BINS
    APART

cdef enum Missing:
    REFUSED
    ZERO
    FILLED

cdef enum:
    MOST_CYCLES = 3
    MOST_SIDES = 2

cdef dict SHAPES = {"cosine": COSINE, "spline": SPLINE, "linear": LINEAR, "bins": BINS, "apart": APART}
cdef double NO_NUMBER = np.nan

# Texts that a column remembers; this bounds memory, not correctness.
cdef Py_ssize_t MOST_TEXTS = 1 << 16


# What a column contributes to a row, and where the parts of the row find it: the struct does not move.
cdef struct Column:
    Kind kind
    Shape shape
    Missing missing
    bint times
    bint bare                # a number contributes only what its position between knots says
    bint log
    bint moved
    int32_t feature
    int32_t flag             # the feature of a missing cell; -1: it has none
    int32_t crossed_flag     # the same for what it contributes to a cross
    int32_t cycles
    int32_t side_entries
    pv_knots knots
    double period[MOST_CYCLES]
    double start[MOST_CYCLES]
    double middle, half, limit, fill
    double onto_first, onto_last
    # of the row
    double value[MOST_SIDES]
    int32_t place[MOST_SIDES]
    int32_t left
    double share
    unsigned char state
    double cycled[2 * MOST_CYCLES]


cdef struct CrossOf:
    int32_t left, right, feature, width, n
    int32_t place[MOST_SIDES * MOST_SIDES]
    double value[MOST_SIDES * MOST_SIDES]


cdef bint suspect(tuple numbers, double x) except -1:
    for marker in numbers:
        if x == <double>marker:
            return True
    return False


cdef bint look(Form form, object text, double *value, unsigned char *cell) except -1:
    """Find what a text means; False: it has half of a surrogate pair, or is too long."""
    cdef Py_ssize_t size = 0
    cdef const char *data
    cdef int32_t ends[2]
    try:
        data = PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:
        return False
    if size > 1 << 20:
        return False
    ends[0], ends[1] = 0, <int32_t>size
    pv_look(&form.written, 1, ends, <const unsigned char *>data, value, cell, NULL)
    return True


@cython.final
cdef class RowCode:
    """Makes dense rows from dicts.

    Parameters
    ----------
    means : ndarray of float64, shape (width,)
        What is subtracted from the features.
    others : sequence of str
        Columns that a row may have besides those added here.
    numbers, cells : Form
        How cells of text are written in columns of numbers, and in columns of any cells.
    markers, suspects : tuple of float
        Numbers that stand for a missing cell; and numbers whose text may, including these.
    text_of : callable
        Returns the text of a cell, or None; raises if the cell cannot be read.
    """

    cdef double[::1] means
    cdef int64_t width
    cdef tuple names
    cdef tuple keys        # of rows, in their order, then the columns that they do not have
    cdef int64_t[::1] order  # the column of each; -1: none
    cdef bint followed
    cdef frozenset others
    cdef Form form_of_numbers
    cdef Form form_of_cells
    cdef tuple markers
    cdef tuple suspects
    cdef bint any_suspect
    cdef bint busy         # making a row, possibly in another thread
    cdef object text_of
    cdef list asks         # for each column: a function
    cdef list known        # for each column of text: places of texts
    cdef list held         # arrays that the structs point into
    cdef Column *columns
    cdef int64_t n_columns, room
    cdef CrossOf *crosses
    cdef int64_t n_crosses, cross_room
    cdef pv_part *parts
    cdef int64_t n_parts
    cdef object turn
    cdef const double *turns

    def __init__(self, double[::1] means not None, others, Form numbers not None, Form cells not None, markers,
                 suspects, text_of, *, int64_t n_columns, int64_t n_crosses):
        if means.shape[0] < 1 or n_columns < 1 or n_crosses < 0:
            raise InvalidParameter("rows must have a column and a feature")
        self.means, self.width, self.others = means, means.shape[0], frozenset(others)
        self.names, self.form_of_numbers, self.form_of_cells = (), numbers, cells
        self.markers, self.suspects, self.text_of = tuple(markers), tuple(suspects), text_of
        self.any_suspect = bool(self.suspects)
        self.asks, self.known, self.held = [], [], []
        self.room, self.cross_room = n_columns, n_crosses
        self.columns = <Column *>PyMem_Calloc(n_columns, sizeof(Column))
        self.crosses = <CrossOf *>PyMem_Calloc(n_crosses + 1, sizeof(CrossOf))
        # a part for its features, one for its flag and two for each cycle
        self.parts = <pv_part *>PyMem_Calloc(n_columns * (2 + 2 * MOST_CYCLES) + n_crosses, sizeof(pv_part))
        if self.columns == NULL or self.crosses == NULL or self.parts == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.columns)
        PyMem_Free(self.crosses)
        PyMem_Free(self.parts)

    # ---- columns ------------------------------------------------------------------------------

    cdef Column *add(self, str name, Kind kind, int64_t feature, int64_t features, ask) except NULL:
        cdef Column *column
        if self.n_columns == self.room or feature < 0 or features < 1 or feature + features > self.width:
            raise InvalidParameter(f"column {name!r} is beyond the columns or features of the row")
        column = &self.columns[self.n_columns]
        self.n_columns += 1
        self.names = (*self.names, name)
        self.asks.append(ask)
        self.known.append({})
        column.kind, column.feature, column.flag = kind, <int32_t>feature, -1
        return column

    cdef pv_part *part(self, pv_part_kind kind, int64_t feature) except NULL:
        cdef pv_part *part = &self.parts[self.n_parts]
        self.n_parts += 1
        part.kind, part.feature, part.n_cells = kind, feature, 1
        return part

    def number(self, str name, int64_t feature, *, missing, bint flag, double middle, double half, double limit,
               onto, scale):
        """Add a column of numbers that are used as they are.

        Parameters
        ----------
        missing : {"refuse", "zero"} or float
            "refuse": a row without this cell is left to other code.
        flag : bool
            Whether the next feature says that the cell is missing.
        middle, half, limit : float
            Subtracted, divided by, and the limit that the result is clipped to.
        onto : (float, float) or None
            The interval that the result is mapped to.
        scale : callable or None
            Does all of that in place of these numbers.
        """
        cdef Column *column = self.add(name, OF_NUMBERS, feature, 1 + flag, scale)
        cdef pv_part *part
        column.middle, column.half, column.limit, column.log = middle, half, limit, scale is not None
        if onto is not None:
            column.moved, column.onto_first, column.onto_last = True, onto[0], onto[1]
        if not isinstance(missing, str):
            column.missing, column.fill = FILLED, missing
        else:
            column.missing = {"refuse": REFUSED, "zero": ZERO}[missing]
        part = self.part(PV_PART_NUMBERS, feature)
        part.values, part.width = &column.value[0], 1
        if flag:
            column.flag = <int32_t>(feature + 1)
            part = self.part(PV_PART_FLAG, feature + 1)
            part.states, part.mask = &column.state, PV_STATE_MISSING

    def text(self, str name, int64_t feature, int64_t features, place_of):
        """Add a column of text: ``place_of`` returns the feature of a text or of None, negative if it has none.

        At -4 and below, the row is left to other code.
        """
        cdef Column *column = self.add(name, OF_TEXT, feature, features, place_of)
        cdef pv_part *part = self.part(PV_PART_ENTRIES, 0)
        part.places, part.width = &column.place[0], 1
        column.side_entries = 1
        column.crossed_flag = -1

    def knots(self, str name, int64_t feature, shape, const double[::1] knots, const double[::1] factors,
              const double[::1] lows, const double[::1] widths, functions, flag, int64_t crossed_flag, cycles,
              const double[:, ::1] turn, bint times, told):
        """Add a column of numbers as functions of them.

        Parameters
        ----------
        knots, factors, lows, widths : ndarray of float64
            As of :class:`~privol._core._text.Hats`.
        functions : ndarray of float64, shape (knots, k), or None
            Of the shape "cosine".
        flag : int or None
            Feature of a missing cell.
        crossed_flag : int
            The same of what it brings into a cross; -1: none.
        cycles : sequence of (period, start)
        turn : ndarray of float64, shape (256, 2)
        times : bool
            Whether the cells are times.
        told : callable
            Returns (value, kind) of a text that needs a slower reader.
        """
        cdef int64_t n = knots.shape[0] - 1, own, first, k, j
        cdef Column *column
        cdef pv_part *part
        cdef const double[:, ::1] values
        cdef const double[:, ::1] steps
        cdef Shape form = SHAPES[shape]
        if n < 1 or factors.shape[0] != n or lows.shape[0] != n or widths.shape[0] != n:
            raise InvalidParameter("shapes of knots and intervals differ")
        if turn.shape[0] != PV_TURN or turn.shape[1] != 2 or len(cycles) > MOST_CYCLES:
            raise InvalidParameter("a turn has 256 parts with two values each, and there are three cycles")
        own = {COSINE: n, SPLINE: n + 1, LINEAR: 1, BINS: n, APART: 2}[form]
        if form == COSINE:
            if functions.shape[0] != n + 1:
                raise InvalidParameter("shapes of knots and functions differ")
            own = functions.shape[1]
        first = feature + own
        k = own + 2 * len(cycles) + (flag is not None)
        column = self.add(name, OF_KNOTS, feature, k, told)
        column.shape, column.times = form, times
        column.knots = pv_knots(n, &knots[0], &factors[0], &lows[0], &widths[0])
        column.side_entries = 2 if form == COSINE or form == SPLINE else 1
        column.crossed_flag = <int32_t>crossed_flag
        self.held.append((knots, factors, lows, widths, turn))
        self.turns = &turn[0, 0]
        if form == COSINE:
            values, steps = np.ascontiguousarray(functions[:n]), np.ascontiguousarray(np.diff(functions, axis=0))
            self.held.append((values, steps))
            part = self.part(PV_PART_FUNCTIONS, feature)
            part.width, part.intervals, part.values, part.steps = own, n, &values[0, 0], &steps[0, 0]
            part.places, part.share = &column.left, &column.share
        else:
            part = self.part(PV_PART_ENTRIES, 0)
            part.width, part.places, part.values = column.side_entries, &column.place[0], &column.value[0]
        for k, (period, start) in enumerate(cycles):
            column.period[k], column.start[k] = period, start
            column.cycles += 1
            for j in range(2 * k, 2 * k + 2):
                part = self.part(PV_PART_NUMBERS, first + j)
                part.values, part.width = &column.cycled[j], 1
        column.bare = form == COSINE and not times and column.cycles == 0 and not self.any_suspect
        if flag is not None:
            if flag != first + 2 * column.cycles:
                raise InvalidParameter("the feature of a missing cell must be the last one")
            column.flag = flag
            part = self.part(PV_PART_FLAG, column.flag)
            part.states, part.mask = &column.state, PV_STATE_MISSING | PV_STATE_UNKNOWN

    def cross(self, int64_t left, int64_t right, int64_t feature, int64_t width):
        """Add the products of two columns, given by number; the right one contributes ``width`` features."""
        cdef CrossOf *cross
        cdef pv_part *part
        if self.n_crosses == self.cross_room or not (0 <= left < self.n_columns and 0 <= right < self.n_columns):
            raise InvalidParameter("a cross of columns that are not there")
        cross = &self.crosses[self.n_crosses]
        self.n_crosses += 1
        cross.left, cross.right = <int32_t>left, <int32_t>right
        cross.feature, cross.width = <int32_t>feature, <int32_t>width
        cross.n = self.columns[left].side_entries * self.columns[right].side_entries
        part = self.part(PV_PART_ENTRIES, 0)
        part.width, part.places, part.values = cross.n, &cross.place[0], &cross.value[0]

    # ---- rows ---------------------------------------------------------------------------------

    def row(self, x):
        """Return the row of a dict, shape (width,); None if other code must read or refuse it."""
        if type(x) is not dict or self.n_columns != self.room or self.n_crosses != self.cross_room or self.busy:
            return None
        self.busy = True
        try:
            return self.made(x)
        finally:
            self.busy = False

    cdef int follow(self, keys) except -1:
        """Visit the columns in the order in which a row has them: the next rows mostly have the same keys."""
        left = {name: j for j, name in enumerate(self.names)}
        order = [left.pop(key, -1) for key in keys]
        self.order = np.array([*order, *left.values()], dtype=np.int64)
        self.keys = (*keys, *left)
        return 0

    cdef object made(self, dict x):
        cdef int64_t i, j, found = 0
        cdef Py_ssize_t at = 0
        cdef cnp.npy_intp width = self.width
        cdef PyObject *cell
        cdef Column *column
        cdef cnp.ndarray row
        cdef double value
        cdef bint said
        if self.keys is None:
            self.follow(())
        for i in range(self.order.shape[0]):
            cell = next_cell(x, PyTuple_GET_ITEM(self.keys, i), &at)
            j = self.order[i]
            if j < 0:
                continue
            column = &self.columns[j]
            if cell == NULL:
                cell = Py_None
            else:
                found += 1
                if column.bare and PyFloat_CheckExact(cell):
                    value = PyFloat_AS_DOUBLE(cell)
                    if value == value:
                        pv_between_one(&column.knots, value, &column.left, &column.share, &column.state)
                        continue
            if column.kind == OF_KNOTS:
                said = self.knots_of(column, j, cell)
            elif column.kind == OF_TEXT:
                said = self.text_place(column, j, cell)
            else:
                said = self.number_of(column, j, cell)
            if not said:
                return None
        if found < len(x) and not self.rest_is_plain(x):
            return None
        if not self.followed:
            self.follow(list(x))
            self.followed = True
        for j in range(self.n_crosses):
            self.multiply(&self.crosses[j])
        row = cnp.PyArray_EMPTY(1, &width, cnp.NPY_DOUBLE, 0)
        pv_dense_row(self.n_parts, self.parts, width, &self.means[0], <double *>cnp.PyArray_DATA(row))
        return row

    cdef bint rest_is_plain(self, dict x) except -1:
        """Whether all other cells belong to known columns and can be read."""
        for name, value in x.items():
            if name in self.others:
                if not is_plain_cell(value):
                    return False
            elif name not in self.names:
                return False
        return True

    cdef bint number_of(self, Column *column, int64_t j, PyObject *found) except -1:
        """Read a cell of a column of numbers; False: other code must."""
        cdef double x = NO_NUMBER
        cdef int64_t whole
        cdef unsigned char cell
        if PyFloat_CheckExact(found):
            x = PyFloat_AS_DOUBLE(found)
        elif found == Py_None:
            pass
        elif PyLong_CheckExact(found) or PyBool_Check(found):
            if not exact(<object>found, &whole):
                return False
            x = <double>whole
        elif PyUnicode_CheckExact(found):
            text = <object>found
            if not look(self.form_of_numbers, text, &x, &cell):
                return False
            if cell != PV_CELL_NUMBER and cell != PV_CELL_MISSING:
                return False
        elif type(<object>found) is np.float64:
            x = <object>found
        else:
            return False
        if self.any_suspect and suspect(self.markers, x):
            x = NO_NUMBER
        column.state = 0
        if x != x:
            column.state = PV_STATE_MISSING
            if column.missing == REFUSED:
                return False
            if column.missing == ZERO:
                column.value[0] = 0.0
                return True
            x = column.fill
        if column.log:
            x = self.asks[j](x)
        elif not isinf(x):
            x = (x - column.middle) / column.half
            x = -column.limit if x < -column.limit else column.limit if x > column.limit else x
            if column.moved:
                x = (column.onto_first / 2 + column.onto_last / 2) + x * (column.onto_last / 2 - column.onto_first / 2)
                x = (column.onto_first if x < column.onto_first else column.onto_last if x > column.onto_last else x)
        column.value[0] = x
        return fabs(x) <= PV_ENTRY_MAX  # other code reports which cell is too large to be learnt

    cdef bint text_place(self, Column *column, int64_t j, PyObject *found) except -1:
        """Read a cell of a column of text."""
        cdef dict known = self.known[j]
        cdef PyObject *place
        cell = <object>found
        if not PyUnicode_CheckExact(found) and found != Py_None:
            try:
                cell = self.text_of(cell)
            except Exception:  # other code says why
                return False
        place = PyDict_GetItemWithError(known, <PyObject *>cell)
        if place == NULL:
            try:
                if isinstance(cell, str):
                    cell.encode()  # a cell that is not text is refused, even if any text has a place
                value = self.asks[j](cell)
            except Exception:
                return False
            if len(known) >= MOST_TEXTS:
                known.clear()
            known[cell] = value
            column.place[0] = value
        else:
            column.place[0] = <object>place
        return column.place[0] > -4 and column.place[0] < self.width

    cdef bint knots_of(self, Column *column, int64_t j, PyObject *found) except -1:
        """Read a cell of a column of numbers between knots, or of times."""
        cdef double x = NO_NUMBER
        cdef double share
        cdef double *cosine
        cdef int64_t whole
        cdef unsigned char cell = PV_CELL_MISSING
        cdef unsigned char right = PV_CELL_TIME if column.times else PV_CELL_NUMBER
        cdef int32_t k
        cdef bint none, as_text = False
        if PyFloat_CheckExact(found):
            x = PyFloat_AS_DOUBLE(found)
            cell = PV_CELL_MISSING if x != x else PV_CELL_NUMBER
            as_text = self.any_suspect and suspect(self.suspects, x)
        elif found == Py_None:
            pass
        elif PyLong_CheckExact(found):
            if not exact(<object>found, &whole):
                return False
            x, cell = <double>whole, PV_CELL_NUMBER
            as_text = self.any_suspect and suspect(self.suspects, x)
        else:
            as_text = True
        if as_text:
            text = <object>found
            if not PyUnicode_CheckExact(found):
                try:
                    text = self.text_of(text)
                except Exception:
                    return False
            if text is None:
                x, cell = NO_NUMBER, PV_CELL_MISSING
            else:
                if not look(self.form_of_cells, text, &x, &cell):
                    return False
                if cell == PV_CELL_OPEN:
                    try:
                        x, cell = self.asks[j](text)
                    except Exception:
                        return False
                elif cell == PV_CELL_NUMBER and self.any_suspect and suspect(self.markers, x):
                    x = NO_NUMBER
        pv_between(&column.knots, 1, &x, &cell, right, &column.left, &column.share, &column.state)
        none = column.left < 0
        if column.shape != COSINE:
            share = column.share
            if none:
                column.place[0], column.value[0] = column.feature, 0.0
                if column.side_entries == 2:
                    column.place[1], column.value[1] = column.feature + 1, 0.0
            elif column.shape == SPLINE:
                column.place[0], column.place[1] = column.feature + column.left, column.feature + column.left + 1
                column.value[0], column.value[1] = 1.0 - share, share
            elif column.shape == LINEAR:
                column.place[0], column.value[0] = column.feature + column.left, share - (1.0 - share)
            elif column.shape == BINS:
                column.place[0], column.value[0] = column.feature + column.left, 1.0
            else:
                k = x > column.knots.knots[column.knots.intervals]
                column.place[0] = column.feature + k
                column.value[0] = 1.0 if k or x < column.knots.knots[0] else 0.0
        for k in range(column.cycles):
            column.cycled[2 * k] = column.cycled[2 * k + 1] = 0.0
            if not none:
                cosine = &column.cycled[2 * k]
                pv_cycles(1, &x, column.period[k], column.start[k], self.turns, cosine, cosine + 1)
        return True

    cdef int side(self, int32_t at, int32_t *place, double *value) noexcept:
        """The contribution of a column to a cross, with positions counted from its first feature."""
        cdef Column *column = &self.columns[at]
        cdef int32_t n = column.side_entries
        if column.kind == OF_TEXT:
            place[0] = max(column.place[0], column.feature) - column.feature
            value[0] = column.place[0] >= 0
            return n
        if column.left < 0:
            place[0], place[n - 1], value[0], value[n - 1] = 0, n - 1, 0.0, 0.0
            if column.crossed_flag >= 0:
                place[n - 1], value[n - 1] = column.crossed_flag, 1.0
        else:
            place[0], value[0] = column.left, 1.0
            if n == 2:
                place[1] = column.left + 1
                value[0], value[1] = 1.0 - column.share, column.share
        return n

    cdef int multiply(self, CrossOf *cross) noexcept:
        cdef int32_t lefts[MOST_SIDES]
        cdef int32_t rights[MOST_SIDES]
        cdef double of_left[MOST_SIDES]
        cdef double of_right[MOST_SIDES]
        cdef int n = self.side(cross.left, lefts, of_left)
        cdef int m = self.side(cross.right, rights, of_right)
        cdef int i, k
        for i in range(n):
            for k in range(m):
                cross.place[i * m + k] = lefts[i] * cross.width + cross.feature + rights[k]
                cross.value[i * m + k] = of_left[i] * of_right[k]
        return 0
