"""Learners on reports: NumPy twins, separate devices, restoring, and what is proved of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from learner_tools import average_of, close, data, model_of
from scipy import sparse
from twins import REGRESSION, slope_at
from twins_betting import BettingTwin
from twins_local import BanditTwin, DescentTwin

from privol import BANCO, LDPSGD, MIOGD, AgnosticBANCO, BanditMIOGD
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, StateError
from privol.geometry import Box, L1Ball, L2Ball, Simplex, WholeSpace
from privol.learners._frame import RunFrame
from privol.learners.bandit import _directions
from privol.losses import Custom, Huber, get_loss
from privol.noise import make_source

D, N = 3, 40
ONES = {"gradient_bound": 1.0, "fit_intercept": False}
PUBLISHED = {"calibration": "published", "step": "horizon"}
LOUD = {"epsilon": 8.0, "horizon": N, "random_state": 5}  # little noise, so that the points move


def labels_of(learner):
    return [-1.0, 1.0] if get_loss(learner.loss).kind == "classification" else None


def features_of(learner, row):
    length = math.hypot(*row)
    v = row * (learner.x_bound / length) if length > learner.x_bound else row
    return np.append(v, 1.0) if learner.fit_intercept else v


def target_of(learner, y):
    return min(max(float(y), -learner.y_bound), learner.y_bound) if learner.loss in REGRESSION else y


def gradient_of(learner, row, y, w, bound):
    """The gradient as a device takes and scales it, by the textbook."""
    v, loss = features_of(learner, row), get_loss(learner.loss)
    g = slope_at(loss.name, loss.width, float(v @ w), target_of(learner, y)) * v
    norm = math.hypot(*g)
    return g * (bound / norm) if norm > bound else g


def descent_twin_of(learner, plan, dim):
    """All quantities from the learner's parameters except the public noise scale."""
    domain = learner.domain if learner.domain is not None else L2Ball(learner.radius)
    power, lazy = plan.report.power, getattr(learner, "lazy", False)
    size = domain.norm_bound(dim) if lazy or learner.step == "horizon" else domain.diameter(dim)
    if not lazy and learner.step == "horizon" and np.any(domain.start(dim)):
        size = min(domain.diameter(dim), size + float(np.linalg.norm(domain.start(dim))))
    c = {"horizon": size / math.sqrt(power), "anytime": size / math.sqrt(2 * power), "adaptive": size / math.sqrt(2)}
    return DescentTwin(
        domain=domain,
        dim=dim,
        step=learner.step,
        c=getattr(learner, "step_size", None) or c[learner.step],
        lazy=lazy,
        horizon=learner.horizon,
        power=power,
        l2=getattr(learner, "l2", 0.0),
    )


def check(learner, X, y, twin_of, null=()):
    """Compare row by row: point, release, spending. The twin's reports are those of a device with the same key."""
    dim = X.shape[1] + learner.fit_intercept
    device = learner.device(X.shape[1], random_state=learner.random_state)
    bound = learner.calibrate(X.shape[1], N).gradient_bound
    learner.partial_fit(X[:1], y[:1], classes=labels_of(learner))
    twin, points = twin_of(learner, learner._run.plan, dim), []
    x = np.asarray(learner._domain().start(dim), dtype=float)
    for i in range(len(X)):
        if i:
            learner.learn_one(X[i], y[i])
        g = np.zeros(dim) if i in null else gradient_of(learner, X[i], y[i], x, bound)
        x = np.asarray(twin.receive(device.privatize(g)))
        points.append(x)
        assert close(learner.ask(), x), f"point after row {i + 1}"
        assert close(model_of(learner), x)
    assert close(average_of(learner), np.mean(points, axis=0))
    assert learner.ledger_.spent.mu == pytest.approx(learner.guarantee_.mu, rel=1e-9)
    return twin


# ---- the twins ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("step", ["anytime", "horizon", "adaptive"])
@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "absolute", "squared"])
def test_twin_of_miogd(loss, lazy, step, intercept):
    X, y = data(loss)
    learner = MIOGD(loss=loss, leakage=3.0, horizon=N, radius=0.7, step=step, lazy=lazy, fit_intercept=intercept,
                    x_bound=0.9, y_bound=0.8, random_state=5)  # fmt: skip
    check(learner, X, y, descent_twin_of)


