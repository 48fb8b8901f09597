"""Nothing secret leaves a run: each learner is observed while it learns, and everything visible is searched.

``leaks.py`` defines the secrets and the search; this file defines what is searched. The runs of the command line are in
``test_leaks_commands.py``.
"""

from __future__ import annotations

import base64
import copy
import errno
import io
import itertools
import json
import logging
import math
import os
import pickle
import struct
import warnings
from functools import cache

import conformance as kept
import joblib
import numpy as np
import pytest
from leaks import Secrets, files_in, of_run, reachable, story, surface
from sklearn.base import clone

from privol import PIGD, PQFTL
from privol._core._learner_run import LearnerRun
from privol._core._noise import Source
from privol._core._prefix import PrefixRun
from privol.errors import BudgetExceeded, InvalidParameter, InvalidRow, SourceFailure, StateError
from privol.evaluate import PrivateMetrics, progressive
from privol.ledger import Ledger
from privol.losses import Custom
from privol.prefix import DESIGNS, PrefixSum, SymmetricSum
from privol.state import State, load_model, save_model

pytestmark = pytest.mark.slow

N, D = kept.N, kept.D
CANARY = 0.7310585786300049
X = kept.X.copy()
X[::37, 1] = CANARY  # a value to recognise, in rows of every block
REAL = X @ [0.5, -0.2, 0.1, 0.0] + np.random.default_rng(9).normal(size=N) / 10
SECRET_OBJECTS = (LearnerRun, PrefixRun, Source)


def targets(learner):
    return REAL if isinstance(learner, PQFTL) else kept.Y


def rows_as_secrets(learner):
    return rows_with(isinstance(learner, PQFTL)).copy()


@cache
def rows_with(real):
    secrets = Secrets()
    secrets.numbers("canary", [CANARY])
    secrets.numbers("rows", X, many=True)
    secrets.numbers("targets", REAL if real else kept.Y.astype(float), many=True)
    return secrets


def collect(secrets, learner):
    """The secrets of a live run; what PQFTL releases besides its models is not among them."""
    state, moments = learner._run.state, []
    if isinstance(learner, PQFTL):
        moments = [state.released_sums(), *(learner.moments() if learner._run.keeper is None else [])]
    of_run(secrets, state, moments)


def exported(learner, folder):
    """Everything that may leave a learner's process, as bytes."""
    copies = [copy.copy(learner), copy.deepcopy(learner), clone(learner)]
    out = [surface(learner), surface(*copies, private=True)]
    if learner.ledger is None or not isinstance(learner.ledger, Ledger):
        out += [pickle.dumps(learner, protocol=protocol) for protocol in (2, pickle.HIGHEST_PROTOCOL)]
        again = pickle.loads(out[-1])
        out += [surface(again, private=True), *(pickle.dumps(c) for c in copies)]
        file = io.BytesIO()
        joblib.dump({"model": learner}, file)
        out.append(file.getvalue())
        assert not any(isinstance(it, SECRET_OBJECTS) for it in reachable(again, *copies, learner.guarantee_))
    if learner.n_releases_:
        save_model(learner, folder)
        out += files_in(folder)
        out.append(surface(load_model(folder), private=True))
    return out


def check(secrets, haystacks):
    assert len(secrets) > 1000
    found = {name for haystack in haystacks for name in secrets.found_in(haystack)}
    assert not found, sorted(found)[:10]


# ---- the search itself ----------------------------------------------------------------------------------------------


def places(x):
    return math.floor(math.log10(x))


