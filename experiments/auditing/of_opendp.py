"""OpenDP's measurements, tested on the claims that they compute themselves: ``measurement.map(d_in)``."""

from __future__ import annotations

import numpy as np
from serve import Case, controls, each, main

DOCS = "measurement.map(1) of OpenDP"


def of_one_number(make, kind=float):
    """A measurement on one number, the sum of a column of values between 0 and 1."""

    def made():
        import opendp.prelude as dp

        dp.enable_features("contrib", "floating-point", "honest-but-curious")
        measurement = make(dp)
        return each(lambda rows: measurement(kind(rows.sum())))

    return made


def textbook(scale):
    """A measurement of one's own, with numpy's Laplace noise."""
    rng = np.random.default_rng()

    def make(dp):
        return dp.m.make_user_measurement(
            *number(dp), dp.max_divergence(), function=lambda x: float(x + rng.laplace(scale=scale)),
            privacy_map=lambda d_in: d_in / scale, TO=float,
        )  # fmt: skip

    return of_one_number(make)


def of_many_numbers(make):
    def made():
        import opendp.prelude as dp

        dp.enable_features("contrib", "floating-point")
        measurement = make(dp)
        return each(lambda rows: measurement(rows.sum(axis=0).tolist()))

    return made


def of_rows(make):
    """A pipeline on all rows that includes a clamp and a sum or a mean."""

    def made():
        import opendp.prelude as dp

        dp.enable_features("contrib", "floating-point", "honest-but-curious")
        pipelines: dict[int, object] = {}

        def release(rows):
            if len(rows) not in pipelines:
                pipelines[len(rows)] = make(dp, len(rows))
            return pipelines[len(rows)](rows[:, 0].tolist())

        return each(release)

    return made


def number(dp, kind=float):
    return dp.atom_domain(T=kind, **({"nan": False} if kind is float else {})), dp.absolute_distance(T=kind)


def vector(dp, distance):
    return dp.vector_domain(dp.atom_domain(T=float, nan=False)), distance(T=float)


def floats(dp):
    return dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()


def sum_of_rows(dp, size):
    return floats(dp) >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_sum() >> dp.m.then_laplace(scale=1.0)


def mean_of_rows(dp, size):
    pipeline = floats(dp) >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_resize(size, 0.5) >> dp.t.then_mean()
    scale = dp.binary_search_param(lambda s: pipeline >> dp.m.then_laplace(scale=s), d_in=2, d_out=1.0)
    return pipeline >> dp.m.then_laplace(scale=scale)


INTEGERS = {"levels": {0: (0.0, 1.0)}}
CASES = {
    "laplace": Case(
        of_one_number(lambda dp: dp.m.make_laplace(*number(dp), scale=1.0)), DOCS, sizes=(1,), low_bits=True
    ),
    "laplace of many": Case(
        of_many_numbers(lambda dp: dp.m.make_laplace(*vector(dp, dp.l1_distance), scale=1.0)),
        DOCS, low=(-0.25,) * 2, high=(0.25,) * 2, sizes=(1,), low_bits=True,
    ),
    "gaussian": Case(
        of_one_number(lambda dp: dp.m.make_gaussian(*number(dp), scale=1.0)), DOCS, sizes=(1,), epsilon=None, mu=1.0,
        low_bits=True,
    ),
    "geometric": Case(
        of_one_number(lambda dp: dp.m.make_geometric(*number(dp, int), scale=1.0), int), DOCS, **INTEGERS, sizes=(1,)
    ),
    "bounded geometric": Case(
        of_one_number(lambda dp: dp.m.make_geometric(*number(dp, int), scale=1.0, bounds=(0, 1)), int), DOCS,
        **INTEGERS, sizes=(1,),
    ),
    "randomized response": Case(
        of_one_number(lambda dp: dp.m.make_randomized_response_bool(prob=0.75), bool), DOCS, **INTEGERS, sizes=(1,),
        epsilon=1.0986122886681098,  # the logarithm of 3
    ),
    "sum": Case(of_rows(sum_of_rows), DOCS, adjacency="add_remove", low_bits=True),
    "mean": Case(of_rows(mean_of_rows), DOCS, sizes=(1, 4, 10), low_bits=True),
    **controls(textbook, "a measurement of one's own with numpy's Laplace noise", sizes=(1,)),
}  # fmt: skip

if __name__ == "__main__":
    main("opendp", CASES)