@pytest.mark.parametrize("domain", [L1Ball(0.2), Box(-0.1, 0.15), Box(0.1, 0.3), Simplex(0.7)], ids=str)
@pytest.mark.parametrize("lazy", [True, False])
def test_other_sets(domain, lazy):
    X, y = data("logistic", seed=2)
    for step in ("anytime", "horizon"):
        check(MIOGD(sigma=0.5, horizon=N, domain=domain, lazy=lazy, step=step, random_state=7), X, y, descent_twin_of)


@pytest.mark.parametrize("randomizer", ["privunit", "duchi", "l2laplace", "laplace", "gaussian"])
@pytest.mark.parametrize("words", [{}, {"step": "horizon"}, {"l2": 0.5}, {"domain": WholeSpace(), "step_size": 0.1},
                                   {"step": "adaptive", "step_size": 2.0}], ids=str)  # fmt: skip
def test_twin_of_ldpsgd(randomizer, words):
    X, y = data("logistic", seed=3)
    check(LDPSGD(randomizer=randomizer, radius=2.0, **LOUD, **words), X, y, descent_twin_of)


def betting_twin_of(learner, plan, dim):
    agnostic = isinstance(learner, AgnosticBANCO)
    rule = "agnostic" if agnostic else {"norm": "weighted", "count": "count"}[learner.weighting]
    twin = BettingTwin(dim=dim, a=plan.coin.bets, growth=learner.growth if agnostic else plan.coin.drift, rule=rule,
                       wealth=learner.wealth, step=learner.direction_step)  # fmt: skip
    tell = twin.tell
    twin.receive = lambda report: np.array(tell(-report))
    return twin


@pytest.mark.parametrize("randomizer", ["privunit", "duchi", "l2laplace", "laplace", "gaussian"])
@pytest.mark.parametrize("words", [{}, {"weighting": "count", "wealth": 3.0, "direction_step": 1.4}], ids=str)
@pytest.mark.parametrize("loss", ["logistic", "absolute"])
def test_twin_of_banco(loss, randomizer, words):
    X, y = data(loss, seed=4)
    check(BANCO(loss=loss, randomizer=randomizer, **LOUD, **words), X, y, betting_twin_of)


@pytest.mark.parametrize("randomizer", ["l2laplace", "laplace", "gaussian"])
@pytest.mark.parametrize("growth", [0.75, 1.0, 2.0])
def test_twin_of_agnostic_banco(randomizer, growth):
    X, y = data("absolute", seed=4)
    check(AgnosticBANCO(loss="absolute", randomizer=randomizer, growth=growth, **LOUD), X, y, betting_twin_of)


def test_the_cap_of_the_magnitude():
    X, y = data("absolute", n=N, seed=4)
    free, capped = (BANCO(loss="absolute", magnitude_cap=cap, wealth=2.0, **LOUD).partial_fit(X, y)
                    for cap in (None, 1e-4))  # fmt: skip
    assert np.linalg.norm(free.ask()) > 2e-4 >= np.linalg.norm(capped.ask()) > 0.0