FORMS = {
    "little endian": lambda x: b"ab" + struct.pack("<d", x) + b"c",
    "big endian": lambda x: b"abc" + struct.pack(">d", x),
    "its negative": lambda x: struct.pack("<d", -x),
    "single precision": lambda x: b"a" + struct.pack("<2f", x, x * 1.1),
    "repr": repr,
    "str in a list": lambda x: f"[1, {x}]",
    "six digits": lambda x: f"score {x:.6g}, row 3",
    "seven digits, cut": lambda x: f"{math.floor(x / 10.0 ** (places(x) - 6))}e{places(x) - 6}",
    "an exponent": lambda x: f"{x * 1:.9e}",
    "printed by NumPy": lambda x: repr(np.array([1.0, x])),
    "hex": lambda x: struct.pack("<d", x).hex(),
    "hex of more": lambda x: (b"q" + struct.pack("<d", x)).hex().upper(),
    "hexadecimal number": lambda x: x.hex(),
    **{
        f"base64 {k}": (lambda x, k=k: base64.b64encode(b"r" * k + struct.pack("<d", x) + b"s"))
        for k in range(3)
    },
    "base64 for addresses": lambda x: base64.urlsafe_b64encode(b"\xff\xfe" + struct.pack("<d", x)),
    "repr of bytes": lambda x: repr(struct.pack("<d", x) + b"'"),
    "pickle": lambda x: pickle.dumps(np.array([2.0, x])),
    "archive": lambda x: npz(np.array([2.0, x])),
    "JSON": lambda x: json.dumps({"a": [x]}),
}  # fmt: skip


def npz(array):
    file = io.BytesIO()
    np.savez(file, a=array)
    return file.getvalue()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [CANARY, 12345.678901234, 3.14159265358e-9])
def test_the_search_finds_a_number(form, value):
    secrets = Secrets()
    secrets.numbers("x", [value, value * 1.1])
    assert secrets.found_in(FORMS[form](value))
    assert not secrets.found_in(FORMS[form](value * 1.2345))


@pytest.mark.parametrize(
    "form",
    [bytes, lambda k: k[::-1], lambda k: k.hex(), base64.b64encode, repr, lambda k: repr(list(k)), lambda k: k[9:20],
     lambda k: repr(np.frombuffer(k, np.uint8)), lambda k: str(int.from_bytes(k, "big"))],
)  # fmt: skip
def test_the_search_finds_a_key(form):
    secrets, key, other = Secrets(), bytes(range(60, 92)), bytes(range(92, 60, -1))[::2] * 2
    secrets.key("key", key)
    assert secrets.found_in(form(key))
    assert not secrets.found_in(form(other))


def test_the_search_ignores_uninformative_values():
    secrets = Secrets()
    secrets.numbers("x", [0.0, 0.5, 1000.0, CANARY], but=[[-CANARY]])
    assert len(secrets) == 0
    secrets.numbers("y", np.array([3, 1 << 40, 123456789012345]))
    assert secrets.found_in("123456789012345")
    assert not secrets.found_in("3 12345 1.5 0.250000")


class Telling(PIGD):
    """A learner that reveals its iterate, each time in another way."""

    way = ""

    def __repr__(self):
        return f"<{self._secret()[0]!r}>" if self.way == "repr" else super().__repr__()

    @property
    def progress_(self):
        if self.way == "error":
            raise StateError("no progress") from ValueError(f"it is {self._secret()[0]:.8g}")
        return self._secret() if self.way == "property" else None

    def _secret(self):
        return self._run.state._secret_iterate() if "_run" in vars(self) else np.zeros(1)

    def summary(self):
        return self._secret().tolist() if self.way == "method" else []

    def __getstate__(self):
        state = super().__getstate__()
        return {**state, "_note": self._secret()} if self.way == "pickle" else state


@pytest.mark.parametrize("way", ["repr", "property", "method", "pickle", "error", ""])
def test_a_leak_is_found(way, tmp_path):
    learner = Telling(horizon=N, release=100, random_state=3)
    secrets = rows_as_secrets(learner)
    learner.partial_fit(X[:250], kept.Y[:250], classes=[0, 1])
    collect(secrets, learner)
    Telling.way = way
    try:
        haystacks = [
            surface(learner),
            pickle.dumps(learner),
            surface(pickle.loads(pickle.dumps(learner)), private=True),
        ]
    finally:
        Telling.way = ""
    found = {name for haystack in haystacks for name in secrets.found_in(haystack)}
    assert bool(found) == bool(way)
    assert any(isinstance(it, SECRET_OBJECTS) for it in reachable(vars(learner)))


