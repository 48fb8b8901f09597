"""TensorFlow Privacy: a step of its Keras optimizer and its sum query; the claim is GDP, mu = 1 / multiplier.

Exact cases state the sum of the noisy sums of all steps, and test the epsilon of its privacy statement and of its
accountants, and the noise that ``compute_noise`` returns for an epsilon.
"""

from __future__ import annotations

import os
import re

from serve import Case, canary_controls, cells, controls, each, exact_controls, main, normal, samples

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
DOCS = "tensorflow_privacy: noise of noise_multiplier x l2_norm_clip"


DELTA = 1e-3


def keras_step(noise=1.0):
    """What a step with learning rate 1 adds to the weights, for the loss -<row, w>; rows are clipped to norm 1."""

    def make():
        import tensorflow as tf
        from tensorflow_privacy import DPKerasSGDOptimizer

        def release(rows):
            weights = tf.Variable(tf.zeros(rows.shape[1]))
            table = tf.constant(rows, dtype=tf.float32)
            optimizer = DPKerasSGDOptimizer(
                l2_norm_clip=1.0, noise_multiplier=noise, num_microbatches=len(rows), learning_rate=1.0
            )
            pairs = optimizer._compute_gradients(lambda: -tf.linalg.matvec(table, weights), [weights])
            optimizer.apply_gradients(pairs)
            return weights.numpy() * len(rows)  # the optimizer takes the mean; the number of rows is public

        return each(release)

    return make


def sum_query(noise=1.0):
    def make():
        import tensorflow as tf
        from tensorflow_privacy import GaussianSumQuery

        query = GaussianSumQuery(l2_norm_clip=1.0, stddev=noise)

        def release(rows):
            state = query.initial_global_state()
            parameters = query.derive_sample_params(state)
            sample = query.initial_sample_state(tf.zeros(rows.shape[1]))
            for row in rows:
                sample = query.accumulate_record(parameters, sample, tf.constant(row, dtype=tf.float32))
            return query.get_noised_result(sample, state)[0].numpy()

        return each(release)

    return make


def textbook(noise):
    """The sum of rows, clipped by TensorFlow, and TensorFlow's noise."""

    def make():
        import tensorflow as tf

        def release(rows):
            total = tf.reduce_sum(tf.clip_by_norm(tf.constant(rows, dtype=tf.float32), 1.0, axes=[1]), axis=0)
            return (total + tf.random.normal(total.shape, stddev=noise)).numpy()

        return each(release)

    return make


def columns(scale):
    """The sum of rows, and Laplace noise as the difference of exponential numbers from TensorFlow's generator."""

    def make():
        import tensorflow as tf

        def release(rows):
            one, other = tf.random.gamma([2, rows.shape[1]], alpha=1.0)
            return rows.sum(axis=0) + scale * (one - other).numpy()

        return each(release)

    return make


def stated(kind, noise, size, of, epochs, line, examples=None):
    """A function that reads epsilon from a line of the privacy statement."""

    def compute():
        from tensorflow_privacy.privacy.analysis import compute_dp_sgd_privacy_lib as library

        text = library.compute_dp_sgd_privacy_statement(
            of, size, epochs, noise, DELTA, used_microbatching=False, max_examples_per_user=examples,
            accountant_type=library.AccountantType[kind],
        )  # fmt: skip
        return re.findall(line + r".*?([0-9.]+)\n", text)[-1]

    return compute


def gdp(noise, size, of):
    """A function that has the accountant of Gaussian differential privacy compute epsilon of one step."""

    def compute():
        from tensorflow_privacy.privacy.analysis import gdp_accountant

        return gdp_accountant.compute_eps_poisson(size / of, noise, of, size, DELTA)

    return compute


def budget():
    """The sum of four steps with the noise that is returned for epsilon = 1."""
    from tensorflow_privacy.privacy.analysis.compute_noise_from_budget_lib import compute_noise

    noise = compute_noise(10, 10, 1.0, 4, DELTA, 0.5)
    return lambda rows: normal(4 * rows.sum(), noise * 2.0)