@pytest.mark.parametrize(
    "words", [{}, {"value_bounds": (0.4, 0.9), "gradient_bound": 0.1}, {"domain": Box(-0.4, 0.6)}], ids=str
)
def test_twin_with_noise_on_the_whole_estimate(words):
    test_twin_of_bandit("gaussian", {**PUBLISHED, **words}, pair=False)


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(
    "words",
    [{}, {"step": "horizon"}, {"shrink": False, "value_bounds": (0.0, 2.0), "gradient_bound": 1.5},
     {"domain": Box(-0.4, 0.6)}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("randomizer", ["gaussian", "laplace", "privunit"])
def test_twin_of_bandit(randomizer, words, pair):
    X, y = data("logistic", seed=6)
    learner = BanditMIOGD(randomizer=randomizer, values=2 if pair else 1, radius=0.8, **LOUD, **words)
    learner.partial_fit(X[:1], y[:1], classes=[-1.0, 1.0])
    run, dim = learner._run, D + 1
    device = learner.device(D, random_state=5)
    twin = BanditTwin(learner._domain(), run.plan, lambda t: unit(_directions(learner_source(learner), dim, t, 1)[0]))
    loss = get_loss("logistic")
    for i in range(N):
        if i:
            learner.learn_one(X[i], y[i])
        v = features_of(learner, X[i])
        values = loss.value(np.atleast_2d(twin.asked) @ v, y[i])
        report = device.privatize(np.atleast_1d(twin.number(values)))
        twin.receive(report if run.plan.whole else float(report[0]))
        assert close(model_of(learner), twin.x)
        assert close(learner.ask().ravel(), twin.asked.ravel())
        if run.plan.inner < math.inf:
            assert all(learner._domain().contains(x) for x in np.atleast_2d(learner.ask()))
    assert learner.ledger_.spent.mu == pytest.approx(learner.guarantee_.mu, rel=1e-9)


def unit(v):
    return v / np.linalg.norm(v)


def learner_source(learner):
    from privol.noise import Source

    return Source(bytes(learner._run.state.secret_arrays()["key"]), private=False, description="twin")


# ---- the oracles of the literature's algorithms, by hand -----------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reports", "points"),
    [
        ({"step": "horizon"}, [(4, 0), (2, -8), (-12, 4), (1, 1)],
         [(-1, 0), (-0.6, 0.8), (0.832050294337844, 0.554700196225229), (0.857492925712544, 0.514495755427526)]),
        ({"step": "horizon", "lazy": False}, [(4, 0), (2, -8), (-12, 4), (1, 1)],
         [(-1, 0), (-0.564010002658166, 0.82576795584567), (0.993629189986885, -0.112698858938353),
          (0.704954055392072, -0.401373993533166)]),
        ({}, [(1, 0), (0.5, -2), (-3, 1), (0.25, 0.25)],
         [(-0.288675134594813, 0), (-0.353553390593274, 0.471404520791032), (0.306186217847897, 0.204124145231932),
          (0.228217732293819, 0.136930639376292)]),
    ],
)  # fmt: skip
def test_reports_worked_out_by_hand(words, reports, points):
    learner = MIOGD(sigma=1.0, horizon=4, random_state=0, **ONES, **words)
    assert np.array_equal(learner.ask(2), [0.0, 0.0])
    for report, point in zip(reports, points, strict=True):
        assert learner.tell(report=report).ask() == pytest.approx(point, abs=1e-14)


def test_bets_worked_out_by_hand():
    """Published: X, Y and the points of five reports; a = 1/4 and the proxy 13.8087 are those of theta = 1/2."""
    learner = BANCO(randomizer="l2laplace", theta=0.5, horizon=5, random_state=0, **ONES)
    learner.ask(2)
    expected = [(0, 0), (0.00699623674922458, -0.00349811837461229), (0.0223372362134896, -0.00103448913815295),
                (0.00499144964397315, 0.000953007837435191), (0.0150703883246093, 0.00760945759816042)]  # fmt: skip
    for report, point in zip([(1, 0), (0.5, -1), (2, 1), (-1, 0.5), (1.5, 1.5)], expected, strict=True):
        assert learner.tell(report=-np.array(report)).ask() == pytest.approx(point, abs=1e-12)
    assert learner._run.state.secret_arrays()["coin"][1:] == pytest.approx([1.99133210307533, 27.2379126170281])


def test_values_worked_out_by_hand():
    plan = BanditMIOGD(leakage=0.5, value_bounds=(0.0, 1.0), step="horizon", **ONES).calibrate(2, 100)
    assert plan.distance_at(1) == pytest.approx(0.250775452845481, rel=1e-12)
    assert plan.step_length(7) == pytest.approx(0.0199381556020191, rel=1e-12)
    assert plan.report.scale == pytest.approx(0.381436989183445, rel=1e-10)
    directions = iter([(1, 0), (0, 1), (-0.6, 0.8), (1, 0)])
    from privol._core._bandit import BanditRun

    learner = BanditMIOGD(leakage=0.5, value_bounds=(0.0, 1.0), step="horizon", horizon=100, random_state=0, **ONES)
    plan = learner.calibrate(2, 100)
    from privol.randomizers import compiled

    run = BanditRun(
        RunFrame(plan.problem, plan.releases, make_source(0), stream=5),
        report=compiled(plan.report), cost=1.0, magnitude=1.0, pair=False, low=0.0, high=1.0, inner=1.0,
        distance=plan.distance, most=0.5, length=plan.length, fixed=True,
        directions=lambda first, n: np.array([next(directions, (1.0, 0.0)) for _ in range(n)], dtype=float),
    )  # fmt: skip
    expected = [
        ((0.250775452845481, 0), 0.3, (-0.0357407124960275, 0)),
        ((-0.0267778191348161, 0.250775452845481), -0.6, (-0.0357407124960275, 0.0714814249920551)),
        ((-0.177243090842105, 0.254176000546017), 0.45, (-0.00357407124960274, 0.028592569996822)),
    ]
    for asked, report, point in expected:
        assert run.point() == pytest.approx(asked, abs=1e-14)
        run.receive(np.array([report]))
        assert run.released_model() == pytest.approx(point, abs=1e-14)


def test_bounds_of_the_regret():
    learner = MIOGD(sigma=1.0, step="horizon", **ONES)
    with pytest.raises(InvalidParameter, match="n_features must be given"):
        learner.regret_bound(25)
    learner.fit(np.zeros((3, 1)), [0, 1, 0])
    assert learner.regret_bound(25) == learner.regret_bound(25, 1) == pytest.approx(math.sqrt(50))
    assert MIOGD(sigma=1.0, **ONES).regret_bound(10**6, 1) == pytest.approx(math.sqrt(2 * 2e6), rel=1e-3)
    one = BanditMIOGD(leakage=0.5, value_bounds=(-1.0, 1.0), step="horizon", **ONES)
    assert one.regret_bound(10**6, 5) == pytest.approx(224300.38386, rel=1e-9)
    anytime = BanditMIOGD(leakage=0.5, value_bounds=(-1.0, 1.0), **ONES).regret_bound(10**6, 5)
    assert anytime == pytest.approx(1.24080647880 * 224300.38386, rel=1e-3)
    sums, n = BanditMIOGD(leakage=0.5, value_bounds=(-1.0, 1.0), **ONES).calibrate(5, 1 << 22), 1 << 21
    t = np.arange(1, n + 1, dtype=float)
    far, length = np.minimum(sums.distance * t**-0.25, sums.most), sums.length * t**-0.75
    assert (far[6], length[6]) == pytest.approx((sums.distance_at(7), sums.step_length(7)))
    exact = float(np.sum(length * 25 * sums.report.power / far**2 / 2 + 2 * far)) + 1 / (2 * length[-1])
    assert exact <= sums.regret_bound(n) <= exact * 1.001
    banco = BANCO(randomizer="l2laplace", **ONES)
    assert banco.regret_bound(0.0, 1000, 10) <= 1.0
    assert banco.regret_bound(1.0, 10**4, 10) == pytest.approx(2812 + 3 * math.sqrt(1e4 * 441), rel=1e-4)
    published = BANCO(randomizer="l2laplace", calibration="published", weighting="count", **ONES)
    assert published.regret_bound(1.0, 10**4, 10) == pytest.approx(21198 + 3 * math.sqrt(1e4 * 441), rel=1e-4)
    for learner in (MIOGD(step="adaptive"), LDPSGD(domain=WholeSpace(), step_size=1.0)):
        with pytest.raises(InvalidParameter, match="no bound of the regret"):
            learner.regret_bound(10, 2)
    for betting in (BANCO(magnitude_cap=1.0), AgnosticBANCO(magnitude_cap=1.0)):
        with pytest.raises(InvalidParameter, match="no bound of the regret"):
            betting.regret_bound(1.0, 10, 2)


# ---- in whatever form rows arrive ---------------------------------------------------------------------------------

KINDS = {
    "MIOGD": lambda **words: MIOGD(leakage=2.0, **words),
    "LDPSGD": lambda **words: LDPSGD(epsilon=4.0, **words),
    "LDPSGD l2laplace": lambda **words: LDPSGD(epsilon=4.0, randomizer="l2laplace", **words),
    "BANCO": lambda **words: BANCO(epsilon=8.0, **words),
    "AgnosticBANCO": lambda **words: AgnosticBANCO(epsilon=8.0, randomizer="laplace", **words),
    "BanditMIOGD": lambda **words: BanditMIOGD(leakage=2.0, **words),
    "pair": lambda **words: BanditMIOGD(epsilon=4.0, randomizer="privunit", values=2, **words),
    "whole Bandit": lambda **words: BanditMIOGD(leakage=2.0, **PUBLISHED, **words),
}


def state_of(learner):
    return {name: value.tobytes() for name, value in learner._run.state.secret_arrays().items()}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("told", [False, True])
def test_the_first_report_spends_all(name, told):
    """The ledger shows the cost of the report after the first row, even if no other row follows."""
    X, y = data("logistic", n=2, seed=9)
    learner = KINDS[name](horizon=2, random_state=3).declare_classes([-1.0, 1.0])
    if not told:
        learner.partial_fit(X[:1], y[:1])
    elif isinstance(learner, BanditMIOGD):
        learner.ask(n_features=X.shape[1])
        learner.tell(value=(0.5, 0.4) if name == "pair" else 0.5)
    else:
        learner.tell(gradient=np.zeros_like(learner.ask(n_features=X.shape[1])))
    assert learner.ledger_.spent.mu == learner.guarantee_.mu > 0.0


@pytest.mark.parametrize("name", KINDS)
def test_rows_in_any_form_and_any_cut(name):
    X, y = data("logistic", n=150, seed=9)
    X[X < -0.8] = 0.0
    make = lambda: KINDS[name](horizon=150, random_state=3).declare_classes([-1.0, 1.0])  # noqa: E731
    whole = state_of(make().partial_fit(X, y))
    forms = {
        "sparse": sparse.csr_matrix(X), "strided": np.asfortranarray(X), "reversed": X[:, ::-1][:, ::-1],
    }  # fmt: skip
    for form, rows in forms.items():
        assert state_of(make().partial_fit(rows, y)) == whole, form
    cut = make()
    for start, stop in ((0, 1), (1, 64), (64, 65), (65, 150)):
        cut.partial_fit(X[start:stop], y[start:stop])
    assert state_of(cut) == whole
    single = make()
    for row, label in zip(X, y, strict=True):
        single.learn_one(row, label)
    assert state_of(single) == whole
    assert state_of(make().partial_fit(X.astype(np.float32), y)) == state_of(
        make().partial_fit(X.astype(np.float32).astype(float), y)
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_failing_loss_undoes_the_block(name):
    X, y = data("absolute", n=120, seed=8)
    left = math.inf

    def count():
        nonlocal left
        left -= 1
        if left == 0:
            raise RuntimeError("no more")

    def gradient(p, target):
        count()
        return float(np.sign(p - target))

    def value(p, target):
        if "Bandit" in name or name == "pair":
            count()
        return abs(p - target)

    words = {"value_bounds": (0.0, 3.0)} if "Bandit" in name or name == "pair" else {}
    custom = Custom(value=value, gradient=gradient, lipschitz=1.0, smoothness=math.inf, kind="regression", name="mine")
    make = lambda loss: KINDS[name](loss=loss, horizon=120, random_state=2, **words)  # noqa: E731
    learner = make(custom).partial_fit(X[:10], y[:10])
    before = state_of(learner)
    left = 97
    with pytest.raises(RuntimeError, match="no more"):
        learner.partial_fit(X[10:], y[10:])
    assert state_of(learner) == before
    left = math.inf
    learner.partial_fit(X[10:], y[10:])
    assert np.array_equal(learner.coef_, make("absolute").partial_fit(X, y).coef_)


@pytest.mark.parametrize("name", KINDS)
def test_null_rows_send_reports_too(name):
    """A device whose row is invalid sends the report of a zero: validity is not revealed."""
    X, y = data("logistic", n=30, seed=8)
    broken = X.copy()
    broken[[3, 10], [1, 0]] = np.nan, np.inf
    lenient = KINDS[name](horizon=30, random_state=4, on_invalid="zero").partial_fit(broken, y, classes=[-1.0, 1.0])
    assert lenient._run.state.raw_counts()["null_rows"] == 2
    assert lenient.n_rows_ == 30
    with pytest.raises(InvalidRow, match="row 4"):
        KINDS[name](horizon=30, random_state=4).partial_fit(broken, y, classes=[-1.0, 1.0])


def test_a_null_row_is_a_gradient_of_zero():
    X, y = data("logistic", n=30, seed=8)
    X[[3, 10], [1, 0]] = np.nan, np.inf
    check(MIOGD(leakage=3.0, horizon=N, on_invalid="zero", random_state=4), X, y, descent_twin_of, null={3, 10})


# ---- devices without the learner -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("BanditMIOGD", "pair", "whole Bandit")])
def test_given_gradients_equal_reports_of_a_device(name):
    """The estimator is the device and the learner in one: the same bits."""
    rng = np.random.default_rng(3)
    joined, apart = (KINDS[name](horizon=60, random_state=3, gradient_bound=0.7) for _ in range(2))
    device = apart.device(2, random_state=3)
    assert np.array_equal(joined.ask(2), apart.ask(2))
    for _ in range(60):
        gradient = rng.normal(size=3) * 0.5
        joined.tell(gradient=gradient)
        apart.tell(report=device.privatize(gradient))
        assert np.array_equal(joined.ask(), apart.ask())
    assert joined._run.state.counters() == apart._run.state.counters()
    with pytest.raises(BudgetExceeded):
        apart.tell(report=np.zeros(3))


@pytest.mark.parametrize("name", ["BanditMIOGD", "pair"])
def test_given_values_equal_reports_of_a_device(name):
    rng = np.random.default_rng(3)
    joined, apart = (KINDS[name](horizon=60, random_state=3, value_bounds=(0.0, 2.0), gradient_bound=1.0) for _ in "ab")
    device, plan = apart.device(2, random_state=3), apart.calibrate(2, 60)
    joined.ask(2), apart.ask(2)
    for t in range(1, 61):
        values = rng.uniform(-0.5, 2.5, size=1 + plan.pair)
        joined.tell(value=values if plan.pair else float(values[0]))
        clipped = np.clip(values, 0.0, 2.0)
        number = 0.5 * (clipped[0] - clipped[1]) / plan.distance_at(t) if plan.pair else clipped[0] - 1.0
        apart.tell(report=float(device.privatize(np.array([number]))[0]))
        assert joined.ask() == pytest.approx(apart.ask(), abs=1e-12)


def test_a_device_belongs_to_the_open_run():
    """Later settings do not weaken what the run's guarantee says of reports."""
    learner = LDPSGD(epsilon=1.0, horizon=5, random_state=0)
    learner.ask(2)
    learner.set_params(epsilon=9.0)
    assert learner.device(2).guarantee.parameter == 1.0
    with pytest.raises(InvalidParameter, match="the open run's 2, found 3"):
        learner.device(3)
    assert LDPSGD(epsilon=9.0).device(3).guarantee.parameter == 9.0
    assert "not hidden" in learner.guarantee_.sentence()
    assert "delta is not below" in MIOGD(epsilon=1.0, delta=0.5).fit(*data("logistic")).guarantee_.sentence()


def test_arguments_of_tell_are_checked():
    learner = LDPSGD(horizon=5, random_state=0)
    with pytest.raises(StateError, match=r"ask\(\) comes before"):
        learner.tell(report=[0.0])
    point = learner.ask(2)
    for words, match in (
        ({}, "one of the two"),
        ({"gradient": np.zeros(3), "report": np.zeros(3)}, "one of the two"),
        ({"report": np.zeros(2)}, r"shape \(3,\), found \(2,\)"),
        ({"report": np.zeros((3, 1))}, "one dimension"),
        ({"report": [0.0, np.nan, 0.0]}, "coordinate 1 is nan"),
        ({"report": [0.0, 0.0, 1e120]}, "coordinate 2"),
        ({"gradient": [0.0, np.inf, 0.0]}, "coordinate 1 is inf"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            learner.tell(**words)
        assert np.array_equal(learner.ask(), point)
        assert learner.n_rows_ == 0
    bandit = BanditMIOGD(horizon=5, random_state=0, values=2)
    bandit.ask(2)
    for words, match in (
        ({}, "one of the two"),
        ({"value": 1.0}, "2 numbers, found 1"),
        ({"value": [1.0, np.nan]}, "NaN"),
        ({"report": [1.0, 2.0]}, "one finite number"),
        ({"report": np.inf}, "one finite number"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            bandit.tell(**words)
        assert bandit.n_rows_ == 0
    BanditMIOGD(horizon=5, random_state=0, on_invalid="zero").declare_classes([0, 1]).ask(2)
    whole = BanditMIOGD(horizon=5, random_state=0, **PUBLISHED)
    whole.ask(2)
    for words, match in (
        ({"value": [1.0, 2.0]}, "1 numbers, found 2"),
        ({"report": 1.0}, r"shape \(3,\), found \(1,\)"),
        ({"report": [0.0, np.nan, 0.0]}, "coordinate 1 is nan"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            whole.tell(**words)
        assert whole.n_rows_ == 0


@pytest.mark.parametrize(
    ("learner", "match"),
    [
        (MIOGD(leakage=1.0, sigma=2.0), "found leakage, sigma"),
        (MIOGD(leakage=0.0), "leakage must be"),
        (MIOGD(sigma=-1.0), "sigma must be"),
        (MIOGD(epsilon=1.0, delta=0.0), "delta must be"),
        (MIOGD(step="often"), "step must be"),
        (MIOGD(loss="squared", domain=WholeSpace()), "gradient_bound must be given"),
        (MIOGD(domain=WholeSpace()), "MIOGD needs a set with a bound"),
        (LDPSGD(domain=WholeSpace()), "step_size must be given"),
        (LDPSGD(l2=0.1, step_size=1.0), "step_size must be None"),
        (LDPSGD(randomizer="mine"), "randomizer must be"),
        (BANCO(loss="squared"), "gradient_bound must be given"),
        (BANCO(calibration="published"), "l2laplace"),
        (BANCO(theta=1.0), "theta must be"),
        (BANCO(wealth=0.0), "wealth must be"),
        (BANCO(weighting="none"), "weighting must be"),
        (AgnosticBANCO(randomizer="privunit"), "randomizer must be"),
        (AgnosticBANCO(growth=0.5), "k must be"),
        (BanditMIOGD(values=3), "values must be"),
        (BanditMIOGD(value_bounds=(1.0, 1.0)), "ascend"),
        (BanditMIOGD(value_bounds=3.0), "two numbers"),
        (BanditMIOGD(domain=Simplex()), "0 inside"),
        (BanditMIOGD(domain=Box(0.1, 1.0)), "0 inside"),
        (BanditMIOGD(domain=Box(-1e-310, 1.0), values=2), "0 inside"),
        (BanditMIOGD(randomizer="laplace"), "epsilon must be given"),
        (BanditMIOGD(step="adaptive"), "step must be"),
        (BanditMIOGD(calibration="jmlr"), "calibration must be"),
        (BanditMIOGD(calibration="published"), "step='horizon', found 'anytime'"),
        (BanditMIOGD(**PUBLISHED, values=2), "values=1, found 2"),
        (BanditMIOGD(**PUBLISHED, randomizer="laplace", epsilon=1.0), "randomizer='gaussian', found 'laplace'"),
        (BanditMIOGD(shrink=False, gradient_bound=1.0), "value_bounds must be given"),
        (BanditMIOGD(shrink=False, value_bounds=(0.0, 1.0)), "gradient_bound must be given"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_before_anything_is_spent(learner, match):
    X, y = data("logistic")
    with pytest.raises(InvalidParameter, match=match):
        learner.fit(X, y)
    assert "_run" not in learner.__dict__


def test_without_noise():
    X, y = data("huber", seed=8)
    for learner in (MIOGD(loss="huber", leakage=math.inf, horizon=N, radius=9.0), LDPSGD(loss="huber", epsilon=math.inf,
                    horizon=N, radius=9.0, randomizer="l2laplace")):  # fmt: skip
        check(learner, X, y, descent_twin_of)
        assert learner.guarantee_.kind == "none"
        assert learner.guarantee_.sentence().startswith("NO PRIVACY")
    bandit = BanditMIOGD(loss="huber", leakage=math.inf, values=2, radius=2.0).fit(X, y)
    assert bandit.guarantee_.kind == "none"


def test_a_custom_loss_learns_as_the_built_in_of_the_same_function():
    X, y = data("huber", seed=8)
    custom = Custom(
        value=lambda p, y: float(Huber().value(p, y)),
        gradient=lambda p, y: min(max(p - y, -1.0), 1.0),
        lipschitz=1.0,
        smoothness=1.0,
        kind="regression",
        name="mine",
    )
    for make in (lambda loss: MIOGD(loss=loss, random_state=1), lambda loss: BANCO(loss=loss, random_state=1)):
        mine, built_in = (make(loss).fit(X, y) for loss in (custom, "huber"))
        assert mine.coef_ == pytest.approx(built_in.coef_, abs=1e-12)
        assert "vouches" in mine.guarantee_.sentence()
