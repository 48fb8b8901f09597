"""DP-SGD with Poisson sampling and numpy's noise, tested on the epsilon that dp-accounting computes for it.

Exact cases state the mechanism that an event of dp-accounting stands for, by the event's docstring.
"""

from __future__ import annotations

import itertools
import logging
import math

import numpy as np
from serve import Case, below_laplace, canary_controls, cells, controls, exact_controls, main, normal, samples

DELTA = 0.05
SMALL = 1e-3
RELATIONS = {"add_remove": "ADD_OR_REMOVE_ONE", "replace": "REPLACE_ONE", "zero_out": "REPLACE_SPECIAL"}


def sampled_sums(probability, noise, steps):
    """The noisy sums of ``steps`` steps, each over an independent random sample; rows have norm at most 1."""

    def make():
        rng = np.random.default_rng()

        def release(rows, runs):
            taken = rng.random((runs, steps, len(rows))) < probability
            sums = taken.astype(np.float64) @ rows
            return (sums + rng.normal(scale=noise, size=sums.shape)).reshape(runs, -1)

        return release

    return make


def sums_over_steps(probability, noise, steps):
    """The noisy sums of all steps, added up."""

    def make():
        release = sampled_sums(probability, noise, steps)()
        return lambda rows, runs: release(rows, runs).reshape(runs, steps, -1).sum(axis=1)

    return make


def columns(scale):
    rng = np.random.default_rng()
    return lambda: lambda rows, runs: rows.sum(axis=0) + rng.laplace(scale=scale, size=(runs, rows.shape[1]))


def epsilon_of(kind, event, delta, adjacency="add_remove"):
    """A function that computes epsilon at delta, by privacy loss distributions or Renyi divergences."""

    def compute():
        import dp_accounting

        logging.getLogger("absl").setLevel(logging.ERROR)
        relation = getattr(dp_accounting.NeighboringRelation, RELATIONS[adjacency])
        accountants = {"pld": dp_accounting.pld.PLDAccountant, "rdp": dp_accounting.rdp.RdpAccountant}
        return accountants[kind](neighboring_relation=relation).compose(event(dp_accounting)).get_epsilon(delta)

    return compute


def poisson(probability, noise, steps):
    """The event of so many sampled steps."""
    return lambda dp: dp.SelfComposedDpEvent(
        dp.PoissonSampledDpEvent(probability, dp.GaussianDpEvent(noise)), steps
    )  # fmt: skip


def all_rows(noise):
    """One step on all rows: mu = 1 / noise, which no accountant has to say."""
    return sampled_sums(1.0, noise, 1)


def case(kind, probability, noise, steps):
    return Case(
        sampled_sums(probability, noise, steps), f"{kind} accountant, epsilon at {DELTA}", low=(-1.0,), high=(1.0,),
        epsilon=epsilon_of(kind, poisson(probability, noise, steps), DELTA), delta=DELTA, adjacency="add_remove",
        sizes=(0, 1), runs=100_000,
    )  # fmt: skip


def canaries(kind, probability, noise, steps, delta=1e-10):
    return Case(
        sums_over_steps(probability, noise, steps), f"{kind} accountant, epsilon at {delta}", "canaries", 2_000,
        epsilon=epsilon_of(kind, poisson(probability, noise, steps), delta), delta=delta, adjacency="add_remove",
    )  # fmt: skip


def exact(kind, event, law, adjacency="add_remove", delta=SMALL, **words):
    """``law(rows)``, for the epsilon of its event."""
    source = f"{kind} accountant for {RELATIONS[adjacency]}, epsilon at {delta}"
    return Case(
        lambda: law, source, "exact", delta=delta, adjacency=adjacency,
        epsilon=epsilon_of(kind, event, delta, adjacency), **{"low": (-1.0,), "sizes": (0, 1), **words},
    )  # fmt: skip


def calibrated(noise, words):
    """One Gaussian sum with the noise that a function of dp-accounting returns for epsilon = 1."""

    def make():
        import dp_accounting

        scale = noise(dp_accounting)
        return lambda rows: normal(rows.sum(), scale)

    return Case(make, words, "exact", low=(-1.0,), delta=SMALL, adjacency="add_remove", sizes=(0, 1))


def gaussian_law(noise, steps):
    """The total of all steps, which says as much as all of them."""
    return lambda rows: normal(steps * rows.sum(), noise * math.sqrt(steps))


