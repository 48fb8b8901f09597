"""DP-SGD with Poisson sampling and numpy's noise, tested on the epsilon that dp-accounting computes for it."""

from __future__ import annotations

import functools
import logging

import numpy as np
from serve import Case, controls, main

DELTA = 0.05


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


@functools.cache
def claimed(kind, probability, noise, steps):
    """Epsilon at delta, by privacy loss distributions or Renyi divergences, for adding or removing a row."""
    try:
        import dp_accounting
    except ImportError:
        return None
    logging.getLogger("absl").setLevel(logging.ERROR)
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise)), steps
    )
    accountants = {"pld": dp_accounting.pld.PLDAccountant, "rdp": dp_accounting.rdp.RdpAccountant}
    return float(accountants[kind]().compose(event).get_epsilon(DELTA))


def all_rows(noise):
    """One step on all rows: mu = 1 / noise, which no accountant has to say."""
    return sampled_sums(1.0, noise, 1)


def case(kind, probability, noise, steps):
    return Case(
        sampled_sums(probability, noise, steps), f"{kind} accountant, epsilon at {DELTA}", low=(-1.0,), high=(1.0,),
        epsilon=claimed(kind, probability, noise, steps), delta=DELTA, adjacency="add_remove", sizes=(0, 1),
        runs=100_000,
    )  # fmt: skip


CASES = {
    "pld, one step": case("pld", 1.0, 1.0, 1),
    "pld, half of the rows": case("pld", 0.5, 0.5, 1),
    "pld, four steps": case("pld", 0.25, 0.6, 4),
    "rdp, four steps": case("rdp", 0.25, 0.6, 4),
    **controls(
        all_rows, "a Gaussian sum", low=(-1.0,), high=(1.0,), epsilon=None, mu=1.0, adjacency="add_remove", sizes=(0,),
        runs=8_000,
    ),
}  # fmt: skip

if __name__ == "__main__":
    main("dp-accounting", CASES)