# ---- learners -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", kept.LEARNERS)
def test_a_live_run_shows_nothing(name, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    learner = kept.make(name)
    learner.set_params(horizon=learner.horizon or N)
    secrets, y, seen = (
        rows_as_secrets(learner),
        targets(learner),
        [surface(learner), surface(learner.calibrate(D, N))],
    )
    labels = None if isinstance(learner, PQFTL) else [0, 1]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for start, stop in itertools.pairwise((0, 150, 450, N)):
            learner.partial_fit(X[start:stop], y[start:stop], classes=labels)
            collect(secrets, learner)
            seen += exported(learner, tmp_path / str(stop))
        seen.append(surface(learner.predict(X[:5]), learner.ledger_, *learner.ledger_.accounts))
        learner.close()
    seen += exported(learner, tmp_path / "closed")
    check(secrets, [*seen, caplog.text, *(str(w.message) for w in said)])


@pytest.mark.parametrize("name", kept.LEARNERS)
def test_a_kept_run_shows_nothing(name, tmp_path):
    """The journal and the directory, except the folder of secrets; an interrupt, and its message."""
    run, seen = tmp_path / "run", []
    secrets = rows_as_secrets(kept.make(name))

    def release(released):
        seen.append(surface(released))

    def look(learner, stream):
        collect(secrets, learner)
        seen.extend([surface(learner, stream.n_rows), *files_in(run, without=["secret"])])
        assert not any(isinstance(it, SECRET_OBJECTS) for it in reachable(learner._run.handed))

    for k, stop in enumerate((250, 480, None)):
        learner = kept.make(name)
        if learner._default_release(whole=True) == "all":
            learner.set_params(release=70)
        stream = kept.Stream(size=150 + k, rows=X, targets=targets(learner), stop=stop)
        state = State(run, every=100)
        try:
            learner.fit_stream(stream, checkpoint=state, progress=look, on_release=release)
        except OSError as error:
            seen.append(story(error))
        seen += [surface(learner, state), pickle.dumps(learner)]
    seen += exported(learner, tmp_path / "model")
    seen += [*files_in(run), surface(load_model(run), Ledger.read(run / "ledger.jsonl"), private=True)]
    assert not (run / "secret").exists()
    check(secrets, seen)


@pytest.mark.parametrize("name", kept.LEARNERS)
def test_results_are_copies(name):
    """No array is a view of a run's memory: writing into it changes nothing, and it does not change later."""
    learner, twin = kept.make(name), kept.make(name)
    labels = None if isinstance(learner, PQFTL) else [0, 1]
    y = targets(learner)
    arrays, before = [], []
    for start in range(0, N, 100):
        for it in (learner, twin):
            it.set_params(horizon=it.horizon or N).partial_fit(
                X[start : start + 100], y[start : start + 100], classes=labels
            )
        names = [n for n in dir(learner) if n.endswith("_") and not n.startswith("_") and n != "classes_"]
        found = [v for n in names if isinstance(v := getattr(learner, n), np.ndarray)]
        found += learner.moments() if hasattr(learner, "moments") else []
        found += [learner.ask()] if hasattr(learner, "ask") else []
        for one, other in zip(arrays, before, strict=True):
            assert one.tobytes() == other
        for k, array in enumerate(found):
            assert not any(np.shares_memory(array, old) for old in [*arrays, *found[:k]])
            if array.flags.writeable:
                array += 1.0
        arrays += found
        before = [array.tobytes() for array in arrays]
    assert kept.fingerprint(learner.close()) == kept.fingerprint(twin.close())


@pytest.mark.parametrize("name", kept.LEARNERS)
def test_no_secret_remains_after_the_end(name):
    learner = kept.make(name)
    learner.fit_stream(kept.Stream(rows=X, targets=targets(learner)))
    state = learner._run.state
    for hook in ("_secret_iterate", "_secret_sum", "_secret_gradient"):
        if hasattr(state, hook):
            assert not getattr(state, hook)().any(), hook
    with pytest.raises(StateError, match="closed"):
        state.secret_arrays()
    sources = [it for it in reachable(state) if isinstance(it, Source)]
    assert sources
    for source in sources:
        with pytest.raises(SourceFailure, match="closed"):
            source.words(stream=0, level=0, block=0, row=1)
    ledger = learner.ledger_
    assert not any(isinstance(it, SECRET_OBJECTS) for it in reachable(*ledger.entries(), ledger, *ledger.accounts))


# ---- prefix sums and private metrics --------------------------------------------------------------------------------


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("kind", [PrefixSum, SymmetricSum])
def test_prefix_sums_show_nothing(kind, design):
    words = {"horizon": 200, "design": design, "random_state": 3, "epsilon": 2.0, "delta": 1e-6}
    sums = PrefixSum(dim=D, **words) if kind is PrefixSum else SymmetricSum(dim=D, **words)
    secrets, seen, given = Secrets(), [surface(sums)], []
    rows = X / 3 if kind is PrefixSum else np.einsum("ij,ik->ijk", X, X) / 9  # within the bound, so added up unchanged
    exact = np.cumsum(rows, axis=0)
    secrets.numbers("rows", rows, many=True)
    secrets.numbers("exact sums", exact[1:200], many=True)  # the first is the row
    for start in range(0, 200, 50):
        given.append(sums.add_block(rows[start : start + 50]))
        arrays = sums.secret_state()
        # the sums so far, and the memory from which they were computed
        secrets.numbers(
            "memory", arrays["memory"], but=[*given, np.sqrt(2.0) * given[-1], sums._run.prefix()], many=True
        )
        secrets.key("key", bytes(arrays["key"]))
        seen += [surface(sums, given[-1]), surface(sums.ledger_, *sums.ledger_.accounts)]
        given[-1] += 0.0
        assert not np.shares_memory(given[-1], sums.prefix_)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(StateError) as caught:
            attempt(sums)
        seen.append(story(caught.value))
    with pytest.raises(BudgetExceeded) as caught:
        sums.add_block(rows[:50])
    sums.close()
    check(secrets, [*seen, story(caught.value), surface(sums)])
    with pytest.raises(StateError, match="closed"):
        sums.secret_state()


def test_private_metrics_show_nothing(tmp_path):
    """The totals before their noise, the key, and figures that the run computes for the curator alone."""
    words = {"random_state": 3, "windows": 5}
    exact = progressive(kept.make("PIGD"), kept.Stream(rows=X), private=PrivateMetrics(mu=math.inf, windows=5)).private
    secrets, windows = rows_as_secrets(kept.make("PIGD")), []
    totals = [[w.first, w.loss] for w in exact.windows]
    secrets.numbers("totals", totals)
    secrets.numbers("running totals", np.cumsum(totals, axis=0))
    secrets.numbers("mean losses", [exact.loss_bound * w.loss / w.rows for w in exact.windows])
    words_of_key = np.random.PCG64(3).random_raw(8) & np.uint64(0xFFFFFFFF)
    collected = Secrets()
    of_run(collected, kept.make("PIGD", horizon=N).partial_fit(X[:2], [0, 1], classes=[0, 1])._run.state)
    assert collected.found_in(words_of_key.astype("<u4").tobytes())  # a seed becomes a key like this
    secrets.key("key", words_of_key.astype("<u4").tobytes())
    learner = kept.make("PIGD")
    found = progressive(learner, kept.Stream(rows=X), private=PrivateMetrics(mu=0.3, **words), on_window=windows.append)
    ours = [
        surface(found.private, learner, *windows),
        pickle.dumps(found.private),
        json.dumps(found.private.to_record()),
    ]
    check(secrets, ours)
    assert len(windows) == 5
    assert secrets.found_in(json.dumps(exact.to_record()))


# ---- errors ---------------------------------------------------------------------------------------------------------


def failing_loss(words):
    def gradient(p, y):
        calls.append(p)
        if len(calls) > 450:  # rows, not the points where a loss is tested
            if words:
                raise RuntimeError(words)
            return math.nan
        return -0.5 * y

    calls: list[float] = []
    return Custom(value=lambda p, y: -0.5 * y * p, gradient=gradient, lipschitz=1.0, smoothness=0.0)


def full(monkeypatch, at):
    real, calls = os.write, []

    def write(descriptor, content):
        calls.append(descriptor)
        if len(calls) > at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content)

    monkeypatch.setattr(os, "write", write)


