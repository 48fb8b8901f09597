"""A plain twin of DPFTRL with a score for each class: gradients by definition, on the twin of DPFTRL."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from twins import slope_at
from twins_leaders import LeaderTwin, leader_twin_of

from privol.losses import get_loss


def class_slopes_at(name, width, scores, own):
    """Derivatives of the loss in the scores, for a row of class ``own``."""
    if name != "softmax":
        return np.array([slope_at(name, width, float(s), 1.0 if k == own else -1.0) for k, s in enumerate(scores)])
    top = max(scores)
    shares = [math.exp(s - top) for s in scores]
    total = math.fsum(shares)
    shares[own] = -math.fsum(share for k, share in enumerate(shares) if k != own)  # without cancellation
    return np.array(shares) / total


@dataclass
class ClassTwin(LeaderTwin):
    """One run; ``y`` is the index of a class, or -1/+1 for a single score."""

    weights: tuple[float, ...] = ()

    def gradient(self, row, y):
        if self.outputs == 1:
            weight = self.weights[int(y > 0)] if self.weights else 1.0
            return weight * super().gradient(row, y)
        row = np.asarray(row, dtype=float)
        length = math.hypot(*row)
        v = row * (self.x_bound / length) if length > self.x_bound else row
        v = np.append(v, 1.0) if self.intercept else v
        own = int(y)
        slopes = class_slopes_at(self.loss, self.width, self.x.reshape(self.outputs, -1) @ v, own)
        return np.outer(slopes * (self.weights[own] if self.weights else 1.0), v).ravel()


def class_twin_of(learner, plan, key, width, labels):
    """The twin of a run; ``width``: coordinates of a score, ``labels``: the classes in their order."""
    outputs = len(labels) if len(labels) > 2 or learner.loss == "softmax" else 1
    twin = leader_twin_of(learner, plan, key, outputs * width)
    weights = () if learner.class_weight is None else tuple(learner.class_weight.get(k, 1.0) for k in labels)
    loss = get_loss(learner.loss)
    words = {one.name: getattr(twin, one.name) for one in fields(twin) if one.name not in ("t", "released", "ways")}
    changed = {"loss": loss.name, "width": loss.width, "outputs": outputs}
    return ClassTwin(**words | changed, weights=weights)