def laplace_law(scale, steps):
    """Of the sum over steps of what is released, cut off at 0 and 1 and rounded down to a hundredth."""

    def law(rows):
        edges = np.arange(1, 101) / 100
        below = [below_laplace((edge - rows.sum()) / scale) for edge in edges]
        total = one = np.diff(below, prepend=0.0, append=1.0)
        for _ in range(steps - 1):
            total = np.convolve(total, one)
        return {"probabilities": total.tolist()}

    return law


def sampled_law(probability, noise, steps=1, **words):
    return lambda rows: cells(samples(rows, probability), noise, steps, **words)


def subsets_law(size, noise):
    """The sum of a random subset of so many rows."""

    def law(rows):
        sums = np.array([sum(chosen) for chosen in itertools.combinations(rows[:, 0], size)])
        return cells((np.full(len(sums), 1.0 / len(sums)), sums), noise)

    return law


def truncated_law(probability, size, noise):
    """The sum of a random sample, of which a random subset of so many rows is taken if it has more."""

    def law(rows):
        weights, sums = [], []
        for count in range(len(rows) + 1):
            drawn = [*itertools.combinations(rows[:, 0], min(count, size))]
            chance = math.comb(len(rows), count) * probability**count * (1.0 - probability) ** (len(rows) - count)
            weights += [chance / len(drawn)] * len(drawn)
            sums += [sum(chosen) for chosen in drawn]
        return cells((np.array(weights), np.array(sums)), noise)

    return law


def mixture_law(sensitivities, probabilities, noise):
    """One of several multiples of the row's value is added, by chance."""
    return lambda rows: cells((np.array(probabilities), rows.sum() * np.array(sensitivities)), noise)


def best_law(noise, mean):
    """The largest of a geometric number of Gaussian sums."""

    def law(rows):
        one = np.cumsum(cells((np.ones(1), np.array([rows.sum()])), noise)["probabilities"])
        return {"probabilities": np.diff(one / mean / (1.0 - (1.0 - 1.0 / mean) * one), prepend=0.0).tolist()}

    return law


def response_law(noise, count):
    """How many answers are 1, each of which is drawn anew with probability ``noise``; of a row of 0 always."""
    return lambda rows: {"law": "binom", "n": count, "p": 0.5 + 0.5 * (1.0 - noise) * float(rows[0, 0])}


def steps_of(event, steps):
    return lambda dp: dp.SelfComposedDpEvent(event(dp), steps)


def answers(steps):
    """The event of so many answers, each drawn anew from 0 and 1 with probability 1/2."""
    return steps_of(lambda dp: dp.RandomizedResponseDpEvent(0.5, 2), steps)


SIGNS = {"levels": {0: (-1.0, 1.0)}, "sizes": (1,)}
CASES = {
    "pld, one step": case("pld", 1.0, 1.0, 1),
    "pld, half of the rows": case("pld", 0.5, 0.5, 1),
    "pld, four steps": case("pld", 0.25, 0.6, 4),
    "rdp, four steps": case("rdp", 0.25, 0.6, 4),
    **controls(
        all_rows, "a Gaussian sum", low=(-1.0,), high=(1.0,), epsilon=None, mu=1.0, adjacency="add_remove", sizes=(0,),
        runs=8_000,
    ),
    "canaries, pld, eight steps": canaries("pld", 0.5, 4.0, 8),
    "canaries, rdp, eight steps": canaries("rdp", 0.5, 4.0, 8),
    "canaries, pld, one step": canaries("pld", 1.0, 2.0, 1),
    **canary_controls(columns, "numpy's Laplace noise"),
    "exact, calibrate_dp_mechanism": calibrated(
        lambda dp: dp.calibrate_dp_mechanism(dp.pld.PLDAccountant, dp.GaussianDpEvent, 1.0, SMALL),
        "calibrate_dp_mechanism(PLDAccountant, GaussianDpEvent, 1, delta)",
    ),
    "exact, get_sigma_gaussian": calibrated(
        lambda dp: dp.get_sigma_gaussian(epsilon=1.0, delta=SMALL), "get_sigma_gaussian(1, delta)"
    ),
    **exact_controls(),
}  # fmt: skip
for KIND in ("pld", "rdp"):
    CASES |= {
        f"exact, {KIND}, one step": exact(KIND, lambda dp: dp.GaussianDpEvent(1.0), gaussian_law(1.0, 1)),
        f"exact, {KIND}, one step, delta 1e-5": exact(
            KIND, lambda dp: dp.GaussianDpEvent(1.0), gaussian_law(1.0, 1), delta=1e-5
        ),
        f"exact, {KIND}, 16 steps": exact(
            KIND, steps_of(lambda dp: dp.GaussianDpEvent(4.0), 16), gaussian_law(4.0, 16)
        ),
        # known: https://github.com/google/differential-privacy/issues/378
        f"exact, {KIND}, rows replaced": exact(
            KIND, lambda dp: dp.GaussianDpEvent(2.0), gaussian_law(2.0, 1), "replace", sizes=(1,)
        ),
        f"exact, {KIND}, one Laplace step": exact(KIND, lambda dp: dp.LaplaceDpEvent(1.0), laplace_law(1.0, 1)),
        f"exact, {KIND}, four Laplace steps": exact(
            KIND, steps_of(lambda dp: dp.LaplaceDpEvent(2.0), 4), laplace_law(2.0, 4)
        ),
        f"exact, {KIND}, half of the rows": exact(KIND, poisson(0.5, 0.7, 1), sampled_law(0.5, 0.7)),
        f"exact, {KIND}, two steps on a quarter of the rows": exact(
            KIND, poisson(0.25, 0.7, 2), sampled_law(0.25, 0.7, 2), sizes=(0,)
        ),
        f"exact, {KIND}, eight randomized answers, rows replaced": exact(
            KIND, answers(8), response_law(0.5, 8), "replace", **SIGNS
        ),
        f"exact, {KIND}, eight randomized answers, rows zeroed": exact(
            KIND, answers(8), response_law(0.5, 8), "zero_out", **SIGNS
        ),
    }  # fmt: skip
