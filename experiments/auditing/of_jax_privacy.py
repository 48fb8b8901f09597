"""JAX Privacy's clipped gradients and Gaussian noise: one step, whose claim is GDP with mu = 1 / noise multiplier."""

from __future__ import annotations

from serve import Case, controls, main

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
}  # fmt: skip

if __name__ == "__main__":
    main("jax-privacy", CASES)
