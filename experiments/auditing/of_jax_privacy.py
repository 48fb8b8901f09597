"""JAX Privacy's clipped gradients and Gaussian noise: one step, whose claim is GDP with mu = 1 / noise multiplier.

Exact cases state the sum of the noisy sums of several steps, and test the epsilon of its accountants, and the noise
that ``calibrate_noise_multiplier`` returns for an epsilon.
"""

from __future__ import annotations

import itertools
import math

from serve import Case, canary_controls, cells, controls, exact_controls, main, normal, samples

DELTA = 1e-3
DOCS = "jax_privacy.clipped_grad, noise_addition.gaussian_privatizer: noise of stddev = multiplier x sensitivity()"


def step(multiplier, adjacency, **words):
    """The noisy sum of the clipped gradients of <row, w> at 0, which are the rows."""

    def make():
        import jax
        import jax.numpy as jnp
        import jax_privacy
        import numpy as np
        from dp_accounting import NeighboringRelation

        relation = {
            "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
            "replace": NeighboringRelation.REPLACE_ONE,
            "zero_out": NeighboringRelation.REPLACE_SPECIAL,
        }[adjacency]
        gradient = jax_privacy.clipped_grad(lambda w, x: jnp.sum(x @ w), l2_clip_norm=1.0, **words)
        noise = multiplier * gradient.sensitivity(relation)
        key = [np.random.SeedSequence().generate_state(1)[0]]

        def release(rows, runs):
            total = gradient(jnp.zeros(rows.shape[1]), jnp.asarray(rows, dtype=jnp.float32))
            privatizer = jax_privacy.noise_addition.gaussian_privatizer(stddev=noise, prng_key=jax.random.key(key[0]))
            key[0] += 1
            state = privatizer.init(total)
            for _ in range(runs):
                noisy, state = privatizer.update(total, state)
                yield np.asarray(noisy)

        return release

    return make


def textbook(noise):
    """The sum of rows, scaled to norm 1 here, and JAX's noise."""

    def make():
        import jax
        import numpy as np

        key = [jax.random.key(np.random.SeedSequence().generate_state(1)[0])]

        def release(rows, runs):
            total = (rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))).sum(axis=0)
            key[0], drawn = jax.random.split(key[0])
            return total + noise * np.asarray(jax.random.normal(drawn, (runs, len(total))))

        return release

    return make


def columns(scale):
    """The sum of rows and JAX's Laplace noise."""

    def make():
        import jax
        import numpy as np

        key = [jax.random.key(np.random.SeedSequence().generate_state(1)[0])]

        def release(rows, runs):
            key[0], drawn = jax.random.split(key[0])
            return rows.sum(axis=0) + scale * np.asarray(jax.random.laplace(drawn, (runs, rows.shape[1])))

        return release

    return make


def accountant(kind):
    """The accountant of training by steps on random samples."""
    from jax_privacy.accounting import accountants, analysis

    config = {"pld": accountants.PldAccountantConfig, "rdp": accountants.RdpAccountantConfig}[kind]
    return analysis.DpsgdTrainingAccountant(config())


def accounted(kind, noise, steps, samples_of, law, *, adjacency="add_remove", sizes=(0, 1), **words):
    """``law(rows)``, for the epsilon of so many steps on samples of (number, of so many rows)."""

    def compute():
        from jax_privacy.accounting import analysis

        method = analysis.SamplingMethod[words.get("method", "POISSON")]
        parameters = analysis.DpParams(
            noise_multipliers=noise, num_samples=samples_of[1], delta=DELTA, batch_size=samples_of[0],
            sampling_method=method, truncated_batch_size=words.get("truncated"),
        )  # fmt: skip
        return accountant(kind).compute_epsilon(steps, parameters)

    return Case(
        lambda: law, f"jax_privacy.accounting.analysis.DpsgdTrainingAccountant.compute_epsilon, {kind}", "exact",
        low=(-1.0,), epsilon=compute, delta=DELTA, adjacency=adjacency, sizes=sizes,
    )  # fmt: skip


def calibrated(kind, steps):
    """The noise for epsilon = 1 and all rows in every step."""

    def make():
        from jax_privacy.accounting import calibrate

        noise = calibrate.calibrate_noise_multiplier(
            target_epsilon=1.0, accountant=accountant(kind), batch_sizes=10, num_updates=steps, num_samples=10,
            target_delta=DELTA,
        )  # fmt: skip
        return lambda rows: normal(steps * rows.sum(), noise * math.sqrt(steps))

    return Case(
        make, f"jax_privacy.accounting.calibrate.calibrate_noise_multiplier, {kind}", "exact", low=(-1.0,), delta=DELTA,
        adjacency="add_remove", sizes=(0, 1),
    )  # fmt: skip


def fixed_law(size, noise):
    """The sum of a random subset of so many rows."""

    def law(rows):
        import numpy as np

        sums = np.array([sum(chosen) for chosen in itertools.combinations(rows[:, 0], size)])
        return cells((np.full(len(sums), 1.0 / len(sums)), sums), noise)

    return law


def canaries(adjacency):
    return Case(
        step(4.0, adjacency), DOCS, "canaries", 2_000, low=(-1.0,), epsilon=None, mu=0.25, delta=1e-10,
        adjacency=adjacency,
    )  # fmt: skip


def case(adjacency, **words):
    return Case(
        step(1.0, adjacency, **words), DOCS, low=(-2.0,) * 2, high=(2.0,) * 2, epsilon=None, mu=1.0,
        adjacency=adjacency, sizes=(1, 4), runs=8_000,
    )  # fmt: skip


CASES = {
    "rows added": case("add_remove"),
    "rows replaced": case("replace"),
    "rows zeroed": case("zero_out"),
    "normalized, unit norm": case("add_remove", normalize_by=4.0, rescale_to_unit_norm=True),
    **controls(
        textbook, "a Gaussian sum by JAX's generator", low=(-2.0,) * 2, high=(2.0,) * 2, epsilon=None, mu=1.0,
        adjacency="add_remove", sizes=(1, 4),
    ),
    "canaries, rows added": canaries("add_remove"),
    "canaries, rows replaced": canaries("replace"),
    "canaries, rows zeroed": canaries("zero_out"),
    **canary_controls(columns, "Laplace noise by JAX's generator"),
    **exact_controls(),
}  # fmt: skip
for KIND in ("pld", "rdp"):
    CASES |= {
        f"exact, noise for one step, {KIND}": calibrated(KIND, 1),
        f"exact, noise for 16 steps, {KIND}": calibrated(KIND, 16),
        f"exact, all rows, 16 steps, {KIND}": accounted(
            KIND, 4.0, 16, (10, 10), lambda rows: normal(16.0 * rows.sum(), 16.0)
        ),
        f"exact, half of the rows, {KIND}": accounted(
            KIND, 0.7, 1, (5, 10), lambda rows: cells(samples(rows, 0.5), 0.7)
        ),
        f"exact, a quarter of the rows, two steps, {KIND}": accounted(
            KIND, 0.7, 2, (5, 20), lambda rows: cells(samples(rows, 0.25), 0.7, 2), sizes=(0,)
        ),
        f"exact, two of four rows, {KIND}": accounted(
            KIND, 1.5, 1, (2, 4), fixed_law(2, 1.5), adjacency="replace", sizes=(4,), method="FIXED_BATCH_SIZE"
        ),
    }

if __name__ == "__main__":
    main("jax-privacy", CASES)