def exact(epsilon, law, source, *sizes):
    return Case(
        lambda: law, f"tensorflow_privacy: {source}", "exact", low=(-1.0,), epsilon=epsilon, delta=DELTA,
        adjacency="add_remove", sizes=sizes or (0, 1),
    )  # fmt: skip


STATEMENT = "compute_dp_sgd_privacy_statement"
ONCE, SAMPLED = "Epsilon with each example occurring once per epoch:", r"Epsilon assuming Poisson sampling \(\*\):"
MANY = {"kind": "canaries", "epsilon": None, "delta": 1e-10}
VECTORS = {"low": (-2.0,) * 2, "high": (2.0,) * 2, "epsilon": None, "runs": 3_000}
CASES = {
    "DPKerasSGDOptimizer": Case(keras_step(), DOCS, **VECTORS, mu=1.0, adjacency="zero_out", sizes=(1, 4)),
    "GaussianSumQuery": Case(sum_query(), DOCS, **VECTORS, mu=1.0, adjacency="add_remove", sizes=(0, 3)),
    **controls(
        textbook, "a Gaussian sum by TensorFlow's generator", **{**VECTORS, "runs": 20_000}, mu=1.0,
        adjacency="add_remove", sizes=(1, 4),
    ),
    "canaries, DPKerasSGDOptimizer": Case(
        keras_step(4.0), DOCS, canaries=1_000, **MANY, mu=0.25, adjacency="zero_out"
    ),
    "canaries, GaussianSumQuery": Case(sum_query(4.0), DOCS, canaries=2_000, **MANY, mu=0.25, adjacency="add_remove"),
    **canary_controls(columns, "Laplace noise by TensorFlow's generator"),
    **exact_controls(),
    "exact, compute_noise": Case(
        budget, "tensorflow_privacy: compute_noise", "exact", low=(-1.0,), delta=DELTA, adjacency="add_remove",
        sizes=(0, 1),
    ),
    # known: an approximation by the central limit theorem, arXiv 2106.02848
    "exact, gdp, half of the rows": exact(
        gdp(1.0, 5, 10), lambda rows: cells(samples(rows, 0.5), 1.0), "gdp_accountant.compute_eps_poisson"
    ),
    "exact, gdp, a tenth of the rows": exact(
        gdp(0.7, 1, 10), lambda rows: cells(samples(rows, 0.1), 0.7), "gdp_accountant.compute_eps_poisson"
    ),
}  # fmt: skip
for KIND in ("RDP", "PLD"):
    CASES |= {
        f"exact, statement, each row once, {KIND}": exact(
            stated(KIND, 1.0, 5, 10, 1, ONCE), lambda rows: normal(rows.sum(), 1.0), STATEMENT
        ),
        f"exact, statement, four epochs, {KIND}": exact(
            stated(KIND, 2.0, 5, 10, 4, ONCE), lambda rows: normal(4 * rows.sum(), 4.0), STATEMENT
        ),
        f"exact, statement, sampled, {KIND}": exact(
            stated(KIND, 0.7, 5, 10, 0.5, SAMPLED), lambda rows: cells(samples(rows, 0.5), 0.7), STATEMENT
        ),
        f"exact, statement, sampled, two steps, {KIND}": exact(
            stated(KIND, 0.7, 5, 20, 0.5, SAMPLED), lambda rows: cells(samples(rows, 0.25), 0.7, 2), STATEMENT, 0
        ),
    }
CASES["exact, statement, a user with two rows"] = exact(
    stated("RDP", 2.0, 5, 10, 1, ONCE, 2), lambda rows: normal(2 * rows.sum(), 2.0), f"{STATEMENT}, user-level"
)

if __name__ == "__main__":
    main("tensorflow-privacy", CASES)
