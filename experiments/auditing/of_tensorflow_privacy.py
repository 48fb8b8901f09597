"""TensorFlow Privacy: a step of its Keras optimizer and its sum query; the claim is GDP, mu = 1 / multiplier."""

from __future__ import annotations

import os

from serve import Case, controls, each, main

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
DOCS = "tensorflow_privacy: noise of noise_multiplier x l2_norm_clip"


def keras_step():
    """What a step with learning rate 1 adds to the weights, for the loss -<row, w>; rows are clipped to norm 1."""
    import tensorflow as tf
    from tensorflow_privacy import DPKerasSGDOptimizer

    def release(rows):
        weights = tf.Variable(tf.zeros(rows.shape[1]))
        table = tf.constant(rows, dtype=tf.float32)
        optimizer = DPKerasSGDOptimizer(
            l2_norm_clip=1.0, noise_multiplier=1.0, num_microbatches=len(rows), learning_rate=1.0
        )
        pairs = optimizer._compute_gradients(lambda: -tf.linalg.matvec(table, weights), [weights])
        optimizer.apply_gradients(pairs)
        return weights.numpy() * len(rows)  # the optimizer takes the mean; the number of rows is public

    return each(release)


def sum_query():
    import tensorflow as tf
    from tensorflow_privacy import GaussianSumQuery

    query = GaussianSumQuery(l2_norm_clip=1.0, stddev=1.0)

    def release(rows):
        state = query.initial_global_state()
        parameters = query.derive_sample_params(state)
        sample = query.initial_sample_state(tf.zeros(rows.shape[1]))
        for row in rows:
            sample = query.accumulate_record(parameters, sample, tf.constant(row, dtype=tf.float32))
        return query.get_noised_result(sample, state)[0].numpy()

    return each(release)


def textbook(noise):
    """The sum of rows, clipped by TensorFlow, and TensorFlow's noise."""

    def make():
        import tensorflow as tf

        def release(rows):
            total = tf.reduce_sum(tf.clip_by_norm(tf.constant(rows, dtype=tf.float32), 1.0, axes=[1]), axis=0)
            return (total + tf.random.normal(total.shape, stddev=noise)).numpy()

        return each(release)

    return make


VECTORS = {"low": (-2.0,) * 2, "high": (2.0,) * 2, "epsilon": None, "runs": 3_000}
CASES = {
    "DPKerasSGDOptimizer": Case(keras_step, DOCS, **VECTORS, mu=1.0, adjacency="zero_out", sizes=(1, 4)),
    "GaussianSumQuery": Case(sum_query, DOCS, **VECTORS, mu=1.0, adjacency="add_remove", sizes=(0, 3)),
    **controls(
        textbook, "a Gaussian sum by TensorFlow's generator", **{**VECTORS, "runs": 20_000}, mu=1.0,
        adjacency="add_remove", sizes=(1, 4),
    ),
}  # fmt: skip

if __name__ == "__main__":
    main("tensorflow-privacy", CASES)