CASES |= {
    "exact, pld, half of the rows, rows replaced": exact(
        "pld", poisson(0.5, 0.7, 1), sampled_law(0.5, 0.7), "replace", sizes=(1, 2)
    ),
    "exact, pld, a Laplace step on half of the rows": exact(
        "pld", lambda dp: dp.PoissonSampledDpEvent(0.5, dp.LaplaceDpEvent(0.7)),
        sampled_law(0.5, 0.7, below=below_laplace),
    ),
    "exact, pld, discrete Laplace": exact(
        "pld", lambda dp: dp.dp_event.DiscreteLaplaceDpEvent(1.0, 1),
        lambda rows: {"law": "dlaplace", "a": 1.0, "loc": float(rows.sum())}, levels={0: (-1.0, 1.0)},
    ),
    "exact, pld, mixture of Gaussians": exact(
        "pld", lambda dp: dp.dp_event.MixtureOfGaussiansDpEvent(3.0, (0.0, 1.0, 2.0), (0.5, 0.25, 0.25)),
        mixture_law((0.0, 1.0, 2.0), (0.5, 0.25, 0.25), 3.0), sizes=(0,),
    ),
    "exact, pld, a truncated sample, rows replaced": exact(
        "pld", lambda dp: dp.TruncatedSubsampledGaussianDpEvent(3, 0.5, 1, 0.7), truncated_law(0.5, 1, 0.7), "replace",
        sizes=(3,),
    ),
    "exact, pld, a truncated sample, rows added": exact(
        "pld", lambda dp: dp.TruncatedSubsampledGaussianDpEvent(3, 0.5, 1, 0.7), truncated_law(0.5, 1, 0.7), sizes=(2,)
    ),
    # known: https://github.com/google/differential-privacy/issues/378
    "exact, rdp, two of four rows": exact(
        "rdp", lambda dp: dp.SampledWithoutReplacementDpEvent(4, 2, dp.GaussianDpEvent(1.0)), subsets_law(2, 1.0),
        "replace", sizes=(4,),
    ),
    "exact, rdp, rows from 0 to 1 replaced": exact(
        "rdp", lambda dp: dp.GaussianDpEvent(2.0), gaussian_law(2.0, 1), "replace", low=(0.0,), sizes=(1,)
    ),
    "exact, rdp, two of four rows from 0 to 1": exact(
        "rdp", lambda dp: dp.SampledWithoutReplacementDpEvent(4, 2, dp.GaussianDpEvent(1.0)), subsets_law(2, 1.0),
        "replace", low=(0.0,), sizes=(4,),
    ),
    "exact, rdp, a tree over four steps": exact(  # a row of the first step is in three nodes
        "rdp", lambda dp: dp.SingleEpochTreeAggregationDpEvent(2.0, 4), gaussian_law(2.0, 3), "zero_out", sizes=(1,)
    ),
    "exact, rdp, the best of a random number": exact(
        "rdp", lambda dp: dp.dp_event.RepeatAndSelectDpEvent(dp.GaussianDpEvent(2.0), 4.0, 1.0), best_law(2.0, 4.0)
    ),
}  # fmt: skip

if __name__ == "__main__":
    main("dp-accounting", CASES)
