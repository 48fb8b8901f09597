"""Flower's ``LocalDpMod``: what a client sends, tested on the claim of its epsilon and delta for its update.

Exact cases state the update and the deviation that the mod hands to its generator of noise. The canaries of one run are
clients of one round, each with an update of one weight: what one of them sends depends on its own update alone.
"""

from __future__ import annotations

import logging

import numpy as np
from serve import Case, canary_controls, controls, each, exact_controls, main, normal, seen

DOCS = "flwr.clientapp.mod.LocalDpMod(clipping_norm, sensitivity, epsilon, delta)"


def client(modifier, kind=lambda release: release):
    """A client whose update is its row, and whose reply the mod that ``modifier()`` returns changes."""

    def make():
        import numpy as np
        from flwr.app import Array, ArrayRecord, Message, RecordDict
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1  # as Flower's runtime does
        logging.getLogger("flwr").setLevel(logging.ERROR)
        local = modifier()

        def record(values):
            return RecordDict({"arrays": ArrayRecord({"weights": Array(np.asarray(values, dtype=np.float64))})})

        def release(rows):
            sent = Message(content=record(np.zeros(rows.shape[1])), dst_node_id=1, message_type="train")
            reply = local(sent, None, lambda message, _: Message(content=record(rows[0]), reply_to=message))
            return reply.content["arrays"].to_numpy_ndarrays()[0]

        return each(kind(release))

    return make


def local_dp(epsilon, delta):
    """Two updates clipped to norm 1 are at most 2 apart."""

    def modifier():
        from flwr.clientapp.mod import LocalDpMod

        return LocalDpMod(clipping_norm=1.0, sensitivity=2.0, epsilon=epsilon, delta=delta)

    return modifier


def mod(epsilon, delta, *kind):
    return client(local_dp(epsilon, delta), *kind)


def one_round(modifier):
    """What the clients of a round send, each of which has one row, of one weight."""

    def make():
        release = client(modifier)()
        return each(lambda rows: [next(iter(release(np.array([[weight]]), 1))) for weight in rows.sum(axis=1)])

    return make


def textbook(noise):
    """A mod of one's own: it scales the update to norm 1 and adds numpy's noise of twice the given scale."""

    def modifier():
        import numpy as np
        from flwr.app import Array, ArrayRecord

        rng = np.random.default_rng()

        def local(message, context, call_next):
            reply = call_next(message, context)
            (update,) = reply.content["arrays"].to_numpy_ndarrays()
            update = update / max(1.0, np.linalg.norm(update)) + rng.normal(scale=2.0 * noise, size=update.shape)
            reply.content["arrays"] = ArrayRecord({"weights": Array(update)})
            return reply

        return local

    return client(modifier)


def columns(scale):
    """Sums of columns and numpy's Laplace noise, as a record of Flower."""

    def make():
        import numpy as np
        from flwr.app import Array

        rng = np.random.default_rng()
        return each(
            lambda rows: Array(rows.sum(axis=0) + rng.laplace(scale=scale, size=rows.shape[1])).numpy()
        )  # fmt: skip

    return make


def exact(epsilon, delta):
    """The normal distribution of an update of one weight, with what the mod adds noise to and how much."""

    def make():
        from flwr.clientapp.mod import localdp_mod

        seen_by_noise = []
        localdp_mod.add_gaussian_noise_inplace = lambda arrays, deviation: seen_by_noise.append(
            (float(arrays[0][0]), float(deviation))
        )
        release = mod(epsilon, delta)()

        def law(rows):
            list(release(rows, 1))
            return normal(*seen_by_noise.pop())

        return law

    return Case(make, DOCS, "exact", low=(-1.0,), epsilon=epsilon, delta=delta, sizes=(1,), failures="skip")


def server_side():
    """The mean of clipped updates with the noise of ``compute_stdv``, whose claim is mu = 1 / noise multiplier."""
    from flwr.supercore.differential_privacy import compute_stdv

    return lambda rows: normal(rows.mean(), compute_stdv(1.0, 1.0, len(rows)))


ROUND = {"kind": "canaries", "canaries": 1_000, "low": (-1.0,), "high": (1.0,)}
VECTORS = {"low": (-1.0,) * 3, "high": (1.0,) * 3, "sizes": (1,), "runs": 12_000}
CASES = {
    "LocalDpMod": Case(mod(0.9, 0.05), DOCS, **VECTORS, epsilon=0.9, delta=0.05, failures="skip"),
    "LocalDpMod, failures seen": Case(mod(0.9, 0.05, seen), DOCS, **VECTORS, epsilon=0.9, delta=0.05),
    **controls(textbook, "a mod of one's own with numpy's Gaussian noise", **VECTORS, epsilon=None, mu=1.0),
    "canaries, LocalDpMod": Case(one_round(local_dp(2.0, 1e-3)), DOCS, **ROUND, epsilon=2.0, delta=1e-3),
    **canary_controls(columns, "a record of Flower with numpy's Laplace noise"),
    "exact, LocalDpMod": exact(0.9, 0.05),
    "exact, LocalDpMod, delta 1e-5": exact(0.9, 1e-5),
    "exact, LocalDpMod, epsilon 3": exact(3.0, 0.05),
    "exact, LocalDpMod, epsilon 10, delta 1e-5": exact(10.0, 1e-5),
    "exact, compute_stdv": Case(
        server_side, "flwr.supercore.differential_privacy.compute_stdv: noise multiplier 1", "exact", low=(-1.0,),
        epsilon=None, mu=1.0, adjacency="zero_out", sizes=(1, 4),
    ),
    **exact_controls(),
}  # fmt: skip

if __name__ == "__main__":
    main("flwr", CASES)
