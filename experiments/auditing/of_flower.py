"""Flower's ``LocalDpMod``: what a client sends, tested on the claim of its epsilon and delta for its update."""

from __future__ import annotations

import logging

from serve import Case, each, main

DOCS = "flwr.clientapp.mod.LocalDpMod(clipping_norm, sensitivity, epsilon, delta)"


def mod(epsilon, delta):
    """A client whose update is its row; two updates clipped to norm 1 are at most 2 apart."""

    def make():
        import numpy as np
        from flwr.app import Array, ArrayRecord, Message, RecordDict
        from flwr.clientapp.mod import LocalDpMod
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1  # as Flower's runtime does
        logging.getLogger("flwr").setLevel(logging.ERROR)
        local = LocalDpMod(clipping_norm=1.0, sensitivity=2.0, epsilon=epsilon, delta=delta)

        def record(values):
            return RecordDict({"arrays": ArrayRecord({"weights": Array(np.asarray(values, dtype=np.float64))})})

        def release(rows):
            sent = Message(content=record(np.zeros(rows.shape[1])), dst_node_id=1, message_type="train")
            reply = local(sent, None, lambda message, _: Message(content=record(rows[0]), reply_to=message))
            return reply.content["arrays"].to_numpy_ndarrays()[0]

        return each(release)

    return make


VECTORS = {"low": (-1.0,) * 3, "high": (1.0,) * 3, "sizes": (1,), "runs": 12_000}
CASES = {
    "LocalDpMod": Case(mod(0.9, 0.05), DOCS, **VECTORS, epsilon=0.9, delta=0.05, failures="skip"),
    "LocalDpMod, failures seen": Case(mod(0.9, 0.05), DOCS, **VECTORS, epsilon=0.9, delta=0.05, failures="count"),
}

if __name__ == "__main__":
    main("flwr", CASES)