TROUBLES = ("row", "infinite", "label", "horizon", "budget", "disk", "interrupt")
STRUCK = [
    *itertools.product(["PIGD", "PGIGA", "NOGD", "DPFTRL blt", "DPFTRL tree", "DPFTRL classes", "PQFTL"], TROUBLES),
    *itertools.product(["PIGD", "PGIGA", "NOGD", "DPFTRL blt", "DPFTRL tree"], ["loss", "nan"]),
]


@pytest.mark.parametrize(("name", "trouble"), STRUCK)
def test_errors_reveal_nothing_about_other_rows(name, trouble, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    loss = (
        {"loss": failing_loss("mine") if trouble == "loss" else failing_loss("")} if trouble in ("loss", "nan") else {}
    )
    ledger = Ledger(epsilon=1.0, delta=1e-6) if trouble == "budget" else None
    learner = kept.make(name, ledger=ledger, **loss)
    if trouble == "horizon":
        learner.set_params(release=50)
    secrets, rows, y, story_of = rows_as_secrets(learner), X.copy(), targets(learner).astype(float), []
    rows[430, 2] = {"row": math.nan, "infinite": math.inf}.get(trouble, rows[430, 2])
    y[430] = (
        7.0 if trouble == "label" and not isinstance(learner, PQFTL) else math.nan if trouble == "label" else y[430]
    )
    stream = kept.Stream(size=50, rows=rows, targets=y, stop=450 if trouble == "interrupt" else None)
    stream.n_rows = 400 if trouble == "horizon" else N
    stream.error = KeyboardInterrupt()

    def look(learner, stream):
        collect(secrets, learner)
        if learner._run.state.n_rows == 400 and trouble == "disk":
            full(monkeypatch, 1)

    keeper = {"checkpoint": State(tmp_path / "run", every=60)} if trouble == "disk" else {}
    expected = {"row": InvalidRow, "infinite": InvalidRow, "label": InvalidRow, "horizon": BudgetExceeded,
                "budget": BudgetExceeded, "loss": RuntimeError, "nan": InvalidParameter, "disk": OSError,
                "interrupt": KeyboardInterrupt}[trouble]  # fmt: skip
    with pytest.raises(expected) as caught:
        learner.fit_stream(stream, progress=look, **keeper)
    monkeypatch.undo()
    story_of = [story(caught.value), caplog.text]
    if trouble != "budget":
        story_of.append(surface(learner))
    if not loss and trouble != "budget":  # a function of this test cannot be pickled
        story_of.append(pickle.dumps(learner))
    check(secrets, story_of)


def test_a_revealing_error_is_detected(tmp_path):
    """The same test with a loss that puts its arguments into its message: this is the caller's doing, and detected."""
    told = []

    def gradient(p, y):
        told.append(p)
        if len(told) > 450:
            raise RuntimeError(f"p = {p}")
        return -0.5 * y

    loss = Custom(value=lambda p, y: -0.5 * y * p, gradient=gradient, lipschitz=1.0, smoothness=0.0)
    learner, secrets = kept.make("PIGD", loss=loss), Secrets()
    with pytest.raises(RuntimeError) as caught:
        learner.fit_stream(kept.Stream(size=50, rows=X))
    secrets.numbers("score", told)
    assert secrets.found_in(story(caught.value))
