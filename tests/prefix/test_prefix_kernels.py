"""The kernels of private prefix sums against their plain twin, bit for bit; cuts, checkpoints, failures."""

from __future__ import annotations

import copy
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from ciphers import watch
from prefix_tools import KEY, begin, data, parameters, series
from scipy import sparse
from twins_prefix import DESIGNS, EpochsTwin, Twin

from privol._core._noise import instruction_sets, use_instruction_set
from privol._core._prefix_plan import PrefixPlan, grid_of
from privol.calibration import calibrate_sums
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, SourceFailure, StateError
from privol.factorizations import factorization
from privol.noise import decide_lattice_point

pytestmark = pytest.mark.process

LENGTHS = (1, 2, 7, 8, 9, 33)


def plan_of(design, horizon, width=3, *, std=0.7, leaf=1, bound=1.0, gram=False):
    extra, _ = parameters(design, -(-horizon // leaf))
    return PrefixPlan(
        design=design, width=width, horizon=horizon, bound=bound, std=std, leaf=leaf, gram=gram, **extra
    )  # fmt: skip


def twin_of(design, horizon, plan, *, leaf=1, bound=1.0, gram=False, **more):
    _, extra = parameters(design, -(-horizon // leaf))
    return Twin(
        design, dim=plan.dim, leaf=leaf, bound=bound, std=plan.std, grid=plan.grid, key=KEY if plan.std else b"",
        gram=gram, **extra, **more,
    )  # fmt: skip


# ---- twins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("leaf", [1, 3])
@pytest.mark.parametrize("std", [0.7, 1e4, 0.0])
@pytest.mark.parametrize("design", DESIGNS)
def test_every_bit_is_the_twins(design, std, leaf, gram):
    for horizon in LENGTHS:
        plan = plan_of(design, horizon, std=std, leaf=leaf, bound=0.9, gram=gram)
        run, twin = begin(plan), twin_of(design, horizon, plan, leaf=leaf, bound=0.9, gram=gram)
        X = data(horizon)
        found = run.add_block(X)
        for i, row in enumerate(X):
            np.testing.assert_array_equal(found[i], twin.add(row), err_msg=f"row {i + 1} of {horizon}")
        run.finish()
        twin.end_leaf()
        np.testing.assert_array_equal(run.prefix(), twin.prefix)
        assert run.n_steps == plan.steps == len(twin.leaves)
        assert len(set(twin.used)) == len(twin.used), "an address served two draws"


def test_large_sums_are_exact():
    """Sums with 40 bits more than the noise: the parts on either side of h never lose a bit."""
    plan = plan_of("tree", 9, 2, std=1e-3, bound=1e6)
    run, twin = begin(plan), twin_of("tree", 9, plan, bound=1e6)
    X = data(9, 2) * 1e6
    found = run.add_block(X)
    for row, prefix in zip(X, found, strict=True):
        np.testing.assert_array_equal(prefix, twin.add(row))
    assert abs(found).max() > 1e5


@pytest.mark.parametrize("design", DESIGNS)
def test_rows_that_are_not_finite_are_rows_of_zeros(design):
    plan = plan_of(design, 12)
    run, twin, X = begin(plan), twin_of(design, 12, plan), data(12)
    X[2, 1], X[7, 0], X[8, 2] = np.nan, np.inf, 1e200
    for i, prefix in enumerate(run.add_block(X)):
        np.testing.assert_array_equal(prefix, twin.add(None if i in (2, 7, 8) else X[i]))
    assert run.raw_counts()["null_rows"] == 3
    one = begin(plan)
    with pytest.raises(InvalidRow, match=r"row 1, feature 1: found NaN"):
        one.add_one(X[2])
    assert one.n_rows == 0
    np.testing.assert_array_equal(one.add_one(X[2], True), begin(plan).add_one(np.zeros(3)))


def test_blocks_of_the_square_root():
    """The share of earlier blocks by Fourier transform: the same noisy vectors, and sums equal up to rounding."""
    n, X = 75, data(75, 20)
    plans = [
        PrefixPlan(design="sqrt", width=20, horizon=n, bound=1.0, std=2.0, coefficients=series(n), block=block)
        for block in (0, 1, 8, 16, n)
    ]
    whole = begin(plans[0]).add_block(X)
    for plan in plans[1:]:
        run = begin(plan)
        found = run.add_block(X)
        np.testing.assert_allclose(found, whole, rtol=0, atol=1e-11)
        one = begin(plan)
        for i in range(n):
            if i % 5 == 0:  # at the ends of blocks and within
                saved, one = one, begin(plan)
                one.restore(saved.secret_arrays())
            np.testing.assert_array_equal(one.add_one(X[i]), found[i])
    with pytest.raises(InvalidParameter, match="block"):
        PrefixPlan(design="sqrt", width=1, horizon=9, bound=1.0, std=1.0, coefficients=series(9), block=10)


def test_transforms_err_less_than_is_charged():
    """Against exact sums without noise: within the charge of one step, which is that of direct sums."""
    n = 1 << 13
    chosen, rows = factorization("sqrt", n), np.where(np.arange(n) % 3, 1.0, 0.9999)
    charged = calibrate_sums(factorization=chosen, dim=1, bound=1.0, epsilon=1.0, delta=1e-6)
    each = (charged.charged - chosen.column_norm * charged.sensitivity) / (2 * math.sqrt(n))
    r = np.append(1.0, np.cumprod(1.0 - 0.5 / np.arange(1, n)))
    plan = PrefixPlan(design="sqrt", width=1, horizon=n, bound=1.0, std=0.0, coefficients=r, block=512)
    found = begin(plan).add_block(rows[:, None])[:, 0]
    # in both directions: errors of both sides, each amplified by at most the other's norm, sum of r
    assert np.abs(found - np.cumsum(rows)).max() < each * (1 + float(r.sum()))


# ---- cuts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [1, 4])
@pytest.mark.parametrize("design", DESIGNS)
def test_cuts_layouts_and_levels_change_nothing(design, leaf):
    n, plan = 41, plan_of(design, 41, leaf=leaf)
    X = data(n).astype(np.float32).astype(np.float64)
    whole = begin(plan).add_block(X)
    one = begin(plan)
    np.testing.assert_array_equal([one.add_one(row) for row in X], whole)
    for seed in range(3):
        rng, run, found, at = np.random.default_rng(seed), begin(plan), [np.empty((0, 3))], 0
        while at < n:
            size = int(rng.integers(0, 12))
            block = X[at : at + size]
            found.append(run.add_block((block, block.astype(np.float32), sparse.csr_matrix(block))[size % 3]))
            at += size
        np.testing.assert_array_equal(np.concatenate(found), whole)
    last = begin(plan)
    np.testing.assert_array_equal(last.add_block(X, every=False), whole[-1])
    try:
        for level in instruction_sets():
            use_instruction_set(level)
            np.testing.assert_array_equal(begin(plan).add_block(X), whole)
    finally:
        use_instruction_set(None)


@pytest.mark.parametrize("leaf", [1, 3])
@pytest.mark.parametrize("design", DESIGNS)
def test_saved_and_restored_anywhere(design, leaf):
    n, plan = 20, plan_of(design, 20, leaf=leaf)
    X, run = data(n), begin(plan)
    whole = begin(plan).add_block(X)
    for i in range(n):
        again = begin(plan)
        again.restore(run.secret_arrays())
        np.testing.assert_array_equal(again.add_block(X[i:]), whole[i:])
        run.add_one(X[i])
    arrays = begin(plan).secret_arrays()
    for wrong, words in (
        ({"key": np.zeros(32, np.uint8)}, "another noise key"),
        ({"plan": plan_of(design, 21, leaf=leaf).numbers()}, "another plan"),
        ({"memory": arrays["memory"][1:]}, "another plan"),
        ({"version": np.array([9])}, "version 9"),
        ({"counts": arrays["counts"] + [0, 99, 0, 0, 0, 0]}, "damaged"),
        ({"counts": arrays["counts"] + [0, 0, 0, 0, 0, 1]}, "damaged"),
        ({"more_counts": np.array([2, 0, 0])}, "damaged"),
    ):
        with pytest.raises(StateError, match=words):
            begin(plan).restore({**arrays, **wrong})
    with pytest.raises(StateError, match="only a fresh run"):
        run.restore(arrays)


def epochs_of(design, leaf):
    """Epochs of 5, 9, 9, ... rows with independent noise; the plan of the first, and their twin."""
    first, second = plan_of(design, 5, leaf=leaf), plan_of(design, 9, std=2.0, leaf=leaf)
    first.followed_by(second)
    second.followed_by(None)

    def twin(epoch, first_step):
        return twin_of(design, 9 if epoch else 5, second if epoch else first, leaf=leaf, first_step=first_step)

    return first, EpochsTwin(lambda epoch: 9 if epoch else 5, twin)


@pytest.mark.parametrize("leaf", [1, 2])
@pytest.mark.parametrize("design", DESIGNS)
def test_other_plans_go_on_where_the_first_ended(design, leaf):
    """Every bit, for any cut and checkpoint; an epoch ends a partial leaf."""
    plan, twin = epochs_of(design, leaf)
    X, run, n = data(40), begin(plan, horizon=40), 40
    whole = begin(plan, horizon=n).add_block(X)
    for i, row in enumerate(X):
        again = begin(plan, horizon=n)
        again.restore(run.secret_arrays())
        np.testing.assert_array_equal(again.add_block(X[i:]), whole[i:])
        np.testing.assert_array_equal(run.add_one(row), twin.add(row))
        np.testing.assert_array_equal(run.prefix(), whole[i])
        assert run.n_steps == twin.steps
    assert run.n_rows == n
    assert len(set(twin.used)) == len(twin.used)
    with pytest.raises(BudgetExceeded, match="40 of 40 are used"):
        run.add_one(X[0])
    arrays = run.secret_arrays()
    with pytest.raises(StateError, match="damaged"):
        begin(plan, horizon=n).restore({**arrays, "counts": arrays["counts"] + [0, 0, 0, 0, 0, 1 << 55]})


@pytest.mark.parametrize("design", DESIGNS)
def test_an_epoch_keeps_nothing_of_the_rows_before(design):
    """Other rows in the previous epoch, the same ones since: the memory differs in released values alone."""
    plan, _ = epochs_of(design, 1)
    states = []
    for seed in (1, 2):
        run = begin(plan, horizon=40)
        run.add_block(data(5, seed=seed))
        run.add_block(data(2))
        states.append((run.secret_arrays()["memory"], run.prefix()))
    (one, first), (two, second) = states
    left = np.flatnonzero(one != two)
    assert len(left) == 3  # the sum that the previous epoch left
    np.testing.assert_allclose(one.view(float)[left] - two.view(float)[left], first - second, rtol=1e-9)


def test_plans_that_cannot_follow():
    plan = plan_of("tree", 5)
    for other in (plan_of("tree", 5, 4), plan_of("blt", 5), plan_of("tree", 5, std=0.0), plan_of("tree", 5, leaf=2)):
        with pytest.raises(InvalidParameter, match="the same rows"):
            plan.followed_by(other)
    with pytest.raises(InvalidParameter, match="at most 5"):
        begin(plan, horizon=6)
    plan.followed_by(plan)
    with pytest.raises(StateError, match="one other"):
        plan.followed_by(None)


# ---- failures ----------------------------------------------------------------------------------------------------


def raises(real, data, out):
    real.update_into(data, out)
    raise KeyboardInterrupt


def breaks(real, data, out):
    raise RuntimeError("broken")


@pytest.mark.parametrize("how", [raises, breaks])
@pytest.mark.parametrize("design", DESIGNS)
def test_a_cipher_that_fails_costs_no_draw_and_repeats_none(design, how, monkeypatch):
    """One failure: the block is learnt, then the error raised. Two: it stops at that row, and resumes there."""
    n, width, plan = 40, 900, plan_of(design, 40, 900)
    X = data(n, width)
    whole = begin(plan).add_block(X)
    for times in (1, 2):
        watched = watch(monkeypatch)
        run, left = begin(plan), iter(range(times))
        run.add_block(X[:9])
        watched.fail = lambda *a, left=left: how(*a) if next(left, None) is not None else a[0].update_into(*a[1:])
        with pytest.raises((KeyboardInterrupt, RuntimeError)):
            run.add_block(X[9:])
        at = run.n_rows
        assert at == n if times == 1 else 9 < at < n
        if times == 2:
            with pytest.raises(StateError, match="a draw is due"):
                run.secret_arrays()
            assert run.n_steps == at - 1
            np.testing.assert_array_equal(run.prefix(), whole[at - 2])
            np.testing.assert_array_equal(run.add_block(X[at:]), whole[at:])
        np.testing.assert_array_equal(run.prefix(), whole[-1])
        run.close()
        assert not any(any(watched.output(k)) for k in range(len(watched.outputs))), "words stay in memory"


def test_an_interrupt_while_digits_are_read_changes_nothing():
    """Noise so small that every coordinate needs more digits than doubles have; each draw is interrupted once."""
    n, calls, plan = 16, [], plan_of("blt", 16, std=1e-17)
    X = data(n)

    def decide(*arguments):
        calls.append(arguments)
        if len(calls) % 4 == 2:
            raise KeyboardInterrupt
        return decide_lattice_point(*arguments)

    run, whole = begin(plan, decide), begin(plan).add_block(X)
    for i in range(n):
        with pytest.raises(KeyboardInterrupt):
            run.add_one(X[i])
        assert run.n_rows == run.n_steps == i + 1
        np.testing.assert_array_equal(run.prefix(), whole[i])
    assert len(calls) > 4 * n


def test_words_of_every_draw_are_asked_for_once(monkeypatch):
    for design in DESIGNS:
        watched = watch(monkeypatch)
        run = begin(plan_of(design, 300))
        for _ in range(3):
            run.add_block(data(100))
        assert len(set(watched.addresses)) == len(watched.addresses)


def test_the_handle_cannot_be_copied():
    run = begin(plan_of("tree", 8))
    for action in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError, match="secret state"):
            action(run)
    with pytest.raises(StateError, match="twice"):
        run.__init__(plan_of("tree", 8), horizon=8, source=None, stream=0, decide=None)
    with pytest.raises(BudgetExceeded, match="the next 9 rows would exceed the horizon: 0 of 8"):
        run.add_block(data(9))
    with pytest.raises(InvalidParameter, match="must have 3 values, found 2"):
        run.add_one(np.zeros(2))
    with pytest.raises(InvalidParameter, match="one dimension"):
        run.add_one(np.zeros((1, 3)))
    assert run.n_rows == 0
    kept = run.add_block(data(5))[-1]
    run.close()
    np.testing.assert_array_equal(run.prefix(), kept)
    for action in (run.finish, run.secret_arrays, lambda: run.add_one(np.zeros(3))):
        with pytest.raises((StateError, TypeError)):
            action()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_draws_nothing():
    run, X = begin(plan_of("blt", 20)), data(20)
    run.add_block(X[:5])
    child = os.fork()
    if child == 0:
        refused = 0
        actions = (lambda: run.add_one(X[5]), lambda: run.add_block(X[5:]), run.finish, run.secret_arrays)
        for action in actions:
            try:
                action()
            except SourceFailure as error:
                refused += "forked" in str(error)
            except BaseException:
                pass
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    np.testing.assert_array_equal(run.add_block(X[5:]), begin(plan_of("blt", 20)).add_block(X)[5:])


# ---- numbers -----------------------------------------------------------------------------------------------------


def test_the_grid_leaves_room_for_all_sums():
    for std in (1e-3, 1.0, 1e20):
        for total in (1e-5, 3.0, 2.0**61 * 5e-7):
            h = 2.0 ** (math.floor(math.log2(std)) - 10)
            g = grid_of(std, total)
            assert h * 2.0**-40 <= g <= h
            assert total <= 2.0**61 * g
            assert g == h * 2.0**-40 or total > 2.0**60 * g, "coarser than it must be"
    for design in ("tree", "honaker", "smooth"):
        with pytest.raises(InvalidParameter, match="do not fit into 62 bits"):
            plan_of(design, 3, std=1e-17)
        assert plan_of(design, 3, std=4e-15).grid > 0
    for grid in (0.3, 2.0**-80, 1.0):
        with pytest.raises(InvalidParameter, match="grid"):
            PrefixPlan(design="tree", width=1, horizon=10, bound=1.0, std=1.0, grid=grid)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width": 0}, "rows of 0"),
        ({"horizon": 0}, "0 rows"),
        ({"leaf": 0}, "leaves of 0"),
        ({"bound": math.nan}, "rows up to nan"),
        ({"std": -1.0}, "standard deviation -1"),
        ({"std": math.inf}, "standard deviation inf"),
        ({"design": "blt"}, "theta and omega"),
        ({"design": "blt", "theta": (1.0,), "omega": (0.1,)}, "theta and omega"),
        ({"design": "sqrt", "coefficients": (1.0,)}, "coefficients must have 10"),
        ({"design": "smooth"}, "ones"),
        *(({"design": "banded", "coefficients": c}, "must be 1 and up to 9 more") for c in ((), (0.5,), (1.0,) * 11)),
    ],
)
def test_bad_plans(change, words):
    with pytest.raises(InvalidParameter, match=words):
        PrefixPlan(**{"design": "tree", "width": 2, "horizon": 10, "bound": 1.0, "std": 1.0, **change})


@pytest.mark.parametrize("design", ["blt", "sqrt"])
def test_rounding_of_the_recursion_is_within_its_charge(design):
    """The doubles that meet the noise against exact fractions; the worst-case charge must not be excessive."""
    steps = 400
    chosen = factorization(design, steps, **({"theta": (0.9999, 0.9), "omega": (0.02, 0.2)} if design == "blt" else {}))
    plan = calibrate_sums(factorization=chosen, dim=1, bound=1.0, epsilon=1.0, delta=1e-6)
    each = (plan.charged - chosen.column_norm * plan.sensitivity) / (2 * math.sqrt(steps))
    extra = {"theta": chosen.theta, "omega": chosen.omega} if design == "blt" else {"coefficients": series(steps)}
    twin = Twin(design, dim=1, leaf=1, bound=1.0, std=0.0, grid=0.0, key=b"", **extra)
    computed = []
    twin.draw = lambda t, k, x: computed.append(x[0]) or x
    rows = [1.0 - 2.0**-20 * (k % 7) / 3 for k in range(steps)]
    worst, buffers = 0.0, [Fraction(0)] * 2
    for k, w in enumerate(rows):
        twin.add(np.array([w]))
        if design == "blt":
            exact = Fraction(w) + sum(Fraction(o) * b for o, b in zip(chosen.omega, buffers, strict=True))
            buffers = [Fraction(t) * b + Fraction(w) for t, b in zip(chosen.theta, buffers, strict=True)]
        elif k < 100 or k == steps - 1:
            exact = sum(Fraction(math.comb(2 * i, i), 4**i) * Fraction(rows[k - i]) for i in range(k + 1))
        worst = max(worst, abs(float(Fraction(computed[-1]) - exact))) if design == "blt" or k in (99, 399) else worst
    assert 0.0 < worst <= each < 1e-9
